"""The keys for tokens with a purpose: begin, end, unknown, those that end a turn, those for code. Opens no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer

from convert.gguf_file import array, boolean, u32
from convert.vocabulary import TokenKind, Vocabulary
from runtime.text import _, ngettext
from runtime.token_bytes import byte_level_characters
from runtime.tokenizer import FolderTokenizer
from runtime.tokenizer_files import TokenizerFiles

_NAMED = {
    "bos_token": "bos_token_id", "eos_token": "eos_token_id", "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id", "pad_token": "padding_token_id", "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}  # fmt: skip  # “seperator” is how the format spells it
# Marks for filling in the middle of code (Bavarian et al. 2022, arXiv 2207.14255), by their texts.
_CODE = {
    "fim_pre_token_id": ("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
                         "<|code_prefix|>", "<|prefix|>"),
    "fim_suf_token_id": ("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
                         "<|code_suffix|>", "<|suffix|>"),
    "fim_mid_token_id": ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
                         "<|code_middle|>", "<|middle|>"),
    "fim_pad_token_id": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>"),
    "fim_rep_token_id": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>"),
    "fim_sep_token_id": ("<|file_sep|>",),
}  # fmt: skip
_EOM = "<|eom_id|>"
_TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>", "<turn|>", "<end_of_utterance>")
# Texts that llama.cpp takes for the end of an answer without being told.
_KNOWN_ENDS = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "</s>",
    "<|eom_id|>", "<EOT>", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<｜end▁of▁sentence｜>",
})  # fmt: skip
_NEVER_IN_TEXT = (0xC0, 0xC1, *range(0xF5, 0x100))  # bytes that UTF-8 does not have


def add_special_ids(
    made: Vocabulary, files: TokenizerFiles, tokenizer: FolderTokenizer, *, suppressed: Sequence[int] = ()
) -> None:
    """Adds every key for a token with a purpose, and whether marks are put around texts."""
    size = len(made.tokens)
    ids = {name: id for name, id in _named(files, size)}
    made.more |= {_NAMED[name]: u32(id) for name, id in ids.items()}
    if made.model == "bert" and "cls_token" in ids:
        made.more["bos_token_id"] = u32(ids["cls_token"])
    _add_ends(made, [id for id in sorted(tokenizer.stop_ids) if id < size])
    _replace_defaults(made)
    places = {text: id for id, text in enumerate(made.tokens)}
    for key, texts in _CODE.items():
        id = next((places[text] for text in texts if text in places), None)
        if id is not None:
            made.more[key] = u32(id)
    made.more["add_bos_token"] = boolean((tokenizer.adds_bos or made.model == "bert") and "bos_token_id" in made.more)
    made.more["add_eos_token"] = boolean(tokenizer.adds_eos)
    made.more["add_sep_token"] = boolean(_separates(files.tokenizer, adds_eos=tokenizer.adds_eos))
    chosen = [id for id in suppressed if 0 <= id < size]
    if chosen:
        made.more["suppress_tokens"] = array("i32", chosen)


def _named(files: TokenizerFiles, size: int) -> Iterator[tuple[str, int]]:
    for name in _NAMED:
        id = files.tokenizer.token_to_id(files.named[name]) if files.named.get(name) else None
        if id is not None and id < size:
            yield name, id


def _add_ends(made: Vocabulary, ends: Sequence[int]) -> None:
    """Adds the ends of answers: the tokenizer's own, one that ends a turn, and one that ends a message."""
    texts = {id: made.tokens[id] for id in ends}
    by_turn = sorted(ends, key=lambda id: (texts[id] not in _TURN_ENDS, id))
    known = made.more.get("eos_token_id")
    if known is None and by_turn:
        known = made.more["eos_token_id"] = u32(by_turn[0])
    rest = [id for id in by_turn if known is None or id != known.content]
    for id in [id for id in rest if texts[id] == _EOM]:
        made.more["eom_token_id"] = u32(id)
        rest.remove(id)
    for key in ("eot_token_id", "eom_token_id"):
        if rest and key not in made.more:
            made.more[key] = u32(rest.pop(0))
    silent = [texts[id] for id in rest if texts[id] not in _KNOWN_ENDS]
    if silent:
        note = ngettext(
            "The format has no key for more ends of an answer: {texts} does not end one in llama.cpp.",
            "The format has no key for more ends of an answer: {texts} do not end one in llama.cpp.", len(silent),
        )  # fmt: skip
        made.notes.append(note.format(texts=", ".join(silent)))


def _replace_defaults(made: Vocabulary) -> None:
    """llama.cpp takes certain ids for begin, end and unknown where a file names none: better ones that do no harm."""
    if "eos_token_id" not in made.more and made.model != "bert":
        harmless = _harmless_end(made)
        if harmless is None:
            made.notes.append(_("The source has no end mark, and llama.cpp takes an ordinary token for one."))
        else:
            made.more["eos_token_id"] = u32(harmless)
    if "bos_token_id" not in made.more and "eos_token_id" in made.more and made.model in ("gpt2", "llama"):
        made.more["bos_token_id"] = made.more["eos_token_id"]


def _harmless_end(made: Vocabulary) -> int | None:
    """Returns a token that no answer holds: an unused one, or a byte that is in no text."""
    for wanted in (TokenKind.UNUSED, TokenKind.CONTROL):
        if wanted in made.kinds:
            return made.kinds.index(wanted)
    of_byte = {byte[0]: sign for sign, byte in byte_level_characters().items()}
    spellings = [name for byte in _NEVER_IN_TEXT for name in (of_byte[byte], f"<0x{byte:02X}>")]
    return next((made.tokens.index(name) for name in spellings if name in made.tokens), None)


def _separates(tokenizer: Tokenizer, *, adds_eos: bool) -> bool:
    """Whether a mark stands between two texts that are read together, besides the one that ends the first."""
    pair = tokenizer.encode("a", "b", add_special_tokens=True)
    marks = list(zip(pair.ids, pair.special_tokens_mask, strict=True))
    texts = [at for at, (_id, is_mark) in enumerate(marks) if not is_mark]
    if not texts:
        return False
    begin = {id for id, is_mark in marks[: texts[0]] if is_mark}  # a begin mark may stand before each text
    between = [id for id, is_mark in marks[texts[0] : texts[-1]] if is_mark and id not in begin]
    return len(between) > int(adds_eos)
