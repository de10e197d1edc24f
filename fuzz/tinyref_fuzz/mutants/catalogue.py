"""All mutants written by hand, by name. Importing it imports nothing of the compiler."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from tinyref_fuzz.mutants.mechanical import is_mechanical, mechanical_mutant
from tinyref_fuzz.mutants.mutant import Mutant, SourceEdit

# One module a class of bugs; each has its mutants as MUTANTS.
_MODULES = (
    *("rules", "numbers", "optimiser", "lowering", "barriers", "expansion"),
    *("linearising", "views", "renderers", "oracles"),
)


def _collect() -> Mapping[str, Mutant]:
    found: dict[str, Mutant] = {}
    for name in _MODULES:
        for mutant in importlib.import_module(f"tinyref_fuzz.mutants.{name}").MUTANTS:
            if mutant.name in found:
                raise ValueError(f"mutants: {mutant.name} stands twice in the catalogue")
            found[mutant.name] = mutant
    return MappingProxyType(found)


MUTANTS: Mapping[str, Mutant] = _collect()


def mutant_named(name: str) -> SourceEdit:
    """The mutant of that name, written by hand or made by machine.

    Raises `MutantError` for an edit by machine that the sources do not have.
    """
    return mechanical_mutant(name) if is_mechanical(name) else MUTANTS[name]
