"""Where llama.cpp's wheels are kept, and that only whole ones are used."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from console import Console, SetUpError
from llama_wheel import (
    LlamaBuild,
    build_wheel,
    check_wheel,
    finished_wheel,
    ranked_builds,
    unpack_source,
    wheels_folder,
)

BUILD = LlamaBuild("0.3.36", ("-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON"))
WHEEL = "llama_cpp_python-0.3.36-py3-none-linux_x86_64.whl"
WHOLE = ("llama", "ggml", "ggml-base", "ggml-cpu")


def write_wheel(path: Path, libraries: tuple[str, ...] = WHOLE) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in libraries:
            archive.writestr(f"llama_cpp/lib/lib{name}.so.0", "")


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(tmp_path / "set_up.log", io.StringIO())


@pytest.fixture
def fake_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a wheel builder that writes the wheel named by FAKE_WHEEL, or fails, where the real one would be."""
    module = tmp_path / "fake" / "scikit_build_core"
    module.mkdir(parents=True)
    (module / "__init__.py").touch()
    (module / "build.py").write_text(
        "import os, shutil\n"
        "def build_wheel(folder, settings):\n"
        "    print('[0/2] cmake -P VerifyGlobs.cmake')\n    print('[1/2] g++ a.cpp')\n"
        f"    shutil.copy(os.environ['FAKE_WHEEL'], os.path.join(folder, '{WHEEL}'))\n"
        "    if os.environ.get('FAKE_FAILURE'):\n"
        "        raise SystemExit('a.cpp:1: error: ' + os.environ['FAKE_FAILURE'])\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fake"))
    monkeypatch.setenv("FAKE_WHEEL", str(tmp_path / "made.whl"))
    write_wheel(tmp_path / "made.whl")
    return Path(sys.executable)


def build(tmp_path: Path, console: Console, python: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    return build_wheel(BUILD, source=source, wheels=tmp_path / "wheels", python=python, console=console)


@pytest.mark.parametrize(
    "other",
    [replace(BUILD, version="0.3.37"), replace(BUILD, flags=(*BUILD.flags, "-DGGML_AVX512=ON"))],
    ids=["version", "flags"],
)
def test_another_version_or_flag_is_another_wheel(other: LlamaBuild) -> None:
    assert other.key != BUILD.key


def test_the_same_build_has_the_same_key_in_every_checkout() -> None:
    assert BUILD.key == LlamaBuild(BUILD.version, BUILD.flags).key
    assert BUILD.key.startswith("0.3.36-")


ZEN_4 = frozenset({"sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx512_bf16"})


def ranked(features: frozenset[str], *, gpu: bool = False, **environ: str) -> list[str]:
    """Returns what each ranked build is made of, in the words of a fake choice of flags."""

    def flags(level: frozenset[str], environ: Mapping[str, str]) -> list[str]:
        uses_gpu = gpu and environ.get("QUERN_GPU") != "none"
        return [*sorted(level)[-1:], *(["-DGGML_CUDA=ON"] if uses_gpu else []), str(len(level))]

    return [" ".join(build.flags[1:]) for build in ranked_builds("0.3.36", features, flags, environ)]


def test_a_build_gives_way_to_simpler_processors() -> None:
    assert ranked(ZEN_4) == ["7", "6", "1"]


def test_no_build_is_tried_twice() -> None:
    assert ranked(ZEN_4 - {"avx512_bf16"}) == ["6", "1"]


def test_the_gpu_gives_way_first_unless_a_person_insists_on_it() -> None:
    assert ranked(ZEN_4, gpu=True) == ["-DGGML_CUDA=ON 7", "7", "6", "1"]
    assert ranked(ZEN_4, gpu=True, QUERN_GPU="cuda") == ["-DGGML_CUDA=ON 7", "-DGGML_CUDA=ON 6", "-DGGML_CUDA=ON 1"]


def test_wheels_can_be_shared(tmp_path: Path) -> None:
    assert wheels_folder(tmp_path, {}) == tmp_path / "wheels"
    assert wheels_folder(tmp_path, {"QUERN_WHEELS": "/srv/wheels"}) == Path("/srv/wheels")


def test_a_built_wheel_is_found_the_next_time(tmp_path: Path, console: Console, fake_tools: Path) -> None:
    wheel = build(tmp_path, console, fake_tools)

    assert wheel.exists()
    assert finished_wheel(tmp_path / "wheels", BUILD) == wheel


def test_a_failed_build_leaves_no_wheel_and_shows_the_compilers_words(
    tmp_path: Path, console: Console, fake_tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILURE", "No space left on device")

    with pytest.raises(SetUpError, match=r"(?s)could not be built.*a\.cpp:1: error.*Free about 5 GB.*set_up\.log"):
        build(tmp_path, console, fake_tools)

    assert finished_wheel(tmp_path / "wheels", BUILD) is None
    assert list((tmp_path / "wheels").iterdir()) == []


def test_what_a_killed_build_left_is_not_used(tmp_path: Path) -> None:
    left = tmp_path / "wheels" / f".{BUILD.key}.part-123"
    left.mkdir(parents=True)
    (left / WHEEL).write_bytes(b"PK")

    assert finished_wheel(tmp_path / "wheels", BUILD) is None


def test_what_killed_builds_left_goes_away_after_a_day(tmp_path: Path, console: Console, fake_tools: Path) -> None:
    old, recent = tmp_path / "wheels" / ".a.part-1", tmp_path / "wheels" / ".b.part-2"
    for folder in (old, recent):
        folder.mkdir(parents=True)
    os.utime(old, (1, 1))

    build(tmp_path, console, fake_tools)

    assert not old.exists()
    assert recent.exists()


def test_a_wheel_without_a_library_is_refused(tmp_path: Path, console: Console, fake_tools: Path) -> None:
    write_wheel(tmp_path / "made.whl", ("llama", "ggml", "ggml-base"))

    with pytest.raises(SetUpError, match="without ggml-cpu"):
        build(tmp_path, console, fake_tools)

    assert finished_wheel(tmp_path / "wheels", BUILD) is None


@pytest.mark.parametrize("pattern", ["llama_cpp/lib/{}.dll", "llama_cpp/lib/lib{}.dylib"])
def test_libraries_are_recognized_on_every_system(tmp_path: Path, pattern: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        for name in WHOLE:
            archive.writestr(pattern.format(name), "")

    check_wheel(tmp_path / "a.whl")


def test_libraries_of_an_earlier_build_do_not_slip_into_the_wheel(
    tmp_path: Path, console: Console, fake_tools: Path
) -> None:
    stale = tmp_path / "source" / "llama_cpp" / "lib" / "libggml-cuda.so"
    stale.parent.mkdir(parents=True)
    stale.touch()

    build(tmp_path, console, fake_tools)

    assert not stale.exists()


def test_the_source_is_unpacked_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "llama_cpp_python-0.3.36").mkdir()
    (tmp_path / "llama_cpp_python-0.3.36" / "PKG-INFO").write_text("Name: x")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "llama_cpp_python-0.3.36", "llama_cpp_python-0.3.36")
    half = tmp_path / "half.tar.gz"
    half.write_bytes((tmp_path / "a.tar.gz").read_bytes()[:60])

    with pytest.raises((EOFError, tarfile.ReadError)):
        unpack_source(half, tmp_path / "build")
    assert not (tmp_path / "build").exists()

    unpack_source(tmp_path / "a.tar.gz", tmp_path / "build")
    assert (tmp_path / "build" / "PKG-INFO").read_text() == "Name: x"
    assert not (tmp_path / "build.part").exists()
