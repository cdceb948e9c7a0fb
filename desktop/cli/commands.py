"""How a command explains itself: usage, examples and options in sections, in the reader's language.

click parses; this file prints, because click's own help knows neither sections nor the width of Chinese.
Knows no particular command.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from desktop.cli import output
from desktop.cli.layout import shown_path, two_columns, wrapped
from runtime.errors import UserError
from runtime.model_errors import ModelMissing
from runtime.text import N_, _

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETION_VARIABLE = "_QUERN_COMPLETE"  # set by the shell that wants a word completed


class UsageProblem(UserError):
    """What was typed is not a command that Quern knows."""

    code = "usage"


class Option(click.Option):
    """An option that is listed under a section of the help; the empty section is the command's own.

    One that `is_switch` takes on, off and more as its value, and may be typed without one: `--x` is on, `--no-x` off.
    """

    def __init__(self, *names: str, section: str = "", is_switch: bool = False, **settings: Any) -> None:
        if is_switch:
            settings |= {"is_flag": False, "flag_value": "on"}
        super().__init__(names, **settings)
        self.section = section
        self.is_switch = is_switch

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Returns the names and the help, without what click would add in English."""
        record = super().get_help_record(ctx)
        return (record[0], self.help or "") if record else None


class FileName(click.types.StringParamType):
    """The name of a file. An empty one, from a variable that was not set, would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the name. Raises `click.BadParameter` where it is empty."""
        if value == "":
            self.fail(_("The name of the file is empty."), param, ctx)
        return super().convert(value, param, ctx)


class FileArgument(click.Argument):
    """An argument that the shell completes with file names."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Leaves it to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class ModelArgument(FileArgument):
    """A model: the shell completes it with the names in the library, and paths as it does anywhere."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the models whose names go on with what was typed."""
        from click.shell_completion import CompletionItem

        from runtime.library import Library

        if not incomplete.startswith((".", "/", "~")):
            begun = incomplete.lower()
            if names := [model.name for model in Library().models() if model.name.lower().startswith(begun)]:
                return [CompletionItem(name) for name in names]
        return super().shell_complete(ctx, incomplete)


