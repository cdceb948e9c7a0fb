"""What a long day asks of the whole window: the longest turn of its event loop in each task, and its memory.

    python tests/benchmarks/bench_daily_use.py [--seconds 10]

The real widgets, store and session, with an engine process that writes 100 tokens a second. A turn counts in the
window's own processor time; the targets are 50 ms for each, under a second until a chat of 2,000 messages is on the
screen, and 250 MB for the window's process.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import psutil
from PySide6.QtCore import QEventLoop, QMimeData, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from desktop.chat.header import Standing
from desktop.garbage import MainThreadGarbage
from desktop.main_window import MainWindow
from desktop.shell import Shell
from desktop.store.records import ChatRecord, MessageRecord, OpenChat, new_id
from loop_watch import LoopWatch
from runtime.messages import Role
from window_kit import window_parts

TARGET_MS, OPEN_MS, MEMORY_MB = 50, 1000, 250
ANSWER = (
    "Some **words** in a paragraph with `code` and $x^2$.\n\n```py\ndef f(x):\n    return x + 1\n```\n\n"
    "| a | b | c |\n|---|:-:|--:|\n| one | two | `3` |\n\n1. one\n2. two\n   - three\n\n"
)
PASTES = {
    "2 MB of text": "The quick brown fox jumps over the lazy dog.\n" * 45_000,
    "2 MB in one line": "word " * 400_000,
    "2 MB of Chinese": "春眠不觉晓，处处闻啼鸟。" * 58_000,
    "100,000 emoji": "\U0001f600" * 100_000,
    "NUL, broken characters": "a\0b\ud800c\r\n\u2028" * 100_000,
}


class Day:
    """One window and its clock."""

    def __init__(self, window: MainWindow) -> None:
        self.window, self.parts = window, window._parts
        self.watch = LoopWatch()

    @contextmanager
    def task(self, name: str, limit: float = TARGET_MS) -> Iterator[None]:
        """Says the longest turn of what is done inside."""
        self.run(0.3)
        self.watch.forget()
        yield
        self.run(1.2)
        say(name, self.watch.longest, limit, self.watch.where)

    def run(self, seconds: float) -> None:
        loop = QEventLoop()
        QTimer.singleShot(int(1000 * seconds), loop.quit)
        loop.exec()

    def until(self, reached: Callable[[], bool], seconds: float = 60) -> float:
        """Returns how long that took, in milliseconds. In a loop of its own, as turns are told apart only there."""
        started = time.perf_counter()
        while not reached() and time.perf_counter() - started < seconds:
            self.run(0.002)
        return 1000 * (time.perf_counter() - started)

    def import_chat(self, count: int) -> str:
        """Stores a chat of `count` messages and returns its id."""
        chat, roles = ChatRecord(id=new_id(), title=f"{count} messages"), (Role.USER, Role.ASSISTANT)
        messages: list[MessageRecord] = []
        for number in range(count):
            parent = messages[-1].id if messages else None
            messages.append(MessageRecord(id=new_id(), chat_id=chat.id, parent_id=parent, role=roles[number % 2],
                                          content=ANSWER * 2, created=float(number)))  # fmt: skip
        done: list[bool] = []
        whole = OpenChat(chat=ChatRecord(id=chat.id, title=chat.title, leaf=messages[-1].id), messages=tuple(messages))
        self.parts.store.import_chat(whole, lambda _done: done.append(True))
        self.until(lambda: bool(done))
        return chat.id

    def open_chat(self, chat_id: str, count: int) -> float:
        self.parts.session.open(chat_id)
        return self.until(lambda: self.parts.items.rowCount() == count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long an answer streams")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["QUERN_HOME"] = home
        application = QApplication([])
        __import__("markdown_it"), __import__("pygments.lexers")  # as the application does ahead of time
        with window_parts(reply=ANSWER * 400, endless=True, delay=0.0095) as parts:
            shell, window = Shell(parts.state), MainWindow(parts)
            shell.furnish(window)
            shell.show()
            day = Day(window)
            parts.models.start()
            day.until(lambda: window.header.status.standing is Standing.READY)
            garbage = MainThreadGarbage(application)
            garbage.settle()
            spend(day, options.seconds)
            day.watch.close()
            garbage.close()
            shell.close()
            shell.deleteLater()
        gc.collect()


def spend(day: Day, seconds: float) -> None:
    """Does what a person does in a day, and says the figures."""
    short, long = day.import_chat(300), day.import_chat(2000)
    edit, session = day.window.composing.composer.edit, day.parts.session
    with day.task("opening 2,000 messages"):
        taken = day.open_chat(long, 2000)
    say("  until they are there", taken, OPEN_MS)
    day.open_chat(short, 300)
    with day.task(f"{seconds:.0f} s of 100 tokens a second into 300 messages"):
        session.send("Tell me everything.")
        day.run(seconds)
        written = len(day.parts.items.items()[-1].text)
        session.stop()
        day.until(lambda: not session.busy)
    say("  characters written", written, sys.maxsize, unit="")
    for name, text in PASTES.items():
        with day.task(f"pasting {name}"):
            mime = QMimeData()
            mime.setText(text)
            day.watch.forget()
            edit.insertFromMimeData(mime)
        with day.task("  and 20 keys after it"):
            for letter in "twenty keys after it":
                QTest.keyClick(edit, letter)
                day.run(0.01)
        with day.task("  and taking it back"):
            for _ in range(3):
                QTest.keyClick(edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
                day.run(0.01)
        day.window.composing.composer.clear()
    say("the window's memory", psutil.Process().memory_full_info().uss / 1e6, MEMORY_MB, unit="MB")


def say(name: str, figure: float, limit: float, where: str = "", *, unit: str = "ms") -> None:
    over = f"  over {limit:.0f} {where}" if figure >= limit else ""
    sys.stdout.write(f"{name:50} {figure:8.0f} {unit}{over}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
