"""Switches a mutant on in every Python process that this one starts, before it imports anything.

Python imports `sitecustomize` as it starts: the one of this folder, where
`switch_on_in_children` has put it first on the path. Nothing here is imported by a normal run.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

VARIABLE = "MUTANT_OF_TINYREF"


def switch_on_in_children(name: str) -> None:
    """From now on children of this process have the mutant too, and theirs."""
    os.environ[VARIABLE] = name
    folders = [str(Path(__file__).parent), *map(_folder_of, ("tinyref", "tinyref_fuzz"))]
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [before])])


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is imported here"
    assert spec.origin is not None, f"{package} has a file"
    return str(Path(spec.origin).parent.parent)


def switch_on_named(name: str) -> None:
    """Switches the mutant on in this process, as `switch_on`."""
    from tinyref_fuzz.mutants.catalogue import mutant_named
    from tinyref_fuzz.mutants.mutant import switch_on

    switch_on(mutant_named(name))
