"""Rows of the level `tensor`: sort and topk."""

from __future__ import annotations

from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, Shape
from tinyref_spec.tensor.places import position_form

ANY_ORDER = (
    dtypes.float32,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.int8,
)


def order_of(x: Array, axis: int, descending: bool, count: int) -> Array:
    """Return the indices in sorted order, keeping the order of equal ones, by comparing pairs."""
    rows = np.moveaxis(x, axis, -1).astype(np.float64)
    mine, other = rows[..., :, None], rows[..., None, :]
    is_before = np.tri(rows.shape[-1], k=-1, dtype=np.bool_)
    is_first = other > mine if descending else other < mine
    rank = (is_first | ((other == mine) & is_before)).sum(-1)
    order = np.argsort(rank, axis=-1)[..., :count]
    return np.moveaxis(order, -1, axis)


def _sort_values(x: Array, axis: int, descending: bool, count: int) -> Array:
    return np.take_along_axis(x, order_of(x, axis, descending, count), axis)


def _sorted_value(x: Value, axis: int, descending: bool, count: int) -> Value:
    order = order_of(x.value, axis, descending, count)
    return bounded.move_elements(x, lambda numbers: np.take_along_axis(numbers, order, axis))


def _pair(
    ours: str, theirs: str, shape: Shape, axis: int, descending: bool, count: int, kind: str
) -> tuple[Form, Form]:
    """Return the values and the indices of one call."""
    position = axis % len(shape)
    inputs = (Input("x", shape, kind),)
    values = Form(
        f"{ours}[0]",
        inputs,
        partial(_sorted_value, axis=position, descending=descending, count=count),
        exact=partial(_sort_values, axis=position, descending=descending, count=count),
        torch=f"{theirs}[0]",
    )
    indices = position_form(
        f"{ours}[1]",
        inputs,
        lambda x: order_of(x, position, descending, count).astype(np.int32),
        torch=f"{theirs}[1]",
    )
    return values, indices


def _sort(shape: Shape, axis: int, descending: bool, kind: str = "small") -> tuple[Form, Form]:
    return _pair(
        f"x.sort({axis}, {descending})",
        f"torch.sort(x, stable=True, dim={axis}, descending={descending})",
        shape,
        axis,
        descending,
        shape[axis],
        kind,
    )


def _argsort(shape: Shape, axis: int, descending: bool, kind: str = "small") -> Form:
    position = axis % len(shape)
    return position_form(
        f"x.argsort({axis}, {descending})",
        (Input("x", shape, kind),),
        lambda x: order_of(x, position, descending, shape[position]).astype(np.int32),
        torch=f"torch.argsort(x, dim={axis}, descending={descending}, stable=True)",
    )


def _topk(shape: Shape, count: int, axis: int, largest: bool) -> tuple[Form, Form]:
    call = f"x.topk({count}, {axis}, {largest})"
    # Torch does not specify which of equal elements come.
    return _pair(call, call, shape, axis, largest, count, "distinct")


def _draw_sort(generator: np.random.Generator) -> Form:
    shape = tuple(int(size) for size in generator.integers(1, 8, generator.integers(1, 4)))
    axis = int(generator.integers(-len(shape), len(shape)))
    return _sort(shape, axis, bool(generator.integers(0, 2)))[int(generator.integers(0, 2))]


def _draw_topk(generator: np.random.Generator) -> Form:
    shape = tuple(int(size) for size in generator.integers(1, 8, generator.integers(1, 4)))
    axis = int(generator.integers(-len(shape), len(shape)))
    count = int(generator.integers(1, shape[axis] + 1))
    forms = _topk(shape, count, axis, bool(generator.integers(0, 2)))
    return forms[int(generator.integers(0, 2))]


SORT = Function(
    "sort",
    "The elements in order along an axis, with their indices; equal ones stay in order, and NaN "
    "is larger than every number.",
    (
        *_sort((5, 4), -1, False),
        *_sort((3, 7, 2), 1, True),
        *_sort((33,), 0, False, "distinct"),
    ),
    ANY_ORDER,
    generate=_draw_sort,
)
ARGSORT = Function(
    "argsort",
    "The indices of the elements in order along an axis; equal ones stay in order.",
    (_argsort((5, 4), -1, False), _argsort((3, 7, 2), 1, True)),
    ANY_ORDER,
)
TOPK = Function(
    "topk",
    "The first of the elements in falling or rising order, with their indices.",
    (*_topk((4, 9), 3, -1, True), *_topk((6, 2), 6, 0, False)),
    (*dtypes.floats, dtypes.int32),
    generate=_draw_topk,
)

FUNCTIONS = (SORT, ARGSORT, TOPK)
