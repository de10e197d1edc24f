"""Simplifications that a compiler owes: both sides of a proved law cost the same, or the left less.

No value shows that a rule no longer fires, or that a range is known less well; what kernels cost
does. So these rows are of the compiler, and no kernel runs: instances of each law are simplified,
and ranges compared with all values, the same ones on every device. What is simplified keeps its
values, in forms that few kernels have.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator

from tinyref.uops.node import toposort
from tinyref.uops.ops import Ops
from tinyref_spec.case import Failure, Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.proofs import expressions, kept, known_ranges, known_views
from tinyref_spec.proofs.law import LAWS
from tinyref_spec.proofs.laws import laws_of

# About so many instances of each rule, and one at least of each of its laws and types.
INSTANCES = 30
# Rules that a gate makes fire whenever their conditions are among what it says.
GATED = ("bit-mask", "div-reduce", "fold-range", "mask-index", "shift-right-index")
# Expressions that are drawn without any law.
EXPRESSIONS = 800
# Chains of movements.
VIEWS = 240
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
    changed = (
        kept.changed_value(left, f"the left side of the law {law.label}")
        for law, dtype in pairs
        for left in kept.drawn_left(law, dtype, case_id, max(1, each // 2))
    )
    lost = (
        kept.lost_simplification(law, equation)
        for law, dtype in pairs
        for equation in kept.drawn(law, dtype, case_id, each)
    )
    return _first_wrong(itertools.chain(changed, lost))


def _measure_gated(rule: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Laws whose conditions are those of a gate: behind it, they hold."""
    return _first_wrong(
        kept.lost_under_conditions(law, equation)
        for law in laws_of(rule)
        for dtype in law.over
        for equation in kept.drawn_gated(law, dtype, case_id, INSTANCES // len(law.over))
    )


_Known = (
    known_ranges.WrongRange | known_ranges.WrongEnd | known_views.WrongView | known_views.Unjoined
)
_Wrong = kept.Lost | kept.Changed | _Known


def _first_wrong(instances: Iterable[_Wrong | None]) -> Measurement:
    """What is wrong with the first instance that is; how many were looked at."""
    compared = 0
    for compared, wrong in enumerate(instances, 1):
        if wrong is not None:
            details = Failure(script=wrong.script())
            return Measurement(False, wrong.describe(), compared, details=details)
    return Measurement(True, compared=compared)


def _measure_expressions(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Expressions that were drawn without looking at any law, and each operation of them."""
    drawn = list(expressions.drawn(case_id, count))
    changed = (kept.changed_value(each, "an expression") for each in drawn)
    wide = map(known_ranges.wide_range, toposort(drawn))
    return _first_wrong(itertools.chain(changed, wide))


def _measure_wrapping(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Sums that just wrap, or just do not."""
    return _first_wrong(kept.changed_value(e, "a sum taken apart") for e in expressions.wrapping())


def _row_of_expressions() -> Row:
    measure = functools.partial(functools.partial, _measure_expressions)
    return make_row(
        "kernel.simplified.expressions",
        "Random expressions keep their values; what is known of their ranges holds these, and is "
        "no wider than what is known of their operands makes it.",
        ("kernel.simplified", "kernel.known_range"),
        Rung.OPTIMISED,
        "",
        "",
        "the same values",
        kernel_needs(),
        lambda: [
            Check("wrapping", _measure_wrapping),
            Check("drawn", measure(EXPRESSIONS)),
            Check("more", measure(20 * EXPRESSIONS), full_only=True),
        ],
    )


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


def _measure_sizes(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    return _first_wrong(
        known_ranges.wrong_end(size, ends)
        for size, ends in known_ranges.drawn_sizes(case_id, count)
    )


def _row_of_sizes() -> Row:
    return make_row(
        "kernel.known_range.size",
        "The ends that are known of a symbolic size are those that it has at its variables' ends.",
        ("kernel.known_range",),
        Rung.OPTIMISED,
        "",
        "",
        "the least and the greatest value",
        kernel_needs(),
        lambda: [Check("instances", functools.partial(_measure_sizes, RANGES))],
    )


def _measure_views(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Trackers of random movements, most of them seen through other ones."""
    return _first_wrong(
        known_views.wrong_view(tracker, elements)
        for tracker, elements in known_views.drawn(case_id, count)
    )


def _row_of_views() -> Row:
    measure = functools.partial(functools.partial, _measure_views)
    return make_row(
        "kernel.known_view.chains",
        "Views through views show their elements, by one view where one does, and by their index; "
        "how far they reach and how they move along their axes is known.",
        ("kernel.known_view",),
        Rung.OPTIMISED,
        "",
        "",
        "the same elements, and no more views",
        kernel_needs(),
        lambda: [
            Check("drawn", measure(VIEWS)),
            Check("more", measure(20 * VIEWS), full_only=True),
        ],
    )


def rows() -> Iterator[Row]:
    """A row for each rule of which a law is proved, of expressions, gates, ranges and views."""
    yield from (_row(rule) for rule in sorted(LAWS) if rule not in NEVER)
    yield _row_of_expressions()
    yield _row_of_gates()
    yield from map(_row_of_ranges, known_ranges.OPS)
    yield _row_of_sizes()
    yield _row_of_views()
