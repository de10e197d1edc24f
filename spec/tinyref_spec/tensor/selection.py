"""Rows of the level `tensor`: places of extremes, masks, classes, triangles, repetitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import ANYTHING, Form, Function, moves
from tinyref_spec.tensor.functions import NUMBERS
from tinyref_spec.tensor.places import c_of, choice_form, position_form, select, v_of, x_of


def _place(x: Array, axis: int, is_largest: bool) -> Array:
    """Return the index of the first of equal ones, in float64, which holds all inputs exactly."""
    wide = x.astype(np.float64)
    best = np.argmax(wide, axis) if is_largest else np.argmin(wide, axis)
    return np.asarray(best).astype(np.int32)


def _places(name: str, is_largest: bool) -> tuple[Form, ...]:
    ties = (x_of(4, 6, kind="small"),)
    return (
        position_form(f"x.{name}()", ties, lambda x: _place(x.reshape(-1), 0, is_largest)),
        position_form(f"x.{name}(0)", ties, lambda x: _place(x, 0, is_largest)),
        position_form(
            f"x.{name}(-1, keepdim=True)", ties, lambda x: _place(x, 1, is_largest)[:, None]
        ),
        position_form(f"x.{name}(1)", (x_of(3, 40),), lambda x: _place(x, 1, is_largest)),
    )


def _draws_place(name: str, is_largest: bool) -> Callable[[np.random.Generator], Form]:
    def draw(generator: np.random.Generator) -> Form:
        shape = tuple(int(size) for size in generator.integers(1, 7, generator.integers(1, 4)))
        axis = int(generator.integers(-len(shape), len(shape)))
        return position_form(
            f"x.{name}({axis})",
            (x_of(*shape, kind="small"),),
            lambda x: _place(x, axis, is_largest),
        )

    return draw


EXTREMES = (
    Function(
        "argmax",
        "The index of the largest element, the first of equal ones, or the first NaN.",
        _places("argmax", True),
        NUMBERS,
        generate=_draws_place("argmax", True),
    ),
    Function(
        "argmin",
        "The index of the smallest element; see `argmax`.",
        _places("argmin", False),
        NUMBERS,
        generate=_draws_place("argmin", False),
    ),
)


def _fill_where(x: Value, c: Value, value: float) -> Value:
    filling = bounded.constant(value, x.dtype).spread(x.shape)
    return bounded.choose(c.value != 0, filling, x)


MASKS = (
    Function(
        "masked_fill",
        "A value if a mask is true, else the element, whose type it takes.",
        (
            Form(
                "x.masked_fill(c, 2)", (x_of(4, 6), c_of(4, 6)), lambda x, c: _fill_where(x, c, 2)
            ),
            Form(
                "x.masked_fill(c, True)", (x_of(4, 6), c_of(6)), lambda x, c: _fill_where(x, c, 1)
            ),
            choice_form(
                "x.masked_fill(c, v)",
                (x_of(4, 6), c_of(4, 1), v_of()),
                lambda x, c, v: select(c, v, x),
            ),
        ),
        ANYTHING,
    ),
    Function(
        "masked_select",
        "The elements whose mask is true, in order.",
        (
            choice_form("x.masked_select(c)", (x_of(4, 6), c_of(4, 6)), lambda x, c: x[c]),
            choice_form(
                "x.masked_select(c)",
                (x_of(4, 1), c_of(6)),
                lambda x, c: np.broadcast_to(x, (4, 6))[np.broadcast_to(c, (4, 6))],
            ),
        ),
        ANYTHING,
    ),
    Function(
        "nonzero",
        "The indices of the elements that are not 0, one in a row, in order.",
        (
            position_form(
                "x.nonzero()",
                (x_of(4, 6, kind="small"),),
                lambda x: np.argwhere(x != 0).astype(np.int32),
            ),
            position_form(
                "x.nonzero(as_tuple=True)[1]",
                (x_of(2, 3, 4, kind="small"),),
                lambda x: np.nonzero(x != 0)[1].astype(np.int32),
            ),
        ),
        (*ANYTHING, dtypes.bool),
    ),
    Function(
        "one_hot",
        "1 at the index that an integer names, else 0, along a new last axis.",
        (
            position_form(
                "x.one_hot(9)",
                (x_of(3, 4, kind="counts"),),
                lambda x: (x[..., None] == np.arange(9)).astype(np.int32),
                "F.one_hot(x.long(), 9)",
            ),
            position_form(
                "x.one_hot()",
                (x_of(7, kind="counts"),),
                lambda x: np.eye(int(x.max()) + 1, dtype=np.int32)[x.astype(np.int64)],
                "F.one_hot(x.long())",
            ),
            position_form(
                "(x - 4).one_hot(3)",
                (x_of(9, kind="counts"),),
                lambda x: (x[:, None] - 4 == np.arange(3)).astype(np.int32),
                no_torch="torch refuses elements that name no class; here they are not read",
            ),
        ),
        (dtypes.int32, dtypes.int64, dtypes.int8),
    ),
)


PATTERNS = (
    moves(
        "tril",
        "The last two axes with zeros above a diagonal.",
        ("x.tril()", (4, 5), np.tril),
        ("x.tril(-2)", (2, 5, 4), lambda x: np.tril(x, -2)),
        ("x.tril(diagonal=1)", (3, 3), lambda x: np.tril(x, 1)),
    ),
    moves(
        "triu",
        "The last two axes with zeros below a diagonal.",
        ("x.triu()", (4, 5), np.triu),
        ("x.triu(2)", (2, 5, 4), lambda x: np.triu(x, 2)),
        ("x.triu(-9)", (3, 3), lambda x: np.triu(x, -9)),
    ),
    moves(
        "roll",
        "Elements moved along axes; those at the end go to the front.",
        ("x.roll(2, 0)", (5, 3), lambda x: np.roll(x, 2, 0)),
        ("x.roll(-8, -1)", (2, 5), lambda x: np.roll(x, -8, -1)),
        ("x.roll((1, 2), (0, 1))", (3, 4), lambda x: np.roll(x, (1, 2), (0, 1))),
        ("x.roll(-5)", (3, 4), lambda x: np.roll(x, -5)),
    ),
    moves(
        "repeat_interleave",
        "Each element several times in a row.",
        ("x.repeat_interleave(3, 1)", (2, 3), lambda x: np.repeat(x, 3, 1)),
        ("x.repeat_interleave(2)", (2, 3), lambda x: np.repeat(x, 2)),
        ("x.repeat_interleave(2, dim=-2)", (3, 2), lambda x: np.repeat(x, 2, 0)),
    ),
    Function(
        "meshgrid",
        "Tensors with one axis, repeated over the grid of all of them.",
        (
            Form(
                "x.meshgrid(v)[0] * x.meshgrid(v)[1]",
                (x_of(4), v_of(3)),
                lambda x, v: x.reshape(4, 1) * v,
                torch="torch.meshgrid(x, v, indexing='ij')[0] * v",
            ),
            Form(
                "x.meshgrid(v, indexing='xy')[0] * x.meshgrid(v, indexing='xy')[1]",
                (x_of(4), v_of(3)),
                lambda x, v: v.reshape(3, 1) * x,
                torch="x * torch.meshgrid(x, v, indexing='xy')[1]",
            ),
        ),
        NUMBERS,
    ),
)

FUNCTIONS = (*EXTREMES, *MASKS, *PATTERNS)
