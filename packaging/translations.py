"""Keeps the translations in step with the sources: extracts the texts, merges them, compiles the catalogues.

    python packaging/translations.py --write    after a text changed
    python packaging/translations.py --check    what `make check` runs: says what is stale, missing or broken
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "resources" / "translations"
TEMPLATE = FOLDER / "quern.pot"
SOURCES = ("desktop", "runtime", "convert")
KEYWORDS = {"_": None, "N_": None, "ngettext": (1, 2)}
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def extracted() -> Catalog:
    """Returns every text of the sources, sorted, without places: they would change with every line."""
    catalog = Catalog(project="Quern", charset="utf-8")
    for folder in SOURCES:
        for _file, _line, text, comments, context in extract_from_dir(
            ROOT / folder, [("**.py", "python")], keywords=KEYWORDS, comment_tags=("Translators:",)
        ):
            catalog.add(text, None, auto_comments=comments, context=context)
    return catalog


def catalogues() -> list[Path]:
    """Returns the translated catalogues' sources."""
    return sorted(FOLDER.glob("*/LC_MESSAGES/quern.po"))


def load(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parent.parent.name)


def as_po(catalog: Catalog) -> bytes:
    """Returns a catalogue as text that depends on nothing but its messages."""
    out = io.BytesIO()
    write_po(out, catalog, sort_output=True, omit_header=True, no_location=True, ignore_obsolete=True, width=120)
    head = b'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
    if catalog.locale is not None:
        head += f'"Language: {catalog.locale}\\n"\n"Plural-Forms: {catalog.plural_forms}\\n"\n'.encode()
    return head + b"\n" + out.getvalue()


def compiled(catalog: Catalog) -> bytes:
    """Returns the machine form. Its header holds no date, so that the same texts give the same bytes."""
    plain = Catalog(locale=catalog.locale, charset="utf-8")
    plain.mime_headers = [
        ("Content-Type", "text/plain; charset=utf-8"), ("Plural-Forms", catalog.plural_forms)
    ]  # fmt: skip
    for message in catalog:
        if message.id and message.string:
            plain.add(message.id, message.string, context=message.context)
    out = io.BytesIO()
    write_mo(out, _Dateless(plain))
    return out.getvalue()


class _Dateless:
    """A catalogue whose header message is only what gettext needs to read it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __iter__(self) -> Iterator[Message]:
        header = f"Content-Type: text/plain; charset=utf-8\nPlural-Forms: {self._catalog.plural_forms}\n"
        yield Message("", string=header)
        yield from sorted((message for message in self._catalog if message.id), key=lambda message: str(message.id))

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


def write() -> None:
    """Brings template, catalogues and machine forms up to date; new texts stay untranslated until someone does."""
    template = extracted()
    TEMPLATE.parent.mkdir(parents=True, exist_ok=True)
    TEMPLATE.write_bytes(as_po(template))
    for path in catalogues():
        catalog = load(path)
        catalog.update(template, no_fuzzy_matching=True)
        path.write_bytes(as_po(catalog))
        path.with_suffix(".mo").write_bytes(compiled(catalog))


def problems() -> list[str]:
    """Returns a sentence for everything that is stale, missing or would break where it is shown."""
    template = extracted()
    found = []
    if not TEMPLATE.exists() or TEMPLATE.read_bytes() != as_po(template):
        found.append(f"{TEMPLATE.relative_to(ROOT)} is stale: run “python packaging/translations.py --write”")
    for path in catalogues():
        found += [f"{path.relative_to(ROOT)}: {problem}" for problem in _problems_of(path, template)]
    return found


def _problems_of(path: Path, template: Catalog) -> Iterator[str]:
    catalog = load(path)
    machine = path.with_suffix(".mo")
    if not machine.exists() or machine.read_bytes() != compiled(catalog):
        yield "its machine form is stale"
    for message in template:
        if message.id:
            yield from _faults(message, catalog.get(message.id, message.context))


def _faults(wanted: Message, found: Message | None) -> Iterator[str]:
    key = wanted.id if isinstance(wanted.id, str) else wanted.id[0]
    strings = [] if found is None else [found.string] if isinstance(found.string, str) else list(found.string)
    if not strings or not all(strings):
        yield f"not translated: {key!r}"
    elif found is not None and found.fuzzy:
        yield f"marked as uncertain: {key!r}"
    elif any(set(_PLACEHOLDER.findall(text)) - set(_PLACEHOLDER.findall(str(wanted.id))) for text in strings):
        yield f"has a placeholder that the text does not have: {key!r}"
    elif isinstance(wanted.id, str) and set(_PLACEHOLDER.findall(key)) - set(_PLACEHOLDER.findall(strings[0])):
        yield f"lacks a placeholder: {key!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="bring everything up to date")
    parser.add_argument("--check", action="store_true", help="only say what is wrong")
    if parser.parse_args().write:
        write()
    found = problems()
    sys.stderr.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
