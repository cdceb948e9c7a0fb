"""Chat templates: the Jinja programs inside model files that write a conversation the way the model was trained.

Renders what transformers' `apply_chat_template` renders, byte for byte, in a closed sandbox. A template is a stranger's
program and may never end: whatever comes out of a model file is rendered through `render.py`, in a child with limits.
Knows no process, no token and no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

from runtime.control_text import unused_character
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.text import N_, _

SOURCE_LIMIT = 1_000_000  # characters; the longest templates of public models have some 30,000
OUTPUT_LIMIT = 8_000_000  # characters, on top of four times the conversation's own

_PROBE = "Chat template probe"
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")  # families name it differently


# --- what can go wrong ------------------------------------------------------------------------------------------


class ChatTemplateError(UserError):
    """Base of these errors. `arguments` are the constructor's, so that a parent process can raise the same error."""

    code = "chat_template"

    def __init__(self, title: str, message: str, hint: str, *, details: str = "", arguments: tuple[Any, ...]) -> None:
        super().__init__(title, message, hint, details=details)
        self.arguments = arguments


def _another_way() -> str:
    return _("Choose another template for this model, or raw completion, which needs none.")


class NoTemplate(ChatTemplateError):
    """The model has no template, or none of the wanted name."""

    code = "no_template"

    def __init__(self, wanted: str = "", names: Iterable[str] = (), guess: str = "") -> None:
        """`names` are those that can be chosen, `guess` the one that the vocabulary was made for."""
        names = tuple(names)
        named = _("This model has no chat template named “{name}”.").format(name=printable(wanted))
        there_are = _("There are: {names}.").format(names=", ".join(map(printable, names)))
        super().__init__(
            named if wanted else _("This model has no chat template."),
            there_are if wanted and names else _("Without one it is unknown how to write a conversation for it."),
            template_advice(guess),
            arguments=(wanted, names, guess),
        )


class TemplateChoiceNeeded(ChatTemplateError):
    """The model has several templates, and none of them is the default one."""

    code = "template_choice"

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            _("This model has several chat templates, and none is marked as the default."),
            _("Its templates: {names}.").format(names=", ".join(map(printable, self.names))),
            _("Choose one of them for this model."),
            arguments=(self.names,),
        )


class TemplateBroken(ChatTemplateError):
    """The template does not parse, or fails while it renders. `line` counts from 1; 0 where it is unknown."""

    code = "template_broken"

    def __init__(self, reason: str, line: int = 0) -> None:
        reason = reason[:1000]
        self.line = line
        where = _("Line {line}: {reason}") if line else "{reason}"
        super().__init__(
            _("This model's chat template is broken."),
            where.format(line=line, reason=printable(_(reason), 500)),
            _another_way(),
            arguments=(reason, line),
        )


class TemplateRefused(ChatTemplateError):
    """The template itself refuses the conversation; `refusal` is what it says."""

    code = "template_refused"

    def __init__(self, refusal: str) -> None:
        refusal = refusal[:1000]
        self.refusal = printable(refusal, 500)
        super().__init__(
            _("This model's chat template refuses the conversation."),
            _("It says: “{refusal}”").format(refusal=self.refusal),
            _("Change the messages it complains about, choose another template, or use raw completion."),
            arguments=(refusal,),
        )


class TemplateTooLarge(ChatTemplateError):
    """The template, or what it writes, is beyond all use."""

    code = "template_too_large"

    def __init__(self, what: str, limit: int) -> None:
        reasons = {
            "source": _("It is longer than {limit} characters."),
            "output": _("It wrote more than {limit} characters."),
            "memory": _("It needs more than {limit} bytes of memory."),
        }
        super().__init__(
            _("This model's chat template is too large."),
            reasons[what].format(limit=f"{limit:,}"),
            _another_way(),
            details=what,
            arguments=(what, limit),
        )


class TemplateTimeout(ChatTemplateError):
    """Rendering did not end in time."""

    code = "template_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            _("This model's chat template does not come to an end."),
            _("It was stopped after {seconds} seconds.").format(seconds=f"{seconds:g}"),
            _another_way(),
            arguments=(seconds,),
        )


