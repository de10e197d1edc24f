"""From the outcome of a run to its report: with expectations, and all planned cases."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinyref import config, reproduce
from tinyref_conformance.certificate import surroundings
from tinyref_conformance.expectations import Expectations, Observed, Phase
from tinyref_conformance.plan import Plan
from tinyref_conformance.records import Outcome, Record
from tinyref_conformance.report import (
    NOT_OPEN,
    OPEN_CASE,
    CaseResult,
    Report,
    RowResult,
    repro_command,
    sequence_command,
)
from tinyref_conformance.statuses import BROKEN, Status
from tinyref_conformance.suite import Suite
from tinyref_spec.case import Case, Row, Rung
from tinyref_spec.reproducer import case_script, open_script

_FAILURES = BROKEN | {Status.EXPECTED_FAIL}


class Assembler:
    """Makes the report of one run; `report_file` is the path of its JSON."""

    def __init__(
        self,
        plan: Plan,
        suite: Suite,
        device: str,
        outcome: Outcome,
        expectations: Expectations,
        second: str = "",
        report_file: Path | None = None,
    ) -> None:
        self.report_file = report_file
        self.plan = plan
        self.suite = suite
        self.device = device
        self.second = second
        self.outcome = outcome
        self.expectations = expectations
        self._today = datetime.datetime.now(datetime.UTC).date()

    @property
    def flags(self) -> Mapping[str, config.FlagValue]:
        """Return the flags of the workers that are not at their default."""
        opened = self.outcome.opened
        return config.changed_flags() if opened is None else opened["flags"]

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment variables that the backend reads."""
        return {} if self.outcome.opened is None else self.outcome.opened["environment"]

    @property
    def settings(self) -> dict[str, str]:
        """Return what a command or a script must set to run as this run did."""
        return reproduce.settings_of(self.flags, self.environment)

    @property
    def reductions(self) -> list[str]:
        """Return why this is not a conformance run of its profile; empty if it is one."""
        not_run = sum(status is Status.NOT_RUN for status, _ in self.outcome.derived.values())
        skipped = not_run - self.outcome.late
        reasons = [*self.plan.reductions, *reproduce.reasons(self.flags)]
        if self.outcome.cut_short:
            reasons.append(self.outcome.cut_short)
        if skipped:
            reasons.append(f"not run because of the skip list: {skipped:,} of the cases")
        return reasons

    def report(self, started: str) -> Report:
        """Return the report, which has every planned case with exactly one status."""
        rows, cases = [_open_row()], [self._open_case()]
        rows[0].add(cases[0])
        for planned in self.plan.rows:
            row = _row_result(planned.row, self._sentences(planned.row))
            for case in planned.cases:
                result = self._case(case)
                row.add(result, self._record(case))
                cases.append(result)
            rows.append(row)
        return Report(self._certificate(started), rows, cases, self._problems())

    def observed(self) -> list[Observed]:
        """Return the cases as an update of the expectations needs them."""
        observed = []
        for planned in self.plan.rows:
            for case in planned.cases:
                record = _decisive(self.outcome.records.get(case.id, ()))
                if record is not None and not self._is_skipped(case):
                    observed.append(Observed(case.id, case.row, record.status, record.phase))
                else:
                    status = self.outcome.derived.get(case.id, (Status.SUPPRESSED, ""))[0]
                    phase = Phase.RUN.value if status is Status.FAIL else ""
                    observed.append(Observed(case.id, case.row, status, phase))
        return observed

    def skipped(self, case_id: str) -> str | None:
        """Return the reason in the skip list for not running this case; None if there is none."""
        return self.expectations.skipped(case_id, self._today)

    def is_expected(self, record: Record) -> bool:
        """Return True if an expectation covers this failure, or the skip list names it."""
        if self.skipped(record.case) is not None:
            return True
        final, _ = self.expectations.final(record.case, record.status, record.phase, self._today)
        return final is Status.EXPECTED_FAIL

    def _case(self, case: Case) -> CaseResult:
        attempts = self._attempts(case)
        record = _decisive(attempts)
        if record is None:
            result = CaseResult(case.id, case.row, *self._status_without_record(case))
            if result.status.is_broken:
                self._explain(result, None)
            return result
        status, why = self.expectations.final(case.id, record.status, record.phase, self._today)
        if len({attempt.status for attempt in attempts}) > 1 and attempts[-1].status in (
            Status.PASS,
            Status.UNSUPPORTED,
        ):
            status, why = Status.FLAKE, attempts[-1].message
        result = CaseResult(
            case.id,
            case.row,
            status,
            message="; ".join(text for text in (record.message, why) if text),
            phase=record.phase,
            seconds=round(record.seconds, 6),
            compared=record.compared,
            max_ulp=record.max_ulp,
            p99_ulp=record.p99_ulp,
            worst_input=record.worst_input,
            observed=record.observed,
            attempts=len(attempts),
            fault=record.fault,
        )
        if status in _FAILURES:
            sequence = (attempts[-1].details or {}).get("sequence", ())
            self._explain(result, record, sequence if status is Status.FLAKE else ())
        return result

    def _attempts(self, case: Case) -> Sequence[Record]:
        # A case of the skip list may have been measured before it was listed.
        return [] if self._is_skipped(case) else self.outcome.attempts(case.id)

    def _record(self, case: Case) -> Record | None:
        return _decisive(self._attempts(case))

    def _is_skipped(self, case: Case) -> bool:
        return self.outcome.derived.get(case.id, (None, ""))[0] is Status.NOT_RUN

    def _explain(
        self, result: CaseResult, record: Record | None, sequence: Sequence[str] = ()
    ) -> None:
        """Add details, script and command; `sequence` ends with the case, which fails after it."""
        about = (self.device, self.plan.profile.value)
        alone = (result.id, *about, self.second)
        details: dict[str, Any] = dict((record and record.details) or {})
        script = details.get("script")
        if sequence:
            details["sequence"] = list(sequence)
            details.pop("tool_script", None)
            script = case_script(*alone, sequence[:-1])
        script = script or case_script(*alone)
        details["script"] = reproduce.script(script, self.settings)
        result.details = details
        result.repro = repro_command(*about, result.id, self.settings, self.second)
        if sequence:
            result.repro = sequence_command(
                *about, sequence, self.settings, self.second, self.report_file
            )

    def _status_without_record(self, case: Case) -> tuple[Status, str]:
        if case.id in self.outcome.derived:
            return self.outcome.derived[case.id]
        if self.outcome.open_failure:
            return Status.SUPPRESSED, NOT_OPEN
        return Status.MISSING, "planned, but the run ended before it"

    def _open_case(self) -> CaseResult:
        failure = self.outcome.open_failure
        if not failure:
            return CaseResult(OPEN_CASE, OPEN_CASE, Status.PASS, compared=1)
        profile = self.plan.profile.value
        # An empty shard has no case, but its query has one.
        first = self.plan.rows[0].cases[0].id if self.plan.rows else self.plan.query
        return CaseResult(
            OPEN_CASE,
            OPEN_CASE,
            Status.FAIL,
            message=failure,
            phase=Phase.RUN.value,
            repro=repro_command(self.device, profile, first, self.settings, self.second),
            details={"script": reproduce.script(open_script(self.device), self.settings)},
            fault="unopened",
        )

    def _sentences(self, row: Row) -> tuple[str, ...]:
        return tuple(self.suite.clause_sentence(label) for label in row.clauses)

    def _problems(self) -> list[str]:
        problems = list(self.outcome.problems)
        if not self.plan.asked:
            problems.append("the run covers no case")
        return problems

    def _second_facts(self) -> dict[str, Any]:
        if not self.second:
            return {}
        versions = (self.outcome.opened or {}).get("second_versions", {})
        return {"second": self.second, "second_versions": dict(versions)}

    def _certificate(self, started: str) -> dict[str, Any]:
        opened: Mapping[str, Any] = self.outcome.opened or {}
        identity = opened.get("identity", {})
        return {
            "device": self.device,
            **self._second_facts(),
            "profile": self.plan.profile.value,
            "suite": self.suite.name,
            "suite_hash": self.plan.suite_hash,
            "seed": self.suite.seed(),
            "query": self.plan.query,
            "shard": None if self.plan.shard is None else str(self.plan.shard),
            "cases_asked": self.plan.asked,
            "cases_planned": self.plan.count,
            "cases_in_profile": self.plan.total,
            "reductions": self.reductions,
            "expected_failures": len(self.expectations.entries),
            "device_versions": dict(opened.get("versions", {})),
            "capabilities": opened.get("capabilities"),
            "compiler": identity.get("compiler", ""),
            "backend_sources": identity.get("sources of the backend", ""),
            "identity": dict(identity),
            "flags": dict(self.flags),
            "environment": dict(self.environment),
            "started": started,
            "seconds": round(self.outcome.seconds, 3),
            "resumed_cases": self.outcome.resumed,
            **surroundings(),
        }


def _decisive(attempts: Sequence[Record]) -> Record | None:
    """Return the attempt that a report shows: the first, which failed if there is a second."""
    return min(attempts, key=lambda record: record.attempt, default=None)


def _row_result(row: Row, sentences: tuple[str, ...]) -> RowResult:
    return RowResult(
        id=row.id,
        sentence=row.sentence,
        clauses=tuple(row.clauses),
        clause_sentences=sentences,
        rung=row.rung,
        level=row.level,
        op=row.op,
        dtype=row.dtype,
        error_rule=str(row.error_rule),
        advice=dict(row.advice),
    )


def _open_row() -> RowResult:
    sentence = Rung.OPEN.sentence
    return RowResult(OPEN_CASE, sentence, (), (), Rung.OPEN, "device", "open", "", "")
