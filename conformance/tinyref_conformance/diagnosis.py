"""Failures grouped by their cause: what they have in common, in words, and what to do about it.

Failures that pass alone are groups of their own. A form of kernels, over all cases of the run,
explains the rows whose failing cases all have it, where no passing one does. The failures of other
rows are explained by a condition of `tinyref_spec.conditions` where all of their wrong values meet
it and their right ones do not. The condition that explains the most rows makes a group of them, and
so on with those that are left. What nothing explains is grouped by the fault that it names, and by
what it says. Advice is that of the rows, else that of the condition.
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

# Fewer launches than these may be those of a case itself.
LEAST_LAUNCHES = 20
# Of fewer cases that fail, or pass, it says nothing that they are of one form, or of others.
LEAST_CASES = 3
# Of the kernels of a form that is wrong, this share of those that fail may pass.
MOST_PASSING = 0.1


@dataclass
class Group:
    """Failures of one cause.

    cause: what they have in common, a clause. advice: a sentence, empty where nothing is known.
    rows, cases: their ids. wrong: how many values are wrong, where values were compared.
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
        """What the ids of the rows have in common."""
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
    """The failures of one row that are explained together, or not at all.

    shape: of what was said, where they are not of wrong values.
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

    def explained(self, condition: ValueCondition) -> Explained:
        return self.evidence.explains(condition.name)

    def advice(self, name: str, general: str) -> str:
        """Return the row's advice on a condition, else its advice on any failure and `general`."""
        own = self.row.advice
        if own.get(name):
            return own[name]
        return "; ".join(filter(None, (own.get(""), general)))


def diagnose(rows: Iterable[RowResult], failing: Iterable[CaseResult]) -> list[Group]:
    """The groups of the failing cases, each case in one; the lowest rung comes first."""
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
    found: dict[tuple[str, str, bool], _Unit] = {}
    for case in failing:
        row = rows[case.row]
        is_of_values = case.phase == Phase.ACCURACY.value and row.evidence.elements[0] > 0
        # What passes alone is not wrong because of its values.
        is_of_values &= not case.fault and case.status is not Status.FLAKE
        shape = "" if is_of_values else case.fault or shape_of(case.message)
        key = case.row, shape, case.status is Status.FLAKE
        found.setdefault(key, _Unit(row, [], shape)).cases.append(case)
    return list(found.values())


Explanations = Iterator[tuple[list[_Unit], Group]]


def _group(units: Sequence[_Unit], cause: str, advice: str) -> Group:
    found = Group(min(unit.row.rung for unit in units), cause, advice)
    for unit in sorted(units, key=lambda unit: unit.row.rung):
        found.rows.append(unit.row.id)
        found.cases += [case.id for case in unit.cases]
        found.statuses.update(case.status for case in unit.cases)
        if not unit.shape:
            found.wrong += unit.evidence.elements[0]
    found.rows = list(dict.fromkeys(found.rows))
    return found


def _by_launches(units: Sequence[_Unit]) -> Explanations:
    """Yield failures after many launches of a process, if nothing passed after as many."""
    known = [unit for unit in units if unit.is_history and unit.evidence.launches[0] is not None]
    if not known:
        return
    first = min(map(_launches, known))
    last = max(unit.evidence.launches[1] or 0 for unit in known)
    if first >= LEAST_LAUNCHES and last < first:
        # Not each failure was run again alone; those that say the same are of the same cause.
        said = {unit.shape for unit in known}
        late = [unit for unit in units if unit.shape in said and _launches(unit) >= first]
        cause = f"all fail after about {_rounded(first):,} launches of a process, and pass alone"
        yield late, _group(late, cause, _LEAK)


def _launches(unit: _Unit) -> int:
    return unit.evidence.launches[0] or 0


def _rounded(count: int) -> int:
    """Return a number with one digit that is not 0: the others depend on which cases came first."""
    return round(count, 1 - len(str(count)))


_LEAK = "something is used up: free what a launch takes (memory, events, handles), and when it ends"


