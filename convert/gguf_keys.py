"""Takes the metadata of a GGUF file over into another one, byte for byte. Knows no key's meaning."""

from __future__ import annotations

from convert.gguf_file import KeyValue
from runtime.gguf_header import GgufHeader
from runtime.gguf_reader import Cursor

_COUNT_AT, _KEYS_AT = 16, 24  # bytes: the number of keys, and the first of them


def raw_keys(header: GgufHeader) -> dict[str, KeyValue]:
    """Returns every key of a file that was read and checked, in its order; of a split set those of the first part."""
    path = header.parts[0]
    found: dict[str, KeyValue] = {}
    with path.open("rb") as file, path.open("rb") as again:
        again.seek(_COUNT_AT)
        count = int.from_bytes(again.read(8), "little")
        cursor = Cursor(file, path.stat().st_size, _KEYS_AT)
        for _number in range(count):
            key, start = cursor.name(), cursor.position
            cursor.value(path, key, cursor.u32())
            again.seek(start)
            found[key] = KeyValue("raw", again.read(cursor.position - start))
    return found
