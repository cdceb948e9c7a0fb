"""What is asked and told when somebody looks into a model: attention, probabilities, the logit lens. Knows no engine.

Entropies are in nats: 0 where all attention lies on one token, ln n where it lies evenly on n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from runtime.errors import UserError
from runtime.text import _, ngettext

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AttentionKind = Literal["encoder", "self", "cross"]
KINDS: tuple[AttentionKind, ...] = ("encoder", "self", "cross")
MOST_TOKENS = 1024  # attention grows with the square of them


class NothingToInspect(UserError):
    """A text without a token."""

    code = "nothing_to_inspect"

    def __init__(self) -> None:
        super().__init__(_("There is nothing to look into."), _("The text is empty."), _("Write a few words."))


class TooLongToInspect(UserError):
    """A text whose attention would not fit on a screen, nor into memory."""

    code = "too_long_to_inspect"

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            _("The text is too long to look into: {tokens} tokens, of at most {limit}.").format(
                tokens=f"{tokens:,}", limit=f"{limit:,}"
            ),
            _("Every token's attention to every other is worked out."),
            _("Shorten the text."),
        )


class NoSuchPart(UserError):
    """A layer, a head, or a kind of attention that the model does not have."""

    code = "no_such_part"

    @classmethod
    def layer(cls, wanted: int, count: int) -> NoSuchPart:
        title = _("There is no layer {wanted}.").format(wanted=wanted)
        said = ngettext(
            "The model has {count} layer; they are counted from 0.",
            "The model has {count} layers; they are counted from 0.", count,
        )  # fmt: skip
        return cls(title, said.format(count=count), _("Choose a layer from 0 to {last}.").format(last=count - 1))

    @classmethod
    def head(cls, wanted: int, count: int) -> NoSuchPart:
        title = _("There is no head {wanted}.").format(wanted=wanted)
        said = ngettext(
            "A layer has {count} head; they are counted from 0.",
            "A layer has {count} heads; they are counted from 0.", count,
        )  # fmt: skip
        return cls(title, said.format(count=count), _("Choose a head from 0 to {last}.").format(last=count - 1))

    @classmethod
    def kind(cls, wanted: str, there: tuple[str, ...]) -> NoSuchPart:
        return cls(
            _("This model has no attention of the kind “{kind}”.").format(kind=wanted),
            _("It has {kinds}.").format(kinds=", ".join(there)),
            _("Choose one of these."),
        )


class InspectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be looked at while a model reads a text.

    `layer` and `head` are counted from 0; None is the mean of all. `kind` says whose attention, None the one that tells
    most: that of a target on its source, else that of a text on itself. `target` is what an encoder-decoder is taken to
    write of the text; None lets it write, at most `target_tokens`. `alternatives` of each place are told.
    """

    text: str
    layer: int | None = None
    head: int | None = None
    kind: AttentionKind | None = None
    target: str | None = None
    target_tokens: int = 32
    alternatives: int = 3


class Guess(msgspec.Struct, frozen=True):
    """A token with its probability."""

    id: int
    text: str
    probability: float


class Place(msgspec.Struct, frozen=True):
    """A token of the text, how likely it was given those before it (an encoder: all of them), and what else was.

    `probability` is None where nothing stands before it, or where the model scores no tokens.
    """

    id: int
    text: str
    probability: float | None
    alternatives: tuple[Guess, ...]


class LensLayer(msgspec.Struct, frozen=True):
    """What the model would say after a layer, were it the last: the likeliest tokens at each place. -1: the embedding.

    After nostalgebraist, "interpreting GPT: the logit lens", 2020.
    """

    layer: int
    places: tuple[tuple[Guess, ...], ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was seen. `weights` (T, S) are those of `rows`, which look, on `columns`; each row sums to 1.

    `entropy` (L, H) is the mean over the rows, of every layer and head of that kind. `places` and `lens` are of the
    text that the model writes, or of the one that it reads where it only encodes.
    """

    kind: AttentionKind
    layer: int | None
    head: int | None
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32]
    entropy: NDArray[np.float32]
    places: tuple[Place, ...]
    lens: tuple[LensLayer, ...]
    notes: tuple[str, ...] = ()
