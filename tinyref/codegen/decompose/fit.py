"""How the coefficients of `polynomials` were made.

`python -m tinyref.codegen.decompose.fit` makes them.

Each function is interpolated at the Chebyshev points of its interval, with 60 digits. That is
within a small factor of the best polynomial (Trefethen, "Approximation Theory and Approximation
Practice", 2013, chapter 16). The coefficients are then rounded to the format that computes them.
Nothing of this runs when kernels are compiled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath

from tinyref.arrays import np
from tinyref.codegen.decompose.polynomials import TWO_OVER_PI_BITS
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
    """(cos(r) - 1 + z / 2) / z^2 for z = r^2."""
    if z < mpmath.mpf(10) ** -20:
        return mpmath.mpf(1) / 24 - z / 720
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2


@dataclass(frozen=True)
class Fit:
    """One polynomial: its name, function, interval, and degree for float32 and for float64.

    The ends of the interval are a little beyond what a rounded reduction can give.
    """

    name: str
    function: Function
    low: float
    high: float
    degrees: tuple[int, int]

    def degree(self, dtype: DType) -> int:
        """The degree in the format `dtype`."""
        return self.degrees[dtype is dtypes.float64]


_ROOT = math.sqrt(0.5)
_SLACK = 1 + 1e-6
_LARGEST_AREA = ((math.sqrt(2) - 1) / (math.sqrt(2) + 1)) ** 2

FITS = (
    Fit("EXPONENTIAL", _exponential, -0.5 * _SLACK, 0.5 * _SLACK, (6, 10)),
    Fit("LOGARITHM", _logarithm, (_ROOT - 1) * _SLACK, (2 * _ROOT - 1) * _SLACK, (10, 20)),
    Fit("AREA", _area, 0.0, _LARGEST_AREA * _SLACK, (3, 7)),
    Fit("SINE", _sine, 0.0, 1.0, (3, 7)),
    Fit("COSINE", _cosine, 0.0, (math.pi / 4) ** 2 * _SLACK, (2, 5)),
)


def rounded(value: mpmath.mpf, dtype: DType) -> float:
    """`value` rounded to nearest in float32 or float64 (the detour does not matter here)."""
    wide = float(value)
    return float(np.float32(wide)) if dtype is dtypes.float32 else wide


def coefficients(fit: Fit, dtype: DType) -> tuple[float, ...]:
    """The coefficients of `fit` in `dtype`, the constant term first."""
    with mpmath.workdps(DIGITS):
        count = fit.degree(dtype) + 1
        middle = (mpmath.mpf(fit.low) + mpmath.mpf(fit.high)) / 2
        half = (mpmath.mpf(fit.high) - mpmath.mpf(fit.low)) / 2
        angles = [mpmath.pi * (2 * k + 1) / (2 * count) for k in range(count)]
        points = [middle + half * mpmath.cos(angle) for angle in angles]
        powers = mpmath.matrix([[point**k for k in range(count)] for point in points])
        values = mpmath.matrix([fit.function(point) for point in points])
        solved = mpmath.lu_solve(powers, values)
        return tuple(rounded(solved[k], dtype) for k in range(count))


def largest_error(fit: Fit, found: tuple[float, ...], points: int = 400) -> float:
    """The largest |polynomial - function| on `points` points of the interval, exactly evaluated."""
    with mpmath.workdps(DIGITS):
        worst = mpmath.mpf(0)
        for k in range(points):
            x = fit.low + (mpmath.mpf(fit.high) - fit.low) * k / (points - 1)
            value = sum(mpmath.mpf(coefficient) * x**n for n, coefficient in enumerate(found))
            worst = max(worst, abs(value - fit.function(x)))
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
    with mpmath.workdps(DIGITS):
        exact = value(mpmath.mpf(1))
        high = mpmath.ldexp(mpmath.floor(mpmath.ldexp(exact, digits - 2)), 2 - digits)
        return float(high), rounded(exact - high, dtype)


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
        parts = leading_bits(lambda one: one * mpmath.pi, digits, dtype)
        sys.stdout.write(f"PI in {dtype.name}: {parts}\n")
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
