"""Plans what a source becomes: reads what its files say, and refuses whatever can be refused before a byte is written.

Reads headers and settings, no weights.
"""

from __future__ import annotations

from collections.abc import Iterator

from convert import card, gguf_keys
from convert.importance import Importance
from convert.metadata import graph_notes, model_keys, pooling_keys, require_graph
from convert.model_vocabulary import named_vocabulary
from convert.options import ConvertOptions
from convert.plan import Plan, planned
from convert.recipes import FLOATS, ModelFacts, TensorSpec
from convert.tensors import Stored, products_of
from convert.vocabulary import template_keys
from runtime import gguf_header, packed
from runtime.architectures.binding import bind
from runtime.architectures.reading import identify
from runtime.architectures.shapes import require_shapes
from runtime.checkpoint import Checkpoint
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader
from runtime.model_errors import clean_name
from runtime.text import _
from runtime.tokenizer_files import read_templates

_LEFT_OUT = ("split.no", "split.count", "split.tensors.count", "general.alignment", card.KEY)
_NO_MODELS = ("adapter", "imatrix")  # values of general.type


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


class NoModelInside(UserError):
    """A GGUF file that holds something else than a model."""

    code = "no_model_inside"

    def __init__(self, header: GgufHeader) -> None:
        name = clean_name(header.path.name)
        if header.kind == "adapter":
            reason = _("It is a LoRA adapter, which only changes a model.")
            hint = _("Merge it into its model with “quern convert MODEL OUTPUT --type Q8_0 --lora {name}”, or use both "
                     "with “quern chat MODEL --lora {name}”.").format(name=name)  # fmt: skip
        else:
            reason = _("It is of the kind “{kind}”.").format(kind=clean_name(header.kind))
            hint = _("Convert a model; an importance matrix is used with --imatrix.")
        super().__init__(_("“{name}” holds no model to convert.").format(name=name), reason, hint)


def plan_of(checkpoint: Checkpoint, options: ConvertOptions, *, importance: Importance | None = None) -> Plan:
    """Returns the plan for whatever the source is. Raises what `plan_from_gguf` or `plan_from_folder` raises."""
    make = plan_from_gguf if checkpoint.kind == "gguf" else plan_from_folder
    return make(checkpoint, options, importance=importance)


def plan_from_gguf(
    checkpoint: Checkpoint, options: ConvertOptions, *, importance: Importance | None = None
) -> Plan:
    """Returns the plan for a GGUF source, of any architecture.

    Raises `NoModelInside`, `QuantizedAlready` and what `planned` raises.
    """
    header = gguf_header.read_header(checkpoint.path)
    require_model(header)
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


def require_model(header: GgufHeader) -> None:
    """Raises `NoModelInside` for adapters, importance matrices and the like."""
    if header.kind in _NO_MODELS:
        raise NoModelInside(header)


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


def _facts(header: GgufHeader) -> ModelFacts:
    n_layers = header.number("block_count")
    heads = header.per_layer("attention.head_count", n_layers)
    kv_heads = header.per_layer("attention.head_count_kv", n_layers)
    first = heads[0] if heads else 0
    return ModelFacts(
        header.architecture, n_layers, first, kv_heads[0] if kv_heads else first, header.number("expert_count")
    )
