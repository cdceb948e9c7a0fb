"""Text to token ids and back to bytes, the same for every engine. Evaluates nothing.

`Tokenizer` is what prompts, answers and samplers need of one; `FolderTokenizer` is that of a Hugging Face folder.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer as Inner

from runtime.control_text import whole_characters
from runtime.token_bytes import decoder_of, pre_tokenizer_steps
from runtime.token_ids import UnknownToken
from runtime.tokenizer_files import read_templates, read_tokenizer

# Marks that end a turn, by their text: some models' files name only one of the two that they use.
_END_MARKS = frozenset({
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>",
    "<end_of_turn>", "<turn|>", "<end_of_utterance>", "<|eot|>", "<EOT>", "<｜end▁of▁sentence｜>", "<|return|>",
    "<|END_OF_TURN_TOKEN|>",
})  # fmt: skip


class Tokenizer(Protocol):
    """What the engines share of a tokenizer. Safe to use from any thread."""

    @property
    def size(self) -> int:
        """Ids are below this."""

    @property
    def adds_bos(self) -> bool:
        """Whether a raw text begins with a begin mark."""

    @property
    def adds_eos(self) -> bool:
        """Whether a text that is read whole ends with an end mark; a prompt never does."""

    @property
    def bos_text(self) -> str:
        """The text of the begin mark; "" where there is none."""

    @property
    def eos_text(self) -> str:
        """The text of the end mark; "" where there is none."""

    @property
    def has_end_mark(self) -> bool:
        """Whether `tokenize_whole` puts a mark after the text."""

    @property
    def control_tokens(self) -> dict[str, int]:
        """Every control token's text and id: the marks that only a template may write."""

    @property
    def control_ids(self) -> frozenset[int]: ...

    @property
    def suppressed(self) -> tuple[int, ...]:
        """Tokens that must never be drawn."""

    @property
    def prefixes_space(self) -> bool:
        """Whether `tokenize` puts a space before a text that has none."""

    def ends_answer(self, token: int) -> bool:
        """True for every token that ends an answer."""

    def takes_space(self, token: int) -> bool:
        """Whether a mark takes in the white space behind it, as Phi-3's do."""

    def is_token(self, text: str) -> bool:
        """Whether a text is one token, control tokens included."""

    def checked(self, ids: Iterable[int]) -> list[int]:
        """Returns ids that came from outside. Raises `UnknownToken`."""

    def tokenize(self, text: str, *, special: bool = False, add_bos: bool = False) -> list[int]:
        """Returns ids; with `special`, control tokens written in the text are recognised. No end mark is added."""

    def tokenize_whole(self, text: str, *, special: bool = False) -> list[int]:
        """Returns a text's ids with every mark that the model wants around one; see `tokenize`."""

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """Returns the bytes that ids spell, without a space that `tokenize` put before them."""

    def piece(self, token: int) -> bytes:
        """Returns a token's bytes in an answer: nothing for a control token."""

    def raw_piece(self, token: int) -> bytes:
        """Returns a token's bytes; for a control token its name."""

    def label(self, token: int) -> str:
        """Returns a token's text for people."""


