"""Random numbers: the words of Threefry, and the functions that use them.

The reference is a separate Threefry, written from the paper (Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", 2011). Other tests check the statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function

MASK = 0xFFFFFFFF
OTHER = "torch draws other numbers"


def word(counter: int, key: int) -> int:
    """Return the 64 bits of Threefry-2x32 with 20 rounds."""
    keys = [key & MASK, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    first, second = (counter + keys[0]) & MASK, ((counter >> 32) + keys[1]) & MASK
    for number in range(20):
        by = (13, 15, 26, 6, 17, 29, 16, 24)[number % 8]
        first = (first + second) & MASK
        second = ((second << by | second >> (32 - by)) & MASK) ^ first
        if number % 4 == 3:
            block = number // 4 + 1
            first = (first + keys[block % 3]) & MASK
            second = (second + keys[(block + 1) % 3] + block) & MASK
    return second << 32 | first


def words(seed: int, count: int, start: int = 0) -> list[int]:
    """Return the first words of a seed, or those from `start` on."""
    return [word(start + number, seed) for number in range(count)]


def fractions(seed: int, count: int, bits: int = 24) -> Array:
    """Return the results of `rand`: the first `bits` bits of each first word, as a fraction."""
    if bits == 53:
        return np.array([number >> 11 for number in words(seed, count)]) / 2.0**53
    return np.array([(n & MASK) >> (32 - bits) for n in words(seed, count)]) / 2.0**bits


def normals(seed: int, count: int) -> Value:
    """Return the results of `randn`: sqrt(-2 ln u) sin(v) of both words."""
    drawn = words(seed, count)
    u = bounded.exact(np.array([(n & MASK) + 1 for n in drawn]) / 2.0**32, dtypes.float32)
    v = bounded.exact(np.array([n >> 40 for n in drawn]) / 2.0**24 - 0.5, dtypes.float32)
    u = u.rounded(u.value, u.error, (), lambda g: (), 2.0)
    return bounded.sqrt(bounded.log(u) * -2.0) * bounded.sin(v * (2 * math.pi))


def _with_seed(call: str, seed: int = 5) -> str:
    return f"[Tensor.manual_seed({seed}), {call}][1]"


def _exact(
    call: str, values: Callable[[], Array], output: DType = dtypes.float32, seed: int = 5
) -> Form:
    return Form(_with_seed(call, seed), (), exact=values, output=lambda _: output, no_torch=OTHER)


def _random_form(call: str, forward: Callable[[], Value]) -> Form:
    return Form(_with_seed(call), (), forward, no_torch=OTHER)


def scaled(low: float, high: float, count: int) -> Value:
    """Return uniform numbers from low to high."""
    drawn = bounded.exact(fractions(5, count), dtypes.float32)
    return drawn * (high - low) + low


def _permutation(count: int) -> Array:
    return np.argsort(np.array([number & MASK for number in words(5, count)]), kind="stable")


def _function(name: str, sentence: str, *forms: Form, covers: tuple[str, ...] = ()) -> Function:
    return Function(name, sentence, forms, (dtypes.float32,), covers=covers)


def _within(limit: float, *shape: int) -> Callable[[], Value]:
    return lambda: scaled(-limit, limit, math.prod(shape)).reshape(*shape)


_BIG = 0x0370734413198A2E
FUNCTIONS = (
    _function(
        "rand",
        "Uniform numbers from 0 to below 1, the same on every device.",
        _exact("Tensor.rand(6, device=device)", lambda: fractions(5, 6)),
        _exact("Tensor.rand(2, 3, device=device)", lambda: fractions(5, 6).reshape(2, 3)),
        _exact("Tensor.rand(6, device=device)", lambda: fractions(_BIG, 6), seed=_BIG),
        _exact(
            "Tensor.rand(2, device=device).cat(Tensor.rand(4, device=device))",
            lambda: fractions(5, 6),
        ),
        _exact(
            "Tensor.rand(6, device=device, dtype='float64')",
            lambda: fractions(5, 6, 53),
            dtypes.float64,
        ),
        _exact(
            "Tensor.rand(6, device=device, dtype='float16')",
            lambda: fractions(5, 6, 11),
            dtypes.float16,
        ),
        _exact(
            "Tensor.rand(6, device=device, dtype='bfloat16', contiguous=False)",
            lambda: fractions(5, 6, 8),
            dtypes.bfloat16,
        ),
        covers=("manual_seed",),
    ),
    _function(
        "rand_like",
        "Uniform numbers in the shape and type of another tensor.",
        _exact(
            "Tensor.zeros(2, 2, device=device).rand_like()", lambda: fractions(5, 4).reshape(2, 2)
        ),
    ),
    _function(
        "randn",
        "Normal numbers, from both words of a counter.",
        _random_form("Tensor.randn(9, device=device)", lambda: normals(5, 9)),
    ),
    _function(
        "randn_like",
        "Normal numbers in the shape and type of another tensor.",
        _random_form(
            "Tensor.zeros(3, 2, device=device).randn_like()", lambda: normals(5, 6).reshape(3, 2)
        ),
    ),
    _function(
        "normal",
        "Normal numbers with a mean and a deviation.",
        _random_form(
            "Tensor.normal(9, mean=1.0, std=3.0, device=device)", lambda: normals(5, 9) * 3.0 + 1.0
        ),
    ),
    _function(
        "randint",
        "Integers from low to below high.",
        _exact(
            "Tensor.randint(8, low=-3, high=4, device=device)",
            lambda: np.array([number % 7 - 3 for number in words(5, 8)]),
            dtypes.int32,
        ),
        _exact(
            "Tensor.randint(8, high=200, dtype='uint8', device=device)",
            lambda: np.array([number % 200 for number in words(5, 8)]),
            dtypes.uint8,
        ),
    ),
    _function(
        "randperm",
        "A permutation: the order of random words.",
        _exact("Tensor.randperm(12, device=device)", lambda: _permutation(12), dtypes.int32),
    ),
    _function(
        "uniform",
        "Uniform numbers from low to high.",
        _random_form("Tensor.uniform(9, low=-2, high=3, device=device)", lambda: scaled(-2, 3, 9)),
    ),
    _function(
        "scaled_uniform",
        "Uniform numbers within 1 / sqrt(number of elements).",
        _random_form("Tensor.scaled_uniform(2, 8, device=device)", _within(0.25, 2, 8)),
    ),
    _function(
        "glorot_uniform",
        "Uniform numbers within sqrt(6 / (inputs + outputs)).",
        _random_form("Tensor.glorot_uniform(4, 2, device=device)", _within(1.0, 4, 2)),
    ),
    _function(
        "kaiming_uniform",
        "Uniform numbers within sqrt(6 / ((1 + a^2) inputs)).",
        _random_form("Tensor.kaiming_uniform(2, 3, a=1.0, device=device)", _within(1.0, 2, 3)),
    ),
    _function(
        "kaiming_normal",
        "Normal numbers of deviation sqrt(2 / ((1 + a^2) inputs)).",
        _random_form(
            "Tensor.kaiming_normal(2, 4, a=0.0, device=device)",
            lambda: (normals(5, 8) * math.sqrt(0.5)).reshape(2, 4),
        ),
    ),
    _function(
        "multinomial",
        "Indices, each in proportion to its weight.",
        _exact(
            "Tensor([1.0, 3.0, 4.0], device=device).multinomial(9, replacement=True)",
            lambda: np.searchsorted([1 / 8, 4 / 8, 1.0], fractions(5, 9), "right"),
            dtypes.int32,
        ),
        _exact(
            "Tensor([[0.0, 2.0, 0.0]], device=device).multinomial(1)",
            lambda: np.array([[1]]),
            dtypes.int32,
        ),
    ),
)
