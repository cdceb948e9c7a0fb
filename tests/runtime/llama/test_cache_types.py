"""Cache types that a model refuses are replaced with a note; the load never fails for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engines
import tiny_gguf
from engines import chat, collect
from runtime.errors import UserError
from runtime.llama import library as llama_library

# What llama.cpp logs where it refuses, or goes on without flash attention
NO_FLASH = "resolve_fused_ops: Flash Attention not supported, set to disabled\n"
FORCED_OFF = "llama_init_from_model: flash_attn is not compatible with Grok - forcing off\n"
QUANTIZED_V = "llama_init_from_model: quantized V cache requires flash_attn to be enabled\n"
ONE_CACHE = "llama_init_from_model: model does not support different K (q8_0) and V (f16) cache types\n"
SMALL_HEADS = "llama_init_from_model: K cache type q8_0 with block size 32 does not divide n_embd_head_k=48\n"

Refusing = Callable[..., None]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def saying(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    """Makes llama.cpp log a line when it makes a context, and refuse while a condition on its parameters holds."""
    lib = llama_library.load_library()
    make = lib.llama_init_from_model
    types = {1: "f16", 8: "q8_0", 2: "q4_0"}

    def install(line: str, refuses: Callable[[str, str], bool] | None = None) -> None:
        def watched(model: Any, native: Any) -> Any:
            refused = refuses is not None and refuses(types[native.type_k], types[native.type_v])
            if refused or refuses is None:
                llama_library._log_callback(lib)(3, line.encode(), None)
            return None if refused else make(model, native)

        monkeypatch.setattr(lib, "llama_init_from_model", watched)

    return install


@pytest.mark.parametrize(
    ("line", "refuses", "asked", "used"),
    [
        (QUANTIZED_V, lambda k, v: v != "f16", ("q8_0", "q8_0"), ("q8_0", "f16")),
        (ONE_CACHE, lambda k, v: k != v, ("q8_0", "f16"), ("q8_0", "q8_0")),
        (SMALL_HEADS, lambda k, v: "q" in k + v, ("q8_0", "q4_0"), ("f16", "f16")),
        (SMALL_HEADS, lambda k, v: "q" in k + v, ("f16", "q4_0"), ("f16", "f16")),
    ],
)
def test_a_refused_cache_type_is_replaced_and_the_model_answers(
    tiny: Path, saying: Refusing, line: str, refuses: Any, asked: tuple[str, str], used: tuple[str, str]
) -> None:
    saying(line, refuses)
    engine = engines.load(tiny, kv_type_k=asked[0], kv_type_v=asked[1])
    assert (engine.info.kv_type_k, engine.info.kv_type_v) == used
    assert len(engine.info.notes) == 1
    assert used[1] in engine.info.notes[0]
    assert collect(engine, chat("hi", max_tokens=4)).end.usage.generated_tokens == 4


@pytest.mark.parametrize("line", ["out of memory\n", QUANTIZED_V])
def test_a_refusal_that_no_other_type_can_mend_is_an_error(tiny: Path, saying: Refusing, line: str) -> None:
    saying(line, lambda k, v: True)
    with pytest.raises(UserError) as caught:
        engines.load(tiny)
    assert caught.value.info.code == "no_room_for_context"


@pytest.mark.parametrize("line", [NO_FLASH, FORCED_OFF])
@pytest.mark.parametrize("mode", ["auto", "on"])
def test_flash_attention_that_was_given_up_is_not_claimed(tiny: Path, saying: Refusing, line: str, mode: str) -> None:
    assert engines.load(tiny, flash_attention=mode).info.flash_attention
    saying(line)
    assert not engines.load(tiny, flash_attention=mode).info.flash_attention
