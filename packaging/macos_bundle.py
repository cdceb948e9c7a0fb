"""What makes the frozen folder a macOS application: its Info.plist, the order of signing, and the disk image.

quern.spec takes the Info.plist from here. `python packaging/macos_bundle.py Quern.app --output Quern.dmg` signs and
wraps it, on a Mac; `--dry-run` prints the commands anywhere. Signing needs a certificate: without QUERN_SIGN_AS the
application is signed "ad hoc", which runs on the machine that made it, and on others after a person has allowed it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from console import Console, SetUpError

ROOT = Path(__file__).resolve().parent.parent
ENTITLEMENTS = Path(__file__).parent / "macos" / "entitlements.plist"
IDENTIFIER = "app.quern.Quern"
_OLDEST = "13.0"  # what the wheels of Qt 6.11 and of torch ask for
_NATIVE = (".so", ".dylib")
_AD_HOC = "-"


def info_plist(version: str) -> dict[str, Any]:
    """Returns the application's Info.plist. It opens .gguf files, without taking them from another program."""
    gguf = "app.quern.gguf"
    return {
        "CFBundleName": "Quern",
        "CFBundleDisplayName": "Quern",
        "CFBundleIdentifier": IDENTIFIER,
        "CFBundleExecutable": "quern",
        "CFBundleShortVersionString": version,
        "CFBundleVersion": version,
        "CFBundleDevelopmentRegion": "en",
        "CFBundleLocalizations": ["en", "zh_CN"],
        "LSApplicationCategoryType": "public.app-category.productivity",
        "LSMinimumSystemVersion": _OLDEST,
        "NSHighResolutionCapable": True,
        "NSRequiresAquaSystemAppearance": False,  # dark where the system is
        "NSHumanReadableCopyright": "MIT",
        "CFBundleDocumentTypes": [{
            "CFBundleTypeName": "Language model (GGUF)",
            "CFBundleTypeRole": "Viewer",
            "LSHandlerRank": "Alternate",
            "LSItemContentTypes": [gguf],
        }],
        "UTImportedTypeDeclarations": [{
            "UTTypeIdentifier": gguf,
            "UTTypeDescription": "Language model (GGUF)",
            "UTTypeConformsTo": ["public.data"],
            "UTTypeTagSpecification": {"public.filename-extension": ["gguf"]},
        }],
    }  # fmt: skip


def signing_order(application: Path) -> list[Path]:
    """Returns what is signed, innermost first: libraries, programs beside the main one, and the application itself."""
    inside = [path for path in application.rglob("*") if path.is_file() and not path.is_symlink()]
    native = [path for path in inside if path.suffix in _NATIVE or path.parent.name == "MacOS"]
    return [*sorted(native, key=lambda path: (-len(path.parts), str(path))), application]


def commands(application: Path, image: Path, *, environ: Mapping[str, str] = os.environ) -> Iterator[list[str]]:
    """Yields the commands that sign `application`, wrap it in the disk image `image`, and have Apple notarise it.

    QUERN_SIGN_AS names the certificate (“Developer ID Application: …”); QUERN_NOTARY_PROFILE the credentials stored by
    `xcrun notarytool store-credentials`. Without the second one nothing is sent anywhere.
    """
    identity = environ.get("QUERN_SIGN_AS", "") or _AD_HOC
    hardened = [] if identity == _AD_HOC else ["--options", "runtime", "--timestamp"]
    for path in signing_order(application):
        rights = ["--entitlements", str(ENTITLEMENTS)] if path == application or path.parent.name == "MacOS" else []
        yield ["codesign", "--force", "--sign", identity, *hardened, *rights, str(path)]
    yield ["codesign", "--verify", "--deep", "--strict", str(application)]
    yield ["hdiutil", "create", "-volname", "Quern", "-srcfolder", str(application), "-fs", "HFS+", "-format", "ULFO",
           "-ov", str(image)]  # fmt: skip
    if identity != _AD_HOC:
        yield ["codesign", "--force", "--sign", identity, "--timestamp", str(image)]
    if profile := environ.get("QUERN_NOTARY_PROFILE", ""):
        yield ["xcrun", "notarytool", "submit", str(image), "--keychain-profile", profile, "--wait"]
        yield ["xcrun", "stapler", "staple", str(image)]
        yield ["spctl", "--assess", "--type", "open", "--context", "context:primary-signature", str(image)]


def main(words: Sequence[str]) -> int:
    """Signs and wraps the application; returns the exit status."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    parser = argparse.ArgumentParser(prog="macos_bundle.py", description=__doc__)
    parser.add_argument("application", type=Path, help="Quern.app, which package.py made")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / f"Quern-{version}.dmg")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    options = parser.parse_args(words)
    console = Console(ROOT / "build" / "macos_bundle.log")
    try:
        _make(options.application, options.output, console, dry_run=options.dry_run)
    except SetUpError as error:
        console.say(str(error))
        return 2
    return 0


def _make(application: Path, image: Path, console: Console, *, dry_run: bool) -> None:
    if not (application / "Contents" / "Info.plist").is_file():
        raise SetUpError(f"{application} is not a macOS application: it has no Contents/Info.plist.")
    if not dry_run:
        console.begin_log()
        image.parent.mkdir(parents=True, exist_ok=True)
    for command in commands(application, image):
        if dry_run:
            console.say(shlex.join(command))
        else:
            console.run(command, failure=f"{command[0]} failed.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
