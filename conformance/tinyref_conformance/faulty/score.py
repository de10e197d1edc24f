"""The score of the suite: faulty devices caught on their rung, and healthy ones that pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref_conformance.conform import ConformRequest, conform
from tinyref_conformance.faulty.device import FaultyDevice
from tinyref_conformance.faulty.registry import ALL_FAULTY
from tinyref_conformance.report import Report
from tinyref_conformance.settings import RunSettings
from tinyref_spec.case import Rung


@dataclass(frozen=True)
class Caught:
    """The verdict on one faulty device; `rung` is the first broken one, if any."""

    faulty: FaultyDevice
    rung: Rung | None
    case: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        return self.rung is not None

    @property
    def is_on_its_rung(self) -> bool:
        return self.is_caught and self.faulty.rung in (None, self.rung)


@dataclass
class Score:
    """All faulty devices.

    healthy: the failures of each healthy device, none if it passed. skipped: faulty devices whose
    healthy device is not available, with the reason.
    """

    healthy: dict[str, list[str]] = field(default_factory=dict)
    caught: list[Caught] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def is_perfect(self) -> bool:
        return not any(self.healthy.values()) and all(
            device.is_on_its_rung for device in self.caught
        )

    def text(self) -> str:
        """Return a line for each device, and the total."""
        lines = []
        for name, problems in self.healthy.items():
            lines.append(f"{name:20} {'FAILS' if problems else 'passes'}  the healthy device")
            lines += [f"  {problem}" for problem in problems[:5]]
        lines += [f"skipped: {reason}" for reason in self.skipped]
        for device in self.caught:
            lines.append(f"{device.faulty.name:20} {_verdict(device)}  {device.faulty.sentence}")
            if device.case:
                lines.append(f"{'':20} first by {device.case}, {device.seconds:.1f} s")
        right = sum(device.is_on_its_rung for device in self.caught)
        total = sum(device.is_caught for device in self.caught)
        count = len(self.caught)
        lines.append(f"caught {total} of {count}, {right} of {count} on the right rung")
        return "\n".join(lines) + "\n"


def _verdict(device: Caught) -> str:
    if device.rung is None:
        return "ESCAPES"
    where = f"caught on '{device.rung.title}'"
    due = device.faulty.rung
    return where if due is None or due is device.rung else f"{where}, not on '{due.title}'"


def score(
    folder: Path | None = None,
    only: str = "",
    jobs: int = 0,
    devices: Mapping[str, FaultyDevice] = ALL_FAULTY,
    say: Callable[[str], None] = lambda line: None,
) -> Score:
    """Run the suite on each of `devices`, or on `only` one, and on their healthy devices.

    Reports stay in `folder` if one is given. `say` is called with a line before each device runs.
    Raises `UserError` for an unknown name.
    """
    if only and only not in devices:
        raise UserError(f"faulty: unknown device {only!r}: accepted are {', '.join(devices)}")
    chosen = [devices[only]] if only else list(devices.values())
    with tempfile.TemporaryDirectory(prefix="tinyref-faulty-") as temporary:
        root = folder or Path(temporary)
        result = Score()
        for healthy in dict.fromkeys(faulty.healthy for faulty in chosen):
            same = [faulty for faulty in chosen if faulty.healthy == healthy]
            available = Device.availability(healthy)
            if not available.works:
                result.skipped.append(f"{len(same)} of {healthy}: {available.reason}")
                continue
            name = healthy.rpartition(":")[2]
            say(f"{name}, the healthy device of {len(same)} faulty ones")
            longest = max((faulty.query for faulty in same), key=len)
            report = _run(healthy, root / name, longest, jobs)
            result.healthy[name] = _problems(report)
            for faulty in same:
                say(f"{len(result.caught) + 1} of {len(chosen)}: {faulty.name}")
                report = _run(faulty.device, root / faulty.name, faulty.query, jobs)
                result.caught.append(_judge(faulty, report))
    return result


def _run(device: str, folder: Path, query: str, jobs: int) -> Report:
    return conform(ConformRequest(RunSettings(device, folder, jobs=jobs), query=query)).report


def _problems(report: Report) -> list[str]:
    failing = [case for case in report.cases if case.status.is_failure]
    return [*report.problems, *(f"{case.id}: {case.message}" for case in failing)]


def _judge(faulty: FaultyDevice, report: Report) -> Caught:
    rung = report.first_broken
    rung_of = {row.id: row.rung for row in report.rows}
    case = next(
        (case.id for case in report.cases if case.status.is_broken and rung_of[case.row] is rung),
        "",
    )
    return Caught(faulty, rung, case, report.certificate["seconds"])
