"""Formulas drawn from their LaTeX source, in a thread of their own and only where one is looked at. Knows no layout.

ziamath turns the source into an SVG. It is imported with the first formula, needs no network and runs nothing. What it
cannot read stays as it was written. A drawing is a mask that takes any colour, so a change of theme draws nothing anew.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QImage, QPainter, QPixmap

from desktop.background import Background

_log = logging.getLogger(__name__)
_KEPT = 2000  # drawings
_TINTED = 300  # of them in a colour, ready to be painted
_WAITING = 300  # what was asked for last comes first; what was scrolled past long ago is asked for again when needed
_LONGEST = 2000  # characters; a longer one is shown as it was written
_LARGER = 1.15  # its letters are lower than those of the fonts around them
_DEEPEST = 60  # braces in braces
_REST_SECONDS = 0.05  # between two words to the window
_MARKS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_UNSEEN = re.compile(r"\\(?:label|tag\*?)\{[^{}]*\}|\\(?:nonumber|notag)\b")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{(equation|displaymath|math|multline)\*?\}")
_ALIGNED = re.compile(r"\\(begin|end)\{(align|alignat|eqnarray|gather|gathered|split)\*?\}")
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]")  # not in the formulas' font
_VIEW_BOX = re.compile(r'viewBox="(\S+) (\S+) (\S+) (\S+)"')


@dataclass(frozen=True, slots=True)
class FormulaKey:
    """A formula at a size: its source with its marks, pixels of the font, and the screen's pixel ratio."""

    source: str
    pixels: float
    ratio: float

    @property
    def display(self) -> bool:
        """True for a formula that stands on a line of its own."""
        return self.source.startswith(("$$", r"\[", r"\begin"))


@dataclass(slots=True)
class Drawing:
    """A drawn formula; lengths in device-independent pixels, measured from its baseline."""

    width: float
    ascent: float
    descent: float
    mask: QImage
    tinted: OrderedDict[str, QPixmap] = field(default_factory=OrderedDict)

    def pixmap(self, colour: QColor) -> QPixmap:
        """Returns the drawing in a colour."""
        name = colour.name()
        if name not in self.tinted:
            image = QImage(self.mask.size(), QImage.Format.Format_ARGB32_Premultiplied)
            image.fill(colour)
            image.setAlphaChannel(self.mask)
            image.setDevicePixelRatio(self.mask.devicePixelRatio())
            self.tinted[name] = QPixmap.fromImage(image)
            while len(self.tinted) > 2:  # the two themes
                self.tinted.popitem(last=False)
        return self.tinted[name]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawing in the place of a text from `start` to `end`, in its UTF-16 units."""

    start: int
    end: int
    drawing: Drawing
    scale: float = 1.0


class FormulaBook(QObject):
    """Answers at once with the drawings it has, and says when it has more."""

    ready = Signal()
    _drawn = Signal(object)  # {FormulaKey: Drawing | None}

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: OrderedDict[FormulaKey, Drawing | None] = OrderedDict()
        self._recent: OrderedDict[FormulaKey, Drawing] = OrderedDict()
        self._waiting: OrderedDict[FormulaKey, None] = OrderedDict()
        self._lock = threading.Lock()
        self._working = False
        self._background = Background(self)
        self._drawn.connect(self._take)

    def drawing(self, key: FormulaKey) -> Drawing | None:
        """Returns a formula's drawing; None while there is none yet, and for what cannot be drawn."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._use(key, self._known[key])
        if drawable(key.source):
            self._ask(key)
        return None

    def _use(self, key: FormulaKey, found: Drawing | None) -> Drawing | None:
        if found is not None:
            self._recent[key] = found
            self._recent.move_to_end(key)
            while len(self._recent) > _TINTED:
                self._recent.popitem(last=False)[1].tinted.clear()
        return found

    def is_known(self, key: FormulaKey) -> bool:
        """True where asking again gives the same answer."""
        return key in self._known or not drawable(key.source)

    def _ask(self, key: FormulaKey) -> None:
        with self._lock:
            self._waiting[key] = None
            self._waiting.move_to_end(key)
            while len(self._waiting) > _WAITING:
                self._waiting.popitem(last=False)
            starts, self._working = not self._working, True
        if starts:
            self._background.run(self._work, self._take)

    def _work(self) -> dict[FormulaKey, Drawing | None]:
        """Draws what waits, the newest first, and ends when nothing does; returns what it has not said yet."""
        done: dict[FormulaKey, Drawing | None] = {}
        said = time.monotonic()
        while (key := self._next()) is not None:
            done[key] = _drawn_or_none(key)
            if time.monotonic() - said > _REST_SECONDS:
                self._say(done)
                done, said = {}, time.monotonic()
        return done

    def _next(self) -> FormulaKey | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popitem()[0]
            self._working = False
            return None

    def _say(self, done: dict[FormulaKey, Drawing | None]) -> None:
        with contextlib.suppress(RuntimeError):  # the window was closed meanwhile
            self._drawn.emit(done)

    def _take(self, done: dict[FormulaKey, Drawing | None]) -> None:
        self._known.update(done)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        if done:
            self.ready.emit()


def drawable(source: str) -> bool:
    """False for what is shown as it was written without being tried."""
    if len(source) > _LONGEST or _WIDE.search(source):
        return False
    depth = deepest = 0
    for char in source:
        depth += (char == "{") - (char == "}")
        deepest = max(deepest, depth)
    return deepest <= _DEEPEST


def tex_of(source: str) -> str:
    """Returns a formula without its marks, and without what only numbers it."""
    text = source.strip()
    for begin, end in _MARKS:
        if text.startswith(begin):
            text = text[len(begin) :].rpartition(end)[0]
            break
    text = _ENVIRONMENT.sub("", _UNSEEN.sub("", text))
    return _ALIGNED.sub(r"\\\1{aligned}", text).strip()


def _drawn_or_none(key: FormulaKey) -> Drawing | None:
    try:
        return draw(key)
    except Exception as error:  # noqa: BLE001 - the library raises whatever a text it cannot read leads to
        _log.info("a formula is shown as it was written: %s", type(error).__name__)
        return None


def draw(key: FormulaKey) -> Drawing:
    """Draws a formula; in a thread of its own. Raises ValueError, and what ziamath raises, where it cannot be read."""
    import ziamath
    from ziamath.tex import tex2mml

    ziamath.config.svg2 = False  # plain paths, which Qt's SVG reads
    tex = tex_of(key.source)
    if not tex or "\\" in tex2mml(tex, inline=not key.display):
        raise ValueError("it holds a command that is not known")
    return _rendered(ziamath.Latex(tex, size=key.pixels * _LARGER, inline=not key.display).svg(), key.ratio)


def _rendered(svg: str, ratio: float) -> Drawing:
    from PySide6.QtSvg import QSvgRenderer

    found = _VIEW_BOX.search(svg)
    if found is None:
        raise ValueError("the drawing has no size")
    _left, top, width, height = (float(number) for number in found.groups())
    image = QImage(math.ceil(width * ratio), math.ceil(height * ratio), QImage.Format.Format_ARGB32_Premultiplied)
    if image.isNull():
        raise ValueError("the drawing is too large")
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(svg.encode()).render(painter, QRectF(0, 0, width * ratio, height * ratio))
    painter.end()
    mask = image.convertToFormat(QImage.Format.Format_Alpha8)
    mask.setDevicePixelRatio(ratio)
    return Drawing(width, -top, height + top, mask)
