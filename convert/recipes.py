"""Which number format each tensor of a quantized file gets. Tables with llama.cpp's rules; reads and writes nothing.

A recipe such as Q4_K_M is a mixture: most tensors get its plain type, those that suffer most get more bits, by their
role, their place among the layers, and whether the model shares key and value heads. `plan` takes the tensors as they
would stand in an unquantized file and says what each one becomes, and why.

Source: the behaviour of llama.cpp's quantizer, which a test compares with `plan` tensor by tensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from runtime.errors import UserError
from runtime.gguf_types import FILE_TYPES, TYPE_BY_NAME
from runtime.text import _

# A recipe, and the type that its tensors get where no rule says otherwise.
PLAIN_TYPE = {
    "F32": "F32", "F16": "F16", "BF16": "BF16", "Q8_0": "Q8_0",
    "Q4_0": "Q4_0", "Q4_1": "Q4_1", "Q5_0": "Q5_0", "Q5_1": "Q5_1",
    "Q2_K": "Q2_K", "Q2_K_S": "Q2_K", "Q3_K_S": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_L": "Q3_K",
    "Q4_K_S": "Q4_K", "Q4_K_M": "Q4_K", "Q5_K_S": "Q5_K", "Q5_K_M": "Q5_K", "Q6_K": "Q6_K",
    "IQ4_NL": "IQ4_NL", "IQ4_XS": "IQ4_XS",
    "IQ3_XXS": "IQ3_XXS", "IQ3_XS": "IQ3_S", "IQ3_S": "IQ3_S", "IQ3_M": "IQ3_S",
    "IQ2_XXS": "IQ2_XXS", "IQ2_XS": "IQ2_XS", "IQ2_S": "IQ2_XS", "IQ2_M": "IQ2_S",
    "IQ1_S": "IQ1_S", "IQ1_M": "IQ1_M", "TQ1_0": "TQ1_0", "TQ2_0": "TQ2_0",
}  # fmt: skip
FILE_TYPE_NUMBER = {name: number for number, name in reversed(FILE_TYPES.items()) if name in PLAIN_TYPE}
ALIASES = {
    "INT8": "Q8_0", "INT4": "Q4_K_M", "FP32": "F32", "FP16": "F16",
    "Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M",
}  # fmt: skip
FLOATS = ("F32", "F16", "BF16")
NEEDS_IMPORTANCE = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "Q2_K_S")

_TINY_BITS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M")  # these have rules of their own
_WIDER_TINY = ("IQ2_S", "IQ2_M")

# Where a row cannot be cut into a type's blocks, the type that takes its place; rows that fit neither become F16.
_SMALLER_BLOCKS = {
    "IQ1_S": "IQ4_NL", "IQ1_M": "IQ4_NL", "IQ2_XXS": "IQ4_NL", "IQ2_XS": "IQ4_NL", "IQ2_S": "IQ4_NL",
    "IQ3_XXS": "IQ4_NL", "IQ3_S": "IQ4_NL", "IQ4_XS": "IQ4_NL",
    "Q2_K": "Q4_0", "Q3_K": "Q4_0", "TQ1_0": "Q4_0", "TQ2_0": "Q4_0",
    "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
}  # fmt: skip

# Parts of names whose tensors are small or delicate and always keep the type they have.
_KEPT_PARTS = (
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
    "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight", "attn_rel_b.weight",
    ".position_embd",
)  # fmt: skip
_KEPT_NAMES = ("position_embd.weight", "token_types.weight")
_EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")
_OUTPUT = "output.weight"


class UnknownRecipe(UserError):
    """A type name that is none."""

    code = "unknown_recipe"

    def __init__(self, name: str) -> None:
        super().__init__(
            _("There is no type “{name}”.").format(name=name),
            _("A file can be written as: {types}.").format(types=", ".join(PLAIN_TYPE)),
            _("Q8_0 loses almost nothing, Q4_K_M is the usual small one."),
        )


class UnknownTensorType(UserError):
    """A name that is not that of a tensor's type."""

    code = "unknown_tensor_type"

    def __init__(self, name: str, possible: Iterable[str]) -> None:
        super().__init__(
            _("A tensor cannot have the type “{name}”.").format(name=name),
            _("The types of tensors are: {types}.").format(types=", ".join(possible)),
            _("Mixtures such as Q4_K_M are types of whole files; of their tensors, most are Q4_K."),
        )


