"""Which characters an unknown token stands for, on a made-up tokenizer of single letters."""

from __future__ import annotations

import pytest

from runtime.llama.byte_fallback import ByteFallback, find

UNKNOWN = 0
BYTES = {f"<0x{byte:02X}>": 100 + byte for byte in range(256)}


def natively(text: str) -> list[int]:
    """Returns 1 to 26 for letters, nothing for "-", and one unknown token for each run of anything else."""
    ids: list[int] = []
    for sign in text.replace("-", ""):
        token = ord(sign) - 96 if sign.isascii() and sign.isalpha() else UNKNOWN
        if token != UNKNOWN or ids[-1:] != [UNKNOWN]:
            ids.append(token)
    return ids


FALLBACK = ByteFallback(unknown=UNKNOWN, byte_tokens=BYTES, tokenize=natively)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab", [1, 2]),
        ("aéb", [1, 100 + 0xC3, 100 + 0xA9, 2]),
        ("éé", [100 + 0xC3, 100 + 0xA9] * 2),
        ("é-é", [100 + 0xC3, 100 + 0xA9] * 2),  # what is taken out does not part them
        ("éaé", [100 + 0xC3, 100 + 0xA9, 1, 100 + 0xC3, 100 + 0xA9]),
    ],
)
def test_each_unknown_token_becomes_the_bytes_of_its_characters(text: str, expected: list[int]) -> None:
    assert FALLBACK.spelled(text, natively(text)) == expected


def test_what_cannot_be_told_apart_stays_unknown() -> None:
    assert FALLBACK.spelled("aéb", [1, UNKNOWN, UNKNOWN, 2]) == [1, UNKNOWN, UNKNOWN, 2]


def test_a_vocabulary_has_byte_tokens_only_with_all_of_them() -> None:
    spellings = [(number, text) for text, number in BYTES.items()]
    assert find([*spellings, (7, "<0x100>")]) == BYTES
    assert find(spellings[:-1]) is None
