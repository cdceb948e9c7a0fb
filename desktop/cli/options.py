"""Flags made from declared settings, and the settings that a command ends up with. Knows no engine."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from desktop.cli import output
from desktop.cli.commands import ModelArgument, Option, UsageProblem, json_option
from runtime.params import AppSettings, LoadParams, SamplingParams
from runtime.places import NoHome, places, spelled_path
from runtime.saved_settings import SavedSettings
from runtime.settings import SettingField, SettingsGroup, field_of, fields_of, layered
from runtime.text import _, sentences

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Group = TypeVar("Group", bound=SettingsGroup)
_METAVARS = {"int": "N", "float": "X", "str": "TEXT", "list": "TEXT"}
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """Reads a typed value through its declaration, so that the flag allows exactly what the setting allows."""

    def __init__(self, declared: SettingField) -> None:
        self.name = declared.name
        self.declared = declared

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the value. Raises `BadSetting`."""
        return typed(self.declared, value) if isinstance(value, str) else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns the choices that begin like what was typed; a path is left to the shell."""
        from click.shell_completion import CompletionItem

        if self.declared.setting.paths:
            return [CompletionItem(incomplete, type="file")]
        begun = incomplete.lower()
        return [CompletionItem(choice) for choice in self.declared.choices if choice.lower().startswith(begun)]


def typed(declared: SettingField, text: str) -> Any:
    r"""Returns what a person typed for a setting; in lists, \n and \t stand for themselves. Raises `BadSetting`."""
    if declared.setting.paths:
        return _absolute(text)
    if declared.setting.names_model:
        return _absolute(text) if text.startswith((".", "~")) or os.path.exists(text) else text
    if declared.kind == "list":
        return re.sub(r"\\[ntr\\]", lambda found: _ESCAPES[found.group()], text)
    return declared.parse(text)


def _absolute(text: str) -> str:
    return spelled_path(Path(text).expanduser().absolute())  # an engine process lives in another folder


def setting_options(group: type[SettingsGroup]) -> list[click.Parameter]:
    """Returns one flag for each setting of a group; a flag that is not given has the value None or ()."""
    return [_option(declared) for declared in fields_of(group)]


def _option(declared: SettingField) -> Option:
    section = _(declared.setting.section)
    title = _("{title}: {text}").format(title=declared.group.title(), text=section) if section else ""
    words: dict[str, Any] = {"help": setting_help(declared), "default": None, "section": title}
    key = _key(declared)
    if declared.kind == "bool":
        return Option(f"{declared.flag}/--no-{declared.flag[2:]}", key, **words)
    metavar = f"[{'|'.join(declared.choices)}]" if declared.kind == "choice" else _METAVARS[declared.kind]
    words["is_switch"] = declared.is_switch
    return Option(
        declared.flag, key, type=SettingType(declared), metavar=metavar, multiple=declared.kind == "list", **words
    )


def _key(declared: SettingField) -> str:
    return f"{declared.group.__name__.lower()}__{declared.name}"


def setting_help(declared: SettingField) -> str:
    """Returns a setting's help with its default and what is allowed, from its declaration."""
    parts = [_(declared.setting.help), _("Default: {default}.").format(default=shown_value(declared, declared.default))]
    if declared.kind in ("int", "float"):
        parts.append(_("Allowed: {allowed}.").format(allowed=declared.allowed()))
    if declared.setting.paths:
        parts.append(_("May be given several times."))
    elif declared.kind == "list":
        parts.append(_(r"May be given several times; \n stands for a line break."))
    return sentences(*parts)


def shown_value(declared: SettingField, value: Any) -> str:
    """Returns a value as a person would type it, with the meaning of a special one."""
    if declared.kind == "bool":
        return _("yes") if value else _("no")
    if declared.kind == "list":
        return " ".join(_quoted(item) for item in value) or _("none")
    text = f"{value:g}" if isinstance(value, float) else str(value) or _("none")
    label = {**declared.setting.special, **declared.setting.labels}.get(value)
    # A choice's label says no more than the choice itself does, unless the choice is a bare number.
    if label and (declared.kind != "choice" or text.isdigit()):
        return _("{value} ({meaning})").format(value=text, meaning=_(label))
    return text


def _quoted(text: str) -> str:
    for escape, character in reversed(_ESCAPES.items()):
        text = text.replace(character, escape)
    return "“" + text + "”"


def compared_options(group: type[SettingsGroup]) -> list[click.Parameter]:
    """Returns the flags of a group, each of which takes several values with commas between.

    A flag that is given has a tuple of alternatives as its value; on-off flags may be given both ways.
    """
    return [_compared_option(declared) for declared in fields_of(group)]


def _compared_option(declared: SettingField) -> Option:
    option = _option(declared)
    if declared.kind == "bool":
        option.multiple, option.default = True, ()
    else:
        option.type = ComparedType(declared)
    return option


