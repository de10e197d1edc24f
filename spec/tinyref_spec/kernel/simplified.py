"""Simplifications that a compiler owes: both sides of a proved law cost the same, or the left less.

No value shows that a rule no longer fires, or that a range is known less well; what kernels cost
does. So these rows are of the compiler, and no kernel runs: instances of each law are simplified,
and ranges compared with all values, the same ones on every device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from tinyref.uops.ops import Ops
from tinyref_spec.case import Failure, Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.proofs import kept, known_ranges
from tinyref_spec.proofs.law import LAWS
from tinyref_spec.proofs.laws import laws_of

# About so many instances of each rule, and one at least of each of its laws and types.
INSTANCES = 30
# Rules that a gate makes fire whenever their conditions are among what it says.
GATED = ("bit-mask", "div-reduce", "fold-range", "mask-index", "shift-right-index")
# Of each op and type.
RANGES = 60
# Rules whose laws have no instance that counts, and why.
NEVER = {
    "fold-range": "its law is of a leaf with one value, which is a constant before",
    "mod-bounds": "its law is of a quotient with one value, which is a constant before",
}


def _measure(rule: str, count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Instances of the laws of a rule, of the types for which they are proved."""
    pairs = [(law, dtype) for law in laws_of(rule) for dtype in law.over]
    each = max(1, count // len(pairs))
    return _first_wrong(
        kept.lost_simplification(law, equation)
        for law, dtype in pairs
        for equation in kept.drawn(law, dtype, case_id, each)
    )


def _measure_gated(rule: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Laws whose conditions are those of a gate: behind it, they hold."""
    return _first_wrong(
        kept.lost_under_conditions(law, equation)
        for law in laws_of(rule)
        for dtype in law.over
        for equation in kept.drawn_gated(law, dtype, case_id, INSTANCES // len(law.over))
    )


def _first_wrong(instances: Iterable[kept.Lost | known_ranges.WrongRange | None]) -> Measurement:
    """What is wrong with the first instance that is; how many were looked at."""
    compared = 0
    for compared, wrong in enumerate(instances, 1):
        if wrong is not None:
            details = Failure(script=wrong.script())
            return Measurement(False, wrong.describe(), compared, details=details)
    return Measurement(True, compared=compared)


def _row_of_gates() -> Row:
    return make_row(
        "kernel.simplified.behind_gates",
        "What a gate says is known behind it: there the left side of a law becomes no larger.",
        ("kernel.simplified",),
        Rung.OPTIMISED,
        "",
        "",
        "no more operations",
        kernel_needs(),
        lambda: [Check(rule, functools.partial(_measure_gated, rule)) for rule in GATED],
    )


def _row(rule: str) -> Row:
    sentence = " ".join(laws_of(rule)[0].sentence.split())
    return make_row(
        f"kernel.simplified.{rule}",
        f"The left side of each law of the rule becomes no larger than the right one: {sentence}",
        ("kernel.simplified",),
        Rung.OPTIMISED,
        "",
        "",
        "no more operations",
        kernel_needs(),
        lambda: [
            Check("instances", functools.partial(_measure, rule, INSTANCES)),
            Check("more", functools.partial(_measure, rule, 20 * INSTANCES), full_only=True),
        ],
    )


def _measure_ranges(op: Ops, case_id: str, device: DeviceUnderTest) -> Measurement:
    return _first_wrong(
        known_ranges.wrong_range(node)
        for dtype in known_ranges.TYPES
        for node in known_ranges.drawn(op, dtype, case_id, RANGES)
    )


def _row_of_ranges(op: Ops) -> Row:
    name = op.name.lower()
    return make_row(
        f"kernel.known_range.{name}",
        f"What is known of the range of {op.name} holds its values, and no more than it can give.",
        ("kernel.known_range",),
        Rung.OPTIMISED,
        op.name,
        "",
        "all values, and no wider",
        kernel_needs(),
        lambda: [Check("instances", functools.partial(_measure_ranges, op))],
    )


def rows() -> Iterator[Row]:
    """A row for each rule of which a law is proved, one of gates, and one for each range."""
    yield from (_row(rule) for rule in sorted(LAWS) if rule not in NEVER)
    yield _row_of_gates()
    yield from map(_row_of_ranges, known_ranges.OPS)
