"""Models of other programs are found in place, under the names that people know them by, and nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foreign_models import hub, jan, llama_cache, model_bytes, ollama, write_json, write_model
from raw_gguf import STRING
from runtime import starter
from runtime.library import Library, ModelInfo, resolve

LLAMA = "registry.ollama.ai/library/llama3.2"


@pytest.fixture(autouse=True)
def _no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise starter.StarterMissing

    monkeypatch.setattr(starter, "starter_path", missing)


@pytest.fixture
def store(person_home: Path) -> Path:
    """Ollama's folder."""
    return person_home / ".ollama" / "models"


@pytest.fixture
def hub_cache(person_home: Path) -> Path:
    """The Hugging Face cache."""
    return person_home / ".cache" / "huggingface" / "hub"


def found() -> dict[str, ModelInfo]:
    library = Library()
    models = library.models()
    assert library.problems == []
    assert len({model.name for model in models}) == len(models)
    return {model.name: model for model in models}


# --- LM Studio and GPT4All --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio_s_models_lie_by_publisher(person_home: Path, place: str) -> None:
    path = write_model(person_home / place / "publisher" / "Some-Model-GGUF" / "Some-Model-Q4_K_M.gguf")
    write_model(path.with_name("mmproj-model-f16.gguf"), ("general.type", STRING, "mmproj"))
    write_model(path.with_name("downloading_Other-Q8_0.gguf"))
    (info,) = found().values()
    assert (info.name, info.path, info.source) == ("Some-Model-Q4_K_M", path, "lm-studio")


def test_gpt4all_s_unfinished_downloads_are_no_models(person_home: Path) -> None:
    folder = person_home / ".local" / "share" / "nomic.ai" / "GPT4All"
    write_model(folder / "Meta-Llama-3-8B-Instruct.Q4_0.gguf")
    write_model(folder / "incomplete-Phi-3-mini-4k-instruct.Q4_0.gguf")
    assert {name: info.source for name, info in found().items()} == {"Meta-Llama-3-8B-Instruct.Q4_0": "gpt4all"}


# --- Ollama -----------------------------------------------------------------------------------------------------


def test_ollama_s_models_have_the_names_that_it_lists(store: Path) -> None:
    names = {
        f"{LLAMA}:1b": "llama3.2:1b",
        "registry.ollama.ai/ann/poet:latest": "ann/poet:latest",
        "hf.co/bartowski/Llama-3.2-3B-GGUF:Q4_K_M": "hf.co/bartowski/Llama-3.2-3B-GGUF:Q4_K_M",
    }
    blobs = ollama(store, {name: name for name in names})
    assert {name: info.path for name, info in found().items()} == {names[name]: blob for name, blob in blobs.items()}
    assert all(info.runnable and info.source == "ollama" for info in found().values())


def test_two_names_of_one_ollama_model_are_one_entry_that_both_find(store: Path) -> None:
    ollama(store, {f"{LLAMA}:3b": "same", f"{LLAMA}:latest": "same", f"{LLAMA}:1b": "other"})
    assert set(found()) == {"llama3.2:3b", "llama3.2:1b"}
    assert resolve("llama3.2:latest").name == "llama3.2:3b"
    assert resolve("Llama3.2").name == "llama3.2:3b"  # as Ollama understands it
    assert resolve("llama3.2:1").name == "llama3.2:1b"


def test_a_name_with_slashes_is_a_name_before_it_is_a_path(store: Path) -> None:
    blobs = ollama(store, {"hf.co/ann/poet:Q4_0": "poet"})
    assert resolve("hf.co/ann/poet:Q4_0").path == blobs["hf.co/ann/poet:Q4_0"]


def test_only_ollama_s_weights_are_models(store: Path) -> None:
    projector = {"projector": "sees", "template": "{{ .Prompt }}", "params": "{}", "system": "Be kind."}
    ollama(store, {f"{LLAMA}:1b": "x"}, layers=projector)
    assert set(found()) == {"llama3.2:1b"}


