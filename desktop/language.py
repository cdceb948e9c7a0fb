"""The language of the window: our texts, and Qt's own ones (menus of text fields, file dialogs, names of keys)."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QTranslator

from runtime.text import set_language

_NAME = "Qt's own texts"


def speak(application: QCoreApplication, wanted: str) -> None:
    """Switches to a key of `runtime.text.LANGUAGES`, or to the system's language; what is shown already stays."""
    language = set_language(wanted)
    for older in application.findChildren(QTranslator, _NAME):
        application.removeTranslator(older)
        older.deleteLater()
    translator = QTranslator(application)
    translator.setObjectName(_NAME)
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    if language != "en" and translator.load(f"qtbase_{language}", folder):
        application.installTranslator(translator)
