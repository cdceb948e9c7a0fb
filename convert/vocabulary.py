"""Turns a folder's tokenizer into the vocabulary of a GGUF file. Knows the spellings of both sides and no weights.

Four kinds: byte-level BPE ("gpt2" in GGUF), SentencePiece BPE ("llama") and Unigram ("t5"), WordPiece ("bert"). What is
made here is only believed after `vocabulary_proof` has held llama.cpp's ids against the source's.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tokenizers import Tokenizer, models

from convert import pre_tokenizers
from convert.charsmap_table import packed_table, replacements_of
from convert.gguf_file import KeyValue, array, boolean, string, u32
from convert.tokenizer_json import SPACE, State, prefixes_space, state_of, steps_of
from runtime.errors import UserError
from runtime.sentencepiece_model import SentencePieceModel
from runtime.text import _, ngettext
from runtime.tokenizer_files import TokenizerFiles

_KEY = "tokenizer.ggml."
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_LOOKS_LIKE_A_MARK = re.compile(r"<\|.*\|>|<｜.*｜>|<(?:start|end)_of_turn>", re.DOTALL)
_NO_SCORE = -1e4  # of a piece that no merge makes: nothing is ever joined to it
_EXACT_MERGES = "sarvam-moe"  # llama.cpp's BPE on the characters themselves, by its merges


class TokenKind(IntEnum):
    """What a token is, in GGUF's numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_BY_CHARACTERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents", "Precompiled"})
_KINDS = frozenset(map(int, TokenKind))


class VocabularyMisfit(UserError):
    """A tokenizer that llama.cpp has no way to run. `reason` is a sentence."""

    code = "vocabulary_misfit"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("The model's tokenizer does not fit into a GGUF file."),
            reason,
            _("The model itself runs in Quern's own engine, from its folder."),
        )


@dataclass
class Vocabulary:
    """A vocabulary in GGUF's terms. `model` is its kind there; `pre` is found by trying (`vocabulary_proof`).

    `likely` are the names under which the source's way to cut words is published: they are tried first, and what
    llama.cpp is known to cut otherwise outside of ASCII is excused for them.
    """

    model: str
    tokens: list[str]
    kinds: list[TokenKind]
    scores: list[float] | None = None
    merges: list[str] | None = None
    pre: str = ""
    likely: tuple[str, ...] = ()
    more: dict[str, KeyValue] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keys(self) -> dict[str, KeyValue]:
        """Returns the metadata."""
        found = {"model": string(self.model), "pre": string(self.pre or "default")}
        found["tokens"] = array("string", self.tokens)
        if self.scores is not None:
            found["scores"] = array("f32", self.scores)
        found["token_type"] = array("i32", [int(kind) for kind in self.kinds])
        if self.merges is not None:
            found["merges"] = array("string", self.merges)
        return {_KEY + key: value for key, value in {**found, **self.more}.items()}

    def marks(self) -> list[str]:
        """Returns the tokens that a text may hold whole and that are never cut, by their text."""
        kinds = (TokenKind.CONTROL, TokenKind.USER_DEFINED)
        pairs = zip(self.tokens, self.kinds, strict=True)
        return [text for text, kind in pairs if kind in kinds and text.strip()]


def vocabularies_of(
    files: TokenizerFiles, *, n_rows: int, in_use: Iterable[str] = (), pieces: SentencePieceModel | None = None
) -> list[Vocabulary]:
    """Returns the ways to write the vocabulary of a model whose embedding has `n_rows` rows, the best first.

    `in_use` are texts (chat templates, names of marks) whose tokens the model must have; `pieces` is the
    tokenizer.model beside the tokenizer.json. Raises `VocabularyMisfit`.
    """
    state = state_of(files.tokenizer)
    build = _BUILDERS.get(_kind(state))
    if build is None:
        reason = _("It is of a kind that llama.cpp does not know: {kind}.")
        raise VocabularyMisfit(reason.format(kind=state["model"].get("type")))
    _require_rows(state, n_rows, [*in_use, *(text for name, text in files.named.items() if name != "pad_token")])
    return list(build(state, n_rows, pieces))


