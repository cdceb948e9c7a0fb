"""Reads what a 64-bit little-endian ELF file asks of the loader: libraries, versions of their symbols, search paths.

Knows nothing about bundles. The names are those of the System V ABI and the Linux Standard Base ("Symbol Versioning").
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_SHT_DYNAMIC, _SHT_GNU_VERNEED = 6, 0x6FFFFFFE
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29


class NotElf(ValueError):
    """The file is no ELF file of the kind that is read here, or is damaged."""


@dataclass(frozen=True)
class Elf:
    """What one file asks for. `versions` are the symbol versions by library: {"libc.so.6": {"GLIBC_2.34"}}."""

    needed: tuple[str, ...] = ()
    soname: str = ""
    search: tuple[str, ...] = ()
    versions: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


def is_elf(path: Path) -> bool:
    """Says whether a file begins as ELF files do."""
    with path.open("rb") as file:
        return file.read(4) == _MAGIC[:4]


def read_elf(path: Path) -> Elf:
    """Reads one file. Raises NotElf."""
    if path.stat().st_size < 64:
        raise NotElf(str(path))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != _MAGIC:
            raise NotElf(str(path))
        try:
            return _read(data)
        except (struct.error, IndexError) as error:
            raise NotElf(f"{path}: {error}") from error


def _read(data: mmap.mmap) -> Elf:
    sections = list(_sections(data))
    needed: list[str] = []
    search: list[str] = []
    soname, versions = "", {}
    for section in sections:
        if section.kind == _SHT_DYNAMIC:
            strings = sections[section.link].offset
            for tag, value in _dynamic(data, section):
                if tag == _DT_NEEDED:
                    needed.append(_text(data, strings + value))
                elif tag == _DT_SONAME:
                    soname = _text(data, strings + value)
                elif tag in (_DT_RPATH, _DT_RUNPATH):
                    search += _text(data, strings + value).split(":")
        elif section.kind == _SHT_GNU_VERNEED:
            versions = _versions(data, section, sections[section.link].offset)
    return Elf(tuple(needed), soname, tuple(search), versions)


def _sections(data: mmap.mmap) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for number in range(count):
        header = struct.unpack_from("<IIQQQQI", data, start + number * size)
        _name, kind, _flags, _address, offset, length, link = header
        yield _Section(kind, offset, length, link)


def _dynamic(data: mmap.mmap, section: _Section) -> Iterator[tuple[int, int]]:
    for offset in range(section.offset, section.offset + section.size, 16):
        tag, value = struct.unpack_from("<qQ", data, offset)
        if tag == 0:
            return
        yield tag, value


def _versions(data: mmap.mmap, section: _Section, strings: int) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    offset, more = section.offset, section.size
    while more:
        _version, count, file, auxiliary, more = struct.unpack_from("<HHIII", data, offset)
        names, at = set(), offset + auxiliary
        for _ in range(count):
            _hash, _flags, _other, name, step = struct.unpack_from("<IHHII", data, at)
            names.add(_text(data, strings + name))
            at += step
        library = _text(data, strings + file)
        found[library] = found.get(library, frozenset()) | names
        offset += more
    return found


def _text(data: mmap.mmap, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise IndexError("a name without an end")
    return data[offset:end].decode("utf-8", "replace")