class WishesWithoutQuantizing(UserError):
    """Types for single tensors, of a file that is not quantized: none of its tensors gets another type."""

    code = "wishes_without_quantizing"

    def __init__(self, recipe: str) -> None:
        super().__init__(
            _("Tensors have types of their own in quantized files only."),
            _("In a file of type {type} all matrices have that type.").format(type=recipe),
            _("Choose a quantized type such as Q8_0, or leave out the types of single tensors."),
        )


class Role(StrEnum):
    """What a tensor is for, as far as the recipes tell apart."""

    OUTPUT = "output"
    EMBEDDING = "embedding"
    ATTENTION_V = "attention v"  # and fused ones that hold it
    ATTENTION_K = "attention k"
    ATTENTION_Q = "attention q"
    ATTENTION_OUTPUT = "attention output"
    FFN_UP = "feed-forward up"
    FFN_GATE = "feed-forward gate"
    FFN_DOWN = "feed-forward down"
    OTHER = "other"


_ROLE_PARTS = (
    ("attn_qkv.weight", Role.ATTENTION_V), ("attn_kv_b.weight", Role.ATTENTION_V), ("attn_v.weight", Role.ATTENTION_V),
    ("attn_k.weight", Role.ATTENTION_K), ("attn_q.weight", Role.ATTENTION_Q),
    ("attn_output.weight", Role.ATTENTION_OUTPUT),
    ("ffn_up", Role.FFN_UP), ("ffn_gate", Role.FFN_GATE), ("ffn_down", Role.FFN_DOWN),
)  # fmt: skip


class TensorSpec(NamedTuple):
    """A tensor of the unquantized file; the last number of `shape` is the length of a row."""

    name: str
    shape: tuple[int, ...]
    type: str = "F32"

    @property
    def n_elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the recipes ask about a model."""

    architecture: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    n_experts: int = 0

    @property
    def sharing(self) -> int:
        """How many query heads share a key and value head, in the first layer; 0 where there are none."""
        return self.n_heads // self.n_kv_heads if self.n_kv_heads else 0

    @property
    def is_70b(self) -> bool:
        """The one size with rules of its own: its values are an eighth of its queries."""
        if self.architecture == "llama":
            return self.n_layers == 80 and self.n_heads != self.n_kv_heads
        return self.architecture == "qwen2" and self.n_layers == 80


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person wants otherwise than the recipe; types by name, empty for none."""

    tensor_types: tuple[tuple[str, str], ...] = ()  # (regular expression, type); the first that is found in a name
    output_type: str = ""
    embedding_type: str = ""
    pure: bool = False  # the plain type for every tensor


class Choice(NamedTuple):
    """What a tensor becomes. `instead_of` names the type it should have had, where its rows do not fit that one."""

    tensor: TensorSpec
    type: str
    instead_of: str = ""
    needs_importance: bool = False


def recipe_named(name: str) -> str:
    """Returns a recipe's proper name, however it is written. Raises `UnknownRecipe`."""
    wanted = name.strip().upper().replace("-", "_")
    found = ALIASES.get(wanted, wanted)
    if found not in PLAIN_TYPE:
        raise UnknownRecipe(name)
    return found


def in_order(tensors: Iterable[TensorSpec]) -> list[TensorSpec]:
    """Returns the tensors in llama.cpp's order: those outside the layers first, then layer by layer, by name."""
    return sorted(tensors, key=lambda tensor: (_layer_of(tensor.name), tensor.name.encode()))


