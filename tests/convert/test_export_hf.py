"""A GGUF file becomes a folder that Hugging Face's library reads: its tokenizer, its settings, and its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import tiny_native
from convert.export_hf import NotForFolders
from convert.hard_texts import HARD_TEXTS
from convert.model_vocabulary import read_pieces
from convert.options import ConvertOptions
from convert.pipeline import Converted, convert
from convert.preflight import Planned
from convert.safe_file import TargetExists, TargetIsSource
from convert.safe_folder import HoldsOtherThings
from convert.tokenizer_back import NoTokenizerBack, read_vocabulary, tokenizer_from
from convert.vocabulary import TokenKind, vocabularies_of
from convert.vocabulary_proof import proven, proven_back
from convert.writing import ConversionStopped
from runtime.engine import StopFlag
from runtime.gguf_header import read_header
from runtime.llama.tokenizer import GgufTokenizer
from runtime.tokenizer import FolderTokenizer
from runtime.tokenizer_files import TokenizerFiles, read_tokenizer
from tiny_gguf import write_tiny
from tiny_tokenizers import write_tokenizer
from vocabularies import PUBLISHED, TESTED, published_cases

_QUICK = ("gpt-2", "llama-spm", "phi-3", "deepseek-coder", "deepseek-llm", "bert-bge")  # `make acceptance` takes all


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "model.gguf")


def run(source: Path, target: Path, recipe: str = "f32", **more: object) -> list[object]:
    options = ConvertOptions(source=source, target=target, recipe=recipe, **more)  # type: ignore[arg-type]
    return list(convert(options, StopFlag()))


@pytest.mark.parametrize("name", _QUICK)
def test_published_vocabularies_cut_alike_in_both_libraries_and_keep_their_way(name: str) -> None:
    path = next(path for path in PUBLISHED if path.stem == f"ggml-vocab-{name}")
    vocabulary = read_vocabulary(read_header(path))

    tokenizer = tokenizer_from(vocabulary)

    notes = proven_back(path, vocabulary, tokenizer)
    assert [note for note in notes if "Korean" not in note] == []
    for text, expected in published_cases(path) if path in TESTED and name != "bert-bge" else ():
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected
    if vocabulary.model == "gpt2":
        assert vocabulary.pre in vocabularies_of(files_of(tokenizer), n_rows=len(vocabulary.tokens))[0].likely


def files_of(tokenizer: Tokenizer) -> TokenizerFiles:
    return TokenizerFiles(tokenizer)


@pytest.mark.parametrize("kind", ["byte-level", "metaspace", "llama", "word-piece"])
def test_a_tokenizer_that_went_there_and_back_is_llama_cpps(kind: str, tmp_path: Path) -> None:
    from convert.gguf_file import layout, string
    from convert.special_ids import add_special_ids

    folder = write_tokenizer(tmp_path / "there", kind)
    files = read_tokenizer(folder)
    ways = vocabularies_of(files, n_rows=FolderTokenizer(folder).size + 2)
    for way in ways:
        add_special_ids(way, files, FolderTokenizer(folder))
    made = proven(ways, files.tokenizer)
    path = tmp_path / "vocabulary.gguf"
    path.write_bytes(layout({"general.architecture": string("llama"), **made.keys()}, ()).header)

    vocabulary = read_vocabulary(read_header(path))
    tokenizer = tokenizer_from(vocabulary)

    proven_back(path, vocabulary, tokenizer)
    with GgufTokenizer(path) as theirs:
        whole = "The miller opened the sluice."
        assert tokenizer.encode(whole).ids == theirs.tokenize_whole(whole)
        assert tokenizer.encode("a<tool>b</s>").ids[-4:] == theirs.tokenize_whole("a<tool>b</s>", special=True)[-4:]
    assert vocabulary.named()["eos_token"] == "</s>"


def test_the_folder_holds_the_weights_settings_and_template_of_the_file(source: Path, tmp_path: Path) -> None:
    planned, *_progress, converted = run(source, tmp_path / "folder")
    assert isinstance(planned, Planned)
    assert isinstance(converted, Converted)
    folder = tmp_path / "folder"
    assert {path.name for path in folder.iterdir()} == {Path(file).name for file in converted.files}
    assert sum(path.stat().st_size for path in folder.iterdir()) == planned.size_bytes
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float32"
    reader, tokenizer = FolderTokenizer(folder), read_header(source)
    assert reader.templates == tokenizer.chat_templates
    with GgufTokenizer(source) as theirs:
        assert [reader.tokenize(text) for text in HARD_TEXTS] == [theirs.tokenize(text) for text in HARD_TEXTS]
        ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
        assert all(theirs.ends_answer(token) for token in ends)
        assert theirs.special.eos in ends


def test_an_end_that_is_an_ordinary_token_is_an_end_in_the_folder(tmp_path: Path) -> None:
    tiny_native.write_folder(tmp_path / "model", eos_token_id=[5])
    run(tmp_path / "model", tmp_path / "model.gguf")

    run(tmp_path / "model.gguf", tmp_path / "folder")

    with GgufTokenizer(tmp_path / "model.gguf") as theirs:
        assert theirs.ends_answer(5)
        assert 5 not in theirs.control_ids
    assert 5 in json.loads((tmp_path / "folder" / "generation_config.json").read_text())["eos_token_id"]


def test_weights_are_rounded_to_the_type_and_cut_into_files_with_an_index(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "whole")
    run(source, tmp_path / "cut", "f16", split_max_size=200_000)
    whole = load_file(tmp_path / "whole" / "model.safetensors")
    index = json.loads((tmp_path / "cut" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    cut = {name: load_file(tmp_path / "cut" / file)[name] for name, file in index["weight_map"].items()}
    assert whole.keys() == cut.keys()
    assert all(np.array_equal(whole[name].astype(np.float16), cut[name]) for name in whole)
    assert index["metadata"]["total_size"] == sum(array.nbytes for array in cut.values())


def test_what_a_folder_cannot_be_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(NotForFolders, match="Q8_0"):
        run(source, tmp_path / "folder", "q8_0")
    run(source, tmp_path / "folder")
    with pytest.raises(TargetIsSource):
        run(tmp_path / "folder", tmp_path / "folder", agreed=True)
    with pytest.raises(TargetExists):
        run(source, tmp_path / "folder")


@pytest.mark.parametrize("name", ["mine.txt", "runs/monday/log.csv", "model-q4_0.gguf"])
def test_a_folder_with_other_things_in_it_is_never_replaced(name: str, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    run(source, folder, split_max_size=200_000)
    run(source, folder, agreed=True)
    assert (folder / "model.safetensors").exists()
    assert not (folder / "model.safetensors.index.json").exists()

    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("x")
    for dry_run in (True, False):
        with pytest.raises(HoldsOtherThings, match=name):
            run(source, folder, agreed=True, dry_run=dry_run)
    assert (folder / name).read_text() == "x"


def test_a_link_to_nowhere_is_replaced_by_the_folder(source: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").symlink_to(tmp_path / "folder")
    run(source, tmp_path / "folder", agreed=True)
    assert (tmp_path / "folder" / "config.json").exists()


def test_a_folder_that_holds_the_source_is_never_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for target in (tmp_path, tmp_path / "link"):
        with pytest.raises(TargetIsSource):
            run(source, target, agreed=True)
    assert source.exists()


def test_a_conversion_that_is_stopped_leaves_nothing(source: Path, tmp_path: Path) -> None:
    stop = StopFlag()
    events = convert(ConvertOptions(source=source, target=tmp_path / "folder", recipe="f32"), stop)
    next(events)
    next(events)
    stop.set()
    with pytest.raises(ConversionStopped):
        list(events)
    assert [path.name for path in tmp_path.iterdir() if "folder" in path.name or path.name.startswith(".quern")] == []


def test_a_vocabulary_without_counterpart_is_refused(tmp_path: Path) -> None:
    from vocabularies import NORMAL, write_vocabulary

    tokens = [(chr(97 + at), NORMAL, 0.0) for at in range(20)]
    path = write_vocabulary(tmp_path / "odd.gguf", tokens, model="rwkv")
    with pytest.raises(NoTokenizerBack, match="rwkv"):
        tokenizer_from(read_vocabulary(read_header(path)))


def test_scores_and_kinds_of_sentencepiece_survive_in_its_own_file(tmp_path: Path) -> None:
    path = next(path for path in PUBLISHED if path.stem == "ggml-vocab-phi-3")
    from convert.sentencepiece_file import packed_model
    from convert.tokenizer_back import sentencepiece_of

    vocabulary = read_vocabulary(read_header(path))
    pieces = sentencepiece_of(vocabulary)
    assert pieces is not None
    (tmp_path / "tokenizer.model").write_bytes(packed_model(pieces))
    again = read_pieces(tmp_path)
    assert again == pieces
    (first, *_others) = vocabularies_of(
        files_of(tokenizer_from(vocabulary)), n_rows=len(vocabulary.tokens), pieces=again
    )
    assert first.kinds == vocabulary.kinds
    normal = [at for at, kind in enumerate(first.kinds) if kind is TokenKind.NORMAL]
    assert [first.scores[at] for at in normal] == [vocabulary.scores[at] for at in normal]
