"""Puts PNG pictures of several sizes into the one file that Windows (.ico) or macOS (.icns) takes as an icon.

Both formats hold PNG data as it stands behind a table. Knows nothing of how the pictures are drawn.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

ICO_SIZES = (16, 20, 24, 32, 40, 48, 64, 128, 256)
# macOS names an entry by its pixels and by whether it is for a screen of double density.
ICNS_TYPES = ((b"icp4", 16), (b"ic11", 32), (b"icp5", 32), (b"ic12", 64), (b"ic07", 128), (b"ic13", 256),
              (b"ic08", 256), (b"ic14", 512), (b"ic09", 512), (b"ic10", 1024))  # fmt: skip
ICNS_SIZES = tuple(sorted({size for _name, size in ICNS_TYPES}))
_ICO_HEAD, _ICO_ENTRY = struct.Struct("<HHH"), struct.Struct("<BBBBHHII")


def ico(pictures: Mapping[int, bytes]) -> bytes:
    """Returns the .ico file of PNGs by their edge in pixels (1 to 256, smallest first in the file)."""
    head = _ICO_HEAD.pack(0, 1, len(pictures))
    offset = len(head) + _ICO_ENTRY.size * len(pictures)
    entries, bodies = b"", b""
    for size, png in sorted(pictures.items()):
        edge = size % 256  # the format writes 256 as 0
        entries += _ICO_ENTRY.pack(edge, edge, 0, 0, 1, 32, len(png), offset + len(bodies))
        bodies += png
    return head + entries + bodies


def icns(pictures: Mapping[int, bytes]) -> bytes:
    """Returns the .icns file of PNGs by their edge in pixels; each type of entry whose size is there gets in."""
    body = b"".join(
        name + struct.pack(">I", 8 + len(pictures[size])) + pictures[size]
        for name, size in ICNS_TYPES
        if size in pictures
    )
    return b"icns" + struct.pack(">I", 8 + len(body)) + body
