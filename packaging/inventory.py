"""Lists what is in a bundle and whose it is: names, versions, licences and their texts. Changes nothing.

What the bundle itself says (metadata of Python packages, names of libraries) is asked first; for libraries of the
system, Debian's own records.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

from bundle_checks import native_files

_COMMON = Path("/usr/share/common-licenses")
_SHORT = re.compile(r"^(Apache|MIT|BSD|LGPL|GPL|MPL|ISC|PSF|Python|Zlib|0BSD|CC0)", re.IGNORECASE)
_SPDX = {
    "Apache Software License": "Apache-2.0", "MIT License": "MIT", "BSD License": "BSD-3-Clause",
    "Apache License 2.0": "Apache-2.0", "BSD-3": "BSD-3-Clause", "Apache 2.0": "Apache-2.0",
}  # fmt: skip
_MIT = """Copyright (c) {holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
# The licences of what is linked; Debian's records also name those of tests, tools and manuals.
_OF_LIBRARIES = {
    "libbz2": "bzip2-1.0.6", "libexpat": "MIT", "libffi": "MIT", "libgomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "liblzma": "0BSD", "libsqlite3": "blessing", "libssl": "Apache-2.0", "libuuid": "BSD-3-Clause", "libxcb": "X11",
    "libxkbcommon": "MIT", "libzstd": "BSD-3-Clause", "zlib1g": "Zlib",
}  # fmt: skip
# Which of Debian's common texts a licence needs; LGPL-3 is an addition to GPL-3.
_COMMON_TEXTS = {
    "Apache-2.0": ("Apache-2.0",), "LGPL-3": ("LGPL-3", "GPL-3"), "GPL-3": ("GPL-3",), "MPL-2.0": ("MPL-2.0",),
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Something of others in the bundle. `url` is its package URL, `texts` are licence texts, each with a heading."""

    name: str
    version: str
    licence: str
    url: str
    kind: str = "library"
    texts: tuple[tuple[str, str], ...] = ()


def parts(tree: Path) -> list[Part]:
    """Returns everything of others in the bundle, by name."""
    found = [*_python_packages(tree), *_system_libraries(tree), _python(), *_data(tree)]
    return sorted(found, key=lambda part: part.name.lower())


def _python_packages(tree: Path) -> Iterator[Part]:
    for folder in sorted((tree / "_internal").glob("*.dist-info")):
        metadata = Parser().parsestr((folder / "METADATA").read_text(encoding="utf-8"), headersonly=True)
        name, version = str(metadata["Name"]), str(metadata["Version"])
        if name != "quern":
            classifiers = metadata.get_all("Classifier", [])
            licence = licence_of(classifiers, metadata["License-Expression"], metadata["License"])
            holder = str(metadata["Author"] or metadata["Author-email"] or f"the authors of {name}")
            url = f"pkg:pypi/{name.lower().replace('_', '-')}@{version.replace('+', '%2B')}"
            yield Part(name, version, licence, url, texts=tuple(_texts(folder, licence, holder)))


def licence_of(classifiers: list[str], expression: str | None, written: str | None) -> str:
    """Returns the licence's short name: the expression, a short field, or the classifier's words."""
    if expression:
        return expression
    if written and "\n" not in written.strip() and _SHORT.match(written.strip()):
        return _SPDX.get(written.strip(), written.strip())
    words = [line.rsplit(" :: ", 1)[-1] for line in classifiers if line.startswith("License :: ")]
    return _SPDX.get(words[0], words[0]) if words else "NOASSERTION"


def _texts(folder: Path, licence: str, holder: str) -> Iterator[tuple[str, str]]:
    own = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in ("METADATA", "RECORD")]
    for path in own:
        yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace")
    if not own:
        yield from common_texts(licence, holder)


def common_texts(licence: str, holder: str) -> Iterator[tuple[str, str]]:
    """Yields the texts of a licence whose package brings none."""
    if licence == "MIT":
        yield "MIT", _MIT.format(holder=holder)
    for name in dict.fromkeys(text for known, texts in _COMMON_TEXTS.items() if known in licence for text in texts):
        if (_COMMON / name).is_file():
            yield name, (_COMMON / name).read_text(encoding="utf-8")


def _system_libraries(tree: Path) -> Iterator[Part]:
    """Yields the Debian packages that the bundle's libraries of the system were taken from."""
    names = {file.name.rsplit("/", 1)[-1] for file in native_files(tree) if file.name.count("/") == 1}
    names = {name for name in names if not name.startswith("libpython")}  # CPython is listed as itself
    for package in sorted(set(filter(None, map(_package_of, names)))):
        version = _said("dpkg-query", "-W", "-f", "${Version}", package)
        file = Path("/usr/share/doc") / package.split(":")[0] / "copyright"
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        licence = next((name for start, name in _OF_LIBRARIES.items() if package.startswith(start)), "NOASSERTION")
        url = f"pkg:deb/debian/{package.split(':')[0]}@{version.replace('+', '%2B').replace('~', '%7E')}"
        texts = (("copyright", text),) if text else ()
        yield Part(package.split(":")[0], version, licence, url, texts=texts)


def _package_of(library: str) -> str:
    owners = _said("dpkg", "-S", f"*/{library}").splitlines()
    return owners[0].split(": ")[0].split(",")[0] if owners else ""


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # not a Debian system
        return ""


def _python() -> Part:
    version = platform.python_version()
    file = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    texts = (("LICENSE.txt", file.read_text(encoding="utf-8")),) if file.is_file() else ()
    return Part("CPython", version, "PSF-2.0", f"pkg:generic/cpython@{version}", texts=texts)


def _data(tree: Path) -> Iterator[Part]:
    resources = tree / "_internal" / "resources"
    apache = tuple(common_texts("Apache-2.0", ""))
    for model in sorted((resources / "models").glob("*.gguf")):
        yield Part(model.stem, "1", "Apache-2.0", f"pkg:generic/{model.stem}@1", "machine-learning-model", apache)
    if (resources / "fonts" / "wqy-microhei.ttc").is_file():
        name = "WenQuanYi Micro Hei"
        notice = (resources / "fonts" / "copyright").read_text(encoding="utf-8")
        yield Part(name, "0.2.0-beta", "Apache-2.0", "pkg:generic/wqy-microhei@0.2.0-beta", "file",
                   (("copyright", notice), *apache))  # fmt: skip


def licence_file(found: list[Part], version: str) -> str:
    """Returns the text of the file with everybody's licences; the same text is printed once."""
    lines = [f"What others made, in Quern {version}", "", "Quern itself is under the MIT licence, in the file LICENSE."]
    lines += ["", *(f"  {part.name} {part.version}: {part.licence}" for part in found)]
    shown: dict[str, str] = {}
    for part in found:
        lines += ["", "=" * 100, f"{part.name} {part.version}", f"Licence: {part.licence}"]
        for heading, text in part.texts:
            where = f"{part.name}, {heading}"
            lines += ["", f"--- {heading}"]
            lines.append(f"The same as: {shown[text]}" if text in shown else text.rstrip())
            shown.setdefault(text, where)
    return "\n".join(lines) + "\n"
