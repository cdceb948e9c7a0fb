"""The longest single pieces of work in the window's thread: what a person would feel as a stutter.

    python tests/benchmarks/bench_responsiveness.py [--tokens 10000]

Every turn of the event loop is timed in the thread's own processor time, so that other work on the machine counts
little. The target is 50 ms for each: streaming 100 tokens a second into a chat of 300 messages; opening, searching and
zooming one of 2,000; many formulas; building the window; another theme; another language; the first opening of every
page, card and dialog; what fills the context of 2,000 messages.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from PySide6.QtWidgets import QApplication

from desktop.chat.find_in_chat import FindInChat
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from desktop.theme import DARK, LIGHT
from runtime.messages import Role

if TYPE_CHECKING:
    from desktop.main_window import MainWindow

TARGET_MS = 50
SECTIONS = ("Answer", "Expert sampling", "Graphics card")  # those with most rows
PAGES = ("notebook", "library", "convert")
ANSWER = (
    "Some **words** in a paragraph with `code` and $x^2$.\n\n```py\ndef f(x):\n    return x + 1\n```\n\n"
    "| a | b | c |\n|---|:-:|--:|\n| one | two | `3` |\n\n1. one\n2. two\n   - three\n\n"
)
FORMULA = "Since $x_{%d}^2 + \\frac{a}{y}$ holds,\n\n$$\\sum_{i=1}^{%d} i$$\n\n"
FORMULAS = "".join(FORMULA % (number, number) for number in range(400))
_BATCH = 16  # characters shown at once, as at 100 tokens a second
_LETTERS = 4  # in a token


class Turns:
    """Runs the event loop and keeps the longest turn, in milliseconds of this thread."""

    def __init__(self) -> None:
        self.longest = 0.0

    def timed(self, work: Callable[[], object]) -> None:
        started = time.thread_time()
        work()
        self.longest = max(self.longest, 1000 * (time.thread_time() - started))

    def steps(self, work: Iterator[None]) -> None:
        """Takes one step a turn."""
        while True:
            more: list[None] = []
            self.timed(lambda more=more: more.extend(islice(work, 1)))  # type: ignore[misc]
            self.run(0.05)
            if not more:
                return

    def run(self, seconds: float = 0.3, *, until: Callable[[], bool] = lambda: False) -> None:
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline and not until():
            self.timed(QApplication.processEvents)
            time.sleep(0.001)


class Reader:
    """A view of a chat."""

    def __init__(self, count: int, text: str = ANSWER * 2) -> None:
        self.model = MessageListModel()
        self.view = ConversationView(self.model, theme=LIGHT)
        self.view.resize(900, 900)
        self.view.show()
        Turns().run(0.2)
        roles = (Role.USER, Role.ASSISTANT)
        self.items = [ChatItem(id=str(n), role=roles[n % 2], text=text) for n in range(count)]

    def open(self) -> None:
        self.model.set_items(self.items)

    def close(self) -> None:
        self.view.close()
        self.view.deleteLater()


def stream(tokens: int) -> float:
    reader, turns = Reader(300), Turns()
    reader.open()
    Turns().run(0.5)
    reader.model.add(ChatItem(id="new", role=Role.ASSISTANT, state=ItemState.STREAMING))
    text = "<think>\n" + ANSWER * 8 + "\n</think>\n\n" + ANSWER * 400
    for start in range(0, tokens * _LETTERS, _BATCH):
        piece = text[start : start + _BATCH]
        turns.timed(lambda piece=piece: (reader.model.append_text("new", piece), reader.view._flush()))  # type: ignore[misc]
        turns.timed(QApplication.processEvents)
    turns.run(0.2)
    reader.close()
    return turns.longest


def open_long() -> float:
    reader, turns = Reader(2000), Turns()
    turns.timed(reader.open)
    turns.run(0.5)
    reader.close()
    return turns.longest


def find() -> float:
    reader, turns = Reader(2000), Turns()
    reader.open()
    Turns().run(0.5)
    find = FindInChat(reader.view, reader.model)
    turns.timed(find.open)
    turns.timed(lambda: find.finder.search("paragraph"))
    turns.run(60, until=lambda: not find.finder.searching)
    for _ in range(20):
        turns.timed(lambda: find.finder.step(-1))
        turns.run(0.02)
    reader.close()
    return turns.longest


def zoom() -> float:
    reader, turns = Reader(2000), Turns()
    reader.open()
    Turns().run(0.5)
    for percent in (110, 125, 150):
        turns.timed(lambda percent=percent: reader.view.set_zoom(percent))  # type: ignore[misc]
        turns.run(0.2)
    reader.close()
    return turns.longest


def formulas() -> float:
    reader, turns = Reader(2, FORMULAS), Turns()
    turns.timed(reader.open)
    bar = reader.view.verticalScrollBar()
    for part in range(12):
        turns.timed(lambda part=part: bar.setValue(bar.maximum() * part // 12))  # type: ignore[misc]
        turns.run(0.4)
    reader.close()
    return turns.longest


def window() -> dict[str, float]:
    """Returns what building the window, another theme and another language cost."""
    from desktop.language import speak
    from desktop.look import dress, dressing
    from desktop.main_window import MainWindow
    from desktop.shell import Shell
    from desktop.store.records import ChatRecord
    from window_kit import window_parts

    application = QApplication.instance()
    assert isinstance(application, QApplication)
    with window_parts() as parts:
        shell = Shell(parts.state)
        shell.show()
        Turns().run(0.2)
        figures: dict[str, float] = {}
        made: list[MainWindow] = []

        def built() -> Iterator[None]:
            made.append(MainWindow(parts, in_steps=True))
            yield from made[-1].steps
            shell.furnish(made[-1])

        turns = Turns()
        turns.steps(built())
        figures["building the window"] = turns.longest
        made[-1].show_panel(True)
        parts.store.create_chat(ChatRecord(id="one", title="A chat", updated=time.time()))
        parts.items.set_items(Reader(300).items)
        Turns().run(0.5)
        for theme in (DARK, LIGHT):
            turns = Turns()
            turns.timed(lambda theme=theme: made[-1].view.set_theme(theme))  # type: ignore[misc]
            shell.setUpdatesEnabled(False)
            turns.steps(dressing(application, theme))
            turns.timed(lambda: shell.setUpdatesEnabled(True))
            turns.run(0.5)
            figures[f"theme: {theme.name}"] = turns.longest
        turns = Turns()
        turns.timed(lambda: speak(application, "zh_CN"))
        turns.timed(lambda: dress(application, LIGHT))
        turns.steps(built())
        figures["language"] = turns.longest
        speak(application, "en")
        figures |= openings(made[-1])
        shell.close()
        shell.deleteLater()
        return figures


def ledger() -> dict[str, float]:
    """Returns what it costs to show what fills the context of a chat of 2,000 messages, and to work in it."""
    from desktop.main_window import MainWindow
    from desktop.store.records import ChatRecord, MessageRecord, OpenChat
    from window_kit import window_parts

    with window_parts() as parts:
        window = MainWindow(parts)
        window.resize(1280, 800)
        window.show()
        parts.models.start()
        Turns().run(20, until=lambda: parts.client.info is not None)
        roles = (Role.USER, Role.ASSISTANT)
        messages = tuple(
            MessageRecord(id=str(n), chat_id="long", parent_id=str(n - 1) if n else None, role=roles[n % 2],
                          content=ANSWER * 2, created=float(n))
            for n in range(2000)
        )  # fmt: skip
        parts.store.import_chat(OpenChat(chat=ChatRecord(id="long", leaf="1999"), messages=messages))
        parts.session.open("long")
        Turns().run(60, until=lambda: parts.items.rowCount() == len(messages))
        figures: dict[str, float] = {}
        work: dict[str, Callable[[], object]] = {
            "opening": lambda: window.show_ledger(True),
            "a pin": lambda: window.ledger.pin("40", True),
            "a draft": lambda: window.composing.composer.edit.setPlainText("more words " * 50),
            "going to a message": lambda: window.view.show_message("900"),
        }
        for name, what in work.items():
            turns = Turns()
            turns.timed(what)
            turns.run(3.0)
            figures[f"context of 2,000 messages: {name}"] = turns.longest
        panel = window.ledger.panel
        if panel is None or len(panel.ledger.entries) <= len(messages):
            raise SystemExit("the context was not measured")
        window.deleteLater()
        return figures


def unfold(window: MainWindow, title: str) -> None:
    """Opens a section of the settings with everything that is folded in it."""
    assert window.panel is not None
    section = window.panel.section(title)
    section.set_open(True)
    section.toggle_all()


def openings(window: MainWindow) -> dict[str, float]:
    """Returns what the first opening of each page, card and dialog costs."""
    from PySide6.QtWidgets import QWidget

    chat = lambda: window.sidebar.model.index(1, 0)  # noqa: E731 - the first row is a heading
    work: dict[str, Callable[[], object]] = {
        **{f"page: {name}": lambda name=name: window.pages.turn_to(name) for name in PAGES},  # type: ignore[misc]
        "page: a model's metadata": lambda: window.pages.library.do("details"),
        "page: back to the chat": lambda: window.pages.turn_to("chat"),
        "settings": lambda: window.show_panel(True),
        **{f"settings: {title}": lambda title=title: unfold(window, title) for title in SECTIONS},  # type: ignore[misc]
        "settings: a search": lambda: window.panel.search.setText("top"),  # type: ignore[union-attr]
        "card: models": window.open_picker,
        "card: palette": window.open_palette,
        "card: receipts": window.show_receipts,
        "card: diagnostics": window.show_diagnostics,
        "card: shortcuts": window.actions_by_name["shortcuts"].trigger,
        "menu of a chat": lambda: window.sidebar.menu_for(chat()).popup(window.mapToGlobal(window.pos())),
        "dialog: open a file": window.actions_by_name["open_file"].trigger,
    }
    figures = {}
    for name, opening in work.items():
        turns = Turns()
        turns.timed(opening)
        turns.run(1.0)
        figures[name] = turns.longest
        for top in QApplication.topLevelWidgets():
            if isinstance(top, QWidget) and top.isVisible() and top is not window.window():
                top.close()
        turns.run(0.2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["QUERN_HOME"] = home
        application = QApplication([])
        gc.disable()  # as in the application, which collects when nothing else is to be done
        from desktop.application import SOON_NEEDED

        for name in SOON_NEEDED:
            __import__(name)  # as the application does ahead of time
        say("streaming into 300 messages", stream(options.tokens))
        say("opening 2,000 messages", open_long())
        say("finding in 2,000 messages", find())
        say("a larger text in 2,000 messages", zoom())
        say("800 formulas", formulas())
        for name, longest in {**window(), **ledger()}.items():
            say(name, longest)
        application.quit()


def say(name: str, longest: float) -> None:
    sys.stdout.write(f"{name:44} {longest:6.0f} ms{'' if longest < TARGET_MS else '  too long'}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
