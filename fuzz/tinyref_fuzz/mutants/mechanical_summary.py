"""What became of a sample of mechanical mutants: outcomes, rates with intervals, and the page.

A summary is a small JSON file that is committed beside the page, which is written from it.
"""

from __future__ import annotations

import functools
import math
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from tinyref.errors import UserError
from tinyref_fuzz.mutants.edit_class import EDIT_CLASSES, VALUE, class_of_named

SCHEMA = "tinyref-fuzz-mechanical"
VERSION = 2
# How many kernels have to come to the same programs before a mutant is set aside for it.
IDENTICAL_KERNELS = 10_000
# No more than this part of a sample may be set aside.
MAX_SET_ASIDE = 0.05
# What is said of a mutant that lives: `survivors.toml`.
CLASSES = {
    "equivalent": "no program and no value can differ, by the proof",
    "performance": "another choice of what is right either way: no value can differ",
    "text": "another name, or text or moment of an error, or one less: no right value can differ",
    "case": "a kind of case that nothing made, and that rows or generator make since",
    "open": "a kind of case that nothing makes yet",
}
# The first three change no value: of what lives these are left out where only values are asked for.
_WITHOUT_A_VALUE = ("equivalent", "performance", "text")
KILLED, LIVES = "killed", "lives"
# How a wrong value shows, the last word of `Outcome.how`.
WRONG = "VALUE"


@dataclass(frozen=True)
class Outcome:
    """What one lane made of one mutant.

    edit: what it replaces and by what, in one line. outcome: `killed` or `lives`. seconds: of the
    processor; wall: by the clock. differs: whether some program differs from that of the healthy
    compiler, None where nobody looked; traced: of how many kernels. how: what killed it. cases: of
    the fuzzer or the suite, or tests, until the kill or to the end. edit_class: one of
    `EDIT_CLASSES`, by the place of the edit.
    """

    mutant: str
    lane: str
    outcome: str
    edit: str = ""
    seconds: float = 0.0
    wall: float = 0.0
    differs: bool | None = None
    traced: int = 0
    how: str = ""
    cases: int = 0
    edit_class: str = VALUE

    @property
    def is_killed(self) -> bool:
        return self.outcome == KILLED

    @property
    def contradicts(self) -> bool:
        """Whether a wrong value of a right program shows that its class is wrong."""
        is_of_programs = self.lane in ("conformance", "fuzz")
        return is_of_programs and self.edit_class != VALUE and self.how.split()[-1:] == [WRONG]

    @property
    def is_identical(self) -> bool:
        """Whether the programs of as many kernels as it takes are those of the healthy compiler."""
        return self.differs is False and self.traced >= IDENTICAL_KERNELS


@dataclass(frozen=True)
class Survivor:
    """What was found out about a mutant that lives: its edit, its class, and why in words."""

    mutant: str
    edit: str
    kind: str
    words: str


