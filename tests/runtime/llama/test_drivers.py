"""Whether drivers for graphics cards are there, found without loading one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.llama import drivers


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A system without any driver; returns its environment."""
    monkeypatch.setattr(drivers.sys, "platform", "linux")
    monkeypatch.setattr(drivers, "_CARDS", tmp_path / "dri")
    monkeypatch.setattr(drivers, "_NVIDIA", tmp_path / "nvidia-version")
    monkeypatch.setattr(drivers, "_SYSTEM_FOLDERS", (tmp_path / "etc",))
    return {"HOME": str(tmp_path / "home"), "XDG_DATA_DIRS": str(tmp_path / "share")}


def manifest(folder: Path) -> Path:
    file = folder / "vulkan" / "icd.d" / "card.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return file


def test_a_system_without_drivers_has_none(folders: dict[str, str]) -> None:
    assert drivers.identity("vulkan", folders) == ""
    assert drivers.identity("cuda", folders) == ""


@pytest.mark.parametrize("place", ["etc", "share", "home/.local/share"])
def test_a_manifest_is_found_where_the_loader_looks(folders: dict[str, str], tmp_path: Path, place: str) -> None:
    assert str(manifest(tmp_path / place)) in drivers.identity("vulkan", folders)


def test_named_drivers_are_the_only_ones(folders: dict[str, str], tmp_path: Path) -> None:
    manifest(tmp_path / "share")
    own = manifest(tmp_path / "own")
    found = drivers.identity("vulkan", {**folders, "VK_DRIVER_FILES": str(own)})
    assert str(own) in found
    assert str(tmp_path / "share") not in found
    assert drivers.identity("vulkan", {**folders, "VK_DRIVER_FILES": "/nowhere.json"}) == ""


def test_another_driver_another_card_and_another_choice_are_told_apart(
    folders: dict[str, str], tmp_path: Path
) -> None:
    file = manifest(tmp_path / "share")
    chosen = {**folders, "GGML_VK_VISIBLE_DEVICES": "1"}
    seen = {drivers.identity("vulkan", folders), drivers.identity("vulkan", chosen)}
    os.utime(file, ns=(1, 1))
    seen.add(drivers.identity("vulkan", folders))
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri" / "renderD128").touch()
    seen.add(drivers.identity("vulkan", folders))
    assert len(seen) == 4


def test_the_nvidia_driver_is_known_by_its_version(folders: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "nvidia-version").write_text("NVRM version: 580.1")
    assert "580.1" in drivers.identity("cuda", folders)


def test_a_kind_of_which_nothing_is_known_is_tried(folders: dict[str, str]) -> None:
    assert drivers.identity("metal", folders) == "metal"
