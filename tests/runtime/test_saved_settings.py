"""The settings file: only differences, lenient reading, nothing ever lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runtime import places as places_module
from runtime.params import GROUPS, AppSettings, LoadParams, SamplingParams
from runtime.places import UnwritablePlace
from runtime.saved_settings import SavedSettings
from runtime.settings import SettingField, fields_of, layered

NAMES: dict[type, Any] = {AppSettings: "app", SamplingParams: "sampling", LoadParams: "load"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "Ünï 模型" / "settings.json"


def written(path: Path, document: object) -> SavedSettings:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return SavedSettings.read(path)


WORDED = {
    "grammar": 'root ::= "模型 \\" 🦙"\n', "json_schema": "{}", "logit_bias": ("15043=-2", '" 模型"=+1'),
    "template_vars": ("a=1",), "tensor_split": "3/1",
}  # fmt: skip


def another_value(declared: SettingField) -> Any:
    """Returns an allowed value that is not the default."""
    if declared.name in WORDED:
        return WORDED[declared.name]
    match declared.kind:
        case "bool":
            return not declared.default
        case "choice":
            return next(choice for choice in declared.choices if choice != declared.default)
        case "str":
            return "模型 \" \\ 🦙"
        case "list":
            return ("\nUser:", "模型")
    candidates = [declared.setting.minimum, declared.setting.maximum, 1, 2, *declared.setting.special]
    for value in (candidate for candidate in candidates if candidate is not None and candidate != declared.default):
        number = int(value) if declared.kind == "int" else float(value)
        try:
            declared.check(number)
        except Exception:  # noqa: BLE001 - any value that is allowed will do
            continue
        return number
    raise AssertionError(f"no other value for {declared.name}")


@pytest.mark.parametrize(
    "declared", [declared for group in GROUPS for declared in fields_of(group)], ids=lambda declared: declared.name
)
def test_every_setting_survives_a_restart(path: Path, declared: SettingField) -> None:
    value = another_value(declared)
    SavedSettings().with_layer(NAMES[declared.group], {declared.name: value}).write(path)
    read = SavedSettings.read(path)
    assert read.notes == ()
    assert getattr(read, NAMES[declared.group]) == {declared.name: value}
    if declared.name != "kv_type_v":  # a quantized one goes with flash attention only, which is another test's matter
        assert getattr(layered(declared.group, getattr(read, NAMES[declared.group])), declared.name) == value


def test_a_missing_file_means_the_defaults(path: Path) -> None:
    read = SavedSettings.read(path)
    assert (read.app, read.sampling, read.load, read.notes) == ({}, {}, {}, ())


def test_the_file_holds_only_what_differs(path: Path) -> None:
    saved = SavedSettings().with_layer("sampling", {"temperature": 0.2}).with_layer("app", {})
    saved.with_layer("load", {"threads": 2}, model="a").with_layer("load", {}, model="a").write(path)
    assert json.loads(path.read_text(encoding="utf-8")) == {"version": 1, "sampling": {"temperature": 0.2}}


def test_a_model_has_layers_of_its_own(path: Path) -> None:
    saved = SavedSettings().with_layer("sampling", {"temperature": 0.2}, model="模型.gguf")
    saved.with_layer("load", {"threads": 2}, model="模型.gguf").write(path)
    read = SavedSettings.read(path)
    assert read.for_model("模型.gguf") == ({"temperature": 0.2}, {"threads": 2})
    assert read.for_model("another") == ({}, {})
    assert read.model_keys == ("模型.gguf",)
    assert read.sampling == {}


def test_unknown_missing_and_mistyped_keys_cost_only_themselves(path: Path) -> None:
    read = written(path, {
        "version": 1,
        "app": {"theme": "dark", "language": 7, "from_the_future": True},
        "sampling": "nonsense",
        "models": {"m": {"load": {"threads": "many", "batch": 64}}, "n": 5},
    })  # fmt: skip
    assert read.app == {"theme": "dark"}
    assert read.sampling == {}
    assert read.for_model("m") == ({}, {"batch": 64})
    assert len(read.notes) == 4
    assert any("from_the_future" in note for note in read.notes)


def test_what_a_newer_version_wrote_stays_in_the_file(path: Path) -> None:
    read = written(path, {
        "version": 7,
        "app": {"theme": "sepia", "hologram": True},
        "telepathy": {"range": 3},
        "models": {"m": {"sampling": {"mind": 1}, "voice": {"pitch": 2}}},
    })  # fmt: skip
    read.with_layer("app", {"language": "en"}).with_layer("sampling", {"top_k": 1}, model="m").write(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["version"] == 7
    assert document["app"] == {"theme": "sepia", "hologram": True, "language": "en"}
    assert document["telepathy"] == {"range": 3}
    assert document["models"]["m"] == {"sampling": {"mind": 1, "top_k": 1}, "voice": {"pitch": 2}}


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"null", b"\xff\xfe", b"\0" * 100, b"[" * 100_000])
def test_a_damaged_file_is_set_aside_and_named(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    read = SavedSettings.read(path)
    assert read.app == {}
    assert "settings.json.damaged-1" in read.notes[0]
    assert path.with_name("settings.json.damaged-1").read_bytes() == content
    read.with_layer("app", {"theme": "dark"}).write(path)
    assert SavedSettings.read(path).app == {"theme": "dark"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_that_an_editor_of_windows_wrote_is_read(path: Path, encoding: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes('{"sampling": {"temperature": 0.5}}'.encode(encoding))
    saved = SavedSettings.read(path)
    assert saved.notes == ()
    assert saved.sampling == {"temperature": 0.5}


def test_a_file_that_cannot_be_read_is_never_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    path.write_text('{"app": {"theme": "dark"}}')
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _self: (_ for _ in ()).throw(PermissionError(13, "no")))
        read = SavedSettings.read(path)
    assert str(path) in read.notes[0]
    with pytest.raises(UnwritablePlace, match="no permission"):
        read.with_layer("app", {"theme": "light"}).write(path)
    assert json.loads(path.read_text()) == {"app": {"theme": "dark"}}


def test_a_failing_disk_leaves_the_settings_as_they_were(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SavedSettings().with_layer("app", {"theme": "dark"}).write(path)

    def full(_source: str, _target: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(places_module.os, "replace", full)
    with pytest.raises(UnwritablePlace, match="the disk is full"):
        SavedSettings().write(path)
    assert SavedSettings.read(path).app == {"theme": "dark"}
