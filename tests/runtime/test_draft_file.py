"""The draft model that the settings name, and how it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiny_gguf
import tiny_t5
from runtime.draft_file import draft_header, draft_params
from runtime.errors import UserError
from runtime.params import LoadParams
from runtime.places import places


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return tiny_gguf.write_tiny(tmp_path / "draft.gguf", n_layers=1)


@pytest.mark.parametrize("speculation", ["off", "ngram"])
def test_a_named_draft_model_is_left_alone_where_it_is_not_asked_for(speculation: str) -> None:
    assert draft_header(LoadParams(speculation=speculation, draft_model="/missing.gguf")) is None  # type: ignore[arg-type]


def test_a_draft_model_is_found_by_its_path(draft: Path) -> None:
    header = draft_header(LoadParams(speculation="draft", draft_model=f" {draft} "))
    assert header is not None
    assert header.path == draft


def test_a_draft_model_is_found_by_its_name_in_the_library() -> None:
    folder = places().models
    folder.mkdir(parents=True)
    path = tiny_gguf.write_tiny(folder / "small-one.gguf", n_layers=1)
    header = draft_header(LoadParams(speculation="draft", draft_model="small-one"))
    assert header is not None
    assert header.path == path


def test_where_none_is_named_that_is_said() -> None:
    with pytest.raises(UserError) as refused:
        draft_header(LoadParams(speculation="draft"))
    assert refused.value.code == "no_draft_model"


def test_a_model_that_turns_one_text_into_another_is_refused(tmp_path: Path) -> None:
    tiny_t5.write_tiny_t5(tmp_path / "t5.gguf")
    with pytest.raises(UserError, match="cannot guess how one goes on") as refused:
        draft_header(LoadParams(speculation="draft", draft_model=str(tmp_path / "t5.gguf")))
    assert refused.value.code == "unsupported_model"


def test_a_draft_is_loaded_like_the_model_but_for_what_changes_the_model_itself() -> None:
    params = LoadParams(
        threads=3, gpu_layers=7, kv_type_k="q8_0", context_length=99, lora=("/adapter.gguf",), rope_factor=4.0,
        rope_scaling="yarn", speculation="draft", draft_model="x",
    )  # fmt: skip

    draft = draft_params(params)

    assert (draft.threads, draft.gpu_layers, draft.kv_type_k, draft.swa_full) == (3, 7, "q8_0", True)
    assert (draft.lora, draft.rope_scaling, draft.speculation, draft.context_length) == ((), "file", "off", 0)
