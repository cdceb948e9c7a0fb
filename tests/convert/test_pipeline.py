"""A conversion from a folder to a file that llama.cpp runs, and what is refused on the way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import engines
from convert.options import ConvertOptions
from convert.pipeline import BadPattern, Converted, convert
from convert.preflight import Planned
from convert.recipes import UnknownRecipe, UnknownTensorType, Wishes, WishesWithoutQuantizing
from convert.safe_file import NoRoom, TargetExists, TargetIsSource
from llama_quantizer import keys_of, tensors_of
from runtime.architectures.binding import MissingTensors, bind
from runtime.architectures.reading import UnknownArchitecture, identify
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.tokenizer import FolderTokenizer
from tiny_tokenizers import write_tokenizer

D, HEADS, KV, FF, LAYERS = 64, 8, 2, 96, 2


def llama_tensors(n_rows: int) -> dict[str, np.ndarray]:
    """Returns random weights under Hugging Face's names."""
    rng = np.random.default_rng(0)
    shapes = {"model.embed_tokens.weight": (n_rows, D), "model.norm.weight": (D,), "lm_head.weight": (n_rows, D)}
    for layer in range(LAYERS):
        prefix, kv = f"model.layers.{layer}.", KV * D // HEADS
        shapes |= {
            prefix + "input_layernorm.weight": (D,), prefix + "post_attention_layernorm.weight": (D,),
            prefix + "self_attn.q_proj.weight": (D, D), prefix + "self_attn.k_proj.weight": (kv, D),
            prefix + "self_attn.v_proj.weight": (kv, D), prefix + "self_attn.o_proj.weight": (D, D),
            prefix + "mlp.gate_proj.weight": (FF, D), prefix + "mlp.up_proj.weight": (FF, D),
            prefix + "mlp.down_proj.weight": (D, FF),
        }  # fmt: skip
    return {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model as Hugging Face lays it out."""
    folder = write_tokenizer(tmp_path / "model", "byte-level", config={"chat_template": "{{ messages }}"})
    n_rows = FolderTokenizer(folder).size
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": n_rows, "hidden_size": D,
        "intermediate_size": FF, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    save_file(llama_tensors(n_rows), folder / "model.safetensors")
    return folder


def run(source: Path, target: Path, recipe: str = "F32", **more: object) -> list[object]:
    options = ConvertOptions(source=source, target=target, recipe=recipe, **more)  # type: ignore[arg-type]
    return list(convert(options, StopFlag()))


def test_a_folder_becomes_a_file_with_the_same_weights(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    run(folder, target)
    ours = []
    for path in (folder, target):
        checkpoint = open_checkpoint(path)
        binding = bind(*identify(checkpoint), checkpoint)
        read = {}
        for claim in binding.claims:
            parts = claim.form.to_ours([checkpoint.read(name) for name in claim.sources], binding.config)
            read |= dict(zip(claim.ours, parts, strict=True))
        ours.append(read)
    assert ours[0].keys() == ours[1].keys()
    assert all(np.array_equal(ours[0][name], ours[1][name]) for name in ours[0])


def test_the_file_runs_and_cuts_texts_as_the_folder_does(folder: Path, tmp_path: Path) -> None:
    run(folder, tmp_path / "model.gguf", "q8_0")
    engine = engines.load(tmp_path / "model.gguf", context_length=128)
    text = "Every morning the people of the village"
    assert engine.tokenize(text) == FolderTokenizer(folder).tokenize(text)
    assert engine.info.has_template
    assert engine.info.name == "model"
    assert engines.collect(engine, engines.raw(text, max_tokens=4)).deltas


def test_the_plan_is_told_before_and_the_result_after(folder: Path, tmp_path: Path) -> None:
    events = run(folder, tmp_path / "model.gguf", "q4_k_m")
    planned, converted = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(converted, Converted)
    assert planned.size_bytes == converted.size_bytes == (tmp_path / "model.gguf").stat().st_size
    assert any("Q5_0 instead of Q4_K" in note for note in planned.notes)  # rows of 64
    assert planned.types["F32"] == 2 * LAYERS + 1


def test_a_dry_run_writes_nothing(folder: Path, tmp_path: Path) -> None:
    (only,) = run(folder, tmp_path / "model.gguf", dry_run=True)
    assert isinstance(only, Planned)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_wishes_reach_the_file(folder: Path, tmp_path: Path) -> None:
    wishes = Wishes(tensor_types=(("attn_v", "F16"),), output_type="Q5_0", embedding_type="Q8_0")
    run(folder, tmp_path / "model.gguf", "q4_0", wishes=wishes)
    kinds = {name: kind for name, (kind, _data) in tensors_of(tmp_path / "model.gguf").items()}
    assert kinds["blk.0.attn_v.weight"] == "F16"
    assert (kinds["output.weight"], kinds["token_embd.weight"]) == ("Q5_0", "Q8_0")
    assert kinds["blk.1.ffn_up.weight"] == "Q4_0"
    assert keys_of(tmp_path / "model.gguf")["general.file_type"] == 2


def test_what_makes_no_sense_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownRecipe):
        run(folder, tmp_path / "model.gguf", "q9")
    for name in ("Q9", "Q4_K_M", "F64", "I8", "Q8_K"):  # a mixture, and what no weights are packed as
        for wishes in (Wishes(output_type=name), Wishes(tensor_types=((".*", name),))):
            with pytest.raises(UnknownTensorType, match=name) as refused:
                run(folder, tmp_path / "model.gguf", wishes=wishes)
            assert "Q4_K, Q5_K" in refused.value.info.message
    with pytest.raises(BadPattern):
        run(folder, tmp_path / "model.gguf", wishes=Wishes(tensor_types=(("(", "F16"),)))
    for wishes in (Wishes(tensor_types=(("ffn", "Q4_0"),)), Wishes(output_type="F16"), Wishes(embedding_type="F16")):
        with pytest.raises(WishesWithoutQuantizing, match="quantized files only"):
            run(folder, tmp_path / "model.gguf", "f32", wishes=wishes)
    with pytest.raises(TargetIsSource):
        run(folder, folder / "model.safetensors", agreed=True)
    (tmp_path / "there.gguf").write_bytes(b"")
    with pytest.raises(TargetExists):
        run(folder, tmp_path / "there.gguf")
    assert (folder / "model.safetensors").stat().st_size > 1000


def test_a_model_that_is_not_whole_or_not_known_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path
) -> None:
    weights = llama_tensors(FolderTokenizer(folder).size)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(MissingTensors, match="Parts"):
        run(folder, tmp_path / "model.gguf")
    (folder / "config.json").write_text('{"model_type": "strange", "vocab_size": 3}')
    with pytest.raises(UnknownArchitecture, match="strange"):
        run(folder, tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_disk_without_room_is_told_before_anything_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convert.safe_file._RESERVE", 1 << 60)
    with pytest.raises(NoRoom):
        run(folder, tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
