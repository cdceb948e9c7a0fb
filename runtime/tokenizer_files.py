"""Builds a tokenizer from the files of a Hugging Face folder, and reads the chat templates beside it. Knows no weights.

Nothing that the files name is imported: a class's name only chooses between tokenizers that are written down here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from runtime import sentencepiece_model
from runtime.config_files import read_config
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.places import shown_path
from runtime.small_files import read_text
from runtime.text import _

_MAX_BYTES = 1 << 28
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BYTE_LEVEL_CLASSES = {"GPT2": "", "Roberta": "", "Bart": "", "Longformer": "", "Qwen2": _QWEN2_WORDS}
_GPT2_MARK = "<|endoftext|>"
_WITH_MARKS = {"Roberta", "Bart", "Longformer"}
_WITH_END, _WITH_BEGIN = {"T5", "MT5"}, {"Llama", "CodeLlama", "Gemma"}  # of SentencePiece
# The tokenizer's class where no file names one, by the model_type in config.json.
_CLASS_OF_MODEL = {
    "gpt2": "GPT2", "roberta": "Roberta", "bart": "Bart", "qwen2": "Qwen2", "qwen3": "Qwen2", "qwen3_moe": "Qwen2",
    "t5": "T5", "mt5": "MT5", "llama": "Llama", "mistral": "Llama", "mixtral": "Llama", "gemma2": "Gemma",
    "gemma3": "Gemma", "gemma3_text": "Gemma",
}  # fmt: skip
_HIDDEN_PARTS, _MOST_HIDDEN_PARTS = 100, 10_000  # T5's marks for what was left out of a text


class NoTokenizer(UserError):
    """A folder without a tokenizer that this program reads. `reason` is a sentence."""

    code = "no_tokenizer"

    def __init__(self, folder: Path, reason: str, details: str = "") -> None:
        super().__init__(
            _("The tokenizer of “{name}” cannot be read.").format(name=shown_path(Path(folder.name))),
            reason,
            _("Download the model's tokenizer.json into the folder {folder}.").format(folder=shown_path(folder)),
            details=details,
        )


@dataclass
class TokenizerFiles:
    """A tokenizer, and what its files say. `named` gives the texts of tokens with a purpose ("bos_token" …)."""

    tokenizer: Tokenizer
    config: dict[str, Any] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)


def read_tokenizer(folder: Path) -> TokenizerFiles:
    """Returns a folder's tokenizer with all tokens that its files add. Raises `NoTokenizer` or `DamagedModel`."""
    config = read_config(folder / "tokenizer_config.json")
    named = _named(read_config(folder / "special_tokens_map.json")) | _named(config)
    for file, build in _BUILDERS.items():
        if (folder / file).is_file():
            tokenizer = _built(folder, lambda build=build: build(folder, config, named))  # type: ignore[misc]
            _add_missing(tokenizer, folder, config, named)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return TokenizerFiles(tokenizer, config, named)
    raise NoTokenizer(folder, _("It holds neither tokenizer.json nor another file of a tokenizer."))


def _built(folder: Path, build: Callable[[], Tokenizer]) -> Tokenizer:
    try:
        return build()
    except UserError:
        raise
    except Exception as error:  # the library raises nothing narrower for a file that it cannot read
        raise NoTokenizer(folder, _("Its files are damaged, or of a kind that is not known."), str(error)) from error


def _checked_file(folder: Path, name: str) -> Path:
    file = folder / name
    if file.stat().st_size > _MAX_BYTES:
        raise NoTokenizer(folder, _("{file} is larger than any tokenizer.").format(file=name))
    return file


# --- kinds of files ---------------------------------------------------------------------------------------------


def _from_json(folder: Path, _config: Mapping[str, Any], _named: Mapping[str, str]) -> Tokenizer:
    return Tokenizer.from_file(str(_checked_file(folder, "tokenizer.json")))


