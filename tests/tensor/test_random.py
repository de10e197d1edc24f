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
from tinyref.errors import UserError
from tinyref.tensor.creation import streams

MANY = 20000
# Salmon and others, the known answers of Random123: (counter, key, result), first word lowest.
PUBLISHED = (
    (0, 0, 0x99BA4EFE_6B200159),
    (2**64 - 1, 2**64 - 1, 0xBB002BE7_1CB996FC),
    (0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x483DF7A0_C4923A9C),
)


def at(counter: int, seed: int) -> None:
    """Sets the stream of the CPU to a counter."""
    Tensor.manual_seed(seed)
    Tensor.rand(1).realize()
    stream = streams._of["CPU"]
    stream.counter.assign(Tensor(np.array([counter], np.uint64)))


def seeded(seed: int, draw: Callable[[], Tensor]) -> np.ndarray:
    Tensor.manual_seed(seed)
    return draw().numpy()


# The words


@pytest.mark.parametrize(("counter", "key", "word"), PUBLISHED)
def test_the_published_words(counter: int, key: int, word: int) -> None:
    at(counter, key)
    assert int(Tensor._random_words((1,), None).item()) == word
    at(counter, key)
    assert Tensor.rand(1).item() == ((word & 0xFFFFFFFF) >> 8) / 2**24
    at(counter, key)
    assert Tensor.rand(1, dtype=dtypes.float64).item() == (word >> 11) / 2**53
    at(counter, key)
    assert Tensor.rand(1, dtype=dtypes.float16).item() == ((word & 0xFFFFFFFF) >> 21) / 2**11
    at(counter, key)
    assert Tensor.rand(1, dtype=dtypes.bfloat16).item() == ((word & 0xFFFFFFFF) >> 24) / 2**8


def threefry(counter: int, key: int) -> int:
    """Threefry-2x32 with 20 rounds, in Python's integers."""
    mask = 0xFFFFFFFF
    keys = [key & mask, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = ((counter & mask) + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    for number in range(20):
        x = (x + y) & mask
        by = rotations[number % 8]
        y = (((y << by) | (y >> (32 - by))) & mask) ^ x
        if number % 4 == 3:
            block = number // 4 + 1
            x = (x + keys[block % 3]) & mask
            y = (y + keys[(block + 1) % 3] + block) & mask
    return y << 32 | x


def test_counters_go_on_beyond_32_bits() -> None:
    start = 2**32 - 2
    at(start, 5)
    words = [int(word) for word in Tensor._random_words((4,), None).tolist()]
    assert words == [threefry(start + number, 5) for number in range(4)]


# The same numbers


def drawn(device: str) -> list[np.ndarray]:
    Tensor.manual_seed(12)
    return [
        Tensor.rand(7, device=device).numpy(),
        Tensor.rand(3, 2, device=device, dtype=dtypes.float64).numpy(),
        Tensor.randint(9, low=-4, high=5, device=device).numpy(),
        Tensor.randperm(11, device=device).numpy(),
        Tensor.uniform(5, low=-2, high=3, device=device).numpy(),
    ]


@pytest.mark.parametrize("device", ["CPU", "CLANG"])
def test_every_device_draws_the_same_bits(device: str, needs_device: Callable[[str], None]) -> None:
    needs_device(device)
    for ours, theirs in zip(drawn(device), drawn("PYTHON"), strict=True):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("device", ["CLANG", "PYTHON"])
def test_normal_numbers_differ_by_roundings_alone(
    device: str, needs_device: Callable[[str], None]
) -> None:
    needs_device(device)
    first, other = (seeded(3, lambda d=d: Tensor.randn(50, device=d)) for d in ("CPU", device))
    assert np.allclose(first, other, rtol=1e-6, atol=1e-6)


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


@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64], ids=str
)
def test_uniform_numbers(dtype: object) -> None:
    values = seeded(1, lambda: Tensor.rand(MANY, dtype=dtype)).astype(np.float64)  # type: ignore[arg-type]
    assert values.min() >= 0
    assert values.max() < 1
    counts = np.histogram(values, 32, (0, 1))[0]
    assert chi_square(counts, np.full(32, MANY / 32)) < 70  # 31 degrees of freedom: 1e-4
    ordered = np.sort(values)
    gaps = np.abs(ordered - np.arange(MANY) / MANY)
    step = {dtypes.float16: 2.0**-11, dtypes.bfloat16: 2.0**-8}.get(dtype, 0.0)  # type: ignore[call-overload]
    assert gaps.max() < 2.23 / math.sqrt(MANY) + step  # Kolmogorov and Smirnov: 1e-4
    centred = values - values.mean()
    for lag in (1, 2, 7):
        correlation = (centred[lag:] * centred[:-lag]).mean() / values.var()
        assert abs(correlation) < 3.9 / math.sqrt(MANY)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_normal_numbers(dtype: object) -> None:
    values = seeded(2, lambda: Tensor.randn(MANY, dtype=dtype)).astype(np.float64)  # type: ignore[arg-type]
    limit = 3.9 / math.sqrt(MANY)
    assert abs(values.mean()) < limit
    assert abs((values**2).mean() - 1) < limit * math.sqrt(2)
    assert abs((values**3).mean()) < limit * math.sqrt(15)
    assert abs((values**4).mean() - 3) < limit * math.sqrt(96)
    below = np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in np.sort(values)])
    assert np.abs(below - np.arange(MANY) / MANY).max() < 2.23 / math.sqrt(MANY)


