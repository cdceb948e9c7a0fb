"""What must not be handed out: native code that is there twice, too new, or that nobody brings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bundle_checks import (
    differences,
    from_outside,
    lost_neighbours,
    main,
    native_files,
    newest,
    too_new,
    traces,
    twice,
    version_of,
)  # fmt: skip
from elf_files import elf_bytes


def library(tree: Path, name: str, **asked: object) -> Path:
    """Writes an ELF file into the tree."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf_bytes(**asked))  # type: ignore[arg-type]
    return path


def test_links_and_other_files_are_passed_over(tmp_path: Path) -> None:
    library(tmp_path, "lib/liba.so", soname="liba.so")
    (tmp_path / "readme.txt").write_text("x" * 100)
    (tmp_path / "libb.so").symlink_to("lib/liba.so")
    assert [file.name for file in native_files(tmp_path)] == ["lib/liba.so"]


def test_a_newer_c_library_than_promised_is_named_with_the_file(tmp_path: Path) -> None:
    library(tmp_path, "old.so", versions={"libc.so.6": ("GLIBC_2.4", "GLIBC_2.34")})
    library(tmp_path, "new.so", versions={"libc.so.6": ("GLIBC_2.38",), "libstdc++.so.6": ("GLIBCXX_3.4.29",)})
    files = list(native_files(tmp_path))
    assert too_new(files) == ["new.so needs GLIBC_2.38"]
    assert newest(files) == {"GLIBC": "2.38", "GLIBCXX": "3.4.29"}


def test_versions_are_compared_as_numbers() -> None:
    assert version_of("GLIBC_2.4") < version_of("GLIBC_2.34")
    assert version_of("GLIBC_PRIVATE") == ("GLIBC_PRIVATE", ())


def test_what_the_bundle_does_not_bring_is_listed_with_who_asks(tmp_path: Path) -> None:
    library(tmp_path, "a/libq.so", needed=("libc.so.6", "libours.so.1"))
    library(tmp_path, "libours-1.2.so", soname="libours.so.1")
    assert from_outside(native_files(tmp_path)) == {"libc.so.6": ["a/libq.so"]}


def test_copies_and_namesakes_are_found_but_links_are_not(tmp_path: Path) -> None:
    library(tmp_path, "a/libx.so.1", soname="libx.so.1")
    library(tmp_path, "b/copy.so", soname="libx.so.1")
    library(tmp_path, "c/libomp.so", soname="libomp.so", filling=b"one")
    library(tmp_path, "d/libomp.so", soname="libomp.so", filling=b"another")
    (tmp_path / "e.so").symlink_to("a/libx.so.1")
    assert twice(tmp_path) == ["a/libx.so.1 = b/copy.so", "c/libomp.so = d/libomp.so"]


def test_two_trees_differ_in_contents_modes_links_and_names(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for tree in (one, other):
        tree.mkdir()
        for name in ("same", "content", "mode"):
            (tree / name).write_text(name)
        (tree / "link").symlink_to("same")
    assert differences(one, other) == []
    (other / "content").write_text("changed")
    os.chmod(other / "mode", 0o755)
    (other / "link").unlink()
    (other / "link").symlink_to("mode")
    (other / "more").touch()
    assert differences(one, other) == ["differs: content", "differs: link", "differs: mode", f"only in {other}: more"]


def test_files_that_name_a_folder_of_the_building_machine_are_found(tmp_path: Path) -> None:
    tree, place = tmp_path / "tree", Path("/home/zoë/quern")
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "clean.so").write_bytes(b"\0src/ggml.c\0")
    (tree / "a" / "traced.so").write_bytes(f"\0{place}/src/ggml.c\0".encode())
    assert traces(tree, [place, tmp_path]) == [f"a/traced.so names {place}"]


def test_the_script_fails_where_something_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library(tmp_path, "a.so", soname="a.so", versions={"libc.so.6": ("GLIBC_2.30",)})
    assert main(tmp_path) == 0
    assert "GLIBC 2.30" in capsys.readouterr().out
    library(tmp_path, "b.so", soname="b.so", versions={"libc.so.6": ("GLIBC_2.99",)})
    assert main(tmp_path) == 1
    assert "b.so needs GLIBC_2.99" in capsys.readouterr().out


def test_a_library_that_needs_one_of_the_root_must_look_there(tmp_path: Path) -> None:
    inside = tmp_path / "_internal"
    (inside / "llama_cpp" / "lib").mkdir(parents=True)
    (inside / "libgomp.so.1").write_bytes(elf_bytes(soname="libgomp.so.1"))
    for name, search in (("lost.so", "$ORIGIN"), ("led.so", "$ORIGIN:$ORIGIN/../..")):
        (inside / "llama_cpp" / "lib" / name).write_bytes(elf_bytes(needed=["libgomp.so.1"], search=search))
    (inside / "llama_cpp" / "lib" / "alone.so").write_bytes(elf_bytes(needed=["libc.so.6"]))

    assert lost_neighbours(tmp_path) == [("_internal/llama_cpp/lib/lost.so", "$ORIGIN/../..")]