def template_keys(templates: Mapping[str, str]) -> dict[str, KeyValue]:
    """Returns the keys for chat templates by name; the unnamed one is "default"."""
    found = {}
    if "default" in templates:
        found["tokenizer.chat_template"] = string(templates["default"])
    others = [name for name in templates if name != "default"]
    if others:
        found["tokenizer.chat_templates"] = array("string", others)
        found |= {f"tokenizer.chat_template.{name}": string(templates[name]) for name in others}
    return found


def _kind(state: Mapping[str, Any]) -> str:
    kind = str(state["model"].get("type") or "")
    steps = {step["type"] for part in ("pre_tokenizer", "decoder") for step in steps_of(state.get(part))}
    if kind == "BPE" and "ByteLevel" in steps:
        return "byte-level"
    spaced = {step["type"] for part in ("normalizer", "pre_tokenizer") for step in steps_of(state.get(part))}
    return "sentencepiece" if kind == "BPE" and spaced & {"Metaspace", "Replace", "Prepend"} else kind


def _require_rows(state: Mapping[str, Any], n_rows: int, in_use: Iterable[str]) -> None:
    """Raises `VocabularyMisfit` where a token that texts come to has no row in the embedding."""
    added = {token["content"]: token["id"] for token in state.get("added_tokens") or ()}
    vocabulary = state["model"]["vocab"]
    spelled = (text for text, _score in vocabulary) if isinstance(vocabulary, list) else vocabulary
    highest = len(vocabulary) - 1 if isinstance(vocabulary, list) else max(vocabulary.values(), default=-1)
    used = " ".join(in_use)
    needed = max([id for text, id in added.items() if text in used], default=-1)
    if highest >= n_rows and not all(text in added for text in spelled):
        needed = max(needed, highest)
    if needed >= n_rows:
        reason = _("It has tokens up to number {last}, but the size of the model's embedding is only {rows}.")
        raise VocabularyMisfit(reason.format(last=f"{needed:,}", rows=f"{n_rows:,}"))


# --- tokens ----------------------------------------------------------------------------------------------------------


def _base(
    state: Mapping[str, Any], spelled: Mapping[str, int], n_rows: int
) -> tuple[list[str], list[TokenKind], list[str]]:
    """Returns a text and a kind for every row of the embedding, and notes."""
    tokens = [""] * n_rows
    kinds = [TokenKind.UNUSED] * n_rows
    for text, id in spelled.items():
        if id < n_rows:
            tokens[id], kinds[id] = text, TokenKind.NORMAL
    left_out = 0
    for added in state.get("added_tokens") or ():
        if added["id"] >= n_rows:
            left_out += 1
            continue
        control = added.get("special") or _LOOKS_LIKE_A_MARK.fullmatch(added["content"])
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = TokenKind.CONTROL if control else TokenKind.USER_DEFINED
    notes = []
    if left_out:
        note = ngettext(
            "{count} token is left out: the model's embedding, whose size is {rows}, has no row for it.",
            "{count} tokens are left out: the model's embedding, whose size is {rows}, has no rows for them.", left_out,
        )  # fmt: skip
        notes.append(note.format(count=left_out, rows=f"{n_rows:,}"))
    return tokens, kinds, notes


def _told_apart(made: Vocabulary) -> Vocabulary:
    """Gives rows without a text of their own one: llama.cpp wants no text twice, and reads texts up to a zero byte."""
    known: set[str] = set()
    lost = 0
    for id, text in enumerate(made.tokens):
        plain = text.partition("\0")[0]
        if plain and plain == text and text not in known:
            known.add(text)
            continue
        lost += made.kinds[id] is not TokenKind.UNUSED
        made.kinds[id] = TokenKind.UNUSED
    taken = known
    for id, text in enumerate(made.tokens):
        if made.kinds[id] is TokenKind.UNUSED and (not text or text in taken or "\0" in text):
            made.tokens[id] = _free_name(id, taken)
    if lost:
        note = ngettext(
            "{count} token gets another name, which no text holds: llama.cpp cannot tell its own from others.",
            "{count} tokens get other names, which no text holds: llama.cpp cannot tell theirs from others.", lost,
        )  # fmt: skip
        made.notes.append(note.format(count=lost))
    return made