def test_integers() -> None:
    values = seeded(3, lambda: Tensor.randint(MANY, low=-3, high=7))
    assert values.dtype == np.int32
    assert sorted(set(values.tolist())) == list(range(-3, 7))
    counts = np.bincount(values + 3, minlength=10)
    assert chi_square(counts, np.full(10, MANY / 10)) < 34  # 9 degrees of freedom: 1e-4
    ends = seeded(3, lambda: Tensor.randint(500, low=-128, high=128, dtype=dtypes.int8))
    assert ends.min() < -120
    assert ends.max() > 120
    wide = seeded(3, lambda: Tensor.randint(500, low=-(2**63), high=2**63, dtype=dtypes.int64))
    assert wide.min() < -(2**62)
    assert wide.max() > 2**62


@pytest.mark.long
def test_permutations() -> None:
    assert sorted(seeded(1, lambda: Tensor.randperm(50)).tolist()) == list(range(50))
    assert seeded(1, lambda: Tensor.randperm(0)).tolist() == []
    numbers = seeded(2, lambda: Tensor.randperm(3000))
    assert sorted(numbers.tolist()) == list(range(3000))
    places = np.arange(3000)
    assert abs(np.corrcoef(numbers, places)[0, 1]) < 3.9 / math.sqrt(3000)
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 3.9 / math.sqrt(3000)
    # Where it went is anywhere: a third of the length away in the mean.
    assert abs(np.abs(numbers - places).mean() / 3000 - 1 / 3) < 3.9 * math.sqrt(1 / 18 / 3000)


@pytest.mark.long
def test_choices_again_and_again() -> None:
    weights = np.array([1.0, 0.0, 3.0, 4.0])
    drawn = seeded(6, lambda: Tensor(weights, dtype="float32").multinomial(4000, replacement=True))
    counts = np.bincount(drawn, minlength=4)
    assert drawn.dtype == np.int32
    assert counts[1] == 0
    expected = np.array([500.0, 1500.0, 2000.0])
    assert chi_square(counts[[0, 2, 3]], expected) < 18.5  # 2 degrees of freedom: 1e-4


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
    ("weights", "count", "replacement", "places"),
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
    weights: list[Any], count: int, replacement: bool, places: list[Any]
) -> None:
    found = seeded(9, lambda: Tensor(weights).multinomial(count, replacement=replacement))
    assert found.tolist() == places


@pytest.mark.parametrize(
    ("draw", "limit"),
    [
        (lambda: Tensor.scaled_uniform(20, 50), 1 / math.sqrt(1000)),
        (lambda: Tensor.glorot_uniform(20, 5, 10), math.sqrt(6 / 70)),
        (lambda: Tensor.kaiming_uniform(20, 50, a=1.0), math.sqrt(3 / 50)),
        (lambda: Tensor.uniform(1000, low=-3, high=3), 3.0),
    ],
)
def test_ends_of_uniform_numbers(draw: Callable[[], Tensor], limit: float) -> None:
    values = seeded(1, draw)
    assert 0.98 * limit < values.max() < limit
    assert -limit <= values.min() < -0.98 * limit


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda: Tensor.kaiming_normal(50, 80, a=0.0), 0.0, math.sqrt(2 / 80)),
        (lambda: Tensor.normal(4000, mean=2.0, std=3.0), 2.0, 3.0),
    ],
)
def test_deviations_of_normal_numbers(
    draw: Callable[[], Tensor], mean: float, deviation: float
) -> None:
    values = seeded(1, draw)
    assert abs(values.mean() - mean) < 3.9 * deviation / math.sqrt(values.size)
    assert abs(values.std() - deviation) < 3.9 * deviation / math.sqrt(2 * values.size)


