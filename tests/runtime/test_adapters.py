"""How adapters are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.adapters import BadAdapter, read_adapter
from runtime.params import LoadParams, UnusableText
from runtime.places import spelled_path


@pytest.mark.parametrize(
    ("written", "path", "scale"),
    [
        ("style.gguf", "style.gguf", 1.0), ("style.gguf=0.5", "style.gguf", 0.5), ("style.gguf=0,5", "style.gguf", 0.5),
        ("style.gguf=-2", "style.gguf", -2.0), ("style.gguf=0", "style.gguf", 0.0), (" a b.gguf =1.", "a b.gguf", 1.0),
        ("rank=16.gguf", "rank=16.gguf", 1.0), ("rank=16.gguf=2", "rank=16.gguf", 2.0), ("odd=3=1", "odd=3", 1.0),
        ("a=", "a=", 1.0), ("a=nan", "a=nan", 1.0), (r"C:\new\table.gguf=.5", r"C:\new\table.gguf", 0.5),
    ],
)  # fmt: skip
def test_a_number_after_the_last_equals_sign_is_the_scale(written: str, path: str, scale: float) -> None:
    assert read_adapter(written) == (Path(path), scale)


def test_a_path_with_bytes_that_are_no_text_keeps_them_and_its_scale() -> None:
    path = Path(os.fsdecode(b"/models/\xff.gguf"))
    assert read_adapter(spelled_path(f"{path}=0.5")) == (path, 0.5)


def test_the_home_folder_may_be_a_tilde() -> None:
    assert read_adapter("~/style.gguf").path == Path.home() / "style.gguf"


@pytest.mark.parametrize(("written", "why"), [("", "no path"), ("=0.5", "no path"), ("a.gguf=101", "-100 to 100")])
def test_what_cannot_be_read_says_why(written: str, why: str) -> None:
    with pytest.raises(BadAdapter) as caught:
        read_adapter(written)
    assert why in caught.value.info.message


def test_settings_refuse_it_and_name_the_setting() -> None:
    with pytest.raises(UnusableText) as caught:
        LoadParams(lora=("a.gguf", "b.gguf=1000")).validated()
    assert caught.value.field == "lora"
    with pytest.raises(UnusableText):
        LoadParams(lora=("a.gguf",) * 65).validated()
