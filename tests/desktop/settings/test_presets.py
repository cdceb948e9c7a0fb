"""Presets: kept, applied as far as changes reach, shared without what is private, refused when they are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.settings.live import LiveSettings, Scope
from desktop.settings.presets import NotAPreset, Preset, PresetFolder, encoded, read
from desktop.settings.scope_bar import ScopeBar
from runtime.params import LoadParams, SamplingParams
from runtime.saved_settings import SavedSettings


@pytest.fixture
def live(qapp: object, tmp_path: Path) -> LiveSettings:
    return LiveSettings(SavedSettings(), tmp_path / "settings.json")


@pytest.fixture
def bar(live: LiveSettings, tmp_path: Path, qtbot: QtBot) -> ScopeBar:
    made = ScopeBar(live, PresetFolder(tmp_path / "presets"))
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_preset_is_kept_and_applied(live: LiveSettings, bar: ScopeBar, tmp_path: Path, qtbot: QtBot) -> None:
    live.set_values(SamplingParams, temperature=0.2)
    live.set_values(LoadParams, context_length=8192)
    bar.keep("Calm")
    qtbot.waitUntil((tmp_path / "presets" / "Calm.json").exists)
    live.reset(SamplingParams, "temperature")
    live.set_values(SamplingParams, top_k=5)
    (kept,) = PresetFolder(tmp_path / "presets").all()
    bar.apply(kept)
    assert live.sampling == SamplingParams(temperature=0.2)
    assert live.load.context_length == 8192


def test_in_a_chat_a_preset_changes_how_answers_are_made_and_nothing_else(live: LiveSettings, bar: ScopeBar) -> None:
    live.choose_scope(Scope.CHAT)
    bar.apply(Preset("x", {"temperature": 0.3}, {"context_length": 8192}))
    assert live.sampling.temperature == 0.3
    assert live.load == LoadParams()


def test_a_shared_file_holds_no_path_of_this_computer() -> None:
    data = encoded(Preset("x", {}, {"lora": ("/home/me/secret.gguf",), "context_length": 8192}))
    assert b"/home/me" not in data
    assert json.loads(data)["load"] == {"context_length": 8192}


def test_a_preset_may_be_called_what_is_a_device_on_windows(tmp_path: Path) -> None:
    folder = PresetFolder(tmp_path)
    folder.keep(Preset("CON", {"temperature": 0.5}))
    assert [path.name for path in tmp_path.iterdir()] == ["_CON.json"]
    (found,) = folder.all()
    assert (found.name, found.sampling) == ("CON", {"temperature": 0.5})
    folder.remove("CON")
    assert folder.all() == []


def test_a_preset_that_an_editor_of_windows_saved_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_bytes(encoded(Preset("Mine", {"temperature": 0.5})).decode().encode("utf-8-sig"))
    assert read(tmp_path / "mine.json").sampling == {"temperature": 0.5}


def test_a_file_of_another_version_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"quern_preset": 9, "name": "../../evil\u202e", "sampling": {"top_k": 3, "new": 1}}))
    found = read(path)
    assert (found.sampling, len(found.notes)) == ({"top_k": 3}, 1)
    assert "/" not in found.name
    assert "\u202e" not in found.name


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"quern_preset": "x"}', "[" * 50_000,
                                  '{"quern_preset": 1, "load": {"flash_attention": "off", "kv_type_v": "q8_0"}}'])
def test_what_is_no_preset_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(NotAPreset):
        read(path)


def test_scope_is_shown_and_cleared(live: LiveSettings, bar: ScopeBar) -> None:
    live.use_model("m")
    bar.scopes.chosen.emit(1)
    assert not bar.clear.isVisible()
    live.set_values(SamplingParams, temperature=0.2)
    assert bar.clear.isVisible()
    bar.clear.click()
    assert live.sampling == SamplingParams()
