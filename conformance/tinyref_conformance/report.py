"""The report of a run as data: the contents of the JSON file, and the basis of other forms."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tinyref import reproduce
from tinyref.errors import UserError, describe_error
from tinyref.foreign import dataclass_from, json_value, text_of_file
from tinyref_conformance import ladder
from tinyref_conformance.diagnosis import Group, diagnose
from tinyref_conformance.not_probed import not_probed
from tinyref_conformance.records import (
    Record,
    members_to_json,
    number_from_json,
    number_to_json,
    with_counts,
)
from tinyref_conformance.scope import Scope, scope_of
from tinyref_conformance.statuses import EXIT_AS_EXPECTED, MEASURED, Status, exit_code
from tinyref_spec.accuracy import Accuracy
from tinyref_spec.case import Rung
from tinyref_spec.evidence import Evidence
from tinyref_spec.subjects.name import is_subject, parse_subject

SCHEMA = "tinyref.conformance.report"
VERSION = 1
HASH = "report_hash"
NOT_A_RUN = "not a conformance run"
# The case that every run has: the device opens. It is in no table.
OPEN_CASE = "device.open"
# Why the other cases did not run if that one failed.
NOT_OPEN = "the device does not open"
# For a sequence of more cases, a command names the report that holds it.
MAX_INLINE = 8
# A report of every case of the full profile has a tenth of that.
MAX_BYTES = 1 << 29


class EditedError(UserError):
    """A report that was edited after tinyref wrote it."""


@dataclass
class CaseResult:
    """The result of one case, after expectations were applied."""

    id: str
    row: str
    status: Status
    message: str = ""
    phase: str = ""
    seconds: float = 0.0
    compared: int = 0
    max_ulp: float | None = None
    p99_ulp: float | None = None
    worst_input: str = ""
    observed: str = ""
    attempts: int = 1
    repro: str = ""
    details: Mapping[str, Any] | None = None
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not empty."""
        named = {"id": self.id, "row": self.row, "status": self.status.value}
        return {**named, **members_to_json(self)}


@dataclass
class RowResult:
    """One row of the tables, with the results of its cases.

    clauses: labels; their texts are `clause_sentences`. advice: see `tinyref_spec.case.Row`.
    """

    id: str
    sentence: str
    clauses: tuple[str, ...]
    clause_sentences: tuple[str, ...]
    rung: Rung
    level: str
    op: str
    dtype: str
    error_rule: str
    counts: Counter[Status] = field(default_factory=Counter)
    compared: int = 0
    seconds: float = 0.0
    max_ulp: float | None = None
    p99_ulp: float | None = None
    worst_input: str = ""
    observed: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    accuracy: Accuracy = field(default_factory=Accuracy)
    advice: Mapping[str, str] = field(default_factory=dict)

    def add(self, case: CaseResult, record: Record | None = None) -> None:
        """Count a case and keep its worst result; `record` has what it measured."""
        if record is not None:
            self.evidence.add(record.evidence or Evidence())
            self.accuracy.add(record.accuracy or Accuracy())
        if case.status in MEASURED:
            is_wrong = case.status.is_broken or case.status is Status.EXPECTED_FAIL
            self.evidence.add(Evidence(cases=(int(is_wrong), int(not is_wrong))))
        self.counts[case.status] += 1
        self.compared += case.compared
        self.seconds += case.seconds
        if case.max_ulp is not None and (self.max_ulp is None or case.max_ulp > self.max_ulp):
            self.max_ulp, self.worst_input = case.max_ulp, case.worst_input
        if case.p99_ulp is not None:
            self.p99_ulp = max(case.p99_ulp, self.p99_ulp or 0.0)
        self.observed = self.observed or case.observed

    def to_json(self) -> dict[str, Any]:
        data = {
            name: number_to_json(getattr(self, name))
            for name in (
                "id",
                "sentence",
                "level",
                "op",
                "dtype",
                "error_rule",
                "compared",
                "seconds",
                "max_ulp",
                "p99_ulp",
                "worst_input",
                "observed",
            )
        }
        data["clauses"] = list(self.clauses)
        data["clause_sentences"] = list(self.clause_sentences)
        data["rung"] = self.rung.name
        data["counts"] = _counts_to_json(self.counts)
        optional = {
            "evidence": self.evidence.to_json(),
            "accuracy": self.accuracy.to_json(),
            "advice": dict(self.advice),
        }
        return data | {name: value for name, value in optional.items() if value}


