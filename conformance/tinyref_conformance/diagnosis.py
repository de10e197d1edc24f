"""Failures grouped by their cause: what they have in common, in words, and what to do about it.

The failures of a row are explained by a condition of `tinyref_spec.conditions` where all of its
wrong values meet it and its right ones do not. The condition that explains the most rows makes a
group of them, and so on with those that are left. Then come the number of launches and the forms
of kernels, over all cases of the run; what nothing explains is grouped by what it says.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyref_conformance.expectations import Phase
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Rung
from tinyref_spec.conditions import CONDITIONS, Condition, Kind
from tinyref_spec.evidence import Evidence, Explained

# Fewer launches than these may be those of a case itself.
LEAST_LAUNCHES = 20
# Of fewer cases that fail, or pass, it says nothing that they are of one form, or of others.
LEAST_CASES = 3


@dataclass(frozen=True)
class Failing:
    """One failing case, as `diagnose` needs it."""

    id: str
    row: str
    status: Status
    phase: str
    message: str


@dataclass(frozen=True)
class Measured:
    """One row of the run with what its cases counted."""

    id: str
    rung: Rung
    evidence: Evidence


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

    row: Measured
    cases: list[Failing]
    shape: str

    @property
    def evidence(self) -> Evidence:
        return self.row.evidence

    @property
    def is_history(self) -> bool:
        return self.cases[0].status is Status.FLAKE


def diagnose(rows: Iterable[Measured], failing: Iterable[Failing]) -> list[Group]:
    """The groups of the failing cases, each case in one; the lowest rung comes first."""
    measured = {row.id: row for row in rows}
    units = _units(measured, failing)
    total = Evidence()
    for row in measured.values():
        total.add(row.evidence)
    groups: list[Group] = []
    by_forms = functools.partial(_by_forms, total)
    for explain in (_by_launches, _by_values, by_forms, _by_shape):
        for taken, group in explain(units):
            units = [unit for unit in units if unit not in taken]
            groups.append(group)
    return sorted(groups, key=lambda group: (group.rung, -len(group.cases)))


def _units(rows: Mapping[str, Measured], failing: Iterable[Failing]) -> list[_Unit]:
    found: dict[tuple[str, str, bool], _Unit] = {}
    for case in failing:
        row = rows[case.row]
        is_of_values = case.phase == Phase.ACCURACY.value and row.evidence.elements[0] > 0
        shape = "" if is_of_values else shape_of(case.message)
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
    """Failures after so many launches of a process, where nothing passed after as many."""
    known = [unit for unit in units if unit.is_history and unit.evidence.launches[0] is not None]
    if not known:
        return
    first = min(unit.evidence.launches[0] or 0 for unit in known)
    last = max(unit.evidence.launches[1] or 0 for unit in known)
    if first >= LEAST_LAUNCHES and last < first:
        # Not each failure was run again alone; those that say the same are of the same cause.
        said = {unit.shape for unit in known}
        late = [unit for unit in units if unit.shape in said and _starts_at(unit, first)]
        cause = f"all fail after {first:,} launches of a process, and pass alone"
        yield late, _group(late, cause, _LEAK)


def _starts_at(unit: _Unit, first: int) -> bool:
    fewest = unit.evidence.launches[0]
    return fewest is not None and fewest >= first


_LEAK = "something is used up: free what a launch takes (memory, events, handles), and when it ends"


def _by_values(units: Sequence[_Unit]) -> Explanations:
    """What a condition of the elements explains, that of the most rows first."""
    left = [unit for unit in units if not unit.shape]
    while left:
        explained = {
            condition: [unit for unit in left if _explains(unit, condition) is not Explained.NOT]
            for condition in CONDITIONS
            if condition.kind is not Kind.FORM
        }
        # Of equals the first of the table.
        best = max(explained, key=lambda condition: _weight(explained[condition], condition))
        taken = explained[best]
        if not taken:
            return
        yield taken, _group(taken, _cause(taken, best), best.advice)
        left = [unit for unit in left if unit not in taken]


def _explains(unit: _Unit, condition: Condition) -> Explained:
    return unit.evidence.explains(condition.name)


def _weight(units: Sequence[_Unit], condition: Condition) -> tuple[int, int]:
    fully = sum(_explains(unit, condition) is Explained.FULLY for unit in units)
    return len(units), fully


def _cause(units: Sequence[_Unit], best: Condition) -> str:
    """The words of the condition, and of one of each other kind that explains all of it fully."""
    named = [best]
    for condition in CONDITIONS:
        is_new = condition.kind not in {each.kind for each in named} and condition.kind in _ELEMENTS
        if is_new and all(_explains(unit, condition) is Explained.FULLY for unit in units):
            named.append(condition)
    wrong = sum(unit.evidence.elements[0] for unit in units)
    how_many = "all wrong values" if wrong > 1 else "the wrong value"
    words = " and ".join(condition.words for condition in named)
    found = f"{how_many} {words if wrong > 1 else _singular(words)}"
    right = sum(unit.evidence.conditions.get(best.name, (0, 0))[1] for unit in units)
    return f"{found} (as do {right:,} right ones)" if right else found


_ELEMENTS = frozenset({Kind.VALUE, Kind.PLACE, Kind.OUTCOME})


def _singular(words: str) -> str:
    forms = {"are": "is", "were": "was", "have": "has"}
    return re.sub(r"\b(are|were|have)\b", lambda match: forms[match[0]], words)


def _by_forms(total: Evidence, units: Sequence[_Unit]) -> Explanations:
    """Failures of kernels of one form, of which no kernel of the run passed."""
    left = list(units)
    if total.cases[1] < LEAST_CASES:
        return
    for condition in CONDITIONS:
        if condition.kind is not Kind.FORM or total.forms.get(condition.name, (0, 0))[1]:
            continue
        taken = [unit for unit in left if _are_all_of_form(unit, condition)]
        if sum(len(unit.cases) for unit in taken) >= LEAST_CASES:
            yield taken, _group(taken, f"all {condition.words}, and none passes", condition.advice)
            left = [unit for unit in left if unit not in taken]


def _are_all_of_form(unit: _Unit, condition: Condition) -> bool:
    return unit.evidence.forms.get(condition.name, (0, 0))[0] == unit.evidence.cases[0] > 0


# What the harness, the interpreter and drivers say: the words of a group, and advice.
_MESSAGES: tuple[tuple[str, str, str], ...] = (
    (
        *(r"a red zone was written", "something is written outside of the output"),
        "look at gates of stores, at the tail of vectors and at indices of the last group",
    ),
    (
        *(r"an input was overwritten", "an input is written"),
        "look at the order of arguments and at which buffer a store is printed for",
    ),
    (
        *(r"\brace\b|the order of work-items matters", "work-items race"),
        "a barrier is missing or orders no memory, two indices are one, or an off gate stores",
    ),
    (
        *(r"divergent barrier", "not all work-items of a group reach the barrier"),
        "a barrier is printed inside of a condition or a loop that depends on the work-item",
    ),
    (
        *(r"out of bounds", "an access is out of bounds"),
        "look at indices and gates: a gate that is off touches no memory",
    ),
    (
        *(r"uninitialised read", "memory is read before it is written"),
        "look at the start of accumulators and at the barrier between store and load",
    ),
    (
        *(r"out of (memory|resources)", "the device has no room"),
        "free what a launch takes (memory, events, handles) when it ends, or declare less",
    ),
    (
        *(r"^biased: mean error", "sums of products are biased"),
        "products or partial sums are truncated: round each to nearest, ties to even",
    ),
    (
        *(r"^too noisy: spread", "sums of products are noisier than their accumulator allows"),
        "the accumulator, or a product, has fewer bits than the row says",
    ),
    (
        *(r"was accepted, and gave", "what is not declared is accepted"),
        "refuse it with one clear line, or declare it",
    ),
)
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
# What rows of a family ask for, where nothing else is known of why they fail.
_BY_FAMILY: Mapping[str, str] = {
    "memory.copy": "look at offsets, sizes and directions of copies, and at what they wait for",
    "memory.many": "look at what allocate gives, and at sizes of copies",
    "memory.view": "look at the offset of a view, and at what copies make of it",
    "memory.gate": "a gate that is off touches no memory, and a load gives its alternative",
    "memory.gate.widened": "loads with a gate extend the sign of a narrow type as plain ones do",
    "memory.bytes": "a bool in memory is a byte: any but 0 is true, and what is stored is 0 or 1",
    "memory.launch": "look at what is kept from launch to launch: arguments, sizes, results",
    "memory.order": "look at what each launch and copy waits for",
    "memory.wait": "look at what synchronize waits for, and at where seconds are measured",
    "isa.sequence": "compilers may contract and reorder floats: -ffp-contract=off, no -ffast-math",
    # Integers, and expressions that a compiler makes smaller.
    "isa.sequence.simplified": "look at each operation of the expression alone: isa has rows of it",
    "isa.sequence.wrapped_quotient": "cut a sum to its type before it is divided",
    "isa.cast": "look at rounding, saturation and wrapping of the conversion",
    "kernel.view": "look at strides and offsets, and at the indices of the launch",
    "kernel.elements": "look at the indices of the launch, and at its size",
    "kernel.size": "look at how many bits an address has, and at the largest grid of a launch",
    "kernel.offset": "views begin at any element: look at how offsets are passed",
    "kernel.reduce": "look at the start, the step and the end of loops, and at accumulators",
    "kernel.program.group": "look at the index of a work-item in its group, at barriers and arrays",
    "kernel.program.arrays": "look at sizes and offsets of shared arrays: they may overlap",
    "kernel.program.extremes": "look at sizes and offsets of shared arrays, and at barriers",
    "kernel.program.item": "look at the index of a work-item in its group, and at its dimensions",
    "kernel.program.grids": "look at what is kept from launch to launch: the size of the grid",
    "kernel.program.unused": "parameters have the numbers of their slots, those unused too",
    "kernel.program.long": "look at how registers are spilled, and at how many there are",
    "kernel.program.loop": "look at the start, the step and the end of loops, and at accumulators",
    "kernel.program.vector": "look at the order and the number of lanes where they meet memory",
    "system.jit": "look at what a replay takes anew: buffers, variables, the order of launches",
    "system.transfer": "look at offsets, sizes and directions of copies between devices",
}


# Rows that launch nothing: advice that speaks of kernels is not for them.
_WITHOUT_KERNELS = ("memory.copy", "memory.many", "memory.view")


def _by_family(row: str) -> str:
    longest = max((name for name in _BY_FAMILY if row.startswith(name)), key=len, default="")
    return _BY_FAMILY.get(longest, "")


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
    if case.status in _BY_STATUS:
        return _BY_STATUS[case.status]
    for pattern, words, advice in _MESSAGES:
        if re.search(pattern, case.message):
            is_of_copies = unit.row.id.startswith(_WITHOUT_KERNELS)
            return words, _by_family(unit.row.id) if is_of_copies else advice
    if not unit.shape:
        return "wrong values with nothing in common", _by_family(unit.row.id)
    words, advice = _BY_PHASE.get(case.phase, ("", ""))
    advice = _by_family(unit.row.id) or advice
    return (f"{words}: {unit.shape}" if words else unit.shape), advice


_HISTORY_WORDS = re.compile(r"; it (?:depends on what ran before|passes alone)")
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?(e[-+]?\d+)?|'[^']*'")


def shape_of(message: str) -> str:
    """A message without what differs from case to case: numbers, quoted names, its history."""
    line = _HISTORY_WORDS.split(message.strip().partition("\n")[0])[0]
    return _VARIABLE.sub("#", line)[:160] or "no message"


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
