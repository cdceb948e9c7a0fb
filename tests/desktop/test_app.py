"""The application in processes of its own: what it loads, how it starts and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from desktop.platform_check import NoDisplay, PlatformLibraryMissing, check_platform

ROOT = Path(__file__).resolve().parent.parent.parent
# The window with a scripted engine; `step` is called when the model is ready.
DRIVER = """
import functools, json, os, sys
import scripted_engine
from PySide6.QtCore import QTimer
from desktop import app
import desktop.application as application

script = json.loads(os.environ["SCRIPT"])
application.EngineClient = functools.partial(
    application.EngineClient, command=lambda: scripted_engine.command(**script)
)
opening = app.Opening()

def say(**what):
    print(json.dumps(what), flush=True)

def begin():
    parts = opening.application.parts
    parts.client.loaded.connect(lambda _info: step(opening, parts))

opening.shell.furnished.connect(begin)
"""


def environment(home: Path, **script: Any) -> dict[str, str]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "support")))
    return {**os.environ, "QUERN_HOME": str(home), "PYTHONPATH": paths, "SCRIPT": json.dumps(script),
            "QT_QPA_PLATFORM": "offscreen"}  # fmt: skip


def start(home: Path, step: str, **script: Any) -> subprocess.Popen[str]:
    code = DRIVER + textwrap.dedent(step) + "\nraise SystemExit(opening.run())\n"
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment(home, **script), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err


def test_window_process_never_holds_torch_or_llama(quern_home: Path) -> None:
    step = """
    def step(opening, parts):
        opening.application.window.show_panel(True)
        opening.application.window.open_picker()
        maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
        paths = {line.split("/", 1)[1] for line in maps.splitlines() if "/" in line}
        say(modules=sorted(sys.modules), maps=sorted(paths))
        opening.shell.close()
    """
    code, said, _err = finished(start(quern_home, step))
    assert code == 0
    assert not {"torch", "llama_cpp", "numpy", "gguf", "safetensors"} & set(said[0]["modules"])
    assert not [path for path in said[0]["maps"] if any(name in path for name in ("libtorch", "libllama", "libggml"))]


def test_first_paint_comes_before_what_it_does_not_need(quern_home: Path) -> None:
    code = """
    import sys
    from desktop import app
    opening = app.Opening()
    opening.shell.painted.disconnect(opening.furnish)
    def painted():
        print(*sorted(sys.modules))
        opening.shell.close()
    opening.shell.painted.connect(painted)
    raise SystemExit(opening.run())
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment(quern_home), capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    loaded = set(run.stdout.split())
    assert "desktop.shell" in loaded
    late = {"sqlite3", "markdown_it", "pygments", "pyqtgraph", "rich", "desktop.main_window", "desktop.engine_client"}
    assert not late & loaded


def test_typing_goes_to_the_composer_from_the_start(quern_home: Path) -> None:
    step = """
    def step(opening, parts):
        edit = opening.application.window.composing.composer.edit
        say(focus=opening.shell.focusWidget() is edit)
        opening.shell.close()
    """
    _code, said, _err = finished(start(quern_home, step))
    assert said == [{"focus": True}]


@pytest.fixture
def hears_hangups() -> Iterator[None]:
    """Whatever runs the tests may have been started with `nohup`, which every child would inherit."""
    if os.name != "posix":
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.usefixtures("hears_hangups")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_signal_closes_the_window_and_leaves_no_child(quern_home: Path, number: str) -> None:
    step = """
    def step(opening, parts):
        parts.session.send("Tell me")
        parts.client.text.connect(lambda *_text: say(engine=parts.client.pid))
    """
    process = start(quern_home, step, endless=True, delay=0.2)
    assert process.stdout is not None
    engine = json.loads(process.stdout.readline())["engine"]
    process.send_signal(getattr(signal, number))
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert not psutil.pid_exists(engine)


@pytest.mark.parametrize(
    "script", [{}, {"endless": True, "delay": 0.05}, {"deaf": True, "endless": True, "immortal": True}]
)
def test_closing_leaves_no_child_even_a_deaf_one(quern_home: Path, script: dict[str, Any]) -> None:
    step = """
    def step(opening, parts):
        parts.session.send("Tell me")
        say(engine=parts.client.pid)
        QTimer.singleShot(300, opening.shell.close)
    """
    code, said, _err = finished(start(quern_home, step, **script))
    assert code == 0
    assert not psutil.pid_exists(said[0]["engine"])


