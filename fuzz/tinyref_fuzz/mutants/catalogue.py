"""All mutants, by name. Importing it imports nothing of the compiler."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from tinyref_fuzz.mutants.mutant import Mutant

# One module a class of bugs; each has its mutants as MUTANTS.
_MODULES = (
    *("rules", "numbers", "optimiser", "lowering", "barriers", "expansion"),
    *("linearising", "views", "renderers"),
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
