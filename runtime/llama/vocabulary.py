"""A model's vocabulary: text to token ids and back to bytes. Evaluates nothing; safe to use from any thread."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any

from runtime.llama import byte_fallback
from runtime.llama.byte_fallback import ByteFallback
from runtime.llama.token_types import VOCABULARY_KINDS, SpecialTokens, TokenAttribute
from runtime.token_ids import UnknownToken

_PIECE_BYTES = 256
_MARKS = TokenAttribute.CONTROL | TokenAttribute.USER_DEFINED


class Vocabulary:
    """Wraps a `llama_vocab`, which lives as long as its model."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self.size: int = library.llama_vocab_n_tokens(handle)
        self.kind: str = VOCABULARY_KINDS[library.llama_vocab_type(handle)]
        self.special = SpecialTokens.read(library, handle)
        self._bytes: dict[int, bytes] = {}

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def adds_bos(self) -> bool:
        """Whether the file wants a begin mark before a raw text."""
        return bool(self._library.llama_vocab_get_add_bos(self._handle))

    @property
    def adds_eos(self) -> bool:
        """Whether the file wants an end mark behind a text that is read whole; never behind a prompt."""
        return bool(self._library.llama_vocab_get_add_eos(self._handle))

    @cached_property
    def bos_text(self) -> str:
        """The text of the begin-of-text token; empty where the model has none."""
        return self._text_or_nothing(self.special.bos)

    @cached_property
    def eos_text(self) -> str:
        """The text of the end-of-text token; empty where the model has none."""
        return self._text_or_nothing(self.special.eos)

    @property
    def has_end_mark(self) -> bool:
        """Whether `tokenize_whole` puts a mark after the text."""
        return self._end_mark is not None

    @property
    def _begin_mark(self) -> int | None:
        return self.special.bos if self.kind == "wpm" or self.adds_bos else None

    @property
    def _end_mark(self) -> int | None:
        if self.kind == "wpm":  # which puts both marks unasked
            return self.special.sep
        return self.special.eos if self.adds_eos else None

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Every control token's text and id: the marks that only a template may write."""
        attributes, control = self._library.llama_vocab_get_attr, int(TokenAttribute.CONTROL)
        found = (token for token in range(self.size) if attributes(self._handle, token) & control)
        texts = {self.text(token): token for token in found}
        texts.pop("", None)
        return texts

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return frozenset(self.control_tokens.values())

    @cached_property
    def suppressed(self) -> tuple[int, ...]:
        """Tokens that the model's file says must never be drawn."""
        count = ctypes.c_int32(0)
        ids = self._library.llama_vocab_get_suppress_tokens(self._handle, ctypes.byref(count))
        return tuple(ids[index] for index in range(count.value)) if count.value > 0 else ()

    def ends_answer(self, token: int) -> bool:
        """True for every token that ends an answer: llama.cpp joins all sources of end marks."""
        return bool(self._library.llama_vocab_is_eog(self._handle, token))

    def checked(self, ids: Iterable[int]) -> list[int]:
        """Returns ids that came from outside. Raises `UnknownToken`."""
        return [self._known(token) for token in ids]

    def takes_space(self, token: int) -> bool:
        """Whether a mark takes in the white space behind it, as Phi-3's do. Raises `UnknownToken`."""
        return TokenAttribute.RSTRIP in self.attributes(token)

    def attributes(self, token: int) -> TokenAttribute:
        """Returns a token's kind, and how it is matched. Raises `UnknownToken`."""
        return TokenAttribute(self._library.llama_vocab_get_attr(self._handle, self._known(token)))

    def score(self, token: int) -> float:
        """Returns a token's weight in the file: SentencePiece's score; 0 where it has none. Raises `UnknownToken`."""
        return float(self._library.llama_vocab_get_score(self._handle, self._known(token)))

    def text(self, token: int) -> str:
        """Returns a token's text as the file spells it. Raises `UnknownToken`."""
        text: bytes = self._library.llama_vocab_get_text(self._handle, self._known(token))
        return text.decode("utf-8", "replace")

    def is_token(self, text: str) -> bool:
        """Whether a text is one token, control tokens included."""
        ids = self.tokenize(text, special=True)
        return len(ids) == 1 and self.label(ids[0]) == text

    def tokenize(self, text: str, *, special: bool = False, add_bos: bool = False) -> list[int]:
        """Returns token ids. With `special`, control tokens written in the text are recognised.

        `add_bos` adds the model's own begin mark if its file says so and the text does not begin with it. An end mark
        is never added. Lone surrogates, which no UTF-8 can hold, become U+FFFD.
        """
        ids = self._tokenize(text, special=special)
        bos = self.special.bos if add_bos and self.adds_bos else None
        return ids if ids[:1] == [bos] else _one(bos) + ids

    def tokenize_whole(self, text: str, *, special: bool = False) -> list[int]:
        """Returns a text's ids with every mark that the file wants around one: BERT's [CLS] and [SEP], say.

        The marks are put here: llama.cpp ends the process where a file wants one that it does not have.
        """
        return _one(self._begin_mark) + self._tokenize(text, special=special) + _one(self._end_mark)

    def _tokenize(self, text: str, *, special: bool) -> list[int]:
        ids = self._natively(text, special=special)
        fallback = self._byte_fallback if self.kind == "ugm" else None
        return ids if fallback is None else fallback.spelled(text, ids)

    @cached_property
    def _byte_fallback(self) -> ByteFallback | None:
        kinds = {token: int(self._library.llama_vocab_get_attr(self._handle, token)) for token in range(self.size)}
        unknown = next((token for token, kind in kinds.items() if kind & TokenAttribute.UNKNOWN), None)
        spelled = ((token, self.text(token)) for token, kind in kinds.items() if kind & TokenAttribute.BYTE)
        found = byte_fallback.find(spelled)
        if unknown is None or found is None:
            return None
        tokenize = partial(self._natively, special=False)
        return ByteFallback(unknown=unknown, byte_tokens=found, tokenize=tokenize)

    def _natively(self, text: str, *, special: bool) -> list[int]:
        data = _utf8(text)
        room = len(data) + 8
        while True:
            ids = (ctypes.c_int32 * room)()
            count = self._library.llama_tokenize(self._handle, data, len(data), ids, room, False, special)
            if count >= 0:
                return ids[:count]
            room = -count

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """Returns the bytes that the tokens spell; control tokens by their name with `special`, else nothing.

        The space that some tokenizers put before a text, at its beginning and behind a mark, is taken off again; no
        other character is added or lost. Raises `UnknownToken`.
        """
        pieces = []
        begins = True
        for token in ids:
            piece = self.raw_piece(token) if special else self.piece(token)
            is_mark = bool(self.attributes(token) & _MARKS)
            pieces.append(piece[1:] if begins and not is_mark and self.prefixes_space and piece[:1] == b" " else piece)
            begins = (is_mark and self.kind != "wpm") or (begins and not piece)
        return b"".join(pieces)

    @cached_property
    def prefixes_space(self) -> bool:
        """Whether `tokenize` puts a space before a text that has none."""
        return any(b"".join(map(self.piece, self.tokenize(text))).startswith(b" ") for text in ("a", "0"))

    def piece(self, token: int) -> bytes:
        """Returns a token's bytes as they appear in an answer: nothing for a control token."""
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = self._read_piece(token, special=False)
        return known

    def raw_piece(self, token: int) -> bytes:
        """Returns a token's bytes; for a control token its name."""
        return self._read_piece(token, special=True)

    def label(self, token: int) -> str:
        """Returns a token's text for people: control tokens by their name, stray bytes as U+FFFD."""
        return self.raw_piece(token).decode("utf-8", "replace")

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        self._known(token)
        room = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self._library.llama_token_to_piece(self._handle, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def _text_or_nothing(self, token: int | None) -> str:
        return "" if token is None else self.text(token)

    def _known(self, token: int) -> int:
        """Returns the id. llama.cpp ends the process for one that does not exist."""
        if not 0 <= token < self.size:
            raise UnknownToken(token, self.size)
        return token


def _one(token: int | None) -> list[int]:
    return [] if token is None else [token]


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
