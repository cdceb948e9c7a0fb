"""The llama.cpp that packages carry: its flags, and that each library is in it once."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import llama_package
import vulkan_sdk
from build_flags import package_flags
from console import Console, SetUpError
from llama_package import chosen_files, package_tree, repeatable, unpack
from llama_wheel import LlamaBuild

IN_LIB = ("libllama", "libggml", "libggml-base")
MODULES = ["llama_cpp/__init__.py", "llama_cpp/_ctypes_extensions.py", "llama_cpp/_ggml.py", "llama_cpp/llama_cpp.py"]
UNUSED = ["llama_cpp/llama.py", "llama_cpp/server/app.py", "llama_cpp/server/__init__.py", "other/__init__.py"]


def wheel_names() -> list[str]:
    """What a wheel for Linux holds: every library under three names, and back ends in bin/."""
    libraries = [f"llama_cpp/lib/{name}.so{end}" for name in IN_LIB for end in ("", ".0", ".0.25.3")]
    backends = [f"bin/libggml-{name}.so{end}" for name in ("cpu-x64", "cpu-zen4", "vulkan") for end in ("", ".0")]
    return [*MODULES, *UNUSED, *libraries, *backends, "bin/libggml.so.0", "bin/vulkan-shaders-gen"]


def test_packages_get_a_back_end_for_every_processor_and_vulkan() -> None:
    flags = package_flags("Linux", {})
    assert {"-DGGML_NATIVE=OFF", "-DGGML_BACKEND_DL=ON", "-DGGML_CPU_ALL_VARIANTS=ON", "-DGGML_VULKAN=ON"} <= set(flags)


def test_the_graphics_cards_of_a_package_can_be_chosen() -> None:
    assert "-DGGML_METAL=ON" in package_flags("Darwin", {})
    assert "-DGGML_VULKAN=ON" not in package_flags("Linux", {"QUERN_GPU": "none"})
    cuda = package_flags("Windows", {"QUERN_GPU": "cuda"})
    assert {"-DGGML_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=all-major"} <= set(cuda)
    with pytest.raises(SetUpError, match="QUERN_GPU"):
        package_flags("Linux", {"QUERN_GPU": "voodoo"})


def test_a_persons_flags_win() -> None:
    assert package_flags("Linux", {"QUERN_CMAKE_ARGS": "-DGGML_CCACHE=OFF"})[-1] == "-DGGML_CCACHE=OFF"


def test_the_build_for_packages_is_kept_beside_the_other_and_told_apart() -> None:
    here, anywhere = LlamaBuild("1", ("-DGGML_NATIVE=OFF",)), LlamaBuild("1", ("-DGGML_BACKEND_DL=ON",))
    assert (here.is_for_packages, anywhere.is_for_packages) == (False, True)
    assert "/bin/" in here.excluded
    assert "/bin/" not in anywhere.excluded
    assert here.key != anywhere.key


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_where_the_source_lies_does_not_show_in_what_is_built(tmp_path: Path) -> None:
    built = []
    for folder in (tmp_path / "here", tmp_path / "and in another place"):
        source = folder / "source"
        source.mkdir(parents=True)
        (source / "a.c").write_text("const char *place(void) { return __FILE__; }\n")
        environ = repeatable(source, {**os.environ, "CFLAGS": "-O1"})
        line = f'cc {environ["CFLAGS"]} -c "{source}/a.c" -o a.o'  # as CMake passes it on
        subprocess.run(line, shell=True, cwd=folder, env=environ, check=True)
        built.append((folder / "a.o").read_bytes())
    assert built[0] == built[1]
    assert b"llama-cpp-python/a.c" in built[0]
    assert "-O1" in environ["CFLAGS"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_repository_around_the_source_does_not_name_its_version(tmp_path: Path) -> None:
    inside = tmp_path / "source" / "vendor"
    inside.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    ask = ["git", "rev-parse", "--git-dir"]
    assert subprocess.run(ask, cwd=inside, capture_output=True, check=False).returncode == 0

    environ = repeatable(tmp_path / "source", os.environ)

    assert subprocess.run(ask, cwd=inside, env=environ, capture_output=True, check=False).returncode != 0


def test_every_library_is_laid_out_once_and_nothing_that_is_not_imported() -> None:
    chosen = chosen_files(wheel_names(), "Linux")
    assert sorted(chosen.values()) == sorted([
        *MODULES, *(f"llama_cpp/lib/{name}" for name in (
            "libggml-base.so.0", "libggml-cpu-x64.so", "libggml-cpu-zen4.so", "libggml-vulkan.so", "libggml.so.0",
            "libllama.so",
        )),
    ])  # fmt: skip
    assert {place: name for name, place in chosen.items()}["llama_cpp/lib/libggml.so.0"] == "llama_cpp/lib/libggml.so.0"


def test_the_other_systems_names_are_known() -> None:
    mac = ["llama_cpp/lib/libllama.dylib", "llama_cpp/lib/libggml.0.dylib", "llama_cpp/lib/libggml-base.0.dylib",
           "bin/libggml-cpu-apple_m1.so", "bin/libggml-metal.so"]  # fmt: skip
    assert "llama_cpp/lib/libggml-metal.so" in chosen_files(mac, "Darwin").values()
    windows = [f"bin/{name}.dll" for name in ("llama", "ggml", "ggml-base", "ggml-cpu-x64", "ggml-vulkan")]
    assert len(chosen_files(windows, "Windows")) == 5


@pytest.mark.parametrize("absent", ["libggml.so.0", "libllama.so", "ggml-cpu-"])
def test_a_library_that_is_missing_is_named(absent: str) -> None:
    names = [name for name in wheel_names() if not name.endswith(absent) and absent not in name]
    with pytest.raises(SetUpError, match=absent):
        chosen_files(names, "Linux")


def test_the_tree_is_made_once_from_a_finished_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_package.platform, "system", lambda: "Linux")
    for name in ("QUERN_GPU", "QUERN_CMAKE_ARGS", "QUERN_WHEELS"):
        monkeypatch.delenv(name, raising=False)
    build = llama_package.package_build("1")
    wheel = tmp_path / "wheels" / build.key / "llama_cpp_python-1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in wheel_names():
            archive.writestr(name, name)
    console = Console(tmp_path / "log", io.StringIO())
    needless = SetUpError("nothing is to be built")
    asked = {"source": tmp_path, "build_folder": tmp_path, "tools": raising(needless), "console": console}
    tree = package_tree("1", **asked)
    assert (tree / "llama_cpp" / "lib" / "libggml-cpu-zen4.so").read_text() == "bin/libggml-cpu-zen4.so"
    (tree / "mark").touch()
    assert package_tree("1", **asked) == tree
    assert (tree / "mark").exists()


def raising(error: Exception) -> Callable[[], Path]:
    def tools() -> Path:
        raise error

    return tools


def test_a_damaged_wheel_leaves_no_half_tree(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llama_cpp/__init__.py", "")
    with pytest.raises(SetUpError):
        unpack(wheel, tmp_path / "tree", "Linux")
    assert not (tmp_path / "tree").exists()


def headers(root: Path, minor: int) -> Path:
    """Makes the files by which a Vulkan SDK is known."""
    (root / "include" / "vulkan").mkdir(parents=True)
    (root / "share" / "cmake" / "SPIRV-Headers").mkdir(parents=True)
    (root / "include" / "vulkan" / "vulkan_core.h").write_text(
        "#define VK_HEADER_VERSION 309\n"
        f"#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, {minor}, VK_HEADER_VERSION)\n"
    )
    return root


def test_headers_are_taken_where_they_are_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vulkan_sdk.is_new_enough(headers(tmp_path / "new", 4))
    assert not vulkan_sdk.is_new_enough(headers(tmp_path / "old", 3))
    assert not vulkan_sdk.is_new_enough(tmp_path)
    console = Console(tmp_path / "log", io.StringIO())
    assert vulkan_sdk.vulkan_sdk(tmp_path / "kept", console, given=str(tmp_path / "new")) == tmp_path / "new"
    monkeypatch.setattr(vulkan_sdk, "is_new_enough", lambda root: root == tmp_path / "kept" / "usr")
    assert vulkan_sdk.vulkan_sdk(tmp_path / "kept", console) == tmp_path / "kept" / "usr"


def test_without_apt_a_person_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan_sdk, "is_new_enough", lambda _root: False)
    monkeypatch.setattr(vulkan_sdk.shutil, "which", lambda _name: None)
    with pytest.raises(SetUpError, match="VULKAN_SDK"):
        vulkan_sdk.vulkan_sdk(tmp_path / "kept", Console(tmp_path / "log", io.StringIO()))


@pytest.mark.parametrize(
    "text",
    [
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n",
        "# a comment\ndeb [signed-by=/k] http://mirror.example/debian bookworm main\n",
        "deb http://mirror.example/debian bookworm main\n",
    ],
)
def test_the_mirror_is_the_one_that_the_system_uses(text: str) -> None:
    other = "deb https://packages.example/sdk sdk main\nURIs: http://deb.example/debian-security\n"
    assert vulkan_sdk.debian_mirror([other, text]) == "http://mirror.example/debian"


def test_without_a_mirror_a_person_is_told_what_to_do() -> None:
    with pytest.raises(SetUpError, match="no Debian mirror"):
        vulkan_sdk.debian_mirror(["deb https://packages.example/sdk sdk main\n"])
