"""Works out the whole file before a byte is written: metadata, tensors, types, size, and what has to be said about it.

Everything that can be refused is refused here. Reads headers and settings, no weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from convert import card, gguf_keys, splitting
from convert.gguf_file import KeyValue, Layout, TensorEntry, u32
from convert.importance import Importance
from convert.metadata import graph_notes, model_keys, pooling_keys, require_graph
from convert.model_vocabulary import named_vocabulary
from convert.options import ConvertOptions
from convert.recipes import FILE_TYPE_NUMBER, FLOATS, Choice, ModelFacts, TensorSpec, plan
from convert.tensors import F32, Product, Stored, products_of
from convert.vocabulary import template_keys
from runtime import gguf_header, packed
from runtime.architectures.binding import bind
from runtime.architectures.reading import identify
from runtime.architectures.shapes import require_shapes
from runtime.checkpoint import Checkpoint
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader
from runtime.model_errors import clean_name
from runtime.text import _, ngettext
from runtime.tokenizer_files import read_templates

_QUANTIZATION_VERSION = 2  # of ggml's packed types
_LEFT_OUT = ("split.no", "split.count", "split.tensors.count", "general.alignment", card.KEY)


class QuantizedAlready(UserError):
    """A source that has lost precision before."""

    code = "quantized_already"

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(
            _("The source is already quantized ({type}).").format(type=kind),
            _("What “{name}” lost then is lost; quantizing it again loses more than doing it once from the original.")
            .format(name=name),
            _("Use the original in F16, BF16 or F32, or agree with --yes."),
        )  # fmt: skip


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


def plan_of(checkpoint: Checkpoint, options: ConvertOptions, *, importance: Importance | None = None) -> Plan:
    """Returns the plan for whatever the source is. Raises what `plan_from_gguf` or `plan_from_folder` raises."""
    make = plan_from_gguf if checkpoint.kind == "gguf" else plan_from_folder
    return make(checkpoint, options, importance=importance)


def plan_from_gguf(
    checkpoint: Checkpoint, options: ConvertOptions, *, importance: Importance | None = None
) -> Plan:
    """Returns the plan for a GGUF source, of any architecture. Raises `QuantizedAlready` and what `planned` raises."""
    header = gguf_header.read_header(checkpoint.path)
    if header.quantization.upper() not in FLOATS and not options.agreed and not options.dry_run:
        raise QuantizedAlready(header.name, header.quantization)
    metadata = {key: value for key, value in gguf_keys.raw_keys(header).items() if key not in _LEFT_OUT}
    products = [
        Stored(checkpoint, name, TensorSpec(name, checkpoint.info(name).shape, checkpoint.info(name).dtype.upper()))
        for name in checkpoint.names
    ]
    notes = []
    if header.quantization.upper() not in FLOATS:
        notes.append(_("The source is already quantized ({type}).").format(type=header.quantization))
    return planned(metadata, products, _facts(header), options, notes=notes, importance=importance)


def plan_from_folder(
    checkpoint: Checkpoint, options: ConvertOptions, *, importance: Importance | None = None
) -> Plan:
    """Returns the plan for a Hugging Face folder.

    Raises what `identify`, `bind` and `vocabulary_of` raise, `NoGraph`, `TokenizerDiffers` and what `planned`
    raises.
    """
    architecture, stated = identify(checkpoint)
    require_graph(architecture, stated)
    binding = bind(architecture, stated, checkpoint)
    require_shapes(checkpoint, binding)
    config = binding.config
    products = products_of(checkpoint, architecture, binding)
    name, made = named_vocabulary(checkpoint, architecture, config)
    metadata = {
        **model_keys(architecture, config, name=name), **pooling_keys(architecture, checkpoint.path),
        **made.keys(), **template_keys(read_templates(checkpoint.path)),
    }  # fmt: skip
    facts = ModelFacts(architecture.gguf, config.n_layers, config.n_heads, config.n_kv_heads, config.n_experts)
    notes = [*checkpoint.notes, *_packed(checkpoint), *graph_notes(architecture, config, checkpoint.path), *made.notes]
    return planned(metadata, products, facts, options, notes=notes, importance=importance)


def _packed(checkpoint: Checkpoint) -> Iterator[str]:
    """Yields that a folder's weights have lost precision before."""
    method = packed.quantization_of(checkpoint.config).get("quant_method")
    if method:
        words = _("The source's weights are packed already ({method}): what they lost then is lost.")
        yield words.format(method=clean_name(str(method)))


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
        note = _("{count} tensors become {given} instead of {wanted}: their rows cannot be cut into its blocks.")
        yield note.format(count=count, given=given, wanted=wanted)


def _facts(header: GgufHeader) -> ModelFacts:
    n_layers = header.number("block_count")
    heads = header.per_layer("attention.head_count", n_layers)
    kv_heads = header.per_layer("attention.head_count_kv", n_layers)
    first = heads[0] if heads else 0
    return ModelFacts(
        header.architecture, n_layers, first, kv_heads[0] if kv_heads else first, header.number("expert_count")
    )
