"""How a copy of Quern knows what it is: package or source, edition, portable."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import resources
from runtime import engines
from runtime.installation import (
    Build,
    FullEditionNeeded,
    Installation,
    TorchMissing,
    full_version,
    installation,
    repair_advice,
    require_torch,
    restore_library_path,
)
from runtime.params import LoadParams
from runtime.places import places


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    installation.cache_clear()
    yield
    installation.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package's folder, in which this process seems to run."""
    folder = tmp_path / "Ünï 模型" / "quern-0.1.0"
    (folder / "resources").mkdir(parents=True)
    (folder / "resources" / "build.json").write_text(
        json.dumps({"version": "0.1.0", "commit": "1a2b3c4d5e", "date": "2026-11-29"})
    )
    (folder / "quern").touch()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(folder / "quern"))
    monkeypatch.setattr(resources, "path", lambda *parts: folder.joinpath("resources", *parts))
    return folder


def _without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_a_copy_from_source_is_no_package_and_not_portable() -> None:
    assert not installation().is_package
    assert installation().portable_home is None
    assert installation().edition == ""
    assert "(" not in full_version()


def test_a_package_names_its_build_and_edition(package: Path) -> None:
    assert installation().build == Build("0.1.0", "1a2b3c4d5e", "2026-11-29")
    assert full_version().endswith("(1a2b3c4d5e, 2026-11-29, full edition)")


def test_a_portable_copy_keeps_everything_in_its_own_folder(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUERN_HOME", raising=False)
    assert places().data != package / "data"
    (package / "portable").touch()
    installation.cache_clear()
    where = places()
    assert {where.config, where.data, where.state} == {package / "data"}
    assert where.models == package / "data" / "models"


def test_a_named_home_wins_over_the_portable_folder(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (package / "portable").touch()
    monkeypatch.setenv("QUERN_HOME", str(tmp_path / "named"))
    assert places().data == tmp_path / "named"


def test_the_mark_means_nothing_for_a_copy_from_source() -> None:
    facts = Installation(is_package=False, program=Path("/"), has_torch=True, build=Build())
    assert facts.portable_home is None


def test_the_light_edition_says_what_needs_the_full_one(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _without_torch(monkeypatch)
    assert installation().edition == "light edition, without torch"
    with pytest.raises(FullEditionNeeded, match="needs the full edition"):
        engines.open_engine(tmp_path / "model.gguf", LoadParams(engine="native"))
    with pytest.raises(FullEditionNeeded):
        engines.open_embedder(tmp_path / "model.gguf", LoadParams(engine="native"))
    with pytest.raises(FullEditionNeeded):
        engines.open_inspector(tmp_path / "model.gguf", LoadParams())


def test_from_source_a_missing_torch_is_a_matter_of_the_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_torch(monkeypatch)
    with pytest.raises(TorchMissing) as error:
        require_torch("This")
    assert "make run" in error.value.info.hint


def test_advice_fits_how_the_copy_came_here(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Install Quern again" in repair_advice()
    monkeypatch.delattr(sys, "frozen")
    installation.cache_clear()
    assert "make run" in repair_advice()


@pytest.mark.parametrize("before", [None, "/opt/lib"])
def test_programs_that_a_package_starts_get_the_search_path_from_before(
    package: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(package / "_internal"))
    if before:
        monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", before)
    restore_library_path()
    assert os.environ.get("LD_LIBRARY_PATH") == before
    assert "LD_LIBRARY_PATH_ORIG" not in os.environ


def test_from_source_the_search_path_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    restore_library_path()
    assert os.environ["LD_LIBRARY_PATH"] == "/opt/lib"
