"""Random calls of Tensor functions, each as an expression of tinyref and one of torch.

A `Function` is a line of the table `GROUPS`: two templates, the strategy of its inputs and the
types that it takes. Names in braces are parameters of the call, drawn with the inputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinyref import Tensor
from tinyref_spec.bits import Array

F = torch.nn.functional
Draw = Callable[[st.SearchStrategy[Any]], Any]
Shape = tuple[int, ...]
Arrays = dict[str, Array]
# Draws the arrays of a call, by the names in its expressions, and its parameters.
Inputs = Callable[[Draw, np.dtype[Any]], tuple[Arrays, dict[str, Any]]]
Parameter = Callable[[Draw, Shape], Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.dtype(np.float32), np.dtype(np.float16), BFLOAT16, np.dtype(np.float64))
SIGNED = tuple(np.dtype(f"int{bits}") for bits in (32, 8, 16, 64))
INTS = (*SIGNED, np.dtype(np.uint8))
BOOL = (np.dtype(np.bool_),)
NUMBERS = (*FLOATS, *INTS)
ALL = (*NUMBERS, *BOOL)
MOST_ELEMENTS = 60


@dataclass(frozen=True)
class Function:
    """One line of the table.

    Exact results are those of torch bit by bit, except the sign of zero where `signed` is False;
    all others are within the bound of the sweep.
    """

    ours: str
    theirs: str
    inputs: Inputs
    dtypes: tuple[np.dtype[Any], ...]
    exact: bool = False
    signed: bool = True
    has_gradient: bool = True
    size: float = 0.0
    """The size of an intermediate result whose rounding counts, where torch avoids it."""
    repeats: int = 1
    """Calls in each example of the sweep: more for functions with many kinds of arguments."""


@dataclass(frozen=True)
class Call:
    """One random call: two expressions over arrays."""

    function: Function = field(repr=False)
    ours: str
    theirs: str
    arrays: Arrays

    def __repr__(self) -> str:
        arrays = ", ".join(
            f"{name}=np.array({array.tolist()}, {array.dtype.name!r}).reshape{array.shape}"
            for name, array in self.arrays.items()
        )
        return f"{self.ours} # torch: {self.theirs} # {arrays}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print a failing example in one line, as hypothesis asks for it."""
        printer.text(repr(self))


@st.composite
def calls(draw: Draw, functions: tuple[Function, ...]) -> Call:
    """Draw one call of one of these functions."""
    function = draw(st.sampled_from(functions))
    dtype = draw(st.sampled_from(function.dtypes))
    arrays, parameters = function.inputs(draw, dtype)
    ours, theirs = (_filled(text, parameters) for text in (function.ours, function.theirs))
    return Call(function, ours, theirs, arrays)


def _filled(template: str, parameters: Mapping[str, Any]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: repr(parameters[match[1]]), template)


# Elements

SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0)


def elements(dtype: np.dtype[Any], kind: str) -> st.SearchStrategy[Any]:
    """Strategy of one element: `plain` (eighths), `rough` (any fraction), `wild` or `small`.

    `special` are plain ones, infinities and NaN, whose products do not overflow.
    """
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        least = max(limits.min, -8)
        if kind == "wild":
            edges = (limits.min, limits.min + 1, -1 % 2**limits.bits, limits.max, 0)
            inside = [edge for edge in edges if limits.min <= edge <= limits.max]
            return st.sampled_from(inside) | st.integers(int(limits.min), int(limits.max))
        return st.integers(least, 8)
    if kind in ("plain", "special"):
        eighths = st.integers(-32, 32).map(lambda number: number / 8)
        return eighths if kind == "plain" else eighths | st.sampled_from(SPECIAL)
    width = 16 if dtype.itemsize == 2 else 8 * dtype.itemsize
    if kind in ("rough", "small"):
        return st.floats(-8, 8, width=width).map(lambda value: round(value, 6))
    tiny = [float(ml_dtypes.finfo(dtype).smallest_subnormal), float(ml_dtypes.finfo(dtype).tiny)]
    huge = [float(ml_dtypes.finfo(dtype).max), -float(ml_dtypes.finfo(dtype).max)]
    return st.sampled_from((*SPECIAL, *tiny, *huge)) | st.floats(width=width)


def array(draw: Draw, dtype: np.dtype[Any], shape: Shape, kind: str = "") -> Array:
    """Draw an array; if no kind of elements is named, draw the kind too."""
    kind = kind or draw(st.sampled_from(("plain", "rough", "wild", "wild")))
    host = np.dtype(np.float32) if dtype == BFLOAT16 else dtype
    drawn = draw(st.lists(elements(dtype, kind), min_size=0, max_size=12))
    size = math.prod(shape)
    # A few drawn elements in turn: they shrink faster, and ties are frequent.
    with np.errstate(over="ignore"):
        repeated = np.resize(np.array(drawn or [0], host), size) if size else np.empty(0, host)
        return np.asarray(repeated.reshape(shape).astype(dtype))


