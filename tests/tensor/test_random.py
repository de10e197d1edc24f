"""Random numbers: published words, the same everywhere, and distributed as promised.

Statistical tests have fixed seeds, so they give the same every time; their limits are those of one
in ten thousand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyref import GlobalCounters, Tensor, TinyJit, dtypes
from tinyref_spec.tensor.random import word


# Salmon and others, the known answers of Random123: (counter, key, result), first word lowest.
def seeded(seed: int, draw: Callable[[], Tensor]) -> np.ndarray:
    Tensor.manual_seed(seed)
    return draw().numpy()


# The words


# How a type is made of a word: the last bits of its low half, or of all of it.
BITS = {
    "float16": (2**11, lambda bits: (bits & 0xFFFFFFFF) >> 21),
    "bfloat16": (2**8, lambda bits: (bits & 0xFFFFFFFF) >> 24),
    "float32": (2**24, lambda bits: (bits & 0xFFFFFFFF) >> 8),
    "float64": (2**53, lambda bits: bits >> 11),
}


@pytest.mark.parametrize("seed", [0, 5, 2**64 - 1])
@pytest.mark.parametrize("dtype", BITS)
def test_numbers_are_the_words_of_their_counters(dtype: str, seed: int) -> None:
    count, bits = BITS[dtype]
    Tensor.manual_seed(seed)
    expected = [bits(word(number, seed)) / count for number in range(5)]
    assert Tensor.rand(5, dtype=dtype).tolist() == expected
    # Counters go on beyond 32 bits.
    Tensor.manual_seed(seed)
    far = Tensor.rand(2**32 + 2, dtype=dtype, contiguous=False)[-4:]
    expected = [bits(word(2**32 + number, seed)) / count for number in range(-2, 2)]
    assert far.tolist() == expected


# The stream


def test_one_draw_or_many() -> None:
    whole = seeded(8, lambda: Tensor.rand(6))
    assert np.array_equal(whole, seeded(8, lambda: Tensor.rand(2).cat(Tensor.rand(4))))
    assert np.array_equal(whole, seeded(8, lambda: Tensor.rand(2, 3)).reshape(-1))
    Tensor.manual_seed(8)
    Tensor.randint(2)
    assert np.array_equal(whole[2:], Tensor.rand(4).numpy())


def test_the_order_of_realising_does_not_matter() -> None:
    whole = seeded(8, lambda: Tensor.rand(6))
    Tensor.manual_seed(8)
    first, second, third = Tensor.rand(2), Tensor.rand(2), Tensor.rand(2)
    assert np.array_equal(third.numpy(), whole[4:])
    assert np.array_equal(first.numpy(), whole[:2])
    assert np.array_equal(second.numpy(), whole[2:4])


def test_a_new_seed_does_not_change_what_was_drawn() -> None:
    whole = seeded(8, lambda: Tensor.rand(6))
    Tensor.manual_seed(8)
    lazy = Tensor.rand(6)
    Tensor.manual_seed(9)
    other = Tensor.rand(6).numpy()
    assert np.array_equal(lazy.numpy(), whole)
    assert not np.array_equal(other, whole)


def test_not_contiguous_is_the_same_and_stays_the_same() -> None:
    whole = seeded(8, lambda: Tensor.rand(6))
    Tensor.manual_seed(8)
    lazy = Tensor.rand(6, contiguous=False)
    Tensor.rand(3).realize()
    assert np.array_equal((lazy + 1).numpy(), whole + 1)
    assert np.array_equal(lazy.numpy(), whole)


def test_replays_draw_on() -> None:
    def step(x: Tensor) -> Tensor:
        return (x + Tensor.rand(3)).realize()

    zeros = Tensor.zeros(3).contiguous().realize()
    Tensor.manual_seed(4)
    plain = [step(zeros).numpy() for _ in range(5)]
    jitted = TinyJit(step)
    Tensor.manual_seed(4)
    assert [jitted(zeros).numpy().tolist() for _ in range(5)] == [row.tolist() for row in plain]
    # A seed counts for replays too, and numbers outside go on where replays ended.
    Tensor.manual_seed(4)
    again = [jitted(zeros).numpy() for _ in range(2)]
    assert np.array_equal(again[0], plain[0])
    assert np.array_equal(Tensor.rand(3).numpy(), plain[2])


@pytest.mark.parametrize(
    ("draw", "kernels"),
    [
        (lambda: Tensor.rand(100), 2),
        (lambda: Tensor.randn(100), 2),
        (lambda: Tensor.uniform(4, 5, low=-1, high=2), 2),
        (lambda: Tensor.randint(100), 2),
        (lambda: Tensor.kaiming_uniform(5, 6), 2),
    ],
)
def test_a_draw_is_a_kernel_and_the_counter_s(draw: Callable[[], Tensor], kernels: int) -> None:
    draw().realize()
    GlobalCounters.reset()
    draw().realize()
    assert GlobalCounters.kernel_count == kernels


# Distributions


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_integers_of_the_whole_range() -> None:
    ends = seeded(3, lambda: Tensor.randint(500, low=-128, high=128, dtype=dtypes.int8))
    assert ends.min() < -120
    assert ends.max() > 120
    wide = seeded(3, lambda: Tensor.randint(500, low=-(2**63), high=2**63, dtype=dtypes.int64))
    assert wide.min() < -(2**62)
    assert wide.max() > 2**62


def test_choices_without_replacement() -> None:
    weights = np.tile(np.array([[1.0, 0.0, 3.0, 4.0]], np.float32), (2000, 1))
    drawn = seeded(6, lambda: Tensor(weights).multinomial(3))
    assert (np.sort(drawn, 1) == [0, 2, 3]).all()
    expected = np.array([250.0, 750.0, 1000.0])
    assert chi_square(np.bincount(drawn[:, 0], minlength=4)[[0, 2, 3]], expected) < 18.5
    # Of what is left: 0 comes second after 2 with 1/5, after 3 with 1/4.
    share = (drawn[:, 1] == 0).mean()
    assert abs(share - (3 / 8 / 5 + 4 / 8 / 4)) < 3.9 * math.sqrt(0.2 * 0.8 / 2000)


@pytest.mark.parametrize(
    ("weights", "count", "replacement", "indices"),
    [
        ([[math.nan, 1.0], [0.0, 1.0]], 1, True, [[-1], [1]]),
        ([[-1.0, 3.0], [2.0, 0.0]], 1, False, [[-1], [0]]),
        ([0.0, 0.0], 2, True, [-1, -1]),
        ([0.0, 0.0], 1, False, [-1]),
        ([math.inf, 1.0], 1, True, [-1]),
        ([0.0, 5.0, 0.0], 2, False, [1, -1]),
        # What is waited for so long that it would be infinite comes before what never comes.
        ([0.0, 1.0, 1e-44], 2, False, [1, 2]),
    ],
)
def test_weights_that_are_no_likelihoods_choose_nothing(
    weights: list[Any], count: int, replacement: bool, indices: list[Any]
) -> None:
    actual = seeded(9, lambda: Tensor(weights).multinomial(count, replacement=replacement))
    assert actual.tolist() == indices


@pytest.mark.parametrize("draw", [Tensor.rand, Tensor.randn, Tensor.randint])
def test_a_draw_of_more_elements_than_int32_numbers(draw: Callable[..., Tensor]) -> None:
    """Build it: its last elements equal those of two draws in turn."""
    far = 3_000_000_000
    Tensor.manual_seed(3)
    assert draw(60_000, 50_000).shape == (60_000, 50_000)
    following = draw(3).tolist()
    Tensor.manual_seed(3)
    assert draw(far + 3, contiguous=False)[-3:].tolist() == following
