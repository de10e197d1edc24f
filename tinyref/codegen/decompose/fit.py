"""How the coefficients of `polynomials` were made.

`python -m tinyref.codegen.decompose.fit` makes them.

Each polynomial has the least sum of squares, over many Chebyshev points of its interval, of the
relative error that it gives the result. That is within a small factor of the best polynomial
(Trefethen, "Approximation Theory and Approximation Practice", 2013, chapter 16). The first
coefficients are rounded to the format that computes them one after the other, and the others then
fitted to what is left (Brisebarre and Chevillard, "Efficient polynomial L-infinity
approximations", 2007, have the same in mind). Nothing of this runs when kernels are compiled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath

from tinyref.arrays import np
from tinyref.codegen.decompose.polynomials import HALF_PI_ENDS, TWO_OVER_PI_BITS
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError

DIGITS = 60

Function = Callable[[mpmath.mpf], mpmath.mpf]


def _exponential(r: mpmath.mpf) -> mpmath.mpf:
    """(2^r - 1) / r."""
    return mpmath.expm1(r * mpmath.log(2)) / r if r else mpmath.log(2)


def _logarithm(f: mpmath.mpf) -> mpmath.mpf:
    """(log2(1 + f) - 3/2 f) / f."""
    slope = mpmath.log1p(f) / f if f else mpmath.mpf(1)
    return slope / mpmath.log(2) - mpmath.mpf(3) / 2


def _area(z: mpmath.mpf) -> mpmath.mpf:
    """(atanh(s) / s - 1 - z / 3) / z^2 for z = s^2."""
    if z < mpmath.mpf(10) ** -12:
        return mpmath.mpf(1) / 5 + z / 7
    s = mpmath.sqrt(z)
    return (mpmath.atanh(s) / s - 1 - z / 3) / z**2


def _sine(z: mpmath.mpf) -> mpmath.mpf:
    """(sin(r) / r - 1) / z for z = r^2."""
    if z < mpmath.mpf(10) ** -24:
        return -mpmath.mpf(1) / 6 + z / 120
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z


def _cosine(z: mpmath.mpf) -> mpmath.mpf:
    """(cos(r) - 1) / z for z = r^2."""
    if z < mpmath.mpf(10) ** -20:
        return -mpmath.mpf(1) / 2 + z / 24
    return (mpmath.cos(mpmath.sqrt(z)) - 1) / z


def _constant(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.mpf(1)


@dataclass(frozen=True)
class Fit:
    """One polynomial: its name, function, interval, and degree for float32 and for float64.

    The ends of the interval are a little beyond what a rounded reduction can give. weight: by how
    much an error of the polynomial is a relative error of the result.
    """

    name: str
    function: Function
    low: float
    high: float
    degrees: tuple[int, int]
    weight: Function = _constant

    def degree(self, dtype: DType) -> int:
        """The degree in the format `dtype`."""
        return self.degrees[dtype is dtypes.float64]


_ROOT = math.sqrt(0.5)
_SLACK = 1 + 1e-6
_LARGEST_AREA = ((math.sqrt(2) - 1) / (math.sqrt(2) + 1)) ** 2
# Where the quotient by pi / 2 is rounded, the nearest integer may be taken for the next.
_LARGEST_ANGLE = (math.pi / 4 + 2**-12) ** 2

FITS = (
    Fit(
        "EXPONENTIAL",
        _exponential,
        -0.5 * _SLACK,
        0.5 * _SLACK,
        (5, 10),
        lambda r: abs(r) / 2**r,
    ),
    Fit(
        "LOGARITHM",
        _logarithm,
        (_ROOT - 1) * _SLACK,
        (2 * _ROOT - 1) * _SLACK,
        (9, 20),
        # Above 1, where more is rounded, a little less is left to the polynomial.
        lambda f: mpmath.sqrt(1 + f) / (_logarithm(f) + mpmath.mpf(3) / 2),
    ),
    Fit("AREA", _area, 0.0, _LARGEST_AREA * _SLACK, (3, 7)),
    Fit("SINE", _sine, 0.0, _LARGEST_ANGLE, (3, 6), lambda z: z / (1 + z * _sine(z))),
    Fit("COSINE", _cosine, 0.0, _LARGEST_ANGLE, (3, 6), lambda z: z / (1 + z * _cosine(z))),
)

# Of these many first coefficients the rounding matters.
_ROUNDED_ONE_BY_ONE = 3


def rounded(value: mpmath.mpf, dtype: DType) -> float:
    """`value` rounded to nearest in float32 or float64 (the detour does not matter here)."""
    wide = float(value)
    return float(np.float32(wide)) if dtype is dtypes.float32 else wide


def coefficients(fit: Fit, dtype: DType) -> tuple[float, ...]:
    """The coefficients of `fit` in `dtype`, the constant term first."""
    with mpmath.workdps(DIGITS):
        count = fit.degree(dtype) + 1
        found: list[float] = []
        while len(found) < count:
            solved = _least_squares(fit, found, count)
            last = len(found) + 1 >= _ROUNDED_ONE_BY_ONE
            found += [rounded(value, dtype) for value in (solved if last else solved[:1])]
        return tuple(found)


def _least_squares(fit: Fit, known: list[float], count: int) -> list[mpmath.mpf]:
    """The coefficients that come after the `known` ones, up to `count` of them."""
    middle = (mpmath.mpf(fit.low) + mpmath.mpf(fit.high)) / 2
    half = (mpmath.mpf(fit.high) - mpmath.mpf(fit.low)) / 2
    number = 6 * (count - len(known) + 1)
    powers = range(len(known), count)
    rows, values = [], []
    for k in range(number):
        x = middle + half * mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * number))
        weight = fit.weight(x)
        rows.append([weight * x**power for power in powers])
        values.append(weight * (fit.function(x) - _polynomial(known, x)))
    matrix = mpmath.matrix(rows)
    solved = mpmath.lu_solve(matrix.T * matrix, matrix.T * mpmath.matrix(values))
    return [solved[k] for k in range(len(powers))]


def _polynomial(found: Sequence[float], x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.fsum(mpmath.mpf(coefficient) * x**n for n, coefficient in enumerate(found))


def largest_error(fit: Fit, found: tuple[float, ...], points: int = 400) -> float:
    """The largest |polynomial - function|, times the weight, on `points` points of the interval.

    All are evaluated exactly.
    """
    with mpmath.workdps(DIGITS):
        worst = mpmath.mpf(0)
        for k in range(points):
            x = fit.low + (mpmath.mpf(fit.high) - fit.low) * k / (points - 1)
            worst = max(worst, abs(_polynomial(found, x) - fit.function(x)) * fit.weight(x))
        return float(worst)


def two_over_pi(bits: int) -> int:
    """The first `bits` bits of 2/pi after the point, as an integer."""
    with mpmath.workprec(bits + 64):
        return int(mpmath.floor(mpmath.ldexp(2 / mpmath.pi, bits)))


def pair(value: Function, dtype: DType) -> tuple[float, float]:
    """value(1) as a sum of two floats of `dtype`."""
    with mpmath.workdps(DIGITS):
        exact = value(mpmath.mpf(1))
        high = rounded(exact, dtype)
        return high, rounded(exact - high, dtype)


def leading_bits(value: Function, digits: int, dtype: DType) -> tuple[float, float]:
    """value(1), of 2 to 4, as its first `digits` bits and the rest of it rounded to `dtype`."""
    high, low = parts(value, (2 - digits,), dtype)
    return high, low


def parts(value: Function, ends: Sequence[int], dtype: DType) -> tuple[float, ...]:
    """value(1) as a sum: its bits down to 2^end for each of `ends`, and the rest in `dtype`."""
    with mpmath.workdps(DIGITS):
        left = value(mpmath.mpf(1))
        found = []
        for end in ends:
            found.append(float(mpmath.ldexp(mpmath.floor(mpmath.ldexp(left, -end)), end)))
            left -= found[-1]
        return (*found, rounded(left, dtype))


def fit_named(name: str) -> Fit:
    """The fit called `name`. Raises `UserError` for any other."""
    for fit in FITS:
        if fit.name == name:
            return fit
    accepted = ", ".join(fit.name for fit in FITS)
    raise UserError(f"fit: unknown name {name!r}: accepted are {accepted}")


CONSTANTS: dict[str, Function] = {
    "THIRD": lambda one: one / 3,
    "TWO_OVER_LN_2": lambda one: 2 * one / mpmath.log(2),
}


def main() -> None:
    """Prints every constant and table of coefficients as Python."""
    sys.stdout.write(f"TWO_OVER_PI = {two_over_pi(TWO_OVER_PI_BITS):#x}\n")
    for dtype, digits in ((dtypes.float32, 12), (dtypes.float64, 26)):
        both = leading_bits(lambda one: one * mpmath.pi, digits, dtype)
        sys.stdout.write(f"PI in {dtype.name}: {both}\n")
        four = parts(lambda one: one * mpmath.pi / 2, HALF_PI_ENDS[dtype], dtype)
        sys.stdout.write(f"HALF_PI in {dtype.name}: {four}\n")
        for name, value in CONSTANTS.items():
            sys.stdout.write(f"{name} in {dtype.name}: {pair(value, dtype)}\n")
    for fit in FITS:
        for dtype in (dtypes.float32, dtypes.float64):
            found = coefficients(fit, dtype)
            worst = math.log2(largest_error(fit, found))
            lines = "".join(f"    {value!r},\n" for value in found)
            title = f"# {fit.name} in {dtype.name}: within 2^{worst:.1f}.\n"
            sys.stdout.write(f"{title}(\n{lines})\n")


if __name__ == "__main__":
    main()
