"""Where things lie, and files that are replaced whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runtime import places as places_module
from runtime.places import (
    NoHome,
    UnwritableFile,
    UnwritablePlace,
    atomic_write,
    make_folder,
    path_of,
    places,
    replace_file,
    require_replaceable,
    set_aside,
    shown_path,
    spelled_path,
)
from runtime.saved_state import StateNotSaved, written_beside
from small_disk import make_read_only, small_disk

STRANGE = "Ünï 模型 é🦙 'q\" %d"


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".quern-")]


def test_everything_lies_below_quern_home(quern_home: Path) -> None:
    found = places()
    assert found.settings_file == quern_home / "settings.json"
    assert found.chats_file == quern_home / "chats.db"
    assert (found.models, found.cache, found.logs) == tuple(quern_home / name for name in ("models", "cache", "logs"))
    assert not quern_home.exists(), "asking where things lie makes nothing"


def test_a_tilde_and_a_relative_home_become_whole_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    monkeypatch.setenv("QUERN_HOME", "~/quern")
    assert places().data == tmp_path / "somebody" / "quern"
    monkeypatch.setenv("QUERN_HOME", "portable")
    assert places().data == tmp_path / "portable"


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of the XDG specification")
def test_without_quern_home_the_system_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUERN_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / STRANGE))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = places()
    assert found.settings_file == tmp_path / STRANGE / ".config" / "quern" / "settings.json"
    assert found.chats_file == tmp_path / STRANGE / ".local" / "share" / "quern" / "chats.db"


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of the XDG specification")
def test_no_home_at_all_is_a_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUERN_HOME")
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # an account without an entry and without HOME
    with pytest.raises(NoHome, match="QUERN_HOME"):
        places()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / STRANGE / "settings.json"
    atomic_write(target, b"old")
    atomic_write(target, b"new content")
    assert target.read_bytes() == b"new content"
    assert leftovers(target.parent) == []


def test_a_name_of_250_bytes_leaves_room_for_the_temporary_one(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250)
    atomic_write(target, b"x")
    assert target.read_bytes() == b"x"


def test_a_name_too_long_for_the_disk_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnwritablePlace, match="the name is too long"):
        atomic_write(tmp_path / ("n" * 300), b"x")
    assert leftovers(tmp_path) == []


def test_a_link_stays_a_link_and_rights_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    atomic_write(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "the disk is read-only"),
        (errno.EACCES, "no permission"),
        (errno.EIO, "the disk reports an error"),
        (errno.ENETDOWN, os.strerror(errno.ENETDOWN)),
    ],
)
def test_a_write_that_fails_leaves_the_old_file_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    target = tmp_path / "settings.json"
    target.write_bytes(b"old and good")

    def failing(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(places_module.os, "fsync", failing)
    with pytest.raises(UnwritablePlace) as caught:
        atomic_write(target, b"new")
    assert words in str(caught.value)
    assert str(target) in str(caught.value)
    assert target.read_bytes() == b"old and good"
    assert leftovers(tmp_path) == []


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "quern").write_text("a file")
    with pytest.raises(UnwritablePlace, match="a file stands where a folder should be"):
        atomic_write(tmp_path / "quern" / "settings.json", b"x")
    with pytest.raises(UnwritablePlace, match="a file stands where a folder should be"):
        make_folder(tmp_path / "quern")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        atomic_write(disk / "settings.json", b"old and good")
        with pytest.raises(UnwritablePlace, match="the disk is full"):
            atomic_write(disk / "settings.json", b"x" * 200_000)
        assert (disk / "settings.json").read_bytes() == b"old and good"
        assert leftovers(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_damaged_files_are_kept_under_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for content in ("first", "second"):
        path.write_text(content)
        set_aside(path)
    kept = sorted(tmp_path.iterdir())
    assert [file.name for file in kept] == ["settings.json.damaged-1", "settings.json.damaged-2"]
    assert [file.read_text() for file in kept] == ["first", "second"]


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8 exist on Linux")
def test_a_name_that_is_not_utf8_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.gguf")
    assert shown_path(path).endswith("caf�.gguf")
    atomic_write(path, b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize(
    "name", [b"plain.gguf", "é 模型 🦙.gguf".encode(), b"caf\xe9 100%.gguf", b"bytes:x", b"\xff\xfe"]
)
def test_any_file_name_survives_the_way_through_json(name: bytes) -> None:
    path = Path("/models") / os.fsdecode(name)
    spelled = spelled_path(path)
    assert json.loads(json.dumps(spelled, ensure_ascii=False).encode("utf-8")) == spelled
    assert path_of(spelled) == path


def test_a_file_that_a_person_names_is_replaced_whole_or_refused_with_the_reason(tmp_path: Path) -> None:
    replace_file(tmp_path / "r.json", b"old")
    replace_file(tmp_path / "r.json", b"new")
    assert (tmp_path / "r.json").read_bytes() == b"new"
    with pytest.raises(UnwritableFile, match="no such folder"):
        replace_file(tmp_path / "folder" / "r.json", b"new")
    assert os.listdir(tmp_path) == ["r.json"]
    for no_file in (tmp_path, Path(os.devnull)):
        with pytest.raises(UnwritableFile, match="no ordinary file"):
            replace_file(no_file, b"new")


def test_a_named_file_is_refused_beforehand_where_there_is_no_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(UnwritableFile, match="no permission"):
        require_replaceable(tmp_path / "r.json")


def test_a_disk_that_may_only_be_read_is_not_called_a_lack_of_permission(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        make_read_only(disk)
        for refused in (require_replaceable, lambda path: replace_file(path, b"new")):
            with pytest.raises(UnwritableFile, match="the disk is read-only"):
                refused(disk / "r.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_what_is_no_ordinary_file_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UnwritablePlace, match="no ordinary file"):
        atomic_write(pipe, b"settings")
    with pytest.raises(StateNotSaved, match="no ordinary file"), written_beside(pipe) as part:
        part.write_bytes(b"state")
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a permission there")
def test_what_no_disk_takes_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for name, why in (("loop", "symbolic links"), ("x" * 300, "name is too long")):
        with pytest.raises(UnwritableFile, match=why):
            require_replaceable(tmp_path / name)
