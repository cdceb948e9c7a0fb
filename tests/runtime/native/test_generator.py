"""The random numbers are those of C++'s std::mt19937, and uniform."""

from __future__ import annotations

import itertools

from runtime.native import generator
from runtime.native.generator import Generator


def test_the_generator_is_the_one_that_the_c_standard_names() -> None:
    words = generator._words(5489)

    assert next(itertools.islice(words, 9999, None)) == 4123659995  # ISO C++ requires this of mt19937


def test_numbers_lie_between_zero_and_one_and_repeat_with_their_seed() -> None:
    first, again, other = (Generator(seed) for seed in (7, 7, 8))

    doubles = [first.double() for _ in range(20_000)]

    assert all(0 <= number < 1 for number in doubles)
    assert abs(sum(doubles) / len(doubles) - 0.5) < 0.01
    assert doubles[:10] == [again.double() for _ in range(10)]
    assert doubles[:10] != [other.double() for _ in range(10)]


def test_a_single_takes_one_word_and_stays_below_one() -> None:
    singles, words = Generator(3), generator._words(3)

    assert all(abs(float(singles.single()) - next(words) / 2**32) < 1e-7 for _ in range(1000))
