"""Texts from files and from the input: as they are, or refused before they fill the memory."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from command_line import Run
from desktop.cli import texts
from desktop.cli.texts import TextTooLong, TextUnreadable, input_lines, read_input, text_of
from in_time import in_time


class Endless(io.RawIOBase):
    """An input without end, that notes how much of it was taken."""

    def __init__(self, piece: bytes) -> None:
        self.piece, self.taken = piece, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        assert self.taken < 1_000_000, "it is read without end"
        size = min(len(buffer), len(self.piece))
        buffer[:size] = self.piece[:size]
        self.taken += size
        return size


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_BYTES", 1000)


def given(monkeypatch: pytest.MonkeyPatch, stream: io.RawIOBase) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(stream)))


@pytest.mark.parametrize("data", ["", "ä", "ä\r\nb\0c", "\ufeffä", "x" * 1000], ids=len)
@pytest.mark.usefixtures("small_limit")
def test_a_text_arrives_as_it_is_by_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str):
    file = tmp_path / "text.txt"
    file.write_bytes(data.encode())
    assert text_of(str(file)) == data.removeprefix("\ufeff")
    given(monkeypatch, io.BytesIO(data.encode()))  # type: ignore[arg-type]
    assert text_of("-") == data.removeprefix("\ufeff")


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("last", ["x", "🦙"])
def test_a_file_with_more_text_than_the_limit_is_refused(tmp_path: Path, last: str):
    file = tmp_path / "text.txt"
    file.write_text("x" * 999 + last + "x", encoding="utf-8")
    with pytest.raises(TextTooLong):
        text_of(str(file))


@pytest.mark.usefixtures("small_limit")
def test_a_large_file_that_is_no_text_is_called_that(tmp_path: Path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF\xff" + bytes(5000))
    with pytest.raises(TextUnreadable, match=r"model\.gguf"):
        text_of(str(file))


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("piece", [b"word ", b"word\n"], ids=["one line", "many lines"])
def test_an_input_without_end_is_refused_and_not_read_to_it(monkeypatch: pytest.MonkeyPatch, piece: bytes):
    given(monkeypatch, Endless(piece))
    with pytest.raises(TextTooLong):
        read_input()


@pytest.mark.usefixtures("small_limit")
def test_a_line_without_end_is_refused_and_the_lines_before_it_count(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, io.BytesIO(b"one\ntwo\n" + b"x" * 2000))  # type: ignore[arg-type]
    lines = input_lines()
    assert [next(lines), next(lines)] == ["one\n", "two\n"]
    with pytest.raises(TextTooLong):
        next(lines)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("words", [
    ("chat", "-p", "-"), ("chat",), ("complete", "-p", "-"), ("score", "--text", "-"), ("embed", "-"),
    ("tokenize", "-"), ("inspect", "-p", "-"), ("imatrix", "-o", "x.gguf", "--text", "-"),
], ids=" ".join)  # fmt: skip
def test_every_command_refuses_it_in_words(run: Run, tiny: Path, words: tuple[str, ...]):
    name, *rest = words
    result = run(name, str(tiny), *rest, stdin="x" * 2000)
    assert (result.code, result.out) == (2, "")
    assert "The text is too long." in result.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_into_which_nobody_writes_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert in_time(lambda path: text_of(str(path)), tmp_path / "pipe") == ""
