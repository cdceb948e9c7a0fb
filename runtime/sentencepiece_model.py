"""Reads SentencePiece's tokenizer.model into a tokenizer of the `tokenizers` library. Knows no folder.

The file is a protobuf message (sentencepiece_model.proto of the SentencePiece project); only the fields that change how
text is cut are read. Its BPE has no list of merges: any two pieces whose union is a piece may merge, the best score
first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

_UNIGRAM, _BPE = 1, 2
_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
_MAX_PIECES = 1 << 21
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the model
_PIECE, _SCORE, _TYPE = 1, 2, 3  # of a piece
_MODEL_TYPE, _BYTE_FALLBACK, _UNK_ID, _BOS_ID, _EOS_ID = 3, 35, 40, 41, 42  # of the trainer's settings
_CHARSMAP, _DUMMY_PREFIX, _REMOVE_SPACES, _ESCAPE_SPACES = 2, 3, 4, 5  # of the normalizer's


class BrokenModel(Exception):
    """The file is no sound SentencePiece model, or of a kind that is not read; the message says which."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    type: int


@dataclass(slots=True)
class SentencePieceModel:
    """What a tokenizer.model says. Ids are -1 where the model has no such token."""

    pieces: list[Piece] = field(default_factory=list)
    model_type: int = _UNIGRAM
    byte_fallback: bool = False
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    charsmap: bytes = b""
    dummy_prefix: bool = True
    remove_spaces: bool = True

    def text_of(self, token: int) -> str:
        """Returns a piece by its id; "" where there is none."""
        return self.pieces[token].text if 0 <= token < len(self.pieces) else ""


def read_model(data: bytes) -> SentencePieceModel:
    """Returns the contents of a tokenizer.model. Raises `BrokenModel`."""
    model = SentencePieceModel()
    for number, value in _fields(data):
        if number == _PIECES:
            model.pieces.append(_piece(_bytes(value)))
        elif number == _TRAINER:
            _read_trainer(model, _bytes(value))
        elif number == _NORMALIZER:
            _read_normalizer(model, _bytes(value))
        if len(model.pieces) > _MAX_PIECES:
            raise BrokenModel("more pieces than any model has")
    if not model.pieces:
        raise BrokenModel("no pieces")
    return model


def build(model: SentencePieceModel) -> Tokenizer:
    """Returns a tokenizer that cuts text as the model does, without marks around it. Raises `BrokenModel`."""
    if model.model_type == _UNIGRAM:
        vocabulary = [(piece.text, piece.score) for piece in model.pieces]
        unk = model.unk_id if 0 <= model.unk_id < len(vocabulary) else None
        core: Any = models.Unigram(vocabulary, unk, model.byte_fallback)
    elif model.model_type == _BPE:
        core = _bpe(model)
    else:
        raise BrokenModel(f"model type {model.model_type}")
    tokenizer = Tokenizer(core)
    steps = _normalizers(model)
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    scheme = "always" if model.dummy_prefix else "never"
    # "no split": pieces of SentencePiece may span words
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=model.model_type == _UNIGRAM)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    _add_tokens(tokenizer, model)
    return tokenizer


def _normalizers(model: SentencePieceModel) -> list[Any]:
    steps: list[Any] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.remove_spaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    return steps


def _bpe(model: SentencePieceModel) -> Any:
    ids = {piece.text: token for token, piece in enumerate(model.pieces)}
    unk = model.text_of(model.unk_id) or None
    return models.BPE(ids, merges_of(model.pieces), unk_token=unk, fuse_unk=True, byte_fallback=model.byte_fallback)


def merges_of(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Returns every pair of pieces whose union is a piece, the best first."""
    ids = {piece.text: token for token, piece in enumerate(pieces)}
    merges = []
    for piece in pieces:
        cuts = ((piece.text[:at], piece.text[at:]) for at in range(1, len(piece.text)))
        found = sorted((ids[left], ids[right], left, right) for left, right in cuts if left in ids and right in ids)
        merges += [(-piece.score, order, left, right) for order, (_l, _r, left, right) in enumerate(found)]
    merges.sort(key=lambda merge: merge[:1])
    return [(left, right) for _score, _order, left, right in merges]


def _add_tokens(tokenizer: Tokenizer, model: SentencePieceModel) -> None:
    kinds = {_CONTROL: True, _UNKNOWN: True, _USER_DEFINED: False}
    for piece in model.pieces:
        if piece.type in kinds:
            token = AddedToken(piece.text, normalized=False, special=kinds[piece.type])
            (tokenizer.add_special_tokens if kinds[piece.type] else tokenizer.add_tokens)([token])


# --- protobuf ---------------------------------------------------------------------------------------------------

_Value = int | bytes


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """Yields the fields of a message: numbers as int, fixed-size and length-delimited ones as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise BrokenModel(f"wire type {kind}")
        size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        if size > len(data) - at:
            raise BrokenModel("cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise BrokenModel("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise BrokenModel("a number too long")


def _bytes(value: _Value) -> bytes:
    if isinstance(value, int):
        raise BrokenModel("a number in place of a text")
    return value


def _signed(value: _Value) -> int:
    number = value if isinstance(value, int) else 0
    return number - (1 << 64) if number >= 1 << 63 else number


def _piece(data: bytes) -> Piece:
    text, score, kind = "", 0.0, 1
    for number, value in _fields(data):
        if number == _PIECE:
            text = _bytes(value).decode("utf-8", "replace")
        elif number == _SCORE and isinstance(value, bytes) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif number == _TYPE:
            kind = _signed(value)
    return Piece(text, score, kind)


def _read_trainer(model: SentencePieceModel, data: bytes) -> None:
    for number, value in _fields(data):
        if number == _MODEL_TYPE:
            model.model_type = _signed(value)
        elif number == _BYTE_FALLBACK:
            model.byte_fallback = bool(value)
        elif number == _UNK_ID:
            model.unk_id = _signed(value)
        elif number == _BOS_ID:
            model.bos_id = _signed(value)
        elif number == _EOS_ID:
            model.eos_id = _signed(value)


def _read_normalizer(model: SentencePieceModel, data: bytes) -> None:
    for number, value in _fields(data):
        if number == _CHARSMAP:
            model.charsmap = _bytes(value)
        elif number == _DUMMY_PREFIX:
            model.dummy_prefix = bool(value)
        elif number == _REMOVE_SPACES:
            model.remove_spaces = bool(value)
        elif number == _ESCAPE_SPACES and not value:
            raise BrokenModel("spaces that are not escaped")
