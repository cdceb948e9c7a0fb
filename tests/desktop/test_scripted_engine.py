"""The engine that plays a part goes with its window, as the real one does."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

import scripted_engine

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and sessions of Unix")


@pytest.mark.parametrize("question", [{"type": "count_tokens", "prompt": "a"}, {"type": "tokenize", "text": "a"}])
def test_an_engine_whose_window_is_gone_before_it_answers_ends(question: dict[str, str]) -> None:
    engine = subprocess.Popen(scripted_engine.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert engine.stdin is not None
    assert engine.stdout is not None
    try:
        engine.stdout.readline()
        engine.stdout.close()
        engine.stdin.write(json.dumps({**question, "id": 1}).encode() + b"\n")
        engine.stdin.close()
        assert engine.wait(120) == 0
    finally:
        engine.kill()
        engine.wait()
