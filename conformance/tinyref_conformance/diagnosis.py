"""Failures grouped by their cause, with what to do about each cause.

Failures that pass alone form groups of their own. Then come forms of kernels: a form explains rows
if all their failing cases have it, and no passing case of the run does. Then come the conditions
of `tinyref_spec.conditions`: one explains a row if all its wrong values meet it, and the right ones
do not. The condition that explains the most rows makes a group, and the rest is grouped in the same
way. Other failures are grouped by the fault that they name, and by their message. Advice comes from
the rows, or else from the condition.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tinyref_conformance.expectations import Phase
from tinyref_conformance.records import headline
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung
from tinyref_spec.conditions import BY_NAME, CONDITIONS, ConditionKind, ValueCondition
from tinyref_spec.evidence import Evidence, Explained, may_be_chance

if TYPE_CHECKING:
    from tinyref_conformance.report import CaseResult, RowResult

# A case itself may make this many launches.
LEAST_LAUNCHES = 20
# With fewer failing or passing cases, a common form may be chance.
LEAST_CASES = 3
# A form may explain failures if at most this share of its kernels passes.
MOST_PASSING = 0.1


@dataclass
class Group:
    """Failures of one cause.

    cause: what they have in common, a clause. advice: a sentence, empty if nothing is known.
    rows, cases: their ids. wrong: the number of wrong values, if values were compared.
    """

    rung: Rung
    cause: str
    advice: str
    rows: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)
    statuses: Counter[Status] = field(default_factory=Counter)
    wrong: int = 0

    @property
    def where(self) -> str:
        """Return what the ids of the rows have in common."""
        return common_name(self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "rung": self.rung.name,
            "where": self.where,
            "cause": self.cause,
            "advice": self.advice,
            "statuses": {status.value: count for status, count in self.statuses.items()},
            "wrong": self.wrong,
            "rows": self.rows,
            "cases": self.cases,
        }


@dataclass(eq=False)
class _Unit:
    """Failures of one row that are explained together, or not at all.

    shape: of the message, for failures that are not about wrong values.
    """

    row: RowResult
    cases: list[CaseResult]
    shape: str

    @property
    def evidence(self) -> Evidence:
        return self.row.evidence

    @property
    def is_history(self) -> bool:
        return self.cases[0].status is Status.FLAKE

    @property
    def fault(self) -> str:
        return self.cases[0].fault

    @property
    def has_groups_alone(self) -> bool:
        """Return True if the wrong kernels have groups of work-items, and no vectors."""
        forms = {name for name, (wrong, _) in self.evidence.forms.items() if wrong}
        return "group" in forms and "vector" not in forms

    def explained(self, condition: ValueCondition) -> Explained:
        """Return how well a condition explains the unit; lanes count only with vectors."""
        if condition.name.startswith("lane-") and self.has_groups_alone:
            return Explained.NOT
        return self.evidence.explains(condition.name)

    def advice(self, name: str, general: str) -> str:
        """Return the row's advice on a condition, else its advice on any failure and `general`."""
        own = self.row.advice
        if own.get(name):
            return own[name]
        return "; ".join(filter(None, (own.get(""), general)))


def diagnose(rows: Iterable[RowResult], failing: Iterable[CaseResult]) -> list[Group]:
    """Return the groups of the failing cases, each case in one; the lowest rung comes first."""
    measured = {row.id: row for row in rows}
    units = _units(measured, failing)
    total = Evidence()
    for row in measured.values():
        total.add(row.evidence)
    groups: list[Group] = []
    by_forms, by_values = (functools.partial(by, total) for by in (_by_forms, _by_values))
    for explain in (_by_launches, by_forms, by_values, _by_shape):
        for taken, group in explain(units):
            units = [unit for unit in units if unit not in taken]
            groups.append(group)
    return sorted(groups, key=lambda group: (group.rung, -len(group.cases)))


def _units(rows: Mapping[str, RowResult], failing: Iterable[CaseResult]) -> list[_Unit]:
    units: dict[tuple[str, str, bool], _Unit] = {}
    for case in failing:
        row = rows[case.row]
        is_of_values = case.phase == Phase.ACCURACY.value and row.evidence.elements[0] > 0
        # A case that passes alone is not wrong because of its values.
        is_of_values &= not case.fault and case.status is not Status.FLAKE
        shape = "" if is_of_values else case.fault or shape_of(case.message)
        key = case.row, shape, case.status is Status.FLAKE
        units.setdefault(key, _Unit(row, [], shape)).cases.append(case)
    return list(units.values())


Explanations = Iterator[tuple[list[_Unit], Group]]


