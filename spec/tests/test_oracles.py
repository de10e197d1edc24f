"""The references against literals, exact fractions and a second implementation."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tinyref.dtype import DType, dtypes, narrow_float64
from tinyref_spec import oracles, samples
from tinyref_spec.bits import to_bits
from tinyref_spec.isa import rows
from tinyref_spec.isa.elementwise import Operation, operand_values, result_value

SMALL = (dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.float16, dtypes.bfloat16, dtypes.float32)


@pytest.mark.parametrize("dtype", SMALL)
def test_rounding_agrees_with_a_second_implementation(dtype: DType) -> None:
    values = np.concatenate(
        [samples.random_bits(dtypes.float64, 20000, 1), samples.edges(dtypes.float64)]
    )
    around = samples.random_bits(dtype, 4000, 2).astype(np.float64)
    values = np.concatenate([values, around, around * (1 + 2.0**-30), np.nextafter(around, 9)])
    ours, theirs = oracles.round_to(values, dtype), narrow_float64(values, dtype)
    same = (to_bits(ours) == to_bits(theirs)) | (np.isnan(ours) & np.isnan(theirs))
    assert same.all()


def test_rounding_literals() -> None:
    def bits(value: float, dtype: DType) -> int:
        return int(to_bits(oracles.round_to(np.array([value]), dtype))[0])

    assert bits(65519.999, dtypes.float16) == 0x7BFF
    assert bits(65520.0, dtypes.float16) == 0x7C00
    assert bits(2.0**-25, dtypes.float16) == 0
    assert bits(-(2.0**-25), dtypes.float16) == 0x8000
    assert bits(1.5 * 2.0**-25, dtypes.float16) == 1
    assert bits(464.0, dtypes.fp8e4m3) == 0x7E
    assert bits(465.0, dtypes.fp8e4m3) == 0x7F
    assert bits(1 + 2.0**-8 + 2.0**-40, dtypes.bfloat16) == 0x3F81


def test_integers_round_once() -> None:
    assert oracles.round_integer(2**53 + 2**29 + 1, dtypes.float32) == 2.0**53 + 2.0**30
    assert oracles.round_integer(2**24 + 1, dtypes.float32) == 2.0**24
    assert oracles.round_integer(-(2**24) - 3, dtypes.float32) == -(2.0**24) - 4
    for value in (2**63 - 1, 2**64 - 1, 12345678901234567):
        assert oracles.round_integer(value, dtypes.float64) == float(value)


@pytest.mark.parametrize(
    ("counter", "key", "result"),
    [
        (0, 0, 0x99BA4EFE6B200159),
        (2**64 - 1, 2**64 - 1, 0xBB002BE71CB996FC),
        (0x85A308D3243F6A88, 0x0370734413198A2E, 0x483DF7A0C4923A9C),
    ],
)
def test_threefry_known_answers(counter: int, key: int, result: int) -> None:
    assert oracles.threefry(counter, key) == result


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "FDIV"])
def test_float64_arithmetic_is_correctly_rounded(op: str) -> None:
    x, y = (samples.moderate(dtypes.float64, 200, seed) for seed in (1, 2))
    actual = oracles.evaluate(op, dtypes.float64, [x, y]).values
    functions = {
        "ADD": Fraction.__add__,
        "SUB": Fraction.__sub__,
        "MUL": Fraction.__mul__,
        "FDIV": Fraction.__truediv__,
    }
    for a, b, c in zip(x, y, actual, strict=True):
        # Python rounds a fraction correctly.
        assert float(functions[op](Fraction(float(a)), Fraction(float(b)))) == float(c)


@pytest.mark.parametrize("op", ["EXP2", "LOG2", "SIN"])
def test_wide_functions_carry_24_more_bits(op: str) -> None:
    """numpy's float64 functions as references of float32, over the whole range."""
    x = samples.random_bits(dtypes.float32, 300, 4)
    wide = oracles.evaluate(op, dtypes.float32, [x]).wide
    assert wide is not None
    functions = {"EXP2": lambda v: 2**v, "LOG2": lambda v: mpmath.log(v, 2), "SIN": mpmath.sin}
    checked = 0
    with mpmath.workprec(200):
        for value, reference in zip(x.astype(np.float64).tolist(), wide.tolist(), strict=True):
            if not math.isfinite(value) or not math.isfinite(reference) or reference == 0:
                continue
            if op == "LOG2" and value <= 0:
                continue
            exact = functions[op](mpmath.mpf(value))
            assert abs((exact - reference) / exact) < 2.0**-48
            checked += 1
    assert checked > 50


def all_operations() -> list[Operation]:
    return list(rows.operations())


@pytest.mark.long
def test_every_literal_agrees_with_its_oracle() -> None:
    """Compare two independent values of every special case: the table and the reference."""
    checked = 0
    for operation in all_operations():
        for special in operation.applicable:
            expected = operation.reference(operand_values(operation, special))
            result = result_value(operation, special)
            is_specified = expected.specified is None or bool(expected.specified.all())
            assert is_specified == (result is not None), (operation.id, special)
            if result is not None:
                verdict = operation.rule.judge(result, expected)
                assert verdict.good.all(), (operation.id, special, expected.values)
            checked += 1
    assert checked > 1900
