"""The public surface: its names with their parameters, read from `surface.tsv`.

Lines have three fields: where (`Tensor`, `nn`, `nn.optim`, `nn.state`), the name, and its signature
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
    """One public name; `parameters` is None for a property, and never includes `self`."""

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
    """Return every name of the surface except the operators."""
    return tuple(
        Name(where, name, None if signature == "property" else _parameters(signature))
        for where, name, signature in _lines()
        if name != OPERATORS
    )


@functools.cache
def operators() -> tuple[str, ...]:
    """Return the methods of Tensor that Python's operators call."""
    return next(tuple(text.split()) for _, name, text in _lines() if name == OPERATORS)


@functools.cache
def refused_calls() -> dict[str, list[str]]:
    """Return the calls that are refused, by the label of their name.

    The calls name the inputs of `run_refused`.
    """
    calls: dict[str, list[str]] = {}
    for where, name, call in _lines("refused.tsv"):
        calls.setdefault(f"{where}.{name}", []).append(call)
    return calls


def _parameters(signature: str) -> tuple[inspect.Parameter, ...]:
    """Return the parameters of a signature text, without annotations and without `self`."""
    (function,) = ast.parse(f"def f{signature}: pass").body
    assert isinstance(function, ast.FunctionDef)
    listed = function.args
    kinds = inspect.Parameter
    positional = [*listed.posonlyargs, *listed.args]
    defaults = [None] * (len(positional) - len(listed.defaults)) + [*listed.defaults]
    parameters = [
        _parameter(item.arg, kinds.POSITIONAL_OR_KEYWORD, default)
        for item, default in zip(positional, defaults, strict=True)
    ]
    if listed.vararg is not None:
        parameters.append(_parameter(listed.vararg.arg, kinds.VAR_POSITIONAL, None))
    parameters += [
        _parameter(item.arg, kinds.KEYWORD_ONLY, default)
        for item, default in zip(listed.kwonlyargs, listed.kw_defaults, strict=True)
    ]
    if listed.kwarg is not None:
        parameters.append(_parameter(listed.kwarg.arg, kinds.VAR_KEYWORD, None))
    return tuple(item for item in parameters if item.name != "self")


def _parameter(
    name: str, kind: inspect._ParameterKind, default: ast.expr | None
) -> inspect.Parameter:
    value = inspect.Parameter.empty if default is None else _default(default)
    return inspect.Parameter(name, kind, default=value)


def _default(node: ast.expr) -> object:
    """Return a default as a value: the list omits the quotes of words."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return getattr(dtypes, node.attr)
    return ast.literal_eval(node)
