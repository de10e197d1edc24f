"""Data of the modes: the same on any machine, and such that faults show."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref_fuzz.generate.inputs import contents, edge_values
from tinyref_spec.kernel_case import Mode

FLOATS = (*dtypes.fp8s, *dtypes.floats)


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
def test_every_type_and_size_has_data_that_differ(dtype, mode):
    for size in (0, 1, 2, 3, 17, 300):
        for seed in (0, 1, 2**31):
            values = contents(mode, dtype, size, seed)
            assert values.shape == (size,)
            assert values.dtype == numpy_dtype(dtype)
            assert values.tobytes() == contents(mode, dtype, size, seed).tobytes()
            assert size < 2 or len(np.unique(values.view(np.uint8).reshape(size, -1), axis=0)) > 1
    assert contents(mode, dtype, 99, 1).tobytes() != contents(mode, dtype, 99, 2).tobytes()


def test_the_bytes_are_these_on_any_machine():
    digest = hashlib.sha256()
    for mode in Mode:
        for dtype in dtypes.all:
            for wide in (False, True):
                digest.update(contents(mode, dtype, 100, 7, wide).tobytes())
    assert digest.hexdigest()[:16] == "0a7a6978f0bc0d20"
    assert contents(Mode.EXACT, dtypes.int32, 8, 3).tolist() == [1, 0, 2, -2, 2, 3, -2, 2]
    floats = [float(value).hex() for value in contents(Mode.FLOAT, dtypes.float32, 3, 3)]
    assert floats == ["0x1.7d85f00000000p+3", "0x1.dfa7ea0000000p+0", "-0x1.dbd86c0000000p-3"]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_edge_floats_hold_what_is_special_and_moderate_ones(dtype):
    values = contents(Mode.EDGE, dtype, 3000, 5).astype(np.float64)
    assert np.isnan(values).any()
    assert np.isinf(values).any() == (dtype is not dtypes.fp8e4m3)
    zeros = values[values == 0]
    assert np.signbit(zeros).any()
    assert not np.signbit(zeros).all()
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)])
    assert magnitudes.min() == 2.0 ** (2 - (1 << (dtype.exponent_bits - 1)) - dtype.mantissa_bits)
    assert 0.6 < ((magnitudes >= 2.0**-4) & (magnitudes < 2.0**4)).sum() / values.size < 0.95


@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda dtype: dtype.name)
def test_edge_integers_hold_the_limits_and_alternate_bits(dtype):
    low, high = int(dtype.minimum), int(dtype.maximum)
    found = set(edge_values(dtype).tolist())
    assert {low, low + 1, 0, 1, high - 1, high} <= found
    alternate = {0x55 * 0x0101010101010101 & high, 0xAA * 0x0101010101010101 & (high - low)}
    as_signed = {value - (high - low + 1) if value > high else value for value in alternate}
    assert as_signed <= found
    assert {low, high} <= set(contents(Mode.EDGE, dtype, 3000, 5).tolist())
    wide = contents(Mode.EXACT, dtype, 3000, 5, wide=True)
    assert len(set(wide.tolist())) > (150 if dtype.bits == 8 else 1500)


def test_what_is_no_size_is_refused():
    with pytest.raises(UserError, match="size -1 and seed 0"):
        contents(Mode.EXACT, dtypes.int32, -1, 0)
