"""A picture of attention: a square for each pair of tokens, the darker the more the row's token looks at the column's.

As PNG, with dotted letters, or as SVG, whose letters are those of whoever looks at it. Knows no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from desktop.cli.layout import cut
from desktop.cli.png import LETTER_HEIGHT, Colour, Image, text_width
from runtime.text import _

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# From paper to ink; light for little, so that the eye goes to where the attention lies.
_SHADES: tuple[Colour, ...] = (
    (247, 244, 236), (240, 213, 168), (224, 150, 96), (176, 78, 76), (98, 38, 84), (28, 16, 46),
)  # fmt: skip
_PAPER, _INK, _FAINT, _LINE = (255, 255, 255), (52, 48, 60), (128, 122, 134), (226, 221, 212)
_LARGEST_SIDE = 1200  # pixels of the squares
_LONGEST_LABEL = 18  # letters
_MARGIN, _GAP, _SCALE = 20, 8, 2
_BAR_HEIGHT = 12


@dataclass(frozen=True)
class Layout:
    """Where things stand, in pixels. `step` says that every so many-th token has a label."""

    cell: int
    step: int
    left: int
    top: int
    width: int
    height: int

    @property
    def gap(self) -> int:
        """Pixels between squares."""
        return 1 if self.cell >= 8 else 0

    @property
    def side(self) -> int:
        """Pixels of a square."""
        return self.cell - self.gap


def layout(rows: Sequence[str], columns: Sequence[str], title: str) -> Layout:
    """Returns the places for squares as large as fit."""
    cell = max(2, min(28, _LARGEST_SIDE // max(len(rows), len(columns), 1)))
    step = -(-(LETTER_HEIGHT * _SCALE + 4) // cell)
    left = _MARGIN + max(map(_label_width, rows), default=0) + _GAP
    above = max(map(_label_width, columns), default=0) + _GAP
    top = _MARGIN + LETTER_HEIGHT * _SCALE + 2 * _GAP + above
    bottom = 3 * _GAP + _BAR_HEIGHT + LETTER_HEIGHT * _SCALE + _MARGIN
    width = max(left + cell * len(columns), _MARGIN + text_width(title, _SCALE), left + 220) + _MARGIN
    return Layout(cell, step, left, top, width, top + cell * len(rows) + bottom)


def _label_width(label: str) -> int:
    return text_width(cut(label, _LONGEST_LABEL), _SCALE)


def shade(weight: float) -> Colour:
    """Returns the colour of a weight from 0 to 1. Its root is what is shaded: most weights are small."""
    place = max(0.0, min(1.0, weight)) ** 0.5 * (len(_SHADES) - 1)
    at = min(int(place), len(_SHADES) - 2)
    low, high, part = _SHADES[at], _SHADES[at + 1], place - at
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def as_png(title: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.float32]) -> bytes:
    """Returns the picture of weights (T, S) as a PNG file's content."""
    place = layout(rows, columns, title)
    image = Image(place.width, place.height, _PAPER)
    image.text(_MARGIN, _MARGIN, title, _INK, scale=_SCALE)
    half = LETTER_HEIGHT * _SCALE // 2
    for at, label in _labelled(rows, place):
        x = place.left - _GAP - text_width(label, _SCALE)
        image.text(x, place.top + at * place.cell + place.cell // 2 - half, label, _INK, scale=_SCALE)
    for at, label in _labelled(columns, place):
        x = place.left + at * place.cell + place.cell // 2 - half
        image.text(x, place.top - _GAP, label, _INK, scale=_SCALE, upwards=True)
    width, height = (place.cell * len(labels) + 2 - place.gap for labels in (columns, rows))
    image.fill(place.left - 1, place.top - 1, width, height, _LINE)
    for x, y, weight in _squares(weights, place):
        image.fill(x, y, place.side, place.side, shade(weight))
    _png_scale(image, place, place.top + place.cell * len(rows) + 2 * _GAP)
    return image.png()


def _png_scale(image: Image, place: Layout, y: int) -> None:
    for step in range(200):
        image.fill(place.left + step, y, 1, _BAR_HEIGHT, shade(step / 199))
    image.text(place.left, y + _BAR_HEIGHT + _GAP, "0", _FAINT, scale=_SCALE)
    image.text(place.left + 200 - text_width("1", _SCALE), y + _BAR_HEIGHT + _GAP, "1", _FAINT, scale=_SCALE)


def as_svg(title: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.float32]) -> bytes:
    """Returns the picture of weights (T, S) as an SVG file's content."""
    place = layout(rows, columns, title)
    return ("\n".join(_svg(title, rows, columns, weights, place)) + "\n").encode()