@dataclass
class Report:
    """A whole run.

    problems: what is wrong with the run itself, beyond single cases.
    """

    certificate: dict[str, Any]
    rows: list[RowResult]
    cases: list[CaseResult]
    problems: list[str] = field(default_factory=list)

    @functools.cached_property
    def counts(self) -> Counter[Status]:
        """Return the number of cases of each status, without the opening of the device."""
        return Counter(case.status for case in self.cases if case.id != OPEN_CASE)

    @functools.cached_property
    def exit_code(self) -> int:
        # The opening of the device alone does not make a run green.
        asked = [case.status for case in self.cases if case.id != OPEN_CASE]
        opened = [case.status for case in self.cases if case.id == OPEN_CASE]
        if self._is_empty_shard:
            return exit_code(opened, self.problems)
        return max(exit_code(asked, self.problems), exit_code([*asked, *opened], self.problems))

    @property
    def _is_empty_shard(self) -> bool:
        """Return True for a shard that has no row, or only rows that the device skips.

        All shards together must measure something, which `tinyref conform merge` checks.
        """
        if self.certificate.get("shard") is None or not self.certificate["cases_asked"]:
            return False
        return set(self.counts) <= {Status.SKIP}

    @functools.cached_property
    def rungs(self) -> list[ladder.RungReport]:
        rung_of = {row.id: row.rung for row in self.rows}
        return ladder.climb((rung_of[case.row], case.status) for case in self.cases)

    @property
    def own_rungs(self) -> list[ladder.RungReport]:
        """Return the rungs that a device has: for a library, those with cases."""
        if not is_subject(self.device):
            return self.rungs
        return [rung for rung in self.rungs if rung.state is not ladder.RungState.EMPTY]

    @functools.cached_property
    def scope(self) -> Scope | None:
        """Return how much of the suite a library was asked; None for a device."""
        if not is_subject(self.device):
            return None
        return scope_of((case.status, case.message) for case in self.cases if case.id != OPEN_CASE)

    @functools.cached_property
    def first_broken(self) -> Rung | None:
        """Return the lowest broken rung, at which bringing up a device begins."""
        states = ((report.rung, report.state) for report in self.rungs)
        return next((rung for rung, state in states if state is ladder.RungState.BROKEN), None)

    @property
    def failures(self) -> list[CaseResult]:
        """Return the measured cases that failed, broken ones first; rungs of a plan rise."""
        failures = [
            case
            for case in self.cases
            if case.status.is_failure and case.status is not Status.MISSING
        ]
        return sorted(failures, key=lambda case: not case.status.is_broken)

    @functools.cached_property
    def groups(self) -> list[Group]:
        """Return the broken cases by their cause; the lowest rung comes first."""
        return diagnose(self.rows, [case for case in self.cases if case.status.is_broken])

    @property
    def missing(self) -> str:
        """Return how many planned cases were not run, in words; empty if all were."""
        count = self.counts[Status.MISSING]
        return f"{count:,} cases were planned and not run" if count else ""

    @property
    def first_scripts(self) -> tuple[str, str]:
        """Return the scripts of the first failure of the first broken rung, or empty texts.

        The first one needs tinyref, the second one the tool alone.
        """
        rung_of = {row.id: row.rung for row in self.rows}
        for case in self.failures:
            if case.status.is_broken and rung_of[case.row] is self.first_broken:
                details = case.details or {}
                return str(details.get("script", "")), str(details.get("tool_script", ""))
        return "", ""

    @property
    def suppressors(self) -> Counter[str]:
        """Return the broken cases that suppress others, with the number of those."""
        reasons = [case.message for case in self.cases if case.status is Status.SUPPRESSED]
        return Counter(map(ladder.root_of, reasons))

    @property
    def reductions(self) -> list[str]:
        return list(self.certificate["reductions"])

    @property
    def settings(self) -> dict[str, str]:
        """Return the flags that were not at their default, and the environment of the backend."""
        facts = self.certificate
        return reproduce.settings_of(facts.get("flags", {}), facts.get("environment", {}))

    @property
    def is_conformance_run(self) -> bool:
        return not self.reductions

    @property
    def device(self) -> str:
        """Return the device, with the second one if it was named."""
        second = self.certificate.get("second", "")
        return " with ".join(filter(None, (self.certificate["device"], second)))

    @property
    def verdict(self) -> str:
        """Return one line: what the run shows about the device."""
        device, profile = self.device, self.certificate["profile"]
        if self.exit_code == EXIT_AS_EXPECTED:
            known = self.counts[Status.EXPECTED_FAIL]
            but = f" with {known} expected failures" if known else ""
            part = " of the tensor rows" if is_subject(device) else ""
            words = f"{device} conforms to the {profile} profile{part}{but}"
            if not self.is_conformance_run:
                passing = self.counts[Status.PASS]
                words = f"{device}: {passing:,} case{'s pass' if passing != 1 else ' passes'}{but}"
            if self.scope is not None:
                words = f"{words}: {self.scope.headline}"
        elif self.first_broken is not None:
            words = f"{device} does not conform: first broken rung is '{self.first_broken.title}'"
        else:
            words = f"{device}: the run does not show that it conforms"
        return words if self.is_conformance_run else f"{words} ({NOT_A_RUN})"

    def to_json(self) -> dict[str, Any]:
        """Return the contents of the JSON file, with a version."""
        cases = [case.to_json() for case in self.cases]
        broken = self.first_broken
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "version": VERSION,
            "verdict": self.verdict,
            "conformance_run": self.is_conformance_run,
            "exit_code": self.exit_code,
            "first_broken_rung": None if broken is None else broken.name,
            "certificate": {**self.certificate, "results_hash": _digest(cases)},
            "problems": self.problems,
            "counts": _counts_to_json(self.counts),
            "ladder": [
                {
                    "rung": report.rung.name,
                    "title": report.rung.title,
                    "sentence": report.rung.sentence,
                    "state": report.state.value,
                    "counts": _counts_to_json(report.counts),
                }
                for report in self.own_rungs
            ],
            "not_probed": [asdict(line) for line in not_probed(self)],
            "groups": [group.to_json() for group in self.groups],
            "rows": [row.to_json() for row in self.rows],
            "cases": cases,
        }
        if self.scope is not None:
            data["scope"] = self.scope.to_json()
        data["certificate"][HASH] = hash_of(data)
        return data


