"""What is told about a model that llama.cpp refuses, and about one that it took."""

from __future__ import annotations

from pathlib import Path

import pytest

import engines
import tiny_gguf
from runtime.errors import UserError
from runtime.llama.library import last_reason

LOG = """llama_model_loader: loaded meta data with 28 key-value pairs
llama_model_loader: Note: KV overrides do not apply in this output.
llama_model_load: error loading model: missing tensor 'blk.0.attn_q.weight'
llama_model_load_from_file_impl: failed to load model
"""


def test_the_reason_is_the_line_that_tells_of_the_error() -> None:
    assert last_reason(LOG) == "error loading model: missing tensor 'blk.0.attn_q.weight'"
    assert last_reason("a: b: failed to allocate buffer\nx: done") == "failed to allocate buffer"
    assert last_reason("only this") == "only this"
    assert last_reason("") == ""


def test_a_file_that_reads_well_but_lacks_a_tensor_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    data = path.read_bytes()
    assert data.count(b"blk.1.ffn_up.weight") == 1
    path.write_bytes(data.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight"))
    with pytest.raises(UserError) as caught:
        engines.load(path)
    assert caught.value.info.code == "load_failed"
    assert "blk.1.ffn_up.weight" in caught.value.info.message
    assert "m.gguf" in caught.value.info.title


def test_named_templates_are_found_beside_the_default(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(
        tmp_path / "m.gguf", chat_template="default one", metadata={"tokenizer.chat_template.tool_use": "tool one"}
    )
    engine = engines.load(path)
    model = engine._model  # type: ignore[attr-defined]
    assert sorted(model.template_names()) == ["default", "tool_use"]
    assert (model.template(), model.template("tool_use"), model.template("other")) == ("default one", "tool one", "")
    engine.close()