def plan(
    tensors: Iterable[TensorSpec],
    facts: ModelFacts,
    recipe: str,
    *,
    wishes: Wishes | None = None,
    has_importance: bool = False,
) -> list[Choice]:
    """Returns the choice for every tensor, in llama.cpp's order. `has_importance`: an importance matrix was given."""
    ordered = in_order(tensors)
    planner = _Planner(ordered, facts, recipe, wishes or Wishes(), has_importance)
    return [planner.choose(tensor) for tensor in ordered]


def role_of(name: str) -> Role:
    """Returns what a tensor is for, by its GGUF name."""
    if name == _OUTPUT:
        return Role.OUTPUT
    if name in _EMBEDDINGS:
        return Role.EMBEDDING
    return next((role for part, role in _ROLE_PARTS if part in name), Role.OTHER)


def can_be_quantized(tensor: TensorSpec) -> bool:
    """Whether a tensor is a matrix of weights, and not one that is always kept."""
    name = tensor.name
    if _dimensions(tensor.shape) < 2 or not name.endswith("weight") or name in _KEPT_NAMES:
        return False
    return not any(part in name for part in _KEPT_PARTS)


def fits(type_name: str, row: int) -> bool:
    """Whether a row of that length can be cut into a type's blocks."""
    return row % TYPE_BY_NAME[type_name].block == 0


def substitute(type_name: str, row: int) -> str:
    """Returns the type itself, or what takes its place for a row of that length."""
    if fits(type_name, row):
        return type_name
    smaller = _SMALLER_BLOCKS.get(type_name, type_name)
    return smaller if fits(smaller, row) else "F16"


def _dimensions(shape: Sequence[int]) -> int:
    """How many dimensions a shape has when leading ones are not counted."""
    return next((len(shape) - at for at, size in enumerate(shape) if size != 1), 1)


def _layer_of(name: str) -> int:
    found = re.match(r"blk\.(\d+)\.", name)
    return int(found[1]) if found else -1