def _group(units: Sequence[_Unit], cause: str, advice: str) -> Group:
    group = Group(min(unit.row.rung for unit in units), cause, advice)
    for unit in sorted(units, key=lambda unit: unit.row.rung):
        group.rows.append(unit.row.id)
        group.cases += [case.id for case in unit.cases]
        group.statuses.update(case.status for case in unit.cases)
        if not unit.shape:
            group.wrong += unit.evidence.elements[0]
    group.rows = list(dict.fromkeys(group.rows))
    return group


def _by_launches(units: Sequence[_Unit]) -> Explanations:
    """Yield failures after many launches of a process, if nothing passed after as many."""
    known = [unit for unit in units if unit.is_history and unit.evidence.launches[0] is not None]
    if not known:
        return
    first = min(map(_launches, known))
    last = max(unit.evidence.launches[1] or 0 for unit in known)
    if first >= LEAST_LAUNCHES and last < first:
        # Not every failure was run again; those with the same message have the same cause.
        said = {unit.shape for unit in known}
        late = [unit for unit in units if unit.shape in said and _launches(unit) >= first]
        cause = f"all fail after about {_rounded(first):,} launches of a process, and pass alone"
        yield late, _group(late, cause, _LEAK)


def _launches(unit: _Unit) -> int:
    return unit.evidence.launches[0] or 0


def _rounded(count: int) -> int:
    """Return a number with one digit that is not 0: the others depend on the order of cases."""
    return round(count, 1 - len(str(count)))


_LEAK = "something is used up: free what a launch takes (memory, events, handles), and when it ends"


def _by_values(total: Evidence, units: Sequence[_Unit]) -> Explanations:
    """Yield what conditions on elements explain; the condition with the most rows comes first."""
    left = [unit for unit in units if not unit.shape]
    while left:
        explained = {
            condition: [unit for unit in left if unit.explained(condition) is not Explained.NOT]
            for condition in CONDITIONS
            if condition.kind in _ELEMENTS
        }
        # If equal, the condition that fewer right values meet, then the first of the table.
        best = max(explained, key=lambda condition: _weight(total, explained[condition], condition))
        taken = explained[best]
        if not taken:
            return
        yield taken, _group(taken, _cause(taken, best), _advice(taken, best))
        left = [unit for unit in left if unit not in taken]


def _advice(units: Sequence[_Unit], condition: ValueCondition) -> str:
    """Return the advice of most rows for a condition."""
    said = Counter(unit.advice(condition.name, condition.advice) for unit in units)
    return said.most_common(1)[0][0]


def _weight(
    total: Evidence, units: Sequence[_Unit], condition: ValueCondition
) -> tuple[int, int, float]:
    # Conditions on operands compare by the number of right values of the run that meet them.
    is_of_values = condition.kind is ConditionKind.VALUE
    met = total.conditions.get(condition.name, (0, 0))[1] if is_of_values else math.inf
    return len(units), -_right_too(units, condition), -met


def _right_too(units: Sequence[_Unit], condition: ValueCondition) -> int:
    """Return how many right values of some rows meet a condition."""
    return sum(unit.evidence.conditions.get(condition.name, (0, 0))[1] for unit in units)


def _cause(units: Sequence[_Unit], best: ValueCondition) -> str:
    """Return the words of the condition, and of fully explaining ones of other kinds."""
    named = [best]
    for condition in CONDITIONS:
        kinds = {other.kind for other in named}
        is_new = condition.kind not in kinds and condition.kind in _ELEMENTS
        if is_new and all(unit.explained(condition) is Explained.FULLY for unit in units):
            named.append(condition)
    wrong = sum(unit.evidence.elements[0] for unit in units)
    how_many = "all wrong values" if wrong > 1 else "the wrong value"
    words = " and ".join(condition.words for condition in named)
    cause = f"{how_many} {words if wrong > 1 else _singular(words)}"
    right = _right_too(units, best)
    return f"{cause} (as do {right:,} right ones)" if right else cause


_ELEMENTS = frozenset({ConditionKind.VALUE, ConditionKind.PLACE, ConditionKind.OUTCOME})


def _singular(words: str) -> str:
    forms = {"are": "is", "were": "was", "have": "has"}
    return re.sub(r"\b(are|were|have)\b", lambda match: forms[match[0]], words)


def _by_forms(total: Evidence, units: Sequence[_Unit]) -> Explanations:
    """Yield failures of kernels of one form, if no kernel with that form passed."""
    left = [unit for unit in units if not unit.is_history]
    if total.cases[1] < LEAST_CASES:
        return
    failing = [condition for condition in CONDITIONS if _fails(total, condition)]
    while failing:
        explained = {
            condition: [unit for unit in left if _are_all_of_form(unit, condition)]
            for condition in failing
        }
        # If equal, the first of the table.
        best = max(failing, key=lambda condition: _count(explained[condition]))
        taken = explained[best]
        if _count(taken) < LEAST_CASES:
            return
        passing = total.forms[best.name][1]
        pass_too = f"{passing:,} of that form pass" if passing else "none passes"
        yield taken, _group(taken, f"all {best.words}, and {pass_too}", best.advice)
        left = [unit for unit in left if unit not in taken]


