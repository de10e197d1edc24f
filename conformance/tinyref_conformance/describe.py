"""Details of failures that were not measured in the run: a worker of its own finds them.

A worker says which launch of a case it begins. After the run, another one goes through a case that
died up to that launch and says what it would be: inputs, source, IR and a script. The launch is not
made. Of one case of each cause it finds the first node of the kernel that differs.
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

# All descriptions of a run together; what is not described then has the command of its case.
MAX_SECONDS = 120.0
# Seconds of one search for a first node, the number of searches, and seconds of all of them.
TRACE_SECONDS = 10.0
MAX_TRACED = 12
MAX_TRACES_SECONDS = 30.0
_DEATHS = (Status.CRASH, Status.TIMEOUT)


def describe_deaths(
    outcome: Outcome, cases: Mapping[str, Case], config: Mapping[str, Any], timeout: float
) -> None:
    """Adds to the records of deaths what is known of the launch; `timeout` is for each."""
    found = [
        (attempts, place) for attempts in outcome.records.values() for place in _deaths(attempts)
    ]
    if not found:
        return
    end = time.monotonic() + MAX_SECONDS
    with Service("tinyref_conformance.worker", config) as service:
        for attempts, place in found:
            record = attempts[place]
            if time.monotonic() < end and record.case in cases:
                launch = (record.details or {})["launch"]
                row = cases[record.case].row
                request = {"describe": record.case, "row": row, "launch": launch}
                known = _answer(service, request, Limits(timeout)).get("described", {})
                details = {**known, **(record.details or {})}
                attempts[place] = dataclasses.replace(record, details=details)


def _deaths(attempts: list[Record]) -> list[int]:
    """The attempts that ended in a launch of which nothing is known but its number."""
    return [
        place
        for place, record in enumerate(attempts)
        if record.status in _DEATHS and (record.details or {}).get("launch")
    ]


def _answer(service: Service, request: dict[str, Any], limits: Limits) -> Mapping[str, Any]:
    """Return the answer of a worker; empty if it died or said nothing in time."""
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
                # The case itself takes time, too, and so does the end of the last trace.
                found = _answer(service, request, Limits(4 * TRACE_SECONDS))
                case.details = {**(case.details or {}), **found}


def _has_kernel(case: CaseResult) -> bool:
    """Return whether a case failed by the values of one kernel."""
    details = case.details or {}
    is_compared = case.status is Status.FAIL and details.get("index", -1) >= 0
    return is_compared and bool(details.get("source"))
