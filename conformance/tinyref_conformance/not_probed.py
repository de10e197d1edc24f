"""What a run did not try: larger sizes, and types without an answer."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyref_conformance.statuses import MEASURED
from tinyref_spec.reach import BARRIER_TYPE, EXTENTS, widen

if TYPE_CHECKING:
    from tinyref_conformance.report import Report

# The verdicts of suite and fuzzer on the field faults, written by `ci/field_faults.py`.
VERDICTS_FILE = Path(__file__).parent / "faulty" / "field" / "verdicts.json"
UNITS = ("", "Ki", "Mi", "Gi", "Ti")


@dataclass(frozen=True)
class Tried:
    """A line of the section: what was tried, and what the device declares, in words."""

    what: str
    tried: str
    declared: str
    is_less: bool


def not_probed(report: Report) -> list[Tried]:
    """Return the lines of the section; empty if the device did not open or runs no kernels."""
    capabilities = report.certificate["capabilities"]
    reach: dict[str, int] = {}
    for row in report.rows:
        widen(reach, row.evidence.reach)
    if not capabilities or not reach:
        return []
    return [
        *_sizes(reach, capabilities),
        *_types(report, reach, capabilities),
        _longest(report),
        field_faults(_verdicts()),
    ]


@functools.cache
def _verdicts() -> dict[str, Any]:
    """Return the verdicts on field faults, which each form of a report needs."""
    verdicts: dict[str, Any] = json.loads(VERDICTS_FILE.read_text(encoding="utf-8"))
    return verdicts


def field_faults(verdicts: Mapping[str, Any]) -> Tried:
    """Return the line about faults of real accelerators: how many the quick suite detects.

    verdicts: for each fault its "kind" and its verdict, as in `faulty/field/verdicts.json`.
    """
    missed = [fault["kind"] for fault in verdicts.values() if fault["now"]["by"] != "suite"]
    kinds = ", ".join(f"{kind} ({count})" for kind, count in Counter(missed).most_common())
    words = f"{len(verdicts) - len(missed)}" + (f"; missed: {kinds}" if missed else "")
    title = "field faults that the quick suite detects"
    return Tried(title, words, f"{len(verdicts)} known", bool(missed))


def _sizes(reach: dict[str, int], capabilities: dict[str, Any]) -> Iterator[Tried]:
    for extent in EXTENTS:
        tried, declared = reach.get(extent.name, 0), extent.declared(capabilities)
        if declared == 0 or not capabilities.get(extent.needs, True):
            continue
        limit = "no limit" if declared is None else number(declared, extent.unit)
        yield Tried(extent.title, number(tried, extent.unit), limit, tried < (declared or 0))


def _types(report: Report, reach: dict[str, int], capabilities: dict[str, Any]) -> Iterator[Tried]:
    declared = {*capabilities["dtypes"], *capabilities["emulated"]}
    answered = {row.dtype for row in report.rows if MEASURED & set(row.counts)}
    yield _names("types of the rows with an answer", answered & declared, declared)
    if capabilities["has_groups"]:
        grouped = {name for name in declared if BARRIER_TYPE + name in reach}
        yield _names("types in kernels with a barrier", grouped, declared)


def _names(what: str, tried: Iterable[str], declared: set[str]) -> Tried:
    missing = declared.difference(tried)
    words = f"all but {', '.join(sorted(missing))}" if missing else "all"
    return Tried(what, words, f"{len(declared)} types", bool(missing))


def _longest(report: Report) -> Tried:
    seconds = max((case.seconds for case in report.cases), default=0.0)
    return Tried("longest case", f"{seconds:.1f} s", "no limit", False)


def number(size: int, unit: str) -> str:
    """Return a size in words: multiples of a power of 1,024 bytes as, say, 64 KiB."""
    if unit != "bytes":
        return f"{size:,} {unit}"
    power = 0
    while size and size % 1024 == 0 and power < len(UNITS) - 1:
        size //= 1024
        power += 1
    return f"{size:,} {UNITS[power]}B" if power else f"{size:,} bytes"
