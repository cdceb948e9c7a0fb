"""Puts a finished bundle into every kind of Linux package, each with the list of what is in it and the licences."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import archives
import deb
import share_files
from build_environment import BuildEnvironment
from console import Console
from freezing import Build, unchanging

_HERE = Path(__file__).parent
SBOM, LICENCES = "sbom.cdx.json", "THIRD-PARTY-LICENCES.txt"


@dataclass(frozen=True, kw_only=True)
class Packer:
    """Makes packages of one build. `level` is how hard zstd tries."""

    work: Path
    root: Path
    environment: BuildEnvironment
    build: Build
    console: Console
    level: int

    def pack(self, tree: Path, edition: str, kinds: Sequence[str], output: Path) -> list[Path]:
        """Writes the packages of one edition into `output` and returns them, the lists among them."""
        output.mkdir(parents=True, exist_ok=True)
        name = f"quern-{'light-' if edition == 'light' else ''}{self.build.version}-linux-{os.uname().machine}"
        lists = self._list(tree, edition, output, name)
        share = self._share(edition)
        return [*lists, *(self._make(kind, tree, share, edition, output, name) for kind in kinds)]

    def _list(self, tree: Path, edition: str, output: Path, name: str) -> list[Path]:
        """Lists what is in the tree, beside the program and beside the packages."""
        target = self.work / f"lists-{edition}"
        build = self.build
        command = [str(self.environment.python), str(_HERE / "sbom.py"), str(tree), str(target), build.version,
                   build.commit, str(build.moment)]  # fmt: skip
        with self.console.step(f"Listing what is in the {edition} edition", "seconds"):
            self.console.run(command, failure="The list could not be made.", env=unchanging(build.moment))
        shutil.copyfile(self.root / "LICENSE", tree / "LICENSE")
        made = []
        for file, ending in ((SBOM, ".cdx.json"), (LICENCES, "-licences.txt")):
            shutil.copyfile(target / file, tree / file)
            made.append(Path(shutil.copyfile(target / file, output / (name + ending))))
        for path in (tree / "LICENSE", tree / SBOM, tree / LICENCES, tree):
            os.utime(path, (build.moment, build.moment))
        return made

    def _share(self, edition: str) -> Path:
        share = self.work / f"share-{edition}"
        with self.console.step("Drawing icons, writing the man page and completions", "seconds"):
            share_files.lay_out(share, root=self.root, environment=self.environment, build=self.build,
                                console=self.console)  # fmt: skip
        return share

    def _make(self, kind: str, tree: Path, share: Path, edition: str, output: Path, name: str) -> Path:
        with self.console.step(f"Packing the {edition} edition: {kind}", "minutes"):
            if kind == "tar":
                target = output / f"{name}-portable.tar.zst"
                archives.portable(tree, target, build=self.build, level=self.level)
            elif kind == "deb":
                package, machine = deb.package_name(edition), deb.machine()
                target = output / f"{package}_{self.build.version}_{machine}.deb"
                deb.make(tree, share, target, edition=edition, build=self.build, console=self.console,
                         level=self.level)  # fmt: skip
            else:
                target = output / f"{name}.AppImage"
                runtime = archives.appimage_runtime(self.work, python=self.environment.python, console=self.console)
                archives.appimage(tree, share, target, runtime=runtime, build=self.build, console=self.console,
                                  small=self.level > 9)  # fmt: skip
        return target