def _from_sentencepiece(folder: Path, config: Mapping[str, Any], named: dict[str, str]) -> Tokenizer:
    file = _checked_file(folder, "tokenizer.model" if (folder / "tokenizer.model").is_file() else "spiece.model")
    try:
        model = sentencepiece_model.read_model(file.read_bytes())
        tokenizer = sentencepiece_model.build(model)
    except sentencepiece_model.BrokenModel as error:
        reason = _("{file} is no SentencePiece model that can be read.").format(file=file.name)
        raise NoTokenizer(folder, reason, str(error)) from error
    for key, token in (("bos_token", model.bos_id), ("eos_token", model.eos_id), ("unk_token", model.unk_id)):
        if key not in config and model.text_of(token):
            named.setdefault(key, model.text_of(token))
    kind = _class_of(folder, config)
    if kind in _WITH_END:
        _add_hidden_parts(tokenizer, config)
        tokenizer.post_processor = _around(tokenizer, "", named.get("eos_token", "</s>"))
    elif kind in _WITH_BEGIN and tokenizer.token_to_id(named.get("bos_token", "")) is not None:
        tokenizer.post_processor = _around(tokenizer, named["bos_token"], "")
    return tokenizer


def _add_hidden_parts(tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
    """Adds T5's marks for parts of a text that were left out, of which no file but tokenizer.json tells: last first."""
    count = config.get("extra_ids", _HIDDEN_PARTS)
    if type(count) is int and 0 <= count <= _MOST_HIDDEN_PARTS:
        marks = [f"<extra_id_{number}>" for number in reversed(range(count))]
        tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in marks])


