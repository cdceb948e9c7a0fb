"""Walks a family's table: which tensors of a checkpoint make which of ours, and which ones ours are written to.

Every tensor is claimed by a row or known to hold no weights; what is left over, or missing, is named. Reads no tensor
but the two that may be the same one, and biases without a place.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from runtime import wrapped_names
from runtime.architectures.base import Architecture, Kind, Source, TensorRow, expanded
from runtime.architectures.forms import Form
from runtime.config import ModelConfig
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.text import _, ngettext

_logger = logging.getLogger(__name__)
_LANGUAGE_PART = re.compile(r"^(?:model\.language_model\.|language_model\.model\.)")
_LANGUAGE_HEAD = re.compile(r"^language_model\.(?=lm_head\.)")
# Tables that older programs saved beside the weights, and the parts of a model that see.
_IGNORABLE = ("*.rotary_emb.inv_freq", "*.attn.bias", "*.attn.masked_bias", "*.attention.bias",
              "*.attention.masked_bias", "*vision_tower.*", "*vision_model.*", "*multi_modal_projector.*",
              "value_head.*", "v_head.*")  # fmt: skip

# The last layer of a model that sorts texts into classes, marks an answer's ends, or chooses among several.
_TASK_HEADS = re.compile(
    r"^(?:classifier|classification_head|qa_outputs|score)\.|^cls\.(?:output\.)?(?:weight|bias)$"
)


class LeftoverTensors(UserError):
    """A checkpoint holds weights that the family's table does not know: the model would not be what it was."""

    code = "leftover_tensors"

    def __init__(self, family: str, names: Sequence[str]) -> None:
        super().__init__(
            _("The model holds tensors that this version does not know."),
            ngettext(
                "{count} tensor has no place in the architecture “{family}”: {names}",
                "{count} tensors have no place in the architecture “{family}”: {names}",
                len(names),
            ).format(count=len(names), family=family, names=_some(names)),
            _("Choose another model, or a newer version that may know it."),
            details="\n".join(names),
        )


class TaskHead(UserError):
    """A checkpoint made for sorting texts, or for finding passages: its answers are classes, not words or vectors."""

    code = "task_head"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            _("This model sorts texts or marks passages; it writes nothing."),
            _("Its last layer answers with classes: {names}.").format(names=_some(names)),
            _("Choose the model it was made from, or an embedding model."),
            details="\n".join(names),
        )


class MissingTensors(UserError):
    """A checkpoint lacks weights that its own settings ask for."""

    code = "missing_tensors"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            _("Parts of the model are missing."),
            ngettext(
                "{count} tensor is not there: {names}", "{count} tensors are not there: {names}", len(names)
            ).format(count=len(names), names=_some(names)),
            _("Download the model again; a file may be incomplete."),
            details="\n".join(names),
        )


class AdapterOnly(UserError):
    """The files hold what a fine-tune changed, not the model itself."""

    code = "adapter_only"

    def __init__(self) -> None:
        super().__init__(
            _("This is an adapter, not a model."),
            _("Its files hold only what a fine-tune changed of another model."),
            _("Load the model that it was made for, and add the adapter to it."),
        )


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(map(clean_name, names[:most]))
    return shown if len(names) <= most else _("{names} and others").format(names=shown)


@dataclass(frozen=True)
class Claim:
    """One step of loading or writing: these tensors of a file are, in this form, these of ours."""

    sources: tuple[str, ...]
    ours: tuple[str, ...]
    form: Form


@dataclass(frozen=True)
class Binding:
    """How a checkpoint fills a model. `config` differs from the one bound where the tensors know better."""

    config: ModelConfig
    claims: tuple[Claim, ...]
    ignored: tuple[str, ...]


def bind(architecture: Architecture, config: ModelConfig, source: Source) -> Binding:
    """Finds each tensor's place. Raises `MissingTensors`, `LeftoverTensors`, `TaskHead` and `AdapterOnly`."""
    known = canonical_names(architecture, source.names)
    embedding = _source_of(architecture, "embedding.weight", source.kind, known)
    if embedding is None and any(".lora_A." in name for name in known):
        raise AdapterOnly
    config = _really_tied(architecture, architecture.by_names(config, known), source, known)
    claims = tuple(_claims(architecture, config, source.kind, known))
    claimed = {name for claim in claims for name in claim.sources}
    rest = [name for name in source.names if name not in claimed]
    ignored = [
        name for name in rest
        if _is_ignorable(architecture, config, name, source.kind) or _adds_nothing(source, name, claimed)
    ]  # fmt: skip
    left = sorted(set(rest) - set(ignored))
    if any(_TASK_HEADS.search(name) for name in left):
        raise TaskHead(left)
    if left:
        raise LeftoverTensors(architecture.name, left)
    return Binding(config, claims, tuple(ignored))


