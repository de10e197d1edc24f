"""What each operation computes from elements, with numpy, and which floats are exact.

Floats stay multiples so small that no sum of them rounds in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref_fuzz.programs.steps import Value

# The types in which sums are taken, where it is not the type itself.
SUMS = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
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


# --- movement: of elements and of places alike ---------------------------------------------------


def key_of(key: Value) -> tuple[Any, ...]:
    """The key of numpy that a step names."""
    found: list[Any] = []
    for item in key:
        if not isinstance(item, tuple):
            found.append(item)
        elif item[0] == "places":
            found.append(list(item[1]))
        else:
            found.append(slice(*item))
    return tuple(found)


def part_key(values: Sequence[Value], size: int) -> tuple[slice, ...]:
    """The key of numpy for the part that a size, bound to this number, cuts off."""
    axis, form = values
    ends = {"head": (0, size), "tail": (size - 1, None), "window": (size - 1, size)}[form]
    return (*[slice(None)] * axis, slice(*ends))


MOVEMENTS = frozenset(
    {"reshape", "permute", "expand", "shrink", "flip", "index", "detach", "bitcast"}
)


def move(op: str, x: Elements, values: Sequence[Value]) -> Elements:
    """The elements, or places, that a view shows."""
    match op:
        case "reshape":
            return x.reshape(values[0])
        case "permute":
            return x.transpose(values[0])
        case "expand":
            return np.broadcast_to(x, values[0])
        case "shrink":
            return x[tuple(slice(low, high) for low, high in values[0])]
        case "flip":
            return np.asarray(np.flip(x, values[0]))
        case "index":
            return np.asarray(x[key_of(values[0])])
        case "detach" | "bitcast":
            return x
    raise UndefinedError(op)


# --- arithmetic ----------------------------------------------------------------------------------


def _check_cast(x: Elements, name: str) -> None:
    target = np.dtype(name)
    if target == x.dtype:
        raise UndefinedError("a cast that casts nothing: it gives the tensor itself")
    if x.dtype.kind == "f" and target.kind in "iu" and x.size:
        # What is out of range has no specified value.
        limits = np.iinfo(target)
        if x.min() <= limits.min - 1 or x.max() >= limits.max + 1:
            raise InexactError("a float outside of the integers")


def _check_quotient(x: Elements, by: int) -> None:
    if x.dtype.kind == "i" and by == -1 and np.any(x == np.iinfo(x.dtype).min):
        raise InexactError("the smallest integer by -1, which has no specified value")


def _check_product(x: Elements, axes: tuple[int, ...]) -> None:
    if x.dtype.kind == "f":
        # Of the largest part of the factors, so that no order of them rounds.
        check_exact(np.asarray(np.maximum(np.abs(x.astype(np.float64)), 1).prod(axis=axes)))
        if np.any(x != np.trunc(x)):
            raise InexactError("a product of fractions")


def _truncated(x: Elements, by: int) -> Elements:
    """The quotient rounded towards zero, by Python's integers."""
    found = [abs(v) // abs(by) * (1 if (v < 0) == (by < 0) else -1) for v in x.reshape(-1).tolist()]
    return np.array(found, x.dtype).reshape(x.shape)


def _wide(x: Elements) -> str:
    """The type in which the sum of elements of a type is taken."""
    return SUMS.get(x.dtype.name, x.dtype.name)


Operands = Sequence[Elements]
# What an operation needs so that its result is exact, and specified.
CHECKS: Mapping[str, Callable[[Operands, Sequence[Value]], None]] = {
    "cast": lambda x, v: _check_cast(x[0], v[0]),
    "idiv_number": lambda x, v: _check_quotient(x[0], v[0]),
    "sum": lambda x, v: check_sum(x[0], v[0]),
    "prod": lambda x, v: _check_product(x[0], v[0]),
    "cumsum": lambda x, v: check_sum(x[0], (v[0],)),
    "matmul": lambda x, v: check_sum(x[0][..., None] * x[1], (-2,)),
}
COMPUTE: Mapping[str, Callable[[Operands, Sequence[Value]], Elements]] = {
    "neg": lambda x, v: -x[0],
    "relu": lambda x, v: np.maximum(x[0], 0),
    "square": lambda x, v: x[0] * x[0],
    "not": lambda x, v: np.logical_not(x[0]),
    "cast": lambda x, v: x[0].astype(v[0]),
    "add_number": lambda x, v: x[0] + x[0].dtype.type(v[0]),
    "mul_number": lambda x, v: x[0] * x[0].dtype.type(v[0]),
    "max_number": lambda x, v: np.maximum(x[0], x[0].dtype.type(v[0])),
    "idiv_number": lambda x, v: _truncated(x[0], v[0]),
    "mod_number": lambda x, v: np.remainder(x[0], x[0].dtype.type(v[0])),
    "lt_number": lambda x, v: x[0] < x[0].dtype.type(v[0]),
    "add": lambda x, v: x[0] + x[1],
    "sub": lambda x, v: x[0] - x[1],
    "mul": lambda x, v: x[0] * x[1],
    "maximum": lambda x, v: np.maximum(x[0], x[1]),
    "minimum": lambda x, v: np.minimum(x[0], x[1]),
    "lt": lambda x, v: x[0] < x[1],
    "ne": lambda x, v: x[0] != x[1],
    "and": lambda x, v: x[0] & x[1],
    "xor": lambda x, v: x[0] ^ x[1],
    "where": lambda x, v: np.where(x[0], x[1], x[2]),
    "sum": lambda x, v: x[0].sum(axis=v[0], keepdims=v[1], dtype=_wide(x[0])),
    "max": lambda x, v: x[0].max(axis=v[0], keepdims=v[1]),
    "prod": lambda x, v: x[0].prod(axis=v[0], keepdims=v[1], dtype=_wide(x[0])),
    "cumsum": lambda x, v: x[0].cumsum(axis=v[0], dtype=_wide(x[0])),
    "matmul": lambda x, v: x[0] @ x[1],
    "cat": lambda x, v: np.concatenate(x, axis=v[0]),
    "stack": lambda x, v: np.stack(x, axis=v[0]),
    "pad": lambda x, v: np.pad(x[0], v[0]),
    "take": lambda x, v: x[0][x[1]],
    "contiguous": lambda x, v: x[0],
    "clone": lambda x, v: x[0],
    "to": lambda x, v: x[0],
}


def compute(op: str, operands: Operands, values: Sequence[Value]) -> Elements:
    """What `op` gives. Raises `InexactError` where float16 rounds."""
    if op in CHECKS:
        CHECKS[op](operands, values)
    found = np.asarray(COMPUTE[op](operands, values))
    if op != "cast" and any(each.dtype == np.float16 for each in operands):
        # A rounded product may be a small multiple too.
        wide = [each.astype(np.float64) if each.dtype == np.float16 else each for each in operands]
        if np.any(np.asarray(COMPUTE[op](wide, values)) != found):
            raise InexactError("float16 that rounds")
    return found
