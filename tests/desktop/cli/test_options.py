"""Flags made from declared settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Opened, Run
from desktop.cli.options import shown_value
from fake_engine import FakeEngine
from runtime.params import LoadParams, SamplingParams
from runtime.settings import SettingField, field_of, fields_of

ALL = [*fields_of(SamplingParams), *fields_of(LoadParams)]
# Not every text will do
_WORDED = {"cpu_variant": "haswell", 
    "grammar": 'root ::= "yes"', "json_schema": "{}", "logit_bias": "15043=-2", "tensor_split": "3/1",
    "draft_model": "starter", "template_vars": "enable_thinking=false", "template": "chatml",
}  # fmt: skip


@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.name)
def test_every_setting_has_its_flag_and_default_in_the_help(run: Run, declared: SettingField):
    words = " ".join(run("chat", "--help").out.split())
    assert declared.flag in words
    assert f"Default: {shown_value(declared, declared.default)}." in words.replace("\\\\n", "\\n")


def _typed(declared: SettingField) -> tuple[list[str], object]:
    """Returns a flag that differs from the default, and the value that it stands for."""
    if declared.name in _WORDED:
        text = _WORDED[declared.name]
        return [declared.flag, text], (text,) if declared.kind == "list" else text
    if declared.setting.paths:
        return [declared.flag, r"C:\new.gguf"], (str(Path(r"C:\new.gguf").absolute()),)
    match declared.kind:
        case "bool":
            return [f"--no-{declared.flag[2:]}" if declared.default else declared.flag], not declared.default
        case "choice":
            other = next(choice for choice in declared.choices if choice != declared.default)
            return [declared.flag, other.upper()], other
        case "list":
            return [declared.flag, "a", declared.flag, r"b\n"], ("a", "b\n")
    high = declared.setting.maximum
    value = high if high is not None else 1
    return [declared.flag, f"{value:g}" if declared.kind == "float" else str(int(value))], value


@pytest.mark.parametrize("declared", ALL, ids=lambda declared: declared.name)
def test_every_flag_reaches_the_engine(
    run: Run, opened: Opened, tiny: Path, declared: SettingField
):
    flags, value = _typed(declared)
    result = run("chat", str(tiny), "-p", "hi", *flags)
    assert result.code == 0, result.err
    group = opened.params if declared.group is LoadParams else opened.engine.requests[0].sampling
    assert getattr(group, declared.name) == value


def test_a_decimal_comma_is_understood(run: Run, engine: FakeEngine, tiny: Path):
    assert run("chat", str(tiny), "-p", "hi", "--temperature", "0,7").code == 0
    assert engine.requests[0].sampling.temperature == 0.7


@pytest.mark.parametrize("value", ["-1", "nan", "hot", "1e9", ""])
def test_a_value_outside_its_bounds_is_refused_with_what_is_allowed(
    run: Run, engine: FakeEngine, tiny: Path, value: str
):
    result = run("chat", str(tiny), "-p", "hi", "--temperature", value)
    assert result.code == 2
    assert "Temperature cannot be" in result.err
    assert "from 0 to 10" in result.err
    assert not engine.requests


def test_special_values_below_the_minimum_are_taken(run: Run, engine: FakeEngine, tiny: Path):
    assert run("chat", str(tiny), "-p", "hi", "--seed", "-1", "--penalty-window", "-1").code == 0
    assert engine.requests[0].sampling.penalty_window == -1


def test_flags_that_exclude_each_other_are_refused(run: Run, engine: FakeEngine, tiny: Path):
    result = run("chat", str(tiny), "-p", "hi", "--flash-attention", "off", "--kv-type-v", "q8_0")
    assert result.code == 2
    assert "flash attention" in result.err


def _save(home: Path, document: dict[str, object]) -> None:
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_text(json.dumps(document))


def test_a_flag_wins_over_what_is_saved(run: Run, engine: FakeEngine, tiny: Path, quern_home: Path):
    _save(quern_home, {"sampling": {"temperature": 0.3, "top_k": 5}})
    run("chat", str(tiny), "-p", "hi", "--temperature", "0.9")
    sampling = engine.requests[0].sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.9, 5, 0.95)


def test_what_is_saved_for_a_model_wins_over_what_is_saved_for_all(
    run: Run, opened: Opened, tiny: Path, quern_home: Path
):
    own = {"sampling": {"temperature": 0.1}, "load": {"context_length": 512}}
    _save(quern_home, {"sampling": {"temperature": 0.3, "top_k": 5}, "models": {str(tiny): own}})
    run("chat", str(tiny), "-p", "hi")
    sampling = opened.engine.requests[0].sampling
    assert (sampling.temperature, sampling.top_k, opened.params.context_length) == (0.1, 5, 512)


def test_without_a_model_the_saved_one_is_taken(run: Run, opened: Opened, tiny: Path, quern_home: Path):
    _save(quern_home, {"app": {"model": str(tiny)}})
    run("chat", "-p", "hi")
    assert opened.path == tiny


@pytest.mark.parametrize("arguments", [[], [""]])
def test_a_model_that_is_gone_is_named_and_no_other_takes_its_place(
    run: Run, opened: Opened, quern_home: Path, arguments: list[str]
):
    _save(quern_home, {"app": {"model": "/gone/model.gguf"}})
    result = run("chat", *arguments, "-p", "hi")
    assert (result.code, opened.path) == (2, Path())
    assert ("There is no model called “”" if arguments else "model.gguf” is missing") in result.err


def test_a_damaged_settings_file_is_mentioned_and_does_not_stop_the_answer(
    run: Run, engine: FakeEngine, tiny: Path, quern_home: Path
):
    _save(quern_home, {"sampling": {"temperature": "hot"}})
    result = run("chat", str(tiny), "-p", "hi")
    assert result.code == 0
    assert result.out == "echo hi\n"
    assert "Temperature" in result.err


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b"[" * 100_000])
def test_a_settings_file_that_is_set_aside_is_told_of_once(
    run: Run, engine: FakeEngine, tiny: Path, quern_home: Path, content: bytes
):
    quern_home.mkdir(parents=True, exist_ok=True)
    (quern_home / "settings.json").write_bytes(content)
    result = run("chat", str(tiny), "-p", "hi")
    assert (result.code, result.out) == (0, "echo hi\n")
    assert result.err.count("are damaged. They were kept as") == 1
    assert (quern_home / "settings.json.damaged-1").read_bytes() == content
    assert "damaged" not in run("chat", str(tiny), "-p", "hi").err


def test_remarks_about_settings_hold_no_control_characters(run: Run, engine: FakeEngine, tiny: Path, quern_home: Path):
    _save(quern_home, {"sampling": {"\x1b[31m": 1}})
    assert "␛[31m" in run("chat", str(tiny), "-p", "hi").err


def test_lists_show_line_breaks_as_they_are_typed():
    assert shown_value(field_of(SamplingParams, "stop"), ("\nUser:", "a\\b")) == "“\\nUser:” “a\\\\b”"


def test_a_path_to_a_draft_model_is_made_absolute_and_a_name_is_not(
    run: Run, opened: Opened, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.gguf").touch()
    here, not_here = str(tmp_path / "here.gguf"), str(tmp_path / "not-here.gguf")
    for typed, value in (("here.gguf", here), ("./not-here.gguf", not_here), ("starter", "starter"), ("a/b", "a/b")):
        run("chat", str(tiny), "-p", "hi", "--draft-model", typed)
        assert opened.params is not None
        assert opened.params.draft_model == value