def placements(architecture: Architecture, config: ModelConfig, kind: Kind) -> Iterator[Claim]:
    """Yields where each of our tensors goes in a file of that kind: `claim.form.to_source` makes the file's of ours.

    Tensors that are worked out from the config come on top, see `Architecture.gguf_tensors`.
    """
    placed: set[str] = set()
    for row, layer in architecture.rows(config):
        ours = tuple(name.format(i=layer) for name in row.our_names)
        sources = expanded(row.names(kind), layer, config)
        if sources and not placed.issuperset(ours):
            placed.update(ours)
            yield Claim(tuple(sources), ours, row.form(kind))


def claims_by_name(architecture: Architecture, config: ModelConfig, kind: Kind) -> dict[str, Claim]:
    """Returns where each tensor of a file goes, alternative names of one tensor included."""
    found: dict[str, Claim] = {}
    for row, layer in architecture.rows(config):
        ours = tuple(name.format(i=layer) for name in row.our_names)
        sources = tuple(expanded(row.names(kind), layer, config))
        found |= dict.fromkeys(sources, Claim(sources, ours, row.form(kind)))
    return found


def canonical_names(architecture: Architecture, names: Iterable[str]) -> dict[str, str]:
    """Returns the checkpoint's name of each tensor by the name that the family's table has for it.

    What wrappers put in front is taken off, and the backbone's own prefix is added where a checkpoint lacks it.
    """
    expected = {_pattern(name) for row in architecture.tensors for name in row.names("folder")}
    found: dict[str, str] = {}
    for name, inner in wrapped_names.unwrapped(names).items():
        plain = _LANGUAGE_HEAD.sub("", _LANGUAGE_PART.sub("model.", inner))
        if _pattern(plain) not in expected and _pattern(architecture.prefix + plain) in expected:
            plain = architecture.prefix + plain
        found[plain] = name
    return found


def _pattern(name: str) -> str:
    """Returns a name with every number and placeholder alike, so that a tensor matches its row."""
    return re.sub(r"(?<=\.)(?:\d+|\{[ie]\})(?=\.|$)", "#", name)


def _claims(architecture: Architecture, config: ModelConfig, kind: Kind, known: dict[str, str]) -> Iterable[Claim]:
    """Yields the claims of every row that the config asks for; rows with the same `ours` are alternatives."""
    chosen: set[str] = set()
    missing: dict[str, str] = {}
    for row, layer in architecture.rows(config):
        ours = tuple(name.format(i=layer) for name in row.our_names)
        sources = expanded(row.names(kind), layer, config)
        if chosen.issuperset(ours):
            continue
        absent = [name for name in sources if name not in known]
        if absent or not sources:
            missing |= dict.fromkeys(ours, absent[0] if absent else "")
            continue
        chosen.update(ours)
        yield Claim(tuple(known[name] for name in sources), ours, row.form(kind))
    lacking = sorted({source or ours for ours, source in missing.items() if ours not in chosen})
    if lacking:
        raise MissingTensors(lacking)


def _is_ignorable(architecture: Architecture, config: ModelConfig, name: str, kind: Kind) -> bool:
    patterns = (*_IGNORABLE, *architecture.ignorable)
    if any(fnmatchcase(name, pattern) for pattern in patterns):
        return True
    if kind == "gguf":
        return name in architecture.gguf_tensors(config) or name.startswith("rope_")
    return config.tied and _canonical(architecture, name) in _head_names(architecture, kind)


def _adds_nothing(source: Source, name: str, claimed: Collection[str]) -> bool:
    """Whether a tensor is a bias of zeros: programs that pack weights put one beside every matrix."""
    matrix = name.removesuffix("bias") + "weight"
    if not name.endswith(".bias") or matrix not in claimed or len(source.info(name).shape) != 1:
        return False
    return not source.read(name).any()


def _canonical(architecture: Architecture, name: str) -> str:
    return next(iter(canonical_names(architecture, [name])))


def _head_names(architecture: Architecture, kind: Kind) -> Collection[str]:
    return {name for row in architecture.tensors if row.ours == "head.weight" for name in row.names(kind)}


def _really_tied(
    architecture: Architecture, config: ModelConfig, source: Source, known: dict[str, str]
) -> ModelConfig:
    """Returns the config with the head that the tensors show: one that differs from the embedding is never dropped."""
    head = next((known[name] for name in _head_names(architecture, source.kind) if name in known), None)
    if not config.tied or head is None:
        return config
    embedding = _source_of(architecture, "embedding.weight", source.kind, known)
    if embedding is None or _same(source, head, embedding):
        return config
    _logger.warning("the head differs from the embedding although the configuration ties them: it is kept")
    return msgspec.structs.replace(config, tied=False)


def _source_of(architecture: Architecture, ours: str, kind: Kind, known: dict[str, str]) -> str | None:
    rows: Iterable[TensorRow] = (row for row in architecture.tensors if row.ours == ours)
    return next((known[name] for row in rows for name in row.names(kind) if name in known), None)


def _same(source: Source, one: str, other: str) -> bool:
    if source.info(one).shape != source.info(other).shape:
        return False
    if source.info(one).dtype == source.info(other).dtype:
        return bool(np.array_equal(source.raw(one), source.raw(other)))
    return bool(np.array_equal(source.read(one), source.read(other)))
