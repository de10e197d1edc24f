"""Each operation as a Tensor call and as what numpy computes, and which floats are exact.

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
# The text is that of a script: {a} to {c} are what it reads, {v[0]!r} is its first value, {place!r}
# its device, {key} is what is in brackets.
COMPUTE: Mapping[str, tuple[str, Compute]] = {
    # one element from one element of each
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
    # many elements
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
    # the same elements elsewhere
    "contiguous": ("{a}.contiguous()", lambda x, v: x[0]),
    "clone": ("{a}.clone()", lambda x, v: x[0]),
    "to": ("{a}.to({place!r})", lambda x, v: x[0]),
    # spread over all devices along an axis, and summed
    "sum_of_all": (
        "{a}.shard({devices!r}, {v[0]!r}).sum({v[0]!r}).to({a}.device)",
        lambda x, v: x[0].sum(axis=v[0], dtype=_wide(x[0])),
    ),
}
# The same of views, which show places of what they are of.
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
    """What `op` gives. Raises `InexactError` where float16 rounds."""
    if len({each.dtype for each in operands[op == "where" :]}) > 1:
        raise UndefinedError("operands of several types")
    if op in _CHECKS:
        _CHECKS[op](operands, values)
    function = COMPUTE[op][1]
    found = np.asarray(function(operands, values))
    if op != "cast" and any(each.dtype == np.float16 for each in operands):
        # A rounded product may be a small multiple too.
        wide = [each.astype(np.float64) if each.dtype == np.float16 else each for each in operands]
        if np.any(np.asarray(function(wide, values)) != found):
            raise InexactError("float16 that rounds")
    return found