def test_an_ollama_model_with_an_adapter_says_why_it_does_not_run(store: Path) -> None:
    ollama(store, {f"{LLAMA}:tuned": "base"}, layers={"adapter": "weights"})
    (info,) = found().values()
    assert not info.runnable
    assert "adapter" in info.reason


@pytest.mark.parametrize("plain", [f"{LLAMA}:1b", f"{LLAMA}:z"])
def test_the_name_of_a_model_with_an_adapter_never_stands_for_the_model_alone(
    store: Path, person_home: Path, plain: str
) -> None:
    ollama(store, {f"{LLAMA}:tuned": "base"}, layers={"adapter": "weights"})
    (blob,) = ollama(store, {plain: "base"}).values()
    linked = person_home / "jan" / "models" / "Base.gguf"
    linked.parent.mkdir(parents=True)
    linked.hardlink_to(blob)
    (info,) = found().values()
    assert info.runnable
    assert {info.name, *info.aliases} == {plain.rsplit("/", 1)[-1], "Base"}
    (store / "manifests" / plain.replace(":", "/")).unlink()  # only the one with the adapter is left
    (info,) = found().values()
    assert (info.name, info.aliases, info.runnable) == ("Base", (), True)


@pytest.mark.parametrize(
    "manifest", [{}, {"layers": 7}, {"layers": [7, {"mediaType": 1, "digest": []}]}, {"layers": None}, [],
                 {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]},
                 {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + 64 * "0"}]}],
    ids=str,
)  # fmt: skip
def test_manifests_without_weights_here_are_passed_over(store: Path, manifest: object) -> None:
    """Models of the cloud, downloads under way, and what was written by someone else."""
    ollama(store, {f"{LLAMA}:1b": "x"})
    write_json(store / "manifests" / LLAMA / "cloud", manifest)
    (store / "blobs" / ("sha256-" + 64 * "1" + "-partial")).write_bytes(model_bytes("partial"))
    assert set(found()) == {"llama3.2:1b"}


def test_blobs_of_older_versions_of_ollama_are_found(store: Path) -> None:
    (blob,) = ollama(store, {f"{LLAMA}:1b": "x"}).values()
    older = blob.rename(blob.with_name(blob.name.replace("-", ":")))
    assert found()["llama3.2:1b"].path == older


def test_a_store_is_recognised_in_an_added_folder(tmp_path: Path) -> None:
    ollama(tmp_path / "disk" / "ollama", {f"{LLAMA}:1b": "x"})
    (info,) = Library([tmp_path / "disk"]).models()
    assert info.name == "llama3.2:1b"


# --- the Hugging Face cache -------------------------------------------------------------------------------------


def test_files_of_the_hub_s_cache_are_found_by_their_names(hub_cache: Path) -> None:
    snapshot = hub(hub_cache, "ann/Poet-GGUF", "a" * 40, {
        "Poet-Q4_0.gguf": model_bytes("4"), "sub/Poet-F16.gguf": model_bytes("16"), "README.md": b"# Poet"
    })  # fmt: skip
    models = found()
    assert {name: info.path for name, info in models.items()} == {
        "Poet-Q4_0": snapshot / "Poet-Q4_0.gguf", "Poet-F16": snapshot / "sub" / "Poet-F16.gguf"
    }  # fmt: skip
    assert {info.source for info in models.values()} == {"hugging-face"}


def test_a_file_of_several_snapshots_is_the_newest_one(hub_cache: Path) -> None:
    old, newer = "f" * 40, "0" * 40
    files = {"Poet.gguf": model_bytes("old"), "Poet-small.gguf": model_bytes("small")}
    touched = hub(hub_cache, "ann/Poet-GGUF", old, files)
    os.utime(touched, (1 << 32, 1 << 32))  # the branch tells, not the time
    snapshot = hub(hub_cache, "ann/Poet-GGUF", newer, {"Poet.gguf": model_bytes("new")}, main=True)
    models = found()
    assert models["Poet"].path == snapshot / "Poet.gguf"
    assert models["Poet-small"].path.parent.name == old  # fetched before, and nowhere else


