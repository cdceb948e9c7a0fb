"""Broken and harmful checkpoints: each is refused in a sentence, or converted into a file that opens."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import broken_checkpoints
from broken_checkpoints import Broken
from convert.options import ConvertOptions
from convert.pipeline import convert
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.llama.tokenizer import GgufTokenizer


def refusal(case: Broken, target: Path) -> UserError | None:
    """Converts a checkpoint; returns why it was refused, None where it was converted."""
    options = ConvertOptions(source=case.path, target=target, recipe="Q8_0", agreed=True, threads=1)
    try:
        list(convert(options, StopFlag()))
    except UserError as error:
        return error
    except BaseException as error:
        error.add_note(case.name)
        raise
    return None


def outcomes(folder: Path, count: int, *, seed: int) -> Counter[str]:
    """Converts so many broken checkpoints; nothing may be left of those that are refused."""
    found: Counter[str] = Counter()
    target = folder / "out.gguf"
    for case in broken_checkpoints.broken(folder, count, seed=seed):
        before = {path.name for path in folder.iterdir()}
        error = refusal(case, target)
        found["converted" if error is None else "refused"] += 1
        if error is None:
            check_written(target, case)
            continue
        assert not case.harmless, f"{case.name}: {error}"
        assert error.info.title.endswith("."), case.name
        assert "\x1b" not in str(error), case.name
        assert {path.name for path in folder.iterdir()} == before, case.name
    return found


def check_written(target: Path, case: Broken) -> None:
    with open_checkpoint(target) as written:
        assert written.names, case.name
    if case.path.is_dir():
        GgufTokenizer(target).close()
    target.unlink()


@pytest.mark.timeout(300)
def test_one_of_each_kind_is_refused_in_a_sentence_or_converted(tmp_path: Path) -> None:
    found = outcomes(tmp_path, broken_checkpoints.KINDS, seed=1)
    assert found["converted"] >= 3
    assert found["refused"] >= 15


@pytest.mark.acceptance
@pytest.mark.timeout(1800)
def test_two_hundred_are_refused_in_a_sentence_or_converted(tmp_path: Path) -> None:
    found = outcomes(tmp_path, 210, seed=2)
    assert found["converted"] >= 21
    assert found["refused"] >= 100
