"""A setting is declared once: its default, bounds, words, unit and when it applies. Knows no particular setting.

A settings group is a frozen `msgspec` struct whose fields are annotated with a `Setting`:

    class SamplingParams(SettingsGroup, frozen=True):
        temperature: Annotated[float, Setting(title=N_("Temperature"), help=N_("..."), minimum=0, maximum=5)] = 0.8

From that come validation, the command-line flag, the help page, the JSON file and the panel's widget.
"""

from __future__ import annotations

import enum
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Self, TypeVar

import msgspec

from runtime.errors import UserError
from runtime.text import _, sentences

_SHOWN_LENGTH = 200  # characters of a wrong value that a message repeats


class Applies(enum.Enum):
    """When a changed value takes effect."""

    NOW = "now"
    NEXT_MESSAGE = "next_message"
    RELOAD = "reload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything people are told about one setting, and the values it may take.

    `title`, `help`, `section`, `unit` and the labels are texts marked with `N_`; they are translated where shown.
    `special` names single values that mean something else than their number (-1: "no limit"); such a value is
    allowed even outside `minimum` and `maximum`. `labels` names the choices of a `Literal`.
    """

    title: str
    help: str
    section: str = ""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    step: float | None = None
    special: Mapping[Any, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    advanced: bool = False
    applies: Applies = Applies.NEXT_MESSAGE
    widget: str = ""  # a kind in the panel's registry; empty: follows from the type
    paths: bool = False  # a list whose texts begin with a path: taken as typed, and made absolute on the command line
    names_model: bool = False  # a path or a name in the library; a path is made absolute on the command line
    flag: str = ""  # the long flag without dashes where it differs from the name


class SettingsGroup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of every settings group. Instances made from outside data go through `validated` or `read_group`."""

    @classmethod
    def title(cls) -> str:
        """Returns the group's heading, translated."""
        return _(cls.__name__)

    def validated(self) -> Self:
        """Returns itself; raises `BadSetting` for the first value that its declaration does not allow."""
        for declared in fields_of(type(self)):
            declared.check(getattr(self, declared.name))
        self.check_together()
        return self

    def check_together(self) -> None:
        """Raises `BadSetting` where values exclude each other; groups with such pairs override this."""

    def replace(self, **changes: Any) -> Self:
        """Returns a checked copy with some values changed."""
        return msgspec.structs.replace(self, **changes).validated()


Group = TypeVar("Group", bound=SettingsGroup)


class BadSetting(UserError):
    """A value outside what its setting allows."""

    code = "bad_setting"

    def __init__(self, declared: SettingField, value: object, allowed: str) -> None:
        super().__init__(
            _("{name} cannot be {value}.").format(name=_(declared.setting.title), value=_shown(value)),
            _("Allowed: {allowed}.").format(allowed=allowed),
            _("The default is {default}.").format(default=_shown(declared.default)),
            details=declared.name,
        )
        self.field = declared.name


