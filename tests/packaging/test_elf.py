"""Reading what native code asks of the loader, against a file made here byte by byte, and this Python itself."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from elf import NotElf, is_elf, read_elf
from elf_files import elf_bytes


def test_names_versions_and_search_paths_are_read(tmp_path: Path) -> None:
    file = tmp_path / "libours.so"
    file.write_bytes(
        elf_bytes(
            needed=("libc.so.6", "libz.so.1"), soname="libours.so.1", search="$ORIGIN:/opt/build/lib",
            versions={"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.34"), "libz.so.1": ("ZLIB_1.2.0",)},
        )
    )  # fmt: skip
    elf = read_elf(file)
    assert elf.needed == ("libc.so.6", "libz.so.1")
    assert elf.soname == "libours.so.1"
    assert elf.search == ("$ORIGIN", "/opt/build/lib")
    assert elf.versions == {"libc.so.6": {"GLIBC_2.2.5", "GLIBC_2.34"}, "libz.so.1": {"ZLIB_1.2.0"}}


@pytest.mark.skipif(sys.platform != "linux", reason="ELF is Linux's format")
def test_real_native_code_is_read() -> None:
    import _ctypes

    elf = read_elf(Path(_ctypes.__file__))
    assert "libc.so.6" in elf.needed
    assert any(version.startswith("GLIBC_2.") for version in elf.versions["libc.so.6"])


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, b"\x7fELF\x01\x01" + b"\0" * 90])
def test_what_is_no_elf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(NotElf):
        read_elf(tmp_path / "file")


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    whole = elf_bytes(needed=("libc.so.6",))
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NotElf):
        read_elf(tmp_path / "cut")


def test_a_table_that_leads_out_of_the_file_is_refused(tmp_path: Path) -> None:
    whole = bytearray(elf_bytes(needed=("libc.so.6",)))
    struct.pack_into("<Q", whole, 0x28, 1 << 40)
    (tmp_path / "file").write_bytes(whole)
    assert is_elf(tmp_path / "file")
    with pytest.raises(NotElf):
        read_elf(tmp_path / "file")
