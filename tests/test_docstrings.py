"""Test the examples of docstrings: every public name has one, with the true output."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
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


API = Path(__file__).parent.parent / "docs" / "api"
# Names on the pages of the API, as MODULE.NAME.
ON_PAGES = sorted(
    {
        name
        for page in API.glob("*.md")
        for name in re.findall(r"^::: (.*)$", page.read_text(), re.M)
    }
)
# Protocols of a backend have no code: examples/custom_backend.py has all their members.
PROTOCOLS = {
    "tinyref.contract." + name for name in ("Allocator", "Compiler", "Launchable", "Renderer")
}
# These take a run or its report, which is too slow here; examples/custom_row.py has a run.
TAKES_A_RUN = {
    "tinyref_conformance.conform.conform",
    "tinyref_conformance.report.load",
    "tinyref_conformance.compare.compare",
}


def modules_below(package: ModuleType) -> list[str]:
    modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [module.name for module in modules]


MODULES = sorted(
    {
        *(name.rpartition(".")[0] for name in ON_PAGES),
        *modules_below(tinyref.tensor),
        *modules_below(tinyref.nn),
    }
)
TESTS = [
    test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name), globs=dict(NAMES))
    if test.examples
]


def failures(test: doctest.DocTest) -> str:
    """Return the differences from the text."""
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    return "".join(said)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_examples(test: doctest.DocTest) -> None:
    assert failures(test) == ""


def without_example(owner: object, names: list[str]) -> list[str]:
    docs = {name: getattr(static(owner, name), "__doc__", None) or "" for name in names}
    return [name for name in names if ">>> " not in docs[name]]


def test_every_name_on_the_pages_of_the_api_has_an_example() -> None:
    missing = set()
    for name in ON_PAGES:
        module, _, last = name.rpartition(".")
        value = getattr(importlib.import_module(module), last)
        # The members of the mixins of Tensor have examples of their own.
        if value not in Tensor.__mro__ and ">>> " not in (value.__doc__ or ""):
            missing.add(name)
    assert missing == PROTOCOLS | TAKES_A_RUN


def static(owner: object, name: str) -> object:
    """Return what the owner has under a name: for a property, the property itself."""
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