def test_closing_while_a_model_loads_leaves_no_child(quern_home: Path) -> None:
    step = """
    def step(opening, parts): ...
    def begin_closing():
        client = opening.application.parts.client
        if client.state != "loading":
            QTimer.singleShot(50, begin_closing)
            return
        say(engine=client.pid)
        opening.shell.close()
    opening.shell.furnished.connect(begin_closing)
    """
    code, said, _err = finished(start(quern_home, step, load_seconds=60))
    assert code == 0
    assert said[0]["engine"]
    assert not psutil.pid_exists(said[0]["engine"])


def test_window_closed_before_it_was_furnished_ends(quern_home: Path) -> None:
    step = """
    def step(opening, parts): ...
    opening.shell.painted.disconnect()
    opening.shell.painted.connect(opening.shell.close)
    """
    code, _said, err = finished(start(quern_home, step))
    assert (code, err) == (0, "")


def test_bug_in_a_slot_is_shown_and_logged_and_the_window_lives(quern_home: Path) -> None:
    step = """
    def step(opening, parts):
        QTimer.singleShot(0, lambda: 1 / 0)
        QTimer.singleShot(200, report)
    def report():
        notice = opening.application.window.notice
        say(code=notice.code, cause=notice._cause.text(), details=notice._details.toPlainText())
        opening.shell.close()
    """
    code, said, _err = finished(start(quern_home, step))
    assert code == 0
    assert said[0]["code"] == "bug"
    assert "division by zero" in said[0]["cause"]
    assert "Traceback" in said[0]["details"]
    assert "ZeroDivisionError" in (quern_home / "logs" / "window.log").read_text()


def test_language_change_rebuilds_the_widgets_and_keeps_what_is_written(quern_home: Path) -> None:
    step = """
    from runtime.params import AppSettings
    from desktop.chat.composer import Draft
    def step(opening, parts):
        parts.session.send("Hello")
        soon = lambda *_what: QTimer.singleShot(100, lambda: change(opening.application, parts))
        parts.client.finished.connect(soon)
    def change(application, parts):
        application.window.composing.composer.set_draft(Draft("half a thought"))
        application.window.show_panel(True)
        older = application.window
        parts.live.set_values(AppSettings, language="zh_CN")
        report(application, older)
    def report(application, older):
        window = application.window
        if window is older:
            QTimer.singleShot(50, lambda: report(application, older))
            return
        say(new=window is not older, draft=window.composing.composer.draft.message, shown=window.isVisible(),
            panel=window.panel.isVisible(), words=window.sidebar.new_button.text(),
            state=window.header.status.standing.value, rows=opening.application.parts.items.rowCount())
        opening.shell.close()
    """
    code, said, _err = finished(start(quern_home, step))
    assert code == 0
    assert said[0]["words"] != "New chat"
    del said[0]["words"]
    kept = {"draft": "half a thought", "panel": True, "state": "ready", "rows": 2}
    assert said[0] == {"new": True, "shown": True, **kept}


def test_second_start_raises_the_first_window_and_opens_the_file_there(quern_home: Path) -> None:
    step = """
    import subprocess
    def step(opening, parts):
        parts.models.trouble.connect(lambda trouble: (say(title=trouble.error.title), opening.shell.close()))
        second = "import sys; from desktop import app; sys.exit(app.main(['/gone/other.gguf']))"
        global process
        process = subprocess.Popen([sys.executable, "-c", second])
    """
    code, said, _err = finished(start(quern_home, step))
    assert code == 0
    assert "other.gguf" in said[0]["title"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="displays of Linux")
def test_without_a_display_one_sentence_and_exit_code_2(quern_home: Path) -> None:
    bare = {name: value for name, value in environment(quern_home).items()
            if name not in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")}  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "desktop"], env=bare, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 2
    assert "there is no display" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="displays of Linux")
def test_missing_system_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from desktop import platform_check

    broken = tmp_path / "libqxcb.so"
    broken.write_bytes(b"not a library")
    monkeypatch.delenv("QT_QPA_PLATFORM")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(platform_check, "_xcb_plugin", lambda: broken)
    with pytest.raises(PlatformLibraryMissing) as failure:
        check_platform()
    assert "libqxcb.so" in failure.value.info.message
    assert "libxcb-cursor0" in failure.value.info.hint


