"""What Quern is, over the window: version, build, engines and licences, to read and to copy. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QWidget

from desktop.controls.buttons import Button
from desktop.controls.text_card import TextCard
from runtime.text import _

_MOST = (560, 520)


class AboutCard(TextCard):
    """Shows what `work` returns, which runs in a thread."""

    def __init__(self, work: Callable[[], str], licences: Path | None, show_file: Callable[[Path], object],
                 parent: QWidget) -> None:  # fmt: skip
        """`licences` is the file of all licence texts, which `show_file` opens the folder of."""
        self.show_licences = Button(_("Show the licence texts"), icon="folder")
        note = _("Nothing goes to the network unless you ask for it.")
        super().__init__(_("About Quern"), note, work, parent, most=_MOST, more=self.show_licences)
        self.show_licences.setVisible(licences is not None)
        if licences is not None:
            self.show_licences.clicked.connect(lambda: (self.close(), show_file(licences)))
