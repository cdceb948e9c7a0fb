"""Two builds of one commit are alike to the last byte, wherever, by whomever and in whatever language they are made.

Run by `make package-test` over what `make package` left in build/package (QUERN_PACKAGE_WORK names another folder).
The second build is made of a clone in another folder, with the first one's environment and llama.cpp.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundle_checks import differences, file_hash
from installed import ROOT

pytestmark = [pytest.mark.package, pytest.mark.timeout(3600)]
WORK = Path(os.environ.get("QUERN_PACKAGE_WORK", ROOT / "build" / "package"))


@pytest.fixture(scope="module")
def first() -> Path:
    """The folder that the first build was made in."""
    made_of = WORK / "data" / "resources" / "build.json"
    if not (made_of.is_file() and (WORK / "quern").is_dir()):
        pytest.skip(f"{WORK} holds no build; `make package` makes it")
    commit = json.loads(made_of.read_text(encoding="utf-8"))["commit"]
    if not commit or commit.endswith("+") or not _git("rev-parse", "HEAD").startswith(commit):
        pytest.skip(f"the build in {WORK} is not of the commit that is checked out here")
    return WORK


@pytest.fixture(scope="module")
def second(first: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the second build is made in: another place, another person, another language and time zone."""
    folder = tmp_path_factory.mktemp("elsewhere")
    clone, work, home = folder / "checkout", folder / "work", folder / "home"
    _git("clone", "-q", str(ROOT), str(clone))
    for place in (clone / "build", work, home):
        place.mkdir()
    for source in (ROOT / "build").glob("llama-cpp-python-*"):
        (clone / "build" / source.name).symlink_to(source.resolve())
    (work / "venv").symlink_to((first / "venv").resolve())
    _package(clone, work, "--tree-only", HOME=str(home))
    return work


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def _package(checkout: Path, work: Path, *words: str, **environment: str) -> None:
    command = [sys.executable, "packaging/package.py", "--work", str(work), *words]
    environ = {
        **os.environ, "QUERN_WHEELS": os.environ.get("QUERN_WHEELS", str(ROOT / "build" / "wheels")),
        "TZ": "Pacific/Apia", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "7", **environment,
    }  # fmt: skip
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, check=False, umask=0o077)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_trees_are_alike(first: Path, second: Path) -> None:
    listed = ("LICENSE", "THIRD-PARTY-LICENCES.txt", "sbom.cdx.json")  # laid there when packages are made
    differing = differences(first / "quern", second / "quern")
    assert [line for line in differing if not line.endswith(listed)] == []


@pytest.mark.parametrize("kind", ["tar", "deb", "appimage"])
def test_the_packages_are_alike(first: Path, second: Path, tmp_path: Path, kind: str, edition: str) -> None:
    hashes = []
    for work in (first, second):
        output = tmp_path / work.name
        words = ("--packages-only", "--quick", "--kind", kind, "--edition", edition, "--output", str(output))
        checkout = ROOT if work == first else second.parent / "checkout"
        _package(checkout, work, *words)
        hashes.append({path.name: file_hash(path) for path in output.iterdir()})
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 4  # the package, its lists, the sums
