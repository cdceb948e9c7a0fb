"""The ways to cut a text into words before byte-level BPE, by llama.cpp's names and as tokenizer.json spells them.

Data, used in both directions: a file that spells one out gets its name, and a name becomes steps of a tokenizer.json.
The expressions are those that the models were published with; where several names share one, the usual comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Step = dict[str, Any]

_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"'s|'t|'re|'ve|'m|'ll|'d"
_ANY_CASE = rf"(?i:{_SHORT})"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# The letters with a case that DeepSeek LLM's expression names, by their numbers
_CASED = """
41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C 38E-3A1
3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A
1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4
1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128
212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D
A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F
104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943
"""
_CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
_GPT2 = rf"{_SHORT}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def _class(ranges: str) -> str:
    """Returns the signs of ranges of numbers, as an expression's brackets hold them."""
    ends = [each.partition("-") for each in ranges.split()]
    return "".join(chr(int(first, 16)) + (mark + chr(int(last, 16)) if mark else "") for first, mark, last in ends)


def _llama3(digits: str) -> str:
    return rf"{_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"


def _by_case(shortened: str, digits: str) -> str:
    before = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{before}{_UPPER}*{_LOWER}+{shortened}|{before}{_UPPER}+{_LOWER}*{shortened}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    )


_SIGNS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
_DEEPSEEK_3 = (r"\p{N}{1,3}", _CJK, rf"{_SIGNS}| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}")
_QWEN35 = rf"{_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
_SEED = rf"{_ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)

_COMMON = _GPT2.removesuffix(r"|\s+")
_EAST_ASIAN = "[一-龥ࠀ-一가-\ud7ff]+"
_THREE_DIGITS = "[0-9][0-9][0-9]"

# A name's expressions in order; "" stands for the one that the ByteLevel step has built in, GPT-2's.
_EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "gpt-2": ("",),
    "llama-bpe": (_llama3(r"\p{N}{1,3}"),),
    "qwen2": (_llama3(r"\p{N}"),),
    "tekken": (_by_case("", r"\p{N}"),),
    "gpt-4o": (_by_case(_ANY_CASE + "?", r"\p{N}{1,3}"),),
    "deepseek-v3": _DEEPSEEK_3,
    "qwen35": (_QWEN35,),
    "seed-coder": (_SEED,),
    "bailingmoe": (_BAILING,),
    "bloom": (_BLOOM,),
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}"),
    "deepseek-llm": (
        "[\r\n]", rf"\s?[{_class(_CASED)}]+", "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", _EAST_ASIAN, r"\p{N}",
    ),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _COMMON, _THREE_DIGITS),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _COMMON, r"\p{N}+", _THREE_DIGITS),  # of files that name none
}
# Names whose first step cuts every digit off by itself.
_DIGIT_BY_DIGIT = {"smollm": ("",), "viking": (_BLOOM,)}
# Names that cut as another does.
_ALIKE = {
    "chatglm-bpe": "llama-bpe", "glm4": "llama-bpe", "dbrx": "llama-bpe", "smaug-bpe": "llama-bpe",
    "hunyuan-dense": "deepseek-v3", "stablelm2": "qwen2", "hunyuan": "qwen2", "grok-2": "qwen2", "megrez": "qwen2",
    "deepseek-r1-qwen": "qwen2", "llama3": "llama-bpe", "llama-v3": "llama-bpe", "falcon3": "llama-bpe",
    "lfm2": "llama-bpe", "pixtral": "llama-bpe", "llama4": "gpt-4o", "minimax-m2": "gpt-4o", "starcoder": "smollm",
    "refact": "smollm", "command-r": "smollm", "codeshell": "smollm", "exaone": "smollm", "minerva-7b": "smollm",
    "mpt": "gpt-2", "olmo": "gpt-2", "jais": "gpt-2", "phi-2": "gpt-2", "roberta-bpe": "gpt-2", "trillion": "gpt-2",
    "poro-chat": "bloom", "gpt3-finnish": "bloom", "jina-v2-code": "gpt-2", "modern-bert": "gpt-2",
    "gigachat": "gpt-2", "exaone4": "gpt-2", "jina-v2-es": "gpt-2", "jina-v2-de": "gpt-2",
}  # fmt: skip
# Names with which llama.cpp takes a word that is a token as it is, whatever the merges say.
_IGNORING_MERGES = ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "glm4", "tekken")
_USUAL = {
    ("llama-bpe", True): ("llama-bpe", "glm4"), ("llama-bpe", False): ("chatglm-bpe", "dbrx", "smaug-bpe"),
}  # fmt: skip


def steps_for(name: str, *, space_first: bool = False) -> Step | None:
    """Returns the pre-tokenizer of a tokenizer.json that cuts as the name says; None for a name not known here."""
    plain = _ALIKE.get(name, name)
    expressions = _DIGIT_BY_DIGIT.get(plain) or _EXPRESSIONS.get(plain)
    if expressions is None:
        return None
    steps: list[Step] = [{"type": "Digits", "individual_digits": True}] if plain in _DIGIT_BY_DIGIT else []
    steps += [
        {"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": False}
        for words in expressions if words
    ]  # fmt: skip
    own = expressions[-1] == ""
    steps.append({"type": "ByteLevel", "add_prefix_space": space_first, "trim_offsets": True, "use_regex": own})
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}


def ignores_merges(name: str) -> bool:
    """Whether llama.cpp takes a word that is a token as it is, with this name."""
    return name in _IGNORING_MERGES


def names_for(steps: Sequence[Mapping[str, Any]], *, ignore_merges: bool) -> tuple[str, ...]:
    """Returns the names under which a tokenizer.json's steps are published, the usual one first."""
    found = list(_matching(list(_essence(steps))))
    usual = [name for plain in found for name in _USUAL.get((plain, ignore_merges), (plain,))]
    return tuple(dict.fromkeys(usual))


def _matching(essence: list[str]) -> Iterator[str]:
    for name, expressions in _EXPRESSIONS.items():
        if list(map(_plain, expressions)) == essence:
            yield name
    for name, expressions in _DIGIT_BY_DIGIT.items():
        if ["digit", *expressions] == essence:
            yield name


def _plain(words: str) -> str:
    return "" if words in (_GPT2, _COMMON) else "digit" if words == r"\p{N}" else words


def _essence(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields what of the steps decides how they cut: expressions, "digit", and "" for GPT-2's own."""
    for step in steps:
        if step["type"] == "Split":
            yield _plain(str((step.get("pattern") or {}).get("Regex", "?")))
        elif step["type"] == "Digits":
            yield "digit" if step.get("individual_digits") else "digits"
        elif step["type"] != "ByteLevel":
            yield str(step["type"])
        elif step.get("use_regex", True):
            yield ""