# Shapes and parameters


def any_shape(draw: Draw) -> Shape:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    while math.prod(shape) > MOST_ELEMENTS:
        shape = shape[1:]
    return tuple(shape)


def filled_shape(draw: Draw) -> Shape:
    """Draw a shape of at least one axis and one element."""
    return tuple(draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)))


def any_axis(draw: Draw, shape: Shape) -> int:
    rank = max(1, len(shape))
    return int(draw(st.integers(-rank, rank - 1)))


def any_axes(draw: Draw, shape: Shape) -> int | tuple[int, ...] | None:
    """Draw None, one axis or several."""
    if not shape or draw(st.integers(0, 3)) == 0:
        return None
    if draw(st.booleans()):
        return any_axis(draw, shape)
    chosen = draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    return tuple(one - draw(st.sampled_from((0, len(shape)))) for one in chosen)


def of(strategy: st.SearchStrategy[Any]) -> Parameter:
    """Draw a parameter that does not depend on the shape."""
    return lambda draw, shape: draw(strategy)


def order(draw: Draw, shape: Shape) -> tuple[int, ...]:
    return tuple(draw(st.permutations(range(len(shape)))))


@dataclass(frozen=True)
class Text:
    """An expression that stands in a call unchanged."""

    text: str

    def __repr__(self) -> str:
        return self.text


def any_key(draw: Draw, shape: Shape) -> Text:
    """Draw an index of integers, slices, tensors, lists, masks, bools and new axes."""
    index_shape = draw(st.sampled_from(((), (2,), (3,), (2, 3), (0,))))
    parts: list[str] = []
    axis, kinds = 0, "iissaaaanb.m"
    # Behind an ellipsis all axes are named, to the last one.
    while axis < len(shape) and ("..." in parts or draw(st.integers(0, 9))):
        kind = draw(st.sampled_from(kinds))
        # One mask is enough: two would have to choose the same number of elements.
        kinds = kinds.replace(kind, "") if kind in "m." else kinds
        if kind == ".":
            parts.append("...")
            axis = draw(st.integers(axis, len(shape)))
            continue
        covered = shape[axis : axis + (draw(st.integers(1, 2)) if kind == "m" else 1)]
        parts.append(_part_of_key(draw, kind, covered, index_shape))
        axis += len(covered) if kind in "isam" else 0
    return Text(f"({', '.join(parts)},)" if parts else "()")


def _part_of_key(draw: Draw, kind: str, covered: Shape, index_shape: Shape) -> str:
    """Draw one part of an index, as text, of axes with these sizes."""
    size = covered[0]
    if kind == "i":
        return str(draw(st.integers(-size, size - 1)))
    if kind == "s":
        bound = st.none() | st.integers(-size - 1, size + 1)
        return repr(slice(draw(bound), draw(bound), draw(st.sampled_from((None, 1, 2)))))
    if kind == "m":
        bits = np.resize(draw(st.lists(st.booleans(), min_size=1, max_size=5)), covered)
        return f"at({bits.tolist()}, {covered}, 'bool')"
    if kind == "a":
        sides = _broadcast(draw, index_shape)
        drawn = draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=5))
        numbers = np.resize(drawn, sides).tolist()
        is_list = len(sides) == 1 and numbers and draw(st.booleans())
        return repr(numbers) if is_list else f"at({numbers}, {sides}, 'int64')"
    return "None" if kind == "n" else "True"


# Inputs


def inputs(
    *names: str, kind: str = "", shape: Callable[[Draw], Shape] = any_shape, **parameters: Parameter
) -> Inputs:
    """Return a strategy of operands that broadcast.

    `x` has the drawn shape. `y` and `z` broadcast with it, and `s` has its shape. `m` and `n` are
    masks: one broadcasts, one has the shape of `x`. `w` broadcasts and has any dtype.
    """

    def drawn(draw: Draw, dtype: np.dtype[Any]) -> tuple[Arrays, dict[str, Any]]:
        base = shape(draw)
        arrays: Arrays = {}
        for name in names:
            own = base if name in "xsn" else _broadcast(draw, base)
            own_dtype = np.dtype(np.bool_) if name in "mn" else dtype
            if name == "w":
                own_dtype = draw(st.sampled_from(ALL))
                own = own if bool(own) == bool(base) else base
            arrays[name] = array(draw, own_dtype, own, kind)
        return arrays, {name: rule(draw, base) for name, rule in parameters.items()}

    return drawn


