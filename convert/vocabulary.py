"""Turns a folder's tokenizer into the vocabulary of a GGUF file. Knows the spellings of both sides and no weights.

Four kinds: byte-level BPE ("gpt2" in GGUF), SentencePiece BPE ("llama") and Unigram ("t5"), WordPiece ("bert"). What is
made here is only believed after `vocabulary_proof` has held llama.cpp's ids against the source's.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from convert.gguf_file import KeyValue, array, boolean, string, u32
from runtime.errors import UserError
from runtime.text import _
from runtime.tokenizer_files import TokenizerFiles

_KEY = "tokenizer.ggml."
_SPACE = "▁"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_LOOKS_LIKE_A_MARK = re.compile(r"<\|.*\|>|<｜.*｜>|<(?:start|end)_of_turn>", re.DOTALL)
_NO_SCORE = -1e4  # of a piece that no merge makes: nothing is ever joined to it
_ID_KEYS = {
    "bos_token": "bos_token_id", "eos_token": "eos_token_id", "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id", "pad_token": "padding_token_id", "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}  # fmt: skip  # “seperator” is how the format spells it


class TokenKind(IntEnum):
    """What a token is, in GGUF's numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


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

    `likely` are pre-tokenizers to try first: a small vocabulary may come out the same with several. `space_first` says
    that the source puts a space before a text, which llama.cpp does not do for this kind.
    """

    model: str
    tokens: list[str]
    kinds: list[TokenKind]
    scores: list[float] | None = None
    merges: list[str] | None = None
    pre: str = ""
    likely: tuple[str, ...] = ()
    space_first: bool = False
    more: dict[str, KeyValue] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keys(self) -> dict[str, KeyValue]:
        """Returns the metadata."""
        found = {"model": string(self.model)}
        if self.pre:
            found["pre"] = string(self.pre)
        found["tokens"] = array("string", self.tokens)
        if self.scores is not None:
            found["scores"] = array("f32", self.scores)
        found["token_type"] = array("i32", [int(kind) for kind in self.kinds])
        if self.merges is not None:
            found["merges"] = array("string", self.merges)
        return {_KEY + key: value for key, value in {**found, **self.more}.items()}


def vocabulary_of(
    files: TokenizerFiles, *, n_rows: int, adds_bos: bool, adds_eos: bool, end_ids: Sequence[int] = ()
) -> Vocabulary:
    """Returns the vocabulary of a model whose embedding has `n_rows` rows. Raises `VocabularyMisfit`.

    `end_ids` are the tokens that end an answer, the most important first.
    """
    state = json.loads(files.tokenizer.to_str())
    build = _BUILDERS.get(_kind(state))
    if build is None:
        reason = _("It is of a kind that llama.cpp does not know: {kind}.")
        raise VocabularyMisfit(reason.format(kind=state["model"].get("type")))
    made = build(state, n_rows)
    _add_ids(made, files, end_ids)
    made.more["add_bos_token"] = boolean(adds_bos)
    made.more["add_eos_token"] = boolean(adds_eos)
    return made


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
    model = state["model"]
    kind = str(model.get("type") or "")
    steps = {step["type"] for part in ("pre_tokenizer", "decoder") for step in steps_of(state.get(part))}
    if kind == "BPE":
        return "byte-level" if "ByteLevel" in steps else "sentencepiece" if model.get("byte_fallback") else "BPE"
    return kind


def steps_of(part: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yields the steps of a normalizer, pre-tokenizer or decoder, as tokenizer.json has them."""
    if not part:
        return
    if part.get("type") == "Sequence":
        for step in part.get("pretokenizers") or part.get("normalizers") or part.get("decoders") or ():
            yield from steps_of(step)
        return
    yield part


# --- tokens ----------------------------------------------------------------------------------------------------------


def _base(
    state: Mapping[str, Any], spelled: Mapping[str, int], n_rows: int
) -> tuple[list[str], list[TokenKind], list[str]]:
    """Returns a text and a kind for every row of the embedding, and notes."""
    tokens = [f"[PAD{id}]" for id in range(n_rows)]
    kinds = [TokenKind.UNUSED] * n_rows
    left_out = 0
    for text, id in spelled.items():
        if id >= n_rows:
            left_out += 1
            continue
        tokens[id], kinds[id] = text, TokenKind.NORMAL
    for added in state.get("added_tokens") or ():
        if added["id"] >= n_rows:
            left_out += added["content"] not in spelled
            continue
        control = added.get("special") or _LOOKS_LIKE_A_MARK.fullmatch(added["content"])
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = TokenKind.CONTROL if control else TokenKind.USER_DEFINED
    notes = []
    if left_out:
        note = _("{count} tokens are left out: the model's embedding has only {rows} rows.")
        notes.append(note.format(count=left_out, rows=f"{n_rows:,}"))
    return tokens, kinds, notes


def _byte_level(state: Mapping[str, Any], n_rows: int) -> Vocabulary:
    model = state["model"]
    _refuse(model, "dropout", "continuing_subword_prefix", "end_of_word_suffix")
    tokens, kinds, notes = _base(state, model["vocab"], n_rows)
    steps = steps_of(state.get("pre_tokenizer"))
    space_first = any(step["type"] == "ByteLevel" and step.get("add_prefix_space") for step in steps)
    if space_first:
        notes.append(_("The source puts a space before a text without one, which llama.cpp does not: begin with one."))
    return Vocabulary(
        "gpt2", tokens, kinds, merges=list(_merges(model)), likely=_likely(state), space_first=space_first, notes=notes
    )