def _by_values(total: Evidence, units: Sequence[_Unit]) -> Explanations:
    """What a condition of the elements explains, that of the most rows first."""
    left = [unit for unit in units if not unit.shape]
    while left:
        explained = {
            condition: [unit for unit in left if unit.explained(condition) is not Explained.NOT]
            for condition in CONDITIONS
            if condition.kind in _ELEMENTS
        }
        # Of equals the one that fewer right values meet, then the first of the table.
        best = max(explained, key=lambda each: _weight(total, explained[each], each))
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
    """The words of the condition, and of one of each other kind that explains all of it fully."""
    named = [best]
    for condition in CONDITIONS:
        is_new = condition.kind not in {each.kind for each in named} and condition.kind in _ELEMENTS
        if is_new and all(unit.explained(condition) is Explained.FULLY for unit in units):
            named.append(condition)
    wrong = sum(unit.evidence.elements[0] for unit in units)
    how_many = "all wrong values" if wrong > 1 else "the wrong value"
    words = " and ".join(condition.words for condition in named)
    found = f"{how_many} {words if wrong > 1 else _singular(words)}"
    right = _right_too(units, best)
    return f"{found} (as do {right:,} right ones)" if right else found


_ELEMENTS = frozenset({ConditionKind.VALUE, ConditionKind.PLACE, ConditionKind.OUTCOME})


def _singular(words: str) -> str:
    forms = {"are": "is", "were": "was", "have": "has"}
    return re.sub(r"\b(are|were|have)\b", lambda match: forms[match[0]], words)


def _by_forms(total: Evidence, units: Sequence[_Unit]) -> Explanations:
    """Failures of kernels of one form, where no kernel of the run that has it passed."""
    left = [unit for unit in units if not unit.is_history]
    if total.cases[1] < LEAST_CASES:
        return
    failing = [condition for condition in CONDITIONS if _fails(total, condition)]
    while failing:
        explained = {
            condition: [unit for unit in left if _are_all_of_form(unit, condition)]
            for condition in failing
        }
        # Of equals the first of the table.
        best = max(failing, key=lambda condition: _count(explained[condition]))
        taken = explained[best]
        if _count(taken) < LEAST_CASES:
            return
        passing = total.forms[best.name][1]
        pass_too = f"{passing:,} of that form pass" if passing else "none passes"
        yield taken, _group(taken, f"all {best.words}, and {pass_too}", best.advice)
        left = [unit for unit in left if unit not in taken]


def _fails(total: Evidence, condition: ValueCondition) -> bool:
    """Return whether nearly all kernels of a form fail, so that it is no chance."""
    wrong, right = total.forms.get(condition.name, (0, 0))
    if condition.kind is not ConditionKind.FORM or not wrong:
        return False
    # Some results are right whatever is wrong: those of equal values at other places.
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
        "read what the compiler says, and the source of the example",
    ),
    Phase.RUN.value: ("the case raises", "read the message, and run the script of the example"),
}
_HISTORY = (
    "passes alone, and depends on what ran before",
    "state is left behind: a cache, memory that overlaps, a mode; run the sequence of the example",
)


def _by_shape(units: Sequence[_Unit]) -> Explanations:
    """What is left, by its status and by what it says."""
    found: dict[tuple[str, ...], list[_Unit]] = {}
    for unit in units:
        words = _words(unit)
        family = ".".join(unit.row.id.split(".")[:2])
        # What has a name of its own is one group, wherever it is.
        key = words if unit.shape and words[1] else (*words, family)
        found.setdefault(key, []).append(unit)
    for (cause, advice, *_), taken in found.items():
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
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?(e[-+]?\d+)?|'[^']*'")


def shape_of(message: str) -> str:
    """A message without what differs from case to case: numbers, quoted names, its history."""
    parts = _HISTORY_WORDS.split(headline(message))[0].split(" … ")
    # The cause is last: neither part is cut for the other.
    return " … ".join(_VARIABLE.sub("#", part)[:160] for part in parts) or "no message"


def common_name(ids: Sequence[str]) -> str:
    """The shortest words for some rows: their id, or what they have in common."""
    if len(ids) == 1:
        return ids[0]
    parts = [each.split(".") for each in ids]
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
