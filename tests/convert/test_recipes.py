"""Every tensor gets the type that llama.cpp's own quantizer gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from convert.recipes import (
    FILE_TYPE_NUMBER,
    PLAIN_TYPE,
    ModelFacts,
    TensorSpec,
    UnknownRecipe,
    Wishes,
    plan,
    recipe_named,
)
from runtime.gguf_types import TENSOR_TYPES
from skeleton_gguf import Skeleton, importance, planned_by_llama

NUMBER = {kind.name: number for number, kind in TENSOR_TYPES.items()}
BASE = Skeleton()
OUTLINES = {
    "two layers": BASE,
    "many layers": BASE.but(n_layers=33),
    "80 layers of 70B": BASE.but(n_layers=80, n_kv_heads=1),
    "80 layers of 65B": BASE.but(n_layers=80, n_kv_heads=8),
    "heads not shared": BASE.but(n_layers=16, n_kv_heads=8),
    "heads shared by three": BASE.but(n_layers=16, n_heads=6, n_kv_heads=2, row=768),
    "one key and value head": BASE.but(n_layers=16, n_kv_heads=1),
    "tied": BASE.but(n_layers=12, tied=True),
    "eight experts": BASE.but(n_layers=16, n_experts=8),
    "four experts": BASE.but(n_layers=16, n_experts=4, n_kv_heads=8),
    "rows of 576": BASE.but(n_layers=9, n_heads=9, n_kv_heads=3, row=576, tied=True),
    "rows of 40": BASE.but(n_layers=9, row=40),
    "qwen2, 80 layers": BASE.but(architecture="qwen2", n_layers=80),
    "qwen3": BASE.but(architecture="qwen3", n_layers=28),
    "qwen3moe": BASE.but(architecture="qwen3moe", n_layers=12, n_experts=16),
    "gemma2": BASE.but(architecture="gemma2", n_layers=26, tied=True),
    "gemma3": BASE.but(architecture="gemma3", n_layers=18, n_heads=4, n_kv_heads=1, tied=True),
    "gpt2": BASE.but(architecture="gpt2", n_layers=12, n_kv_heads=8, tied=True),
    "gptneox": BASE.but(architecture="gptneox", n_layers=12, n_kv_heads=8),
    "phi3": BASE.but(architecture="phi3", n_layers=32),
    "olmo2": BASE.but(architecture="olmo2", n_layers=16, n_kv_heads=8),
    "glm4": BASE.but(architecture="glm4", n_layers=40),
    "smollm3": BASE.but(architecture="smollm3", n_layers=36, tied=True),
    "bert": BASE.but(architecture="bert", n_layers=12, n_kv_heads=8, tied=True),
    "t5": BASE.but(architecture="t5", n_layers=12, n_kv_heads=8, tied=True),
}


def specs(outline: Skeleton) -> list[TensorSpec]:
    return [TensorSpec(name, shape) for name, shape in outline.tensors()]


def facts(outline: Skeleton) -> ModelFacts:
    return ModelFacts(
        outline.architecture, outline.n_layers, outline.n_heads, outline.n_kv_heads, outline.n_experts
    )


def planned(outline: Skeleton, recipe: str, **settings: Any) -> dict[str, str]:
    return {choice.tensor.name: choice.type for choice in plan(specs(outline), facts(outline), recipe, **settings)}


@pytest.mark.parametrize("name", OUTLINES)
def test_every_recipe_chooses_as_llama_cpp_does(name: str, tmp_path: Path) -> None:
    outline = OUTLINES[name]
    path = outline.write(tmp_path / "outline.gguf")
    for recipe in PLAIN_TYPE:
        theirs = planned_by_llama(path, FILE_TYPE_NUMBER[recipe])
        assert len(theirs) == len(outline.tensors())
        ours = planned(outline, recipe)
        assert {k: (ours[k], v) for k, v in theirs.items() if ours[k] != v} == {}, recipe
        assert list(ours) == list(theirs)  # the order too: it is the order in the file


@pytest.mark.parametrize("name", ["many layers", "heads shared by three", "eight experts", "t5", "rows of 576"])
def test_with_an_importance_matrix_every_recipe_chooses_as_llama_cpp_does(name: str, tmp_path: Path) -> None:
    outline = OUTLINES[name]
    path = outline.write(tmp_path / "outline.gguf")
    for recipe in PLAIN_TYPE:
        theirs = planned_by_llama(path, FILE_TYPE_NUMBER[recipe], imatrix=importance())
        assert planned(outline, recipe, has_importance=True) == theirs, recipe


@pytest.mark.parametrize("recipe", ["Q4_0", "Q4_K_M", "Q2_K", "IQ4_XS", "F16"])
@pytest.mark.parametrize(
    ("wishes", "settings"),
    [
        (Wishes(pure=True), {"pure": True}),
        (Wishes(output_type="Q8_0"), {"output_tensor_type": NUMBER["Q8_0"]}),
        (Wishes(embedding_type="Q5_0"), {"token_embedding_type": NUMBER["Q5_0"]}),
        (
            Wishes(output_type="F16", embedding_type="Q8_0"),
            {"output_tensor_type": NUMBER["F16"], "token_embedding_type": NUMBER["Q8_0"]},
        ),
    ],
    ids=["pure", "output", "embedding", "both"],
)
@pytest.mark.parametrize("tied", [False, True])
def test_wishes_are_met_as_llama_cpp_meets_them(
    recipe: str, wishes: Wishes, settings: dict[str, Any], tied: bool, tmp_path: Path
) -> None:
    outline = BASE.but(n_layers=9, tied=tied)
    path = outline.write(tmp_path / "outline.gguf")
    assert planned(outline, recipe, wishes=wishes) == planned_by_llama(path, FILE_TYPE_NUMBER[recipe], **settings)


def test_a_pattern_decides_before_the_recipe_and_is_not_counted() -> None:
    outline = BASE.but(n_layers=16)
    wishes = Wishes(tensor_types=((r"blk\.[0-7]\.attn_v", "F16"), (r"attn_v|ffn_down", "Q8_0")))
    chosen = planned(outline, "Q4_K_M", wishes=wishes)
    assert chosen["blk.3.attn_v.weight"] == "F16"
    assert chosen["blk.9.attn_v.weight"] == chosen["blk.0.ffn_down.weight"] == "Q8_0"
    assert chosen["blk.0.ffn_up.weight"] == "Q4_K"
    assert chosen["blk.0.attn_norm.weight"] == "F32"


def test_a_type_that_does_not_fit_the_rows_is_replaced_and_the_choice_says_so() -> None:
    outline = BASE.but(row=576, n_heads=9, n_kv_heads=3)
    choices = {choice.tensor.name: choice for choice in plan(specs(outline), facts(outline), "Q4_K_M")}
    query = choices["blk.0.attn_q.weight"]
    assert (query.type, query.instead_of) == ("Q5_0", "Q4_K")
    assert choices["blk.0.attn_norm.weight"].instead_of == ""


def test_types_that_need_an_importance_matrix_say_so() -> None:
    choices = plan(specs(BASE), facts(BASE), "IQ2_XXS")
    needing = {choice.tensor.name for choice in choices if choice.needs_importance}
    assert "blk.0.attn_q.weight" in needing
    assert "token_embd.weight" not in needing
    assert not any(choice.needs_importance for choice in plan(specs(BASE), facts(BASE), "Q2_K"))


def test_an_importance_matrix_changes_the_mixture() -> None:
    outline = BASE.but(n_layers=16)
    with_matrix = planned(outline, "Q4_0", has_importance=True)
    assert with_matrix["blk.0.ffn_down.weight"] == with_matrix["blk.1.ffn_down.weight"] == "Q4_1"
    assert with_matrix["blk.2.ffn_down.weight"] == planned(outline, "Q4_0")["blk.0.ffn_down.weight"] == "Q4_0"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("q4_k_m", "Q4_K_M"), ("int8", "Q8_0"), (" INT4 ", "Q4_K_M"), ("fp16", "F16"), ("q4-0", "Q4_0")],
)
def test_names_are_understood_however_they_are_written(written: str, meant: str) -> None:
    assert recipe_named(written) == meant


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownRecipe, match="Q9_K") as refused:
        recipe_named("Q9_K")
    assert "IQ4_XS" in refused.value.info.message