class CannotContinue(ChatTemplateError):
    """The template leaves the end of the last answer out, so that there is nothing to go on from."""

    code = "template_cannot_continue"

    def __init__(self) -> None:
        super().__init__(
            _("This answer cannot be continued."),
            _("The model's chat template leaves the end of the answer out."),
            _("Let the answer be written anew instead."),
            arguments=(),
        )


def template_advice(guess: str) -> str:
    """Returns what to do about a model without a template, whose vocabulary was made for the format `guess`."""
    if not guess:
        return _("Choose a template for this model, or raw completion, which needs none.")
    words = _("Its vocabulary has the marks of “{name}”: choose that template for this model, or raw completion.")
    return words.format(name=guess)


def printable(text: str, limit: int = 60) -> str:
    """Returns text from a model file fit for a message: one line, nothing invisible, at most `limit` characters."""
    shown = "".join(char if char.isprintable() else " " for char in text[: limit + 1]).strip()
    return shown if len(shown) <= limit else shown[:limit] + "…"


# --- the sandbox ------------------------------------------------------------------------------------------------


class _Refusal(jinja2.TemplateError):
    """What `raise_exception` raises, told apart from the template's own faults."""


class _MissingToken(jinja2.Undefined):
    """A token that the model does not have: undefined, but an empty text where the template adds something to it."""

    def __add__(self, other: str) -> str:  # type: ignore[override]
        return other

    def __radd__(self, other: str) -> str:  # type: ignore[override]
        return other


class _Dict:
    """The `dict` of templates: builds dictionaries, without the type's other attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _Namespace(jinja2.utils.Namespace):
    """A namespace that stores no name with an underscore in front."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # without `self`: a template may pass a value of that name
        namespace, values = args[0], dict(*args[1:], **kwargs)
        for name in values:
            _public(name)
        jinja2.utils.Namespace.__init__(namespace, values)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(_public(name), value)


class _Generation(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks what to train on; for rendering it is only a scope."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def _public(name: str) -> str:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")
    return name


def _raise_exception(message: object) -> NoReturn:
    raise _Refusal(str(message))


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def syntax_environment() -> jinja2.Environment:
    """Returns an environment to parse templates with."""
    return _environment()


def _environment() -> jinja2.Environment:
    # The options are transformers'. No loader: a template can neither include nor import a file.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise_exception, dict=_Dict(), namespace=_Namespace)
    return environment


# --- one template -----------------------------------------------------------------------------------------------


def check_source(source: str) -> None:
    """Raises `NoTemplate` for a blank source, `TemplateTooLarge` for one beyond `SOURCE_LIMIT`."""
    if not source.strip():
        raise NoTemplate
    if len(source) > SOURCE_LIMIT:
        raise TemplateTooLarge("source", SOURCE_LIMIT)


