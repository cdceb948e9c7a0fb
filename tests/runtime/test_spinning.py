"""Idle threads spin for a bounded time, long enough for the next product of matrices and the next token."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime.spinning import BETWEEN_PRODUCTS, BRIEFLY, bound_spinning


def test_the_persons_own_value_stays() -> None:
    environment = {"GOMP_SPINCOUNT": "5"}

    bound_spinning(environment)

    assert environment == {"GOMP_SPINCOUNT": "5", "KMP_BLOCKTIME": "1"}


def test_threads_spin_briefly_where_nothing_else_is_asked_for() -> None:
    environment: dict[str, str] = {}

    bound_spinning(environment)

    assert environment["GOMP_SPINCOUNT"] == str(BRIEFLY)


def test_what_llama_cpp_asks_for_gives_way_to_what_torch_needs_and_not_the_other_way_round() -> None:
    environment: dict[str, str] = {}

    bound_spinning(environment)
    bound_spinning(environment, iterations=BETWEEN_PRODUCTS)
    bound_spinning(environment)

    assert environment["GOMP_SPINCOUNT"] == str(BETWEEN_PRODUCTS)


@pytest.mark.parametrize(("given", "expected"), [({}, str(BETWEEN_PRODUCTS)), ({"GOMP_SPINCOUNT": "5"}, "5")])
def test_our_own_engine_bounds_spinning_before_torch_is_there(given: dict[str, str], expected: str) -> None:
    code = """
import os, sys
import runtime.native
assert "torch" not in sys.modules
print(os.environ["GOMP_SPINCOUNT"])
"""
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"} | given

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)

    assert done.stdout.strip() == expected
