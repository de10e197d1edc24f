"""numpy, and what libraries that follow it have beyond the array API standard."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.array_api import ArraySubject, ArrayTensor, plain
from tinyref_spec.subjects.expressions import Function
from tinyref_spec.subjects.transcript import WritingNamespace

# Methods of Tensors that neural-network modules have with the same arguments. `selu` is missing:
# its constants have more digits there than in tinyref.
ACTIVATIONS = (
    "relu",
    "relu6",
    "sigmoid",
    "softmax",
    "log_softmax",
    "softmin",
    "logsumexp",
    "celu",
    "elu",
    "silu",
    "swish",
    "mish",
    "softplus",
    "softsign",
    "logsigmoid",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "erf",
    "rsqrt",
    "cummax",
    "cummin",
    "logcumsumexp",
)
# Methods of Tensors that modules like numpy have with the same arguments.
_SAME: Mapping[str, str] = {
    "exp2": "exp2",
    "mod": "remainder",
    "fmod": "fmod",
    "isclose": "isclose",
    "diag": "diag",
    "diagonal": "diagonal",
    "einsum": "einsum",
}


def by_name(modules: Iterable[Any], names: Iterable[str]) -> dict[str, Function]:
    """Return the functions of these names: the first module that has one decides.

    Underscores do not count: `logsigmoid` is also `log_sigmoid`.
    """
    functions: dict[str, Function] = {}
    for module in modules:
        known = {name.replace("_", ""): name for name in dir(module) if name[0] != "_"}
        for name in names:
            if (theirs := known.get(name.replace("_", ""))) is not None:
                functions.setdefault(name, _with_its_arguments(name, getattr(module, theirs)))
    return functions


def _with_its_arguments(name: str, function: Function) -> Function:
    """Return the function with a check that it takes the arguments of a call."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a function that is not written in Python
        return function

    def call(*arguments: Any, **settings: Any) -> Any:
        try:
            signature.bind(*arguments, **settings)
        except TypeError as error:
            raise NotOfferedError(f"{name} of the library: {error}") from error
        return function(*arguments, **settings)

    return call


def require(name: str, value: object, accepted: object) -> None:
    """Raise `NotOfferedError` for an argument that a function of the library does not have."""
    if value != accepted:
        raise NotOfferedError(f"the function of the library has no argument {name}")


def own_functions(module: Any, **further: Function) -> dict[str, Function]:
    """Return the functions of a module like numpy that are not in the standard."""
    same = {ours: getattr(module, name) for ours, name in _SAME.items() if hasattr(module, name)}
    adapted: Mapping[str, Function] = {"split": _split, "gather": _gather, "pad": _pad}
    bound = {name: functools.partial(adapt, module) for name, adapt in adapted.items()}
    return {**same, **bound, **further}


def _split(module: Any, x: Any, sizes: int | Sequence[int], dim: int = 0) -> list[Any]:
    size = x.shape[dim]
    listed = [sizes] * (-(-size // sizes)) if isinstance(sizes, int) else list(sizes)
    ends = [min(end, size) for end in itertools.accumulate(listed)][:-1]
    return list(module.split(x, ends, axis=dim))


def _gather(module: Any, x: Any, dim: int, index: Any) -> Any:
    sizes, rest = list(index.shape), list(x.shape)
    rest[dim] = sizes[dim]
    require("size", sizes, rest)
    return module.take_along_axis(x, index, axis=dim)


def _pad(module: Any, x: Any, padding: Any, mode: str = "constant", value: float = 0) -> Any:
    require("padding", (isinstance(padding[0], tuple), mode), (True, "constant"))
    return module.pad(x, padding, constant_values=value)


def for_axes(settings: Mapping[str, Any], axes: int) -> tuple[tuple[int, ...], ...]:
    """Return stride, dilation and padding of a convolution, each with a number for every axis."""
    defaults = {"stride": 1, "dilation": 1, "padding": 0}
    numbers = tuple(
        (value,) * axes if isinstance(value, int) else tuple(value)
        for value in {**defaults, **settings}.values()
    )
    require("padding on one side", [len(part) for part in numbers], [axes] * 3)
    return numbers


class NumpyTensor(ArrayTensor):
    """An array with functions of numpy, and of libraries like numpy, beyond the standard."""

    def logical_not(self) -> ArrayTensor:
        return self._call("logical_not", self)

    def __getitem__(self, key: Any) -> ArrayTensor:
        """Index also by arrays and lists."""
        return type(self)(self.library, self.array[plain(key)])


class WritableTensor(NumpyTensor):
    """An array that is copied and written into."""

    def clone(self) -> ArrayTensor:
        return type(self)(self.library, self.array.copy())

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[plain(key)] = plain(value)


class NumpySubject(ArraySubject):
    """numpy: the standard, 16-bit floats, and functions of its own."""

    tensor_class = WritableTensor
    asks_choices = True
    own = own_functions(np)

    def written_own(self) -> Mapping[str, Function]:
        return own_functions(WritingNamespace(np))
