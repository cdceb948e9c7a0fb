"""What goes into the bundle and what stays out, asked of names as they occur in it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from bundle_contents import (
    EXCLUDED_MODULES,
    PARTS,
    WITH_DATA,
    distributions_of,
    is_system_library_wanted,
    is_wanted,
    part_of,
)
from size_table import sizes, table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/Qt/plugins/platforms/libqxcb.so",
        "PySide6/Qt/plugins/platforms/libqwayland.so",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "PySide6/plugins/platforms/qwindows.dll",
        "PySide6/Qt/plugins/platforminputcontexts/libibusplatforminputcontextplugin.so",
        "PySide6/Qt/plugins/imageformats/libqsvg.so",
        "PySide6/Qt/plugins/wayland-shell-integration/libxdg-shell.so",
        "PySide6/Qt/translations/qtbase_zh_CN.qm",
        "PySide6/Qt/lib/libQt6Core.so.6",
        "PySide6/Qt/lib/libicudata.so.73",
        "PySide6/QtWidgets.abi3.so",
        "PySide6/Qt6Widgets.dll",
        "torch/lib/libtorch_cpu.so",
        "torch/nn/modules/linear.pyc",
        "torch/bin/torch_shm_manager",
        "numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
        "resources/evaluation/text.txt",
        "numpy-2.4.6.dist-info/licenses/LICENSE.txt",
        "llama_cpp/lib/libggml-cpu-haswell.so",
        "ziafont/fonts/DejaVuSans.ttf",
    ],
)
def test_what_the_application_uses_goes_in(name: str) -> None:
    assert is_wanted(name)


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/Qt/plugins/platforms/libqeglfs.so",
        "PySide6/Qt/plugins/platforminputcontexts/libqtvirtualkeyboardplugin.so",
        "PySide6/Qt/plugins/imageformats/libqpdf.so",
        "PySide6/Qt/plugins/sqldrivers/libqsqlite.so",
        "PySide6/Qt/plugins/tls/libqopensslbackend.so",
        "PySide6/Qt/translations/qtbase_de.qm",
        "PySide6/Qt/translations/qt_zh_CN.qm",
        "PySide6/Qt/lib/libQt6Quick.so.6",
        "PySide6/Qt/qml/QtQuick/qmldir",
        "PySide6/QtQml.abi3.so",
        "PySide6/QtCore.pyi",
        "torch/include/ATen/ATen.h",
        "torch/lib/libtorchbind_test.so",
        "torch/bin/protoc",
        "torch/share/cmake/Torch/TorchConfig.cmake",
        "torch/lib/libc10.a",
        "numpy/_core/tests/data/astype_copy.pkl",
        "numpy-2.4.6.dist-info/RECORD",
    ],
)
def test_what_it_does_not_use_stays_out(name: str) -> None:
    assert not is_wanted(name)


def test_every_resource_of_ours_goes_in() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "resources").rglob("*") if path.is_file()]
    assert [name for name in files if not is_wanted(name) and "__pycache__" not in name] == []


def test_no_module_that_our_code_imports_is_excluded() -> None:
    excluded = {name.split(".")[0] for name in EXCLUDED_MODULES if "." not in name}
    sources = [path for folder in ("desktop", "runtime", "convert") for path in (ROOT / folder).rglob("*.py")]
    imported = {
        line.split()[1].split(".")[0]
        for path in sources
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(("import ", "from "))
    }
    assert imported & excluded == set()


def test_packages_that_bring_files_are_named() -> None:
    for name in WITH_DATA:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        folder = Path(spec.submodule_search_locations[0])
        files = [path for path in folder.rglob("*.*") if path.suffix in (".ttf", ".txt")]
        assert files
        assert all(is_wanted(f"{name}/{path.name}") for path in files)


def test_nothing_that_the_engines_import_is_excluded() -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        "for package in ('runtime', 'convert'):\n"
        "    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, package + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "print('\\n'.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "torch.nn" in imported
    assert [name for name in imported for left in EXCLUDED_MODULES if name == left or name.startswith(f"{left}.")] == []


def test_libraries_that_must_match_the_desktop_come_from_the_system() -> None:
    for file in ("libstdc++.so.6", "libgcc_s.so.1", "libX11.so.6", "libfontconfig.so.1", "libglib-2.0.so.0"):
        assert not is_system_library_wanted(file)
    for file in ("libpython3.11.so.1.0", "libffi.so.8", "libsqlite3.so.0", "libgomp.so.1", "libxcb-cursor.so.0"):
        assert is_system_library_wanted(file)


def test_metadata_is_taken_of_what_is_inside() -> None:
    owners = {"numpy": ["numpy"], "PySide6": ["PySide6_Essentials"], "pytest": ["pytest"]}
    modules = ["numpy.linalg", "PySide6.QtCore", "desktop.app"]
    assert distributions_of(modules, owners) == ["numpy", "PySide6_Essentials"]


def test_the_table_counts_every_file_once(tmp_path: Path) -> None:
    for name, size in (("quern", 5), ("_internal/torch/lib/libtorch_cpu.so", 700), ("_internal/torch/x.pyc", 30),
                       ("_internal/libffi.so.8", 7), ("_internal/something/else.so", 2)):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (tmp_path / "_internal" / "link.so").symlink_to("libffi.so.8")
    assert sizes(tmp_path) == {
        "torch: libraries": 700, "torch: Python code": 30, "system libraries": 7, "program and modules": 5,
        "other packages": 2,
    }  # fmt: skip
    assert "100.0%" in table(tmp_path).splitlines()[-1]


def test_parts_are_looked_for_from_the_narrow_to_the_wide() -> None:
    assert part_of("PySide6/Qt/lib/libicudata.so.73") == "Qt: ICU data"
    assert part_of("libpython3.11.so.1.0") == "Python: interpreter"
    assert part_of("torch-2.13.0+cpu.dist-info/METADATA") == "metadata and licences"
    assert all(part_of(starts[0] + "x") == title for title, starts in PARTS)
