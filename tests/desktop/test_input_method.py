"""Which input method Qt is told to use, for what a session says and has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from desktop.input_method import changes, choose_input_method

BUNDLE = {"ibus", "compose", "qtvirtualkeyboard"}
PORTAL = {"QT_IM_MODULES": "ibus;compose", "IBUS_USE_PORTAL": "1"}
PLAIN = {"QT_IM_MODULES": "ibus;compose"}
FCITX = {"XMODIFIERS": "@im=fcitx", "GTK_IM_MODULE": "fcitx"}


@pytest.mark.parametrize(
    ("environment", "has_ibus", "set_to"),
    [
        ({}, False, {}),
        ({"QT_IM_MODULE": "fcitx"}, False, PORTAL),
        ({"QT_IM_MODULE": "fcitx5", **FCITX}, True, PORTAL),
        (FCITX, False, PORTAL),
        ({"GTK_IM_MODULE": "fcitx"}, False, PORTAL),
        ({"QT_IM_MODULE": "ibus", **FCITX}, False, PORTAL),
        ({"QT_IM_MODULE": "fcitx", "WAYLAND_DISPLAY": "wayland-0"}, False, PORTAL),
        ({"QT_IM_MODULES": "fcitx;ibus", **FCITX}, False, PORTAL),
        ({"QT_IM_MODULE": "fcitx", "IBUS_USE_PORTAL": "0"}, False, {**PORTAL, "IBUS_USE_PORTAL": "0"}),
        ({"QT_IM_MODULE": "ibus"}, True, PLAIN),
        ({"XMODIFIERS": "@im=ibus"}, True, PLAIN),
        ({**FCITX, "WAYLAND_DISPLAY": "wayland-0"}, False, {}),
        ({**FCITX, "QT_IM_MODULE": "compose"}, False, {}),
        ({**FCITX, "QT_IM_MODULES": "wayland;fcitx;ibus"}, False, {}),
        ({"XMODIFIERS": "@im=none"}, False, {}),
    ],
)
def test_the_input_method_of_the_session_is_reached(
    environment: dict[str, str], has_ibus: bool, set_to: dict[str, str]
) -> None:
    assert changes(environment, plugins=BUNDLE, has_ibus=has_ibus) == set_to


@pytest.mark.parametrize("plugins", [{*BUNDLE, "fcitx5"}, {"compose"}])
def test_a_plugin_of_its_own_is_left_to_qt_and_a_missing_one_is_not_asked_for(plugins: set[str]) -> None:
    assert changes({"QT_IM_MODULE": "fcitx", **FCITX}, plugins=plugins, has_ibus=False) == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="input methods of Linux")
def test_plugins_are_found_where_qt_looks(tmp_path: Path) -> None:
    environment = {"QT_IM_MODULE": "fcitx", "PATH": ""}
    choose_input_method(environment)
    assert environment["QT_IM_MODULES"] == "ibus;compose"
    (tmp_path / "platforminputcontexts").mkdir()
    (tmp_path / "platforminputcontexts" / "libfcitx5platforminputcontextplugin.so").touch()
    own = {"QT_IM_MODULE": "fcitx", "QT_PLUGIN_PATH": str(tmp_path), "PATH": ""}
    choose_input_method(own)
    assert "QT_IM_MODULES" not in own