class Command(click.Command):
    """A command with examples."""

    def __init__(self, name: str, *, examples: Sequence[str] = (), notes: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(name, add_help_option=False, **settings)
        self.examples, self.notes = tuple(examples), tuple(notes)
        self.params.append(help_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the arguments. Raises `UsageProblem` for words that the command does not take."""
        ctx.allow_extra_args = True
        try:
            words = super().parse_args(ctx, list(self._without_no(args)))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click leaves it out for an option without its value
            raise
        if words and not ctx.resilient_parsing:
            title = _("{command} does not take “{words}”.").format(command=ctx.command_path, words=" ".join(words))
            raise UsageProblem(title, "", _("Text with spaces belongs into quotation marks."))
        return words

    def _without_no(self, args: Sequence[str]) -> Iterator[str]:
        """Yields the arguments with `--no-x` spelled out as `--x off` for options that are switches."""
        flags = (flag for param in self.params if isinstance(param, Option) and param.is_switch for flag in param.opts)
        negated = {f"--no-{flag[2:]}": flag for flag in flags}
        ends = args.index("--") if "--" in args else len(args)
        for at, word in enumerate(args):
            yield from (negated[word], "off") if at < ends and word in negated else (word,)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the whole help."""
        _write(formatter, [*_usage_lines(self, ctx), *paragraphs(self.help or "")])
        if self.examples:
            _write(formatter, ["", _("Examples"), *("  " + example for example in self.examples)])
        for title, rows in sections(self, ctx):
            _write(formatter, ["", title, *two_columns(rows, output.width())])
        if self.notes:
            _write(formatter, paragraphs("\n".join(self.notes)))


def sections(command: click.Command, ctx: click.Context) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns each section's title and its options, as (names, help)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and isinstance(param, click.Option):
            found.setdefault(getattr(param, "section", ""), []).append(record)
    return [(title or _("Options"), rows) for title, rows in found.items()]


def paragraphs(text: str) -> list[str]:
    """Returns the wrapped, indented lines of a text whose paragraphs are its lines."""
    lines: list[str] = []
    for paragraph in filter(None, text.split("\n")):
        lines += ["", *("  " + line for line in wrapped(paragraph, output.width() - 2))]
    return lines


def _usage_lines(command: click.Command, ctx: click.Context) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(ctx))
    return [_("Usage: {command} {arguments}").format(command=ctx.command_path, arguments=pieces)]


def _write(formatter: click.HelpFormatter, lines: Sequence[str]) -> None:
    formatter.write("\n".join(lines) + "\n")


def help_option() -> Option:
    """Returns `--help`, which prints the help and ends."""

    def show(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            output.write_line(ctx.get_help().rstrip("\n"))
            ctx.exit()

    return Option(
        "-h", "--help", is_flag=True, is_eager=True, expose_value=False, callback=show, help=_("Shows this help.")
    )


def json_option() -> Option:
    """Returns `--json`. Errors stay text on stderr, and the exit code tells them apart."""
    return Option(
        "--json", "as_json", is_flag=True, default=False,
        help=_("Prints JSON for programs: one object, or one event a line. Errors stay text on stderr."),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the command list, and the module that builds the command when it is wanted."""

    module: str
    summary: str


COMMANDS: dict[str, Entry] = {
    "chat": Entry("chat", N_("Talks with a model.")),
    "complete": Entry("complete", N_("Lets a model go on with a text, without a chat template.")),
    "replay": Entry("replay", N_("Makes an answer again and compares.")),
    "models": Entry("models", N_("Lists the models found on this computer.")),
    "info": Entry("info", N_("Shows what a model file holds and how much memory it needs.")),
    "tokenize": Entry("tokenize", N_("Shows the tokens of a text.")),
    "score": Entry("score", N_("Shows how likely a model finds a text.")),
    "embed": Entry("embed", N_("Makes vectors of texts.")),
    "inspect": Entry("inspect", N_("Shows what happens inside a model while it reads a text.")),
    "convert": Entry("convert", N_("Writes a model as a GGUF file, in a type of your choice.")),
    "imatrix": Entry("imatrix", N_("Measures which weights of a model matter, for types of few bits.")),
    "compare": Entry("compare", N_("Shows what a quantization cost.")),
    "bench": Entry("bench", N_("Measures how fast a model reads and writes.")),
    "doctor": Entry("doctor", N_("Checks that everything Quern needs works on this computer.")),
}


class CommandGroup(click.Group):
    """`quern` itself. A command's module is imported only when that command is run or explained."""

    def __init__(self) -> None:
        super().__init__("quern", add_help_option=False, no_args_is_help=False, invoke_without_command=True)
        self.params = [_version_option(), help_option()]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name.lower())
        return importlib.import_module(f"desktop.cli.{entry.module}").command() if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = None if args[0].startswith("-") else self.get_command(ctx, args[0])
        if found is None:
            raise _no_such_command(args[0])
        return found.name, found, args[1:]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes what Quern is and its commands."""
        intro = _("Runs language models on this computer. Without a command, the window opens.")
        rows = [(name, _(COMMANDS[name].summary)) for name in self.list_commands(ctx)]
        _write(formatter, [*_usage_lines(self, ctx), *paragraphs(intro), "", _("Commands")])
        _write(formatter, two_columns(rows, output.width()))
        for title, options in sections(self, ctx):
            _write(formatter, ["", title, *two_columns(options, output.width())])
        _write(formatter, paragraphs(self.closing()))

    @staticmethod
    def closing() -> str:
        """Returns what holds for all commands, a paragraph a line."""
        return "\n".join((
            _("MODEL is a path, a name that “quern models” lists, or “starter”, the small model that came with Quern."),
            _("“quern chat --help” explains one command."),
            _("Exit codes: 0 done, 1 a fault in Quern, 2 something to put right, 130 interrupted."),
        ))


def _no_such_command(word: str) -> UserError:
    if word.lower().endswith(".gguf"):
        return _model_in_place_of_command(Path(word))
    near = difflib.get_close_matches(word.lower(), COMMANDS, 1)
    hint = _("“quern --help” lists the commands.")
    if near:
        hint = _("The nearest one is “quern {name}”.").format(name=near[0])
    return UsageProblem(_("There is no command “{word}”.").format(word=word), "", hint)


def _model_in_place_of_command(path: Path) -> UserError:
    """A model file alone opens the window; this one is missing, or more words follow it."""
    if not path.exists():
        return ModelMissing(path.absolute())
    name = shown_path(path)
    hint = _("“quern chat {name}” talks with this model.").format(name=name)
    return UsageProblem(_("There is no command “{word}”.").format(word=name), "", hint)


def _version_option() -> Option:
    def show(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        from runtime.installation import full_version

        if value and not ctx.resilient_parsing:
            output.write_line(f"Quern {full_version()}")
            ctx.exit()

    return Option(
        "--version", is_flag=True, is_eager=True, expose_value=False, callback=show, help=_("Shows the version.")
    )


def usage_problem(error: click.UsageError) -> UsageProblem:
    """Returns click's complaint in our words and language."""
    where = error.ctx.command_path if error.ctx is not None else "quern"
    hint = _("“{command} --help” lists what it takes.").format(command=where)
    if isinstance(error, click.NoSuchOption):
        near = list(error.possibilities or ())[:1]
        if near:
            hint = _("The nearest one is {name}.").format(name=near[0])
        return UsageProblem(_("There is no option {name} here.").format(name=error.option_name), "", hint)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return UsageProblem(_("{command} needs {name}.").format(command=where, name=_name_of(error.param)), "", hint)
    if isinstance(error, click.BadOptionUsage):
        return UsageProblem(_("The option {name} needs a value.").format(name=error.option_name), "", hint)
    if isinstance(error, click.BadParameter) and error.param is not None:
        title = _("{name} cannot take that value.").format(name=_name_of(error.param))
        return UsageProblem(title, _allowed(error.param.type) or error.message, hint)
    return UsageProblem(error.format_message(), "", hint)


def _allowed(kind: click.ParamType) -> str:  # type: ignore[type-arg]  # generic only from click 8.4 on
    if isinstance(kind, click.Choice):
        return _("Allowed: {allowed}.").format(allowed=", ".join(kind.choices))
    if isinstance(kind, click.IntRange):
        return _("Allowed: a whole number from {low} to {high}.").format(low=kind.min, high=f"{kind.max:,}")
    return ""


def _name_of(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.human_readable_name.removesuffix("...")
