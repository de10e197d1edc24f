"""One measured case as a line of JSON: what workers write and everything else reads."""

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

# Long programs, sources and words of a vendor would swell the journal; what is cut is said there.
MAX_TEXT = 40_000


@dataclass(frozen=True)
class Record:
    """The outcome of one attempt at one case, before expectations are applied.

    phase: where it went wrong (see `expectations.Phase`); empty when it did not.
    details: the fields of `tinyref_spec.case.Failure`, for failures that have them. worker: the
    name of the process that ran it. evidence, accuracy: what the measurement counted. fault: the
    condition of kind `FAULT` that was found; empty for others.
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
        """Members that say nothing are left out; numbers that JSON lacks become text."""
        return {"case": self.case, "status": self.status.value, **members_to_json(self)}

    @staticmethod
    def from_json(data: object) -> Record:
        """Raises `ValueError` for data that no worker wrote."""
        if not isinstance(data, Mapping):
            raise ValueError("a result is an object")
        members = {key: value for key, value in data.items() if key in Record.__dataclass_fields__}
        members["status"] = Status(members.get("status"))
        for key in ("max_ulp", "p99_ulp"):
            members[key] = number_from_json(members.get(key))
        return dataclass_from(Record, with_counts(members))


def members_to_json(result: Any) -> dict[str, Any]:
    """The members of a dataclass that are not their defaults; none of those that have none."""
    # mypy takes the hash of a class for that of its instances.
    defaults = _defaults(type(result))  # type: ignore[arg-type]
    return {
        name: number_to_json(value)
        for name, default in defaults
        if (value := getattr(result, name)) != default
    }


@functools.cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """The members of a dataclass that have a default, with it."""
    fields = dataclasses.fields(kind)
    return tuple(
        (field.name, field.default) for field in fields if field.default is not dataclasses.MISSING
    )


def with_counts(members: Mapping[str, Any]) -> dict[str, Any]:
    """Members as JSON has them, those that count as what they are. `ValueError` if damaged."""
    found = dict(members)
    if found.get("evidence") is not None:
        found["evidence"] = Evidence.from_json(found["evidence"])
    if found.get("accuracy") is not None:
        found["accuracy"] = Accuracy.from_json(found["accuracy"])
    return found


def number_to_json(value: Any) -> Any:
    """Infinities and NaN as text: strict JSON readers refuse the bare words."""
    if isinstance(value, Evidence | Accuracy):
        return value.to_json()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def number_from_json(value: Any) -> float | None:
    """The other way round. Raises `ValueError` for what is no number."""
    if value is None:
        return None
    if not isinstance(value, int | float | str):
        raise ValueError(f"a {type(value).__name__}, expected is a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def of_measurement(case: Case, measurement: Measurement, seconds: float, attempt: int) -> Record:
    """The record of a case that ran to its end, whatever it found.

    A pass that compared nothing is a failure: a check that checks nothing must not look green.
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
    # Measurements come from numpy: its scalars are not JSON.
    return None if value is None else float(value)


def details_of(failure: Failure) -> dict[str, Any]:
    """Return what a report shows of a failure, as JSON."""
    details = dataclasses.asdict(failure)
    for key in ("source", "ir", "script", "tool_script"):
        details[key] = clipped(details[key])
    return details


# What the fault handler of Python prints around the stacks of a process that crashed or hung.
_NOT_A_CAUSE = re.compile(r"(Current thread|Thread) 0x|Extension modules: ")


def headline(message: str) -> str:
    """Return the first line of a message and its last one, where drivers put the cause.

    Indented lines are those of sources and tracebacks; `_NOT_A_CAUSE` are headings of stacks.
    """
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    first, *rest = lines or [""]
    causes = [line for line in rest if not line[0].isspace() and not _NOT_A_CAUSE.match(line)]
    return f"{first} … {causes[-1]}" if causes else first


def clipped(text: str) -> str:
    """The beginning of a text that is too long for a journal and a page, and how much is cut."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n... {len(text) - MAX_TEXT} more characters"


@dataclass
class Outcome:
    """All that a run found, before expectations are applied.

    records: the attempts at each case. derived: Skip and Suppressed with their reasons.
    open_failure: why the device did not open. opened: what it declares. cut_short: how far a run
    came that had no time for all cases; empty for others. late: the number of those cases.
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
        """Keeps a record; False for an attempt that is there already."""
        attempts = self.records.setdefault(record.case, [])
        if any(known.attempt == record.attempt for known in attempts):
            return False
        attempts.append(record)
        return True

    def attempts(self, case_id: str) -> Sequence[Record]:
        """The records of a case."""
        return self.records.get(case_id, ())

    def has(self, case_id: str, attempt: int) -> bool:
        return any(known.attempt == attempt for known in self.records.get(case_id, ()))
