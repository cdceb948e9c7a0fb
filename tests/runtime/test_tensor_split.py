"""How shares of graphics cards are written."""

from __future__ import annotations

import pytest

from runtime.params import LoadParams, UnusableText
from runtime.tensor_split import BadSplit, read_split


@pytest.mark.parametrize(
    ("written", "shares"),
    [("", ()), (" ", ()), ("3/1", (3, 1)), ("3,1", (3, 1)), (" 0.5 : 0 : 1e1", (0.5, 0, 10)), ("1", (1,))],
)
def test_shares_stand_between_slashes_commas_or_colons(written: str, shares: tuple[float, ...]) -> None:
    assert read_split(written) == shares


@pytest.mark.parametrize("written", ["a", "1/", "-1/2", "0/0", "nan", "inf/1", "1 2", "/".join("1" * 17)])
def test_other_texts_are_refused(written: str) -> None:
    with pytest.raises(BadSplit):
        read_split(written)
    with pytest.raises(UnusableText) as caught:
        LoadParams(tensor_split=written).validated()
    assert caught.value.field == "tensor_split"
