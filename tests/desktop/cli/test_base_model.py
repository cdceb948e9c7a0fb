"""A real model without a chat template, on the command line."""

from __future__ import annotations

import json

import gemma
from command_line import Run


def test_chat_says_what_to_do_and_complete_does_it(run: Run):
    path = str(gemma.model_file())
    refused = run("chat", path, "-p", "hi")
    assert (refused.code, refused.out) == (2, "")
    assert "no chat template" in refused.err
    assert "quern complete" in refused.err

    done = run("complete", path, "-p", "1, 2, 3, 4, 5, 6,", "--max-tokens", "6", "--temperature", "0")
    assert done.code == 0
    assert done.out.startswith(" 7, 8")


def test_its_tokens_are_told_without_loading_it(run: Run):
    result = run("tokenize", str(gemma.model_file()), "<start_of_turn>𓀀", "--special", "--json")
    assert json.loads(result.out)["ids"][0] == 105
    assert json.loads(result.out)["pieces"] == ["<start_of_turn>", *["\ufffd"] * 4]
