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
_NO_LANGUAGE = ("C", "POSIX")
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
    """Returns the key in `LANGUAGES` nearest to what the system is set to; English where there is none.

    The order is GNU gettext's: LANGUAGE, a list, comes before the others, but not in the plain "C" locale. The first
    language of the list that we have is taken.
    """
    tags = [os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)]
    tag = tags[0] if tags else locale.getlocale()[0] or ""
    if tag.split(".")[0] in _NO_LANGUAGE:
        return "en"
    wanted = [*os.environ.get("LANGUAGE", "").split(":"), tag]
    return next((key for key in map(_nearest, wanted) if key), "en")


def _nearest(tag: str) -> str:
    """Returns the key for a language tag, empty where we do not have that language."""
    code = tag.replace("-", "_").split(".")[0]
    if code in LANGUAGES:
        return code
    family = code.replace(" ", "_").split("_")[0].lower()
    # Traditional-script readers are better served by Simplified Chinese than by English.
    family = {"chinese": "zh"}.get(family, family)  # Windows: "Chinese (Simplified)_China"
    return next((key for key in LANGUAGES if key.split("_")[0] == family), "")
