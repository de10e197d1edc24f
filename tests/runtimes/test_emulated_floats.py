"""float16 and bfloat16 of texts on the host, against numpy, ml_dtypes and exact arithmetic."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tinyref.config import Context
from tinyref.runtimes.emulated.c_emulator import CUDA, METAL, CEmulator
from tinyref.runtimes.host.memory import address_of

Array = npt.NDArray[Any]
CUDA_NAMES = {"float16": "__half", "bfloat16": "__nv_bfloat16"}
METAL_NAMES = {"float16": "half", "bfloat16": "bfloat"}
TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
# What the 16-bit patterns are, for each of which CUDA has two functions.
WIDEN = {"float16": "__half2float", "bfloat16": "__bfloat162float"}
NARROW = {"float16": "__double2half", "bfloat16": "__double2bfloat16"}
OPERATIONS = {"+": "__hadd_rn", "-": "__hsub_rn", "*": "__hmul_rn", "/": "__hdiv"}
EVERY = np.arange(65536, dtype=np.uint16)


# What compiles quickest each time; the others with them are for the thorough lane.
@pytest.fixture(
    params=["tcc", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gcc", "clang"))]
)
def compiler(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    with Context(CC=name):
        yield name


def cuda(result: str, source: str, expression: str, *given: Array) -> Array:
    """`expression` of x and, where there are two arrays, y, for all elements."""
    second = f"{source} y = second[i];" if len(given) == 2 else ""
    text = (
        f'extern "C" __global__ void k_all({result} *out, {source} *first, {source} *second) {{\n'
        f"  for (int i = 0; i < {given[0].size}; i++) {{\n"
        f"    {source} x = first[i]; {second} out[i] = {expression};\n  }}\n}}\n"
    )
    return run(CEmulator("EMU", CUDA), text, result, given)


def run(emulator: CEmulator, text: str, result: str, given: tuple[Array, ...]) -> Array:
    sizes = {"float": np.float32, "double": np.float64, "int": np.int32, "uchar": np.uint8}
    out = np.zeros(given[0].shape, sizes.get(result, np.uint16))
    kernel = emulator.load("k_all", emulator.compile(text))
    kernel([address_of(each) for each in (out, given[0], given[-1])], [], (1, 1, 1), (1, 1, 1))
    return out


def agree(found: Array, want: Array) -> bool:
    """The same bits, where NaNs are all one."""
    kind = f"u{want.dtype.itemsize}"
    found = found.view(want.dtype)
    both_nan = np.isnan(found.astype(np.float32)) & np.isnan(want.astype(np.float32))
    return bool((both_nan | (found.view(kind) == want.view(kind))).all())


@pytest.mark.parametrize("name", TYPES)
def test_every_value_becomes_a_float_and_back(compiler: str, name: str) -> None:
    wide = cuda("float", CUDA_NAMES[name], f"{WIDEN[name]}(x)", EVERY)
    assert agree(wide, EVERY.view(TYPES[name]).astype(np.float32))
    assert agree(
        cuda(CUDA_NAMES[name], "float", f"{NARROW[name]}(x)", wide), EVERY.view(TYPES[name])
    )


def nearest(value: float, name: str) -> float:
    """The nearest number, ties to even, by exact arithmetic; no overflow."""
    digits, least = (11, -24) if name == "float16" else (8, -133)
    if value == 0:
        return value
    exact = Fraction(value)
    exponent = max(int(np.frexp(value)[1]) - digits, least)
    scaled = exact / Fraction(2) ** exponent
    return math.copysign(float(round(scaled) * Fraction(2) ** exponent), value)


@pytest.mark.parametrize("name", TYPES)
def test_doubles_are_rounded_once(compiler: str, name: str) -> None:
    """Those between two neighbours, half way and a double beside it, and any."""
    every = EVERY[: 0x7BFF if name == "float16" else 0x7F7F].view(TYPES[name]).astype(np.float64)
    middle = (every[:-1:37] + every[1::37]) / 2
    random = np.random.default_rng(7).standard_normal(500)
    scale = np.exp2(np.random.default_rng(8).integers(-30, 14, 500))
    beside = [np.nextafter(middle, limit) for limit in (0, np.inf)]
    given = np.concatenate([middle, *beside, random * scale, [1e-320, -0.0]])
    found = cuda(CUDA_NAMES[name], "double", f"{NARROW[name]}(x)", given)
    want = np.array([nearest(each, name) for each in given])
    assert agree(found, want.astype(TYPES[name]))


def pairs(name: str) -> tuple[Array, Array]:
    """Random patterns, and all pairs of those at the edges."""
    random = np.random.default_rng(3).integers(0, 65536, (2, 4000)).astype(np.uint16)
    one = int(np.ones(1, TYPES[name]).view(np.uint16)[0])
    infinity = int(np.array([np.inf], TYPES[name]).view(np.uint16)[0])
    positive = [0, 1, 2, 3, one - 1, one, one + 1, infinity - 1, infinity, infinity + 1]
    edges = np.array([*positive, *(each | 0x8000 for each in positive)], np.uint16)
    left, right = np.meshgrid(edges, edges)
    return (
        np.concatenate([random[0], left.ravel()]),
        np.concatenate([random[1], right.ravel()]),
    )


def exactly(symbol: str, x: Array, y: Array, name: str) -> Array:
    """Sums and products of doubles are exact, or as good as that; each is rounded once."""
    wide = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[symbol]
    with np.errstate(all="ignore"):
        found = wide(x.astype(np.float64), y.astype(np.float64))
        finite = np.isfinite(found) & (np.abs(found) < float(ml_dtypes.finfo(TYPES[name]).max))
        found[finite] = [nearest(each, name) for each in found[finite]]
        return found.astype(TYPES[name])


@pytest.mark.usefixtures("c_compiler")
@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("symbol", OPERATIONS)
@pytest.mark.parametrize("name", TYPES)
def test_arithmetic_rounds_once(name: str, symbol: str) -> None:
    """By the functions of CUDA, in C, and by the operators of MSL, in C++."""
    given = pairs(name)
    want = exactly(symbol, *(each.view(TYPES[name]) for each in given), name)
    assert agree(
        cuda(CUDA_NAMES[name], CUDA_NAMES[name], f"{OPERATIONS[symbol]}(x, y)", *given), want
    )
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler is installed")
    kind = METAL_NAMES[name]
    text = (
        f"using namespace metal;\nkernel void k_all(device {kind} *out [[buffer(0)]], "
        f"device {kind} *x [[buffer(1)]], device {kind} *y [[buffer(2)]]) {{\n"
        f"  for (int i = 0; i < {given[0].size}; i++) out[i] = x[i] {symbol} y[i];\n}}\n"
    )
    assert agree(run(CEmulator("EMU", METAL), text, kind, given), want)
