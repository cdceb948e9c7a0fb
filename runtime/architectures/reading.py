"""Works a model's config out of a checkpoint's settings, and writes settings for a config. Opens no file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import msgspec

from runtime.architectures import ARCHITECTURES
from runtime.architectures.base import Architecture, Fields, KeyRow, Kind, Settings, Source
from runtime.architectures.rope_keys import rope_problem
from runtime.config import Activation, ModelConfig
from runtime.errors import UserError
from runtime.text import _

_ACTIVATIONS = get_args(Activation)
_LARGEST = 1 << 31  # more of anything is a damaged file


class UnknownArchitecture(UserError):
    """No table of ours describes the model."""

    code = "unknown_architecture"

    def __init__(self, name: str) -> None:
        super().__init__(
            _("This version's own engine does not know the architecture “{name}”.").format(name=name or "?"),
            _("It knows {families}.").format(families=", ".join(sorted(a.name for a in ARCHITECTURES))),
            _("Use the llama.cpp engine with a GGUF file of the model."),
        )


class UnusableConfig(UserError):
    """A model's settings are incomplete, or contradict each other."""

    code = "unusable_model_config"

    def __init__(self, problem: str) -> None:
        super().__init__(
            _("The model's configuration cannot be used."),
            problem,
            _("Download the model again, or choose another one."),
        )


def identify(source: Source) -> tuple[Architecture, ModelConfig]:
    """Returns the family and the config of a checkpoint.

    Raises `UnknownArchitecture`, `UnusableConfig` and `UnknownRope`.
    """
    if source.kind == "gguf":
        return _identify_gguf(source)
    raw = text_part(source.config)
    architecture = by_hf_type(str(raw.get("model_type") or ""), _class_names(raw))
    return architecture, from_hf(architecture, raw)


def text_part(raw: Settings) -> Settings:
    """Returns the settings of the part that reads and writes text, of a model that also sees or hears."""
    inner = raw.get("text_config")
    return {**raw, **inner} if isinstance(inner, Mapping) else raw


def by_hf_type(model_type: str, classes: Iterable[str] = ()) -> Architecture:
    """Returns the family that config.json names. Raises `UnknownArchitecture`."""
    for architecture in ARCHITECTURES:
        if model_type in architecture.hf_types or (not model_type and set(classes) & set(architecture.hf_classes)):
            return architecture
    raise UnknownArchitecture(model_type or ", ".join(classes))


def by_name(name: str) -> Architecture:
    """Returns the family with our own name for it, `ModelConfig.family`. Raises `UnknownArchitecture`."""
    for architecture in ARCHITECTURES:
        if architecture.name == name:
            return architecture
    raise UnknownArchitecture(name)


def gguf_settings(metadata: Settings) -> Fields:
    """Returns a GGUF file's settings of the model, without the architecture's name in front."""
    start = f"{metadata.get('general.architecture')}."
    return {key.removeprefix(start): value for key, value in metadata.items() if key.startswith(start)}


def _identify_gguf(source: Source) -> tuple[Architecture, ModelConfig]:
    name = source.metadata.get("general.architecture")
    settings = gguf_settings(source.metadata)
    for architecture in ARCHITECTURES:
        if architecture.gguf and architecture.gguf == name and architecture.accepts(settings):
            return architecture, from_gguf(architecture, settings, source)
    raise UnknownArchitecture(str(name or ""))


def _class_names(raw: Settings) -> list[str]:
    names = raw.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def from_hf(architecture: Architecture, raw: Settings) -> ModelConfig:
    """Reads config.json. Raises `UnusableConfig`."""
    said = {key: value for key, value in raw.items() if value is not None}
    settings = {**architecture.hf_defaults, **said}
    with _nonsense_named():
        known = _from_rows(architecture, settings, "folder")
        known |= architecture.extra_hf(settings, known)
    return _checked(architecture, known)


def from_gguf(architecture: Architecture, settings: Settings, source: Source) -> ModelConfig:
    """Reads a GGUF file's settings, and what its tensors' names tell. A context length of 0 says nothing.

    Raises `UnusableConfig`.
    """
    settings = {key: value for key, value in settings.items() if key != "context_length" or value}
    if "token_embd.weight" not in source.names:
        raise UnusableConfig(_("The file holds no “{name}”.").format(name="token_embd.weight"))
    size = source.info("token_embd.weight").shape[0]
    with _nonsense_named():
        known = _from_rows(architecture, {**settings, "vocab_size": size}, "gguf")
        known |= architecture.extra_gguf(settings, known, source)
    return _checked(architecture, known)


