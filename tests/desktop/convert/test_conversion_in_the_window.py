"""The real window over real conversions: verified, measured, cancelled, in line, chatted with, and closed meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from runtime.gguf_header import read_header
from runtime.saved_settings import SavedSettings

ROOT = Path(__file__).resolve().parents[3]
# Plays what a person does: `play` yields what to wait for, and is looked at every few milliseconds.
DRIVER = """
import json, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from desktop import app
from desktop.convert.types import OFFERED
from desktop.job import JobState

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
opening = app.Opening()

def begin(page, recipe):
    page.table.selectRow([kind.name for kind in OFFERED].index(recipe))
    page.target.setText(str(folder / f"{recipe}.gguf"))
    page.start.click()
    return page.cards[0]

def play():
    window, parts = opening.application.window, opening.application.parts
    window.pages.turn_to("convert")
    page = window.pages.convert
    page.choose(str(source))
    yield lambda: page.types.plan("F32") is not None

    cancelled, measured, waiting = (begin(page, recipe) for recipe in ("F16", "Q4_0", "Q8_0"))
    states = [str(card.conversion.state) for card in (cancelled, measured, waiting)]
    yield lambda: cancelled.conversion.phase == "verify_progress"
    cancelled.stop.click()
    waiting.stop.click()
    yield lambda: not cancelled.conversion.active
    phases = []
    yield lambda: phases.append(measured.conversion.phase) or not measured.conversion.active
    quality = measured.quality
    yield dict(
        states=states, cancelled=str(cancelled.conversion.state), words=cancelled._line(),
        waiting=str(waiting.conversion.state), measured=str(measured.conversion.state), done=measured._line(),
        phases=list(dict.fromkeys(phases)), rows=quality._grid.rowCount(), verdict=quality._verdict.text(),
        shown=[quality.isVisible(), quality._chart.isVisible(), measured.chat.isVisible()],
        bars=quality._chart.accessibleName(),
    )
    measured.chat.click()
    yield lambda: parts.client.info is not None and parts.client.info.path == str(folder / "Q4_0.gguf")
    window.composing.send("Hello")
    yield lambda: parts.items.rowCount() == 2 and not parts.session.busy
    yield dict(page=window.pages.page, answer=str(parts.items.items()[1].state))

    begin(page, "Q8_0")
    yield lambda: parts.jobs.active and parts.jobs.active[0].phase
    opening.shell.close()
    yield dict(asked=window.notice.isVisible(), open=opening.shell.isVisible())
    opening.shell.close()

def go_on():
    global wanted
    while True:
        if callable(wanted) and not wanted():
            return
        wanted = next(steps, None)
        if isinstance(wanted, dict):
            print(json.dumps(wanted), flush=True)
        elif wanted is None:
            ticker.stop()
            return

wanted, steps, ticker = None, play(), QTimer(interval=10)
ticker.timeout.connect(go_on)

def start():
    opening.application.parts.client.loaded.connect(lambda _info: ticker.isActive() or ticker.start())

opening.shell.furnished.connect(start)
raise SystemExit(opening.run())
"""


@pytest.mark.timeout(300)
def test_a_conversion_is_followed_from_its_beginning_to_a_chat_with_its_result(
    quern_home: Path, tmp_path: Path
) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "model.gguf", n_ctx=512)
    folder = tmp_path / "out"
    folder.mkdir()
    quern_home.mkdir()
    settings = SavedSettings.read(quern_home / "settings.json")
    settings = settings.with_layer("app", {"model": str(source)}).with_layer("sampling", {"max_tokens": 8})
    settings.write(quern_home / "settings.json")

    code, told, err = play(quern_home, source, folder)

    assert code == 0, err
    converted, chatted, closing = told
    assert converted["states"] == ["running", "waiting", "waiting"]
    assert (converted["cancelled"], converted["words"]) == ("stopped", "Stopped. Nothing was written.")
    assert converted["waiting"] == "stopped"
    assert (converted["measured"], converted["shown"]) == ("done", [True, True, True])
    assert {"write_progress", "verify_progress", "measure_progress"} <= set(converted["phases"])
    assert "Checked: every tensor is what it should be" in converted["done"]
    assert "predictions" in converted["verdict"]
    assert converted["rows"] >= 8
    assert converted["bars"].startswith("mean ")
    assert chatted == {"page": "chat", "answer": "cut_length"}  # the limit of the settings
    assert closing == {"asked": True, "open": True}
    assert [path.name for path in folder.iterdir()] == ["Q4_0.gguf"], "what was stopped left something"
    assert "quern.quality_card" in read_header(folder / "Q4_0.gguf").metadata


def play(home: Path, source: Path, folder: Path) -> tuple[int, list[dict[str, Any]], str]:
    environment = {**os.environ, "QUERN_HOME": str(home), "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(source), str(folder)], env=environment, cwd=ROOT, capture_output=True,
        text=True, timeout=280,
    )  # fmt: skip
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr
