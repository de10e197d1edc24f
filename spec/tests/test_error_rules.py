"""Every rule accepts what is honest and rejects what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec import bounded, samples
from tinyref_spec.bits import Array, from_bits, to_bits
from tinyref_spec.error_rules import (
    Bounded,
    SameBits,
    Ulp,
    ulp_distance,
    ulp_limit,
    unit_roundoff,
)
from tinyref_spec.kernel.products import expected_product
from tinyref_spec.measure import judge
from tinyref_spec.oracles import Expected, round_to

FLOATS = (*dtypes.floats, *dtypes.fp8s)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ulp_distance_counts_neighbours(dtype: DType) -> None:
    one = int(to_bits(np.array([1]).astype(numpy_dtype(dtype)))[0])
    sign = 1 << (dtype.bits - 1)
    first = from_bits([one, one, 1, 0, sign, 1], dtype)
    second = from_bits([one, one + 3, sign | 1, sign, 0, 0], dtype)
    assert list(ulp_distance(first, second)) == [0, 3, 2, 0, 0, 1]


@pytest.mark.parametrize("dtype", dtypes.floats)
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_ulp_rule_accepts_its_limit_and_rejects_the_next(dtype: DType, limit: int) -> None:
    expected = samples.moderate(dtype, 64, 1)
    bits = to_bits(expected)
    near = from_bits(bits + np.array(limit, bits.dtype), dtype)
    far = from_bits(bits + np.array(limit + 1, bits.dtype), dtype)
    rule = Ulp(limit)
    assert rule.judge(near, Expected(expected)).good.all()
    assert not rule.judge(far, Expected(expected)).good.any()


def test_ulp_rule_tells_the_sign_of_zero() -> None:
    plus, minus = np.array([0.0], np.float32), np.array([-0.0], np.float32)
    assert not Ulp(3).judge(minus, Expected(plus)).good.any()
    assert Ulp(3, signed_zero=False).judge(minus, Expected(plus)).good.all()
    assert Ulp(0).judge(minus, Expected(plus, alternatives=(minus,))).good.all()


def test_a_bool_that_is_not_0_or_1_is_wrong() -> None:
    stray = np.array([1, 2, 0xA5], np.uint8).view(np.bool_)
    verdict = judge(stray, Expected(np.array([True, True, True])), Ulp(0))
    assert list(verdict.bad) == [False, True, True]


def test_unspecified_elements_are_not_judged() -> None:
    specified = np.array([True, False])
    expected = Expected(np.array([1, 2], np.int32), specified)
    assert not judge(np.array([1, 9], np.int32), expected, Ulp(0)).fails
    assert judge(np.array([0, 9], np.int32), expected, Ulp(0)).fails


@pytest.mark.parametrize(
    ("op", "dtype", "declared", "limit"),
    [
        ("EXP2", dtypes.float32, (True, False), 3),
        ("POW", dtypes.bfloat16, (True, False), 4),
        ("POW", dtypes.float32, (False, True), 512),
        ("FDIV", dtypes.float32, (True, False), 0),
        ("FDIV", dtypes.float32, (False, False), 2.5),
        ("SQRT", dtypes.float16, (True, False), 0),
        ("ADD", dtypes.float64, (False, True), 0),
    ],
)
def test_limits_in_units_of_the_last_place(
    op: str, dtype: DType, declared: tuple[bool, bool], limit: float
) -> None:
    """Test each declaration: strict division, reassociated floats."""
    assert ulp_limit(op, dtype, *declared) == limit


# --- products: healthy accumulators pass, broken ones do not ------------------------------------


def _sequential(a: Array, b: Array, dtype: str = "float32") -> Array:
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    for k in range(a.shape[1]):
        total = (total + (a[:, k : k + 1] * b[k : k + 1]).astype(dtype)).astype(dtype)
    return total.astype(np.float32)


def _pairwise(a: Array, b: Array) -> Array:
    parts = a[:, :, None] * b[None]
    while parts.shape[1] > 1:
        parts = parts[:, ::2] + parts[:, 1::2]
    return parts[:, 0]


def _as_tf32(values: Array) -> Array:
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & ~np.uint32(
        0x1FFF
    )
    return rounded.view(np.float32)


def _toward_zero(a: Array, b: Array) -> Array:
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        exact = total.astype(np.float64) + a[:, k : k + 1].astype(np.float64) * b[k : k + 1]
        near = exact.astype(np.float32)
        over = np.abs(near.astype(np.float64)) > np.abs(exact)
        total = np.where(over, np.nextafter(near, np.float32(0)), near)
    return total


HEALTHY = {
    "sequential": _sequential,
    "pairwise": _pairwise,
    "blas": lambda a, b: a @ b,
    "fused": lambda a, b: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32),
}
BROKEN = {
    "tf32 inputs": lambda a, b: _as_tf32(a) @ _as_tf32(b),
    "towards zero": _toward_zero,
    "float16 accumulator": lambda a, b: _sequential(
        a.astype(np.float16), b.astype(np.float16), "float16"
    ),
    "a term lost": lambda a, b: a[:, 1:] @ b[1:],
    "zero": lambda a, b: np.zeros((a.shape[0], b.shape[1]), np.float32),
}


def _product_fails(make: object, length: int, is_positive: bool) -> bool:
    assert callable(make)
    generator = np.random.default_rng([length, is_positive])
    a = generator.standard_normal((32, length)).astype(np.float32)
    b = generator.standard_normal((length, 40)).astype(np.float32)
    if is_positive:
        a, b = np.abs(a), np.abs(b)
    expected, norm, rule = expected_product(a, b, dtypes.float32)
    return judge(np.asarray(make(a, b)).reshape(-1), expected, rule, norm).fails


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("length", [16, 64, 256])
@pytest.mark.parametrize("is_positive", [False, True])
def test_honest_products_pass(name: str, length: int, is_positive: bool) -> None:
    assert not _product_fails(HEALTHY[name], length, is_positive)


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("length", [16, 64, 256])
def test_broken_products_fail_on_positive_data(name: str, length: int) -> None:
    assert _product_fails(BROKEN[name], length, True)


def test_a_bound_alone_would_miss_what_the_statistics_see() -> None:
    """Rounding towards zero stays within n*u*sum|ab|: only its bias gives it away."""
    generator = np.random.default_rng(1)
    a = np.abs(generator.standard_normal((32, 64))).astype(np.float32)
    b = np.abs(generator.standard_normal((64, 40))).astype(np.float32)
    expected, norm, rule = expected_product(a, b, dtypes.float32)
    actual = _toward_zero(a, b).reshape(-1)
    assert rule.judge(actual, expected).good.all()
    assert rule.problem(actual, expected, norm).fault == "biased"


# --- derived bounds ------------------------------------------------------------------------------


def test_bounds_grow_with_the_unit_of_the_type() -> None:
    x = np.linspace(-2, 2, 9)
    narrow = bounded.exp(bounded.exact(x, dtypes.float16)).error
    wide = bounded.exp(bounded.exact(x, dtypes.float32)).error
    assert (narrow > 1000 * wide).all()
    assert (wide < 64 * unit_roundoff(dtypes.float32) * np.exp(x)).all()


def _softmax32(x: Array, exp: object = np.exp) -> Array:
    assert callable(exp)
    powers = exp(x - x.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def test_softmax_rule_accepts_float32_and_rejects_worse() -> None:
    from tinyref_spec.tensor.functions import COMPOSITE

    form = COMPOSITE[0].forms[0]
    assert form.forward is not None
    x = np.random.default_rng(3).standard_normal((4, 9)).astype(np.float32)
    expected = bounded.expected_of(form.forward(bounded.exact(x, dtypes.float32)), dtypes.float32)

    def fails(actual: Array) -> bool:
        flat = np.asarray(actual, np.float32).reshape(-1)
        return judge(flat, expected, Bounded()).fails

    assert not fails(_softmax32(x))
    assert fails(_softmax32(x.astype(np.float16)))
    assert fails(_softmax32(x, lambda v: np.exp(v).astype(np.float16).astype(np.float32)))
    assert fails(np.full((4, 9), 1 / 9))
    assert fails(_softmax32(x) * np.float32(1 + 1e-5))


def test_a_product_of_matrices_may_underflow() -> None:
    """2 ** -30 is below half of 2 ** -24, the smallest float16 above 0."""
    small = bounded.exact(np.full((1, 1), 2.0**-15), dtypes.float16)
    expected = bounded.expected_of(bounded.matmul(small, small), dtypes.float16)
    assert Bounded().judge(np.zeros(1, np.float16), expected).good.all()
    assert not Bounded().judge(np.full(1, 2.0**-20, np.float16), expected).good.any()


def test_expected_of_a_bound_covers_the_last_rounding() -> None:
    value = bounded.exact(np.array([1.0 + 2.0**-9]), dtypes.float32)
    expected = bounded.expected_of(value, dtypes.bfloat16)
    rounded = round_to(value.value, dtypes.bfloat16)
    assert Bounded().judge(rounded, expected).good.all()
    far = (rounded.astype(np.float64) + 0.05).astype(rounded.dtype)
    assert not Bounded().judge(far, expected).good.any()


def test_same_bits_tells_one_nan_from_another() -> None:
    expected = np.array([0x7FC00001, 0xFFC00000, 0x3F800000], np.uint32).view(np.float32)
    actual = np.array([0x7FC00000, 0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    assert list(SameBits().judge(actual, Expected(expected)).good) == [False, False, True]
    assert Ulp(0).judge(actual, Expected(expected)).good.all()
