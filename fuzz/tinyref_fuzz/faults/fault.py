"""Named faults of the compiler: what they are, how they are declared, chosen and planted."""

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
    """A fault: where it is planted, and what the blame must say.

    kind: the class of bugs that it belongs to. stages: those that a right blame may name, the best
    first. causes: the rules, optimisations, passes or ops of which a right blame names one; none
    asks for no cause. device: where it shows. is_of_programs: whether the fuzzer of tensor programs
    must find it, not that of kernels.
    """

    name: str
    kind: str
    seam: Seam
    stages: Sequence[str]
    causes: Sequence[str] = ()
    device: str = "PYTHON"
    is_of_programs: bool = False

    def is_blamed(self, stage: str, cause: str) -> bool:
        """Return True if this stage and cause are a right blame."""
        is_cause = not self.causes or any(each in cause for each in self.causes)
        return stage in self.stages and is_cause


# By name, in the order in which they are declared.
FAULTS: dict[str, NamedFault] = {}


def fault(kind: str, make_seam: MakeSeam, *stages: str, **about: Any) -> Callable[[F], F]:
    """Declare the decorated function as a fault, whose name is that of the function.

    about: further fields of `NamedFault`.
    """

    def declare(wrong: F) -> F:
        name = wrong.__name__.replace("_", "-")
        FAULTS[name] = NamedFault(name, kind, make_seam(wrong), stages, **about)
        return wrong

    return declare


def faults_named(words: str = "") -> list[NamedFault]:
    """Return all faults, or those that `words` names.

    A word is a name, NAME* or a kind; several are joined by commas. Raises `UserError` for a word
    that names none.
    """
    parts = [part.strip() for part in words.split(",") if part.strip()]
    for part in parts:
        if not any(_is_named(each, part) for each in FAULTS.values()):
            raise UserError(f"score: {part!r} names no fault: accepted are names, NAME* and kinds")
    chosen = [each for each in FAULTS.values() if any(_is_named(each, part) for part in parts)]
    return chosen if parts else list(FAULTS.values())


def _is_named(each: NamedFault, word: str) -> bool:
    if word.endswith("*"):
        return each.name.startswith(word[:-1])
    return word in (each.name, each.kind)


@contextmanager
def planted(name: str) -> Iterator[NamedFault]:
    """Plant the fault of that name for as long as the block; nothing is remembered afterwards."""
    forget_all()
    try:
        with FAULTS[name].seam.plant():
            yield FAULTS[name]
    finally:
        forget_all()