# --- the rules -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor stands: the `layer`-th of `layers` of its role."""

    facts: ModelFacts
    has_importance: bool
    layer: int = 0
    layers: int = 0

    @property
    def shares(self) -> bool:
        return self.facts.sharing >= 4

    @property
    def early(self) -> bool:
        return self.layer < self.layers // 8

    @property
    def middle(self) -> bool:
        return self.layers // 8 <= self.layer < 7 * self.layers // 8

    @property
    def matters(self) -> bool:
        """The first and last eighth of the layers, and every third between."""
        return not self.middle or (self.layer - self.layers // 8) % 3 == 2


class _Rule(NamedTuple):
    recipes: str  # names, with spaces between
    type: str
    when: Callable[[_Place], bool] = lambda place: True


_VALUE_RULES = (
    _Rule("Q2_K Q2_K_S IQ3_XXS IQ3_XS IQ3_S", "Q4_K", lambda at: at.shares),
    _Rule("Q2_K", "Q3_K"),
    _Rule("IQ3_XXS", "IQ3_S", lambda at: not at.has_importance),
    _Rule("IQ3_M", "Q4_K"),
    _Rule("Q3_K_M", "Q5_K", lambda at: at.layer < 2),
    _Rule("Q3_K_M", "Q4_K"),
    _Rule("Q3_K_L", "Q5_K"),
    _Rule("IQ4_NL IQ4_XS", "Q5_K", lambda at: at.shares),
    _Rule("Q4_K_M Q5_K_M", "Q6_K", lambda at: at.matters),
    _Rule("Q4_K_S", "Q5_K", lambda at: at.layer < 4),
)
_EIGHT_EXPERTS_OUTPUT = "Q2_K IQ3_XS IQ3_XXS Q3_K_S Q3_K_M IQ4_NL Q4_K_S Q4_K_M IQ3_S IQ3_M IQ4_XS"
_RULES: dict[Role, tuple[_Rule, ...]] = {
    Role.ATTENTION_K: (_Rule("IQ3_XS", "IQ3_XXS"), _Rule("IQ3_XXS", "IQ2_S")),
    Role.ATTENTION_Q: (_Rule("IQ3_XS", "IQ3_XXS"), _Rule("IQ3_XXS", "IQ2_S")),
    Role.ATTENTION_OUTPUT: (
        _Rule(_EIGHT_EXPERTS_OUTPUT, "Q5_K", lambda at: at.facts.n_experts == 8),
        _Rule("Q2_K", "Q3_K", lambda at: at.facts.n_experts != 8),
        _Rule("IQ3_XXS", "IQ3_S", lambda at: at.facts.n_experts != 8),
        _Rule("Q3_K_M IQ3_M", "Q4_K", lambda at: at.facts.n_experts != 8),
        _Rule("Q3_K_L", "Q5_K", lambda at: at.facts.n_experts != 8),
    ),
    Role.FFN_DOWN: (
        _Rule("Q2_K", "Q3_K"),
        _Rule("Q2_K_S", "Q4_K", lambda at: at.early),
        _Rule("IQ3_XXS", "Q4_K", lambda at: not at.has_importance and at.early),
        _Rule("IQ3_XXS", "Q3_K", lambda at: not at.has_importance),
        _Rule("Q3_K_M", "Q5_K", lambda at: at.layer < at.layers // 16),
        _Rule("Q3_K_M", "Q4_K"),
        _Rule("IQ3_M", "Q4_K", lambda at: at.early or (at.facts.n_experts == 8 and at.matters)),
        _Rule("Q3_K_L", "Q5_K"),
        _Rule("Q4_K_M Q5_K_M", "Q6_K", lambda at: at.matters),
        _Rule("IQ4_NL IQ4_XS", "Q5_K", lambda at: at.early and not at.has_importance),
        _Rule("Q4_K_S", "Q5_K", lambda at: at.early),
        _Rule("Q4_0", "Q4_1", lambda at: at.has_importance and at.early),
        _Rule("Q5_0", "Q5_1", lambda at: at.has_importance and at.early),
    ),
    Role.FFN_GATE: (_Rule("IQ3_XS", "IQ3_XXS", lambda at: at.middle),),
    Role.FFN_UP: (_Rule("IQ3_XS", "IQ3_XXS", lambda at: at.middle),),
}
_TINY_RULES: dict[Role, tuple[_Rule, ...]] = {
    Role.ATTENTION_V: (
        _Rule(" ".join(_TINY_BITS), "Q4_K", lambda at: at.shares or at.facts.n_experts >= 4),
        _Rule("IQ2_S IQ2_M", "IQ3_S"),
        _Rule("IQ1_S IQ1_M IQ2_XXS IQ2_XS", "Q2_K"),
    ),
    Role.ATTENTION_K: (_Rule(" ".join(_TINY_BITS), "Q4_K", lambda at: at.facts.n_experts == 8),),
    Role.FFN_DOWN: (
        _Rule("IQ2_S IQ2_M", "IQ3_S", lambda at: at.early),
        _Rule("IQ1_S IQ1_M IQ2_XXS IQ2_XS", "Q2_K", lambda at: at.early),
    ),
    Role.ATTENTION_OUTPUT: (
        _Rule(" ".join(_TINY_BITS), "Q5_K", lambda at: at.facts.n_experts == 8),
        _Rule("IQ1_S IQ1_M", "IQ2_XXS"),
        _Rule("IQ2_S IQ2_M", "IQ3_S"),
    ),
}
_EMBEDDING_TYPE = {
    "IQ1_S": "Q2_K", "IQ1_M": "Q2_K", "IQ2_XXS": "Q2_K", "IQ2_XS": "Q2_K",
    "IQ2_S": "IQ3_S", "IQ2_M": "IQ3_S", "IQ3_XXS": "IQ3_S", "TQ1_0": "Q4_K", "TQ2_0": "Q4_K",
}  # fmt: skip
_COARSE_OUTPUT = (*_TINY_BITS, "IQ3_XXS")  # the output gets Q5_K instead of Q6_K


@dataclass
class _Planner:
    """Goes through the tensors in their order: some rules count."""

    tensors: Sequence[TensorSpec]
    facts: ModelFacts
    recipe: str
    wishes: Wishes
    has_importance: bool
    _seen: dict[Role, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plain = PLAIN_TYPE[self.recipe]
        self._tied = all(tensor.name != _OUTPUT for tensor in self.tensors)
        self._values = sum(role_of(tensor.name) is Role.ATTENTION_V for tensor in self.tensors)
        self._patterns = [(re.compile(pattern), kind) for pattern, kind in self.wishes.tensor_types]

    def choose(self, tensor: TensorSpec) -> Choice:
        if not can_be_quantized(tensor):
            return Choice(tensor, tensor.type)
        wanted = self._wished_place(tensor)
        if wanted:
            return self._choice(tensor, wanted)
        if self._plain in FLOATS:
            return Choice(tensor, self._plain)
        wanted = self._named(tensor.name)
        if not wanted:
            wanted = self._plain if self.wishes.pure else self._by_role(tensor)
        return self._choice(tensor, wanted)

    def _choice(self, tensor: TensorSpec, wanted: str) -> Choice:
        kind = substitute(wanted, tensor.shape[-1])
        needs = kind in ("IQ3_XXS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_M", "IQ1_S")
        needs = needs or (kind == "Q2_K" and self.recipe == "Q2_K_S")
        exempt = tensor.name in _EMBEDDINGS or tensor.name == _OUTPUT
        return Choice(tensor, kind, wanted if kind != wanted else "", needs and not exempt)

    def _named(self, name: str) -> str:
        return next((kind for pattern, kind in self._patterns if pattern.search(name)), "")

    def _wished_place(self, tensor: TensorSpec) -> str:
        """The type asked for the embedding or the output; a pattern may name the per-layer embedding all the same."""
        role = role_of(tensor.name)
        if role is Role.OUTPUT:
            return self.wishes.output_type
        if role is Role.EMBEDDING and not (tensor.name != _EMBEDDINGS[0] and self._named(tensor.name)):
            return self.wishes.embedding_type
        return ""

    def _by_role(self, tensor: TensorSpec) -> str:
        role = role_of(tensor.name)
        if role is Role.OUTPUT or (role is Role.EMBEDDING and self._tied):
            return self._output(tensor)
        if role is Role.EMBEDDING:
            return _EMBEDDING_TYPE.get(self.recipe, self._plain)
        if self.recipe in _TINY_BITS:
            return self._first(_TINY_RULES.get(role, ()), self._place(tensor.name, role, by_name=False))
        place = self._place(tensor.name, role, by_name=True)
        if role is Role.ATTENTION_V:
            return self._values_type(place)
        if role is Role.ATTENTION_K and self.facts.n_experts == 8:
            return "Q8_0"
        return self._first(_RULES.get(role, ()), place)

    def _output(self, tensor: TensorSpec) -> str:
        if self.wishes.output_type:
            return self.wishes.output_type
        if not fits(self._plain, tensor.shape[-1]) or self._plain == "Q8_0":
            return "Q8_0"
        return "Q5_K" if self.recipe in _COARSE_OUTPUT else "Q6_K"

    def _values_type(self, place: _Place) -> str:
        kind = self._first(_VALUE_RULES, place)
        if self.facts.is_70b and kind in ("Q3_K", "Q4_K"):
            kind = "Q5_K"
        return "Q8_0" if self.facts.n_experts == 8 else kind

    def _first(self, rules: Sequence[_Rule], place: _Place) -> str:
        found = (rule.type for rule in rules if self.recipe in rule.recipes.split() and rule.when(place))
        return next(found, self._plain)

    def _place(self, name: str, role: Role, *, by_name: bool) -> _Place:
        """Counts the tensors of a role; experts lie in any order, so with those the name tells the layer."""
        at = self._seen.get(role, 0)
        self._seen[role] = at + 1
        feed_forward = role in (Role.FFN_DOWN, Role.FFN_GATE, Role.FFN_UP)
        if feed_forward and by_name and self.facts.n_experts > 1:
            at = _layer_of(name)
        layers = self._values if role is Role.ATTENTION_V else self.facts.n_layers
        return _Place(self.facts, self.has_importance, at, layers)
