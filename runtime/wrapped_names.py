"""Frees tensors' names of what programs that compile, spread or adapt a model put into them. Knows no architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable

_INSIDE = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_BEFORE = ("module.", "base_model.model.")  # of torch's parallel wrappers, and of a merged PEFT model


def unwrapped(names: Iterable[str]) -> dict[str, str]:
    """Returns the plain name of each; two may become the same. What stands before all of them is taken off."""
    plain = {name: _INSIDE.sub("", name) for name in names}
    for prefix in _BEFORE:
        if all(name.startswith(prefix) for name in plain.values()):
            plain = {name: short.removeprefix(prefix) for name, short in plain.items()}
    return plain
