"""A whole file before a byte is written: metadata, tensors, their types, its size, and what has to be said about it.

Knows what the file is made of, and not where that came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from convert import card, splitting
from convert.gguf_file import KeyValue, Layout, TensorEntry, u32
from convert.importance import Importance
from convert.options import ConvertOptions
from convert.recipes import FILE_TYPE_NUMBER, FLOATS, Choice, ModelFacts, plan
from convert.tensors import F32, Product
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.text import _, ngettext

_QUANTIZATION_VERSION = 2  # of ggml's packed types


class ImportanceNeeded(UserError):
    """A type of so few bits that it cannot be made without knowing which weights matter."""

    code = "importance_needed"

    def __init__(self, recipe: str, tensor: str) -> None:
        super().__init__(
            _("{type} needs an importance matrix.").format(type=recipe),
            _("“{tensor}” would get so few bits that it has to be known which of its weights matter.").format(
                tensor=clean_name(tensor)
            ),
            _("Make one with “quern imatrix”, or choose Q3_K_S or larger."),
        )


class Origin(NamedTuple):
    """What the source alone decides: the metadata but for the type, and what has to be said about it."""

    metadata: Mapping[str, KeyValue]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A file before it is written. `choices` and `products` belong together, in the order of the file."""

    metadata: Mapping[str, KeyValue]
    choices: tuple[Choice, ...]
    products: tuple[Product, ...]
    layouts: tuple[Layout, ...]  # one for each file
    notes: tuple[str, ...]
    facts: ModelFacts
    origin: Origin
    importance: Importance | None = None

    @property
    def n_params(self) -> int:
        """How many numbers the tensors hold."""
        return sum(choice.tensor.n_elements for choice in self.choices)

    @property
    def bits_per_weight(self) -> float:
        """Of the tensors alone, without the header."""
        packed = sum(placed.entry.n_bytes for layout in self.layouts for placed in layout.tensors)
        return 8 * packed / max(self.n_params, 1)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(layout.size for layout in self.layouts)

    def weights_of(self, choice: Choice) -> F32 | None:
        """Returns how much the columns of a tensor matter, where that was measured."""
        return self.importance.weights_for(choice.tensor.name, choice.tensor.shape) if self.importance else None


def planned(
    metadata: Mapping[str, KeyValue], products: Sequence[Product], facts: ModelFacts,
    options: ConvertOptions, *, notes: list[str], importance: Importance | None = None,
) -> Plan:  # fmt: skip
    """Chooses the types and lays the file out. Raises `ImportanceNeeded` and `ForeignImportanceMatrix`."""
    made = {product.spec.name: product for product in products}
    choices = plan(
        [product.spec for product in products], facts, options.recipe, wishes=options.wishes,
        has_importance=importance is not None,
    )  # fmt: skip
    unknown = _without_importance(choices, importance)
    needing = next((choice for choice in unknown if choice.needs_importance), None)
    if needing is not None:
        raise ImportanceNeeded(options.recipe, needing.tensor.name)
    keys = {**metadata, **_type_keys(options.recipe), **(importance.keys() if importance is not None else {})}
    if options.card and options.recipe not in FLOATS:
        keys |= card.reserved()
    entries = [TensorEntry(choice.tensor.name, choice.tensor.shape, choice.type) for choice in choices]
    return Plan(
        keys, tuple(choices), tuple(made[choice.tensor.name] for choice in choices),
        splitting.layouts(keys, entries, options.split_max_size),
        tuple([*notes, *_substitutions(choices), *(_unweighed(unknown) if importance is not None else ())]),
        facts, Origin(metadata, tuple(notes)), importance,
    )  # fmt: skip


def replanned(plan: Plan, options: ConvertOptions) -> Plan:
    """Returns the plan for another type of the same source. Raises what `planned` raises."""
    metadata, notes = plan.origin
    return planned(metadata, list(plan.products), plan.facts, options, notes=list(notes), importance=plan.importance)


def _without_importance(choices: Sequence[Choice], importance: Importance | None) -> list[Choice]:
    """Returns the packed tensors that the matrix says nothing about. Raises `ForeignImportanceMatrix`."""
    packed = [choice for choice in choices if choice.type not in FLOATS and choice.type != choice.tensor.type]
    if importance is None:
        return packed
    importance.require_any_of(choice.tensor.name for choice in choices)
    return [choice for choice in packed if importance.weights_for(choice.tensor.name, choice.tensor.shape) is None]


def _unweighed(choices: Sequence[Choice]) -> Iterator[str]:
    """Says which tensors of the layers the matrix knows nothing of; embeddings and outputs are never measured."""
    inner = [choice.tensor.name for choice in choices if "blk." in choice.tensor.name]
    if inner:
        yield ngettext(
            "{count} tensor is packed without the importance matrix, which lacks it: {first}.",
            "{count} tensors are packed without the importance matrix, which lacks them: {first} and others.",
            len(inner),
        ).format(count=len(inner), first=clean_name(inner[0]))


def _type_keys(recipe: str) -> dict[str, KeyValue]:
    keys = {"general.file_type": u32(FILE_TYPE_NUMBER[recipe])}
    if recipe not in FLOATS:
        keys["general.quantization_version"] = u32(_QUANTIZATION_VERSION)
    return keys


def _substitutions(choices: list[Choice]) -> Iterator[str]:
    counts: dict[tuple[str, str], int] = {}
    for choice in choices:
        if choice.instead_of:
            counts[choice.instead_of, choice.type] = counts.get((choice.instead_of, choice.type), 0) + 1
    for (wanted, given), count in counts.items():
        note = ngettext(
            "{count} tensor becomes {given} instead of {wanted}: its rows cannot be cut into that type's blocks.",
            "{count} tensors become {given} instead of {wanted}: their rows cannot be cut into that type's blocks.",
            count,
        )
        yield note.format(count=count, given=given, wanted=wanted)
