"""Error rules: how far a result may be from the correct one, never a global tolerance.

There are three kinds. `Ulp` counts representable values between the result and the correctly
rounded one. `Bounded` compares each result with a bound that was derived with the reference itself
(see `bounded.py`). `Products` adds a check of bias and variance over at least 1,000 sums of
products, which detects errors within the bound for the worst case.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes, float_bits_apart, from_numpy_dtype
from tinyref_spec.bits import Array, BoolArray, to_bits
from tinyref_spec.oracles import Expected
from tinyref_spec.samples import inf_bits

# ULP limits of the result's dtype: op -> (float16 and bfloat16, float32, float64).
LIMITS: dict[str, tuple[float, float, float]] = {
    "FDIV": (1, 2.5, 0),
    "RECIP": (1, 2.5, 0),
    "SQRT": (1, 3, 0),
    "EXP2": (2, 3, 3),
    "LOG2": (2, 3, 3),
    "SIN": (2, 4, 4),
    "POW": (4, 16, 16),
}
# Limits in strict float mode.
STRICT_LIMITS: dict[str, tuple[float, float, float]] = {
    "FDIV": (1, 0, 0),
    "RECIP": (1, 0, 0),
    "SQRT": (0, 0, 0),
}
# On devices that transform sums as if they were exact, the logarithm of a power is one float. Its
# relative error is multiplied by an exponent of up to 2^7 or 2^10.
REASSOCIATED_LIMITS: dict[str, tuple[float, float, float]] = {"POW": (4, 512, 4096)}


def ulp_limit(op: str, dtype: DType, strict: bool = True, reassociates: bool = False) -> float:
    """Return the most ULP that `op` may be off in `dtype`; 0 for an op that is not in the table.

    reassociates: True if the device declares that it reassociates.
    """
    limits = STRICT_LIMITS.get(op, LIMITS.get(op)) if strict else LIMITS.get(op)
    if reassociates:
        limits = REASSOCIATED_LIMITS.get(op, limits)
    if limits is None or not dtype.is_float:
        return 0
    column = {dtypes.float32: 1, dtypes.float64: 2}.get(dtype, 0)
    return limits[column]


def unit_roundoff(dtype: DType) -> float:
    """Return u, the largest relative error of one rounding to nearest; 0 for integers."""
    return float(2.0 ** -(dtype.mantissa_bits + 1)) if dtype.is_float else 0.0


def smallest_subnormal(dtype: DType) -> float:
    """Return the distance of the values next to zero from it; 0 for integers."""
    if not dtype.is_float:
        return 0.0
    return float(2.0 ** (2 - (1 << (dtype.exponent_bits - 1)) - dtype.mantissa_bits))


def smallest_normal(dtype: DType) -> float:
    """Return the smallest normal number; 0 for integers."""
    return smallest_subnormal(dtype) * 2.0**dtype.mantissa_bits if dtype.is_float else 0.0


def is_nan_bits(bits: Array, dtype: DType) -> BoolArray:
    """Return where these bits of a float type are a NaN, without asking numpy."""
    magnitude = bits & np.array((1 << (dtype.bits - 1)) - 1, dtype=bits.dtype)
    if dtype is dtypes.fp8e4m3:
        return np.asarray(magnitude == 0x7F)
    return np.asarray(magnitude > inf_bits(dtype))


def ulp_distance(actual: Array, expected: Array) -> Array:
    """Return the number of representable values between two arrays, as float64.

    The distance between NaNs is 0, and infinite between NaN and a number; +0 and -0 are equal.
    """
    dtype = from_numpy_dtype(expected.dtype)
    first, second = to_bits(actual), to_bits(expected)
    distance = float_bits_apart(first, second)
    nan, other_nan = is_nan_bits(first, dtype), is_nan_bits(second, dtype)
    distance = np.where(nan & other_nan, 0.0, distance)
    return np.where(nan != other_nan, np.inf, distance)


def _is_zero(values: Array) -> BoolArray:
    bits = to_bits(values)
    # The sum drops the sign bit.
    return np.asarray(bits + bits == 0)


def identical(actual: Array, expected: Array) -> BoolArray:
    """Return where the values are the same: equal bits, or both NaN. Signed zeros differ."""
    first, second = to_bits(actual), to_bits(expected)
    same = first == second
    dtype = from_numpy_dtype(expected.dtype)
    if dtype.is_float:
        same = same | (is_nan_bits(first, dtype) & is_nan_bits(second, dtype))
    return np.asarray(same)


@dataclass
class Verdict:
    """Marks of the allowed results, and their distance in ULP (None if that says nothing).

    share: the used part of what is allowed; None if only the exact result is.
    """

    good: BoolArray
    ulp: Array | None = None
    share: Array | None = None


@dataclass(frozen=True)
class Ulp:
    """At most `limit` ULP from the correctly rounded value; at 0, the same bits.

    `signed_zero`: a zero result must have the right sign; else +0 and -0 are equal.
    """

    limit: float = 0
    signed_zero: bool = True

    @property
    def sentence(self) -> str:
        if self.limit == 0:
            return "Exact: the bits of the correctly rounded result; any NaN for a NaN."
        return f"Within {self.limit:g} ULP of the correctly rounded result; special cases exact."

    def judge(self, actual: Array, expected: Expected) -> Verdict:
        """Judge results; special results (NaN, infinities, zeros) must match exactly."""
        allowed = (expected.values, *expected.alternatives)
        verdicts = [self._against(actual, values) for values in allowed]
        good = np.logical_or.reduce([verdict.good for verdict in verdicts])
        distances = [verdict.ulp for verdict in verdicts if verdict.ulp is not None]
        ulp = np.minimum.reduce(distances) if distances else None
        share = ulp / self.limit if ulp is not None and self.limit else None
        return Verdict(good, ulp, share)

    def _against(self, actual: Array, values: Array) -> Verdict:
        if not from_numpy_dtype(values.dtype).is_float:
            return Verdict(identical(actual, values))
        distance = ulp_distance(actual, values)
        good = distance <= self.limit
        if self.signed_zero:
            good &= ~(_is_zero(actual) & _is_zero(values)) | identical(actual, values)
        return Verdict(good, distance)


@dataclass(frozen=True)
class SameBits:
    """The same bits as the reference, including the sign and the payload of a NaN."""

    @property
    def sentence(self) -> str:
        return "Exact: the same bits, also of a NaN."

    def judge(self, actual: Array, expected: Expected) -> Verdict:
        """Compare bits; the distance says how far off a float is."""
        good = to_bits(actual) == to_bits(expected.values)
        is_float = from_numpy_dtype(expected.values.dtype).is_float
        distance = ulp_distance(actual, expected.values) if is_float else None
        return Verdict(np.asarray(good), distance)


@dataclass(frozen=True)
class Bounded:
    """Within the bound that the reference derived for each element.

    NaN, infinities and results beyond the largest value must match the rounded reference.
    roundings: this many roundings of a number near 1 are allowed in addition to the bound.
    """

    sentence: str = "Within the bound derived from the parts of the function."
    roundings: int = 0

    def judge(self, actual: Array, expected: Expected) -> Verdict:
        """Judge results by `expected.wide` and `expected.tolerance`; integers must be equal."""
        dtype = from_numpy_dtype(expected.values.dtype)
        if expected.tolerance is None or expected.wide is None or not dtype.is_float:
            return Ulp(signed_zero=False).judge(actual, expected)
        with np.errstate(all="ignore"):
            wide = actual.astype(np.float64)
            error = np.abs(wide - expected.wide)
            regular = np.isfinite(expected.wide) & np.isfinite(wide)
        distance = ulp_distance(actual, expected.values)
        tolerance = expected.tolerance + self.roundings * unit_roundoff(dtype)
        close = np.where(regular, error <= tolerance, distance == 0)
        with np.errstate(all="ignore"):
            used = np.where(error == 0, 0.0, error / tolerance)
        share = np.where(regular, used, np.where(distance == 0, 0.0, np.inf))
        return Verdict(np.asarray(close), distance, share)


def accumulation_bound(magnitudes: Array, length: int, accumulator: DType, output: DType) -> Array:
    """Return n*u*sum|a_i*b_i| with the accumulator's u; `magnitudes` is that sum, per result.

    `with_rounding` adds one rounding to the output dtype.
    """
    return length * unit_roundoff(accumulator) * np.asarray(magnitudes, dtype=np.float64)


def with_rounding(wide: Array, bound: Array, output: DType) -> Array:
    """Return `bound` plus one rounding of a result near `wide` to the output dtype."""
    magnitude = np.abs(wide) + bound
    return bound + np.maximum(unit_roundoff(output) * magnitude, smallest_subnormal(output) / 2)


@dataclass(frozen=True)
class ResultProblem:
    """A problem of results as a whole.

    fault: the name of its condition. explains_elements: True if it also explains wrong elements.
    """

    message: str = ""
    fault: str = ""
    explains_elements: bool = False


NO_PROBLEM = ResultProblem()


@dataclass(frozen=True)
class Statistics:
    """Mean and spread of normalised errors, and their limits.

    The error of each result is divided by u * |a*b|_2: one rounding error of each product, added at
    random. A correct sum, in any order, has a mean near 0 and a spread of at most sqrt(n/6), plus a
    little for the products: each partial sum rounds once.
    """

    mean: float
    spread: float
    mean_limit: float
    spread_limit: float

    @property
    def problem(self) -> ResultProblem:
        """Return the problem, if there is one. A NaN is a problem."""
        if not abs(self.mean) <= self.mean_limit:
            words = f"mean error {self.mean:.3g} units, at most {self.mean_limit:.3g}"
            return ResultProblem(f"biased: {words}", "biased")
        if not self.spread <= self.spread_limit:
            words = f"spread {self.spread:.3g} units, at most {self.spread_limit:.3g}"
            return ResultProblem(f"too noisy: {words}", "noisy")
        return NO_PROBLEM


LEAST_PRODUCTS = 1000


def statistics(
    error: Array, norm: Array, wide: Array, length: int, accumulator: DType, output: DType
) -> Statistics:
    """Return bias and variance of `error` over at least 1,000 sums of `length` products.

    norm: sqrt(sum (a_i*b_i)^2) per result; wide: the exact results, for the final rounding.
    Raises ValueError for fewer results, so that no check is empty.
    """
    count = error.size
    if count < LEAST_PRODUCTS:
        raise ValueError(f"statistics: {count} products, accepted are at least {LEAST_PRODUCTS}")
    unit = unit_roundoff(accumulator) * np.maximum(norm, np.finfo(np.float64).tiny)
    final = 0.0
    if output is not accumulator:
        # The final rounding is uniform within +-u of the result.
        final = float(np.sqrt(np.mean((unit_roundoff(output) * wide / unit) ** 2) / 3))
    scaled = error / unit
    # If the mean product is far from zero, partial sums grow like n, not like sqrt(n).
    growth = float(np.sqrt(np.mean((wide / np.maximum(norm, 1e-300)) ** 2)))
    spread_limit = 1.5 * np.sqrt(1 + length / 6 + length * growth**2 / 9 + final**2)
    spread = float(np.std(scaled))
    mean_limit = 6 * float(spread_limit) / np.sqrt(count)
    return Statistics(float(np.mean(scaled)), spread, mean_limit, float(spread_limit))


@dataclass(frozen=True)
class Products:
    """The bound of `Bounded` for every result, and no bias and no excess noise over all of them."""

    length: int
    accumulator: DType
    output: DType

    @property
    def sentence(self) -> str:
        return (
            f"|error| <= n*u*sum|a*b| with n = {self.length} and u of {self.accumulator.name}, "
            f"plus one rounding to {self.output.name}; bias and variance over all products."
        )

    def judge(self, actual: Array, expected: Expected) -> Verdict:
        """Judge each result by its bound; `problem` judges bias and variance."""
        return Bounded().judge(actual, expected)

    def problem(self, actual: Array, expected: Expected, norm: Array) -> ResultProblem:
        """Return the problem that bias and variance show."""
        if expected.wide is None:
            return NO_PROBLEM
        error = actual.astype(np.float64) - expected.wide
        wide, narrow = (
            statistics(error, norm, expected.wide, self.length, accumulator, self.output)
            for accumulator in (self.accumulator, self.output)
        )
        # Errors of sums, or products, that are rounded to the type of the results.
        is_narrow = narrow.spread <= 2 * narrow.spread_limit
        return dataclasses.replace(wide.problem, explains_elements=is_narrow)


Rule = Ulp | SameBits | Bounded | Products


def reassociated(rule: Rule) -> Rule:
    """Return the rule for a device that declares to transform floats as if they were exact.

    Then x + 0 is x, so zeros lose their signs. Also (1 + x) - 1 is x, so the rounding of 1 + x,
    which a function of small numbers depends on, is lost.
    """
    if isinstance(rule, Ulp):
        return dataclasses.replace(rule, signed_zero=False)
    return dataclasses.replace(rule, roundings=2) if isinstance(rule, Bounded) else rule
