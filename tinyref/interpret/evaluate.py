"""The AST evaluator: computes a kernel AST without lowering it.

Views become numpy index arrays, and reduces become numpy reductions in a wide accumulator. The op
table gives the semantics of every op. The evaluator shares no code with the lowering of views, with
rewriting and with linearising. If it disagrees with the interpreter, one of these is wrong.

The evaluator reads a view by its definition alone: position p is element
`offset + sum(p * strides)`, if p lies within the mask. In a chain of views, the element of one view
is a row-major position of the view before it. Python integers compute the sizes. No code is shared
with `index_and_valid`, which the compiler lowers, nor with `numpy_indices` and `algebra.evaluate`.
An oracle that read views as the compiler does would repeat its errors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra import semantics
from tinyref.algebra.evaluate import bound_value
from tinyref.algebra.shapes import positions_of
from tinyref.dtype import dtypes, narrow_float64, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, ReduceArg, SlotArg, VarArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref.views.view import View

Array = npt.NDArray[Any]


def evaluate(
    ast: UOp,
    buffers: Mapping[int, Array],
    bindings: Mapping[str, int] | None = None,
) -> dict[int, Array]:
    """Run the kernel `ast`; return the new contents of every written buffer, flat arrays by slot.

    `buffers` are flat arrays by slot, including outputs: elements that no STORE writes stay the
    same. All loads read the contents before the kernel. A reduce of float16, bfloat16 or float32
    accumulates in float64, a reduce of float64 in long double; the result is rounded once. Raises
    `UserError` for a node that is not legal in a kernel AST, a missing buffer or variable, or a
    view that leaves its buffer.
    """
    evaluator = _Evaluator(buffers, bindings or {})
    with np.errstate(all="ignore"):
        for node in ast.toposort():
            evaluator.visit(node)
    return evaluator.written


class _Evaluator:
    def __init__(self, buffers: Mapping[int, Array], bindings: Mapping[str, int]) -> None:
        self.buffers = buffers
        self.bindings = bindings
        self.values: dict[UOp, Array] = {}
        self.written: dict[int, Array] = {}

    def visit(self, node: UOp) -> None:
        """Compute one node whose sources are computed."""
        if node.op in (Ops.SINK, Ops.DEFINE_GLOBAL, Ops.VIEW):
            return
        if node.op is Ops.STORE:
            self._store(node)
            return
        self.values[node] = self._value(node)

    def _value(self, node: UOp) -> Array:
        if isinstance(node.arg, ConstArg):
            return np.array(node.arg.value, numpy_dtype(node.dtype))
        if isinstance(node.arg, VarArg):
            return np.array(bound_value(node.arg, self.bindings), numpy_dtype(node.dtype))
        if node.op is Ops.LOAD:
            return self._load(node)
        if node.op is Ops.VALID:
            return self._positions(node)[1]
        if node.op is Ops.IOTA:
            positions, valid = self._positions(node)
            return np.where(valid, positions, 0).astype(numpy_dtype(node.dtype))
        sources = [self.values[source] for source in node.src]
        if isinstance(node.arg, ReduceArg):
            return _reduce(node, sources[0], node.arg)
        if node.op in ALU:
            types = [source.dtype for source in node.src]
            return semantics.apply(node.op, node.dtype, sources, types)
        raise UserError(f"evaluate: {node.op.name} does not belong in a kernel AST")

    def _positions(self, view: UOp) -> tuple[Array, Array]:
        if not isinstance(view.arg, ViewArg):
            raise UserError(f"evaluate: {view.op.name} does not have a view")
        computed = [self.values[position] for position in positions_of(view)]
        return view_elements(tracker_of(view), self.bindings, computed)

    def _elements(self, view: UOp) -> tuple[int, Array, Array, Array]:
        """Return slot, buffer, elements at the valid positions, and the mask of valid positions."""
        arg = view.src[0].arg if view.src else None
        if not isinstance(arg, SlotArg):
            raise UserError("evaluate: a LOAD or STORE goes to a VIEW of a DEFINE_GLOBAL")
        if arg.slot not in self.buffers:
            raise UserError(f"evaluate: no buffer for slot {arg.slot}")
        buffer = self.buffers[arg.slot]
        positions, valid = self._positions(view)
        elements = positions[valid]
        if elements.size and (elements.min() < 0 or elements.max() >= buffer.size):
            raise UserError(
                f"evaluate: a view of slot {arg.slot} reaches from {elements.min()} to "
                f"{elements.max()}, the buffer has {buffer.size} elements"
            )
        return arg.slot, buffer, elements, valid

    def _load(self, node: UOp) -> Array:
        _, buffer, elements, valid = self._elements(node.src[0])
        value = np.zeros(valid.shape, numpy_dtype(node.dtype))
        value[valid] = buffer[elements]
        # Any byte except 0 is true, but numpy would keep the byte.
        return value.view(np.uint8) != 0 if node.dtype.is_bool else value

    def _store(self, node: UOp) -> None:
        slot, buffer, elements, valid = self._elements(node.src[0])
        if slot not in self.written:
            self.written[slot] = buffer.copy()
        full = np.broadcast_to(self.values[node.src[1]], valid.shape)
        self.written[slot][elements] = full[valid]


def _reduce(node: UOp, value: Array, arg: ReduceArg) -> Array:
    """Reduce `value` over the axes, which stay as size 1, in a wide accumulator."""
    if arg.axes and max(arg.axes) >= value.ndim:
        raise UserError(f"evaluate: REDUCE over axes {arg.axes} of a value with {value.ndim} axes")
    dtype = node.dtype
    identity = semantics.reduce_identity(arg.op, dtype)
    if arg.op is Ops.MAX:
        lowest = np.array(identity, value.dtype)
        return np.asarray(np.maximum.reduce(value, axis=arg.axes, keepdims=True, initial=lowest))
    ufunc = np.add if arg.op is Ops.ADD else np.multiply
    if dtype.is_int:
        return np.asarray(
            ufunc.reduce(value, axis=arg.axes, keepdims=True, dtype=numpy_dtype(dtype))
        )
    wide = np.longdouble if dtype is dtypes.float64 else np.float64
    total = np.asarray(ufunc.reduce(value.astype(wide), axis=arg.axes, keepdims=True))
    return narrow_float64(total.astype(np.float64), dtype)


Bindings = Mapping[str, int]


def _quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


# Sizes are `index` nodes, which never wrap.
_EXACT: dict[Ops, Callable[..., int]] = {
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.NEG: operator.neg,
    Ops.IDIV: _quotient,
    Ops.MOD: lambda x, y: 0 if y == 0 else x - y * _quotient(x, y),
    Ops.MAX: max,
    Ops.CMPLT: operator.lt,
    Ops.CMPNE: operator.ne,
    Ops.AND: operator.and_,
    Ops.OR: operator.or_,
    Ops.XOR: operator.xor,
    Ops.WHERE: lambda condition, x, y: x if condition else y,
    Ops.CAST: int,
    Ops.BIND: lambda variable, value: value,
}


def size_value(size: sint, bindings: Bindings) -> int:
    """Return the value of a size. Raises `UserError` for an unbound variable, or another node."""
    if isinstance(size, int):
        return size
    values: dict[UOp, int] = {}
    for node in size.toposort():
        if isinstance(node.arg, ConstArg):
            values[node] = int(node.arg.value)
        elif isinstance(node.arg, VarArg):
            values[node] = bound_value(node.arg, bindings)
        elif node.op in _EXACT:
            values[node] = int(_EXACT[node.op](*(values[source] for source in node.src)))
        else:
            raise UserError(f"evaluate: {node.op.name} does not belong in a size")
    return values[size]


def view_elements(
    tracker: ShapeTracker, bindings: Bindings, computed: Sequence[Array] = ()
) -> tuple[Array, Array]:
    """Return the element (0 where there is none) and the validity of each position.

    computed: positions along the last axes that are values of the kernel: integer arrays that
    broadcast with the positions along the other axes. Positions outside an axis have no element.
    Both results have the shape that all broadcast to. Raises the errors of `size_value`.
    """
    shape = [size_value(size, bindings) for size in tracker.shape]
    own = shape[: len(shape) - len(computed)]
    at = [*np.ix_(*map(np.arange, own)), *(np.asarray(array, np.int64) for array in computed)]
    full = np.broadcast_shapes(tuple(own), *(array.shape for array in computed))
    valid = np.array(True)
    for number in range(len(own), len(shape)):
        is_inside = (at[number] >= 0) & (at[number] < shape[number])
        at[number] = np.where(is_inside, at[number], 0)
        valid = valid & is_inside
    for depth in reversed(range(len(tracker.views))):
        view = tracker.views[depth]
        element, is_admitted = _element(view, at, bindings)
        valid = valid & is_admitted
        element = np.where(valid, element, 0)
        if depth:
            at = _digits(element, tracker.views[depth - 1], bindings)
    return np.broadcast_to(element, full), np.broadcast_to(valid, full)


def _element(view: View, at: Sequence[Array], bindings: Bindings) -> tuple[Array, Array]:
    """Return the element of one view at these positions, and True where its mask admits it."""
    element = np.array(size_value(view.offset, bindings), np.int64)
    is_admitted = np.array(True)
    for axis, position in enumerate(at):
        element = element + position * size_value(view.strides[axis], bindings)
        if view.mask is not None:
            begin, end = (size_value(bound, bindings) for bound in view.mask[axis])
            is_admitted = is_admitted & (position >= begin) & (position < end)
    return element, is_admitted


def _digits(element: Array, view: View, bindings: Bindings) -> list[Array]:
    """Split a row-major number into a position along each axis of `view`."""
    digits: list[Array] = []
    for size in reversed(view.shape):
        # An axis of size 0 has no valid position; 1 avoids a division by zero.
        extent = max(size_value(size, bindings), 1)
        digits.append(element % extent)
        element = element // extent
    return digits[::-1]
