"""What cannot be talked to is refused with its own reason before it is loaded; split sets load from any part."""

from __future__ import annotations

from pathlib import Path

import pytest

import engines
import tiny_gguf
from raw_gguf import ARRAY, STRING, U32, Key, pack, with_keys
from runtime.gguf_architectures import KNOWN_ARCHITECTURES
from runtime.gguf_header import UnsupportedModel, read_header
from runtime.runnable import require_runnable, why_not

VOCABULARY: Key = ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b"]))


def reason(path: Path, *keys: Key, vocabulary: bool = True, **more: object) -> str:
    path.write_bytes(pack(with_keys(*((VOCABULARY,) if vocabulary else ()), *keys), **more))  # type: ignore[arg-type]
    return why_not(read_header(path))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], ""),
        ([("general.type", STRING, "model")], ""),
        ([("general.type", STRING, "adapter")], "adapter"),
        ([("general.type", STRING, "imatrix")], "measurements"),
        ([("general.architecture", STRING, "foo\u202e\n")], "“foo” is unknown"),
        ([("general.architecture", STRING, "nomic-bert")], "vectors"),
        ([("general.architecture", STRING, "t5")], ""),
        ([("general.architecture", STRING, "t5"), ("t5.block_count", U32, 2), ("t5.decoder_block_count", U32, 3)],
         "decoder has 3 layers and its encoder only 2"),
        ([("llama.pooling_type", U32, 3)], "vectors"),
        ([("llama.pooling_type", U32, 0)], ""),
    ],
)
def test_each_reason_is_a_sentence_of_its_own(tmp_path: Path, keys: list[Key], expected: str) -> None:
    found = reason(tmp_path / "m.gguf", *keys)
    assert expected in found
    assert bool(found) == bool(expected)


def test_a_file_without_weights_or_without_vocabulary_does_not_run(tmp_path: Path) -> None:
    assert "no weights" in reason(tmp_path / "m.gguf", tensors=(), data=b"")
    assert "no vocabulary" in reason(tmp_path / "m.gguf", vocabulary=False)
    for name in ("none", "no_vocab"):
        assert "no vocabulary" in reason(tmp_path / "m.gguf", ("tokenizer.ggml.model", STRING, name))


def test_a_family_is_refused_only_for_what_it_is(tmp_path: Path) -> None:
    for architecture in ("llama", "qwen3", "gemma3", "mamba", "gpt-oss"):
        assert architecture in KNOWN_ARCHITECTURES
        assert reason(tmp_path / "m.gguf", ("general.architecture", STRING, architecture)) == ""


def test_require_runnable_raises_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    reason(path, ("general.architecture", STRING, "foo"))
    with pytest.raises(UnsupportedModel, match="“foo” is unknown"):
        require_runnable(read_header(path))


@pytest.mark.parametrize(
    "keys", [[("general.architecture", STRING, "bert")], [("llama.pooling_type", U32, 1)]], ids=["encoder", "trained"]
)
def test_what_makes_vectors_is_refused_for_writing_with_the_command_that_runs_it(
    tmp_path: Path, keys: list[Key]
) -> None:
    reason(tmp_path / "m.gguf", *keys)
    with pytest.raises(UnsupportedModel) as caught:
        require_runnable(read_header(tmp_path / "m.gguf"))
    assert "quern embed" in caught.value.info.hint


def test_the_engine_refuses_an_unknown_architecture_by_name(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata={"general.architecture": "foo"})
    with pytest.raises(UnsupportedModel, match="“foo” is unknown"):
        engines.load(path)


def test_a_split_model_answers_like_the_whole_one_whichever_part_is_picked(tmp_path: Path) -> None:
    whole = tiny_gguf.write_tiny(tmp_path / "whole.gguf")
    parts = read_header(tiny_gguf.write_tiny(tmp_path / "split.gguf", tensors_per_file=10)).parts
    assert len(parts) > 2
    answers = []
    for path in (whole, *parts):
        engine = engines.load(path)
        answers.append(engines.collect(engine, engines.raw("The miller", max_tokens=8)).text)
        engine.close()
    assert answers[0]
    assert set(answers) == {answers[0]}
