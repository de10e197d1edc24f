"""Counts of how many wrong and right elements of a measurement meet each condition.

A report says which values a fault makes wrong ("all wrong values are subnormal"). For that, every
measurement counts the wrong and the right elements that meet each condition of the table. A
condition explains a fault only if all wrong elements meet it, and no right ones do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes, from_numpy_dtype
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_spec.accuracy import items_of
from tinyref_spec.bits import Array, BoolArray, to_bits
from tinyref_spec.conditions import (
    BY_NAME,
    FEW_UNITS,
    LEAST_VALUES,
    SMALL_POWERS,
    UNALIGNED_SLOTS,
    ConditionKind,
)
from tinyref_spec.error_rules import is_nan_bits, ulp_distance
from tinyref_spec.reach import widen
from tinyref_spec.samples import inf_bits

Counts = tuple[int, int]
# Some right elements may meet a condition too. It then explains a fault only if all wrong ones
# meet it with a probability below this, were they drawn from the right ones.
MAX_CHANCE = 1e-3


class Explained(Enum):
    """The degree to which a condition explains what is wrong.

    FULLY: all wrong elements meet it, and no right ones. IN_PART: all wrong ones meet it, and so
    few right ones that it is not chance; most that meet it are wrong.
    """

    NOT = "not"
    IN_PART = "in part"
    FULLY = "fully"


def may_be_chance(wrong: int, right_with: int, right: int) -> bool:
    """Return True if `wrong` elements may all meet by chance what `right_with` of `right` meet."""
    return wrong * math.log(right_with / right) > math.log(MAX_CHANCE)


@dataclass(frozen=True)
class Elements:
    """One output, flat, with the inputs that have an element for each of its elements.

    bad: which elements are wrong. before: what the output held before the launch. offset: of
    its first element in the allocation, in bytes.
    """

    actual: Array
    expected: Array
    bad: BoolArray
    inputs: tuple[Array, ...] = ()
    before: Array | None = None
    offset: int = 0

    @functools.cached_property
    def floats(self) -> list[tuple[Array, DType]]:
        """Return the bits and types of the operands and the expected result that are floats."""
        pairs = ((values, from_numpy_dtype(values.dtype)) for values in self.values)
        return [(to_bits(values), dtype) for values, dtype in pairs if dtype.is_float]

    @property
    def values(self) -> tuple[Array, ...]:
        return (*self.inputs, self.expected)


Masks = Iterator[tuple[str, BoolArray]]


@dataclass
class Evidence:
    """Counts of one measurement, or of many: first of wrong elements, then of right ones.

    elements: how many. conditions: by condition. cases: how many. forms: cases by the form of their
    kernels. launches: number of launches of the process before, the fewest of a failing case and
    the most of a passing one. reach: the largest sizes so far by the names in `reach`, listed when
    they grow.
    """

    elements: Counts = (0, 0)
    conditions: dict[str, Counts] = field(default_factory=dict)
    cases: Counts = (0, 0)
    forms: dict[str, Counts] = field(default_factory=dict)
    launches: tuple[int | None, int | None] = (None, None)
    reach: dict[str, int] = field(default_factory=dict)

    def add(self, other: Evidence) -> None:
        """Add the counts of another measurement."""
        self.elements = _plus(self.elements, other.elements)
        self.cases = _plus(self.cases, other.cases)
        for mine, theirs in ((self.conditions, other.conditions), (self.forms, other.forms)):
            for name, counts in theirs.items():
                mine[name] = _plus(mine.get(name, (0, 0)), counts)
        widen(self.reach, other.reach)
        fewest, most = zip(self.launches, other.launches, strict=True)
        self.launches = (_of_those_known(min, fewest), _of_those_known(max, most))

    def explains(self, name: str) -> Explained:
        """Return how well the condition separates wrong elements from right ones."""
        wrong, right = self.elements
        wrong_with, right_with = self.conditions.get(name, (0, 0))
        kind = BY_NAME[name].kind
        if not wrong or wrong_with < wrong:
            return Explained.NOT
        if not right_with:
            # Right elements cannot be the contrast of how a value is wrong.
            return Explained.FULLY if right or kind is ConditionKind.OUTCOME else Explained.NOT
        # A fault may leave a value right: 1 plus a subnormal is 1, flushed or not.
        is_weak = right_with > wrong or kind is not ConditionKind.VALUE
        is_chance = may_be_chance(wrong, right_with, right)
        return Explained.NOT if is_chance or is_weak else Explained.IN_PART

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        data = {
            "elements": list(self.elements),
            "conditions": {name: list(counts) for name, counts in self.conditions.items()},
            "cases": list(self.cases),
            "forms": {name: list(counts) for name, counts in self.forms.items()},
            "launches": list(self.launches),
            "reach": self.reach,
        }
        return {name: value for name, value in data.items() if value not in ([0, 0], {}, _UNKNOWN)}

    @staticmethod
    def from_json(data: object) -> Evidence:
        """Return the evidence. Raises `ValueError` for data that no measurement wrote."""
        if not isinstance(data, Mapping):
            raise ValueError("evidence is an object")
        return Evidence(
            _pair(data.get("elements", (0, 0))),
            {str(name): _pair(counts) for name, counts in items_of(data, "conditions")},
            _pair(data.get("cases", (0, 0))),
            {str(name): _pair(counts) for name, counts in items_of(data, "forms")},
            _launches(data.get("launches", _UNKNOWN)),
            {str(name): _size(value) for name, value in items_of(data, "reach")},
        )


_UNKNOWN = [None, None]


def _plus(first: Counts, second: Counts) -> Counts:
    return first[0] + second[0], first[1] + second[1]


def _of_those_known(choose: Callable[[Sequence[int]], int], values: Sequence[int | None]) -> Any:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _pair(value: Any) -> Counts:
    if len(value) != 2 or not all(isinstance(count, int) for count in value):
        raise ValueError("counts are two integers")
    return value[0], value[1]


def _size(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("a size is an integer")
    return value


def _launches(value: Any) -> tuple[int | None, int | None]:
    if len(value) != 2 or not all(count is None or isinstance(count, int) for count in value):
        raise ValueError("launches are two integers, or null")
    return value[0], value[1]


def evidence_of(elements: Elements, specified: BoolArray | None = None) -> Evidence:
    """Count one output; elements that are not `specified` are neither right nor wrong."""
    bad = elements.bad
    good = ~bad if specified is None else ~bad & specified
    evidence = Evidence((int(np.count_nonzero(bad)), int(np.count_nonzero(good))))
    families = [_special_values, _magnitudes, _near_zero, _ends]
    if evidence.elements[0]:
        families += [_operands, _lanes, _outcomes]
    with np.errstate(all="ignore"):
        for family in families:
            for name, holds in family(elements):
                # Right values may differ too, within a tolerance, so they are no contrast.
                is_outcome = BY_NAME[name].kind is ConditionKind.OUTCOME
                right = 0 if is_outcome else int(np.count_nonzero(holds & good))
                counts = int(np.count_nonzero(holds & bad)), right
                # A condition explains nothing unless all wrong elements meet it.
                if counts != (0, 0) and counts[0] == evidence.elements[0]:
                    evidence.conditions[name] = counts
    return evidence


def _any(masks: Sequence[BoolArray]) -> BoolArray:
    return np.asarray(np.logical_or.reduce(masks))


def _special_values(elements: Elements) -> Masks:
    """Yield the conditions on the bits of float operands and results."""
    if not elements.floats:
        return
    masks_of: dict[str, list[BoolArray]] = {}
    for bits, dtype in elements.floats:
        sign = np.array(1 << (dtype.bits - 1), bits.dtype)
        magnitude = bits & ~sign
        smallest_normal = np.array(1 << dtype.mantissa_bits, bits.dtype)
        small = (magnitude < smallest_normal) & (magnitude != 0)
        masks_of.setdefault("subnormal", []).append(small)
        masks_of.setdefault("negative-zero", []).append(bits == sign)
        masks_of.setdefault("nan", []).append(is_nan_bits(bits, dtype))
        masks_of.setdefault("infinite", []).append(magnitude == inf_bits(dtype))
    for name, masks in masks_of.items():
        yield name, _any(masks)


def _magnitudes(elements: Elements) -> Masks:
    signed = [values for values in elements.values if values.dtype.kind == "i"]
    if signed:
        yield "least-integer", _any([values == np.iinfo(values.dtype).min for values in signed])
    wide = [_absolute(values) for values in elements.values if values.dtype.itemsize >= 4]
    if not wide:
        return
    for power in (24, 31, 53):
        masks = [np.asarray((size >= 2.0**power) & np.isfinite(size)) for size in wide]
        yield f"above-2^{power}", _any(masks)


def _near_zero(elements: Elements) -> Masks:
    """Yield the conditions on operands alone."""
    sizes = [_absolute(values) for values in elements.inputs]
    if sizes:
        yield "zero-operand", _any([size == 0 for size in sizes])
    floats = [
        size
        for values, size in zip(elements.inputs, sizes, strict=True)
        if from_numpy_dtype(values.dtype).is_float
    ]
    for power in SMALL_POWERS if floats else ():
        yield f"below-2^-{power}", _any([(size != 0) & (size < 2.0**-power) for size in floats])


def _absolute(values: Array) -> Array:
    return np.abs(values.astype(np.float64))


def _ends(elements: Elements) -> Masks:
    size = elements.bad.size
    if not size:
        return
    for name, index, applies in (
        ("first", 0, True),
        ("last", size - 1, True),
        ("last-of-odd", size - 1, size % 2 == 1),
    ):
        holds = np.zeros(size, bool)
        holds[index] = applies
        yield name, holds


def _operands(elements: Elements) -> Masks:
    """Yield the conditions on operands of outputs with wrong elements."""
    if not elements.inputs:
        return
    negative = [_is_negative(values) for values in elements.inputs]
    yield "negative", _any(negative)
    if len(negative) == 2:
        yield "different-signs", negative[0] != negative[1]
    masks = []
    for values in elements.inputs:
        dtype = from_numpy_dtype(values.dtype)
        # Only float32 has a mode that rounds operands so.
        if dtype is dtypes.float32:
            low = np.array((1 << (dtype.mantissa_bits - 10)) - 1, to_bits(values).dtype)
            masks.append((to_bits(values) & low) != 0)
    if masks:
        yield "long-significand", _any(masks)


def _is_negative(values: Array) -> BoolArray:
    if values.dtype == np.bool_:
        return np.zeros(values.size, bool)
    return np.asarray(values.astype(np.float64) < 0)


def _lanes(elements: Elements) -> Masks:
    """Yield the conditions on indices, for outputs with wrong elements."""
    indices = np.arange(elements.bad.size)
    for lanes in (2, 4, 8, 16):
        if indices.size >= 2 * lanes:
            for lane in range(lanes):
                yield f"lane-{lane}-of-{lanes}", indices % lanes == lane
    size = elements.expected.dtype.itemsize
    if size < 4:
        yield "off-word", (elements.offset + indices * size) % 4 != 0
    first = int(np.argmax(elements.bad))
    if first:
        yield "from-there-on", indices >= first


def _outcomes(elements: Elements) -> Masks:
    """Yield the conditions on how wrong values differ from right ones."""
    actual, expected = elements.actual, elements.expected
    got, want = to_bits(actual), to_bits(expected)
    differs = got != want
    if elements.before is not None:
        yield "untouched", differs & (got == to_bits(elements.before))
    dtype = from_numpy_dtype(expected.dtype)
    if dtype.is_bool:
        # A bool has only one wrong value, so it says nothing.
        return
    yield "zero", differs & (_magnitude_bits(actual) == 0) & (_magnitude_bits(expected) != 0)
    yield "other-place", _moved(elements, got, want)
    yield from _float_outcomes(elements, dtype) if dtype.is_float else _integer_outcomes(elements)


def _magnitude_bits(values: Array) -> Array:
    bits = to_bits(values)
    # The sum drops the sign bit of a float.
    return bits + bits if from_numpy_dtype(values.dtype).is_float else bits


def _moved(elements: Elements, got: Array, want: Array) -> BoolArray:
    """Return all wrong elements if they are a permutation of the expected values, else none."""
    bad = elements.bad
    missing = np.sort(want[bad])
    is_moved = missing.size > 1 and missing[0] != missing[-1]
    same = is_moved and np.array_equal(np.sort(got[bad]), missing)
    return bad if same else np.zeros(bad.size, bool)


def _float_outcomes(elements: Elements, dtype: DType) -> Masks:
    got, want = to_bits(elements.actual), to_bits(elements.expected)
    sign = np.array(1 << (dtype.bits - 1), got.dtype)
    is_zero = (got & ~sign == 0) & (want & ~sign == 0)
    is_nan, nan_expected = is_nan_bits(got, dtype), is_nan_bits(want, dtype)
    infinite, infinity_expected = got & ~sign == inf_bits(dtype), want & ~sign == inf_bits(dtype)
    nearer = (got & ~sign) < (want & ~sign)
    distance = ulp_distance(elements.actual, elements.expected)
    one_off = distance == 1
    yield from _narrow_values(elements, dtype)
    yield "sign-of-zero", is_zero & (got != want)
    yield "nan-lost", ~is_nan & nan_expected
    yield "nan-made", is_nan & ~nan_expected
    yield "infinity-made", infinite & ~infinity_expected & ~nan_expected
    yield "negated", ((got ^ want) == sign) & ~is_zero & ~nan_expected
    yield "truncated", one_off & nearer
    yield "one-unit", one_off
    is_near = (distance > 0) & (distance <= FEW_UNITS)
    # With few wrong values, their side may be chance.
    if np.count_nonzero(elements.bad) >= LEAST_VALUES:
        yield "few-units-nearer", is_near & nearer & (got & ~sign != 0)
    yield "few-units", is_near


def _narrow_values(elements: Elements, dtype: DType) -> Masks:
    """Yield the conditions on values of a narrower type, with low bits of zero."""
    got, want = to_bits(elements.actual), to_bits(elements.expected)
    magnitude = got & ~np.array(1 << (dtype.bits - 1), got.dtype)
    has_digits = (magnitude != 0) & (magnitude < inf_bits(dtype)) & (got != want)
    # Zeros, infinities and small integers are values of every type, so they say nothing.
    telling = elements.bad & has_digits
    # A result that lost digits has about the size of the right one; a conversion has another size.
    exponents = ((bits & inf_bits(dtype)) >> dtype.mantissa_bits for bits in (got, want))
    first, second = (exponent.astype(np.int64) for exponent in exponents)
    is_near = abs(first - second) <= 1
    for narrow in (dtypes.bfloat16, dtypes.float16, dtypes.float32):
        if narrow.mantissa_bits < dtype.mantissa_bits:
            low = np.array((1 << (dtype.mantissa_bits - narrow.mantissa_bits)) - 1, got.dtype)
            has_lost = telling & is_near & (want & low != 0)
            if 2 * np.count_nonzero(has_lost) >= np.count_nonzero(telling):
                yield f"as-{narrow.name}", elements.bad & (got & low == 0)


def _integer_outcomes(elements: Elements) -> Masks:
    limits = np.iinfo(elements.expected.dtype)
    actual, expected = to_bits(elements.actual), to_bits(elements.expected)
    one = np.array(1, actual.dtype)
    yield "one-below", actual + one == expected
    yield "one-above", actual == expected + one
    yield "negated", (actual + expected == 0) & (actual != expected)
    if elements.expected.dtype.itemsize == 8:
        low = np.array(0xFFFFFFFF, actual.dtype)
        yield "low-half", (actual != expected) & ((actual ^ expected) & low == 0)
    is_extreme = (elements.actual == limits.max) | (elements.actual == limits.min)
    yield "extreme", is_extreme & (actual != expected)


def forms_of(
    program: Program, unaligned: Collection[int], off_words: Collection[int] = ()
) -> tuple[str, ...]:
    """Return the forms of the table that a program has.

    unaligned: slots of buffers that begin unaligned for vectors. off_words: slots of buffers that
    do not begin at a multiple of 4 bytes.
    """
    narrow = {
        parameter.slot
        for parameter in program.parameters
        if parameter.is_written and parameter.dtype.itemsize < 4
    }
    ops = {node.op for node in program.uops}
    accesses = [node for node in program.uops if node.op in (Ops.LOAD, Ops.STORE)]
    has_vectors = any(node.dtype.lanes > 1 for node in program.uops)
    present = {
        "tile": Ops.WMMA in ops,
        "barrier": Ops.BARRIER in ops,
        "shared": Ops.DEFINE_LOCAL in ops,
        "group": program.group != (1, 1, 1),
        "off-word-store": bool(narrow.intersection(off_words)),
        "narrow-store": bool(narrow),
        "unaligned": bool(unaligned),
        **{f"unaligned-{slot}": slot in unaligned for slot in range(UNALIGNED_SLOTS)},
        "unaligned-vector": has_vectors and bool(unaligned),
        "vector": has_vectors,
        "gate": any(len(node.src) == 3 for node in accesses),
        "loop": Ops.RANGE in ops,
        "grid": program.grid != (1, 1, 1),
    }
    return tuple(name for name, is_there in present.items() if is_there)