def _fails(total: Evidence, condition: ValueCondition) -> bool:
    """Return True if nearly all kernels of a form fail, so that it is not chance."""
    wrong, right = total.forms.get(condition.name, (0, 0))
    if condition.kind is not ConditionKind.FORM or not wrong:
        return False
    # Some results are right by luck: those of equal values at other indices.
    return not right or (
        right <= MOST_PASSING * wrong and not may_be_chance(wrong, right, total.cases[1])
    )


def _count(units: Sequence[_Unit]) -> int:
    return sum(len(unit.cases) for unit in units)


def _are_all_of_form(unit: _Unit, condition: ValueCondition) -> bool:
    return unit.evidence.forms.get(condition.name, (0, 0))[0] == unit.evidence.cases[0] > 0


_BY_STATUS: Mapping[Status, tuple[str, str]] = {
    Status.CRASH: (
        "the process dies",
        "run the script of the example under a debugger: an address out of bounds, most often",
    ),
    Status.TIMEOUT: (
        "the case does not end",
        "look at loops, at barriers that not all work-items reach, and at waits",
    ),
}
_BY_PHASE: Mapping[str, tuple[str, str]] = {
    Phase.COMPILE.value: (
        "the kernel does not compile",
        "read the message of the renderer or compiler, and the source of the example, if any",
    ),
    Phase.RUN.value: ("the case raises", "read the message, and run the script of the example"),
}
_HISTORY = (
    "passes alone, and depends on what ran before",
    "state is left behind: a cache, memory that overlaps, a mode; run the sequence of the example",
)


def _by_shape(units: Sequence[_Unit]) -> Explanations:
    """Yield the other failures, by their status and their message."""
    groups: dict[tuple[str, ...], list[_Unit]] = {}
    for unit in units:
        words = _words(unit)
        family = ".".join(unit.row.id.split(".")[:2])
        # A fault with a name is one group on all rungs.
        key = words if unit.shape and words[1] else (*words, family)
        groups.setdefault(key, []).append(unit)
    for (cause, advice, *_), taken in groups.items():
        yield taken, _group(taken, cause, advice)


def _words(unit: _Unit) -> tuple[str, str]:
    case = unit.cases[0]
    if unit.is_history:
        return _HISTORY
    if unit.fault in BY_NAME:
        fault = BY_NAME[unit.fault]
        return fault.words, unit.advice(fault.name, fault.advice)
    if case.status in _BY_STATUS:
        words, advice = _BY_STATUS[case.status]
        return words, unit.advice("dies", advice)
    if not unit.shape:
        return "wrong values with nothing in common", unit.advice("", "")
    words, advice = _BY_PHASE.get(case.phase, ("", ""))
    advice = unit.advice("", "") or advice
    return (f"{words}: {unit.shape}" if words else unit.shape), advice


_HISTORY_WORDS = re.compile(r"; it (?:depends on what ran before|passes alone)")
_VARIABLE = re.compile(
    r"(?<![\w./])/(?:[\w.~+-]+/)*[\w.~+-]+"  # a path, often of a folder with a random name
    r"|0x[0-9a-fA-F]+|-?\d+(\.\d+)?(e[-+]?\d+)?|'[^']*'"
)


def shape_of(message: str) -> str:
    """Return a message without what differs from case to case: paths, numbers, quoted names."""
    parts = _HISTORY_WORDS.split(headline(message))[0].split(" … ")
    # The cause is last, so each part is cut on its own.
    return " … ".join(_VARIABLE.sub("#", part)[:160] for part in parts) or "no message"


def common_name(ids: Sequence[str]) -> str:
    """Return a short name for rows: their id, or what their ids have in common."""
    if len(ids) == 1:
        return ids[0]
    parts = [row.split(".") for row in ids]
    families = list(dict.fromkeys(part[0] for part in parts))
    if len(families) > 1:
        return ", ".join(families)
    depth = 0
    while all(len(part) > depth for part in parts) and len({part[depth] for part in parts}) == 1:
        depth += 1
    head = ".".join(parts[0][:depth])
    tails = list(dict.fromkeys(part[depth] for part in parts if len(part) > depth))
    named = ",".join(tails[:4]) + (",…" if len(tails) > 4 else "")
    ends = {part[-1] for part in parts}
    last = f".*.{ends.pop()}" if len(ends) == 1 and len(tails) > 1 else ""
    return f"{head}.{{{named}}}{last}" if tails else head
