"""Text files dropped into the window: what is text, what is not, and where it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.chat.text_files import MOST_BYTES, NotText, read_text_file


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_text_is_read_in_the_encodings_people_have(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "Ünï 模型.txt"
    path.write_bytes("第一行\r\nsecond 水车\n\n".encode(encoding))
    assert read_text_file(path) == "Ünï 模型.txt:\n\n第一行\nsecond 水车"


def test_western_text_of_old_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"M\xfcller\xff")
    assert "Müllerÿ" in read_text_file(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PK\x03\x04\x00\x00", "no text"),
        (b" \n", "empty"),
        (b"x" * (MOST_BYTES + 1), "larger"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_text_is_refused_with_its_reason(tmp_path: Path, data: bytes | None, reason: str) -> None:
    path = tmp_path / "file"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(NotText, match=reason):
        read_text_file(path)
