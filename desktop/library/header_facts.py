"""What a model file says of itself, made ready for tables; for threads, since it reads the file. Knows no widget."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desktop.human import data_size, whole_number
from runtime.text import _

_LONGEST = 2_000
_CARD_PREFIX = "quern."
Table = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """Rows of texts. `card` holds the `quern.` keys, which tell how the file was made and what it lost."""

    summary: Table
    memory: Table
    metadata: Table
    tensors: Table
    types: Table
    card: dict[str, Any]
    templates: dict[str, str]
    guess: str


def read(path: Path) -> HeaderFacts:
    """Reads a file's header. Raises what `read_header` raises."""
    from desktop.library.template_guess import template_guess
    from runtime.gguf_header import read_header

    header = read_header(path)
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for tensor in header.tensors:
        sizes[tensor.type] += tensor.n_bytes
        counts[tensor.type] += 1
    return HeaderFacts(
        summary=_summary(header),
        memory=_memory(header),
        metadata=tuple((key, shown(value)) for key, value in header.metadata.items()),
        tensors=tuple(
            (tensor.name, tensor.type, " × ".join(map(str, tensor.shape)), data_size(tensor.n_bytes))
            for tensor in header.tensors
        ),
        types=tuple((kind, whole_number(count), data_size(sizes[kind])) for kind, count in counts.most_common()),
        card={key: plain(value) for key, value in header.metadata.items() if key.startswith(_CARD_PREFIX)},
        templates=dict(header.chat_templates),
        guess=template_guess(header),
    )


def _summary(header: Any) -> Table:
    rows = (
        (_("Name"), header.name),
        (_("Files"), whole_number(len(header.parts)) if len(header.parts) > 1 else ""),
        (_("Family"), header.architecture),
        (_("Type"), _("{type}, {bits} bits per weight").format(
            type=header.quantization, bits=f"{header.bits_per_weight:.2f}")),
        (_("Size"), data_size(header.file_size)),
        (_("Parameters"), whole_number(header.n_params)),
        (_("Context"), whole_number(header.context_length) if header.context_length else _("not given")),
        (_("Vocabulary"), whole_number(header.n_vocab)),
        (_("Chat template"), ", ".join(sorted(header.chat_templates)) or _("none")),
        (_("License"), header.text("general.license")),
        (_("Author"), header.text("general.author")),
        (_("Path"), str(header.path)),
    )  # fmt: skip
    return tuple(row for row in rows if row[1])


def _memory(header: Any) -> Table:
    from runtime import memory

    rows = []
    lengths = {length for length in (2048, 4096, 8192, 32_768, 131_072) if length <= max(header.context_length, 4096)}
    for length in sorted(lengths):
        found = memory.estimate(header, context_length=length)
        rows.append((whole_number(length), *map(data_size, (found.weights, found.cache, found.compute, found.total))))
    return tuple(rows)


def shown(value: Any) -> str:
    """Returns a metadata value as a text on one line; of long lists only how long they are."""
    found = plain(value)
    if isinstance(found, dict):
        return _("a list of {count}").format(count=whole_number(found["length"]))
    items = found if isinstance(found, list) else [found]
    words = ", ".join(f"{item:.7g}" if isinstance(item, float) else str(item) for item in items)
    return words[:_LONGEST]


def plain(value: Any) -> Any:
    """Returns a metadata value as plain Python; a long list as an object with its length."""
    from runtime.gguf_header import GgufArray, GgufText

    if isinstance(value, GgufText):
        return value.text()
    if isinstance(value, GgufArray):
        return {"length": len(value)}
    return list(value) if isinstance(value, tuple) else value
