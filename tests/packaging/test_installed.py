"""The packages, as people meet them: doctor, an answer, a conversion, the window, and places that are not kind.

Run by `make package-test` over what `make package` made. Each edition is unpacked once for the whole run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from bundle_checks import files_below, from_outside, native_files, too_new, twice
from deb import OPTIONAL
from installed import QUESTION, Installed, first_paint, moved, shown_on_a_screen, unpacked

pytestmark = [pytest.mark.package, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(edition: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked application, in a folder whose name is not ASCII, without the mark of portable ones."""
    unpacked_at = unpacked(edition, tmp_path_factory.mktemp("Ünï 模型 é"))
    (unpacked_at / "portable").unlink()
    return unpacked_at


@pytest.fixture
def quern(folder: Path, tmp_path: Path) -> Installed:
    return Installed(folder / "quern", tmp_path / "家 of Zoë")


def test_the_doctor_finds_everything_in_order(quern: Installed, edition: str) -> None:
    report = quern.json("doctor")
    broken = [check for check in report["checks"] if not check["ok"]]
    assert report["ok"]
    assert broken == []
    found = {check["name"]: check["found"] for check in report["checks"]}
    assert edition in found["version"]
    assert ("wrote 8" in found["native"]) == (edition == "full")


def test_the_starter_answers(quern: Installed) -> None:
    assert "4" in quern.says("chat", "starter", *QUESTION)


def test_quern_s_own_engine_answers_or_says_what_it_needs(quern: Installed, edition: str) -> None:
    done = quern.run("chat", "starter", "--engine", "native", *QUESTION)
    if edition == "full":
        assert done.returncode == 0
        assert "4" in done.stdout
    else:
        assert done.returncode == 2
        assert "needs the full edition" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["inspect", "imatrix", "convert"])
def test_what_the_light_edition_cannot_do_names_the_full_one(
    quern: Installed, edition: str, tmp_path: Path, command: str
) -> None:
    if edition == "full":
        pytest.skip("the full edition has torch")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))
    (folder / "pytorch_model.bin").write_bytes(b"PK\3\4")
    target = str(tmp_path / "out.gguf")
    words = {
        "inspect": ("starter", "-p", "The mill."), "imatrix": ("starter", "-o", target),
        "convert": (str(folder), target, "--type", "q8_0", "--yes"),
    }  # fmt: skip
    done = quern.run(command, *words[command])
    assert done.returncode == 2
    assert "needs the full edition" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path(target).exists()


def test_a_model_is_converted_and_compared(quern: Installed, tmp_path: Path) -> None:
    target = tmp_path / "模型 q8_0.gguf"
    assert quern.run("convert", "starter", str(target), "--type", "q8_0", "--yes").returncode == 0
    told = quern.json("info", str(target))
    assert "Q8_0" in str(told)
    compared = quern.json("compare", "starter", str(target), "--text", str(_short_text(tmp_path)))
    assert compared["kl"]["mean"] < 0.05


def _short_text(folder: Path) -> Path:
    file = folder / "text.txt"
    file.write_text("The quern is a mill of two stones that people turned by hand to grind their grain. " * 30)
    return file


def test_nothing_is_there_twice_too_new_or_missing(folder: Path) -> None:
    files = list(native_files(folder))
    assert twice(folder) == []
    assert too_new(files) == []
    spared = {library for file in files for library in file.elf.needed if any(p.search(file.name) for p in OPTIONAL)}
    missing = [library for library in from_outside(files) if library not in spared and not _loads(library)]
    assert missing == []


def _loads(library: str) -> bool:
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return f"\t{library} " in listed


def test_nothing_in_it_names_the_machine_that_built_it(folder: Path) -> None:
    traces = [file.name for file in native_files(folder) if any(place.startswith("/") for place in file.elf.search)]
    assert traces == []


def test_licences_and_the_list_of_parts_come_with_it(folder: Path, edition: str) -> None:
    licences = (folder / "THIRD-PARTY-LICENCES.txt").read_text(encoding="utf-8")
    parts = (folder / "sbom.cdx.json").read_text(encoding="utf-8")
    for name in ("PySide6", "llama", "CPython", "WenQuanYi", "SmolLM2"):
        assert name in licences
        assert name in parts
    assert ("torch 2" in licences) == (edition == "full")
    assert "NOASSERTION" not in licences


def test_a_read_only_folder_is_enough(quern: Installed, folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in files_below(folder)}
    quern.says("chat", "starter", *QUESTION)
    quern.says("models")
    assert {path: path.stat().st_mtime_ns for path in files_below(folder)} == before


def test_processor_code_that_dies_in_use_gives_way_to_other_code(quern: Installed) -> None:
    before = variant_of(quern)
    quern.home.mkdir(exist_ok=True)
    chat = quern.command("chat", "starter", "-p", "Tell a long story.", "--max-tokens", "4000", "--temperature", "0")
    process = subprocess.Popen(chat, env=quern.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.read(1)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    engine = next(one for one in family if any("libggml-cpu-" in map.path for map in one.memory_maps()))
    engine.send_signal(signal.SIGILL)
    _out, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "instruction that this processor does not have" in said
    assert variant_of(quern) not in ("", before)
    assert f"Left out: {before}, it ended with an illegal instruction while it was in use" in quern.says("doctor")


def variant_of(quern: Installed) -> str:
    """Returns the name of the processor code in use."""
    found = re.search(r"Processor code: (\w+)", quern.says("doctor"))
    return found[1] if found else ""


def test_no_stream_is_needed(quern: Installed) -> None:
    closed = f'"{quern.program}" models <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", closed], env=quern.environ(), check=False, timeout=120).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("options", ["noexec", "size=16k"])
def test_a_temporary_folder_that_runs_nothing_or_is_full_is_no_obstacle(
    quern: Installed, tmp_path: Path, options: str
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        if options.startswith("size"):
            (folder / "full").write_bytes(b"x" * 16_384)
        answer = quern.with_environment(TMPDIR=str(folder)).says("chat", "starter", *QUESTION)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert "4" in answer


def test_two_people_at_once(folder: Path, tmp_path: Path) -> None:
    people = [Installed(folder / "quern", tmp_path / name) for name in ("one", "two")]
    running = []
    for person in people:
        person.home.mkdir()
        running.append(subprocess.Popen(person.command("chat", "starter", *QUESTION), env=person.environ(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))  # fmt: skip
    answers = [process.communicate(timeout=600)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert answers[0] == answers[1]


def test_a_portable_copy_can_be_moved(edition: str, tmp_path: Path) -> None:
    copy = unpacked(edition, tmp_path / "first")
    home = tmp_path / "home"
    quern = Installed(copy / "quern", home)
    assert "4" in quern.says("chat", "starter", *QUESTION)
    quern = Installed(moved(copy, tmp_path / "second place 模型" / "Quern é"), home)
    assert "4" in quern.says("chat", "starter", *QUESTION)
    where = {check["name"]: check["found"] for check in quern.json("doctor")["checks"]}["places"]
    assert "second place 模型" in where
    assert not (home / ".config" / "quern").exists()
    assert not (home / ".local" / "share" / "quern").exists()


def test_the_window_opens_and_its_children_are_few(quern: Installed) -> None:
    process = first_paint(quern)
    try:
        time.sleep(3)
        family = psutil.Process(process.pid).children(recursive=True)
        windows = [child for child in family if len(child.cmdline()) == 1]
        assert windows == []
        assert len(family) <= 6
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in family)


def test_the_window_opens_on_a_screen(quern: Installed) -> None:
    assert shown_on_a_screen(quern)
