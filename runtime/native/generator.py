"""The random numbers of a draw: the 32-bit Mersenne Twister (MT19937), seeded and read as llama.cpp does.

So the same seed, settings and scores give the same text in both engines. The numbers are those of C++'s
`uniform_real_distribution` in GCC's library over `std::mt19937`: a double takes two outputs of the generator, low word
first, a float takes one. The generator: Matsumoto and Nishimura, 1998.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_WORD = 2.0**32
_BLOCK = 1024  # bytes
_BELOW_ONE = np.nextafter(1.0, 0.0)
_BELOW_ONE_SINGLE = np.nextafter(np.float32(1), np.float32(0))


class Generator:
    """Uniform numbers from 0 to below 1, the same for the same seed (0 to 2^32 - 1)."""

    def __init__(self, seed: int) -> None:
        self._words = _words(seed)

    def double(self) -> float:
        """Returns the next number with 53 bits."""
        low, high = next(self._words), next(self._words)
        return min((low + high * _WORD) / (_WORD * _WORD), float(_BELOW_ONE))

    def single(self) -> np.float32:
        """Returns the next number with 24 bits."""
        return min(np.float32(next(self._words)) / np.float32(_WORD), _BELOW_ONE_SINGLE)


def _words(seed: int) -> Iterator[int]:
    source = np.random.RandomState(seed)  # seeded with one number, as std::mt19937 is
    while True:
        yield from np.frombuffer(source.bytes(_BLOCK), "<u4").tolist()
