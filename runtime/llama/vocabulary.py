"""A model's vocabulary: text to token ids and back to bytes. Evaluates nothing; safe to use from any thread."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

_CONTROL = 1 << 3  # LLAMA_TOKEN_ATTR_CONTROL
_PIECE_BYTES = 256


class Vocabulary:
    """Wraps a `llama_vocab`, which lives as long as its model."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self.size: int = library.llama_vocab_n_tokens(handle)
        self.adds_bos: bool = library.llama_vocab_get_add_bos(handle)
        self._bytes: dict[int, bytes] = {}

    @property
    def handle(self) -> Any:
        return self._handle

    @cached_property
    def bos_text(self) -> str:
        """The text of the begin-of-text token; empty where the model has none."""
        return self._text_of(self._library.llama_vocab_bos(self._handle))

    @cached_property
    def eos_text(self) -> str:
        """The text of the end-of-text token; empty where the model has none."""
        return self._text_of(self._library.llama_vocab_eos(self._handle))

    @cached_property
    def has_end_mark(self) -> bool:
        """Whether `tokenize_whole` puts a mark after the text; llama.cpp's WordPiece does so unasked."""
        word_piece = self._library.llama_vocab_type(self._handle) == self._library.LLAMA_VOCAB_TYPE_WPM
        return bool(word_piece or self._library.llama_vocab_get_add_eos(self._handle))

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Every control token's text and id: the marks that only a template may write."""
        attributes, text = self._library.llama_vocab_get_attr, self._library.llama_vocab_get_text
        found = (token for token in range(self.size) if attributes(self._handle, token) & _CONTROL)
        texts = {text(self._handle, token).decode("utf-8", "replace"): token for token in found}
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

    def tokenize(self, text: str, *, special: bool = False, add_bos: bool = False) -> list[int]:
        """Returns token ids. With `special`, control tokens written in the text are recognised.

        `add_bos` adds the model's own begin mark if its file says so; an end mark is never added.
        Lone surrogates, which no UTF-8 can hold, become U+FFFD.
        """
        start = [self._library.llama_vocab_bos(self._handle)] if add_bos and self.adds_bos else []
        return start + self._tokenize(text, marks=False, special=special)

    def tokenize_whole(self, text: str) -> list[int]:
        """Returns a plain text's ids with every mark that the file wants around one: BERT's [CLS] and [SEP], say."""
        return self._tokenize(text, marks=True, special=False)

    def _tokenize(self, text: str, *, marks: bool, special: bool) -> list[int]:
        data = _utf8(text)
        room = len(data) + 8
        while True:
            ids = (ctypes.c_int32 * room)()
            count = self._library.llama_tokenize(self._handle, data, len(data), ids, room, marks, special)
            if count >= 0:
                return ids[:count]
            room = -count

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
        room = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self._library.llama_token_to_piece(self._handle, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def _text_of(self, token: int) -> str:
        if token < 0:
            return ""
        text: bytes = self._library.llama_vocab_get_text(self._handle, token)
        return text.decode("utf-8", "replace")


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
