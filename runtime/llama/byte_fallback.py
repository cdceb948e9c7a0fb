"""Spells in byte tokens what a Unigram vocabulary has no token for, as SentencePiece does. Knows no library.

llama.cpp leaves the unknown token for each run of such characters, and the text would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping


class ByteFallback:
    """Byte tokens for one vocabulary. Safe to use from any thread."""

    def __init__(self, *, unknown: int, byte_tokens: Mapping[str, int], tokenize: Callable[[str], list[int]]) -> None:
        """`byte_tokens` are ids by spelling, "<0x00>" to "<0xFF>"; `tokenize` is the library's, which knows none."""
        self._unknown = unknown
        self._bytes = [byte_tokens[f"<0x{byte:02X}>"] for byte in range(256)]
        self._tokenize = tokenize

    def spelled(self, text: str, ids: list[int]) -> list[int]:
        """Returns the ids of `text` with bytes in place of each unknown token.

        They stay as they are where it cannot be told which characters an unknown token stands for.
        """
        runs = list(self._unknown_runs(text)) if self._unknown in ids else []
        if ids.count(self._unknown) != len(runs):
            return ids
        spellings = ([self._bytes[byte] for byte in run.encode()] for run in runs)
        return [out for token in ids for out in (next(spellings) if token == self._unknown else (token,))]

    def _unknown_runs(self, text: str) -> Iterator[str]:
        """Yields the characters that no token holds, those that follow each other together."""
        known = {sign: self._is_known(sign) for sign in set(text)}
        run = ""
        for sign in text:
            if known[sign] is False:
                run += sign
            elif known[sign] and run:
                yield run
                run = ""
        if run:
            yield run

    def _is_known(self, sign: str) -> bool | None:
        """Whether a token holds the character; None for one that is taken out of every text."""
        ids = self._tokenize(sign)
        return None if not ids and not sign.isspace() else self._unknown not in ids


def find(spellings: Iterable[tuple[int, str]]) -> dict[str, int] | None:
    """Returns the byte tokens among ids and their spelling; None unless all are there."""
    wanted = {f"<0x{byte:02X}>" for byte in range(256)}
    found = {text: token for token, text in spellings if text in wanted}
    return found if len(found) == 256 else None