def test_no_display_is_looked_for_where_the_platform_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    check_platform()
    if sys.platform.startswith("linux"):
        monkeypatch.delenv("QT_QPA_PLATFORM")
        with pytest.raises(NoDisplay):
            check_platform()


def test_another_theme_is_shown_when_all_of_it_is_there(quern_home: Path) -> None:
    step = """
    from PySide6.QtWidgets import QApplication
    from runtime.params import AppSettings
    def step(opening, parts):
        parts.live.set_values(AppSettings, theme="dark")
        say(hidden=not opening.shell.updatesEnabled())
        QTimer.singleShot(100, report)
    def report():
        if not opening.shell.updatesEnabled():
            QTimer.singleShot(50, report)
            return
        theme = opening.themes.theme
        sheet, window = QApplication.instance().styleSheet(), QApplication.instance().palette().window().color()
        say(dark=theme.dark, sheet=theme.accent.name() in sheet, palette=window == theme.window)
        opening.shell.close()
    """
    code, said, _err = finished(start(quern_home, step))
    assert code == 0
    assert said == [{"hidden": True}, {"dark": True, "sheet": True, "palette": True}]


TRAY = """
    import desktop.application as application
    from PySide6.QtWidgets import QSystemTrayIcon
    from runtime.params import AppSettings
    told = []
    QSystemTrayIcon.showMessage = lambda icon, title, words, *rest: told.append(words)
    application.Tray = functools.partial(application.Tray, available=lambda: AVAILABLE)
"""


def test_a_window_closed_into_the_tray_lives_on_and_tells_of_answers_until_quit(quern_home: Path) -> None:
    step = textwrap.dedent(TRAY.replace("AVAILABLE", "True")) + textwrap.dedent("""
    def step(opening, parts):
        parts.live.set_values(AppSettings, tray=True)
        parts.session.send("hello")
        opening.shell.close()
        say(visible=opening.shell.isVisible(), told=list(told))
        parts.session.answer_ended.connect(lambda *_what: QTimer.singleShot(50, ended))
    def ended():
        say(told=told[1:])
        opening.application.tray.quit_requested.emit()
    """)
    code, said, err = finished(start(quern_home, step, delay=0.05))
    assert code == 0, err
    assert said[0]["visible"] is False
    assert said[0]["told"] == ["Its window is here. To end Quern, choose Quit in this menu."]
    assert said[1]["told"] == ["The answer is finished."]


def test_without_a_tray_closing_ends_the_process_whatever_the_setting_says(quern_home: Path) -> None:
    step = textwrap.dedent(TRAY.replace("AVAILABLE", "False")) + textwrap.dedent("""
    def step(opening, parts):
        parts.live.set_values(AppSettings, tray=True)
        opening.shell.close()
        say(closed=True)
    """)
    code, said, err = finished(start(quern_home, step))
    assert (code, said) == (0, [{"closed": True}]), err


def test_a_file_that_macos_opens_with_the_running_window_is_loaded(quern_home: Path) -> None:
    step = """
    def step(opening, parts):
        from PySide6.QtCore import QCoreApplication
        from PySide6.QtGui import QFileOpenEvent

        opened = []
        opening.application.window.open_model = opened.append
        QCoreApplication.sendEvent(opening.qt, QFileOpenEvent("/models/a file.gguf"))
        say(opened=opened)
        opening.shell.close()
    """
    code, said, err = finished(start(quern_home, step))
    assert code == 0, err
    assert said == [{"opened": ["/models/a file.gguf"]}]


def test_a_file_that_came_before_the_window_stood_is_the_one_it_starts_with(quern_home: Path) -> None:
    step = """
    from PySide6.QtCore import QCoreApplication
    from PySide6.QtGui import QFileOpenEvent

    QCoreApplication.sendEvent(opening.qt, QFileOpenEvent("/models/early.gguf"))
    begun = []
    start_models = application.Application.start

    def started(self, path):
        begun.append(path)
        start_models(self, "")

    application.Application.start = started

    def step(opening, parts):
        say(begun=begun)
        opening.shell.close()
    """
    code, said, err = finished(start(quern_home, step))
    assert code == 0, err
    assert said == [{"begun": ["/models/early.gguf"]}]
