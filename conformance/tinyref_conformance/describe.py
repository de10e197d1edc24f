"""Details of failures that the run did not measure: a separate worker finds them.

Before each launch of a case, a worker reports its number. If the case then ends the worker, another
one runs the case up to that launch and describes it: inputs, source, IR and a script. It does not
make the launch. For one case of each cause, it also finds the first node that differs.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from tinyref.workers.processes import Death, Limits
from tinyref.workers.service import OpeningError, Service
from tinyref_conformance.records import Outcome, Record
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Case

# Limit for all descriptions of a run; without one, a case has only its command.
MAX_SECONDS = 120.0
# Seconds of one search for a first node, the number of searches, and seconds of all of them.
TRACE_SECONDS = 10.0
MAX_TRACED = 12
MAX_TRACES_SECONDS = 30.0
_DEATHS = (Status.CRASH, Status.TIMEOUT)


def describe_deaths(
    outcome: Outcome, cases: Mapping[str, Case], config: Mapping[str, Any], timeout: float
) -> None:
    """Add to the records of deaths what is known of the launch; `timeout` is for each."""
    deaths = [
        (attempts, number) for attempts in outcome.records.values() for number in _deaths(attempts)
    ]
    if not deaths:
        return
    end = time.monotonic() + MAX_SECONDS
    with Service("tinyref_conformance.worker", config) as service:
        for attempts, number in deaths:
            record = attempts[number]
            if time.monotonic() < end and record.case in cases:
                launch = (record.details or {})["launch"]
                row = cases[record.case].row
                request = {"describe": record.case, "row": row, "launch": launch}
                known = _answer(service, request, Limits(timeout)).get("described", {})
                details = {**known, **(record.details or {})}
                attempts[number] = dataclasses.replace(record, details=details)


def _deaths(attempts: list[Record]) -> list[int]:
    """Return the numbers of attempts that ended in a launch known only by its number."""
    return [
        number
        for number, record in enumerate(attempts)
        if record.status in _DEATHS and (record.details or {}).get("launch")
    ]


def _answer(service: Service, request: dict[str, Any], limits: Limits) -> Mapping[str, Any]:
    """Return the answer of a worker; empty if it died or did not answer in time."""
    try:
        answer = service.ask(request, limits)
    except OpeningError:
        return {}
    return {} if isinstance(answer, Death) else answer


def find_differences(report: Report, config: Mapping[str, Any]) -> None:
    """Add the first node that differs to the example of each cause that has a kernel."""
    by_id = {case.id: case for case in report.cases}
    examples = [by_id[group.cases[0]] for group in report.groups[:MAX_TRACED]]
    traceable = [case for case in examples if _has_kernel(case)]
    if not traceable:
        return
    end = time.monotonic() + MAX_TRACES_SECONDS
    with Service("tinyref_conformance.worker", config) as service:
        for case in traceable:
            if time.monotonic() < end:
                request = {"trace": case.id, "row": case.row, "seconds": TRACE_SECONDS}
                # The case itself takes time too, and so does the end of the last trace.
                difference = _answer(service, request, Limits(4 * TRACE_SECONDS))
                case.details = {**(case.details or {}), **difference}


def _has_kernel(case: CaseResult) -> bool:
    """Return True if a case failed by the values of one kernel."""
    details = case.details or {}
    is_compared = case.status is Status.FAIL and details.get("index", -1) >= 0
    return is_compared and bool(details.get("source"))