def _broadcast(draw: Draw, shape: Shape) -> Shape:
    """Draw a shape that broadcasts with this one."""
    sides = [draw(st.sampled_from((side, 1))) if side != 1 else 1 for side in shape]
    return tuple(sides[draw(st.integers(0, len(shape))) :])


def indexed(is_unique: bool) -> Inputs:
    """Return a strategy of `x`, indices `i` along `dim`, and values `v` of the shape of `i`.

    is_unique: No index occurs twice, so that the order of writes does not matter.
    """

    def drawn(draw: Draw, dtype: np.dtype[Any]) -> tuple[Arrays, dict[str, Any]]:
        shape = filled_shape(draw)
        dim = any_axis(draw, shape)
        sides = [draw(st.integers(0, side)) for side in shape]
        if is_unique:
            row = np.array(draw(st.permutations(range(shape[dim]))))[: sides[dim]]
            along = np.expand_dims(row, tuple(range(1, len(shape)))).swapaxes(0, dim)
            index = np.broadcast_to(along, sides)
        else:
            sides[dim] = draw(st.integers(0, 5))
            positions = draw(st.lists(st.integers(0, shape[dim] - 1), min_size=1, max_size=7))
            index = np.resize(positions, sides)
        values = array(draw, dtype, tuple(sides))
        arrays = {"x": array(draw, dtype, shape), "i": index.astype(np.int64), "v": values}
        return arrays, {"dim": dim, "flag": draw(st.booleans())}

    return drawn


def mild(draw: Draw, dtype: np.dtype[Any], **shapes: Shape) -> Arrays:
    """Draw arrays of these shapes without huge elements, all of one kind."""
    kind = draw(st.sampled_from(("plain", "rough")))
    return {name: array(draw, dtype, shape, kind) for name, shape in shapes.items()}


def matrices(draw: Draw, dtype: np.dtype[Any]) -> tuple[Arrays, dict[str, Any]]:
    """Draw the operands `x` and `y` of a matrix product: vectors, matrices and batches."""
    inner, rows, columns, batch = (draw(st.integers(0, 4)) for _ in range(4))
    left = draw(st.sampled_from(((inner,), (rows, inner), (batch, rows, inner))))
    right = draw(st.sampled_from(((inner,), (inner, columns), (1, inner, columns))))
    return mild(draw, dtype, x=left, y=right), {}


def one_hot_classes(draw: Draw, dtype: np.dtype[Any]) -> tuple[Arrays, dict[str, Any]]:
    shape = any_shape(draw)
    classes = np.resize(draw(st.lists(st.integers(0, 3), min_size=1, max_size=5)), shape)
    return {"i": classes.astype(np.int64)}, {"count": draw(st.integers(4, 6))}


# Functions that torch has under no name, or under several


def torch_extreme(
    function: Callable[..., torch.Tensor], x: torch.Tensor, dims: Any, keepdim: bool
) -> torch.Tensor:
    """Return the maximum or minimum along any axes."""
    return function(x, () if dims is None else dims, keepdim)


def torch_prod(x: torch.Tensor, dims: Any, keepdim: bool) -> torch.Tensor:
    """Return the product along any axes."""
    chosen = range(x.dim()) if dims is None else (dims,) if isinstance(dims, int) else dims
    axes = {dim % x.dim() for dim in chosen}
    if not axes:
        return x.prod()
    for axis in axes:
        x = x.prod(axis, keepdim=True)
    left = [side for axis, side in enumerate(x.shape) if axis not in axes]
    return x if keepdim else x.reshape(left)


def torch_logsumexp(x: torch.Tensor, dims: Any, keepdim: bool) -> torch.Tensor:
    """Return the logarithm of the sum of exponentials along any axes."""
    return torch.logsumexp(x, tuple(range(x.dim())) if dims is None else dims, keepdim)


def torch_gelu(x: torch.Tensor) -> torch.Tensor:
    """Return F.gelu by tanh, which is this sigmoid, without its cancellation."""
    return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))


def torch_celu(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return F.celu with a constant of the type of `x`."""
    return torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0) / alpha))


def torch_written(x: torch.Tensor, key: Any, value: Any) -> torch.Tensor:
    """Return `x` with elements overwritten."""
    result = x.clone()
    result[key] = value
    return result


def written(x: Tensor, key: Any, value: Any) -> Tensor:
    """Return `x` with elements overwritten."""
    result = x.clone()
    result[key] = value
    return result


TORCH_NAMES = {
    **{name: value for name, value in globals().items() if name.startswith("torch_")},
    **{"torch": torch, "F": F},
    "at": lambda data, shape, name: torch.tensor(np.array(data, name).reshape(shape)),
}
OUR_NAMES = {
    **{"Tensor": Tensor, "written": written},
    "at": lambda data, shape, name: Tensor(np.array(data, name).reshape(shape)),
}
