"""The words people read, in their language (gettext). Knows nothing about what is said.

`_("…")` translates now; `N_("…")` only marks a text for extraction, for tables that are read before the language is
known, and is translated with `_` where it is shown.
"""

from __future__ import annotations

import gettext
import locale
import os

import resources

LANGUAGES = {"en": "English", "zh_CN": "简体中文"}
_DOMAIN = "quern"
_translations: gettext.NullTranslations = gettext.NullTranslations()
_language = "en"


def N_(text: str) -> str:
    """Marks `text` for extraction and returns it unchanged."""
    return text


def _(text: str) -> str:
    """Returns `text` in the current language; the empty text stays empty (gettext would return its header)."""
    return _translations.gettext(text) if text else ""


def ngettext(singular: str, plural: str, n: int) -> str:
    """Returns the form of a counted text for `n` in the current language."""
    return _translations.ngettext(singular, plural, n)


def sentences(*parts: str) -> str:
    """Returns sentences one after another, without the empty ones; Chinese sets no space between them."""
    return ("" if _language == "zh_CN" else " ").join(filter(None, parts))


def language() -> str:
    """Returns the current language's key in `LANGUAGES`."""
    return _language


def set_language(wanted: str = "system") -> str:
    """Switches to a key of `LANGUAGES`, or to the system's language for "system"; returns the key in use."""
    global _translations, _language
    _language = wanted if wanted in LANGUAGES else system_language()
    _translations = gettext.translation(
        _DOMAIN, localedir=str(resources.path("translations")), languages=[_language], fallback=True
    )
    return _language


def system_language() -> str:
    """Returns the key in `LANGUAGES` nearest to what the system is set to; English where there is none."""
    for tag in (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE", "LANG")):
        if tag:
            return _nearest(tag.split(":")[0])
    return _nearest(locale.getlocale()[0] or "")


def _nearest(tag: str) -> str:
    code = tag.replace("-", "_").split(".")[0]
    if code in LANGUAGES:
        return code
    family = code.replace(" ", "_").split("_")[0].lower()
    # Traditional-script readers are better served by Simplified Chinese than by English.
    family = {"chinese": "zh"}.get(family, family)  # Windows: "Chinese (Simplified)_China"
    return next((key for key in LANGUAGES if key.split("_")[0] == family), "en")
