"""What the fuzzer is scored by: the mutants of the compiler, and the faulty devices."""

from __future__ import annotations

import importlib
import importlib.util

from tinyref.errors import UserError
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.records import Subject

# By name, so that this package needs the other one only where it is installed and asked for.
_FAULTY = "tinyref_conformance.faulty.registry"


def compiler_mutants() -> list[Subject]:
    """A subject for every mutant of the catalogue."""
    return [
        Subject(m.name, m.kind, m.name, m.device, m.stages, m.causes, m.is_race)
        for m in MUTANTS.values()
    ]


def broken_devices() -> list[Subject]:
    """A subject for every faulty device; none where that is not installed."""
    if importlib.util.find_spec(_FAULTY.partition(".")[0]) is None:
        return []
    devices = importlib.import_module(_FAULTY).FAULTY_DEVICES
    return [
        Subject(f"device:{name}", "broken device", "", faulty.device, ("device",))
        for name, faulty in devices.items()
    ]


def subjects(only: str = "") -> list[Subject]:
    """All of them, or those that `only` names: names, the starts of names with *, or kinds.

    Several are joined by commas; the order is that of the catalogue. Raises `UserError` for what
    names nothing.
    """
    known = [*compiler_mutants(), *broken_devices()]
    if not only:
        return known
    words = [part.strip() for part in only.split(",") if part.strip()]
    for word in words or [only]:
        if not any(_is_named(each, word) for each in known):
            raise UserError(f"mutants: {word!r} names none: accepted are names, NAME* and kinds")
    return [each for each in known if any(_is_named(each, word) for word in words)]


def _is_named(subject: Subject, word: str) -> bool:
    if word.endswith("*"):
        return subject.name.startswith(word[:-1])
    return word in (subject.name, subject.kind)
