"""Runs `quern chat` with a fake engine, for tests that sit at its terminal: chat_child.py MODEL [ANSWER …]."""

from __future__ import annotations

import sys

from desktop.cli.main import run
from fake_engine import FakeEngine
from runtime import engines


def main(model: str, *answers: str) -> int:
    engine = FakeEngine(list(answers))
    engines.open_engine = lambda *_args, **_options: engine
    return run(["chat", model])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
