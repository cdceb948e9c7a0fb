"""Each kind of widget: what is shown, what can be typed, what is refused."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from desktop.settings.widgets import KINDS, ListField, LongTextField, NumberField, Reach, shown_value, widget_for
from runtime.params import GROUPS, LoadParams, SamplingParams
from runtime.settings import SettingField, field_of, fields_of

ALL = [declared for group in GROUPS for declared in fields_of(group)]


def number(qtbot: QtBot, group: type, name: str) -> NumberField:
    made = widget_for(field_of(group, name))
    assert isinstance(made, NumberField)
    qtbot.addWidget(made)
    return made


def typed(field: NumberField, qtbot: QtBot, text: str) -> None:
    field.edit.selectAll()
    qtbot.keyClicks(field.edit, text)
    qtbot.keyClick(field.edit, Qt.Key.Key_Return)


@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.name)
def test_every_declared_setting_has_a_widget_that_shows_its_default(declared: SettingField, qtbot: QtBot) -> None:
    widget = widget_for(declared)
    qtbot.addWidget(widget)
    widget.set_value(declared.default)
    assert declared.kind in KINDS
    assert shown_value(declared, declared.default)


def test_comma_is_a_decimal_point(qtbot: QtBot) -> None:
    field = number(qtbot, SamplingParams, "temperature")
    with qtbot.waitSignal(field.changed) as change:
        typed(field, qtbot, "0,7")
    assert change.args == [0.7]


def test_thousands_may_be_set_apart(qtbot: QtBot) -> None:
    field = number(qtbot, LoadParams, "context_length")
    with qtbot.waitSignal(field.changed) as change:
        typed(field, qtbot, "8,192")
    assert change.args == [8192]


def test_special_value_is_shown_by_its_word_and_can_be_typed(qtbot: QtBot) -> None:
    field = number(qtbot, SamplingParams, "top_k")
    field.set_value(0)
    assert field.edit.text() == "off"
    field.set_value(40)
    with qtbot.waitSignal(field.changed) as change:
        typed(field, qtbot, "off")
    assert change.args == [0]


@pytest.mark.parametrize("text", ["hot", "11", "-1", "nan", "inf", ""])
def test_wrong_text_is_refused(qtbot: QtBot, text: str) -> None:
    field = number(qtbot, SamplingParams, "temperature")
    field.set_value(0.8)
    with qtbot.assertNotEmitted(field.changed), qtbot.waitSignal(field.refused):
        field.edit.selectAll()
        qtbot.keyClick(field.edit, Qt.Key.Key_Delete)
        typed(field, qtbot, text)


def test_arrow_keys_step(qtbot: QtBot) -> None:
    field = number(qtbot, SamplingParams, "temperature")
    field.set_value(0.8)
    with qtbot.waitSignal(field.changed) as change:
        qtbot.keyClick(field.edit, Qt.Key.Key_Up)
    assert change.args == [0.85]


@pytest.mark.parametrize("declared", [d for d in ALL if d.kind in ("int", "float")], ids=lambda declared: declared.name)
def test_every_stop_of_a_slider_is_allowed_and_the_default_is_one(declared: SettingField) -> None:
    reach = Reach(declared)
    if not reach.usable:
        return
    stops = [reach.value(at) for at in range(reach.last + 1)]
    for stop in stops:
        declared.check(stop)
    assert stops == sorted(stops)
    assert declared.default in stops


def test_slider_says_the_special_value_at_its_left_end(qtbot: QtBot) -> None:
    field = number(qtbot, SamplingParams, "max_tokens")
    field.set_value(512)
    assert field.slider is not None
    with qtbot.waitSignal(field.changed) as change:
        field.slider.setValue(0)
    assert change.args == [-1]


def test_list_keeps_line_breaks_and_backslashes(qtbot: QtBot) -> None:
    widget = widget_for(field_of(SamplingParams, "dry_breakers"))
    assert isinstance(widget, ListField)
    qtbot.addWidget(widget)
    value = ("\n", ":", "a\\nb", "\t*")
    widget.set_value(value)
    assert widget.value() == value


def test_long_text_keeps_its_lines_and_blanks_alone_are_none(qtbot: QtBot) -> None:
    field = widget_for(field_of(SamplingParams, "grammar"))
    assert isinstance(field, LongTextField)
    qtbot.addWidget(field)
    field.set_value('root ::= "a"\n  "b"\n')
    assert field.value() == 'root ::= "a"\n  "b"\n'
    field.set_value(" \n ")
    assert field.value() == ""
