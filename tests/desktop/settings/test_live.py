"""Settings in use: checked, announced, and on disk a moment later."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.settings.live import LiveSettings, Scope
from runtime.params import AppSettings, LoadParams, SamplingParams
from runtime.saved_settings import SavedSettings
from runtime.settings import BadSetting


@pytest.fixture
def live(qapp: object, tmp_path: Path) -> LiveSettings:
    return LiveSettings(SavedSettings(), tmp_path / "settings.json")


def again(tmp_path: Path) -> LiveSettings:
    path = tmp_path / "settings.json"
    return LiveSettings(SavedSettings.read(path), path)


def test_change_is_announced_and_survives_a_restart(live: LiveSettings, tmp_path: Path, qtbot: QtBot) -> None:
    with qtbot.waitSignal(live.changed) as change:
        live.set_values(SamplingParams, temperature=0.25)
    live.flush()
    assert change.args == [SamplingParams, "temperature"]
    assert again(tmp_path).sampling == SamplingParams(temperature=0.25)


def test_equal_value_changes_nothing(live: LiveSettings, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(live.changed):
        live.set_values(SamplingParams, temperature=0.8)


def test_value_outside_its_bounds_is_refused_and_the_old_one_stays(live: LiveSettings) -> None:
    with pytest.raises(BadSetting):
        live.set_values(SamplingParams, top_p=1.5, temperature=0.1)
    assert live.sampling == SamplingParams()


def test_pair_that_cannot_work_is_refused(live: LiveSettings) -> None:
    live.set_values(LoadParams, flash_attention="off")
    with pytest.raises(BadSetting):
        live.set_values(LoadParams, kv_type_v="q8_0")
    assert live.load.kv_type_v == "f16"


def test_reset_removes_the_setting_from_the_file(live: LiveSettings, tmp_path: Path) -> None:
    live.set_values(AppSettings, theme="dark")
    live.flush()
    live.reset(AppSettings, "theme")
    live.flush()
    assert not live.is_changed(AppSettings, "theme")
    assert "theme" not in (tmp_path / "settings.json").read_text()


def test_saved_values_that_exclude_each_other_give_way_to_the_defaults(qapp: object, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"load": {"flash_attention": "off", "kv_type_v": "q8_0"}}')
    assert again(tmp_path).load == LoadParams()


def test_disk_that_cannot_be_written_is_reported(qapp: object, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "file").write_text("in the way")
    live = LiveSettings(SavedSettings(), tmp_path / "file" / "settings.json")
    with qtbot.waitSignal(live.write_failed) as failure:
        live.set_values(SamplingParams, temperature=0.25)
    assert failure.args[0].info.code == "unwritable_place"
    assert live.sampling.temperature == 0.25


def test_a_models_own_setting_holds_for_that_model_alone_and_survives(live: LiveSettings, tmp_path: Path) -> None:
    live.use_model("a")
    live.choose_scope(Scope.MODEL)
    live.set_values(LoadParams, context_length=8192)
    assert live.source_of(LoadParams, "context_length") is Scope.MODEL
    live.use_model("b")
    assert live.load.context_length == LoadParams().context_length
    live.flush()
    fresh = again(tmp_path)
    assert fresh.load == LoadParams()
    fresh.use_model("a")
    assert fresh.load.context_length == 8192


def test_the_narrower_layer_wins_and_resetting_it_lets_the_wider_one_decide(live: LiveSettings) -> None:
    live.set_values(SamplingParams, temperature=0.5)
    live.choose_scope(Scope.CHAT)
    live.set_values(SamplingParams, temperature=0.1)
    assert live.sampling.temperature == 0.1
    assert live.is_changed(SamplingParams, "temperature")
    live.reset(SamplingParams, "temperature")
    assert live.sampling.temperature == 0.5
    assert not live.is_changed(SamplingParams, "temperature")


def test_a_change_everywhere_is_never_without_effect(live: LiveSettings) -> None:
    live.use_model("a")
    live.choose_scope(Scope.MODEL)
    live.set_values(SamplingParams, temperature=0.1)
    live.choose_scope(Scope.EVERYWHERE)
    live.set_values(SamplingParams, temperature=0.9)
    assert live.sampling.temperature == 0.9
    assert not live.own(Scope.MODEL)


def test_a_chats_own_setting_goes_to_the_chat_and_not_to_the_file(
    live: LiveSettings, tmp_path: Path, qtbot: QtBot
) -> None:
    live.choose_scope(Scope.CHAT)
    with qtbot.waitSignal(live.chat_layer_changed) as kept:
        live.set_values(SamplingParams, temperature=0.1)
    live.flush()
    assert kept.args == [{"temperature": 0.1}]
    assert not (tmp_path / "settings.json").exists()
    live.use_chat({})
    assert live.sampling == SamplingParams()


def test_loading_is_set_for_the_model_while_a_chat_is_set(live: LiveSettings) -> None:
    live.use_model("a")
    live.choose_scope(Scope.CHAT)
    live.set_values(LoadParams, context_length=8192)
    assert live.source_of(LoadParams, "context_length") is Scope.MODEL


def test_unusable_settings_of_a_chat_are_left_out(live: LiveSettings) -> None:
    live.use_chat({"temperature": "hot", "no_such": 1, "top_k": 7})
    assert live.sampling == SamplingParams(top_k=7)


def test_a_layer_that_excludes_a_wider_one_gives_way(live: LiveSettings) -> None:
    live.use_model("a")
    live.choose_scope(Scope.MODEL)
    live.set_values(LoadParams, kv_type_v="q8_0")
    live.use_model("")
    live.choose_scope(Scope.EVERYWHERE)
    live.set_values(LoadParams, flash_attention="off")
    live.use_model("a")
    assert (live.load.flash_attention, live.load.kv_type_v) == ("off", "f16")


def test_a_renamed_model_keeps_its_settings(live: LiveSettings, tmp_path: Path) -> None:
    live.use_model("old")
    live.choose_scope(Scope.MODEL)
    live.set_values(SamplingParams, temperature=0.1)
    live.move_model("old", "new")
    live.flush()
    fresh = again(tmp_path)
    fresh.use_model("old")
    assert fresh.sampling == SamplingParams()
    fresh.use_model("new")
    assert fresh.sampling.temperature == 0.1