@dataclass(frozen=True)
class Rate:
    """How many of `count` were killed, and what is wanted of 1."""

    what: str
    killed: int
    count: int
    goal: float

    @property
    def value(self) -> float | None:
        return self.killed / self.count if self.count else None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate of all mutants, of which these are a sample."""
        return wilson_interval(self.killed, self.count)


def wilson_interval(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """The score interval of a proportion.

    E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, Journal of
    the American Statistical Association 22 (1927); of nothing counted it is (0, 1).
    """
    if not count:
        return 0.0, 1.0
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


@dataclass(frozen=True)
class Summary:
    """All outcomes of a sample so far.

    code: the sources. seed, size: of the sample. seconds: of the processor, for the fuzzer.
    """

    code: str
    seed: int
    size: int
    outcomes: Sequence[Outcome]
    seconds: float = 60.0

    @functools.cached_property
    def by_mutant(self) -> Mapping[str, Mapping[str, Outcome]]:
        """The outcomes of each mutant by lane."""
        found: defaultdict[str, dict[str, Outcome]] = defaultdict(dict)
        for each in self.outcomes:
            found[each.mutant][each.lane] = each
        return found

    def set_aside(self, survivors: Iterable[Survivor]) -> set[str]:
        """The mutants that nothing tells from the healthy compiler, by programs or by a proof.

        A proof is of one edit: where another one has its name since, it says nothing. Raises
        `UserError` where a lane has killed what is proved.
        """
        proved = {(each.mutant, each.edit) for each in survivors if each.kind == "equivalent"}
        found = set()
        for each in self.outcomes:
            is_proved = (each.mutant, each.edit) in proved
            if is_proved and each.is_killed:
                raise UserError(f"survivors: {each.mutant} is proved equivalent, and was killed")
            if is_proved or each.is_identical:
                found.add(each.mutant)
        return found

    def share_aside(self, survivors: Sequence[Survivor]) -> float:
        """Which part of the mutants that had their turn is set aside: at most `MAX_SET_ASIDE`."""
        return len(self.set_aside(survivors)) / max(len(self.by_mutant), 1)

    def is_good(self, survivors: Sequence[Survivor]) -> bool:
        """Whether every goal is met, with no more set aside than may be."""
        rates = self.rates(survivors)
        is_met = bool(rates) and all((rate.value or 0) >= rate.goal for rate in rates)
        return is_met and self.share_aside(survivors) <= MAX_SET_ASIDE

    def rates(self, survivors: Sequence[Survivor]) -> list[Rate]:
        """Those that have goals: of tests on all mutants, of the other lanes on those of values."""
        rows = self._rows(survivors)
        of_values = self._rows(survivors, (VALUE,))
        return self._rates((goal, of_values if goal.is_of_values else rows) for goal in _GOALS)

    def rates_of(self, survivors: Sequence[Survivor], edit_class: str = "") -> list[Rate]:
        """The same rates of one class, or of all mutants."""
        rows = self._rows(survivors, (edit_class,) if edit_class else tuple(EDIT_CLASSES))
        return self._rates((goal, rows) for goal in _GOALS)

    def rates_of_read(self, survivors: Sequence[Survivor]) -> list[Rate]:
        """Of the lanes that compare values, without what lives there and was read to change none.

        Whoever reads decides: such a rate is no proof, and meets no goal.
        """
        read = {(each.mutant, each.edit) for each in survivors if each.kind in _WITHOUT_A_VALUE}
        found = []
        for goal in _GOALS:
            if goal.is_of_values:
                rows = self._rows(survivors, (VALUE,))
                kept = [row for row in rows if _kills(row, goal) or not _named(row) & read]
                found.append((goal, kept))
        return self._rates(found)

    def _rates(self, found: Iterable[tuple[_Goal, Sequence[_Row]]]) -> list[Rate]:
        had_turns = {each.lane for each in self.outcomes}
        rates = [_rate(goal, rows) for goal, rows in found if had_turns.issuperset(goal.lanes)]
        return [rate for rate in rates if rate.count]

    def _rows(
        self, survivors: Iterable[Survivor], classes: Sequence[str] = tuple(EDIT_CLASSES)
    ) -> list[_Row]:
        """The outcomes of each mutant of these classes that is not set aside."""
        aside = self.set_aside(survivors)
        return [
            row
            for name, row in self.by_mutant.items()
            if name not in aside and _class_of(row) in classes
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "code": self.code,
            "seed": self.seed,
            "size": self.size,
            "seconds": self.seconds,
            "outcomes": [asdict(each) for each in self.outcomes],
        }

    @staticmethod
    def from_json(data: Any) -> Summary:
        """A summary as it was written. Raises `UserError` for anything else."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise UserError(f"score: this is no {SCHEMA}")
        if data.get("version") not in range(1, VERSION + 1):
            raise UserError(f"score: {SCHEMA} of version {data.get('version')}: accepted is 1 or 2")
        kept = [dict(each) for each in data["outcomes"]]
        for each in kept:
            # Version 1 had no classes.
            if "edit_class" not in each:
                each["edit_class"] = class_of_named(each["mutant"], each["edit"])
        outcomes = [Outcome(**each) for each in kept]
        return Summary(data["code"], data["seed"], data["size"], outcomes, data["seconds"])


@dataclass(frozen=True)
class _Goal:
    what: str
    lanes: tuple[str, ...]
    wanted: float
    is_of_values: bool = True


_Row = Mapping[str, Outcome]


_GOALS = (
    _Goal("quick tests of the room", ("room-tests",), 0.98, is_of_values=False),
    _Goal("quick tests", ("tests",), 0.98, is_of_values=False),
    _Goal("quick conformance", ("conformance",), 0.80),
    _Goal("fuzzer", ("fuzz",), 0.85),
    _Goal("conformance or fuzzer", ("conformance", "fuzz"), 0.95),
)


def _class_of(row: _Row) -> str:
    """The class of a mutant, which is the same in every lane."""
    return next(iter(row.values())).edit_class


