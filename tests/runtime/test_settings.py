"""Every declared setting, in one loop, and the machinery around it."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from runtime import settings
from runtime.params import GROUPS, AppSettings, LoadParams, SamplingParams
from runtime.settings import BadSetting, SettingField, changed, field_of, fields_of, layered, read_layer

ALL = [field for group in GROUPS for field in fields_of(group)]
NUMBERS = [field for field in ALL if field.kind in {"int", "float"}]


def _name(field: SettingField) -> str:
    return f"{field.group.__name__}.{field.name}"


@pytest.mark.parametrize("group", GROUPS)
def test_every_field_of_a_group_is_declared(group: type[settings.SettingsGroup]) -> None:
    assert [field.name for field in fields_of(group)] == [info.name for info in msgspec.structs.fields(group)]
    assert group.title()


@pytest.mark.parametrize("field", ALL, ids=_name)
def test_a_setting_tells_people_what_it_does(field: SettingField) -> None:
    setting = field.setting
    assert setting.title
    assert setting.section
    assert setting.help.endswith((".", "”."))
    assert setting.help[0].isupper()
    assert set(setting.labels) <= set(field.choices)


@pytest.mark.parametrize("field", ALL, ids=_name)
def test_the_default_is_allowed_and_survives_json(field: SettingField) -> None:
    field.check(field.default)
    group = field.group().validated()
    assert msgspec.json.decode(msgspec.json.encode(group), type=field.group) == group
    assert changed(group) == {}


@pytest.mark.parametrize("field", NUMBERS, ids=_name)
def test_a_number_is_bounded_on_both_sides(field: SettingField) -> None:
    assert field.setting.minimum is not None
    assert field.setting.maximum is not None
    above = field.setting.maximum + 1
    with pytest.raises(BadSetting, match=_pattern(field)):
        field.check(int(above) if field.kind == "int" else above)
    below = field.setting.minimum - 3
    with pytest.raises(BadSetting):
        field.check(int(below) if field.kind == "int" else below)


def _pattern(field: SettingField) -> str:
    return field.setting.title[:5]


@pytest.mark.parametrize("field", NUMBERS, ids=_name)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "hot", None, True])
def test_what_is_no_number_is_refused(field: SettingField, value: Any) -> None:
    with pytest.raises(BadSetting):
        field.check(value)


@pytest.mark.parametrize("field", ALL, ids=_name)
def test_flags_are_unique_and_follow_the_names(field: SettingField) -> None:
    assert field.flag.startswith("--")
    assert sum(other.flag == field.flag for other in fields_of(field.group)) == 1


def test_a_decimal_comma_is_understood_and_a_thousands_comma_is_not_guessed() -> None:
    temperature = field_of(SamplingParams, "temperature")
    assert temperature.parse("0,7") == 0.7
    assert temperature.parse(" 0.7 ") == 0.7
    with pytest.raises(BadSetting):
        temperature.parse("1,000.5")


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("ON", True), ("0", False), ("false", False)])
def test_yes_and_no_are_understood_in_their_usual_spellings(text: str, value: bool) -> None:
    assert field_of(LoadParams, "mlock").parse(text) is value


@pytest.mark.parametrize(("text", "value"), [("yes", "on"), ("False", "off"), ("Auto", "auto"), ("on", "on")])
def test_yes_and_no_also_set_a_switch_that_can_be_automatic(text: str, value: str) -> None:
    assert field_of(LoadParams, "mmap").parse(text) == value


@pytest.mark.parametrize(("saved", "value"), [(True, "on"), (False, "off"), ("auto", "auto")])
def test_what_was_saved_as_yes_or_no_before_it_could_be_automatic_is_understood(saved: object, value: str) -> None:
    assert read_layer(LoadParams, {"mmap": saved}, where="load") == ({"mmap": value}, [])


def test_choices_are_case_insensitive() -> None:
    assert field_of(LoadParams, "kv_type_k").parse("Q8_0") == "q8_0"
    with pytest.raises(BadSetting, match="Allowed: f32, f16"):
        field_of(LoadParams, "kv_type_k").parse("q3_k")


def test_an_exclusive_minimum_is_not_allowed_itself() -> None:
    with pytest.raises(BadSetting):
        field_of(SamplingParams, "repeat_penalty").check(0.0)


def test_special_values_are_allowed_outside_the_bounds() -> None:
    SamplingParams(max_tokens=-1, seed=-1, penalty_window=-1, top_n_sigma=-1.0).validated()


def test_later_layers_win_and_whole_numbers_become_decimals() -> None:
    params = layered(SamplingParams, {"temperature": 1, "top_k": 10}, {"top_k": 20})
    assert (params.temperature, params.top_k) == (1.0, 20)
    assert isinstance(params.temperature, float)


def test_a_layer_with_an_impossible_value_names_the_setting() -> None:
    with pytest.raises(BadSetting) as caught:
        layered(SamplingParams, {"top_p": 1.5})
    assert caught.value.field == "top_p"
    assert "1.5" in caught.value.info.title


def test_values_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(BadSetting, match="V cache type"):
        LoadParams(flash_attention="off", kv_type_v="q8_0").validated()
    LoadParams(flash_attention="off", kv_type_k="q8_0").validated()


def test_a_file_of_another_version_loses_only_what_is_wrong_in_it() -> None:
    values, notes = read_layer(
        SamplingParams, {"temperature": 0.5, "top_p": "warm", "future": 1, "stop": ["a"]}, where="settings.json"
    )
    assert values == {"temperature": 0.5, "stop": ("a",)}
    assert len(notes) == 2
    assert all("settings.json" in note for note in notes)


def test_a_file_that_holds_no_table_gives_the_defaults_and_a_note() -> None:
    values, notes = read_layer(AppSettings, ["not", "a", "table"], where="settings.json")
    assert values == {}
    assert len(notes) == 1


def test_changed_keeps_only_what_differs() -> None:
    assert changed(SamplingParams(temperature=0.5)) == {"temperature": 0.5}


def test_a_wrong_value_without_end_is_not_repeated_whole() -> None:
    with pytest.raises(BadSetting) as caught:
        field_of(SamplingParams, "top_k").parse("9" * 1000 + "x")
    assert len(caught.value.info.title) < 300