def test_without_a_main_branch_the_time_tells_which_snapshot_is_newest(hub_cache: Path) -> None:
    for revision, time in (("5" * 40, 2000), ("0" * 40, 1000), ("9" * 40, 1500)):
        os.utime(hub(hub_cache, "ann/Poet", revision, {"Poet.gguf": model_bytes(revision)}), (time, time))
    assert found()["Poet"].path.parent.name == "5" * 40


def test_a_safetensors_repository_is_one_entry_with_its_name(hub_cache: Path) -> None:
    files = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(64)}
    for revision in ("f" * 40, "0" * 40):
        hub(hub_cache, "ann/Poet-1B", revision, files, main=revision[0] == "0")
    (info,) = found().values()
    assert (info.name, info.kind, info.architecture, info.size_bytes) == ("Poet-1B", "folder", "llama", 64)
    assert info.path.name == "0" * 40
    assert "vocab_size" in info.reason  # a config that says nothing else


def test_a_newer_config_alone_does_not_hide_the_weights(hub_cache: Path) -> None:
    config = {"config.json": b'{"model_type": "llama"}'}
    hub(hub_cache, "ann/Poet-1B", "0" * 40, {**config, "model.safetensors": bytes(64)})
    hub(hub_cache, "ann/Poet-1B", "1" * 40, config, main=True)
    assert found()["Poet-1B"].path.name == "0" * 40


def test_what_is_still_being_fetched_is_no_model(hub_cache: Path) -> None:
    snapshot = hub(hub_cache, "ann/Poet", "a" * 40, {"Poet.gguf": model_bytes("x")})
    (hub_cache / "models--ann--Poet" / "blobs" / "0123.incomplete").write_bytes(model_bytes("half"))
    (snapshot / "Late.gguf").symlink_to("../../blobs/4567")
    assert set(found()) == {"Poet"}


def test_files_with_a_common_name_take_the_repository_s(hub_cache: Path) -> None:
    files = {"model.gguf": model_bytes("1"), "ggml-model-q4_0.gguf": model_bytes("2"), "unsloth.Q8_0.gguf": b"GGUF"}
    hub(hub_cache, "ann/Poet-1B", "a" * 40, files)
    assert set(found()) == {"Poet-1B", "Poet-1B-q4_0", "Poet-1B-Q8_0"}


# --- Jan and llama.cpp ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [".local/share/Jan/data", ".config/Jan/data"])
def test_jan_s_models_have_the_names_that_it_shows(person_home: Path, data: str) -> None:
    path = jan(person_home / data, "janhq/Jan-v3-4B")
    (info,) = found().values()
    assert (info.name, info.path, info.source) == ("janhq/Jan-v3-4B", path, "jan")
    assert resolve("janhq/jan-v3").path == path
    assert resolve(str(path.parent)).name == "janhq/Jan-v3-4B"


def test_a_model_that_jan_took_from_elsewhere_is_found_where_it_lies(person_home: Path, tmp_path: Path) -> None:
    path = write_model(tmp_path / "disk" / "Some.gguf")
    jan(person_home / ".local" / "share" / "Jan" / "data", "My-Model", file=path)
    assert found()["My-Model"].path == path


@pytest.mark.parametrize(
    "content", ["", "name:\n", "name: x\nmodel_path: ../../../../gone.gguf\n", "- a\n- b\n", "model_path: [1]\n", "\0",
                "model_path: /etc/passwd\n", "model_path: \0.gguf\n"]
)  # fmt: skip
def test_an_odd_note_of_jan_s_leaves_the_file_its_own_name(person_home: Path, content: str) -> None:
    folder = person_home / "jan" / "models" / "tale"
    write_model(folder / "Tale-Q4_0.gguf")
    (folder / "model.yml").write_text(content)
    assert set(found()) == {"Tale-Q4_0"}


