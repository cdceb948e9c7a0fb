"""Which chat template a conversation is written with: one of the model's own, one of ours, a file, or none at all.

The choice is a name, stored with a model's settings: empty for the model's own default, the name of one of its
templates, a name of ours, the path of a file, or "raw" for a text without any marks. Knows no tokens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import resources
from runtime.chat_template import SOURCE_LIMIT, NoTemplate, choose_template
from runtime.errors import UserError
from runtime.params import SamplingParams
from runtime.places import shown_path
from runtime.small_files import opened
from runtime.template_variables import read_variables, variables_of
from runtime.text import _

RAW = "raw"
_FOLDER = "chat_templates"
_ENDINGS = (".jinja", ".jinja2", ".j2", ".txt")

# The marks by which each of our formats is recognised: a vocabulary that has all of them was made for it. Formats that
# are written in plain words (llama2, alpaca, vicuna) and those that share their marks have none.
_MARKS: dict[str, tuple[str, ...]] = {
    "llama3": ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "gemma": ("<start_of_turn>", "<end_of_turn>"),
    "command-r": ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
    "deepseek": ("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    "granite": ("<|start_of_role|>", "<|end_of_role|>"),
    "phi": ("<|user|>", "<|assistant|>", "<|end|>"),
    "mistral": ("[INST]", "[/INST]"),
    "chatml": ("<|im_start|>", "<|im_end|>"),
}

IsToken = Callable[[str], bool]
"""Whether a text is one token of a vocabulary."""


class TemplateFileUnreadable(UserError):
    """A template was chosen by the path of a file, and the file gives none."""

    code = "template_unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("The chat template “{path}” cannot be read.").format(path=shown_path(path)),
            reason,
            _("Name a text file with a Jinja template, or one of: {names}.").format(names=", ".join(built_in_names())),
        )


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """The template of one answer. `source` is empty for "raw"; `notes` tell what is odd about the choice."""

    name: str
    source: str
    variables: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@cache
def built_in_names() -> tuple[str, ...]:
    """Returns the names of the formats that come with Quern, "raw" apart."""
    return tuple(sorted(file.stem for file in resources.path(_FOLDER).glob("*.jinja")))


@cache
def built_in(name: str) -> str:
    """Returns one of our templates."""
    return resources.read_text(_FOLDER, f"{name}.jinja")


def guess(is_token: IsToken) -> str:
    """Returns the format whose marks a vocabulary has; empty where that is none of ours."""
    return next((name for name, marks in _MARKS.items() if all(map(is_token, marks))), "")


class ChatFormats:
    """The formats that one model can be talked to with. Safe to use from several threads."""

    def __init__(self, own: Mapping[str, str], is_token: IsToken) -> None:
        """`own` are the model's templates by name."""
        self._own = dict(own)
        self._is_token = is_token

    def chosen(self, sampling: SamplingParams) -> ChatFormat:
        """Returns the format that the settings ask for.

        Raises `NoTemplate`, `TemplateChoiceNeeded` and `TemplateFileUnreadable`.
        """
        wanted = sampling.template.strip()
        name, source = self._found(self._spelled(wanted))
        variables = read_variables(sampling.template_vars)
        notes = (*self._foreign_marks(name, source), *_unread(source, variables))
        return ChatFormat(name, source, variables, notes)

    def _spelled(self, wanted: str) -> str:
        """Returns a name as it is listed, whatever its case."""
        names = (*self._own, RAW, *built_in_names())
        return wanted if wanted in names else next((name for name in names if name.lower() == wanted.lower()), wanted)

    def _found(self, wanted: str) -> tuple[str, str]:
        if wanted in self._own:
            return wanted, self._own[wanted]
        if wanted == RAW:
            return RAW, ""
        if wanted in built_in_names():
            return wanted, built_in(wanted)
        if _is_path(wanted):
            return wanted, read_template(Path(wanted).expanduser())
        if wanted or not self._own:
            raise NoTemplate(wanted, (*self._own, *built_in_names(), RAW), guess(self._is_token))
        return choose_template(self._own)

    def _foreign_marks(self, name: str, source: str) -> Iterable[str]:
        """Says which marks of a format of ours the model does not know: it would read them letter by letter."""
        ours = name in _MARKS and source == built_in(name)
        missing = [mark for mark in _MARKS.get(name, ()) if not self._is_token(mark)] if ours else []
        if missing:
            words = _("This model does not know the marks of the template “{name}”: {marks}.")
            yield words.format(name=name, marks=" ".join(missing))


def _unread(source: str, variables: Mapping[str, Any]) -> Iterable[str]:
    known = variables_of(source)
    for name in variables:
        if name not in known:
            words = _("The chat template does not read the variable “{name}”; it reads: {known}.")
            yield words.format(name=name, known=", ".join(known) or _("none"))


def _is_path(wanted: str) -> bool:
    return os.sep in wanted or "/" in wanted or wanted.lower().endswith(_ENDINGS)


def read_template(path: Path) -> str:
    """Returns the template in a file. Raises `TemplateFileUnreadable`."""
    try:
        with opened(path) as file:
            data = file.read(4 * SOURCE_LIMIT + 1)
        source = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TemplateFileUnreadable(path, _("It is no text in UTF-8.")) from error
    except (OSError, ValueError) as error:
        raise TemplateFileUnreadable(path, getattr(error, "strerror", None) or str(error)) from error
    if not source.strip():
        raise TemplateFileUnreadable(path, _("It is empty."))
    if len(source) > SOURCE_LIMIT:
        words = _("It is longer than {limit} characters.")
        raise TemplateFileUnreadable(path, words.format(limit=f"{SOURCE_LIMIT:,}"))
    return source
