"""The Debian package on a machine with nothing on it and without a network: it chats, converts, compares and opens.

Run by `make package-test`, as root. The bare machine is made once for each edition.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bare_machine import PERSON, BareMachine, reached_out, require_tools, watched
from installed import QUESTION, deb_pattern, package, shown_on_a_screen

pytestmark = [pytest.mark.package, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def machine(edition: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareMachine]:
    require_tools()
    file = package(deb_pattern(edition))
    made = BareMachine(tmp_path_factory.mktemp("bare"))
    made.install(file)
    yield made
    shutil.rmtree(made.root, ignore_errors=True)


def test_the_machine_is_bare_and_cut_off(machine: BareMachine) -> None:
    assert not [name for name in ("python3", "gcc", "cc", "pip", "Xorg") if machine.has(name)]
    quern = machine.quern()
    inside = subprocess.run([*quern.inside, "/bin/cat", "/proc/net/dev"], capture_output=True, text=True, check=True)
    names = [line.split(":")[0].strip() for line in inside.stdout.splitlines() if ":" in line]
    assert names == ["lo"]


def test_the_doctor_finds_everything_in_order(machine: BareMachine) -> None:
    report = machine.quern().json("doctor")
    assert [check for check in report["checks"] if not check["ok"]] == []


def test_both_engines_answer_and_nobody_is_called(machine: BareMachine, edition: str, tmp_path: Path) -> None:
    log = tmp_path / "strace.log"
    quern = watched(machine.quern(), log)
    assert "4" in quern.says("chat", "starter", *QUESTION)
    assert reached_out(log.read_text()) == []
    if edition == "full":
        assert "4" in quern.says("chat", "starter", "--engine", "native", *QUESTION)
        assert reached_out(log.read_text()) == []


def test_a_model_is_converted_and_compared_and_nobody_is_called(machine: BareMachine, tmp_path: Path) -> None:
    log = tmp_path / "strace.log"
    quern = watched(machine.quern(), log)
    target = f"/home/{PERSON}/模型 q8_0.gguf"
    (machine.home / "text.txt").write_text("The quern is a mill of two stones that people turned by hand. " * 40)
    assert quern.run("convert", "starter", target, "--type", "q8_0", "--yes", seconds=900).returncode == 0
    assert reached_out(log.read_text()) == []
    compared = quern.json("compare", "starter", target, "--text", f"/home/{PERSON}/text.txt")
    assert compared["kl"]["mean"] < 0.05
    assert reached_out(log.read_text()) == []


def test_the_window_opens_on_a_screen_and_nobody_is_called(machine: BareMachine, tmp_path: Path) -> None:
    log = tmp_path / "strace.log"
    assert shown_on_a_screen(watched(machine.quern(), log))
    assert reached_out(log.read_text()) == []


def test_removing_it_leaves_what_the_person_made(machine: BareMachine, edition: str) -> None:
    def kept() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in machine.home.rglob("*") if path.is_file()}

    before = kept()
    assert [path for path in before if path.name == "chats.db"]

    machine.remove("quern" if edition == "full" else "quern-light")

    assert not machine.has("quern")
    assert kept() == before


def test_what_counts_as_calling_somebody() -> None:
    log = """
    12 connect(5, {sa_family=AF_UNIX, sun_path="/tmp/.X11-unix/X9"}, 20) = 0
    12 connect(5, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
    12 connect(5, {sa_family=AF_INET6, sin6_port=htons(80), inet_pton(AF_INET6, "::1", &sin6_addr)}, 28) = 0
    12 sendto(5, "x", 1, 0, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("192.0.2.1")}, 16) = 1
    """
    assert [line.split()[1][:6] for line in reached_out(log)] == ["sendto"]
