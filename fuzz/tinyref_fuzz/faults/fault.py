"""Declare, choose and plant named faults of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tinyref.errors import UserError
from tinyref_fuzz.faults.seams import MakeSeam, Seam
from tinyref_fuzz.judge.caches import forget_all

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class NamedFault:
    """A fault: where it is planted, and what blame must say."""

    name: str
    kind: str
    """Its class of bugs."""
    seam: Seam
    stages: Sequence[str]
    """The stages that a right blame may name, the best first."""
    causes: Sequence[str] = ()
    """A right blame names one of these rules, optimisations, passes or ops; any if empty."""
    device: str = "PYTHON"
    is_of_programs: bool = False
    """True if the fuzzer of tensor programs must find it, instead of the fuzzer of kernels."""

    def is_blamed(self, stage: str, cause: str) -> bool:
        """Return True if this stage and cause are a right blame."""
        is_cause = not self.causes or any(name in cause for name in self.causes)
        return stage in self.stages and is_cause


# By name, in the order of declaration.
FAULTS: dict[str, NamedFault] = {}


def fault(kind: str, make_seam: MakeSeam, *stages: str, **about: Any) -> Callable[[F], F]:
    """Declare the decorated function as a fault, named after the function.

    `about` are further fields of `NamedFault`.
    """

    def declare(wrong: F) -> F:
        name = wrong.__name__.replace("_", "-")
        FAULTS[name] = NamedFault(name, kind, make_seam(wrong), stages, **about)
        return wrong

    return declare


def faults_named(words: str = "") -> list[NamedFault]:
    """Return all faults, or those that `words` names.

    A word is a name, NAME* or a kind; several are separated by commas. Raises `UserError` for a
    word that names none.
    """
    parts = [part.strip() for part in words.split(",") if part.strip()]
    for part in parts:
        if not any(_is_named(known, part) for known in FAULTS.values()):
            raise UserError(f"score: {part!r} names no fault: accepted are names, NAME* and kinds")
    chosen = [known for known in FAULTS.values() if any(_is_named(known, part) for part in parts)]
    return chosen if parts else list(FAULTS.values())


def _is_named(known: NamedFault, word: str) -> bool:
    if word.endswith("*"):
        return known.name.startswith(word[:-1])
    return word in (known.name, known.kind)


@contextmanager
def planted(name: str) -> Iterator[NamedFault]:
    """Plant the fault of that name during the block; caches are emptied before and after."""
    forget_all()
    try:
        with FAULTS[name].seam.plant():
            yield FAULTS[name]
    finally:
        forget_all()
