"""Which floats are exact: multiples so small that no sum of them rounds in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Elements = npt.NDArray[Any]
# Of each float type the grain, as a number of parts of 1, and the limit. Multiples of the one below
# the other take 23 of the 24 bits of a significand of float32, 10 of the 11 of float16 (IEEE 754).
RANGES = {"float16": (4.0, 2.0**8), "float32": (256.0, 2.0**15), "float64": (256.0, 2.0**15)}


class InexactError(Exception):
    """A float that rounds, or may do so in another order: the oracle has no exact value."""


class UndefinedError(Exception):
    """A step that does not fit what it reads."""


def check_exact(elements: Elements, dtype: str = "") -> None:
    """Raises `InexactError` for a float that is no small multiple of the grain of its type.

    dtype: the type, where it is not that of the elements.
    """
    if elements.dtype.kind == "f" and elements.size:
        grain, limit = RANGES[dtype or elements.dtype.name]
        scaled = elements.astype(np.float64) * grain
        if not np.all(np.abs(scaled) <= limit * grain) or np.any(scaled != np.trunc(scaled)):
            raise InexactError(f"a float that is no multiple of 1/{grain:.0f}, or too large")


def check_sum(terms: Elements, axes: tuple[int, ...], dtype: str = "") -> None:
    """Raises `InexactError` where a sum of `terms` rounds in some order."""
    check_exact(terms, dtype)
    if terms.dtype.kind == "f" and terms.size:
        total = np.asarray(np.abs(terms.astype(np.float64)).sum(axis=axes))
        check_exact(total, dtype or terms.dtype.name)
