"""`quern info`: what a model file says about itself, and the memory that it will need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import click

from convert.card import KEY as CARD_KEY
from convert.card import card_of
from desktop.cli import output
from desktop.cli.commands import Command, ModelArgument, Option, json_option
from desktop.cli.convert_report import card_rows
from desktop.cli.layout import cut, one_line, shown_path
from desktop.cli.loading import Wanted, wanted
from desktop.cli.models import size_words
from desktop.cli.options import setting_options
from desktop.cli.tables import show_rows, show_section
from runtime import memory
from runtime.chat_formats import RAW, built_in_names, guess
from runtime.draft_file import draft_header, draft_params
from runtime.errors import UserError
from runtime.gguf_header import GgufArray, GgufHeader, GgufText, TensorInfo, read_header
from runtime.params import LoadParams
from runtime.template_variables import variables_of
from runtime.text import _

_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class Memory:
    """What a model will take: by its header, and as the engine works it out, or a sentence why that is not known."""

    estimate: memory.MemoryEstimate
    exact: memory.MemoryEstimate | None = None
    note: str = ""

    @property
    def total(self) -> int:
        return (self.exact or self.estimate).total


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "info",
        callback=info,
        help="\n".join((
            _("Shows what a model’s file or folder holds and how much memory it needs. Its weights are not read."),
            _("The memory follows from the flags of loading: the context length, the types of the cache and so on. It "
              "is estimated from the file's header, and measured by the engine without loading."),
        )),
        examples=("quern info starter", "quern info ~/models/model.gguf --context-length 32768 --tensors all"),
        params=[
            ModelArgument(["model"], required=False, metavar="[PATH|MODEL]"),
            Option(
                "--tensors", type=click.Choice(("summary", "all"), case_sensitive=False), default="summary",
                help=_("Counts the tensors by type, or lists all of them. Default: summary."),
            ),
            json_option(),
            *setting_options(LoadParams),
        ],
    )  # fmt: skip


def info(model: str | None, tensors: str, as_json: bool, **flags: Any) -> None:
    """Runs the command."""
    what = wanted(model, flags)
    if what.path.is_dir():
        _show_folder(what, every_tensor=tensors == "all", as_json=as_json)
        return
    header = read_header(what.path)
    needed = _needed(header, what.load)
    if as_json:
        output.write_json(json_object(header, needed, every_tensor=tensors == "all"))
        return
    _show_file(header)
    _show_card(header)
    _show_memory(header, needed, what.load)
    _show_metadata(header)
    if tensors == "all":
        show_section(_("Tensors"), _tensor_rows(header.tensors), right=(2, 3))
    else:
        show_section(_("Tensors"), _type_rows(header.tensors), right=(1, 2))


def _show_folder(what: Wanted, *, every_tensor: bool, as_json: bool) -> None:
    from desktop.cli import info_folder  # brings numpy, which files do without

    folder = info_folder.read_folder(what.path, what.load)
    if as_json:
        output.write_json(info_folder.json_object(folder, every_tensor=every_tensor))
    else:
        info_folder.show(folder, every_tensor=every_tensor)


def _needed(header: GgufHeader, params: LoadParams) -> Memory:
    from runtime import exact_memory

    draft = draft_header(params)
    estimate = memory.estimate(header, params, draft=draft)
    try:
        exact = exact_memory.measured(header, params)
        if draft is not None:
            beside = draft_params(params).replace(context_length=exact.context_length)
            exact = replace(exact, draft=exact_memory.measured(draft, beside).total)
        return Memory(estimate, exact)
    except UserError as error:
        return Memory(estimate, note=error.info.message or error.info.title)


def json_object(header: GgufHeader, needed: Memory, *, every_tensor: bool) -> dict[str, Any]:
    """Returns what programs are told of a model file; sizes are bytes."""
    found = {
        "path": str(header.path),
        "files": [str(part) for part in header.parts],
        "name": header.name,
        "kind": header.kind,
        "architecture": header.architecture,
        "quantization": header.quantization,
        "bits_per_weight": round(header.bits_per_weight, 3),
        "size_bytes": header.file_size,
        "parameters": header.n_params,
        "context_length": header.context_length,
        "vocabulary": header.n_vocab,
        "chat_templates": sorted(header.chat_templates),
        "chat_template_variables": {name: list(found) for name, found in _variables(header).items()},
        "chat_template_guess": template_guess(header),
        "built_in_templates": _built_in(),
        "memory": {
            **_sizes(needed.estimate), "exact": _sizes(needed.exact) if needed.exact else None,
            "note": needed.note, "free": memory.free_memory(),
        },
        "metadata": {key: _plain(value) for key, value in header.metadata.items() if key != CARD_KEY},
        "tensor_types": {kind: count for kind, count in _counts(header.tensors).items()},
    }  # fmt: skip
    found["quality_card"] = card_of(header.metadata)
    if every_tensor:
        found["tensors"] = [
            {"name": tensor.name, "shape": list(tensor.shape), "type": tensor.type, "size_bytes": tensor.n_bytes}
            for tensor in header.tensors
        ]
    return found


def _sizes(figure: memory.MemoryEstimate) -> dict[str, int]:
    return {
        "context_length": figure.context_length, "weights": figure.weights, "cache": figure.cache,
        "compute": figure.compute, "draft": figure.draft, "other": figure.other,
        "total": figure.total,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Returns a metadata value for JSON; of long lists only their length."""
    if isinstance(value, GgufText):
        return value.text()
    if isinstance(value, GgufArray):
        return {"length": len(value)}
    return list(value) if isinstance(value, tuple) else value