def _free_name(id: int, taken: set[str]) -> str:
    name = f"[PAD{id}]"
    while name in taken:
        name = f"[{name}]"
    taken.add(name)
    return name


def _byte_level(state: State, n_rows: int, _pieces: SentencePieceModel | None) -> Iterator[Vocabulary]:
    model = state["model"]
    _refuse(model, "dropout", "continuing_subword_prefix", "end_of_word_suffix")
    tokens, kinds, notes = _base(state, model["vocab"], n_rows)
    steps = list(steps_of(state.get("pre_tokenizer")))
    likely = pre_tokenizers.names_for(steps, ignore_merges=bool(model.get("ignore_merges")))
    yield _told_apart(
        Vocabulary("gpt2", tokens, kinds, merges=list(_merges(model)), likely=likely, notes=notes)
    )


def _sentencepiece_bpe(state: State, n_rows: int, pieces: SentencePieceModel | None) -> Iterator[Vocabulary]:
    """Yields SentencePiece's vocabulary with the scores of its own file, then with ranks; then plain BPE by merges."""
    model = state["model"]
    more = {"add_space_prefix": boolean(prefixes_space(state))}
    own, ranks = _scores_of(pieces, model["vocab"], n_rows), _ranks(model, n_rows)
    for scores in filter(None, (own, ranks)):
        tokens, kinds, notes = _base(state, model["vocab"], n_rows)
        _name_bytes(tokens, kinds)
        _name_unknown(tokens, kinds, model.get("unk_token"), pieces)
        given = scores if scores is own else [
            score if kind is TokenKind.NORMAL else 0.0 for score, kind in zip(scores, kinds, strict=True)
        ]  # fmt: skip
        yield _told_apart(Vocabulary("llama", tokens, kinds, scores=given, more=dict(more), notes=notes))
    if not prefixes_space(state) and model.get("merges"):
        tokens, kinds, notes = _base(state, model["vocab"], n_rows)
        _name_bytes(tokens, kinds)
        yield _told_apart(
            Vocabulary("gpt2", tokens, kinds, merges=list(_merges(model)), pre=_EXACT_MERGES, notes=notes)
        )


def _scores_of(pieces: SentencePieceModel | None, spelled: Mapping[str, int], n_rows: int) -> list[float]:
    """Returns the scores of a tokenizer.model that holds the same pieces; nothing where it does not."""
    if pieces is None or any(spelled.get(piece.text) != id for id, piece in enumerate(pieces.pieces)):
        return []
    scores = [piece.score for piece in pieces.pieces][:n_rows]
    return scores + [_NO_SCORE] * (n_rows - len(scores))


def _ranks(model: Mapping[str, Any], n_rows: int) -> list[float]:
    """Returns a score for every piece by the first merge that makes it."""
    rank: dict[str, int] = {}
    for number, merge in enumerate(_merges(model)):
        rank.setdefault(merge.replace(" ", ""), number)
    scores = [_NO_SCORE] * n_rows
    for text, id in model["vocab"].items():
        if id < n_rows and text in rank:
            scores[id] = float(-rank[text])
    return scores


def _name_unknown(
    tokens: Sequence[str], kinds: list[TokenKind], text: object, pieces: SentencePieceModel | None
) -> None:
    """Marks the token for what has none, and takes over what the tokenizer.model knows better."""
    for id, token in enumerate(tokens):
        piece = pieces.pieces[id] if pieces is not None and id < len(pieces.pieces) else None
        said = TokenKind(piece.type) if piece is not None and piece.text == token and piece.type in _KINDS else None
        if said is not None and (kinds[id] is TokenKind.NORMAL or said is TokenKind.UNKNOWN):
            kinds[id] = said
        if token == text and said is not TokenKind.CONTROL:
            kinds[id] = TokenKind.UNKNOWN


def _name_bytes(tokens: Sequence[str], kinds: list[TokenKind]) -> None:
    for id, token in enumerate(tokens):
        if kinds[id] is TokenKind.NORMAL and _BYTE.fullmatch(token):
            kinds[id] = TokenKind.BYTE


