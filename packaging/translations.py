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
from typing import cast

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
_STALE = "is stale: run “python packaging/translations.py --write”"


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
    """Returns a translated catalogue. Its folder says which language it is, whatever the file's head claims."""
    with path.open("rb") as file:
        catalog = read_po(file)
    catalog.locale = path.parent.parent.name
    return catalog


def head(catalog: Catalog) -> str:
    """Returns a catalogue's head: what gettext needs to read it and no dates, so that equal texts give equal files."""
    lines = ["MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: 8bit"]
    if catalog.locale is not None:
        lines += [f"Language: {catalog.locale_identifier}", f"Plural-Forms: {catalog.plural_forms}"]
    return "".join(f"{line}\n" for line in lines)


def as_po(catalog: Catalog) -> bytes:
    """Returns a catalogue as text that depends on nothing but its messages."""
    out = io.BytesIO()
    write_po(out, catalog, sort_output=True, omit_header=True, no_location=True, ignore_obsolete=True, width=120)
    lines = [f'"{line}\\n"\n' for line in head(catalog).splitlines()]
    return "".join(('msgid ""\nmsgstr ""\n', *lines, "\n")).encode() + out.getvalue()


class _Headed:
    """A catalogue as it is compiled: our head in place of Babel's, which holds the time."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __iter__(self) -> Iterator[Message]:
        yield Message("", string=head(self._catalog))
        yield from (message for message in self._catalog if message.id)

    def __getattr__(self, name: str) -> object:
        return getattr(self._catalog, name)


def compiled(catalog: Catalog) -> bytes:
    """Returns the machine form, without the texts that are not translated or marked as uncertain."""
    out = io.BytesIO()
    write_mo(out, cast(Catalog, _Headed(catalog)))
    return out.getvalue()


def write() -> None:
    """Brings template, catalogues and machine forms up to date; new texts stay untranslated until someone does."""
    template = extracted()
    TEMPLATE.parent.mkdir(parents=True, exist_ok=True)
    TEMPLATE.write_bytes(as_po(template))
    for path in catalogues():
        catalog = updated(path, template)
        path.write_bytes(as_po(catalog))
        path.with_suffix(".mo").write_bytes(compiled(catalog))


def updated(path: Path, template: Catalog) -> Catalog:
    """Returns a catalogue with just the texts of the template, and the translations it has of them."""
    catalog = load(path)
    catalog.update(template, no_fuzzy_matching=True)
    return catalog


def problems() -> list[str]:
    """Returns a sentence for everything that is stale, missing or would break where it is shown."""
    template = extracted()
    found = []
    if not TEMPLATE.exists() or TEMPLATE.read_bytes() != as_po(template):
        found.append(f"{_shown(TEMPLATE)} {_STALE}")
    for path in catalogues():
        found += [f"{_shown(path)} {problem}" for problem in _problems_of(path, template)]
    return found


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _problems_of(path: Path, template: Catalog) -> Iterator[str]:
    catalog = updated(path, template)
    machine = path.with_suffix(".mo")
    if path.read_bytes() != as_po(catalog):
        yield _STALE
    if not machine.exists() or machine.read_bytes() != compiled(catalog):
        yield f"does not match {machine.name}: run “python packaging/translations.py --write”"
    for message in catalog:
        if message.id:
            yield from faults(message)


def faults(message: Message) -> Iterator[str]:
    """Yields what is wrong with one translation, as the end of a sentence that begins with its file."""
    key, *plural = _forms(message.id)
    strings = _forms(message.string)
    if not all(strings):
        yield f"does not translate {key!r}"
        return
    if message.fuzzy:
        yield f"marks as uncertain {key!r}"
    wanted = placeholders("".join((key, *plural)))
    for found in map(placeholders, strings):
        if wanted - found:
            yield f"lacks {' '.join(sorted(wanted - found))} in {key!r}"
        if found - wanted:
            yield f"has {' '.join(sorted(found - wanted))} too many in {key!r}"


def _forms(text: object) -> list[str]:
    """Returns the singular and the plurals of a text, or its only form; Babel has None for a new one."""
    return [str(form) for form in text] if isinstance(text, tuple | list) else [str(text or "")]


def placeholders(text: str) -> set[str]:
    """Returns the placeholders of a text as they are written, and every brace that belongs to none."""
    found = _PLACEHOLDER.findall(text)
    return {*found, *re.findall(r"[{}]", _PLACEHOLDER.sub("", text))}


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
