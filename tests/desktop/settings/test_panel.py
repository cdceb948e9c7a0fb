"""The panel over all declared settings: nothing is missing, everything can be changed, reset and found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot

from desktop.look import dress
from desktop.settings.creativity import LEVELS, CreativityRow
from desktop.settings.live import LiveSettings
from desktop.settings.panel import SettingsPanel, matching
from desktop.settings.rows import SettingRow, WhenTag
from desktop.settings.widgets import LongTextField
from desktop.theme import LIGHT
from runtime.params import GROUPS, LoadParams, SamplingParams
from runtime.saved_settings import SavedSettings
from runtime.settings import SettingField, fields_of

ALL = [declared for group in GROUPS for declared in fields_of(group)]


@pytest.fixture
def live(qapp: QApplication, tmp_path: Path) -> LiveSettings:
    dress(qapp, LIGHT)
    return LiveSettings(SavedSettings(), tmp_path / "settings.json")


@pytest.fixture
def panel(live: LiveSettings, qtbot: QtBot) -> SettingsPanel:
    made = SettingsPanel(live)
    qtbot.addWidget(made)
    made.resize(328, 900)
    made.show()
    qtbot.waitUntil(lambda: made.settled, timeout=30_000)
    return made


def search(panel: SettingsPanel, words: str) -> None:
    panel.search.setText(words)
    while not panel.settled:
        QApplication.processEvents()


def row_of(panel: SettingsPanel, name: str) -> SettingRow:
    search(panel, name)
    return next(section.rows[name] for section in panel.sections if name in section.rows)


WORDED = {
    "grammar": 'root ::= "yes"', "json_schema": "{}", "logit_bias": ("15043=-2",),
    "template_vars": ("enable_thinking=false",), "tensor_split": "3/1",
}  # fmt: skip


def other_value(declared: SettingField) -> Any:
    """Returns an allowed value that is not the default."""
    if declared.name in WORDED:
        return WORDED[declared.name]
    if declared.setting.paths:
        return (r"C:\new\table.gguf",)
    if declared.kind == "bool":
        return not declared.default
    if declared.kind == "choice":
        return next(choice for choice in declared.choices if choice != declared.default)
    if declared.kind in ("str", "list"):
        return "other" if declared.kind == "str" else ("other", "\n")
    setting = declared.setting
    low = setting.minimum if setting.minimum is not None else 0
    number = low + (setting.step or 1) * 3
    return float(number) if declared.kind == "float" else int(number)


@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.name)
def test_every_setting_can_be_changed_survives_and_is_reset_by_its_dot(
    panel: SettingsPanel, live: LiveSettings, qtbot: QtBot, tmp_path: Path, declared: SettingField
) -> None:
    row = row_of(panel, declared.name)
    assert row.isVisible()
    assert not row.dot.isVisible()
    value = other_value(declared)
    row.field.changed.emit(value)
    assert live.value(declared.group, declared.name) == value
    assert row.dot.isVisible()
    live.flush()
    path = tmp_path / "settings.json"
    assert LiveSettings(SavedSettings.read(path), path).value(declared.group, declared.name) == value
    qtbot.mouseClick(row.dot, Qt.MouseButton.LeftButton)
    assert live.value(declared.group, declared.name) == declared.default
    assert not row.dot.isVisible()


def test_first_view_is_short_and_holds_no_advanced_setting(panel: SettingsPanel) -> None:
    shown = [row.declared for section in panel.sections for row in section.rows.values() if row.isVisible()]
    assert {"max_tokens", "context_length", "language", "theme"} <= {declared.name for declared in shown}
    assert not any(declared.setting.advanced for declared in shown)


def test_folded_sections_build_nothing_until_they_are_opened(panel: SettingsPanel) -> None:
    section = panel.section("Expert sampling")
    assert section.rows == {}
    section.set_open(True)
    assert "mirostat" in section.rows


def test_changed_advanced_setting_is_not_hidden(live: LiveSettings, qtbot: QtBot) -> None:
    live.set_values(SamplingParams, seed=7)
    panel = SettingsPanel(live)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitUntil(lambda: panel.settled)
    assert panel.section("Answer").rows["seed"].isVisible()


def test_search_opens_what_it_finds_and_folds_it_again(panel: SettingsPanel) -> None:
    search(panel, "mirostat aims at")
    visible = [row.declared.name for section in panel.sections for row in section.rows.values() if row.isVisible()]
    assert visible == ["mirostat_tau"]
    search(panel, "")
    assert not panel.section("Expert sampling").is_open


def test_search_without_a_find_says_so(panel: SettingsPanel) -> None:
    search(panel, "zebra")
    assert panel._nothing.isVisible()
    assert not any(section.isVisible() for section in panel.sections)


def test_search_looks_at_flags_and_help() -> None:
    assert "top_k" in (matching(ALL, "--top-k") or ())
    assert "threads" in (matching(ALL, "processor cores") or ())
    assert matching(ALL, "  ") is None


def test_refused_value_is_explained_in_place_and_the_old_one_stays(panel: SettingsPanel, live: LiveSettings) -> None:
    live.set_values(LoadParams, flash_attention="off")
    row = row_of(panel, "kv_type_v")
    row.field.changed.emit("q8_0")
    assert live.load.kv_type_v == "f16"
    assert "flash attention" in row._help.text()
    assert row._help.property("tone") == "bad"


def test_refused_text_stays_written_so_that_it_can_be_mended(panel: SettingsPanel, live: LiveSettings) -> None:
    row = row_of(panel, "grammar")
    row.field._edit.setPlainText("root ::= (")
    row.field._edit.left.emit()
    assert live.sampling.grammar == ""
    assert row._help.property("tone") == "bad"
    assert row.field._edit.toPlainText() == "root ::= ("


def test_refused_grammar_stays_written_and_its_line_is_named(panel: SettingsPanel, live: LiveSettings) -> None:
    row = row_of(panel, "grammar")
    field = row.field
    assert isinstance(field, LongTextField)
    field.set_value('root ::=\n  "yes')
    field.changed.emit(field.value())
    assert live.sampling.grammar == ""
    assert field.value() == 'root ::=\n  "yes'
    assert "Line 2" in row._help.text()
    field.changed.emit('root ::= "yes"')
    assert live.sampling.grammar == 'root ::= "yes"'
    assert row._help.property("tone") == "quiet"


def test_change_from_elsewhere_is_shown(panel: SettingsPanel, live: LiveSettings) -> None:
    row = row_of(panel, "temperature")
    live.set_values(SamplingParams, temperature=0.1)
    assert row.field.edit.text() == "0.1"
    assert row.dot.isVisible()


def test_settings_say_when_they_take_effect(panel: SettingsPanel) -> None:
    tags = {name: row_of(panel, name).findChild(WhenTag) for name in ("context_length", "temperature", "theme")}
    assert "loaded again" in tags["context_length"].toolTip()
    assert "next message" in tags["temperature"].toolTip()
    assert tags["theme"] is None


def test_everything_that_can_be_reached_by_key_has_a_name(panel: SettingsPanel) -> None:
    for section in panel.sections:
        section.set_open(True)
    focusable = [
        child for child in panel.findChildren(QWidget)
        if child.focusPolicy() & Qt.FocusPolicy.TabFocus and child.window() is panel  # not the lists of drop-downs
    ]  # fmt: skip
    assert len(focusable) > 40
    unnamed = [
        child for child in focusable
        if not child.accessibleName() and not (isinstance(child, QAbstractButton) and child.text())
    ]  # fmt: skip
    assert unnamed == []


def test_reload_is_offered_only_when_it_is_needed(panel: SettingsPanel, qtbot: QtBot) -> None:
    assert not panel._reload_bar.isVisible()
    panel.show_reload(True)
    assert panel._reload_bar.isVisible()


@pytest.mark.parametrize("word", list(LEVELS))
def test_creativity_moves_temperature_and_min_p_together(live: LiveSettings, qtbot: QtBot, word: str) -> None:
    row = CreativityRow(live)
    qtbot.addWidget(row)
    row._segments.chosen.emit(list(LEVELS).index(word))
    assert row.level == word
    assert {name: live.value(SamplingParams, name) for name in LEVELS[word]} == LEVELS[word]


def test_creativity_says_what_was_set_by_hand(live: LiveSettings, qtbot: QtBot) -> None:
    row = CreativityRow(live)
    qtbot.addWidget(row)
    live.set_values(SamplingParams, temperature=0.55)
    assert row.level is None
    assert "0.55" in row._help.text()
    row.dot.click()
    assert row.level == "Balanced"


def test_building_the_panel_opens_no_other_window(qapp: QApplication, live: LiveSettings, qtbot: QtBot) -> None:
    before = len(qapp.topLevelWindows())
    panel = SettingsPanel(live)
    qtbot.addWidget(panel)
    for section in panel.sections:
        section.set_open(True)
    assert len(qapp.topLevelWindows()) == before