class ComparedType(click.ParamType):  # type: ignore[type-arg]  # generic only from click 8.4 on
    """Reads values with commas between; in a list, an empty one stands for nothing."""

    def __init__(self, declared: SettingField) -> None:
        self.name = declared.name
        self.declared = declared

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the alternatives. Raises `BadSetting`."""
        if not isinstance(value, str):
            return value
        whole = self.declared.setting.paths and Path(value).exists()  # a path may hold a comma
        texts = [value] if whole else value.split(",")
        return tuple(typed(self.declared, text) if text or self.declared.kind != "list" else "" for text in texts)


def combinations(group: type[SettingsGroup], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns every combination of the alternatives that flags made by `compared_options` were given, as settings."""
    alternatives: dict[str, list[Any]] = {}
    for declared in fields_of(group):
        typed_values = values.get(_key(declared))
        if typed_values and declared.kind == "list":
            typed_values = [tuple(filter(None, entries)) for entries in itertools.product(*typed_values)]
        if typed_values:
            alternatives[declared.name] = list(dict.fromkeys(typed_values))
    return [dict(zip(alternatives, chosen, strict=True)) for chosen in itertools.product(*alternatives.values())]


def given(group: type[SettingsGroup], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a group that were typed as flags."""
    typed_values = {declared.name: values.get(_key(declared)) for declared in fields_of(group)}
    return {name: value for name, value in typed_values.items() if value is not None and value != ()}


class Settings:
    """What applies to a command: the defaults, over them what is saved, per model, and the flags."""

    def __init__(self, saved: SavedSettings, values: Mapping[str, Any] | None = None) -> None:
        self._saved = saved
        self._values = values or {}

    @classmethod
    def read(cls, values: Mapping[str, Any] | None = None) -> Settings:
        """Returns the settings of this command; sentences about unusable saved values go to stderr."""
        saved = read_saved()
        for note in saved.notes:
            output.remark(note)
        return cls(saved, values)

    @property
    def app(self) -> AppSettings:
        return layered(AppSettings, self._saved.app)

    def sampling(self, model_key: str) -> SamplingParams:
        """Returns how to sample with a model. Raises `BadSetting` where values exclude each other."""
        of_model, _load = self._saved.for_model(model_key)
        return layered(SamplingParams, self._saved.sampling, of_model, given(SamplingParams, self._values))

    def load(self, model_key: str, chosen: Mapping[str, Any] | None = None) -> LoadParams:
        """Returns how to load a model; `chosen` settings take the place of flags.

        Raises `BadSetting` where values exclude each other.
        """
        _sampling, of_model = self._saved.for_model(model_key)
        flags = given(LoadParams, self._values) if chosen is None else chosen
        return layered(LoadParams, self._saved.load, of_model, flags)


def read_saved() -> SavedSettings:
    """Returns the saved settings; the defaults where this account has no place for them."""
    try:
        return SavedSettings.read(places().settings_file)
    except NoHome:
        return SavedSettings()


def engine_option(side: str = "", *, help: str | None = None) -> Option:
    """Returns `--engine` alone, of the settings of loading; a flag that is not given has the value None.

    With a `side` it is `--SIDE-engine`.
    """
    option = _option(field_of(LoadParams, "engine"))
    option.name = f"{side}_engine" if side else "engine"
    option.opts = [f"--{side}-engine"] if side else option.opts
    option.help = help or option.help
    return option


def model_argument() -> click.Argument:
    """Returns the optional MODEL."""
    return ModelArgument(["model"], required=False, metavar="[MODEL]")


def verbose_option() -> Option:
    """Returns `--verbose`."""
    return Option(
        "-v", "--verbose", is_flag=True, default=False,
        help=_("Says on stderr how the model was loaded, why the answer ended, its seed and its speed."),
    )  # fmt: skip


def alternatives_option() -> Option:
    """Returns `--alternatives`."""
    return Option(
        "--alternatives", type=click.IntRange(1, 1000), default=None, metavar="N",
        help=_("With --json: each step’s N likeliest tokens, before and after the samplers, and what removed them."),
    )  # fmt: skip


def answer_options() -> list[click.Parameter]:
    """Returns what every command that lets a model write can be told: output, and all settings."""
    return [
        verbose_option(),
        json_option(),
        alternatives_option(),
        *setting_options(SamplingParams),
        *setting_options(LoadParams),
    ]


def alternatives_wanted(count: int | None, *, as_json: bool) -> int:
    """Returns how many alternatives to ask for. Raises `UsageProblem` where nobody would see them."""
    if count is not None and not as_json:
        raise UsageProblem(_("--alternatives works only with --json."), "", _("Add --json."))
    return count or 0