# Shapes, types, gradients, mistakes


def test_shapes_and_types() -> None:
    assert Tensor.rand().shape == ()
    assert Tensor.rand((2, 3)).shape == (2, 3)
    assert Tensor.rand(0, 3).numpy().shape == (0, 3)
    like = Tensor.zeros(2, 3, dtype=dtypes.float16)
    assert (like.rand_like().shape, like.rand_like().dtype) == ((2, 3), dtypes.float16)
    assert like.randn_like(dtype=dtypes.float32).dtype is dtypes.float32
    assert Tensor([[1.0, 2.0]]).multinomial().shape == (1, 1)
    assert Tensor([1.0, 2.0]).multinomial().shape == (1,)
    assert Tensor.randperm(3, dtype=dtypes.int64).dtype is dtypes.int64


@pytest.mark.parametrize(
    "draw",
    [
        lambda: Tensor.rand(3, requires_grad=True),
        lambda: Tensor.randn(3, requires_grad=True),
        lambda: Tensor.uniform(3, requires_grad=True),
        lambda: Tensor.normal(3, requires_grad=True),
        lambda: Tensor.kaiming_uniform(3, 1, requires_grad=True),
    ],
)
def test_numbers_are_leaves(draw: Callable[[], Tensor]) -> None:
    x = draw()
    (x * 2).sum().backward()
    assert x.grad is not None
    assert (x.grad.numpy() == 2).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Tensor.manual_seed(-1), "seed -1"),
        (lambda: Tensor.manual_seed(1.5), "seed"),  # type: ignore[arg-type]
        (lambda: Tensor.rand(2, dtype="int32"), "int32"),
        (lambda: Tensor.rand(-1), "-1"),
        (lambda: Tensor.rand(2, flavour=1), "flavour"),
        (lambda: Tensor.randn(2, dtype="bool"), "bool"),
        (lambda: Tensor.randint(2, low=3, high=3), "low 3 and high 3"),
        (lambda: Tensor.randint(2, high=300, dtype="int8"), "int8"),
        (lambda: Tensor.randint(2, dtype="float32"), "float32"),
        (lambda: Tensor.normal(2, std=-1.0), "std -1"),
        (lambda: Tensor.uniform(2, low=2, high=1), "low 2"),
        (lambda: Tensor.uniform(2, low=math.nan), "nan"),
        (lambda: Tensor.uniform(2, low=-3e38, high=3e38), "wider than float32"),
        (Tensor.glorot_uniform, "glorot_uniform"),
        (lambda: Tensor.kaiming_uniform(2, low=3), "low"),
        (lambda: Tensor.randperm(-1), "-1"),
        (lambda: Tensor.randperm(300, dtype="uint8"), "uint8"),
        (lambda: Tensor([1.0, 2.0]).multinomial(3), "num_samples 3"),
        (lambda: Tensor([1.0, 2.0]).multinomial(0), "num_samples 0"),
        (lambda: Tensor(1.0).multinomial(), "axes"),
        (lambda: Tensor.zeros(2, 0).multinomial(), "no weights"),
    ],
)
def test_mistakes(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("draw", [Tensor.rand, Tensor.randn, Tensor.randint])
def test_a_draw_of_more_elements_than_int32_numbers(draw: Callable[..., Tensor]) -> None:
    """It is built, and its last elements are those that two draws in turn would give."""
    far = 3_000_000_000
    Tensor.manual_seed(3)
    assert draw(60_000, 50_000).shape == (60_000, 50_000)
    following = draw(3).tolist()
    Tensor.manual_seed(3)
    assert draw(far + 3, contiguous=False)[-3:].tolist() == following
