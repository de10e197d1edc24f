"""Define each operation as a Tensor call and as a numpy computation, and which floats are exact.

Floats are multiples of a grain, and so small that no sum of them rounds in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref_fuzz.programs.steps import Value

# Accumulator types that differ from the type of the elements.
SUMS = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
Elements = npt.NDArray[Any]
# For each float type, the number of grains in 1, and the limit. Multiples of the grain below the
# limit need 23 of the 24 bits of a float32 significand, or 10 of the 11 of float16 (IEEE 754).
RANGES = {"float16": (4.0, 2.0**8), "float32": (256.0, 2.0**15), "float64": (256.0, 2.0**15)}


class InexactError(Exception):
    """Result that rounds, or may round in another order: the oracle has no exact value."""


class UndefinedError(Exception):
    """Step that does not fit its operands."""


def check_exact(elements: Elements, dtype: str = "") -> None:
    """Raise `InexactError` if a float is not a small multiple of the grain of its type.

    `dtype` is the type, if it differs from the elements' type.
    """
    if elements.dtype.kind == "f" and elements.size:
        grain, limit = RANGES[dtype or elements.dtype.name]
        scaled = elements.astype(np.float64) * grain
        if not np.all(np.abs(scaled) <= limit * grain) or np.any(scaled != np.trunc(scaled)):
            raise InexactError(f"a float that is no multiple of 1/{grain:.0f}, or too large")


def check_sum(terms: Elements, axes: tuple[int, ...], dtype: str = "") -> None:
    """Raise `InexactError` if a sum of `terms` rounds in some order."""
    check_exact(terms, dtype)
    if terms.dtype.kind == "f" and terms.size:
        total = np.asarray(np.abs(terms.astype(np.float64)).sum(axis=axes))
        check_exact(total, dtype or terms.dtype.name)


def key_of(key: Value) -> tuple[Any, ...]:
    """Return the numpy key that a step names."""
    items: list[Any] = []
    for item in key:
        if not isinstance(item, tuple):
            items.append(item)
        elif item[0] == "places":
            items.append(list(item[1]))
        else:
            items.append(slice(*item))
    return tuple(items)


def part_key(values: Sequence[Value], size: int) -> tuple[slice, ...]:
    """Return the numpy key of the part that a symbolic size, bound to this number, cuts off."""
    axis, form = values
    ends = {"head": (0, size), "tail": (size - 1, None), "window": (size - 1, size)}[form]
    return (*[slice(None)] * axis, slice(*ends))


def _check_cast(x: Elements, name: str) -> None:
    target = np.dtype(name)
    if target == x.dtype:
        raise UndefinedError("a cast to the same type: it returns the tensor itself")
    if x.dtype.kind == "f" and target.kind in "iu" and x.size:
        # A value out of range has no specified result.
        limits = np.iinfo(target)
        if x.min() <= limits.min - 1 or x.max() >= limits.max + 1:
            raise InexactError("a float out of range of the integer type")


def _check_quotient(x: Elements, by: int) -> None:
    if x.dtype.kind == "i" and by == -1 and np.any(x == np.iinfo(x.dtype).min):
        raise InexactError("the smallest integer divided by -1, which has no specified value")


def _check_product(x: Elements, axes: tuple[int, ...]) -> None:
    if x.dtype.kind == "f":
        # Include the largest product of a subset of factors, so that no order rounds.
        check_exact(np.asarray(np.maximum(np.abs(x.astype(np.float64)), 1).prod(axis=axes)))
        if np.any(x != np.trunc(x)):
            raise InexactError("a product of fractions")


def _truncated(x: Elements, by: int) -> Elements:
    """Return the quotient rounded towards zero, computed with Python's integers."""
    numbers = x.reshape(-1).tolist()
    quotients = [abs(n) // abs(by) * (1 if (n < 0) == (by < 0) else -1) for n in numbers]
    return np.array(quotients, x.dtype).reshape(x.shape)


def _wide(x: Elements) -> str:
    """Return the type in which elements of a type are summed."""
    return SUMS.get(x.dtype.name, x.dtype.name)


Operands = Sequence[Elements]
# Checks that the result of an operation is exact and specified.
_CHECKS: Mapping[str, Callable[[Operands, Sequence[Value]], None]] = {
    "cast": lambda x, v: _check_cast(x[0], v[0]),
    "idiv_number": lambda x, v: _check_quotient(x[0], v[0]),
    "sum": lambda x, v: check_sum(x[0], v[0]),
    "prod": lambda x, v: _check_product(x[0], v[0]),
    "cumsum": lambda x, v: check_sum(x[0], (v[0],)),
    "sum_of_all": lambda x, v: check_sum(x[0], (v[0],)),
    "matmul": lambda x, v: check_sum(x[0][..., None] * x[1], (-2,)),
}
Compute = Callable[[Operands, Sequence[Value]], Elements]
# A template of a script and its computation. {a} to {c} are the operands, {v[0]!r} is the first
# value, {device!r} the device, and {key} the contents of brackets.
COMPUTE: Mapping[str, tuple[str, Compute]] = {
    # elementwise
    "neg": ("-{a}", lambda x, v: -x[0]),
    "relu": ("{a}.relu()", lambda x, v: np.maximum(x[0], 0)),
    "square": ("{a} * {a}", lambda x, v: x[0] * x[0]),
    "not": ("{a}.logical_not()", lambda x, v: np.logical_not(x[0])),
    "cast": ("{a}.cast({v[0]!r})", lambda x, v: x[0].astype(v[0])),
    "add_number": ("{a} + {v[0]!r}", lambda x, v: x[0] + v[0]),
    "mul_number": ("{a} * {v[0]!r}", lambda x, v: x[0] * v[0]),
    "max_number": ("{a}.maximum({v[0]!r})", lambda x, v: np.maximum(x[0], v[0])),
    "idiv_number": ("{a}.idiv({v[0]!r})", lambda x, v: _truncated(x[0], v[0])),
    "mod_number": ("{a} % {v[0]!r}", lambda x, v: np.remainder(x[0], v[0])),
    "lt_number": ("{a} < {v[0]!r}", lambda x, v: x[0] < v[0]),
    "add": ("{a} + {b}", lambda x, v: x[0] + x[1]),
    "sub": ("{a} - {b}", lambda x, v: x[0] - x[1]),
    "mul": ("{a} * {b}", lambda x, v: x[0] * x[1]),
    "maximum": ("{a}.maximum({b})", lambda x, v: np.maximum(x[0], x[1])),
    "minimum": ("{a}.minimum({b})", lambda x, v: np.minimum(x[0], x[1])),
    "lt": ("{a} < {b}", lambda x, v: x[0] < x[1]),
    "ne": ("{a} != {b}", lambda x, v: x[0] != x[1]),
    "and": ("{a} & {b}", lambda x, v: x[0] & x[1]),
    "xor": ("{a} ^ {b}", lambda x, v: x[0] ^ x[1]),
    "where": ("{a}.where({b}, {c})", lambda x, v: np.where(x[0], x[1], x[2])),
    # across elements
    "sum": (
        "{a}.sum({v[0]!r}, keepdim={v[1]!r})",
        lambda x, v: x[0].sum(axis=v[0], keepdims=v[1], dtype=_wide(x[0])),
    ),
    "max": (
        "{a}.max({v[0]!r}, keepdim={v[1]!r})",
        lambda x, v: x[0].max(axis=v[0], keepdims=v[1]),
    ),
    "prod": (
        "{a}.prod({v[0]!r}, keepdim={v[1]!r})",
        lambda x, v: x[0].prod(axis=v[0], keepdims=v[1], dtype=_wide(x[0])),
    ),
    "cumsum": ("{a}.cumsum({v[0]!r})", lambda x, v: x[0].cumsum(axis=v[0], dtype=_wide(x[0]))),
    "matmul": ("{a} @ {b}", lambda x, v: x[0] @ x[1]),
    "cat": ("{a}.cat({b}, dim={v[0]!r})", lambda x, v: np.concatenate(x, axis=v[0])),
    "stack": ("{a}.stack({b}, dim={v[0]!r})", lambda x, v: np.stack(x, axis=v[0])),
    "pad": ("{a}.pad({v[0]!r})", lambda x, v: np.pad(x[0], v[0])),
    # same elements, in other memory
    "contiguous": ("{a}.contiguous()", lambda x, v: x[0]),
    "clone": ("{a}.clone()", lambda x, v: x[0]),
    "to": ("{a}.to({device!r})", lambda x, v: x[0]),
    # spread over all devices along an axis, and summed
    "sum_of_all": (
        "{a}.shard({devices!r}, {v[0]!r}).sum({v[0]!r}).to({a}.device)",
        lambda x, v: x[0].sum(axis=v[0], dtype=_wide(x[0])),
    ),
}
# The same for views, which select elements of their source.
MOVEMENTS: Mapping[str, tuple[str, Compute]] = {
    "reshape": ("{a}.reshape({v[0]!r})", lambda x, v: x[0].reshape(v[0])),
    "permute": ("{a}.permute({v[0]!r})", lambda x, v: x[0].transpose(v[0])),
    "expand": ("{a}.expand({v[0]!r})", lambda x, v: np.broadcast_to(x[0], v[0])),
    "shrink": ("{a}.shrink({v[0]!r})", lambda x, v: x[0][tuple(slice(*ends) for ends in v[0])]),
    "flip": ("{a}.flip({v[0]!r})", lambda x, v: np.flip(x[0], v[0])),
    "bitcast": ("{a}.bitcast({v[0]!r})", lambda x, v: x[0]),
    "detach": ("{a}.detach()", lambda x, v: x[0]),
    "index": ("{a}[{key}]", lambda x, v: x[0][key_of(v[0])]),
}
VIEWS = frozenset({*MOVEMENTS, "part"})


def compute(op: str, operands: Operands, values: Sequence[Value]) -> Elements:
    """Return the result of `op`. Raises `InexactError` if float16 rounds."""
    if len({operand.dtype for operand in operands[op == "where" :]}) > 1:
        raise UndefinedError("operands of several types")
    if op in _CHECKS:
        _CHECKS[op](operands, values)
    function = COMPUTE[op][1]
    result = np.asarray(function(operands, values))
    if op != "cast" and any(operand.dtype == np.float16 for operand in operands):
        # A rounded product may be a multiple of the grain too.
        wide = [x.astype(np.float64) if x.dtype == np.float16 else x for x in operands]
        if np.any(np.asarray(function(wide, values)) != result):
            raise InexactError("float16 that rounds")
    return result