def _svg(
    title: str, rows: Sequence[str], columns: Sequence[str], weights: NDArray[np.float32], place: Layout
) -> Iterator[str]:
    size = f'width="{place.width}" height="{place.height}" viewBox="0 0 {place.width} {place.height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="14">'
    yield f'<rect width="100%" height="100%" fill="{_hex(_PAPER)}"/>'
    yield f'<text x="{_MARGIN}" y="{_MARGIN + 14}" font-size="16" fill="{_hex(_INK)}">{_xml(title)}</text>'
    middle = place.cell // 2
    for at, label in _labelled(rows, place):
        y = place.top + at * place.cell + middle
        yield (f'<text x="{place.left - _GAP}" y="{y}" text-anchor="end" dominant-baseline="central" '
               f'fill="{_hex(_INK)}">{_xml(label)}</text>')  # fmt: skip
    for at, label in _labelled(columns, place):
        x, y = place.left + at * place.cell + middle, place.top - _GAP
        yield (f'<text transform="translate({x} {y}) rotate(-90)" dominant-baseline="central" '
               f'fill="{_hex(_INK)}">{_xml(label)}</text>')  # fmt: skip
    for x, y, weight in _squares(weights, place):
        yield _rectangle(x, y, place.side, place.side, shade(weight), tip=f"{weight:.3f}")
    y = place.top + place.cell * len(rows) + 2 * _GAP
    for step in range(100):
        yield _rectangle(place.left + 2 * step, y, 2, _BAR_HEIGHT, shade(step / 99))
    for x, end in ((place.left, "0"), (place.left + 200, "1")):
        anchor = "start" if end == "0" else "end"
        yield f'<text x="{x}" y="{y + _BAR_HEIGHT + 18}" text-anchor="{anchor}" fill="{_hex(_FAINT)}">{end}</text>'
    yield "</svg>"


def _rectangle(x: int, y: int, width: int, height: int, colour: Colour, *, tip: str = "") -> str:
    start = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{_hex(colour)}"'
    return f"{start}><title>{tip}</title></rect>" if tip else f"{start}/>"


def _labelled(labels: Sequence[str], place: Layout) -> Iterator[tuple[int, str]]:
    for at in range(0, len(labels), place.step):
        yield at, cut(labels[at], _LONGEST_LABEL)


def _squares(weights: NDArray[np.float32], place: Layout) -> Iterator[tuple[int, int, float]]:
    """Yields each square's corner and weight."""
    for row, values in enumerate(weights.tolist()):
        for column, weight in enumerate(values):
            yield place.left + column * place.cell, place.top + row * place.cell, weight


def _hex(colour: Colour) -> str:
    return "#" + bytes(colour).hex()


def _xml(text: str) -> str:
    """Returns a text as SVG holds it: XML has no way to write control characters."""
    return escape("".join(character if character.isprintable() else "\ufffd" for character in text))


def visible(label: str) -> str:
    """Returns a token's text with its white space shown."""
    return label.replace("\n", "↵").replace("\t", "→").replace(" ", "·") or "∅"


def title_of(name: str, kind: str, layer: int | None, head: int | None) -> str:
    """Returns what a picture shows, in words."""
    kinds = {
        "encoder": _("attention of the encoder"), "self": _("attention on what was written"),
        "cross": _("attention on the source"),
    }  # fmt: skip
    where = _("mean of all layers") if layer is None else _("layer {number}").format(number=layer)
    which = _("mean of all heads") if head is None else _("head {number}").format(number=head)
    return f"{name}: {kinds[kind]}, {where}, {which}"