@dataclass(frozen=True, slots=True)
class SettingField:
    """One declared setting with its name, type and default."""

    group: type[SettingsGroup]
    name: str
    kind: Literal["bool", "int", "float", "str", "choice", "list"]
    default: Any
    setting: Setting
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The long command-line flag, as in `--top-k`."""
        return "--" + (self.setting.flag or self.name.replace("_", "-"))

    def check(self, value: object) -> None:
        """Raises `BadSetting` unless `value` is of the declared type and within the declared bounds."""
        if not self._right_type(value):
            raise BadSetting(self, value, self.allowed())
        if isinstance(value, int | float) and not isinstance(value, bool) and not self._within(value):
            raise BadSetting(self, value, self.allowed())

    @property
    def is_switch(self) -> bool:
        """Whether it is a choice between on, off and more."""
        return self.kind == "choice" and {"on", "off"} <= set(self.choices)

    def current(self, value: object) -> object:
        """Returns what a saved value means today: what was yes or no before it could be automatic is on or off."""
        return ("on" if value else "off") if self.is_switch and isinstance(value, bool) else value

    def parse(self, text: str) -> Any:
        """Returns the value that a person typed; a comma may stand for the decimal point. Raises `BadSetting`."""
        value = self._parsed(text.strip())
        self.check(value)
        return value

    def allowed(self) -> str:
        """Returns the allowed values in words, translated."""
        words = {"bool": _("yes or no"), "str": _("a text"), "list": _("a list of texts")}
        if self.kind == "choice":
            return ", ".join(self.choices)
        return words.get(self.kind) or self._number_range()

    def _number_range(self) -> str:
        low, high = self.setting.minimum, self.setting.maximum
        what = _("a whole number") if self.kind == "int" else _("a number")
        if low is not None and high is not None:
            above = _("{what}, above {low}, up to {high}")
            words = above if self.setting.exclusive_minimum else _("{what} from {low} to {high}")
            what = words.format(what=what, low=_shown(low), high=_shown(high))
        elif low is not None:
            words = _("{what}, above {low}") if self.setting.exclusive_minimum else _("{what}, from {low}")
            what = words.format(what=what, low=_shown(low))
        for value, label in self.setting.special.items():
            what = _("{allowed}, {value} ({meaning})").format(allowed=what, value=_shown(value), meaning=_(label))
        return what

    def _right_type(self, value: object) -> bool:
        match self.kind:
            case "bool":
                return isinstance(value, bool)
            case "int":
                return isinstance(value, int) and not isinstance(value, bool)
            case "float":
                return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            case "choice":
                return value in self.choices
            case "list":
                return isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)
        return isinstance(value, str)

    def _within(self, value: float) -> bool:
        if value in self.setting.special:
            return True
        low, high = self.setting.minimum, self.setting.maximum
        if low is not None and (value <= low if self.setting.exclusive_minimum else value < low):
            return False
        return high is None or value <= high

    def _parsed(self, text: str) -> Any:
        try:
            match self.kind:
                case "bool":
                    return {"yes": True, "true": True, "on": True, "1": True}.get(text.lower(), False) or _false(text)
                case "int":
                    return int(text)
                case "float":
                    return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
                case "choice":
                    text = _ON_OFF.get(text.lower(), text) if self.is_switch else text
                    return next((choice for choice in self.choices if choice.lower() == text.lower()), text)
                case "list":
                    return (text,)
        except ValueError:
            return text
        return text


_ON_OFF = {"yes": "on", "true": "on", "1": "on", "no": "off", "false": "off", "0": "off"}


def _false(text: str) -> bool | str:
    return False if text.lower() in {"no", "false", "off", "0"} else text


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, float):
        return f"{value:g}"
    text = f"“{value}”" if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…"


@cache
def fields_of(group: type[SettingsGroup]) -> tuple[SettingField, ...]:
    """Returns the declared settings of a group, in the order in which they are written."""
    hints = typing.get_type_hints(group, include_extras=True)
    return tuple(
        _declared(group, info, hints[info.name])
        for info in msgspec.structs.fields(group)
        if any(isinstance(extra, Setting) for extra in getattr(hints[info.name], "__metadata__", ()))
    )


def field_of(group: type[SettingsGroup], name: str) -> SettingField:
    """Returns one declared setting. Raises KeyError where the group has none of that name."""
    for declared in fields_of(group):
        if declared.name == name:
            return declared
    raise KeyError(name)


def _declared(group: type[SettingsGroup], info: msgspec.structs.FieldInfo, hint: Any) -> SettingField:
    setting = next(extra for extra in hint.__metadata__ if isinstance(extra, Setting))
    kind, choices = _kind(hint.__origin__)
    default = info.default if info.default is not msgspec.NODEFAULT else info.default_factory()
    return SettingField(group, info.name, kind, default, setting, choices)


def _kind(hint: Any) -> tuple[Any, tuple[str, ...]]:
    if typing.get_origin(hint) is Literal:
        return "choice", typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return "list", ()
    assert not isinstance(hint, types.UnionType), "a setting has one type; use a special value for 'none'"
    return {bool: "bool", int: "int", float: "float", str: "str"}[hint], ()


def changed(group: SettingsGroup) -> dict[str, Any]:
    """Returns only what differs from the defaults: this is what files keep."""
    return {
        declared.name: getattr(group, declared.name)
        for declared in fields_of(type(group))
        if getattr(group, declared.name) != declared.default
    }


def layered(group: type[Group], *layers: Mapping[str, Any]) -> Group:
    """Returns the group with later layers over earlier ones: saved, per model, per chat, flags. Raises `BadSetting`."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer)
    return group(**{name: _as_declared(field_of(group, name), value) for name, value in merged.items()}).validated()


def read_layer(group: type[SettingsGroup], data: object, *, where: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the usable values of a saved file and a sentence for each that had to be left out.

    A file from another version may hold unknown, missing or mistyped keys; none of them loses the others.
    """
    if not isinstance(data, Mapping):
        return {}, [_("{where} holds no settings; the defaults are used.").format(where=where)]
    good: dict[str, Any] = {}
    notes: list[str] = []
    names = {declared.name: declared for declared in fields_of(group)}
    for name, value in data.items():
        if name not in names:
            notes.append(_("{where}: unknown setting “{name}” was left out.").format(where=where, name=name))
            continue
        try:
            value = names[name].current(value)
            names[name].check(value)
            good[name] = _as_declared(names[name], value)
        except BadSetting as error:
            text = sentences(error.info.title, error.info.message)
            notes.append(_("{title}: {text}").format(title=where, text=text))
    return good, notes


def _as_declared(declared: SettingField, value: Any) -> Any:
    if declared.kind == "list" and isinstance(value, list):
        return tuple(value)
    if declared.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def sections_of(declared: Iterable[SettingField]) -> dict[str, list[SettingField]]:
    """Returns settings by their section, in the order of first mention."""
    sections: dict[str, list[SettingField]] = {}
    for item in declared:
        sections.setdefault(item.setting.section, []).append(item)
    return sections