def _from_merges(folder: Path, config: Mapping[str, Any], named: dict[str, str]) -> Tokenizer:
    """Byte-level BPE. How text is cut into words first is in no file: the class's name says it."""
    kind = _class_of(folder, config)
    if kind not in _BYTE_LEVEL_CLASSES:
        reason = _("Its class “{name}” is not known, and no file says how it cuts text into words.")
        raise NoTokenizer(folder, reason.format(name=clean_name(kind)))
    vocabulary, merges = (str(_checked_file(folder, name)) for name in ("vocab.json", "merges.txt"))
    tokenizer = Tokenizer(models.BPE.from_file(vocabulary, merges))
    prefix = config.get("add_prefix_space") is True
    words = _BYTE_LEVEL_CLASSES[kind]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not words)
    split = [pre_tokenizers.Split(Regex(words), "isolated")] if words else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level]) if split else byte_level
    if words:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    if kind == "GPT2" and tokenizer.token_to_id(_GPT2_MARK) is not None:
        _set_defaults(named, bos_token=_GPT2_MARK, eos_token=_GPT2_MARK)
    if kind in _WITH_MARKS:
        _set_defaults(named, bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>")
        tokenizer.post_processor = _around(tokenizer, named["bos_token"], named["eos_token"])
    return tokenizer


def _from_words(folder: Path, config: Mapping[str, Any], named: dict[str, str]) -> Tokenizer:
    """BERT's WordPiece."""
    lowercase = config.get("do_lower_case", True) is not False
    _set_defaults(named, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]")
    _set_defaults(named, pad_token="[PAD]", mask_token="[MASK]")
    words = str(_checked_file(folder, "vocab.txt"))
    tokenizer = Tokenizer(models.WordPiece.from_file(words, unk_token=named["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True) is not False,
    )  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = _around(tokenizer, named["cls_token"], named["sep_token"])
    return tokenizer


_BUILDERS: dict[str, Callable[[Path, Mapping[str, Any], dict[str, str]], Tokenizer]] = {
    "tokenizer.json": _from_json, "tokenizer.model": _from_sentencepiece, "spiece.model": _from_sentencepiece,
    "merges.txt": _from_merges, "vocab.txt": _from_words,
}  # fmt: skip


def _set_defaults(named: dict[str, str], **texts: str) -> None:
    for key, text in texts.items():
        named.setdefault(key, text)


def _around(tokenizer: Tokenizer, before: str, behind: str) -> Any:
    """Returns the step that puts marks around a text."""
    marks = [(text, tokenizer.token_to_id(text)) for text in (before, behind) if text]
    return processors.TemplateProcessing(single=f"{before} $A {behind}".strip(), special_tokens=marks)


def _class_of(folder: Path, config: Mapping[str, Any]) -> str:
    """Returns the plain name of the tokenizer's class: as its own file says, or the model's, or as its kind has it."""
    model = read_config(folder / "config.json")
    said = config.get("tokenizer_class") or model.get("tokenizer_class")
    if not said:
        return _CLASS_OF_MODEL.get(str(model.get("model_type")), "")
    return str(said).removesuffix("Fast").removesuffix("Tokenizer")


# --- added tokens -----------------------------------------------------------------------------------------------


def _named(config: Mapping[str, Any]) -> dict[str, str]:
    texts = {key: _text(config.get(key)) for key in _NAMED}
    return {key: text for key, text in texts.items() if text}


def _text(value: object) -> str:
    """Returns a token's text, which may be wrapped in an object."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _add_missing(tokenizer: Tokenizer, folder: Path, config: Mapping[str, Any], named: Mapping[str, str]) -> None:
    """Adds what tokenizer.json lacks: tokens of tokenizer_config.json and added_tokens.json, in the order of ids."""
    special = dict.fromkeys((*named.values(), *_more_names(config)))
    wanted = dict(_of_old_file(folder)) | dict(_listed(config))
    for text in special:
        wanted[text] = {"normalized": False, **wanted.get(text, {}), "special": True}
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for text, options in wanted.items():
        if text not in known:
            add = tokenizer.add_special_tokens if options.get("special") else tokenizer.add_tokens
            add([AddedToken(text, **options)])


def _listed(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, bool]]]:
    listed = config.get("added_tokens_decoder")
    entries = listed.items() if isinstance(listed, dict) else ()
    numbered = {int(key): entry for key, entry in entries if key.isdecimal()}
    for entry in (numbered[token] for token in sorted(numbered)):
        options = ("lstrip", "rstrip", "single_word", "normalized", "special")
        if isinstance(entry, dict) and _text(entry):
            yield _text(entry), {key: entry[key] for key in options if isinstance(entry.get(key), bool)}


def _of_old_file(folder: Path) -> Iterator[tuple[str, dict[str, bool]]]:
    ids = {text: token for text, token in read_config(folder / "added_tokens.json").items() if isinstance(token, int)}
    for text in sorted(ids, key=lambda text: ids[text]):
        yield text, {"normalized": False}


def _more_names(config: Mapping[str, Any]) -> Iterator[str]:
    for key in ("additional_special_tokens", "extra_special_tokens"):
        more = config.get(key)
        for value in more.values() if isinstance(more, dict) else more if isinstance(more, list) else ():
            if _text(value):
                yield _text(value)


# --- chat templates ---------------------------------------------------------------------------------------------


def read_templates(folder: Path) -> dict[str, str]:
    """Returns a folder's chat templates by name, the unnamed one as "default"; a file of its own wins over a config."""
    templates = _templates_in(read_config(folder / "chat_template.json"))
    templates |= _templates_in(read_config(folder / "tokenizer_config.json"))
    for file in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        templates[file.stem] = read_text(file)
    if (folder / "chat_template.jinja").is_file():
        templates["default"] = read_text(folder / "chat_template.jinja")
    return {name: template for name, template in templates.items() if template.strip()}


def _templates_in(config: Mapping[str, Any]) -> dict[str, str]:
    said = config.get("chat_template")
    if isinstance(said, str):
        return {"default": said}
    entries = said.items() if isinstance(said, dict) else [
        (entry.get("name"), entry.get("template")) for entry in (said if isinstance(said, list) else ())
        if isinstance(entry, dict)
    ]  # fmt: skip
    return {name: text for name, text in entries if isinstance(name, str) and isinstance(text, str)}
