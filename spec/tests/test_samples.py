"""The inputs: every edge is there, every table is whole, every seed gives the same."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import DType, dtypes
from tinyref_spec import samples
from tinyref_spec.bits import hexadecimal, to_bits
from tinyref_spec.isa import rows
from tinyref_spec.isa.elementwise import columns
from tinyref_spec.literals import NotRepresentableError, literal

FLOATS = (*dtypes.floats, *dtypes.fp8s)


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_edges(dtype: DType) -> None:
    edges = {int(bits) for bits in to_bits(samples.edges(dtype))}
    sign = 1 << (dtype.bits - 1)
    assert {0, sign, 1, sign | 1, 1 << dtype.mantissa_bits} <= edges
    assert samples.largest_bits(dtype) in edges
    assert samples.inf_bits(dtype) in edges
    assert np.isnan(samples.edges(dtype).astype(np.float64)).any()
    assert len(edges) == len(samples.edges(dtype))


def test_ties_between_two_values_of_a_smaller_float() -> None:
    halves = {int(bits) for bits in to_bits(samples.ties_between(dtypes.float32, dtypes.float16))}
    # 1 + 2^-11 and its neighbours, -(65504 + 16), above which all is infinite, and 2^-25.
    assert {0x3F800FFF, 0x3F801000, 0x3F801001, 0xC77FF000, 0x33000000} <= halves
    # float32 has neither: it has 24 bits, and a value halfway in bfloat16 is what is left.
    integers = {int(value) for value in samples.ties_between(dtypes.int32, dtypes.bfloat16)}
    assert {2**24 + 2**16 + 1, -(2**24) - 2**16 - 1, 2**30 + 2**22 - 1} <= integers
    assert {int(value) for value in samples.ties_between(dtypes.int16, dtypes.float16)} >= {2049}
    for source, target in ((dtypes.int8, dtypes.float32), (dtypes.bfloat16, dtypes.float32)):
        assert len(samples.ties_between(source, target)) == 0


def test_limits_of_what_a_cast_converts_to() -> None:
    def limits(source: DType, target: DType) -> set[float]:
        return set(samples.limits_between(source, target).tolist())

    assert {-129, -128, 127, 128, 255, 256, 257} <= limits(dtypes.int32, dtypes.int8)
    assert {-0.5, 127.5, 128.0, 255.5} <= limits(dtypes.float32, dtypes.int8)
    # The largest float32 below 2^31.
    assert {2147483520.0, 2147483648.0} <= limits(dtypes.float32, dtypes.int32)
    assert {65519, 65520} <= limits(dtypes.uint32, dtypes.float16)
    assert {2.0**-25, 2.0**-24, 65520.0} <= limits(dtypes.float32, dtypes.float16)
    assert {256, 65536, -256} <= limits(dtypes.int32, dtypes.bool)


def test_tables_are_whole() -> None:
    operations = {operation.id: operation for operation in rows.operations()}

    def seen(name: str) -> set[tuple[int, ...]]:
        slices = [columns(operations[name], "exhaustive", number) for number in range(64)]
        bits = [[to_bits(column).tolist() for column in part] for part in slices]
        return {values for part in bits for values in zip(*part, strict=True)}

    assert len(seen("isa.binary.mod.int8")) == 65536
    assert len(seen("isa.unary.neg.int16")) == 65536
    # Signalling NaNs are made quiet: half of the NaNs of either sign are left.
    assert len(seen("isa.unary.sin.float16")) == 65536 - 2 * 511
    assert len(samples.table(dtypes.fp8e4m3)) == 256


def test_signalling_nans_become_quiet() -> None:
    bits = np.array([0x7F800001, 0xFFBFFFFF, 0x3F800000], np.uint32)
    quiet = to_bits(samples.quiet(bits, dtypes.float32))
    assert [hex(item) for item in quiet] == ["0x7fc00001", "0xffffffff", "0x3f800000"]


def test_literals() -> None:
    assert hexadecimal(literal("-SUB", dtypes.float16)) == ["0x8001"]
    assert hexadecimal(literal("LARGEST", dtypes.bfloat16)) == ["0x7f7f"]
    assert hexadecimal(literal("EPS", dtypes.float64)) == ["0x3ff0000000000001"]
    assert int(literal("MIN", dtypes.int16)[0]) == -32768
    assert literal("True", dtypes.bool)[0]
    for text, dtype in (
        ("0.1", dtypes.float32),
        ("128", dtypes.int8),
        ("-1", dtypes.uint8),
        ("inf", dtypes.fp8e4m3),
        ("1", dtypes.bool),
    ):
        with pytest.raises(NotRepresentableError):
            literal(text, dtype)
