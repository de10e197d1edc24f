"""The conditions by which a report says what wrong values have in common: one table.

`evidence.py` counts the elements that meet each of them; `forms_of` determines the forms of
kernels. Conditions that come first in the table are preferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class ConditionKind(Enum):
    """The kind of a condition; a diagnosis names at most one of each kind.

    VALUE: operands and expected results. PLACE: where in the output an element is. OUTCOME: how the
    wrong value differs from the right one. FORM: what the kernel of the case consists of. FAULT:
    what went wrong if no values were compared; a measurement or an error names it.
    """

    VALUE = "value"
    PLACE = "place"
    OUTCOME = "outcome"
    FORM = "form"
    FAULT = "fault"


@dataclass(frozen=True)
class ValueCondition:
    """One line of the table.

    words: continues "all 12 wrong values"; for a fault, the whole cause. advice: what to do about
    it, one sentence; a row may have its own advice.
    """

    name: str
    kind: ConditionKind
    words: str
    advice: str


_SUBNORMALS = "declare `keeps_subnormals=False`, or fix what flushes them (a mode of the unit, "
_OFFSETS = (
    "buffers begin at any element: look at how the offset of each argument is passed, or declare "
    "the alignment that views need"
)
_NARROW = "look at the width of registers, intermediate values, constants and casts"
# Conditions for operands below these powers of 1/2.
SMALL_POWERS = (12, 4)
# The number of buffers that have conditions of their own.
UNALIGNED_SLOTS = 4
_WORDS = (
    "look at how stores and fills of 1 and 2 bytes are made of words of 4: masks, addresses that "
    "are no multiple of 4, neighbours that are written in between"
)
# Wrong values that lost digits are at most this many units away. If this many are all on one
# side, they are truncated.
FEW_UNITS = 16
LEAST_VALUES = 8
_ORDER = "look at how the lanes of a vector are loaded, computed and stored, and at their order"

CONDITIONS: tuple[ValueCondition, ...] = (
    ValueCondition(
        "subnormal",
        ConditionKind.VALUE,
        "have a subnormal operand or result",
        _SUBNORMALS + "an option such as -ffast-math or -ftz)",
    ),
    ValueCondition(
        "negative-zero",
        ConditionKind.VALUE,
        "have -0 as an operand or result",
        "look for x + 0, 0 - x or a comparison in place of a sign: none of them keeps -0",
    ),
    ValueCondition(
        "nan",
        ConditionKind.VALUE,
        "have NaN as an operand or result",
        "look at comparisons (ordered or unordered), MAX, and options that assume no NaN",
    ),
    ValueCondition(
        "infinite",
        ConditionKind.VALUE,
        "have an infinity as an operand or result",
        "look at overflow of intermediate results, and options that assume finite numbers",
    ),
    ValueCondition(
        "least-integer",
        ConditionKind.VALUE,
        "have the least integer of their type among them",
        "look at its negation and absolute value, which wrap, and at how its constant is written",
    ),
    # Of conditions that explain the same, the first is right: no value lies between the two bounds.
    ValueCondition(
        "above-2^24",
        ConditionKind.VALUE,
        "have an operand or result of 2^24 or more",
        "some step goes through float32, which has 24 bits: keep integers in integer registers",
    ),
    ValueCondition(
        "above-2^31",
        ConditionKind.VALUE,
        "have an operand or result of 2^31 or more",
        "some step goes through int32: look at the width of registers, constants and casts",
    ),
    ValueCondition(
        "above-2^53",
        ConditionKind.VALUE,
        "have an operand or result of 2^53 or more",
        "some step goes through float64, which has 53 bits: keep integers in integer registers",
    ),
    ValueCondition(
        "long-significand",
        ConditionKind.VALUE,
        "have an operand of more than 11 significant bits",
        "operands are rounded before they are used (TF32, float16): turn that mode off",
    ),
    ValueCondition(
        "negative",
        ConditionKind.VALUE,
        "have a negative operand",
        "look for an unsigned instruction in place of a signed one: shifts, casts, comparisons",
    ),
    ValueCondition(
        "different-signs",
        ConditionKind.VALUE,
        "have operands of different signs",
        "look at how signs are taken: by signed or unsigned instructions, and by roundings",
    ),
    ValueCondition(
        "zero-operand",
        ConditionKind.VALUE,
        "have zero as an operand",
        "look at what is done for zero alone: a division, a logarithm, a sign, an early exit",
    ),
    *(
        ValueCondition(
            f"below-2^-{power}",
            ConditionKind.VALUE,
            f"have an operand nearer to zero than 2^-{power}",
            "look at cancellation for small operands, and at the interval of an approximation",
        )
        for power in SMALL_POWERS
    ),
    ValueCondition(
        "last-of-odd",
        ConditionKind.PLACE,
        "are the last element of an output of odd size",
        "the rest after whole vectors is not computed: look at the loop of the tail",
    ),
    ValueCondition(
        "last",
        ConditionKind.PLACE,
        "are the last element of their output",
        "a bound is off by one: look at the number of work-items and at the condition of loops",
    ),
    ValueCondition(
        "first",
        ConditionKind.PLACE,
        "are the first element of their output",
        "look at what is different for index 0: offsets, the start of loops, accumulators",
    ),
    *(
        ValueCondition(
            f"lane-{lane}-of-{lanes}",
            ConditionKind.PLACE,
            f"are lane {lane} of every {lanes} elements",
            _ORDER,
        )
        for lanes in (2, 4, 8, 16)
        for lane in range(lanes)
    ),
    ValueCondition(
        "off-word",
        ConditionKind.PLACE,
        "lie at addresses that are no multiple of 4",
        _WORDS,
    ),
    ValueCondition(
        "from-there-on",
        ConditionKind.PLACE,
        "are the last elements of their output",
        "look at the number of groups and work-items, at sizes of copies, at the tail of loops",
    ),
    ValueCondition(
        "untouched",
        ConditionKind.OUTCOME,
        "were never written",
        "work-items are missing, a store is gated off wrongly, or results are read before the "
        "launch has ended",
    ),
    ValueCondition(
        "sign-of-zero",
        ConditionKind.OUTCOME,
        "are a zero of the wrong sign",
        "look for x + 0, 0 - x or a comparison in place of a sign: none of them keeps -0",
    ),
    ValueCondition(
        "zero",
        ConditionKind.OUTCOME,
        "are zero where another value is expected",
        "results are flushed, not stored, or read before they arrive; or an index leads to memory "
        "that nobody wrote",
    ),
    ValueCondition(
        "nan-lost",
        ConditionKind.OUTCOME,
        "are a number where NaN is expected",
        "look at comparisons (ordered or unordered), MAX, and options that assume no NaN",
    ),
    ValueCondition(
        "nan-made",
        ConditionKind.OUTCOME,
        "are NaN where a number is expected",
        "look at 0 * infinity and infinity - infinity in intermediate steps, and at unset memory",
    ),
    ValueCondition(
        "infinity-made",
        ConditionKind.OUTCOME,
        "are infinite where a finite number is expected",
        "an intermediate result overflows: scale it, or compute it in a wider type",
    ),
    ValueCondition(
        "negated",
        ConditionKind.OUTCOME,
        "are the right ones with the other sign",
        "look at the order of operands of SUB and at what NEG prints",
    ),
    ValueCondition(
        "other-place",
        ConditionKind.OUTCOME,
        "are right values at other indices",
        "look at indices: strides, the order of lanes, work-items and groups",
    ),
    *(
        ValueCondition(f"as-{name}", ConditionKind.OUTCOME, f"are values of {name}", _NARROW)
        for name in ("bfloat16", "float16", "float32")
    ),
    ValueCondition(
        "truncated",
        ConditionKind.OUTCOME,
        "are one unit nearer to zero than the right ones",
        "results are truncated, but must be rounded to nearest, ties to even (IEEE 754, 4.3.1)",
    ),
    ValueCondition(
        "one-unit",
        ConditionKind.OUTCOME,
        "are one unit away from the right ones",
        "one rounding too few or too many: contraction (-ffp-contract), a wider type in between",
    ),
    ValueCondition(
        "few-units-nearer",
        ConditionKind.OUTCOME,
        f"are up to {FEW_UNITS} units nearer to zero than the right ones",
        "results or partial sums are truncated, or small terms are flushed: look at the mode of "
        "rounding, accumulators and subnormals",
    ),
    ValueCondition(
        "few-units",
        ConditionKind.OUTCOME,
        f"are up to {FEW_UNITS} units away from the right ones",
        "intermediate values have too few bits: look at accumulators, approximated functions, and "
        "options that let a compiler use a narrower type",
    ),
    ValueCondition(
        "one-below",
        ConditionKind.OUTCOME,
        "are one less than the right ones",
        "rounding goes towards minus infinity (C99, 6.5.5: towards zero), or a bound is off by one",
    ),
    ValueCondition(
        "one-above",
        ConditionKind.OUTCOME,
        "are one more than the right ones",
        "rounding goes up, or a loop runs once too often",
    ),
    ValueCondition(
        "low-half",
        ConditionKind.OUTCOME,
        "are right in their low 32 bits alone",
        "some step goes through 32 bits: look at the width of registers, constants and casts",
    ),
    ValueCondition(
        "extreme",
        ConditionKind.OUTCOME,
        "are the largest or smallest value of their type",
        "something saturates: integers must wrap, and casts follow the clause",
    ),
    ValueCondition(
        "tile",
        ConditionKind.FORM,
        "are of kernels with matrix tiles",
        "look at which lane holds which element of a fragment, operand by operand",
    ),
    ValueCondition(
        "barrier",
        ConditionKind.FORM,
        "are of kernels with a barrier",
        "look at what is printed for BARRIER, and at whether it orders shared memory too",
    ),
    ValueCondition(
        "shared",
        ConditionKind.FORM,
        "are of kernels with shared memory",
        "look at the sizes, offsets and address space of shared arrays",
    ),
    ValueCondition(
        "group",
        ConditionKind.FORM,
        "are of kernels with groups of more than one work-item",
        "look at the index of a work-item in its group, and at the size of groups in a launch",
    ),
    ValueCondition(
        "off-word-store",
        ConditionKind.FORM,
        "are of kernels that store 1 or 2 bytes at an address that is no multiple of 4",
        _WORDS,
    ),
    ValueCondition(
        "narrow-store",
        ConditionKind.FORM,
        "are of kernels that store elements of 1 or 2 bytes",
        _WORDS,
    ),
    ValueCondition(
        "unaligned-vector",
        ConditionKind.FORM,
        "are of vectors in buffers that begin unaligned",
        "views begin at any element: declare the alignment that you need, or load by elements",
    ),
    ValueCondition(
        "unaligned",
        ConditionKind.FORM,
        "are of kernels with a buffer that begins unaligned",
        _OFFSETS,
    ),
    *(
        ValueCondition(
            f"unaligned-{slot}",
            ConditionKind.FORM,
            f"are of kernels whose buffer {slot} is unaligned",
            _OFFSETS,
        )
        for slot in range(UNALIGNED_SLOTS)
    ),
    ValueCondition("vector", ConditionKind.FORM, "are of kernels with vectors", _ORDER),
    ValueCondition(
        "gate",
        ConditionKind.FORM,
        "are of kernels with gated loads or stores",
        "a gate that is off touches no memory, and a load gives its alternative",
    ),
    ValueCondition(
        "loop",
        ConditionKind.FORM,
        "are of kernels with loops",
        "look at the start, the step and the end of loops, and at accumulators",
    ),
    ValueCondition(
        "grid",
        ConditionKind.FORM,
        "are of kernels with a grid of more than one group",
        "look at the indices of groups, and at the size of the grid in a launch",
    ),
    ValueCondition(
        "unopened",
        ConditionKind.FAULT,
        "the device does not open",
        "read the message; the script opens the device where a debugger can see it",
    ),
    ValueCondition(
        "red-zone",
        ConditionKind.FAULT,
        "something is written outside of the output",
        "look at gates of stores, at the tail of vectors and at indices of the last group",
    ),
    ValueCondition(
        "input-written",
        ConditionKind.FAULT,
        "an input is written",
        "look at the order of arguments, and at the buffer of each store",
    ),
    ValueCondition(
        "late",
        ConditionKind.FAULT,
        "results arrive after they are read",
        "look at what a copy to the host waits for: the end of launches, events, other queues",
    ),
    ValueCondition(
        "race",
        ConditionKind.FAULT,
        "work-items race",
        "a barrier is missing or orders no memory, two indices are equal, or an off gate stores",
    ),
    ValueCondition(
        "divergence",
        ConditionKind.FAULT,
        "not all work-items of a group reach the barrier",
        "a barrier is printed inside a condition or a loop that depends on the work-item",
    ),
    ValueCondition(
        "bounds",
        ConditionKind.FAULT,
        "an access is out of bounds",
        "look at indices and gates: a gate that is off touches no memory",
    ),
    ValueCondition(
        "alignment",
        ConditionKind.FAULT,
        "a vector is accessed where it is not aligned",
        _OFFSETS,
    ),
    ValueCondition(
        "uninitialised",
        ConditionKind.FAULT,
        "memory is read before it is written",
        "look at the start of accumulators and at the barrier between store and load",
    ),
    ValueCondition(
        "broken-tile",
        ConditionKind.FAULT,
        "a matrix tile is used wrongly",
        "look at the number of work-items, and at which lane holds which element of a fragment",
    ),
    ValueCondition(
        "no-memory",
        ConditionKind.FAULT,
        "the device has no room",
        "free what a launch takes (memory, events, handles) when it ends, or declare less",
    ),
    ValueCondition(
        "unequal-copies",
        ConditionKind.FAULT,
        "copies between devices give other values",
        "compare the copies of two devices of one kind with those to another kind",
    ),
    ValueCondition(
        "biased",
        ConditionKind.FAULT,
        "sums of products are biased",
        "products or partial sums are truncated: round each to nearest, ties to even",
    ),
    ValueCondition(
        "noisy",
        ConditionKind.FAULT,
        "sums of products are noisier than their accumulator allows",
        "the accumulator, or a product, has fewer bits than the row says",
    ),
    ValueCondition(
        "accepted",
        ConditionKind.FAULT,
        "what is not declared is accepted",
        "refuse it with one clear line, or declare it",
    ),
)
BY_NAME: Mapping[str, ValueCondition] = {condition.name: condition for condition in CONDITIONS}
