"""What a family is, as data: the names of its tensors and settings in our model, in Hugging Face's files and in GGUF.

Knows the tables' shape and how to walk them; the families' own files hold the names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from runtime.architectures.forms import SAME, Form
from runtime.config import ModelConfig

Kind = Literal["folder", "gguf"]
Side = Literal["decoder", "encoder"]
Fields = dict[str, Any]
Settings = Mapping[str, Any]
Condition = Callable[[ModelConfig, int], bool]


class Source(Protocol):
    """What is needed of a `Checkpoint` to work its config out and to find its tensors' places."""

    @property
    def kind(self) -> Kind: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...

    @property
    def names(self) -> Collection[str]: ...

    def info(self, name: str) -> Any: ...

    def raw(self, name: str) -> NDArray[Any]: ...

    def read(self, name: str) -> NDArray[Any]: ...


def always(config: ModelConfig, layer: int) -> bool:
    """The condition of most rows."""
    return True


def untied(config: ModelConfig, layer: int) -> bool:
    """The head has a matrix of its own."""
    return not config.tied


def with_qkv_bias(config: ModelConfig, layer: int) -> bool:
    """The query, key and value projections add a bias."""
    return config.qkv_bias


def with_out_bias(config: ModelConfig, layer: int) -> bool:
    """The projection after attention adds a bias."""
    return config.out_bias


def with_ffn_bias(config: ModelConfig, layer: int) -> bool:
    """The feed-forward projections add a bias."""
    return config.ffn_bias


def with_experts(config: ModelConfig, layer: int) -> bool:
    """The layer's feed-forward part is a mixture of experts."""
    return config.has_experts(layer)


def without_experts(config: ModelConfig, layer: int) -> bool:
    """The layer has a plain feed-forward part."""
    return not config.has_experts(layer)


Names = str | tuple[str, ...]


@dataclass(frozen=True)
class TensorRow:
    """One row of a family's table: our tensors, and those that hold them in a folder and in a GGUF file.

    In a name, `{i}` stands for the layer and `{e}` for every expert in turn. An empty name means that this kind of file
    has no such tensor. Rows with the same `ours` are alternatives: reading takes the first whose tensors are there,
    writing takes the first. `side` says whose layers `{i}` counts.
    """

    ours: Names
    hf: Names
    gguf: Names
    hf_form: Form = SAME
    gguf_form: Form = SAME
    when: Condition = always
    side: Side = "decoder"

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Returns the row's tensors in that kind of file, with placeholders; none where it has none."""
        names = self.hf if kind == "folder" else self.gguf
        return tuple(filter(None, (names,) if isinstance(names, str) else names))

    @property
    def our_names(self) -> tuple[str, ...]:
        """Our tensors, with placeholders."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def form(self, kind: Kind) -> Form:
        """Returns how that kind of file stores them."""
        return self.hf_form if kind == "folder" else self.gguf_form

    @property
    def per_layer(self) -> bool:
        """Whether the row stands for a tensor of every layer."""
        return "{i}" in self.our_names[0]


_REQUIRED = object()


@dataclass(frozen=True)
class KeyRow:
    """One setting: a field of `ModelConfig`, its key in config.json, and its key in GGUF after the architecture's name.

    `default` is what a file that lacks the key means; a callable is asked with the fields known so far. Without one the
    key is required. An empty name means that this kind of file has no such key. `older` are names that config.json had
    before.
    """

    ours: str
    hf: str
    gguf: str
    default: Any = _REQUIRED
    older: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether a file must hold it."""
        return self.default is _REQUIRED

    def default_for(self, known: Fields) -> Any:
        """Returns the value of a file that does not say."""
        return self.default(known) if callable(self.default) else self.default


def _nothing(*_: Any) -> Fields:
    return {}


def _unchanged(config: ModelConfig, names: Collection[str]) -> ModelConfig:
    return config


def _fits(config: ModelConfig) -> str | None:
    return None


@dataclass(frozen=True)
class Architecture:
    """One family. `fixed` are fields that all its models share; the functions say what rows cannot.

    `hf_types` are config.json's model_type (the first is written), `hf_classes` its architectures' names (ditto);
    `gguf` is general.architecture, empty where llama.cpp has no graph; `accepts` tells families apart that share it.
    `prefix` is what the backbone's tensors begin with, and `ignorable` are patterns of tensors that hold no weights.
    `extra_hf` and `extra_gguf` get the file's settings and the fields known so far and return more fields; `write_hf`
    and `write_gguf` get the config and return more settings; `gguf_tensors` returns tensors worked out from it. GGUF
    settings have no architecture's name in front here. `fits_gguf` says in a sentence why llama.cpp's graph cannot
    hold a config, None when it can. `by_names` mends a config by the tensors that are there, by the table's names.
    """

    name: str
    hf_types: tuple[str, ...]
    hf_classes: tuple[str, ...]
    gguf: str
    tensors: tuple[TensorRow, ...]
    keys: tuple[KeyRow, ...]
    fixed: Fields = field(default_factory=dict)
    hf_defaults: Fields = field(default_factory=dict)
    prefix: str = "model."
    ignorable: tuple[str, ...] = ()
    accepts: Callable[[Settings], bool] = lambda settings: True
    extra_hf: Callable[[Settings, Fields], Fields] = _nothing
    extra_gguf: Callable[[Settings, Fields, Source], Fields] = _nothing
    write_hf: Callable[[ModelConfig], Fields] = _nothing
    write_gguf: Callable[[ModelConfig], Fields] = _nothing
    gguf_tensors: Callable[[ModelConfig], dict[str, NDArray[Any]]] = _nothing
    fits_gguf: Callable[[ModelConfig], str | None] = _fits
    by_names: Callable[[ModelConfig, Collection[str]], ModelConfig] = _unchanged

    def rows(self, config: ModelConfig) -> Iterator[tuple[TensorRow, int]]:
        """Yields each row that holds for the config, once for every layer it holds for (layer 0 for the others)."""
        counts = {"decoder": config.n_layers, "encoder": config.n_encoder_layers or config.n_layers}
        for row in self.tensors:
            for layer in range(counts[row.side] if row.per_layer else 1):
                if row.when(config, layer):
                    yield row, layer

    def our_names(self, config: ModelConfig) -> set[str]:
        """Returns the names of all tensors that our model has for this config."""
        return {name.format(i=layer) for row, layer in self.rows(config) for name in row.our_names}


def expanded(names: Collection[str], layer: int, config: ModelConfig) -> list[str]:
    """Returns a row's names with the layer put in, and each expert's where the name counts them."""
    experts = range(config.n_experts)
    return [
        name.format(i=layer, e=expert)
        for name in names
        for expert in (experts if "{e}" in name else range(1))
    ]  # fmt: skip
