"""The number formats in which our own engine keeps weights: what they take, and which one suits the processor.

Loads no engine.
"""

from __future__ import annotations

from typing import Literal

from runtime import devices

Dtype = Literal["f32", "bf16", "f16", "int8", "int4"]

# Processors that multiply bf16 themselves; on others it is an f32 product with more work around it.
_BF16_FEATURES = frozenset({"AVX512-BF16", "AMX", "SME"})
# Bytes that a weight takes; 4-bit ones with their scales, and with a head and an embedding that stay larger.
_BYTES = {"f32": 4.0, "bf16": 2.0, "f16": 2.0, "int8": 1.0, "int4": 0.7}


def decided(dtype: str, *, on_card: bool = False) -> str:
    """Returns the format that “auto” stands for: bf16 where the device computes in it, else f32; others as they are."""
    if dtype != "auto":
        return dtype
    return "bf16" if on_card or _BF16_FEATURES & set(devices.processor_features()) else "f32"


def weight_bytes(n_weights: int, dtype: str) -> int:
    """Returns about how many bytes so many weights take."""
    return int(n_weights * _BYTES[decided(dtype)])
