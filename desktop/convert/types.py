"""The types that the window offers, with what to expect of each in words. The command line knows all of them."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.text import N_


@dataclass(frozen=True, slots=True)
class OfferedType:
    """One type: its name, and what to expect of it."""

    name: str
    words: str


OFFERED = (
    OfferedType("F16", N_("Half precision: as good as the original, twice the size of Q8_0")),
    OfferedType("BF16", N_("Half precision with the range of the original")),
    OfferedType("F32", N_("Full precision: for measuring, not for use")),
    OfferedType("Q8_0", N_("8 bits: no difference that anybody notices")),
    OfferedType("Q6_K", N_("6 bits: practically the original")),
    OfferedType("Q5_K_M", N_("5 bits: very close to the original")),
    OfferedType("Q4_K_M", N_("4 bits: the usual choice, a small loss")),
    OfferedType("Q4_0", N_("4 bits, simple and quick: a clear loss in small models")),
    OfferedType("IQ4_XS", N_("4 bits, smallest of its kind: a small loss, slower on a processor")),
    OfferedType("Q3_K_M", N_("3 bits: a clear loss")),
    OfferedType("Q2_K", N_("2 bits: only for very large models")),
)
USUAL = "Q4_K_M"


def type_named(name: str) -> OfferedType:
    """Returns a type of the table. Raises StopIteration for another name."""
    return next(kind for kind in OFFERED if kind.name == name)
