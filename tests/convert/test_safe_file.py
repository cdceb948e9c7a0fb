"""A file is there whole under its name, or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from convert import safe_file
from convert.safe_file import (
    FolderInTheWay,
    NoRoom,
    NotWritten,
    SafeFiles,
    TargetExists,
    TargetInUse,
    TargetIsDevice,
    TargetIsSource,
    require_target,
)

unix = pytest.mark.skipif(os.name != "posix", reason="a process cannot be killed like this, and there are no pipes")
ROOT = Path(__file__).parent.parent.parent
_WRITER = """
import sys, time
from pathlib import Path
from convert.safe_file import SafeFiles
with SafeFiles([Path(sys.argv[1])]) as files:
    files.write(b"half" * 10000)
    print("writing", flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def write_set(targets: list[Path]) -> None:
    with SafeFiles(targets) as files:
        for number in range(len(targets)):
            files.write(b"after", file=number)


def write_and_be_interrupted(target: Path) -> None:
    with SafeFiles([target]) as files:
        files.write(b"after")
        raise KeyboardInterrupt


def test_files_appear_together_at_the_end(tmp_path: Path) -> None:
    targets = [tmp_path / "one", tmp_path / "two"]
    with SafeFiles(targets) as files:
        files.write(b"1", file=0)
        files.write(memoryview(b"22"), file=1)
        assert not any(target.exists() for target in targets)
    assert [target.read_bytes() for target in targets] == [b"1", b"22"]
    assert names(tmp_path) == ["one", "two"]


def test_until_then_they_can_be_opened_and_changed(tmp_path: Path) -> None:
    with SafeFiles([tmp_path / "model"]) as files:
        files.write(b"header, weights")
        files.overwrite(b"HEADER", at=0)
        files.write(b".")
        files.scratch("other").write_bytes(b"x")
        files.flush()
        assert files.parts()[0].read_bytes() == b"HEADER, weights."
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == b"HEADER, weights."


def test_a_failure_leaves_what_was_there_and_no_remains(tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    target.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        write_and_be_interrupted(target)
    assert target.read_bytes() == b"before"
    assert names(tmp_path) == ["model.gguf"]


@unix
def test_a_killed_process_leaves_no_half_file_and_the_next_one_takes_its_remains_away(tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(target)], stdout=subprocess.PIPE, cwd=ROOT, env=environment
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert not target.exists()
    assert len(names(tmp_path)) == 1
    with SafeFiles([tmp_path / "other"]):
        pass
    assert names(tmp_path) == ["other"]


@pytest.mark.parametrize("finished", [False, True])
def test_what_a_killed_process_had_put_aside_lies_where_it_was_unless_all_that_is_new_does(
    tmp_path: Path, finished: bool
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    hidden = tmp_path / f".quern-0123456789abcdef.{ended.pid}.part"
    (hidden / "replaced").mkdir(parents=True)
    for name in ("m-1.gguf", "m-2.gguf"):
        (hidden / "replaced" / name).write_text("old")
    (tmp_path / "m-2.gguf").write_text("new")
    (tmp_path / "m-1.gguf" if finished else hidden / "m-1.gguf").write_text("new")
    safe_file.remove_remains(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("m-1.gguf", "m-2.gguf"), "new" if finished else "old"
    )


def test_a_folder_that_a_killed_process_had_put_aside_lies_where_it_was(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    hidden = tmp_path / f".quern-0123456789abcdef.{ended.pid}.part"
    for folder, text in ((hidden / "replaced" / "model", "old"), (hidden / "folder", "new")):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(text)
    safe_file.remove_remains(tmp_path)
    assert (tmp_path / "model" / "config.json").read_text() == "old"
    assert not hidden.exists()


def test_remains_of_a_process_that_runs_are_left_alone(tmp_path: Path) -> None:
    part = tmp_path / f".quern-0123456789abcdef.{os.getppid()}.part"
    part.mkdir()
    safe_file.remove_remains(tmp_path)
    assert part.exists()


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritten, match="model") as refused, SafeFiles([tmp_path / "model"]) as files:
        files.write(b"x")
    assert "Free some room" in refused.value.info.hint
    assert names(tmp_path) == []


def test_room_is_looked_for_before(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match="room"):
        safe_file.require_room(tmp_path, 1 << 60)
    safe_file.require_room(tmp_path, 1)


def test_the_source_is_never_the_target(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(b"")
    (tmp_path / "link").symlink_to(source)
    os.link(source, tmp_path / "twin")
    for name in ("source.gguf", "link", "twin", "./source.gguf"):
        with pytest.raises(TargetIsSource):
            require_target(tmp_path / name, sources=[source], replace=True)
    require_target(tmp_path / "new.gguf", sources=[source], replace=False)


def test_files_of_a_folder_that_is_read_are_never_the_target(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(TargetIsSource):
        require_target(tmp_path / "model" / "config.json", sources=[tmp_path / "model"], replace=True)
    require_target(tmp_path / "model" / "new.gguf", sources=[tmp_path / "model"], replace=True)


def test_what_is_there_is_replaced_only_when_that_was_agreed(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    with pytest.raises(TargetExists):
        require_target(tmp_path / "old", sources=[], replace=False)
    require_target(tmp_path / "old", sources=[], replace=True)
    with pytest.raises(NotWritten):
        require_target(tmp_path / "missing" / "new", sources=[], replace=False)


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotWritten), SafeFiles([tmp_path / "missing" / "file"]):
        pass


def test_a_name_that_no_file_can_have_leaves_no_remains(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="null"), SafeFiles([tmp_path / "a\0b"]):
        pass
    assert names(tmp_path) == []


def test_the_longest_names_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("模" * 85)  # 255 bytes
    with SafeFiles([target]) as files:
        files.write(b"x")
    assert target.read_bytes() == b"x"


def test_a_folder_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").mkdir()
    with pytest.raises(FolderInTheWay):
        require_target(tmp_path / "model.gguf", sources=[], replace=True)


@unix
def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(os.devnull)
    for target in (Path(os.devnull), tmp_path / "pipe", tmp_path / "link"):
        for folder in (True, False):
            with pytest.raises(TargetIsDevice):
                require_target(target, sources=[], replace=True, folder=folder)


def in_use(winerror: int, refuses: Callable[[Path, Path], bool]) -> Callable[[object, object], None]:
    """Returns an `os.replace` that refuses as Windows does where a program has a file open."""
    replace = os.replace

    def replaced(source: object, target: object) -> None:
        if refuses(Path(str(source)), Path(str(target))):
            error = PermissionError(errno.EACCES, "Access is denied")
            error.winerror = winerror  # type: ignore[misc]
            raise error
        replace(source, target)  # type: ignore[arg-type]

    return replaced


def test_a_mapped_file_is_put_aside_where_it_cannot_be_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model.gguf"
    target.write_bytes(b"before")
    monkeypatch.setattr(os, "replace", in_use(5, lambda _source, target: target.exists()))
    with SafeFiles([target]) as files:
        files.write(b"after")
    assert target.read_bytes() == b"after"
    assert names(tmp_path) == ["model.gguf"]


@pytest.mark.parametrize("winerror", [5, 32, 1224])
def test_a_file_that_is_in_use_stays_and_is_told(
    winerror: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model.gguf"
    target.write_bytes(b"before")
    monkeypatch.setattr(os, "replace", in_use(winerror, lambda source, to: target in (source, to)))
    with pytest.raises(TargetInUse, match="in use") as refused, SafeFiles([target]) as files:
        files.write(b"after")
    assert "Unload the model" in refused.value.info.hint
    assert target.read_bytes() == b"before"
    assert names(tmp_path) == ["model.gguf"]


def test_of_a_set_either_all_files_are_replaced_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = [tmp_path / f"model-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for target in targets[:2]:
        target.write_bytes(b"before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", in_use(32, lambda source, to: to == targets[1] and "replaced" not in str(source)))
        with pytest.raises(TargetInUse, match="00002"):
            write_set(targets)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        target.name: b"before" for target in targets[:2]
    }

    write_set(targets)
    assert [target.read_bytes() for target in targets] == [b"after"] * 3
    assert names(tmp_path) == [target.name for target in targets]


def test_a_set_is_never_old_and_new_with_its_first_file_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [tmp_path / name for name in ("1", "2", "3")]
    for target in targets:
        target.write_bytes(b"before")
    seen, replace = [], os.replace

    def watched(source: object, target: object) -> None:
        replace(source, target)  # type: ignore[arg-type]
        seen.append([target.read_bytes() if target.exists() else b"" for target in targets])

    monkeypatch.setattr(os, "replace", watched)
    write_set(targets)
    assert len(seen) == 6
    assert all(not state[0] or state == [b"after"] * 3 for state in seen)
