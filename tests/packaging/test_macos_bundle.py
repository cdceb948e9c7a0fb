"""The macOS application's description, and the order in which it is signed and wrapped."""

from __future__ import annotations

import plistlib
from pathlib import Path

import pytest

import macos_bundle


@pytest.fixture
def application(tmp_path: Path) -> Path:
    bundle = tmp_path / "Quern.app"
    for name in ("MacOS/quern", "Frameworks/torch/lib/libtorch.dylib", "Frameworks/deep/er/_c.so", "Info.plist",
                 "Resources/starter.gguf"):  # fmt: skip
        file = bundle / "Contents" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    (bundle / "Contents" / "Resources" / "libtorch.dylib").symlink_to("../Frameworks/torch/lib/libtorch.dylib")
    return bundle


def test_the_description_is_a_property_list_that_offers_quern_for_gguf_files() -> None:
    told = plistlib.loads(plistlib.dumps(macos_bundle.info_plist("0.1.0")))

    (kind,) = told["CFBundleDocumentTypes"]
    (type_of_file,) = told["UTImportedTypeDeclarations"]
    assert kind["LSItemContentTypes"] == [type_of_file["UTTypeIdentifier"]]
    assert kind["LSHandlerRank"] == "Alternate"
    assert type_of_file["UTTypeTagSpecification"]["public.filename-extension"] == ["gguf"]
    assert told["CFBundleShortVersionString"] == "0.1.0"


def test_the_rights_it_asks_for_are_a_property_list_of_two() -> None:
    rights = plistlib.loads(macos_bundle.ENTITLEMENTS.read_bytes())

    assert set(rights) == {
        "com.apple.security.cs.allow-unsigned-executable-memory", "com.apple.security.cs.disable-library-validation",
    }  # fmt: skip


def test_what_lies_inside_is_signed_before_what_holds_it(application: Path) -> None:
    order = [str(path.relative_to(application.parent)) for path in macos_bundle.signing_order(application)]

    assert order[-1] == "Quern.app"
    assert order.index("Quern.app/Contents/Frameworks/deep/er/_c.so") < order.index("Quern.app/Contents/MacOS/quern")
    assert not [name for name in order if "Resources" in name]  # a link is signed by what it leads to


def test_without_a_certificate_nothing_is_sent_to_apple(application: Path) -> None:
    commands = list(macos_bundle.commands(application, Path("Quern.dmg"), environ={}))

    assert {command[0] for command in commands} == {"codesign", "hdiutil"}
    assert all(command[3] == "-" for command in commands if "--sign" in command)
    assert not [command for command in commands if "--timestamp" in command]


def test_with_a_certificate_it_is_hardened_notarised_and_the_ticket_stapled(application: Path) -> None:
    environ = {"QUERN_SIGN_AS": "Developer ID Application: X", "QUERN_NOTARY_PROFILE": "quern"}

    commands = list(macos_bundle.commands(application, Path("Quern.dmg"), environ=environ))

    signed = [command for command in commands if "--sign" in command and "Quern.dmg" not in command]
    assert all("runtime" in command for command in signed)
    with_rights = [command[-1] for command in signed if "--entitlements" in command]
    assert with_rights == [str(application / "Contents/MacOS/quern"), str(application)]
    submitted, stapled = (index for index, command in enumerate(commands) if command[0] == "xcrun")
    assert commands[submitted][2] == "submit"
    assert commands[stapled][1:3] == ["stapler", "staple"]
    assert submitted > next(index for index, command in enumerate(commands) if command[0] == "hdiutil")


def test_a_folder_without_a_description_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert macos_bundle.main([str(tmp_path), "--dry-run"]) == 2
    assert "Info.plist" in capsys.readouterr().err
