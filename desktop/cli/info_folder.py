"""What `quern info` shows of a Hugging Face folder: its config, its tensors, and the memory that its weights take."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desktop.cli import output
from desktop.cli.layout import cut, one_line, shown_path
from desktop.cli.models import size_words
from desktop.cli.tables import show_rows, show_section
from runtime import memory, number_formats
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.describe import ModelInfo
from runtime.library import resolve
from runtime.model_files import weight_files
from runtime.params import LoadParams
from runtime.tensors import TensorInfo
from runtime.text import _
from runtime.tokenizer_files import read_templates

_LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class Folder:
    """An opened folder, and what the library says of it."""

    described: ModelInfo
    config: dict[str, Any]
    tensors: tuple[TensorInfo, ...]
    notes: tuple[str, ...]
    templates: tuple[str, ...]
    weights: int  # bytes in memory, about, once loaded

    @property
    def n_params(self) -> int:
        return sum(tensor.n_elements for tensor in self.tensors)


def read_folder(path: Path, params: LoadParams) -> Folder:
    """Reads what a folder says about itself, and no weights. Raises what opening a checkpoint raises."""
    with open_checkpoint(path) as checkpoint:
        return _read(path, checkpoint, params)


def _read(path: Path, checkpoint: Checkpoint, params: LoadParams) -> Folder:
    tensors = tuple(checkpoint.info(name) for name in checkpoint.names)
    return Folder(
        resolve(str(path)), checkpoint.config, tensors, checkpoint.notes, tuple(sorted(read_templates(path))),
        number_formats.weight_bytes(sum(tensor.n_elements for tensor in tensors), params.dtype),
    )  # fmt: skip


def json_object(folder: Folder, *, every_tensor: bool) -> dict[str, Any]:
    """Returns what programs are told of a folder, under the names that a file's description has; sizes are bytes."""
    described = folder.described
    found = {
        "path": str(described.path),
        "files": [str(file) for file in weight_files(described.path)],
        "name": described.name,
        "kind": described.kind,
        "architecture": described.architecture,
        "quantization": described.quantization,
        "size_bytes": described.size_bytes,
        "parameters": folder.n_params,
        "context_length": described.context_length,
        "vocabulary": _number(folder.config.get("vocab_size")),
        "chat_templates": list(folder.templates),
        "runnable": described.runnable,
        "reason": described.reason,
        "notes": list(folder.notes),
        "memory": {"weights": folder.weights, "free": memory.free_memory()},
        "metadata": folder.config,
        "tensor_types": dict(_counts(folder.tensors)),
    }
    if every_tensor:
        found["tensors"] = [
            {"name": tensor.name, "shape": list(tensor.shape), "type": tensor.dtype} for tensor in folder.tensors
        ]
    return found


def show(folder: Folder, *, every_tensor: bool) -> None:
    """Prints a folder's description."""
    _show_head(folder)
    show_section(_("Memory"), [
        (_("Weights"), size_words(folder.weights)), (_("Free now"), size_words(memory.free_memory())),
    ], right=(1,))  # fmt: skip
    show_section(_("Configuration"), [(one_line(key), _shown(value)) for key, value in folder.config.items()])
    if every_tensor:
        rows = [(one_line(each.name), each.dtype, " × ".join(map(str, each.shape))) for each in folder.tensors]
        show_section(_("Tensors"), rows, right=(2,))
    else:
        show_section(_("Tensors"), [(kind, str(count)) for kind, count in _counts(folder.tensors)], right=(1,))


def _show_head(folder: Folder) -> None:
    described, vocabulary = folder.described, _number(folder.config.get("vocab_size"))
    show_rows([
        (_("Name"), described.name),
        (_("Folder"), shown_path(described.path)),
        (_("Architecture"), described.architecture),
        (_("Type"), described.quantization),
        (_("Size"), size_words(described.size_bytes)),
        (_("Parameters"), f"{folder.n_params:,}"),
        (_("Context length"), f"{described.context_length:,}" if described.context_length else _("not given")),
        (_("Vocabulary"), f"{vocabulary:,}" if vocabulary else _("not given")),
        (_("Chat template"), ", ".join(map(one_line, folder.templates)) or _("none")),
    ])  # fmt: skip
    if not described.runnable:
        output.say(_("Cannot be run: {reason}").format(reason=one_line(described.reason)))
    for sentence in (described.caution, *folder.notes):
        if sentence:
            output.say(one_line(sentence))


def _counts(tensors: Iterable[TensorInfo]) -> list[tuple[str, int]]:
    return Counter(tensor.dtype for tensor in tensors).most_common()


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(one_line(text), _LONGEST_VALUE)
