"""The ways to cut words: each name's steps are recognised again, also as the models were published with them."""

from __future__ import annotations

import pytest

from convert.pre_tokenizers import ignores_merges, names_for, steps_for

_DIGITS = {"type": "Digits", "individual_digits": True}


@pytest.mark.parametrize(
    "name", ["gpt-2", "llama-bpe", "qwen2", "tekken", "gpt-4o", "deepseek-v3", "deepseek-llm", "deepseek-coder",
             "falcon", "smollm", "viking", "bloom", "bailingmoe", "seed-coder", "qwen35"]
)  # fmt: skip
def test_a_names_steps_have_that_name(name: str) -> None:
    steps = steps_for(name)
    assert steps is not None
    found = names_for(steps.get("pretokenizers", [steps]), ignore_merges=ignores_merges(name))
    assert name in found


@pytest.mark.parametrize("name", ["deepseek-llm", "deepseek-coder"])
def test_digits_one_by_one_are_the_same_as_an_expression_for_one(name: str) -> None:
    steps = steps_for(name)
    assert steps is not None
    *before, digits, byte_level = steps["pretokenizers"]
    assert digits["pattern"] == {"Regex": r"\p{N}"}
    assert names_for([*before, _DIGITS, byte_level], ignore_merges=False) == (name,)


def test_a_name_that_is_not_known_has_no_steps() -> None:
    assert steps_for("nobody's") is None
