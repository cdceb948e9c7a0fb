"""What a Linux desktop gets beside the program: entry, file type, icons, man page, completions."""

from __future__ import annotations

import configparser
import gzip
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import command_line_files
import draw_icons
from desktop.cli.commands import COMMANDS
from freezing import Build
from share_files import HERE, METAINFO, metainfo, packed

LINUX = HERE / "linux"
BUILD = Build("1.2.3", "", 1_700_000_000)


def _entry() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read(LINUX / "quern.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


def test_the_desktop_entry_opens_model_files() -> None:
    entry = _entry()
    assert entry["Exec"] == "quern %f"
    assert entry["MimeType"] == "application/x-gguf;"
    assert entry["Terminal"] == "false"
    lists = [value for key, value in entry.items() if key.startswith(("Categories", "Keywords", "MimeType"))]
    assert all(value.endswith(";") for value in lists)


def test_the_entry_and_the_window_have_one_name() -> None:
    source = (HERE.parent / "desktop" / "app.py").read_text(encoding="utf-8")
    assert 'setDesktopFileName("quern")' in source
    assert _entry()["StartupWMClass"] == "quern"


def test_the_file_type_is_known_by_its_name_and_its_first_bytes() -> None:
    spaces = {"m": "http://www.freedesktop.org/standards/shared-mime-info"}
    kind = ElementTree.parse(LINUX / "quern.xml").getroot().find("m:mime-type", spaces)
    assert kind is not None
    assert kind.get("type") == "application/x-gguf"
    assert kind.find("m:glob", spaces).get("pattern") == "*.gguf"  # type: ignore[union-attr]
    assert kind.find("m:magic/m:match", spaces).get("value") == "GGUF"  # type: ignore[union-attr]


def test_the_description_names_this_build() -> None:
    root = ElementTree.fromstring(metainfo(BUILD))
    release = root.find("releases/release")
    assert release is not None
    assert (release.get("version"), release.get("date")) == ("1.2.3", "2023-11-14")
    assert root.findtext("id") == METAINFO.removesuffix(".metainfo.xml")
    assert root.findtext("launchable") == "quern.desktop"


def test_icons_are_drawn_in_every_size(tmp_path: Path) -> None:
    command = [sys.executable, draw_icons.__file__, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"})
    for name, kind in draw_icons.ICONS.items():
        for side in draw_icons.SIDES:
            header = (tmp_path / f"{side}x{side}" / kind / f"{name}.png").read_bytes()[:24]
            assert header[:4] == b"\x89PNG"
            assert (int.from_bytes(header[16:20]), int.from_bytes(header[20:24])) == (side, side)
        assert (tmp_path / "scalable" / kind / f"{name}.svg").is_file()


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    command_line_files.main(folder, "1.2.3", "2023-11-14")
    return folder


def test_the_man_page_explains_every_command(words: Path) -> None:
    page = (words / "quern.1").read_text(encoding="utf-8")
    assert page.startswith('.TH QUERN 1 "2023-11-14" "Quern 1.2.3"')
    assert [name for name in COMMANDS if f".SS quern {name} " not in page] == []
    assert r"\-\-flash\-attention" in page
    commands = {line.split()[0] for line in page.splitlines() if line.startswith(".")}
    assert commands <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".I", ".br", ".nf", ".fi", ".RS", ".RE"}


def test_text_is_no_command_of_roff() -> None:
    assert command_line_files.escaped(".gguf and 'x") == r"\&.gguf and 'x"
    assert command_line_files.escaped("a\\n  --yes") == r"a\en \-\-yes"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(words: Path, shell: str) -> None:
    assert re.search(r"_QUERN_COMPLETE", (words / f"quern.{shell}").read_text(encoding="utf-8"))


def test_packed_files_tell_no_time() -> None:
    data = packed(b"man page")
    assert data == packed(b"man page")
    assert data[4:8] == bytes(4)
    assert gzip.decompress(data) == b"man page"
