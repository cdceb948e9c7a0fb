"""RoPE scaling: what reaches the context changes the logits as the formulas say; defaults change nothing.

The references are models whose file holds `rope_freqs.weight`, a divisor for the angle of each pair of numbers:
that is how a stretched model looks from outside.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import engines
import tiny_gguf
from engines import EXACT, chat, collect, raw
from raw_logits import logits
from runtime.params import LoadParams
from runtime.settings import BadSetting

IDS = list(range(40, 140))
HEAD, BASE, TRAINED = 32, 10_000.0, 4096  # of `tiny_gguf.write_tiny`
STATED = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("plain") / "plain.gguf")


def stretched(path: Path, **params: object) -> Any:
    return logits(engines.load(path, **{**EXACT, **params}), IDS)


def reference(folder: Path, divisors: np.ndarray, *, gain: float = 1.0) -> Any:
    """Returns the logits of a model with these divisors of angles, whose turned queries and keys are `gain` larger."""
    path = tiny_gguf.write_tiny(folder / "plain-again.gguf")
    weights = {each.name: each.data for each in gguf.GGUFReader(path).tensors if ".attn_q." in each.name or
               ".attn_k." in each.name}  # fmt: skip
    changes = {name: (gain - 1) * data for name, data in weights.items()}
    changes["rope_freqs.weight"] = divisors.astype(np.float32)
    return stretched(tiny_gguf.write_tiny(folder / "reference.gguf", changes=changes))


def yarn_divisors(factor: float, *, original: int, fast: float = 32.0, slow: float = 1.0, mix: float = 1.0) -> Any:
    """Returns YaRN's divisors of angles (arXiv 2309.00071, equation 23), one for each pair of a head."""
    def pair(turns: float) -> float:
        return HEAD * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(BASE))

    low, high = max(0, math.floor(pair(fast))), min(HEAD - 1, math.ceil(pair(slow)))
    ramp = np.clip((np.arange(HEAD // 2) - low) / max(0.001, high - low), 0, 1)
    kept = (1 - ramp) * mix
    return 1 / ((1 - kept) / factor + kept)


@pytest.mark.shows("rope_scaling", "rope_factor")
def test_linear_scaling_divides_every_angle(plain: Path, tmp_path: Path) -> None:
    found = stretched(plain, rope_scaling="linear", rope_factor=2.0)
    assert np.array_equal(found, reference(tmp_path, np.full(HEAD // 2, 2.0)))  # halves are exact in binary
    assert np.abs(found - stretched(plain)).max() > 1


@pytest.mark.shows("rope_scaling", "yarn_original_context", "yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor")
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"original": TRAINED}),
        ({"yarn_original_context": 256}, {"original": 256}),
        ({"yarn_beta_fast": 8.0}, {"original": TRAINED, "fast": 8.0}),
        ({"yarn_beta_slow": 4.0}, {"original": TRAINED, "slow": 4.0}),
        ({"yarn_ext_factor": 0.5}, {"original": TRAINED, "mix": 0.5}),
    ],
)
def test_yarn_spares_high_frequencies_and_sharpens_attention(
    plain: Path, tmp_path: Path, params: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = stretched(plain, rope_scaling="yarn", rope_factor=4.0, **params)
    gain = 1 + 0.1 * math.log(4)  # equation 24, for queries and for keys
    assert np.abs(found - reference(tmp_path, yarn_divisors(4.0, **expected), gain=gain)).max() < 1e-3
    if params:
        assert np.abs(found - stretched(plain, rope_scaling="yarn", rope_factor=4.0)).max() > 0.1


def test_yarn_without_its_mix_is_linear_scaling(plain: Path) -> None:
    found = stretched(plain, rope_scaling="yarn", rope_factor=4.0, yarn_ext_factor=0.0)
    assert np.array_equal(found, stretched(plain, rope_scaling="linear", rope_factor=4.0))


@pytest.mark.shows("rope_base")
def test_a_base_equals_the_same_base_in_the_file(plain: Path, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata={"llama.rope.freq_base": 500_000.0})
    assert np.array_equal(stretched(plain, rope_base=500_000.0), stretched(path))
    assert np.abs(stretched(path) - stretched(plain)).max() > 1


def test_defaults_leave_what_the_file_says(plain: Path, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata=STATED)
    by_file = stretched(path)
    assert np.array_equal(by_file, stretched(plain, rope_scaling="linear", rope_factor=4.0))
    assert np.array_equal(by_file, stretched(path, rope_scaling="linear"))  # the factor is still the file's
    assert np.array_equal(stretched(path, rope_factor=2.0), stretched(plain, rope_scaling="linear", rope_factor=2.0))
    assert np.array_equal(stretched(path, rope_scaling="none"), stretched(plain))


def test_none_with_a_factor_is_refused() -> None:
    with pytest.raises(BadSetting) as caught:
        LoadParams(rope_scaling="none", rope_factor=2.0).validated()
    assert caught.value.field == "rope_factor"


# --- notes ------------------------------------------------------------------------------------------------------


def notes(path: Path, **params: object) -> str:
    return " ".join(engines.load(path, **params).info.notes)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("short") / "short.gguf", n_ctx=256)


@pytest.mark.parametrize(
    ("params", "noted"),
    [
        ({"context_length": 256}, False),
        ({"context_length": 257}, True),
        ({"context_length": 512, "rope_scaling": "yarn", "rope_factor": 2.0}, False),
        ({"context_length": 512, "rope_scaling": "linear", "rope_factor": 1.5}, True),
        ({"context_length": 512, "rope_factor": 2.0}, False),
        ({"context_length": 512, "rope_base": 1e6}, False),
        ({"context_length": 512, "rope_scaling": "yarn", "rope_factor": 2.0, "yarn_original_context": 128}, True),
    ],
)
def test_a_context_longer_than_the_model_is_good_for_is_noted(
    short: Path, params: dict[str, object], noted: bool
) -> None:
    assert ("longer than the" in notes(short, **params)) == noted


def test_the_note_names_the_factor_that_would_do(short: Path) -> None:
    assert "longer than the 256" in notes(short, context_length=640)
    assert "a factor of 2.5" in notes(short, context_length=640)


def test_scaling_without_a_factor_is_noted(plain: Path, tmp_path: Path) -> None:
    assert "no effect" in notes(plain, rope_scaling="yarn")
    assert not notes(tiny_gguf.write_tiny(tmp_path / "m.gguf", metadata=STATED), rope_scaling="linear")


def test_the_trained_length_is_told_as_it_is_in_the_file(short: Path) -> None:
    engine = engines.load(short, context_length=512, rope_scaling="yarn", rope_factor=2.0)
    assert engine.info.trained_context == 256


def test_a_table_of_positions_ends_the_context_and_settings_for_rope_are_said_to_do_nothing(tmp_path: Path) -> None:
    path = tiny_gguf.write_learned(tmp_path / "m.gguf", n_ctx=128)
    engine = engines.load(path, context_length=512, rope_scaling="yarn", rope_factor=4.0)
    assert engine.info.context_length == 128
    assert "table of 128 positions" in " ".join(engine.info.notes)
    assert "by RoPE, so the settings for longer contexts have no effect" in " ".join(engine.info.notes)
    answer = collect(engine, raw("x" * 100, max_tokens=100))  # going on would end the process
    assert answer.end.usage.context_used == 128
    assert not engines.load(path, context_length=128).info.notes


# --- saved states -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"rope_scaling": "linear"}, {"rope_factor": 4.0}, {"rope_base": 1e6}, {"yarn_original_context": 512},
     {"yarn_ext_factor": 0.5}, {"yarn_beta_fast": 8.0}, {"yarn_beta_slow": 4.0}],
)  # fmt: skip
def test_a_state_with_other_positions_is_refused(plain: Path, tmp_path: Path, change: dict[str, object]) -> None:
    yarn: dict[str, object] = {"rope_scaling": "yarn", "rope_factor": 2.0}
    first = engines.load(plain, **yarn)
    collect(first, chat("Tell me of mills.", max_tokens=4))
    saved = first.save_state(tmp_path / "chat.state")
    assert engines.load(plain, **yarn).load_state(tmp_path / "chat.state").tokens == saved.tokens > 0
    assert "other settings" in engines.load(plain, **{**yarn, **change}).load_state(tmp_path / "chat.state").note


def test_a_state_is_refused_where_the_context_takes_the_other_set_of_position_factors(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(
        tmp_path / "m.gguf", metadata={"llama.rope.scaling.original_context_length": 512}
    )
    first = engines.load(path, context_length=256)
    collect(first, chat("Tell me of mills.", max_tokens=4))
    saved = first.save_state(tmp_path / "chat.state")
    assert engines.load(path, context_length=512).load_state(tmp_path / "chat.state").tokens == saved.tokens
    assert "other settings" in engines.load(path, context_length=1024).load_state(tmp_path / "chat.state").note
