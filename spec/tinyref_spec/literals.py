"""Literals of the special-case tables: names and numbers for exact values of a dtype."""

from __future__ import annotations

import functools

import numpy as np

from tinyref.dtype import DType, Kind, numpy_dtype
from tinyref_spec.bits import Array, from_bits, to_bits
from tinyref_spec.oracles import round_to
from tinyref_spec.samples import bias, inf_bits, largest_bits, quiet_nan_bits


class NotRepresentableError(ValueError):
    """A value that the dtype lacks: the table row does not apply to it."""


# Names of floats in the tables: inf, nan, LARGEST, NORMAL (the smallest normal), SUB (the smallest
# subnormal), SUB2 and SUB3 (two and three of it). LARGESTSUB, HALFNORMAL, EPS (next after 1), EPS2
# (after that), ULP (EPS - 1), HALFULP.
def _float_name_bits(name: str, dtype: DType) -> int | None:
    mantissa = dtype.mantissa_bits
    one = bias(dtype) << mantissa
    known = {
        "nan": quiet_nan_bits(dtype),
        "LARGEST": largest_bits(dtype),
        "NORMAL": 1 << mantissa,
        "SUB": 1,
        "SUB2": 2,
        "SUB3": 3,
        "LARGESTSUB": (1 << mantissa) - 1,
        "HALFNORMAL": 1 << (mantissa - 1),
        "EPS": one + 1,
        "EPS2": one + 2,
        "ULP": one - (mantissa << mantissa),
        "HALFULP": one - ((mantissa + 1) << mantissa),
    }
    if name == "inf":
        if inf_bits(dtype) == quiet_nan_bits(dtype):
            raise NotRepresentableError(f"{dtype.name} has no infinity")
        return inf_bits(dtype)
    bits = known.get(name)
    if bits is not None and bits <= 0:
        raise NotRepresentableError(f"{dtype.name} has no normal {name}")
    return bits


def _integer(text: str, dtype: DType) -> int:
    low, high = int(dtype.minimum), int(dtype.maximum)
    names = {
        "MIN": low,
        "MAX": high,
        "MIN+1": low + 1,
        "MAX-1": high - 1,
        "HALFMIN": -(1 << (dtype.bits - 2)),
        "HALFMAX": (1 << (dtype.bits - 2)) - 1 if dtype.kind is Kind.SIGNED else high >> 1,
        "TOP": 1 << (dtype.bits - 1),
        "BITS": dtype.bits,
        "BITS-1": dtype.bits - 1,
        "BITS+1": dtype.bits + 1,
    }
    value = names[text] if text in names else int(text, 0)
    if not low <= value <= high:
        raise NotRepresentableError(f"{text} is not in the range of {dtype.name}")
    return value


@functools.cache
def literal(text: str, dtype: DType) -> Array:
    """Return the value that `text` names in `dtype`, as an array of one element.

    Accepts Python numbers (also hexadecimal floats), `True`, `False`, and the names above with an
    optional minus. Raises `NotRepresentableError` if the dtype has no such exact value.
    """
    if dtype.is_bool:
        if text not in ("True", "False"):
            raise NotRepresentableError(f"bool has no {text}")
        return np.array([text == "True"])
    if not dtype.is_float:
        return np.array([_integer(text, dtype)], dtype=numpy_dtype(dtype))
    negative = text.startswith("-")
    bits = _float_name_bits(text.removeprefix("-"), dtype)
    if bits is not None:
        return from_bits([bits | (negative << (dtype.bits - 1))], dtype)
    exact = float.fromhex(text) if "0x" in text else float(text)
    value = round_to(np.array([exact]), dtype)
    if float(value.astype(np.float64)[0]) != exact:
        raise NotRepresentableError(f"{dtype.name} does not hold {text} exactly")
    return value


def is_subnormal(values: Array, dtype: DType) -> Array:
    """Return where a float value is subnormal; all false for other types."""
    if not dtype.is_float:
        return np.zeros(values.shape, dtype=np.bool_)
    magnitude = to_bits(values) & np.array((1 << (dtype.bits - 1)) - 1, to_bits(values).dtype)
    return np.asarray((magnitude > 0) & (magnitude < (1 << dtype.mantissa_bits)))