def _rate(goal: _Goal, rows: Sequence[_Row]) -> Rate:
    """A rate of what the last of its lanes ran on.

    What that lane lets live, and the others did not see yet, counts as if they let it live too.
    """
    ran = [row for row in rows if goal.lanes[-1] in row]
    return Rate(goal.what, sum(_kills(row, goal) for row in ran), len(ran), goal.wanted)


def _kills(row: _Row, goal: _Goal) -> bool:
    """Whether one of the lanes of a goal kills a mutant."""
    return any(lane in row and row[lane].is_killed for lane in goal.lanes)


def _named(row: _Row) -> set[tuple[str, str]]:
    """A mutant and its edit, which are the same in every lane."""
    return {(each.mutant, each.edit) for each in row.values()}


def read_survivors() -> list[Survivor]:
    """What `survivors.toml` says. Raises `UserError` for a class that there is not."""
    text = resources.files(__package__).joinpath("survivors.toml").read_text()
    return parse_survivors(text)


def parse_survivors(text: str) -> list[Survivor]:
    """The entries of such a file; `UserError` for a class that there is not."""
    found = [Survivor(**each) for each in tomllib.loads(text).get("survivor", [])]
    for each in found:
        if each.kind not in CLASSES:
            accepted = ", ".join(CLASSES)
            raise UserError(f"survivors: {each.mutant}: {each.kind!r}: accepted are {accepted}")
    return found


def room_of(mutant: str) -> str:
    """The room of a mechanical mutant, by its name."""
    return mutant.split(".")[0]


def operator_of(mutant: str) -> str:
    """The operator of a mechanical mutant, by its name."""
    return mutant.split("/")[2]


# --- the page ------------------------------------------------------------------------------------


def page(summary: Summary, survivors: Sequence[Survivor]) -> str:
    """The page of the docs, in Markdown."""
    lines = [
        f"# Mutants made by machine: the sample of seed {summary.seed}",
        "",
        f"Written by `tinyref fuzz score --mechanical --draw {summary.seed} --page FILE`; do not "
        "edit it.",
        "",
        f"Sources {summary.code}. A sample of {summary.size} by seed {summary.seed}, of which "
        f"{len(summary.by_mutant)} had their turn. The fuzzer had {summary.seconds:g} seconds of "
        "the processor. A mutant is one edit of one function of algebra, views, optimise, codegen, "
        "schedule, renderers or interpret. The interval is that of Wilson, of 95 %.",
        "",
        "By the place of the edit alone, before anything runs, a mutant is of one of three "
        f"classes: {_classes_in_words()}. Conformance and fuzzer run right programs and compare "
        "values: their goals are of the class `value`. That of the quick tests is of all mutants.",
        "",
        *_rates_table(summary.rates(survivors)),
        "",
        describe_aside(summary, survivors),
        "",
        describe_contradictions(summary),
        "",
        *_read_section(summary, survivors),
        "## By class",
        "",
        *_classes_table(summary, survivors),
        "",
        "## What a mutant costs",
        "",
        "Medians, to the kill or to the end; on the wall of a machine that did other work too.",
        "",
        *_costs_table(summary),
        "",
        "## By operator",
        "",
        *_groups_table(summary, "operator", operator_of),
        "",
        "## By room",
        "",
        *_groups_table(summary, "room", room_of),
        "",
        "## What lived",
        "",
        *_survivors_table(summary, survivors),
    ]
    return "\n".join(lines) + "\n"


def describe_aside(summary: Summary, survivors: Sequence[Survivor]) -> str:
    """How many are set aside, and whether those are too many for the rates to count."""
    share = summary.share_aside(survivors)
    count = len(summary.set_aside(survivors))
    verdict = "met" if share <= MAX_SET_ASIDE else "MISSED: the rates leave out too many to count"
    return (
        f"Set aside as equivalent: {count} of {len(summary.by_mutant)}, {100 * share:.1f} %, "
        f"at most {100 * MAX_SET_ASIDE:g} %: {verdict}."
    )


def _read_section(summary: Summary, survivors: Sequence[Survivor]) -> list[str]:
    rates = summary.rates_of_read(survivors)
    if not rates:
        return []
    return [
        "## Of what can change a value",
        "",
        "Without what lives in a lane and of which the last table says that it changes no value: "
        f"its finding is {', '.join(_WITHOUT_A_VALUE)}. That was decided by reading, so that these "
        "rates are an estimate, and meet no goal.",
        "",
        *_rates_table(rates),
        "",
    ]


