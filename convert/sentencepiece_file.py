"""Packs a vocabulary into SentencePiece's tokenizer.model, which other converters read. Knows the format, no folder.

The file is a protobuf message (sentencepiece_model.proto of the SentencePiece project): pieces, the trainer's settings,
the normalizer's settings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from runtime.sentencepiece_model import SentencePieceModel

_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_VARINT, _BYTES, _FIXED_32 = 0, 2, 5


def packed_model(model: SentencePieceModel) -> bytes:
    """Returns the file's bytes."""
    return b"".join(_parts(model))


def _parts(model: SentencePieceModel) -> Iterator[bytes]:
    for piece in model.pieces:
        body = _text(1, piece.text.encode()) + _key(2, _FIXED_32) + struct.pack("<f", piece.score)
        yield _text(_PIECES, body + _number(3, piece.type))
    trainer = _number(3, model.model_type) + _number(35, int(model.byte_fallback))
    ids = _number(40, model.unk_id) + _number(41, model.bos_id) + _number(42, model.eos_id)
    yield _text(_TRAINER, trainer + ids)
    flags = _number(3, int(model.dummy_prefix)) + _number(4, int(model.remove_spaces)) + _number(5, 1)
    yield _text(_NORMALIZER, _text(1, b"identity") + _text(2, model.charsmap) + flags)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _text(field: int, data: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
