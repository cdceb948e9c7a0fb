"""Provides the font that Linux packages carry, for desktops without Chinese, Japanese and Korean ones.

WenQuanYi Micro Hei: all three scripts in one face, beside Latin, Greek and Cyrillic, made for screens, in 5 MB (1.6 MB
packed), under the Apache License 2.0. Noto Sans CJK has rarer characters and several weights, and is 19 MB a weight;
where a system has it, it is preferred. Windows and macOS bring fonts of their own.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from console import Console, SetUpError

FILE = "wqy-microhei.ttc"
SHA256 = "2420e8078af796b19a3f6ef13de527a1a91c1e7171eea115926c614ced1009b3"
_PACKAGE = "fonts-wqy-microhei"
_PLACE = f"usr/share/fonts/truetype/wqy/{FILE}"
_NOTICE = f"usr/share/doc/{_PACKAGE}/copyright"


def provide(folder: Path, *, cache: Path, console: Console) -> Path | None:
    """Copies the font and its notice into `folder` and returns its path; None on systems that need none.

    Raises SetUpError.
    """
    if sys.platform != "linux":
        return None
    kept, notice = cache / FILE, cache / "font-copyright"
    if not _is_right(kept) or not notice.is_file():
        root = Path("/") if _is_right(Path("/", _PLACE)) and Path("/", _NOTICE).is_file() else _fetched(cache, console)
        shutil.copyfile(root / _PLACE, kept)
        shutil.copyfile(root / _NOTICE, notice)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(notice, folder / "copyright")
    return Path(shutil.copyfile(kept, folder / FILE))


def _is_right(file: Path) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == SHA256


def _fetched(cache: Path, console: Console) -> Path:
    """Fetches Debian's package, unpacks it below `cache` without installing it, and returns that folder."""
    part = cache / "font.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    failure = f"The font cannot be had. Install the package {_PACKAGE} (wqy-microhei), or put {FILE} at {cache / FILE}."
    with console.step("Fetching the font WenQuanYi Micro Hei", "2 MB"):
        console.run(["apt-get", "download", _PACKAGE], failure=failure, cwd=part)
        (package,) = part.glob("*.deb")
        console.run(["dpkg-deb", "-x", str(package), str(part)], failure=failure)
    if not _is_right(part / _PLACE):
        raise SetUpError(f"{_PACKAGE} holds another {FILE} than the one that Quern was tried with. {failure}")
    return part