def _show_file(header: GgufHeader) -> None:
    rows = [
        (_("Name"), header.name),
        (_("File"), shown_path(header.path)),
        (_("Files"), str(len(header.parts)) if len(header.parts) > 1 else ""),
        (_("Kind"), header.kind if header.kind != "model" else ""),
        (_("Architecture"), header.architecture),
        (_("Type"), _("{type}, {bits:.2f} bits per weight").format(
            type=header.quantization, bits=header.bits_per_weight)),
        (_("Size"), size_words(header.file_size)),
        (_("Parameters"), f"{header.n_params:,}"),
        (_("Context length"), f"{header.context_length:,}" if header.context_length else _("not given")),
        (_("Vocabulary"), f"{header.n_vocab:,}"),
        (_("Chat template"), ", ".join(sorted(header.chat_templates)) or _without_template(header)),
        (_("Variables"), "; ".join(_variable_words(header))),
        (_("Other templates"), ", ".join(_built_in())),
    ]  # fmt: skip
    show_rows(rows)


def _built_in() -> list[str]:
    return [*sorted(built_in_names()), RAW]


def _variables(header: GgufHeader) -> dict[str, tuple[str, ...]]:
    """Returns the switches that each chat template reads; --template-var sets them."""
    return {name: variables_of(source) for name, source in sorted(header.chat_templates.items())}


def _variable_words(header: GgufHeader) -> Iterable[str]:
    several = len(header.chat_templates) > 1
    for name, found in _variables(header).items():
        names = ", ".join(found)
        if names:
            yield _("{template}: {names}").format(template=name, names=names) if several else names


def template_guess(header: GgufHeader) -> str:
    """Returns the format of ours that a vocabulary was made for, where the model has no template."""
    if header.chat_templates:
        return ""
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    known = frozenset(map(str, tokens)) if isinstance(tokens, GgufArray) else frozenset[str]()
    return guess(known.__contains__)


def _without_template(header: GgufHeader) -> str:
    found = template_guess(header)
    if found:
        return _("none; its vocabulary has the marks of “{name}” (--template {name})").format(name=found)
    return _("none; --template chooses one, and “quern complete” needs none")


def _show_memory(header: GgufHeader, needed: Memory, params: LoadParams) -> None:
    figures = [needed.estimate, *([needed.exact] if needed.exact else [])]
    length = needed.estimate.context_length
    title = _("Memory at a context length of {count} tokens").format(count=f"{length:,}")
    rows = [
        ("", _("Estimated"), *([_("Measured")] if needed.exact else [])),
        (_("Weights"), *(size_words(figure.weights) for figure in figures)),
        (_("Cache"), *(size_words(figure.cache) for figure in figures)),
        (_("Computing"), *(size_words(figure.compute) for figure in figures)),
        *([(_("Draft model"), *(size_words(figure.draft) for figure in figures))] if needed.estimate.draft else []),
        *([(_("Vocabulary and more"), _("not known"), size_words(needed.exact.other))] if needed.exact else []),
        (_("Together"), *(size_words(figure.total) for figure in figures)),
        (_("Free now"), *([""] if needed.exact else []), size_words(memory.free_memory())),
    ]
    show_section(title, rows, right=(1, 2)[: len(figures)])
    if needed.note:
        output.say("  " + _("Not measured: {reason}").format(reason=one_line(needed.note, line_end=" ")))
    if needed.total > memory.free_memory():
        output.say("  " + _("This is more than is free; a shorter context or a smaller model would fit."))
    if header.context_length and not params.rope_base and length > header.context_length * max(params.rope_factor, 1):
        note = _("The model was trained for {count} tokens; beyond them its answers get worse.")
        output.say("  " + note.format(count=f"{header.context_length:,}"))


def _show_card(header: GgufHeader) -> None:
    card = card_of(header.metadata)
    if card is not None:
        show_section(_("Quality card, as the file states it"), card_rows(card))


def _show_metadata(header: GgufHeader) -> None:
    rows = [(one_line(key), _shown(value)) for key, value in header.metadata.items() if key != CARD_KEY]
    show_section(_("Metadata"), rows)


def _shown(value: Any) -> str:
    if isinstance(value, GgufArray):
        return _("a list of {count}").format(count=f"{len(value):,}")
    text = value.text() if isinstance(value, GgufText) else value
    items = text if isinstance(text, tuple) else (text,)
    words = (f"{item:.7g}" if isinstance(item, float) else str(item) for item in items)  # as precise as 32 bits are
    return cut(one_line(", ".join(words)), _LONGEST_VALUE)


def _counts(tensors: Iterable[TensorInfo]) -> dict[str, int]:
    return dict(Counter(tensor.type for tensor in tensors).most_common())


def _type_rows(tensors: tuple[TensorInfo, ...]) -> list[tuple[str, ...]]:
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.type] += tensor.n_bytes
    return [(kind, str(count), size_words(sizes[kind])) for kind, count in _counts(tensors).items()]


def _tensor_rows(tensors: Iterable[TensorInfo]) -> list[tuple[str, ...]]:
    return [
        (one_line(tensor.name), tensor.type, " × ".join(str(size) for size in tensor.shape),
         size_words(tensor.n_bytes))
        for tensor in tensors
    ]  # fmt: skip
