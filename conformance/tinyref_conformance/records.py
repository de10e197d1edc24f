"""The record of one measured case: a line of JSON that workers write."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyref.foreign import dataclass_from
from tinyref_conformance.expectations import Phase
from tinyref_conformance.statuses import Status
from tinyref_spec.accuracy import Accuracy
from tinyref_spec.case import Case, Failure, Measurement
from tinyref_spec.evidence import Evidence

# Long programs, sources and driver messages would swell the journal, so they are cut.
MAX_TEXT = 40_000


@dataclass(frozen=True)
class Record:
    """The outcome of one attempt at one case, before expectations are applied.

    phase: where it failed (see `expectations.Phase`); empty if it did not.
    details: the fields of `tinyref_spec.case.Failure`, for failures that have them. worker: the
    name of the process that ran it. evidence, accuracy: what the measurement counted. fault: the
    condition of kind `FAULT` that was detected; empty for others.
    """

    case: str
    status: Status
    attempt: int = 1
    phase: str = ""
    message: str = ""
    seconds: float = 0.0
    compared: int = 0
    max_ulp: float | None = None
    p99_ulp: float | None = None
    worst_input: str = ""
    observed: str = ""
    details: Mapping[str, Any] | None = None
    worker: str = ""
    evidence: Evidence | None = None
    accuracy: Accuracy | None = None
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the record without empty fields; numbers that JSON lacks become text."""
        return {"case": self.case, "status": self.status.value, **members_to_json(self)}

    @staticmethod
    def from_json(data: object) -> Record:
        """Return the record. Raises `ValueError` for data that no worker wrote."""
        if not isinstance(data, Mapping):
            raise ValueError("a result is an object")
        members = {key: value for key, value in data.items() if key in Record.__dataclass_fields__}
        members["status"] = Status(members.get("status"))
        for key in ("max_ulp", "p99_ulp"):
            members[key] = number_from_json(members.get(key))
        return dataclass_from(Record, with_counts(members))


def members_to_json(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    # mypy confuses the hash of a class with the hash of its instances.
    defaults = _defaults(type(result))  # type: ignore[arg-type]
    return {
        name: number_to_json(value)
        for name, default in defaults
        if (value := getattr(result, name)) != default
    }


@functools.cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return names and defaults of the fields of a dataclass that have one."""
    fields = dataclasses.fields(kind)
    return tuple(
        (field.name, field.default) for field in fields if field.default is not dataclasses.MISSING
    )


def with_counts(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields from JSON as their classes. Raises `ValueError` if they are damaged."""
    fields = dict(members)
    if fields.get("evidence") is not None:
        fields["evidence"] = Evidence.from_json(fields["evidence"])
    if fields.get("accuracy") is not None:
        fields["accuracy"] = Accuracy.from_json(fields["accuracy"])
    return fields


def number_to_json(value: Any) -> Any:
    """Return infinities and NaN as text, because strict JSON readers refuse them."""
    if isinstance(value, Evidence | Accuracy):
        return value.to_json()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def number_from_json(value: Any) -> float | None:
    """Return the number that `number_to_json` wrote. Raises `ValueError` for anything else."""
    if value is None:
        return None
    if not isinstance(value, int | float | str):
        raise ValueError(f"got a {type(value).__name__}, accepted is a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def of_measurement(case: Case, measurement: Measurement, seconds: float, attempt: int) -> Record:
    """Return the record of a case that ran to its end.

    A pass that compared nothing becomes a failure: it would prove nothing.
    """
    status, message = Status.PASS, measurement.message
    if not measurement.passed:
        status = Status.FAIL
    elif measurement.compared <= 0:
        status, message = Status.FAIL, "the case compared nothing, so its pass means nothing"
    elif case.expects_refusal:
        status = Status.UNSUPPORTED
    details = None
    if status is Status.FAIL and measurement.details is not None:
        details = details_of(measurement.details)
    return Record(
        case=case.id,
        status=status,
        attempt=attempt,
        phase=Phase.ACCURACY.value if status is Status.FAIL else "",
        message=message,
        seconds=seconds,
        compared=measurement.compared,
        max_ulp=_plain(measurement.max_ulp),
        p99_ulp=_plain(measurement.p99_ulp),
        worst_input=measurement.worst_input,
        observed=measurement.observed,
        details=details,
        evidence=measurement.evidence,
        accuracy=measurement.accuracy,
        fault=measurement.fault if status is Status.FAIL else "",
    )


def _plain(value: float | None) -> float | None:
    # Measurements hold scalars of numpy, which are not JSON.
    return None if value is None else float(value)


def details_of(failure: Failure) -> dict[str, Any]:
    """Return what a report shows of a failure, as JSON."""
    details = dataclasses.asdict(failure)
    for key in ("source", "ir", "script", "tool_script"):
        details[key] = clipped(details[key])
    return details


# Headings that Python's fault handler prints around the stacks of a process.
_NOT_A_CAUSE = re.compile(r"(Current thread|Thread) 0x|Extension modules: ")


def headline(message: str) -> str:
    """Return the first line of a message and its last one, where drivers put the cause.

    Indented lines of sources and tracebacks do not count, nor do `_NOT_A_CAUSE` headings.
    """
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    first, *rest = lines or [""]
    causes = [line for line in rest if not line[0].isspace() and not _NOT_A_CAUSE.match(line)]
    return f"{first} … {causes[-1]}" if causes else first


def clipped(text: str) -> str:
    """Return the beginning of a text, and how many characters were cut if it is too long."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n... {len(text) - MAX_TEXT} more characters"


@dataclass
class Outcome:
    """All results of a run, before expectations are applied.

    records: the attempts at each case. derived: Skip and Suppressed with their reasons.
    open_failure: why the device did not open. opened: what it declares. cut_short: how far a run
    of limited time came; empty if it ran all cases. late: the number of cases that it did not run.
    """

    opened: Mapping[str, Any] | None = None
    open_failure: str = ""
    records: dict[str, list[Record]] = dataclasses.field(default_factory=dict)
    derived: dict[str, tuple[Status, str]] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    resumed: int = 0
    cut_short: str = ""
    late: int = 0

    def add(self, record: Record) -> bool:
        """Add a record; return False if the same attempt is present."""
        attempts = self.records.setdefault(record.case, [])
        if any(known.attempt == record.attempt for known in attempts):
            return False
        attempts.append(record)
        return True

    def attempts(self, case_id: str) -> Sequence[Record]:
        """Return the records of a case."""
        return self.records.get(case_id, ())

    def has(self, case_id: str, attempt: int) -> bool:
        return any(known.attempt == attempt for known in self.records.get(case_id, ()))