class ChatTemplate:
    """A compiled template. `bos` and `eos` are the texts of the model's tokens, empty where it has none.

    Raises `TemplateBroken` where the source does not parse, and what `check_source` raises.
    """

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        check_source(source)
        self._source = source
        self._tokens: dict[str, Any] = {"bos_token": bos or _MissingToken(), "eos_token": eos or _MissingToken()}
        self._environment = _environment()
        try:
            self._template = self._environment.from_string(source)
        except MemoryError:
            raise
        except Exception as error:
            raise _as_template_error(error) from error

    def render(
        self,
        messages: tuple[Message, ...],
        *,
        add_generation_prompt: bool = True,
        continue_last: bool = False,
        variables: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> str:
        """Returns the conversation as the template writes it, without fallbacks (`turns.py` has them).

        With `continue_last` the text ends where the last message ends, and the template is not asked for the opening
        of a new answer. `variables` are the template's own switches, as in `enable_thinking`. `now` is what
        `strftime_now` tells. Raises `TemplateBroken`, `TemplateRefused`, `TemplateTooLarge`, `CannotContinue`, and
        MemoryError where the process has a limit.
        """
        if not messages:
            raise ValueError("a conversation has at least one message")
        clock = now or datetime.now()
        if continue_last:
            return self._up_to_last_content(messages, dict(variables or {}), clock)
        values = dict(variables or {}, add_generation_prompt=add_generation_prompt)
        return self._run(messages, values, clock, in_parts=self.wants_parts)

    @cached_property
    def ignores_system(self) -> bool:
        """Whether a system prompt vanishes without a word."""
        turn = Message(Role.USER, "Hello")
        parts = self.wants_parts
        alone = self._try((turn,), in_parts=parts)
        prompted = self._try((Message(Role.SYSTEM, _PROBE), turn), in_parts=parts)
        return alone is not None and alone == prompted

    @cached_property
    def wants_parts(self) -> bool:
        """Whether contents have to be lists of parts, as in `[{"type": "text", "text": …}]`."""
        turn = (Message(Role.USER, _PROBE),)
        plain, parts = self._try(turn, in_parts=False), self._try(turn, in_parts=True)
        return _PROBE not in (plain or "") and _PROBE in (parts or "") and "'type'" not in (parts or "")

    def _try(self, messages: tuple[Message, ...], *, in_parts: bool) -> str | None:
        try:
            return self._run(messages, {"add_generation_prompt": True}, datetime(2000, 1, 1), in_parts=in_parts)
        except ChatTemplateError:
            return None

    def _run(
        self,
        messages: tuple[Message, ...],
        variables: Mapping[str, Any],
        now: datetime,
        *,
        in_parts: bool,
    ) -> str:
        limit = OUTPUT_LIMIT + 4 * sum(len(message.content) for message in messages)
        values = {**self._tokens, **variables}
        values |= {
            "messages": [_for_template(message, in_parts) for message in messages],
            "tools": None,
            "documents": None,
            "strftime_now": now.strftime,
        }
        try:
            return "".join(_up_to(limit, self._template.generate(values)))
        except (ChatTemplateError, MemoryError):
            raise
        except Exception as error:
            raise _as_template_error(error) from error

    def _up_to_last_content(self, messages: tuple[Message, ...], variables: dict[str, Any], now: datetime) -> str:
        mark = unused_character(self._source + "".join(message.content for message in messages))
        # The space tells whether the template strips contents: then the answer's own trailing space goes as well.
        marked = Message(messages[-1].role, messages[-1].content + mark + " ", messages[-1].reasoning)
        values = {**variables, "add_generation_prompt": False}
        text = self._run((*messages[:-1], marked), values, now, in_parts=self.wants_parts)
        end = text.rfind(mark)
        if end < 0:
            raise CannotContinue
        return text[:end] if text.startswith(" ", end + 1) else text[:end].rstrip()


def _for_template(message: Message, in_parts: bool) -> dict[str, Any]:
    content = [{"type": "text", "text": message.content}] if in_parts else message.content
    thought = dict.fromkeys(_REASONING_FIELDS, message.reasoning) if message.reasoning else {}
    return {"role": message.role.value, "content": content, **thought}


def _up_to(limit: int, pieces: Iterator[str]) -> Iterator[str]:
    written = 0
    for piece in pieces:
        written += len(piece)
        if written > limit:
            raise TemplateTooLarge("output", limit)
        yield piece


def _as_template_error(error: Exception) -> ChatTemplateError:
    if isinstance(error, _Refusal):
        return TemplateRefused(str(error))
    if isinstance(error, jinja2.TemplateSyntaxError):
        return TemplateBroken(error.message or "", error.lineno)
    reason = str(error) or type(error).__name__
    if isinstance(error, RecursionError):
        reason = N_("It is nested too deeply, or calls itself without end.")
    return TemplateBroken(reason, _line_of(error.__traceback__))


def _line_of(traceback: TracebackType | None) -> int:
    """Returns the template's own line that failed (Jinja names the file `<template>`); 0 where there is none."""
    line = 0
    while traceback:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


# --- which template ---------------------------------------------------------------------------------------------


def choose_template(named: Mapping[str, str], wanted: str = "") -> tuple[str, str]:
    """Returns name and source: the wanted one, else the default one, else the only one.

    Raises `NoTemplate` where there is none (of that name), `TemplateChoiceNeeded` where several are left.
    """
    if wanted and wanted not in named:
        raise NoTemplate(wanted)
    if not named:
        raise NoTemplate
    name = wanted or ("default" if "default" in named else next(iter(named)))
    if not wanted and name != "default" and len(named) > 1:
        raise TemplateChoiceNeeded(named)
    return name, named[name]
