"""One process for each profile, with real second processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from desktop.single_instance import AlreadyRunning, SingleInstance
from desktop.store.database import ChatDatabase

Start = Callable[..., subprocess.Popen[str]]

SECOND = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from desktop.single_instance import SingleInstance
from runtime.errors import UserError
app = QCoreApplication([])
instance = SingleInstance(Path({profile!r}))
try:
    mine = instance.acquire({open!r})
except UserError as error:
    print(error.info.code, flush=True)
    sys.exit(2)
print("mine" if mine else "raised", flush=True)
if mine and {stay!r}:
    if {deaf!r}:
        import time
        time.sleep(60)
    app.exec()
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return tmp_path / "Ünï 模型 é🦙"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts another process that wants the profile."""
    processes: list[subprocess.Popen[str]] = []

    def make(profile: Path, *, open_path: str = "", stay: bool = False, deaf: bool = False) -> subprocess.Popen[str]:
        program = SECOND.format(path=sys.path, profile=str(profile), open=open_path, stay=stay, deaf=deaf)
        processes.append(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield make
    for process in processes:
        process.kill()
        process.communicate()


def first_word(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_start_raises_the_first_window_and_ends(qtbot: QtBot, profile: Path, start: Start) -> None:
    first = SingleInstance(profile)
    assert first.acquire()
    with qtbot.waitSignal(first.raised, timeout=20_000) as raised:
        second = start(profile, open_path="模型 x.gguf")
    assert raised.args == [os.path.abspath("模型 x.gguf")]
    assert first_word(second) == "raised"
    assert second.wait(timeout=120) == 0
    first.release()


def test_the_profile_is_free_again_after_a_clean_end(qtbot: QtBot, profile: Path) -> None:
    first, second = SingleInstance(profile), SingleInstance(profile)
    assert first.acquire()
    first.release()
    assert second.acquire()
    second.release()
    second.release()


def test_a_killed_process_leaves_the_profile_free(qtbot: QtBot, profile: Path, start: Start) -> None:
    killed = start(profile, stay=True)
    assert first_word(killed) == "mine"
    killed.kill()
    killed.wait()
    assert (profile / "quern.lock").exists()
    instance = SingleInstance(profile)
    assert instance.acquire()
    with qtbot.waitSignal(instance.raised, timeout=20_000):
        start(profile)
    instance.release()


def test_a_lock_with_our_own_process_number_is_an_old_one(qtbot: QtBot, profile: Path, start: Start) -> None:
    killed = start(profile, stay=True)
    assert first_word(killed) == "mine"
    killed.kill()
    killed.wait()
    lock = profile / "quern.lock"
    name = Path(sys.executable).resolve().name
    _pid, _name, *rest = lock.read_text().split("\n")
    lock.write_text("\n".join([str(os.getpid()), name, *rest]))
    instance = SingleInstance(profile)
    assert instance.acquire()
    instance.release()


def test_different_profiles_run_side_by_side(qtbot: QtBot, profile: Path, tmp_path: Path) -> None:
    one, other = SingleInstance(profile), SingleInstance(tmp_path / "other")
    assert one.acquire()
    assert other.acquire()
    one.release()
    other.release()


def test_a_link_to_the_profile_is_the_same_profile(
    qtbot: QtBot, profile: Path, tmp_path: Path, start: Start
) -> None:
    profile.mkdir()
    link = tmp_path / "link"
    link.symlink_to(profile)
    first = SingleInstance(profile)
    assert first.acquire()
    with qtbot.waitSignal(first.raised, timeout=20_000):
        start(link)
    first.release()


def test_a_process_that_does_not_answer_is_named(
    qtbot: QtBot, profile: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desktop.single_instance._PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr("desktop.single_instance._ANSWER_MS", 200)
    deaf = start(profile, stay=True, deaf=True)
    assert first_word(deaf) == "mine"
    with pytest.raises(AlreadyRunning, match=str(deaf.pid)):
        SingleInstance(profile).acquire()


def test_a_profile_that_cannot_be_written_stops_nobody(qtbot: QtBot, profile: Path) -> None:
    profile.write_text("a file where the folder should be")
    one, other = SingleInstance(profile), SingleInstance(profile)
    assert one.acquire()
    assert other.acquire()
    one.release()
    other.release()


@pytest.mark.parametrize("message", [b"\n", b"raise\n", b"[]\n", b'{"raise": 1, "open": 2}\n', b"[" * 60_000 + b"\n",
                                     b"x" * 200_000])  # fmt: skip
def test_nonsense_on_the_socket_raises_nothing(qtbot: QtBot, profile: Path, message: bytes) -> None:
    instance = SingleInstance(profile)
    raised: list[str] = []
    instance.raised.connect(raised.append)
    assert instance.acquire()
    socket = QLocalSocket()
    socket.connectToServer(instance._name)
    assert socket.waitForConnected(5000)
    with qtbot.waitSignal(socket.disconnected, timeout=10_000):
        socket.write(message)
    assert raised == []
    instance.release()


def test_two_processes_never_write_the_same_chats(qtbot: QtBot, profile: Path, start: Start) -> None:
    """Of several starts at once exactly one gets the profile."""
    starts = [start(profile, stay=True) for _n in range(4)]
    words = [first_word(process) for process in starts]
    assert sorted(words) == ["mine", "raised", "raised", "raised"]
    with closing(ChatDatabase(profile / "chats.db")) as database:
        assert database.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