@contextmanager
def _nonsense_named() -> Iterator[None]:
    """Settings come from strangers: arithmetic with a text or a list where a number belongs is their fault."""
    try:
        yield
    except KeyError as error:
        raise UnusableConfig(_("It has no “{key}”.").format(key=error.args[0])) from error
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise UnusableConfig(str(error)) from error


def _from_rows(architecture: Architecture, settings: Settings, kind: Kind) -> Fields:
    known: Fields = dict(architecture.fixed)
    for row in architecture.keys:
        key = _key(row, settings, kind)
        if key and key in settings:
            known[row.ours] = _single(settings[key])
        elif key and row.required:
            raise UnusableConfig(_("It has no “{key}”.").format(key=key))
        elif key or row.ours not in known:
            known[row.ours] = row.default_for(known)
    return known


def _single(value: Any) -> Any:
    """Returns the value of a list that says the same for every layer."""
    return value[0] if isinstance(value, list) and value and value.count(value[0]) == len(value) else value


def _key(row: KeyRow, settings: Settings, kind: Kind) -> str:
    """Returns the row's key in that kind of file, in an older spelling where the file has that."""
    if kind == "gguf":
        return row.gguf
    return next((name for name in (row.hf, *row.older) if name in settings), row.hf)


def _checked(architecture: Architecture, known: Fields) -> ModelConfig:
    try:
        config = msgspec.convert({"family": architecture.name, **_plain(known)}, ModelConfig, strict=True)
    except msgspec.ValidationError as error:
        raise UnusableConfig(str(error)) from error
    problem = next(filter(None, _problems(config)), None)
    if problem:
        raise UnusableConfig(problem)
    return config


def _plain(known: Fields) -> Fields:
    """Returns the fields as plain values, so that their types are checked like those of a file."""
    builtin: Fields = msgspec.to_builtins(known)
    whole = {name for name, kind in ModelConfig.__annotations__.items() if kind == "int"}
    return {name: _whole(value) if name in whole else value for name, value in builtin.items()}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _problems(config: ModelConfig) -> Iterable[str]:
    sizes = {name: getattr(config, name) for name in ("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads",
                                                      "head_dim", "d_ff", "context_length")}  # fmt: skip
    for name, value in sizes.items():
        if not 0 < value < _LARGEST:
            yield _("“{name}” is {value}.").format(name=name, value=value)
    if config.n_kv_heads > 0 and config.n_heads % config.n_kv_heads:
        yield _("{n_heads} heads cannot share {n_kv_heads} keys and values evenly.").format(
            n_heads=config.n_heads, n_kv_heads=config.n_kv_heads
        )
    if config.position == "rope" and (config.rope.dim or config.head_dim) % 2:
        yield _("Heads of {size} entries have no pairs to rotate.").format(size=config.rope.dim or config.head_dim)
    if config.form == "encoder-decoder" and not 0 < config.n_encoder_layers < _LARGEST:
        yield _("“{name}” is {value}.").format(name="n_encoder_layers", value=config.n_encoder_layers)
    if config.n_experts and not 0 < config.n_experts_used <= config.n_experts:
        yield _("Of {n} experts {used} are to be used.").format(n=config.n_experts, used=config.n_experts_used)
    for name in ("norm_eps", "attention_softcap", "logit_softcap", "sliding_window", "attention_scale"):
        if not 0 <= getattr(config, name) < math.inf:
            yield _("“{name}” is {value}.").format(name=name, value=getattr(config, name))
    for name in ("embedding_scale", "logit_scale"):
        if not math.isfinite(getattr(config, name)):
            yield _("“{name}” is {value}.").format(name=name, value=getattr(config, name))
    for rope in filter(None, (config.rope, config.local_rope) if config.position == "rope" else ()):
        yield rope_problem(rope, config.head_dim) or ""


# --- writing ----------------------------------------------------------------------------------------------------


def to_hf(architecture: Architecture, config: ModelConfig) -> Fields:
    """Returns config.json's settings, without what concerns tokens and dtypes."""
    rows = {row.hf: getattr(config, row.ours) for row in architecture.keys if row.hf}
    names = {"model_type": architecture.hf_types[0], "architectures": [architecture.hf_classes[0]]}
    return names | rows | architecture.write_hf(config)


def to_gguf(architecture: Architecture, config: ModelConfig) -> Fields:
    """Returns the GGUF settings of the model: ints, floats, bools, texts and lists by their whole names."""
    rows = {row.gguf: getattr(config, row.ours) for row in architecture.keys if row.gguf}
    settings = rows | architecture.write_gguf(config)
    named = {k if k.startswith("tokenizer.") else f"{architecture.gguf}.{k}": v for k, v in settings.items()}
    return {"general.architecture": architecture.gguf} | named
