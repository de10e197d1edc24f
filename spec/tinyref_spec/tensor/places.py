"""Forms that choose elements: references by element numbers, from the values of the indices.

Elements are numbered from 1 on through all inputs with elements to choose; 0 is a zero that is none
of them. Applied to the numbers, a function gives its reference and, by summing over all copies of
an element, its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Input, Shape

Choose = Callable[..., Array]
INT32 = "indices and classes are int32, those of torch int64: a device need not have 64 bits"
READS_ZERO = "torch raises an error for an index out of range; here, elements are not checked"
NEGATIVE = "torch takes no negative indices here: those of tinyref count from the end everywhere"


def x_of(*shape: int, kind: str = "any") -> Input:
    """Return the tensor to choose from."""
    return Input("x", shape, kind)


def v_of(*shape: int, kind: str = "any") -> Input:
    """Return the values to write."""
    return Input("v", shape, kind)


def i_of(*shape: int, name: str = "i") -> Input:
    """Return indices from 0 to 7."""
    return Input(name, shape, "counts", dtypes.int32)


def c_of(*shape: int) -> Input:
    """Return a mask."""
    return Input("c", shape, "bool", dtypes.bool)


def always_int32(dtype: DType) -> DType:
    """Return int32 as the type of the result."""
    return dtypes.int32


def _has_elements(item: Input) -> bool:
    return item.dtype is None


def _numbers(inputs: Sequence[Input], choose: Choose, values: Sequence[Array]) -> Array:
    """Return `choose` of the inputs; those with elements are replaced by element numbers."""
    arguments: list[Array] = []
    first = 1
    for item, value in zip(inputs, values, strict=True):
        if _has_elements(item):
            arguments.append(np.arange(first, first + value.size).reshape(value.shape))
            first += value.size
        else:
            arguments.append(value)
    return np.asarray(choose(*arguments))


def _exact(inputs: Sequence[Input], choose: Choose, *values: Array) -> Array:
    parts = [v.reshape(-1) for item, v in zip(inputs, values, strict=True) if _has_elements(item)]
    flat = np.concatenate([np.zeros(1, parts[0].dtype), *parts])
    return np.asarray(flat[_numbers(inputs, choose, values)])


def _forward(inputs: Sequence[Input], choose: Choose, *values: Value) -> Value:
    parts = [v.reshape(-1) for item, v in zip(inputs, values, strict=True) if _has_elements(item)]
    arrays = [
        v.value if _has_elements(item) else v.value.astype(np.bool_ if item.kind == "bool" else int)
        for item, v in zip(inputs, values, strict=True)
    ]
    joined = parts[0] if len(parts) == 1 else bounded.concatenated(parts)
    return bounded.gather(joined, _numbers(inputs, choose, arrays))


def choice_form(
    expression: str,
    inputs: tuple[Input, ...],
    choose: Choose,
    torch: str = "",
    no_torch: str = "",
) -> Form:
    """Return a form whose result is `choose` of its inputs, with elements as numbers."""
    return Form(
        expression,
        inputs,
        partial(_forward, inputs, choose),
        exact=partial(_exact, inputs, choose),
        torch=torch,
        no_torch=no_torch,
    )


def setitem_form(key: str, inputs: tuple[Input, ...], choose: Choose, no_torch: str = "") -> Form:
    """Return `x[key] = v` as an expression; `choose` writes into a copy of the numbers of x."""
    expression = f"(t := x.clone(), t.__setitem__({key}, v))[0]"
    return choice_form(expression, inputs, choose, no_torch=no_torch)


def select(condition: Array, first: Array, second: Array | int) -> Array:
    """Return the first if the condition is true, else the second; they broadcast."""
    return np.asarray(np.where(condition, first, second))


# Several elements at one index


def meeting(index: Array, shape: Shape, source: Shape, axis: int) -> Array:
    """Return, for each index of `shape`, the numbers of the elements that `index` sends there.

    The elements belong to a source, and move along `axis`. The result has the shape (most elements
    at one index, *shape), with 0 for none.
    """
    numbers = np.arange(1, int(np.prod(source)) + 1).reshape(source)
    lists: dict[tuple[int, ...], list[int]] = {}
    for position in np.ndindex(*index.shape):
        target = list(position)
        target[axis] = int(index[position])
        if 0 <= target[axis] < shape[axis]:
            lists.setdefault(tuple(target), []).append(int(numbers[position]))
    result = np.zeros((max(map(len, lists.values()), default=1), *shape), dtype=np.int64)
    for where, elements in lists.items():
        for number, element in enumerate(elements):
            result[(number, *where)] = element
    return result


def scatter_reduce(
    x: Value, index: Value, v: Value, *, axis: int, reduce: str, include_self: bool = True
) -> Value:
    """Return the reference of scatter_reduce, from the elements at each index, x among them."""
    numbers = meeting(index.value.astype(int), x.shape, v.shape, axis)
    is_there: Array = np.asarray(numbers > 0)
    if include_self:
        is_there = np.concatenate([np.ones((1, *x.shape), np.bool_), is_there])
    values = bounded.gather(v, numbers)
    if include_self:
        values = bounded.concatenated([x.reshape(1, *x.shape), values])
    identity = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -1e4, "amin": 1e4}[reduce]
    filling = bounded.constant(identity, x.dtype).spread(values.shape)
    values = bounded.choose(is_there, values, filling)
    if reduce == "prod":
        result = bounded.product(values, 0)
    elif reduce in ("amax", "amin"):
        result = (bounded.largest if reduce == "amax" else bounded.smallest)(values, (0,), False)
    else:
        result = values.sum((0,))
    if reduce == "mean":
        counts = bounded.exact(np.maximum(is_there.sum(0), 1), x.dtype)
        result = result / counts
    return bounded.choose(np.asarray(is_there.any(0)), result, x)


def meets(
    expression: str,
    inputs: tuple[Input, ...],
    axis: int,
    reduce: str,
    torch: str,
    include_self: bool = True,
) -> Form:
    """Return a form of scatter with a reduction; inputs x, i (modulo the size of the axis), v."""
    size = inputs[0].shape[axis]

    def forward(x: Value, i: Value, v: Value) -> Value:
        indices = bounded.exact(i.value % size, dtypes.int32)
        return scatter_reduce(x, indices, v, axis=axis, reduce=reduce, include_self=include_self)

    return Form(expression, inputs, forward, is_wide=True, torch=torch)


def position_form(
    expression: str,
    inputs: tuple[Input, ...],
    find: Choose,
    torch: str = "",
    no_torch: str = "",
) -> Form:
    """Return a form whose results are indices or classes: int32, without a gradient."""
    return Form(
        expression,
        inputs,
        exact=find,
        output=always_int32,
        torch=torch,
        no_torch=no_torch,
        torch_dtype="" if no_torch else INT32,
    )