def test_llama_cpp_s_downloads_lose_the_names_of_owner_and_repository(person_home: Path) -> None:
    cache = person_home / ".cache" / "llama.cpp"
    path = llama_cache(cache, "ggml-org", "gemma-3-1b-it-GGUF", "gemma-3-1b-it-Q4_K_M.gguf")
    write_model(cache / "from_an_address.gguf")
    write_model(cache / "half.gguf.downloadInProgress")
    assert {name: info.source for name, info in found().items()} == {
        "gemma-3-1b-it-Q4_K_M": "llama.cpp", "from_an_address": "llama.cpp"
    }  # fmt: skip
    assert found()["gemma-3-1b-it-Q4_K_M"].path == path


# --- all together -----------------------------------------------------------------------------------------------


def everything(home: Path) -> None:
    write_model(home / ".lmstudio" / "models" / "p" / "m" / "Studio-Q4_0.gguf")
    write_model(home / ".local" / "share" / "nomic.ai" / "GPT4All" / "All.gguf")
    ollama(home / ".ollama" / "models", {f"{LLAMA}:1b": "x"})
    hub(home / ".cache" / "huggingface" / "hub", "ann/Poet", "a" * 40, {"Poet.gguf": model_bytes("poet")})
    jan(home / ".local" / "share" / "Jan" / "data", "Jan-1B")
    llama_cache(home / ".cache" / "llama.cpp", "o", "r", "cached.gguf")


def test_all_programs_together_name_their_own(person_home: Path) -> None:
    everything(person_home)
    assert {name: info.source for name, info in found().items()} == {
        "Studio-Q4_0": "lm-studio", "All": "gpt4all", "llama3.2:1b": "ollama", "Poet": "hugging-face",
        "Jan-1B": "jan", "cached": "llama.cpp",
    }  # fmt: skip


def test_nothing_is_written_where_other_programs_keep_their_models(person_home: Path) -> None:
    everything(person_home)

    def state() -> list[tuple[str, int, int]]:
        return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in person_home.rglob("*"))

    before = state()
    found()
    assert state() == before


def test_a_model_that_several_programs_share_is_one_entry(person_home: Path, store: Path) -> None:
    (blob,) = ollama(store, {f"{LLAMA}:1b": "shared"}).values()
    linked = person_home / ".lmstudio" / "models" / "p" / "m" / "Shared-Q4_0.gguf"
    linked.parent.mkdir(parents=True)
    linked.hardlink_to(blob)
    pointed = person_home / ".local" / "share" / "nomic.ai" / "GPT4All" / "Pointed.gguf"
    pointed.parent.mkdir(parents=True)
    pointed.symlink_to(blob)
    (info,) = found().values()
    assert (info.name, info.path) == ("Shared-Q4_0", linked)
    assert resolve("llama3.2:1b") == resolve("pointed") == info


def test_a_folder_that_must_not_be_read_becomes_a_sentence(
    person_home: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything(person_home)
    scandir = os.scandir

    def guarded(path: Path) -> object:
        if Path(path) == store:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    library = Library()
    assert len(library.models()) == 5
    (problem,) = library.problems
    assert str(store) in problem
    assert "Permission denied" in problem


def test_a_folder_behind_one_that_must_not_be_entered_becomes_a_sentence(
    person_home: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ollama's own folder is for everybody but its service."""
    everything(person_home)
    stat = os.stat

    def guarded(path: object, **more: bool) -> object:
        if isinstance(path, str | Path) and Path(path).is_relative_to(store):
            raise PermissionError(13, "Permission denied")
        return stat(path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", guarded)
    library = Library()
    assert len(library.models()) == 5
    assert [str(store) in problem for problem in library.problems] == [True]


def test_files_that_must_not_be_looked_at_are_listed_with_the_reason(
    person_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything(person_home)
    stat = os.stat

    def guarded(path: object, **more: bool) -> object:
        if isinstance(path, str | Path) and str(path).endswith((".gguf", "model.yml")):
            raise PermissionError(13, "Permission denied")
        return stat(path, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", guarded)
    models = {model.name: model for model in Library().models()}
    assert "permission" in models["Studio-Q4_0"].reason
