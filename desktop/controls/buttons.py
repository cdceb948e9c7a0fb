"""Buttons and labels in our look. They take their colours from the theme, again whenever it changes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QFontMetrics, QIcon, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QWidget,
)

from desktop import icons
from desktop.theme import Size, Space, current_theme

LINK_INSET = Space.TINY + 1
"""Pixels from the edge of a link button to its words: what stands under other words begins so much before them."""
_RETINT = (QEvent.Type.StyleChange, QEvent.Type.DevicePixelRatioChange)


def repolish(widget: QWidget) -> None:
    """Lets the stylesheet look at a changed property. Before the first polish that would lose the widget's own font."""
    if widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):
        widget.style().polish(widget)


class IconButton(QToolButton):
    """A square button with one of our drawings; `label` is its accessible name and its tooltip."""

    def __init__(self, name: str, label: str, parent: QWidget | None = None, *, tone: str = "quiet") -> None:
        super().__init__(parent)
        self._name, self._tone = name, tone
        self._tinted: tuple[object, ...] = ()
        self.setIconSize(QSize(Size.ICON, Size.ICON))
        self.setFixedSize(Size.BUTTON, Size.BUTTON)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.describe(label)
        self._tint()

    def describe(self, label: str, shortcut: QKeySequence | None = None) -> None:
        """Sets what the button says of itself."""
        self.setAccessibleName(label)
        keys = shortcut.toString(QKeySequence.SequenceFormat.NativeText) if shortcut else ""
        self.setToolTip(f"{label}  {keys}" if keys else label)

    def draw(self, name: str, *, tone: str | None = None) -> None:
        """Shows another drawing in the same place and size."""
        self._name, self._tone = name, tone or self._tone
        self._tint()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in _RETINT:
            self._tint()

    def _tint(self) -> None:
        theme = current_theme()
        wanted = (self._name, self._tone, theme.name, self.devicePixelRatioF())
        if wanted != self._tinted:  # styles change for many reasons, colours for few
            self._tinted = wanted
            self.setIcon(icons.icon(self._name, theme, colour=getattr(theme, self._tone)))


class Button(QPushButton):
    """A button with words. `kind` is "", "primary", "plain" or "link"; the drawing before the words is optional."""

    def __init__(self, text: str, parent: QWidget | None = None, *, kind: str = "", icon: str = "") -> None:
        super().__init__(text, parent)
        self._icon_name = icon
        self._tinted: tuple[object, ...] = ()
        self.setProperty("kind", kind)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setIconSize(QSize(Size.ICON, Size.ICON))
        self._tint()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in _RETINT:
            self._tint()

    def _tint(self) -> None:
        theme = current_theme()
        wanted = (self._icon_name, self.property("kind"), theme.name, self.devicePixelRatioF())
        if self._icon_name and wanted != self._tinted:
            self._tinted = wanted
            colour = theme.on_accent if self.property("kind") == "primary" else theme.quiet
            self.setIcon(icons.icon(self._icon_name, theme, colour=colour))


class Words(QLabel):
    """Plain text that wraps; never read as markup. `tone` names a colour: "", "quiet", "good", "caution", "bad"."""

    def __init__(self, text: str = "", parent: QWidget | None = None, *, tone: str = "", wrap: bool = True) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        self.setText(text)
        self.setProperty("tone", tone)

    def set_tone(self, tone: str) -> None:
        """Changes the colour."""
        if self.property("tone") != tone:
            self.setProperty("tone", tone)
            repolish(self)


class ElidedWords(QLabel):
    """One line of plain text that ends in an ellipsis where the room ends; the whole text is its tooltip."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._whole = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.set_whole(text)

    def set_whole(self, text: str) -> None:
        """Sets the text; line breaks become spaces."""
        self._whole = " ".join(text.split())
        self.setAccessibleName(self._whole)
        self._fit()

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit()

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self.font())
        return QSize(metrics.horizontalAdvance(self._whole) + Space.TINY, metrics.height())

    def _fit(self) -> None:
        shown = QFontMetrics(self.font()).elidedText(self._whole, Qt.TextElideMode.ElideRight, max(self.width(), 1))
        self.setText(shown)
        self.setToolTip("" if shown == self._whole else self._whole)


class Choice(QComboBox):
    """A drop-down in our look. The wheel scrolls the panel around it instead of changing the value by accident."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)

    def sizeHint(self) -> QSize:
        """Leaves the widest entry the room that its text is not drawn in, so that it is not cut."""
        return super().sizeHint() + QSize(Space.SMALL, 0)

    def minimumSizeHint(self) -> QSize:
        return super().minimumSizeHint() + QSize(Space.SMALL, 0)

    def wheelEvent(self, event: object) -> None:
        event.ignore()  # type: ignore[attr-defined]

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(self.style().ComplexControl.CC_ComboBox, option)
        room = self.style().subControlRect(
            self.style().ComplexControl.CC_ComboBox, option, self.style().SubControl.SC_ComboBoxEditField, self
        ).width()  # fmt: skip
        option.currentText = self.fontMetrics().elidedText(
            self.currentText(), Qt.TextElideMode.ElideRight, room - Space.TINY
        )
        painter.drawControl(self.style().ControlElement.CE_ComboBoxLabel, option)
        self._draw_arrow(painter)

    def _draw_arrow(self, painter: QPainter) -> None:
        side = Size.ICON - Space.TINY
        theme = current_theme()
        colour = theme.quiet if self.isEnabled() else theme.disabled
        picture = icons.pixmap("chevron_down", colour, size=side, ratio=self.devicePixelRatioF())
        mirrored = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        left = Space.TINY if mirrored else self.width() - side - Space.TINY
        painter.drawPixmap(left, (self.height() - side) // 2, picture)


class SearchField(QLineEdit):
    """One line to search with; `words` names it and stands in it while it is empty. Esc empties it."""

    def __init__(self, words: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPlaceholderText(words)
        self.setAccessibleName(words)
        self._lens = self.addAction(self._icon(), QLineEdit.ActionPosition.LeadingPosition)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in _RETINT and hasattr(self, "_lens"):
            self._lens.setIcon(self._icon())

    def _icon(self) -> QIcon:
        return icons.icon("search", current_theme(), colour=current_theme().quiet)
