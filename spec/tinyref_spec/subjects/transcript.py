"""Record the calls of an expression as text, by a namespace and arrays that note each use."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType, ModuleType
from typing import Any

import numpy as np

from tinyref_spec.literal_text import array_literal

# The name of the module in scripts.
MODULE = "xp"
_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_UNARY = {"neg": "-", "invert": "~"}
_COMPARISONS = frozenset({"lt", "gt", "le", "ge", "eq", "ne"})
# Attributes of arrays that are no arrays.
_PLAIN = frozenset({"dtype", "ndim", "shape", "size"})


class WrittenArray:
    """An array of a library, or a member of one, and an expression that computes it."""

    def __init__(self, array: Any, text: str) -> None:
        self.array = array
        self.text = text

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.array, name)
        is_written = not (name in _PLAIN or name.startswith("_"))
        return WrittenArray(member, f"{self.text}.{name}") if is_written else member

    def __getitem__(self, key: Any) -> WrittenArray:
        return WrittenArray(self.array[value_of(key)], f"{self.text}[{_key_text(key)}]")

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[value_of(key)] = value_of(value)
        arguments = f"{_key_object(key)}, {text_of(value)}"
        self.text = f"[y := {self.text}, y.__setitem__({arguments})][0]"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _call(self.array, self.text, arguments, named)


def _operate(name: str, sign: str, is_swapped: bool) -> Callable[[Any, Any], WrittenArray]:
    compute = getattr(operator, f"__{name}__")

    def apply(first: WrittenArray, second: Any) -> WrittenArray:
        pair = (second, first) if is_swapped else (first, second)
        array = compute(*map(value_of, pair))
        return WrittenArray(array, f"({text_of(pair[0])} {sign} {text_of(pair[1])})")

    return apply


def _negate(name: str, sign: str) -> Callable[[WrittenArray], WrittenArray]:
    compute = getattr(operator, name)
    return lambda item: WrittenArray(compute(item.array), f"({sign}{item.text})")


for _name, _sign in _BINARY.items():
    setattr(WrittenArray, f"__{_name}__", _operate(_name, _sign, is_swapped=False))
    if _name not in _COMPARISONS:
        setattr(WrittenArray, f"__r{_name}__", _operate(_name, _sign, is_swapped=True))
for _name, _sign in _UNARY.items():
    setattr(WrittenArray, f"__{_name}__", _negate(_name, _sign))


class WritingNamespace:
    """A module whose functions take and return written arrays; text: its name in scripts."""

    def __init__(self, module: Any, text: str = MODULE) -> None:
        self._module = module
        self._text = text

    def __dir__(self) -> list[str]:
        return dir(self._module)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._module, name)
        if name.startswith("_"):
            return member
        text = f"{self._text}.{name}"
        if isinstance(member, ModuleType):
            return WritingNamespace(member, text)
        if not callable(member):
            return Named(member, text)
        return _NamedCallable(member, text)


class RaisingCallError(Exception):
    """A function of the module raised; the text is the call."""


def _call(
    function: Callable[..., Any], text: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Any:
    """Return the written result of a call. Raises `RaisingCallError` if the call raises."""
    texts = [text_of(value) for value in arguments]
    texts += [f"{key}={text_of(value)}" for key, value in named.items()]
    values = {key: value_of(value) for key, value in named.items()}
    expression = f"{text}({', '.join(texts)})"
    try:
        result = function(*map(value_of, arguments), **values)
    except Exception as error:
        raise RaisingCallError(expression) from error
    return _written(result, expression)


class Named:
    """A type or another member of the module, and its name there."""

    def __init__(self, value: Any, text: str) -> None:
        self.value = value
        self.text = text

    def __eq__(self, other: object) -> bool:
        return bool(self.value == value_of(other))

    def __hash__(self) -> int:
        return hash(self.text)


class _NamedCallable(Named):
    """A type or a function of the module."""

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value, text)
        functools.update_wrapper(self, value, updated=())  # for its signature

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _call(self.value, self.text, arguments, named)


def _written(result: Any, text: str) -> Any:
    if isinstance(result, tuple | list):
        return [WrittenArray(item, f"{text}[{number}]") for number, item in enumerate(result)]
    return WrittenArray(result, text)


def value_of(value: Any) -> Any:
    """Return an argument of a call without its text."""
    if isinstance(value, WrittenArray):
        return value.array
    if isinstance(value, Named):
        return value.value
    if isinstance(value, tuple | list):
        return type(value)(map(value_of, value))
    return value


def text_of(value: Any) -> str:
    """Return an expression of an argument. Raise `TypeError` if there is none."""
    if isinstance(value, WrittenArray | Named):
        return value.text
    if isinstance(value, np.ndarray):
        return f"({array_literal(value)}).reshape({value.shape})"
    if isinstance(value, tuple | list):
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        inner = f"{', '.join(map(text_of, value))}{comma}"
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, int | float | complex | str | None):
        return repr(value)
    raise TypeError(f"a {type(value).__name__} has no literal")


def _key_text(key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(map(_part_text, parts))


def _key_object(key: Any) -> str:
    """Return an expression of a key that is an argument of a call."""
    if isinstance(key, tuple):
        return f"({''.join(f'{_key_object(part)}, ' for part in key)})"
    return repr(key) if isinstance(key, slice | EllipsisType) else text_of(key)


def _part_text(part: Any) -> str:
    if isinstance(part, slice):
        ends = [part.start, part.stop] if part.step is None else [part.start, part.stop, part.step]
        return ":".join("" if end is None else str(end) for end in ends)
    return "..." if part is ... else text_of(part)
