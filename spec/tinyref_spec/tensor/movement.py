"""Adding and removing axes, joining and cutting, and padding with values or neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import ANYTHING, Form, Function, Input, Shape, movement_form, moves

WITH_BOOL = (*ANYTHING, dtypes.bool)
# Numpy's names for the padding modes of torch and tinyref.
_NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _join_form(expression: str, shapes: Sequence[Shape], axis: int, torch: str) -> Form:
    """Return inputs of several shapes joined along an axis."""
    names = "xyzw"[: len(shapes)]

    def forward(*values: Value) -> Value:
        return bounded.concatenated(values, axis)

    def exactly(*arrays: Array) -> Array:
        return np.concatenate(arrays, axis)

    inputs = tuple(Input(name, shape) for name, shape in zip(names, shapes, strict=True))
    return Form(expression, inputs, forward, exact=exactly, torch=torch)


def _stack_form(expression: str, shape: Shape, count: int, axis: int, torch: str) -> Form:
    position = axis % (len(shape) + 1)
    grown = (*shape[:position], 1, *shape[position:])

    def forward(*values: Value) -> Value:
        return bounded.concatenated([value.reshape(*grown) for value in values], position)

    def exactly(*arrays: Array) -> Array:
        return np.stack(arrays, axis)

    inputs = tuple(Input(name, shape) for name in "xyzw"[:count])
    return Form(expression, inputs, forward, exact=exactly, torch=torch)


def _diagonal_form(shape: Shape, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Form:
    return movement_form(
        f"x.diagonal({offset}, {dim1}, {dim2})", shape, lambda x: np.diagonal(x, offset, dim1, dim2)
    )


def _pad_form(shape: Shape, pads: tuple[int, ...], mode: str) -> Form:
    """Return padding of the last axes; negative amounts cut first."""
    pairs = [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)][::-1]
    whole = [(0, 0)] * (len(shape) - len(pairs)) + pairs

    def move(numbers: Array) -> Array:
        inside = tuple(
            slice(max(-before, 0), size - max(-after, 0))
            for size, (before, after) in zip(numbers.shape, whole, strict=True)
        )
        grown = [(max(before, 0), max(after, 0)) for before, after in whole]
        return np.asarray(np.pad(numbers[inside], grown, mode=_NUMPY_MODES[mode]))  # type: ignore[call-overload]

    return movement_form(
        f'x.pad({pads}, mode="{mode}")', shape, move, torch=f'F.pad(x, {pads}, mode="{mode}")'
    )


def _pad_last(x: Array, value: float = 0.0) -> Array:
    """Return x with one element before it and two after it, along the last axis."""
    return np.pad(x, ((0, 0), (1, 2)), constant_values=value)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "cat",
        "Tensors joined along an axis.",
        (
            _join_form("x.cat(y)", [(2, 3), (1, 3)], 0, "torch.cat([x, y])"),
            _join_form(
                "x.cat(y, z, dim=-1)",
                [(2, 1), (2, 3), (2, 0)],
                -1,
                "torch.cat([x, y, z], dim=-1)",
            ),
            _join_form(
                "x.cat(*[y] * 20, dim=1)[:, :5]",
                [(2, 2, 2), (2, 3, 2)],
                1,
                "torch.cat([x, *[y] * 20], dim=1)[:, :5]",
            ),
        ),
        WITH_BOOL,
    ),
    Function(
        "stack",
        "Tensors of one shape along a new axis.",
        (
            _stack_form("x.stack(y, z)", (2, 3), 3, 0, "torch.stack([x, y, z])"),
            _stack_form("x.stack(y, dim=-1)", (2, 3), 2, -1, "torch.stack([x, y], dim=-1)"),
            _stack_form("x.stack(y)", (), 2, 0, "torch.stack([x, y])"),
        ),
        WITH_BOOL,
    ),
    moves(
        "split",
        "Parts of one size, or of several sizes.",
        ("x.split(2)[2]", (5, 3), lambda x: x[4:]),
        ("x.split([1, 4], dim=1)[1]", (2, 5), lambda x: x[:, 1:]),
        ("x.split((2, 0, 3), -1)[0]", (2, 5), lambda x: x[:, :2]),
    ),
    moves(
        "chunk",
        "A number of parts of equal size; the last may be shorter.",
        ("x.chunk(3)[1]", (5, 3), lambda x: x[2:4]),
        ("x.chunk(2, dim=-1)[1]", (2, 5), lambda x: x[:, 3:]),
        ("x.chunk(4)[2]", (5, 2), lambda x: x[4:]),
    ),
    moves(
        "squeeze",
        "Without axes of size 1.",
        ("x.squeeze()", (1, 3, 1), lambda x: x.reshape(3)),
        ("x.squeeze(-1)", (1, 3, 1), lambda x: x.reshape(1, 3)),
        ("x.squeeze(1)", (1, 3, 1), lambda x: x),
    ),
    moves(
        "unsqueeze",
        "With a new axis of size 1.",
        ("x.unsqueeze(0)", (2, 3), lambda x: x[None]),
        ("x.unsqueeze(-1)", (2, 3), lambda x: x[..., None]),
        ("x.unsqueeze(-2)", (2, 3), lambda x: x[:, None]),
    ),
    moves(
        "unflatten",
        "One axis split into several.",
        ("x.unflatten(1, (2, 3))", (2, 6), lambda x: x.reshape(2, 2, 3)),
        ("x.unflatten(-2, (-1, 2))", (4, 3), lambda x: x.reshape(2, 2, 3)),
    ),
    moves(
        "flatten",
        "Several axes joined into one.",
        ("x.flatten(1)", (2, 3, 2), lambda x: x.reshape(2, 6)),
        ("x.flatten(0, -2)", (2, 3, 2), lambda x: x.reshape(6, 2)),
        ("x.flatten()", (), lambda x: x.reshape(1)),
    ),
    moves(
        "view",
        "The same as reshape; later changes to one do not change the other.",
        ("x.view(3, -1)", (2, 6), lambda x: x.reshape(3, 4)),
        ("x.view((12,))", (2, 6), lambda x: x.reshape(12)),
    ),
    moves(
        "transpose",
        "Two axes exchanged.",
        ("x.transpose()", (2, 3), lambda x: x.T, "x.transpose(0, 1)"),
        ("x.transpose(-1, 0)", (2, 3, 4), lambda x: x.transpose(2, 1, 0)),
        ("x.T", (2, 3), lambda x: x.T),
        covers=("T",),
    ),
    moves(
        "repeat",
        "Repeated several times along each axis.",
        ("x.repeat(2, 3)", (2, 2), lambda x: np.tile(x, (2, 3))),
        ("x.repeat((2, 1, 2))", (2, 2), lambda x: np.tile(x, (2, 1, 2))),
        ("x.repeat(2, 0)", (2, 2), lambda x: np.tile(x, (2, 0))),
    ),
    Function(
        "pad_modes",
        "Padding with a value, or with neighbours; negative amounts cut.",
        (
            _pad_form((1, 2, 5), (2, 3), "reflect"),
            _pad_form((1, 2, 5), (3, 1), "replicate"),
            _pad_form((1, 2, 5), (5, 2), "circular"),
            _pad_form((1, 1, 4, 5), (1, 2, 3, 0), "reflect"),
            _pad_form((1, 1, 4, 5), (-1, 2, 1, -2), "circular"),
            _pad_form((1, 2, 5), (-2, 4), "replicate"),
            Form(
                "x.pad((1, 2), value=2.0)",
                (Input("x", (2, 3)),),
                # The gradient does not depend on the padding.
                partial(bounded.move_elements, move=_pad_last),
                exact=partial(_pad_last, value=2.0),
                torch="F.pad(x, (1, 2), value=2.0)",
            ),
        ),
        dtypes.floats,
        covers=("pad",),
    ),
    Function(
        "diagonal",
        "The elements on a diagonal of two axes, along a new last axis.",
        (
            _diagonal_form((4, 5)),
            _diagonal_form((4, 3), -2),
            _diagonal_form((3, 2, 4), 1, -1, 0),
            _diagonal_form((3, 3), 7),
        ),
        WITH_BOOL,
    ),
    moves(
        "diag",
        "A row on a diagonal of zeros, or the diagonal of a matrix.",
        ("x.diag()", (4,), np.diag),
        ("x.diag(-2)", (3,), lambda x: np.diag(x, -2)),
        ("x.diag(1)", (3, 5), lambda x: np.diag(x, 1)),
    ),
)