def hash_of(data: Mapping[str, Any]) -> str:
    """Return the digest of a report's file without the hash itself; order does not count."""
    facts = {name: value for name, value in data["certificate"].items() if name != HASH}
    return _sha256({**data, "certificate": facts})


def _counts_to_json(counts: Counter[Status]) -> dict[str, int]:
    return {status.value: counts[status] for status in Status if counts[status]}


def _digest(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of the answers, without times."""
    return _sha256([{key: case[key] for key in case if key != "seconds"} for case in cases])


def _sha256(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def from_json(data: Any, where: str) -> Report:
    """Return the report in `data`. Raises `UserError` with its origin `where` if it is invalid."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UserError(f"report: {where} is not a report of tinyref conform")
    if data.get("version") != VERSION:
        raise UserError(
            f"report: {where} has version {data.get('version')!r}, accepted is {VERSION}"
        )
    try:
        report = Report(
            certificate=_certificate(data["certificate"]),
            rows=[_row_from_json(row) for row in data["rows"]],
            cases=[_case_from_json(case) for case in data["cases"]],
            problems=[_text(problem) for problem in data["problems"]],
        )
        # Each case must belong to a row of the report.
        _ = report.verdict
        return report
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"report: {where} is damaged: {describe_error(error)}") from error


def _certificate(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the certificate after checking the types of fields that comparisons read."""
    for name in ("device", "profile", "suite_hash", "started", "tinyref"):
        _text(data[name])
    for name in ("flags", "environment", "identity"):
        for value in data.get(name, {}).values():
            _text(str(value) if isinstance(value, int) else value)
    for reason in data["reductions"]:
        _text(reason)
    return dict(data)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"got a {type(value).__name__}, accepted is text")
    return value


def _row_from_json(data: Mapping[str, Any]) -> RowResult:
    members = dict(data)
    counts = {Status(name): operator.index(count) for name, count in members.pop("counts").items()}
    members["rung"] = Rung[members["rung"]]
    members["clauses"] = tuple(members["clauses"])
    members["clause_sentences"] = tuple(members["clause_sentences"])
    advice = members.get("advice", {}).items()
    members["advice"] = {_text(condition): _text(words) for condition, words in advice}
    for key in ("max_ulp", "p99_ulp"):
        members[key] = number_from_json(members[key])
    return dataclass_from(RowResult, {**with_counts(members), "counts": Counter(counts)})


def _case_from_json(data: Mapping[str, Any]) -> CaseResult:
    members = dict(data)
    members["status"] = Status(members["status"])
    for key in ("max_ulp", "p99_ulp"):
        members[key] = number_from_json(members.get(key))
    return dataclass_from(CaseResult, members)


def load(path: Path) -> Report:
    """Return the report in a JSON file. Raises `UserError` with the file and the error."""
    return from_json(_read(path), str(path))


def load_unedited(path: Path) -> Report:
    """Return a report as it was written. Raises `EditedError` for one that was edited."""
    data = _read(path)
    report = from_json(data, str(path))
    written = report.certificate.get(HASH)
    if not isinstance(written, str):
        raise UserError(f"report: {path} has no {HASH}: it may have been edited")
    if written != (actual := hash_of(data)):
        words = f"its {HASH} is {written}, but its contents have {actual}"
        raise EditedError(f"report: {path} was edited: {words}")
    # If someone also writes a new hash, all that follows from the cases must still agree.
    again = report.to_json()
    again["certificate"][HASH] = written
    for name in sorted({*again, *data}):
        if data.get(name) != again.get(name):
            raise EditedError(f"report: {path} was edited: {name} does not follow from its cases")
    return report


def _read(path: Path) -> Any:
    try:
        return json_value(text_of_file(path, MAX_BYTES))
    except OSError as error:
        raise UserError(f"report: cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"report: {path} is not JSON: {error}") from error


def device_options(device: str, second: str = "") -> list[str]:
    """Return the options of `tinyref conform` that name the devices of a run."""
    if is_subject(device):
        return parse_subject(device).options
    return ["--device", device, *(["--second", second] if second else [])]


def repro_command(
    device: str,
    profile: str,
    case_id: str,
    settings: Mapping[str, str] | None = None,
    second: str = "",
) -> str:
    """Return a command that runs this case alone, under the same flags."""
    return _command(device, profile, ["--query", case_id], settings, second)


def sequence_command(
    device: str,
    profile: str,
    sequence: Sequence[str],
    settings: Mapping[str, str] | None = None,
    second: str = "",
    file: Path | None = None,
) -> str:
    """Return a command that runs these cases in one worker; `file` is the report with them."""
    options = ["--sequence", ",".join(sequence)]
    if file is not None and len(sequence) > MAX_INLINE:
        options = ["--sequence", str(file), "--query", sequence[-1]]
    return _command(device, profile, options, settings, second)


def _command(
    device: str,
    profile: str,
    options: Sequence[str],
    settings: Mapping[str, str] | None,
    second: str,
) -> str:
    words = ["tinyref", "conform", *device_options(device, second), "--profile", profile]
    return reproduce.command([*words, *options], settings or {})


def sequence_of(report: Report, case_id: str) -> tuple[str, ...]:
    """Return the sequence that a report has for a case. Raises `UserError` if it has none."""
    for case in report.cases:
        if case.id == case_id and (case.details or {}).get("sequence"):
            return tuple(_text(name) for name in (case.details or {})["sequence"])
    raise UserError(f"sequence: the report has none for {case_id!r}: name a case by --query")


def now() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
