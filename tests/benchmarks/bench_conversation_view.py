"""How the cost of a token grows with the answer, and how long a long chat takes to open.

    python tests/benchmarks/bench_conversation_view.py [TOKENS]

Prints processor milliseconds per batch of four tokens at token 1,000 and at the end, and their ratio. Only the ratios
mean something on another machine; the target is 1.5 at token 20,000.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from PySide6.QtWidgets import QApplication

from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from desktop.theme import LIGHT
from runtime.messages import Role

ANSWER = (
    "Some **words** in a paragraph with `code`.\n\n```py\ndef f(x):\n    return x + 1\n```\n\n"
    "| a | b | c |\n|---|:-:|--:|\n| one | two | `3` |\n| four | five | **6** |\n\n1. one\n2. two\n   - three\n\n"
)
ANSWERS = {
    "tables and code": ANSWER * 400,
    "one code block": "```py\n" + "    value = compute(1, 2)  # note\n" * 3000,
    "one paragraph": "The quick brown fox jumps over the lazy dog. " * 2000,
    "one list": "- an item with *some* words in it\n" * 2500,
    "Chinese": "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。" * 1200,
}
_TOKEN = 4  # characters
_BATCH = 4  # tokens shown at once, as at 100 a second


def history(count: int) -> list[ChatItem]:
    """Returns a chat of `count` messages."""
    return [
        ChatItem(id=str(number), role=(Role.USER, Role.ASSISTANT)[number % 2], text=ANSWER * 2)
        for number in range(count)
    ]


def shown(count: int) -> tuple[ConversationView, MessageListModel]:
    """Returns a view of a chat, at rest."""
    model = MessageListModel()
    view = ConversationView(model, theme=LIGHT)
    view.resize(900, 900)
    view.show()
    model.set_items(history(count))
    for _ in range(10):
        QApplication.processEvents()
    return view, model


def milliseconds(work: Callable[[], object]) -> float:
    """Returns the processor time of `work`."""
    started = time.process_time()
    work()
    return 1000 * (time.process_time() - started)


def stream(text: str, tokens: int) -> list[float]:
    """Streams an answer into a chat of 300 messages; returns the cost of each batch."""
    view, model = shown(300)
    model.add(ChatItem(id="new", role=Role.ASSISTANT, state=ItemState.STREAMING))
    costs = []
    for start in range(0, min(len(text), tokens * _TOKEN), _BATCH * _TOKEN):
        model.append_text("new", text[start : start + _BATCH * _TOKEN])
        costs.append(milliseconds(lambda: (view._flush(), view.viewport().repaint())))
    view.close()
    view.deleteLater()
    return costs


def main(tokens: int) -> None:
    """Prints a line for each kind of answer, and one for opening a chat of 2,000 messages."""
    application = QApplication([])
    for name, text in ANSWERS.items():
        costs = stream(text, tokens)
        early = sum(costs[200:300]) / 100
        late = sum(costs[-100:]) / 100
        figures = f"{early:6.2f} ms {late:6.2f} ms  ratio {late / early:.2f}  most {max(costs):.0f} ms"
        sys.stdout.write(f"{name:16} {figures}\n")
    model = MessageListModel()
    view = ConversationView(model, theme=LIGHT)
    view.resize(900, 900)
    view.show()
    chat = history(2000)
    opening = milliseconds(lambda: (model.set_items(chat), view.viewport().repaint()))
    sys.stdout.write(f"opening 2,000 messages {opening:.0f} ms\n")
    application.quit()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
