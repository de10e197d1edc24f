"""The examples of docstrings: every public name has one, and each prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import tinyref
import tinyref.nn
import tinyref.tensor
from tinyref import Tensor, dtypes, nn
from tinyref_spec.tensor import surface

NAMES = {"Tensor": Tensor, "dtypes": dtypes, "nn": nn}
# Values and registries whose class has the docstring.
OBJECTS = {"Device", "GlobalCounters"}


def modules_below(package: ModuleType) -> list[str]:
    return [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


MODULES = [
    "tinyref.config",
    "tinyref.device",
    "tinyref.dtype",
    "tinyref.engine.accounting",
    *modules_below(tinyref.tensor),
    *modules_below(tinyref.nn),
]
TESTS = [
    test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name), globs=dict(NAMES))
    if test.examples
]


def failures(test: doctest.DocTest) -> str:
    """What differs from the text, or nothing."""
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    return "".join(said)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_examples(test: doctest.DocTest) -> None:
    assert failures(test) == ""


def without_example(owner: object, names: list[str]) -> list[str]:
    docs = {name: getattr(static(owner, name), "__doc__", None) or "" for name in names}
    return [name for name in names if ">>> " not in docs[name]]


def static(owner: object, name: str) -> object:
    """What the owner has under a name: of a property the property, not its value."""
    for base in getattr(owner, "__mro__", ()):
        if name in vars(base):
            return vars(base)[name]
    return getattr(owner, name)


def test_every_public_name_has_an_example() -> None:
    public = [name for name in dir(Tensor) if not name.startswith("_") and name != "node"]
    assert {name.name for name in surface.names() if name.where == "Tensor"} <= {
        *public,
        "training",
    }
    assert without_example(Tensor, public) == []
    assert without_example(nn, [name for name in nn.__all__ if name[0].isupper()]) == []
    assert without_example(nn.optim, list(nn.optim.__all__)) == []
    assert without_example(nn.state, list(nn.state.__all__)) == []
    front = [name for name in tinyref.__all__ if name != "Tensor"]
    homes = {name: type(getattr(tinyref, name)) for name in OBJECTS}
    plain = [name for name in front if name not in OBJECTS]
    assert without_example(tinyref, plain) == []
    assert [name for name, home in homes.items() if ">>> " not in (home.__doc__ or "")] == []
