"""`tinyref fuzz --subject`: what a campaign on a library is told beyond one on a device."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

# A compile of several programs takes seconds, and minutes where other work has the processor.
_COMPILE_SECONDS = 300.0
_COMPILE_EXAMINE_SECONDS = 120.0


@dataclass(frozen=True)
class CaseLimits:
    """Seconds that one case may take (None: as before, or the default), and its examination."""

    timeout: float | None = None
    examine_seconds: float = 10.0


def subject_name(library: str, place: str, packages: list[str]) -> str:
    """The name of a library that can be fuzzed, its device and the packages that it needs."""
    from tinyref_fuzz.programs.library.spelling import spelling_of
    from tinyref_spec.subjects.name import SubjectName, default_place

    name = SubjectName(library, place or default_place(library), tuple(packages))
    spelling_of(name)
    return str(name)


def limits_of(name: str, timeout: float | None, is_resumed: bool) -> CaseLimits:
    """The limits for a library: a compiler has more time."""
    from tinyref_fuzz.programs.library.spelling import spelling_of
    from tinyref_spec.subjects.name import parse_subject

    if not spelling_of(parse_subject(name)).compiled:
        return CaseLimits(timeout)
    default = None if is_resumed else _COMPILE_SECONDS
    return CaseLimits(timeout or default, _COMPILE_EXAMINE_SECONDS)


def known_faults(file: Path, name: str) -> str:
    """The queries of an expectations file whose entries have not expired, joined by commas."""
    from tinyref_conformance.expectations_file import load

    today = datetime.date.today()
    entries = load(file, name).entries
    return ",".join(" ".join(each.query.split()) for each in entries if not each.is_expired(today))
