"""Shapes by a formula, and images of another size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import ANYTHING, Form, Function, Input, Shape, movement_form


def _rearrange_form(
    formula: str, shape: Shape, move: Callable[[Array], Array], torch: str, sizes: str = ""
) -> Form:
    return movement_form(f'x.rearrange("{formula}"{sizes})', shape, move, torch=torch)


def _source(index: int, old: int, new: int, align_corners: bool) -> float:
    """Return the position of a new element among the middles of old ones."""
    if align_corners:
        return index * (old - 1) / (new - 1) if new > 1 else 0.0
    return (index + 0.5) * old / new - 0.5


def _linear(old: int, new: int, align_corners: bool) -> Array:
    """Return (new, old): the weight of every old element, from its hat function."""
    centres = [min(max(_source(i, old, new, align_corners), 0), old - 1) for i in range(new)]
    heights = 1 - np.abs(np.array(centres)[:, None] - np.arange(old)[None])
    return np.asarray(np.maximum(heights, 0))


def _keys(distance: float, a: float = -0.75) -> float:
    """Return Keys' cubic kernel (1981, equation 4), with torch's parameter."""
    x = abs(distance)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _cubic(old: int, new: int, align_corners: bool) -> Array:
    weights = np.zeros((new, old))
    for i in range(new):
        centre = _source(i, old, new, align_corners)
        for index in range(math.floor(centre) - 1, math.floor(centre) + 3):
            weights[i, min(max(index, 0), old - 1)] += _keys(centre - index)
    return weights


def _nearest(old: int, new: int, align_corners: bool) -> Array:
    return np.eye(old)[[i * old // new for i in range(new)]]


def _nearest_exact(old: int, new: int, align_corners: bool) -> Array:
    return np.eye(old)[[math.floor((i + 0.5) * old / new) for i in range(new)]]


_WEIGHTS = {
    "linear": _linear,
    "cubic": _cubic,
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
}
_TORCH_MODES = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
}


def resized(x: Value, size: Shape, mode: str, align_corners: bool) -> Value:
    """Return the value resized along every axis by a matrix of weights, the first one first."""
    result = x
    lead = len(x.shape) - len(size)
    for number, new in enumerate(size):
        axis = lead + number
        old = result.shape[axis]
        weights = _WEIGHTS[mode](old, new, align_corners)
        # The resized axis is last, as rows of a matrix.
        order = [other for other in range(len(x.shape)) if other != axis]
        rows = bounded.move_elements(result, partial(np.transpose, axes=(*order, axis)))
        flat = rows.reshape(-1, old)
        if mode.startswith("nearest"):
            resized_rows = bounded.move_elements(
                flat, partial(np.take, indices=np.argmax(weights, 1), axis=1)
            )
        else:
            # Weights are computed in float64 and rounded. Their terms are at most 6 (8 a), in four
            # steps. The position is off by three roundings of at most the old size.
            found_off = 2.0**-53 * (4 * 6 + 2 * 3 * old)
            factors = Value(weights.T, x.unit * np.abs(weights.T) + found_off, x.dtype)
            resized_rows = bounded.matmul(flat, factors)
        wide = resized_rows.reshape(*rows.shape[:-1], new)
        result = bounded.move_elements(wide, partial(np.transpose, axes=np.argsort([*order, axis])))
    return result


def _resize(shape: Shape, size: Shape, mode: str, align_corners: bool = False) -> Form:
    is_nearest = mode.startswith("nearest")
    aligned = ", align_corners=True" if align_corners else ""
    torch_mode = _TORCH_MODES.get((mode, len(size)), mode)

    def exactly(x: Array) -> Array:
        for number, new in enumerate(size):
            axis = x.ndim - len(size) + number
            taken = np.argmax(_WEIGHTS[mode](x.shape[axis], new, False), 1)
            x = np.take(x, taken, axis)
        return x

    return Form(
        f'x.interpolate({size}, "{mode}"{aligned})',
        (Input("x", shape),),
        partial(resized, size=size, mode=mode, align_corners=align_corners),
        exact=exactly if is_nearest else None,
        is_wide=not is_nearest,
        torch=f'F.interpolate(x, {size}, mode="{torch_mode}"{aligned})',
    )


def _drawn_size(generator: np.random.Generator) -> Form:
    count = int(generator.integers(1, 4))
    modes = ["linear", "nearest", "nearest-exact"] + (["cubic"] if count == 2 else [])
    mode = str(generator.choice(modes))
    old, new = (tuple(int(size) for size in generator.integers(1, 6, count)) for _ in range(2))
    aligned = bool(generator.integers(2)) and not mode.startswith("nearest")
    return _resize((1, 2, *old), new, mode, aligned)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "rearrange",
        "Axes split, reordered and joined by a formula.",
        (
            _rearrange_form("a b -> b a", (2, 3), lambda x: x.T, "x.T"),
            _rearrange_form(
                "a b c -> (a b c)", (2, 3, 2), lambda x: x.reshape(-1), "x.reshape(-1)"
            ),
            _rearrange_form(
                "b (h p) c -> b h (c p)",
                (2, 6, 2),
                lambda x: x.reshape(2, 3, 2, 2).transpose(0, 1, 3, 2).reshape(2, 3, 4),
                "x.reshape(2, 3, 2, 2).transpose(2, 3).reshape(2, 3, 4)",
                ", p=2",
            ),
            _rearrange_form(
                "... h w -> w (... h)",
                (2, 2, 3, 4),
                lambda x: x.transpose(3, 0, 1, 2).reshape(4, 12),
                "x.permute(3, 0, 1, 2).reshape(4, 12)",
            ),
            _rearrange_form(
                "a 1 b -> () b a 1",
                (2, 1, 3),
                lambda x: x[:, 0].T[None, ..., None],
                "x[:, 0].T[None, ..., None]",
            ),
            _rearrange_form(
                "a ... -> ... a", (2, 3, 4), lambda x: x.transpose(1, 2, 0), "x.permute(1, 2, 0)"
            ),
        ),
        ANYTHING,
    ),
    Function(
        "interpolate",
        "The last axes in other sizes: nearest, linear or cubic.",
        (
            _resize((1, 2, 5), (8,), "linear"),
            _resize((1, 1, 4, 5), (6, 3), "linear"),
            _resize((1, 1, 4, 5), (6, 3), "linear", True),
            _resize((1, 1, 2, 3, 3), (3, 2, 4), "linear"),
            _resize((1, 1, 4, 5), (7, 3), "cubic"),
            _resize((1, 1, 4, 5), (1, 8), "cubic", True),
        ),
        generate=_drawn_size,
    ),
    Function(
        "interpolate_nearest",
        "The element that is nearest, of any type.",
        tuple(
            _resize(shape, size, mode)
            for (shape, size), mode in itertools.product(
                [((1, 2, 5), (8,)), ((1, 1, 4, 6), (3, 9))], ["nearest", "nearest-exact"]
            )
        ),
        (*dtypes.floats, dtypes.uint8),
        covers=("interpolate",),
    ),
)