def _unigram(state: State, n_rows: int, _pieces: SentencePieceModel | None) -> Iterator[Vocabulary]:
    model = state["model"]
    spelled = {text: id for id, (text, _score) in enumerate(model["vocab"])}
    tokens, kinds, notes = _base(state, spelled, n_rows)
    given = {id: float(score) for id, (_text, score) in enumerate(model["vocab"])}
    scores = [given.get(id, 0.0) for id in range(n_rows)]
    unknown = model.get("unk_id")
    if isinstance(unknown, int) and unknown < n_rows:
        kinds[unknown] = TokenKind.UNKNOWN
    if model.get("byte_fallback"):
        _name_bytes(tokens, kinds)
        notes.append(_("Characters without a token are spelled in bytes by Quern; other programs that use llama.cpp "
                       "may lose them."))  # fmt: skip
    made = Vocabulary("t5", tokens, kinds, scores=scores, more=_normalizing(state), notes=notes)
    if isinstance(unknown, int) and unknown < n_rows:
        made.more["unknown_token_id"] = u32(unknown)
    yield _told_apart(made)


def _normalizing(state: State) -> dict[str, KeyValue]:
    """Returns what llama.cpp is told of how a Unigram source changes texts first."""
    steps = list(steps_of(state.get("normalizer")))
    merges_spaces = any(step["type"] == "Replace" and " {2,}" in str(step.get("pattern")) for step in steps)
    merges_spaces |= any(step["type"] == "WhitespaceSplit" for step in steps_of(state.get("pre_tokenizer")))
    more = {
        "add_space_prefix": boolean(prefixes_space(state)),
        "remove_extra_whitespaces": boolean(merges_spaces),
    }
    table = _character_table([step for step in steps if step["type"] in _BY_CHARACTERS])
    if table:
        more["precompiled_charsmap"] = array("u8", list(table))
    return more


def _character_table(steps: Sequence[State]) -> bytes:
    """Returns the table for what steps do to characters: the source's own, or one that is made of them."""
    if not steps:
        return b""
    if len(steps) == 1 and steps[0]["type"] == "Precompiled":
        return base64.b64decode(steps[0].get("precompiled_charsmap") or "")
    plain = Tokenizer(models.WordLevel({}, unk_token=""))
    described = state_of(plain) | {"normalizer": {"type": "Sequence", "normalizers": list(steps)}}
    normalizer = Tokenizer.from_str(json.dumps(described)).normalizer
    return packed_table(replacements_of(normalizer.normalize_str))


def _word_piece(state: State, n_rows: int, _pieces: SentencePieceModel | None) -> Iterator[Vocabulary]:
    model = state["model"]
    prefix = model.get("continuing_subword_prefix", "##")
    tokens, kinds, notes = _base(state, model["vocab"], n_rows)
    for id, token in enumerate(tokens):
        if kinds[id] is TokenKind.NORMAL:
            tokens[id] = token[len(prefix) :] if prefix and token.startswith(prefix) else SPACE + token
    normalizer = next((step for step in steps_of(state.get("normalizer")) if step["type"] == "BertNormalizer"), {})
    lower = bool(normalizer.get("lowercase"))
    strips = normalizer.get("strip_accents")
    more = {
        "normalizer.lowercase": boolean(lower),
        "normalizer.strip_accents": boolean(lower if strips is None else bool(strips)),
    }
    yield _told_apart(Vocabulary("bert", tokens, kinds, scores=[0.0] * n_rows, more=more, notes=notes))


_BUILDERS = {
    "byte-level": _byte_level, "sentencepiece": _sentencepiece_bpe, "Unigram": _unigram, "WordPiece": _word_piece,
}  # fmt: skip


def _merges(model: Mapping[str, Any]) -> Iterator[str]:
    """Yields merges as “left right”, whichever of the two spellings the file has."""
    for merge in model.get("merges") or ():
        left, right = merge if isinstance(merge, list) else merge.split(" ", 1)
        if " " in left or " " in right:
            reason = _("One of its merges, “{merge}”, has a space inside.")
            raise VocabularyMisfit(reason.format(merge=f"{left} {right}"))
        yield f"{left} {right}"


def _refuse(model: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if model.get(name):
            raise VocabularyMisfit(_("It uses “{name}”, which llama.cpp does not know.").format(name=name))
