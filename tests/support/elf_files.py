"""Makes small ELF files that ask the loader for what a test wants; they hold no code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_DYNAMIC, _STRINGS, _VERNEED = 6, 3, 0x6FFFFFFE
_HEADER = 64


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        place = len(self.data)
        self.data += text.encode() + b"\0"
        return place


def elf_bytes(
    *, needed: Sequence[str] = (), soname: str = "", search: str = "",
    versions: Mapping[str, Sequence[str]] | None = None, filling: bytes = b"",
) -> bytes:  # fmt: skip
    """Returns a file with a dynamic section, and versions of symbols by library; `filling` makes contents differ."""
    strings = _Strings()
    tags = [(1, strings.add(name)) for name in needed]
    tags += [(14, strings.add(soname))] if soname else []
    tags += [(29, strings.add(search))] if search else []
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in (*tags, (0, 0)))
    verneed = _verneed(versions or {}, strings)
    contents = [(0, b"", 0), (_STRINGS, strings.data, 0), (_DYNAMIC, dynamic, 1), (_VERNEED, verneed, 1)]
    return _file(contents, filling)


def _verneed(versions: Mapping[str, Sequence[str]], strings: _Strings) -> bytes:
    data = b""
    for number, (library, names) in enumerate(versions.items(), 1):
        size = 16 + 16 * len(names)
        follows = size if number < len(versions) else 0
        data += struct.pack("<HHIII", 1, len(names), strings.add(library), 16, follows)
        for place, name in enumerate(names, 1):
            data += struct.pack("<IHHII", 0, 0, 0, strings.add(name), 16 if place < len(names) else 0)
    return data


def _file(contents: Sequence[tuple[int, bytes, int]], filling: bytes) -> bytes:
    body, headers, offset = b"", b"", _HEADER
    for kind, data, link in contents:
        headers += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, len(data), link, 0, 1, 0)
        body += data
        offset += len(data)
    body += filling
    start = _HEADER + len(body)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, start, 0, 64, 0, 0, 64,
                                                           len(contents), 0)  # fmt: skip
    return head + body + headers
