"""Mutants made by machine: every function of the compiler's rooms, by eight operators.

An edit is a piece of source text (`operators.py`), so that a mechanical mutant is made at import as
any other one. What no value of a right program can show is left out, by its form alone
(`invisible.py`).

Importing it imports nothing of the compiler; sources are read as text. (A tool such as cosmic-ray
edits the files on disk, which other processes import; it has no dropped statements, swapped
arguments or domains of rules.)
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tinyref_fuzz.mutants.invisible import invisible_edits
from tinyref_fuzz.mutants.mutant import MutantError
from tinyref_fuzz.mutants.operators import Edit, edits

# The rooms whose functions are mutated.
ROOMS = ("algebra", "views", "optimise", "codegen", "schedule", "renderers", "interpret")
_PACKAGE = "tinyref"


@dataclass(frozen=True)
class MechanicalMutant:
    """One edit that an operator makes in one function.

    name: `ROOM.MODULE/FUNCTION/OPERATOR/NUMBER`, where the number counts the edits of that operator
    in that function: an edit elsewhere in the file does not change it.
    """

    name: str
    operator: str
    module: str
    at: Edit

    @property
    def room(self) -> str:
        """The room of the module."""
        return self.module.split(".")[1]

    def describe(self) -> str:
        """The edit in one line."""
        return " ".join(f"{self.at.old} -> {self.at.new}".split())

    def edit(self, source: str) -> tuple[str, int]:
        """As `Mutant.edit`. Raises `MutantError` where the text is not there."""
        start, old = self.at.start, self.at.old
        if source[start : start + len(old)] != old:
            raise MutantError(f"mutant {self.name}: {old!r} does not stand at {start}")
        edited = source[:start] + self.at.new + source[start + len(old) :]
        return edited, source.count("\n", 0, start) + 1


def mutants_of(module: str, source: str) -> list[MechanicalMutant]:
    """All mutants of one module; one that is left out keeps its number."""
    numbers: Counter[tuple[str, str]] = Counter()
    found = []
    invisible = invisible_edits(source)
    place = module.removeprefix(f"{_PACKAGE}.")
    for function, operator, edit in edits(source):
        number = numbers[function, operator]
        numbers[function, operator] += 1
        name = f"{place}/{function}/{operator}/{number}"
        if (operator, edit) not in invisible:
            found.append(MechanicalMutant(name, operator, module, edit))
    return found


@functools.cache
def _root() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MutantError(f"mutants: {_PACKAGE} has no sources here")
    return Path(spec.origin).parent


def _path_of(module: str) -> Path:
    path = _root().joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _module_of(path: Path) -> str:
    parts = path.relative_to(_root()).with_suffix("").parts
    return ".".join((_PACKAGE, *(part for part in parts if part != "__init__")))


def source_of(module: str) -> str:
    """The text of a module."""
    return _path_of(module).read_text()


@functools.cache
def all_mutants() -> tuple[MechanicalMutant, ...]:
    """All mutants of all rooms, by module and place."""
    files = [path for room in ROOMS for path in sorted((_root() / room).rglob("*.py"))]
    return tuple(
        mutant for path in files for mutant in mutants_of(_module_of(path), path.read_text())
    )


def is_mechanical(name: str) -> bool:
    """Whether a mutant of this name is made by machine."""
    return name.count("/") == 3


def mechanical_mutant(name: str) -> MechanicalMutant:
    """The mutant of that name. Raises `MutantError` where the sources have none."""
    module = f"{_PACKAGE}.{name.split('/')[0]}"
    path = _path_of(module)
    if path.is_file():
        for mutant in mutants_of(module, path.read_text()):
            if mutant.name == name:
                return mutant
    raise MutantError(f"mutant {name}: the sources have no such edit")


def sample(count: int, seed: int) -> list[MechanicalMutant]:
    """`count` mutants drawn by `seed`, in an order of which each beginning is drawn at random.

    Those with the smallest hash of seed and name: a change of one function changes no other draw.
    What is no Python is not drawn.
    """
    drawn = sorted(all_mutants(), key=lambda mutant: _rank(mutant.name, seed))
    return list(itertools.islice(filter(is_program, drawn), count))


def _rank(name: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()


def is_program(mutant: MechanicalMutant) -> bool:
    """Whether the edited source is Python."""
    try:
        ast.parse(mutant.edit(_path_of(mutant.module).read_text())[0])
    except SyntaxError:
        return False
    return True
