"""How llama.cpp is loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.llama import files, library
from runtime.params import LoadParams


def in_new_process(code: str, **environment: str) -> str:
    """Runs code in a fresh interpreter and returns what it printed."""
    import os

    inherited = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=inherited | environment
    )
    return done.stdout.strip()


def test_spinning_is_bounded_before_openmp_is_loaded() -> None:
    code = """
import ctypes, os
from runtime.llama import library
assert "libgomp" not in open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else True
library.load_library()
print(os.environ["GOMP_SPINCOUNT"])
"""
    assert in_new_process(code) == "2000"
    assert in_new_process(code, GOMP_SPINCOUNT="5") == "5"


@pytest.mark.skipif(sys.platform != "linux", reason="the library is named as Linux names it")
def test_the_last_that_an_aborting_library_says_is_its_reason() -> None:
    code = """
import ctypes
from runtime.llama import files, library
library.load_library()
ctypes.CDLL(str(files.library_folder() / "libggml-base.so")).ggml_abort(b"file.cpp", 1, b"the reason")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.strip().endswith("file.cpp:1: the reason")


def test_the_high_level_package_and_its_imports_stay_out() -> None:
    code = """
import sys
from runtime.llama import library
library.load_library()
print([name for name in ("numpy", "jinja2", "diskcache", "torch", "llama_cpp.llama") if name in sys.modules])
"""
    assert in_new_process(code) == "[]"


def test_the_processor_is_among_the_devices() -> None:
    assert any(name.startswith("CPU") for name in library.device_names())
    assert "llama.cpp" in library.build_description()
    assert any(free <= total > 0 for free, total in map(library.device_memory, library.devices()))


def test_a_missing_package_is_a_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(files.EngineLibraryMissing, match="llama-cpp-python is not installed"):
        library._import_functions()


def test_a_missing_library_file_is_a_clear_sentence(tmp_path: Path) -> None:
    code = """
from runtime.llama import files, library
try:
    library.load_library()
except files.EngineLibraryMissing as error:
    print(error.info.code, error.info.message)
"""
    printed = in_new_process(code, LLAMA_CPP_LIB_PATH=str(tmp_path))
    assert printed.startswith("engine_library ")
    assert "llama" in printed


def test_backends_are_looked_for_in_our_own_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tmp_path / "site-packages" / "llama_cpp" / "lib"
    dynamic = tmp_path / "site-packages" / "bin"
    elsewhere = tmp_path / "cwd"
    for folder in (ours, dynamic, elsewhere):
        folder.mkdir(parents=True)
    (ours / "libggml-base.so").touch()
    (dynamic / "libggml-cpu-haswell.so").touch()
    (dynamic / "libggml-vulkan.so").touch()
    (elsewhere / "libggml-evil.so").touch()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(files.sys, "platform", "linux")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(ours))
    assert [file.name for file in files.backend_files()] == ["libggml-cpu-haswell.so", "libggml-vulkan.so"]


def test_naming_processor_code_where_there_is_only_one_is_noted() -> None:
    if library.backend_report().variant:
        pytest.skip("this build has several")
    assert library.variant_notes("auto") == []
    assert "“haswell” has no effect" in library.variant_notes("haswell")[0]


def test_the_library_keeps_the_processor_code_it_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "backend_report", lambda: library.BackendReport(variant="zen4"))
    assert library.variant_notes("zen4") == library.variant_notes("Auto") == []
    assert library.variant_notes("haswell")[0].startswith("The engine runs on the processor code “zen4”")


@pytest.mark.parametrize(
    ("devices", "cards"), [(("auto",), True), (("CPU",), False), (("cpu ",), False), (("CPU", "Vulkan0"), True)]
)
def test_who_wants_the_processor_alone_touches_no_driver(
    monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...], cards: bool
) -> None:
    asked: list[bool | None] = []
    monkeypatch.setattr(library, "load_library", lambda _variant, *, cards: asked.append(cards))
    library.load_library_for(LoadParams(devices=devices))
    assert asked == [cards]