def _classes_in_words() -> str:
    return "; ".join(f"`{name}`, {words}" for name, words in EDIT_CLASSES.items())


def describe_contradictions(summary: Summary) -> str:
    """The mutants of other classes that a wrong value found: there the table is wrong."""
    found = sorted({each.mutant for each in summary.outcomes if each.contradicts})
    others = sum(_class_of(row) != VALUE for row in summary.by_mutant.values())
    named = f": {', '.join(f'`{name}`' for name in found)}" if found else ""
    return f"Of other classes and yet found by a wrong value: {len(found)} of {others}{named}."


def _classes_table(summary: Summary, survivors: Sequence[Survivor]) -> list[str]:
    classes = (*EDIT_CLASSES, "")
    heads = ("found by", *(name or "all" for name in classes))
    rows = [_row(*heads), _row(*["---"] * len(heads))]
    rates = {name: {r.what: r for r in summary.rates_of(survivors, name)} for name in classes}
    for what in rates[""]:
        cells = (
            f"{rate.killed} of {rate.count}" if (rate := rates[name].get(what)) else ""
            for name in classes
        )
        rows.append(_row(what, *cells))
    return rows


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rates_table(rates: Sequence[Rate]) -> list[str]:
    rows = [_row("found by", "killed", "of", "rate", "interval", "goal"), _row(*["---"] * 6)]
    for rate in rates:
        low, high = rate.interval
        share = f"{100 * (rate.value or 0):.1f} %"
        interval = f"{100 * low:.1f} to {100 * high:.1f} %"
        goal = f"{100 * rate.goal:.0f} %"
        rows.append(_row(rate.what, rate.killed, rate.count, share, interval, goal))
    return rows


def _costs_table(summary: Summary) -> list[str]:
    heads = ("lane", "outcome", "mutants", "cases", "processor s", "wall s")
    rows = [_row(*heads), _row(*["---"] * len(heads))]
    for lane in sorted({each.lane for each in summary.outcomes}):
        for outcome in (KILLED, LIVES):
            mine = [e for e in summary.outcomes if (e.lane, e.outcome) == (lane, outcome)]
            if mine:
                cases = statistics.median(each.cases for each in mine)
                seconds = statistics.median(each.seconds for each in mine)
                wall = statistics.median(each.wall for each in mine)
                cells = (f"{cases:.0f}", f"{seconds:.1f}", f"{wall:.1f}")
                rows.append(_row(lane, outcome, len(mine), *cells))
    return rows


def _groups_table(summary: Summary, head: str, group_of: Callable[[str], str]) -> list[str]:
    lanes = sorted({each.lane for each in summary.outcomes})
    rows = [_row(head, *lanes), _row(*["---"] * (len(lanes) + 1))]
    for group in sorted({group_of(name) for name in summary.by_mutant}):
        cells = []
        for lane in lanes:
            mine = [
                each
                for each in summary.outcomes
                if each.lane == lane and group_of(each.mutant) == group
            ]
            cells.append(f"{sum(each.is_killed for each in mine)} of {len(mine)}")
        rows.append(_row(group, *cells))
    return rows


def _survivors_table(summary: Summary, survivors: Sequence[Survivor]) -> list[str]:
    """Those that conformance or fuzzer let live, and what is said of each."""
    said = {each.mutant: each for each in survivors}
    heads = ("mutant", "edit", "of", "lives in", "programs", "finding", "why")
    rows = [_row(*heads), _row(*["---"] * len(heads))]
    for name, outcomes in sorted(summary.by_mutant.items()):
        lives = sorted(lane for lane, each in outcomes.items() if not each.is_killed)
        if not lives:
            continue
        known = said.get(name)
        fuzz = outcomes.get("fuzz")
        programs = "" if fuzz is None or fuzz.is_killed else _programs(fuzz)
        edit = next(iter(outcomes.values())).edit
        known = known if known and known.edit == edit else None
        cells = (programs, known.kind, _one_line(known.words)) if known else (programs, "", "")
        of = _class_of(outcomes)
        rows.append(_row(f"`{name}`", f"`{_one_line(edit)}`", of, ", ".join(lives), *cells))
    return rows


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _programs(fuzz: Outcome) -> str:
    if fuzz.differs is None:
        return "not compared"
    return "differ" if fuzz.differs else f"same on {fuzz.traced}"
