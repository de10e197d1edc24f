"""The public surface: which names there are, with which parameters, read from `surface.tsv`.

Lines of three fields: where (`Tensor`, `nn`, `nn.optim`, `nn.state`), the name, and its signature
or `property`. The names are those of tinygrad 0.10.3, and some of torch. The line `operators` lists
the methods that Python calls. `refused.tsv` has a refused call in place of a signature.
"""

from __future__ import annotations

import ast
import functools
import inspect
from dataclasses import dataclass
from pathlib import Path

from tinyref.dtype import dtypes

OPERATORS = "operators"


@dataclass(frozen=True)
class Name:
    """One public name; `parameters` is None for a property. `self` is not among them."""

    where: str
    name: str
    parameters: tuple[inspect.Parameter, ...] | None

    @property
    def label(self) -> str:
        return f"{self.where}.{self.name}"


def _lines(file: str = "surface.tsv") -> list[tuple[str, str, str]]:
    text = (Path(__file__).parent / file).read_text()
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return [(where, name, signature) for where, name, signature in rows]


@functools.cache
def names() -> tuple[Name, ...]:
    """Every name of the surface but the operators."""
    return tuple(
        Name(where, name, None if signature == "property" else _parameters(signature))
        for where, name, signature in _lines()
        if name != OPERATORS
    )


@functools.cache
def operators() -> tuple[str, ...]:
    """The methods of Tensor that Python's operators call."""
    return next(tuple(text.split()) for _, name, text in _lines() if name == OPERATORS)


@functools.cache
def refused_calls() -> dict[str, list[str]]:
    """Return the calls that are refused, by the label of their name.

    The calls name the inputs of `run_refused`.
    """
    found: dict[str, list[str]] = {}
    for where, name, call in _lines("refused.tsv"):
        found.setdefault(f"{where}.{name}", []).append(call)
    return found


def _parameters(signature: str) -> tuple[inspect.Parameter, ...]:
    """The parameters of a signature as text, without annotations and without `self`."""
    (function,) = ast.parse(f"def f{signature}: pass").body
    assert isinstance(function, ast.FunctionDef)
    listed = function.args
    kinds = inspect.Parameter
    places = [*listed.posonlyargs, *listed.args]
    defaults = [None] * (len(places) - len(listed.defaults)) + [*listed.defaults]
    found = [
        _parameter(item.arg, kinds.POSITIONAL_OR_KEYWORD, default)
        for item, default in zip(places, defaults, strict=True)
    ]
    if listed.vararg is not None:
        found.append(_parameter(listed.vararg.arg, kinds.VAR_POSITIONAL, None))
    found += [
        _parameter(item.arg, kinds.KEYWORD_ONLY, default)
        for item, default in zip(listed.kwonlyargs, listed.kw_defaults, strict=True)
    ]
    if listed.kwarg is not None:
        found.append(_parameter(listed.kwarg.arg, kinds.VAR_KEYWORD, None))
    return tuple(item for item in found if item.name != "self")


def _parameter(
    name: str, kind: inspect._ParameterKind, default: ast.expr | None
) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else _default(default)
    return inspect.Parameter(name, kind, default=value)


def _default(node: ast.expr) -> object:
    """A default as a value: the list leaves out the quotes of words."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return getattr(dtypes, node.attr)
    return ast.literal_eval(node)