def _likely(state: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the pre-tokenizers whose way to cut digits is the one that the file spells out."""
    steps = list(steps_of(state.get("pre_tokenizer")))
    if any(step["type"] == "Digits" and step.get("individual_digits") for step in steps):
        return ("smollm", "starcoder", "refact")
    patterns = " ".join(str((step.get("pattern") or {}).get("Regex", "")) for step in steps if step["type"] == "Split")
    if "\\p{N}{1,3}" in patterns:
        return ("llama-bpe", "glm4") if state["model"].get("ignore_merges") else ("chatglm-bpe", "llama-bpe")
    return ("qwen2",) if "\\p{N}|" in patterns else ()


def _sentencepiece_bpe(state: Mapping[str, Any], n_rows: int) -> Vocabulary:
    model = state["model"]
    tokens, kinds, notes = _base(state, model["vocab"], n_rows)
    rank: dict[str, int] = {}
    for number, merge in enumerate(_merges(model)):
        rank.setdefault(merge.replace(" ", ""), number)
    scores = [float(-rank[token]) if token in rank else _NO_SCORE for token in tokens]
    for id, token in enumerate(tokens):
        if kinds[id] is TokenKind.NORMAL and _BYTE.fullmatch(token):
            kinds[id] = TokenKind.BYTE
        if token == model.get("unk_token"):
            kinds[id] = TokenKind.UNKNOWN
        if kinds[id] is not TokenKind.NORMAL:
            scores[id] = 0.0
    more = {"add_space_prefix": boolean(_prefixes_space(state))}
    return Vocabulary("llama", tokens, kinds, scores=scores, more=more, notes=notes)


def _unigram(state: Mapping[str, Any], n_rows: int) -> Vocabulary:
    model = state["model"]
    spelled = {text: id for id, (text, _score) in enumerate(model["vocab"])}
    tokens, kinds, notes = _base(state, spelled, n_rows)
    given = {id: float(score) for id, (_text, score) in enumerate(model["vocab"])}
    scores = [given.get(id, 0.0) for id in range(n_rows)]
    unknown = model.get("unk_id")
    if isinstance(unknown, int) and unknown < n_rows:
        kinds[unknown] = TokenKind.UNKNOWN
    normalizing = list(steps_of(state.get("normalizer")))
    more = {
        "add_space_prefix": boolean(_prefixes_space(state)),
        "remove_extra_whitespaces": boolean(any(step["type"] in ("Replace", "Strip") for step in normalizing)),
    }
    for step in normalizing:
        if step["type"] == "Precompiled" and step.get("precompiled_charsmap"):
            more["precompiled_charsmap"] = array("u8", list(base64.b64decode(step["precompiled_charsmap"])))
    return Vocabulary("t5", tokens, kinds, scores=scores, more=more, notes=notes)


def _word_piece(state: Mapping[str, Any], n_rows: int) -> Vocabulary:
    model = state["model"]
    prefix = model.get("continuing_subword_prefix", "##")
    tokens, kinds, notes = _base(state, model["vocab"], n_rows)
    for id, token in enumerate(tokens):
        if kinds[id] is TokenKind.NORMAL:
            tokens[id] = token[len(prefix) :] if prefix and token.startswith(prefix) else _SPACE + token
    normalizer = next((step for step in steps_of(state.get("normalizer")) if step["type"] == "BertNormalizer"), {})
    lower = bool(normalizer.get("lowercase"))
    strips = normalizer.get("strip_accents")
    more = {
        "token_type_count": u32(2),
        "normalizer.lowercase": boolean(lower),
        "normalizer.strip_accents": boolean(lower if strips is None else bool(strips)),
    }
    return Vocabulary("bert", tokens, kinds, scores=[0.0] * n_rows, more=more, notes=notes)


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


def _prefixes_space(state: Mapping[str, Any]) -> bool:
    for step in (*steps_of(state.get("normalizer")), *steps_of(state.get("pre_tokenizer"))):
        if step["type"] == "Prepend" and step.get("prepend") == _SPACE:
            return True
        if step["type"] == "Metaspace":
            return bool(step.get("prepend_scheme", "always") != "never" and step.get("add_prefix_space", True))
    return False


def _add_ids(made: Vocabulary, files: TokenizerFiles, end_ids: Sequence[int]) -> None:
    """Adds the ids of tokens with a purpose; the first end that is not the tokenizer's own ends a turn."""
    size = len(made.tokens)
    for name, key in _ID_KEYS.items():
        id = files.tokenizer.token_to_id(files.named[name]) if files.named.get(name) else None
        if id is not None and id < size:
            made.more[key] = u32(id)
    ends = [id for id in dict.fromkeys(end_ids) if 0 <= id < size]
    known = made.more.get("eos_token_id")
    if ends and known is None:
        known = made.more["eos_token_id"] = u32(ends[0])
    rest = [id for id in ends if known is None or id != known.content]
    for key, id in zip(("eot_token_id", "eom_token_id"), rest, strict=False):
        made.more[key] = u32(id)


