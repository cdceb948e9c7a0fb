"""How logit biases are written."""

from __future__ import annotations

import math

import pytest

from runtime.logit_bias import BadBias, Bias, read_bias
from runtime.params import SamplingParams, UnusableText


@pytest.mark.parametrize(
    ("written", "bias"),
    [
        ("15043=-2", Bias(15043, "", -2.0)),
        (" 7 = +0.5 ", Bias(7, "", 0.5)),
        ("7=0,5", Bias(7, "", 0.5)),
        ("word=1", Bias(None, "word", 1.0)),
        (" word=1", Bias(None, " word", 1.0)),
        ('" word"=+5', Bias(None, " word", 5.0)),
        (r'"\n"=-inf', Bias(None, "\n", -math.inf)),
        ('"7"=1', Bias(None, "7", 1.0)),
        ("a=b=2", Bias(None, "a=b", 2.0)),
    ],
)
def test_a_token_is_named_by_its_id_or_its_text(written: str, bias: Bias) -> None:
    assert read_bias(written) == bias


@pytest.mark.parametrize(
    "written",
    ["", "x", "=5", " =5", "5=", "5=x", "5=nan", "5=inf", "5=1e9", "-1=5", "+-1=5x", "2147483648=1", "9" * 5000 + "=1",
     '"open=1', '""=1'],
)  # fmt: skip
def test_anything_else_is_refused(written: str) -> None:
    with pytest.raises(BadBias):
        read_bias(written)


def test_the_settings_refuse_a_bad_bias_and_name_the_setting() -> None:
    with pytest.raises(UnusableText) as caught:
        SamplingParams().replace(logit_bias=("5=1", "-1=5"))
    assert (caught.value.field, caught.value.info.code) == ("logit_bias", "bad_logit_bias")
    assert "“-1=5”" in caught.value.info.title
