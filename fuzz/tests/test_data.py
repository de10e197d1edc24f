"""Data of the modes are the same on any machine, and reveal faults."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops import build
from tinyref_fuzz.generate import data
from tinyref_fuzz.generate.data import Content, edge_values
from tinyref_fuzz.generate.values import full_range
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.kernel_case import KernelCase, Mode
from tinyref_spec.kernels.named import elementwise
from tinyref_spec.samples import edges

FLOATS = (*dtypes.fp8s, *dtypes.floats)


def contents(mode: Mode, dtype, size: int, seed: int, largest: float | None = None) -> np.ndarray:
    """Return data of a whole type, or of the numbers up to `largest`."""
    span = full_range(dtype) if largest is None else (-largest, largest)
    return Content(dtype, size, *span, seed).array(mode)


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_every_type_and_size_has_data(dtype):
    for size in (0, 1, 2, 17, 300):
        for seed in (0, 7, 2**31):
            values = contents(Mode.EDGE, dtype, size, seed)
            assert values.shape == (size,)
            assert values.dtype == numpy_dtype(dtype)
            assert values.tobytes() == contents(Mode.EDGE, dtype, size, seed).tobytes()
    first, second = (contents(Mode.EDGE, dtype, 99, seed) for seed in (1, 2))
    assert first.tobytes() != second.tobytes()


def test_the_bytes_are_these_on_any_machine():
    digest = hashlib.sha256()
    for dtype in dtypes.all:
        digest.update(contents(Mode.EDGE, dtype, 100, 5).tobytes())
    assert digest.hexdigest()[:16] == "96373c9de76b9f8e"
    assert contents(Mode.EXACT, dtypes.int32, 8, 3, largest=3).tolist() == [2, 0, 1, 3, 1, -3, 3, 0]
    floats = [float(value).hex() for value in contents(Mode.FLOAT, dtypes.float32, 3, 3, 16.0)]
    assert floats == ["0x1.7d85f00000000p+1", "0x1.dfa7ea0000000p+0", "-0x1.dbd86c0000000p+2"]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_edge_floats_include_special_and_moderate_values(dtype):
    with np.errstate(invalid="ignore"):
        values = contents(Mode.EDGE, dtype, 3000, 5).astype(np.float64)
    assert np.isnan(values).any()
    assert np.isinf(values).any() == (dtype is not dtypes.fp8e4m3)
    zeros = values[values == 0]
    assert np.signbit(zeros).any()
    assert not np.signbit(zeros).all()
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)])
    assert magnitudes.min() == 2.0 ** (2 - (1 << (dtype.exponent_bits - 1)) - dtype.mantissa_bits)
    assert 0.3 < ((magnitudes >= 2.0**-4) & (magnitudes < 2.0**4)).sum() / values.size < 0.95


def test_edges_hold_limits_of_narrower_types_and_payloads_of_nans():
    numbers = set(edge_values(dtypes.int64).tolist())
    assert {128, -129, 65536, 2**24 + 1, -(2**24) - 1, 2**31 - 1, 2**32, 2**53 + 1} <= numbers
    assert {-1, 127, -128} <= set(edge_values(dtypes.int8).tolist())
    floats = edge_values(dtypes.float32)
    assert {0x7FFFFFFF, 0xFFFFFFFF} <= set(floats.view(np.uint32).tolist())
    assert set(np.array([1e20, 1e30, -5000, 1e-8], np.float32)) <= set(floats)


def test_edge_floats_find_a_nan_that_is_rounded_to_zero(monkeypatch):
    def finds() -> bool:
        cast = elementwise(lambda x: build.cast(x, dtypes.bfloat16), (dtypes.float32,), 300)
        types = (dtypes.bfloat16, dtypes.float32)
        buffers = tuple(contents(Mode.EDGE, dtype, 300, 5) for dtype in types)
        case = KernelCase(cast, buffers, mode=Mode.EDGE)
        return not judge(case, "tinyref_conformance.faulty:RoundedNan", thorough=False).agrees

    assert finds()
    # Random bits seldom carry out of the significand of a NaN.
    monkeypatch.setattr(data, "edge_values", edges)
    assert not finds()


@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda dtype: dtype.name)
def test_edge_integers_hold_the_limits_and_alternate_bits(dtype):
    low, high = int(dtype.minimum), int(dtype.maximum)
    values_at_edges = set(edge_values(dtype).tolist())
    assert {low, low + 1, 0, 1, high - 1, high} <= values_at_edges
    alternate = {0x55 * 0x0101010101010101 & high, 0xAA * 0x0101010101010101 & (high - low)}
    as_signed = {value - (high - low + 1) if value > high else value for value in alternate}
    assert as_signed <= values_at_edges
    drawn = set(contents(Mode.EXACT, dtype, 3000, 5).tolist())
    assert {low, high} <= drawn
    assert len(drawn) > (150 if dtype.bits == 8 else 750)