class FolderTokenizer:
    """The tokenizer of a Hugging Face folder. Also of type `Tokenizer`."""

    def __init__(
        self, folder: Path, *, config: Mapping[str, Any] | None = None,
        generation_config: Mapping[str, Any] | None = None, size: int = 0,
    ) -> None:  # fmt: skip
        """`config` and `generation_config` add end marks. `size` is the number of rows of the model's embedding, where
        it is known: rows without a token are `suppressed`. Raises `NoTokenizer` or `DamagedModel`.
        """
        files = read_tokenizer(folder)
        self.folder = folder
        self._inner = files.tokenizer
        self._lock = threading.Lock()
        self._named = files.named
        self._settings = files.config
        said = config or {}
        text = said.get("text_config")  # of a model that also sees or hears
        self._sources = (said, text if isinstance(text, Mapping) else {}, generation_config or {})
        self._added = self._inner.get_added_tokens_decoder()
        self._to_bytes = decoder_of(self._inner)
        self._bytes: dict[int, bytes] = {}
        self.n_tokens = max(self._inner.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.size = max(size, self.n_tokens)

    @cached_property
    def templates(self) -> dict[str, str]:
        """The chat templates by name; the unnamed one is "default"."""
        return read_templates(self.folder)

    # --- tokens with a purpose ----------------------------------------------------------------------------------

    @property
    def bos_text(self) -> str:
        return self._named.get("bos_token", "")

    @property
    def eos_text(self) -> str:
        return self._named.get("eos_token", "")

    @property
    def bos_id(self) -> int | None:
        """The id of the begin mark, BERT's [CLS] where there is no other."""
        return self._id("bos_token") if "bos_token" in self._named else self._id("cls_token")

    @property
    def eos_id(self) -> int | None:
        return self._id("eos_token")

    @cached_property
    def _unknown(self) -> int | None:
        return self._id("unk_token")

    @property
    def pad_id(self) -> int | None:
        return self._id("pad_token")

    @property
    def mask_id(self) -> int | None:
        return self._id("mask_token")

    @property
    def adds_bos(self) -> bool:
        return self.bos_id is not None and self._marks[0][:1] == [self.bos_id]

    @property
    def adds_eos(self) -> bool:
        return self.eos_id is not None and self._marks[1][-1:] == [self.eos_id]

    @property
    def has_end_mark(self) -> bool:
        return bool(self._marks[1])

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        unknown = self._named.get("unk_token")
        special = {token.content: id for id, token in self._added.items() if token.special and token.content}
        return {text: id for text, id in special.items() if text != unknown}

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return frozenset(self.control_tokens.values())

    @cached_property
    def suppressed(self) -> tuple[int, ...]:
        said = {token for source in self._sources for token in _ids(source.get("suppress_tokens"))}
        empty = {token for token in range(self.size) if self._inner.id_to_token(token) is None}
        return tuple(sorted({token for token in said if 0 <= token < self.size} | empty))

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Every token that ends an answer: of both configs and the tokenizer, and end-of-turn marks by their text."""
        said = {token for source in self._sources for token in _ids(source.get("eos_token_id")) if token < self.size}
        marks = {id for text, id in self.control_tokens.items() if text in _END_MARKS}
        own = {self.eos_id} if self.eos_id is not None else set()
        return frozenset(said | marks | own)

    def ends_answer(self, token: int) -> bool:
        return token in self.stop_ids

    def takes_space(self, token: int) -> bool:
        return token in self._added and self._added[token].rstrip

    def is_token(self, text: str) -> bool:
        ids = self.tokenize(text, special=True)
        return len(ids) == 1 and self.label(ids[0]) == text

    def checked(self, ids: Iterable[int]) -> list[int]:
        return [self._known(token) for token in ids]

    def _known(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise UnknownToken(token, self.size)
        return token

    # --- text to ids --------------------------------------------------------------------------------------------

    def tokenize(
        self, text: str, *, special: bool = False, add_bos: bool = False, follows: bool = False
    ) -> list[int]:
        """Returns ids; see `Tokenizer.tokenize`. With `follows`, the text stands behind something else: tokenizers that
        put a space before the first word of a text alone do not put one.
        """
        start = [self.bos_id] if add_bos and self.adds_bos and self.bos_id is not None else []
        return start + self._tokenize(whole_characters(text), special=special, follows=follows)

    def tokenize_whole(self, text: str, *, special: bool = False) -> list[int]:
        before, behind = self._marks
        return before + self.tokenize(text, special=special) + behind

    def _tokenize(self, text: str, *, special: bool, follows: bool) -> list[int]:
        inner = self._following if follows else self._inner
        ids = self._encode(inner, text, special=special)
        if not special and not self.control_ids.isdisjoint(ids):  # a model may know a mark's text as a word, too
            ids = self._encode(self._markless(follows), text, special=False)
        return ids

    def _encode(self, inner: Inner, text: str, *, special: bool) -> list[int]:
        with self._lock:  # the switch belongs to the object
            inner.encode_special_tokens = not special
            ids: list[int] = inner.encode(text, add_special_tokens=False).ids
        return ids

    @cached_property
    def _following(self) -> Inner:
        """The tokenizer for text behind something else."""
        steps = pre_tokenizer_steps(self._inner)
        if not any(step["type"] == "Metaspace" and step.get("prepend_scheme") == "first" for step in steps):
            return self._inner
        return Inner.from_str(self._inner.to_str().replace('"prepend_scheme":"first"', '"prepend_scheme":"never"'))

    def _markless(self, follows: bool) -> Inner:
        return self._markless_following if follows else self._markless_first

    @cached_property
    def _markless_first(self) -> Inner:
        return _without_marks(self._inner, self.control_tokens)

    @cached_property
    def _markless_following(self) -> Inner:
        return _without_marks(self._following, self.control_tokens)

    @cached_property
    def _marks(self) -> tuple[list[int], list[int]]:
        """The ids before and behind a text that is read whole."""
        whole = self._inner.encode("a", add_special_tokens=True)
        added = list(zip(whole.ids, whole.special_tokens_mask, strict=True))
        before = [token for token, _mask in takewhile(lambda pair: pair[1], added)]
        behind = [token for token, _mask in takewhile(lambda pair: pair[1], reversed(added[len(before) :]))][::-1]
        if isinstance(self._settings.get("add_bos_token"), bool):
            before = [self.bos_id] if self._settings["add_bos_token"] and self.bos_id is not None else []
        if isinstance(self._settings.get("add_eos_token"), bool):
            behind = [self.eos_id] if self._settings["add_eos_token"] and self.eos_id is not None else []
        return before, behind

    def _id(self, name: str) -> int | None:
        return self._inner.token_to_id(self._named[name]) if name in self._named else None

    # --- ids to bytes -------------------------------------------------------------------------------------------

    def piece(self, token: int) -> bytes:
        added = self._added.get(token)
        return b"" if added is not None and added.special else self.raw_piece(token)

    def raw_piece(self, token: int) -> bytes:
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = self._read_piece(token)
        return known

    def label(self, token: int) -> str:
        return self.raw_piece(token).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns each token's own text, control tokens by their name; bytes that are no text as U+FFFD."""
        return [self.label(token) for token in ids]

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        return b"".join(self._without_prefix(ids, special=special))

    def _without_prefix(self, ids: Iterable[int], *, special: bool) -> Iterator[bytes]:
        begins = True
        for token in ids:
            piece = self.raw_piece(token) if special else self.piece(token)
            is_mark = token in self._added and token != self._unknown
            is_prefixed = begins and not is_mark and self.prefixes_space and piece[:1] == b" "
            yield piece[1:] if is_prefixed else piece
            begins = not self._prefixes_once if is_mark else begins and not piece

    @cached_property
    def prefixes_space(self) -> bool:
        return any(b"".join(map(self.piece, self.tokenize(text))).startswith(b" ") for text in ("a", "0"))

    @cached_property
    def _prefixes_once(self) -> bool:
        """Whether only the first word of a text gets a space, not those behind marks."""
        return self._following is not self._inner

    def close(self) -> None:
        """Frees nothing: the tokenizer goes with this object."""

    def _read_piece(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token].content.encode()
        spelling = self._inner.id_to_token(token) if token >= 0 else None
        return b"" if spelling is None else self._to_bytes(spelling)


def _ids(said: object) -> list[int]:
    found = said if isinstance(said, list) else [said]
    return [token for token in found if isinstance(token, int) and not isinstance(token, bool) and token >= 0]


def _without_marks(inner: Inner, marks: Mapping[str, int]) -> Inner:
    """Returns a tokenizer for plain text, to whose model the texts of control tokens mean nothing.

    Their entries get spellings that no text has; every other token keeps its id.
    """
    described = json.loads(inner.to_str())
    described["added_tokens"] = [token for token in described["added_tokens"] if not token["special"]]
    described["post_processor"] = None
    model = described["model"]
    hidden = {text: f"\ufdd0{token}\ufdd1" for text, token in marks.items()}
    if isinstance(model["vocab"], list):
        model["vocab"] = [[hidden.get(text, text), score] for text, score in model["vocab"]]
    else:
        model["vocab"] = {hidden.get(text, text): token for text, token in model["vocab"].items()}
    if "merges" in model:
        prefix = model.get("continuing_subword_prefix") or ""
        model["merges"] = [
            (left, right) for left, right in model["merges"]
            if hidden.keys().isdisjoint((left, right, left + right.removeprefix(prefix)))
        ]  # fmt: skip
    return Inner.from_str(json.dumps(described))
