"""`tinyref fuzz --subject`: the settings of a campaign on a library."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

# Seconds of the processor for a compile of several programs, which takes 10 to 20.
_COMPILE_SECONDS = 120.0
_COMPILE_EXAMINE_SECONDS = 120.0


@dataclass(frozen=True)
class CaseLimits:
    """Seconds that a case may take (None: as before, or the default), and its examination."""

    timeout: float | None = None
    examine_seconds: float = 10.0


def subject_name(library: str, place: str, packages: list[str]) -> str:
    """Return the name of a library, its device and packages. Raises as `spelling_of`."""
    from tinyref_fuzz.programs.library.spelling import spelling_of
    from tinyref_spec.subjects.name import SubjectName, default_device

    name = SubjectName(library, place or default_device(library), tuple(packages))
    spelling_of(name)
    return str(name)


def limits_of(name: str, timeout: float | None, is_resumed: bool) -> CaseLimits:
    """Return the limits for a library: a compiler has more time."""
    from tinyref_fuzz.programs.library.spelling import spelling_of
    from tinyref_spec.subjects.name import parse_subject

    if spelling_of(parse_subject(name)).together == 1:
        return CaseLimits(timeout)
    default = None if is_resumed else _COMPILE_SECONDS
    return CaseLimits(timeout or default, _COMPILE_EXAMINE_SECONDS)


def known_faults(file: Path, name: str) -> str:
    """Return the queries of the entries in force of an expectations file, joined by commas."""
    from tinyref_conformance.expectations_file import load

    today = datetime.date.today()
    entries = load(file, name).entries
    return ",".join(entry.query.strip() for entry in entries if not entry.is_expired(today))
