"""Lowering: a kernel AST, whose nodes have shapes, becomes an indexed kernel of single elements.

The axes of the output become launch indices on a device with a grid, else loops; every reduced
axis becomes a loop of its own. A view becomes an address and a gate. Ranges that are nested are
numbered from the outside in.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.device import Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.bounds import bounds
from tinyref.uops.launch import launch_axes
from tinyref.uops.meanings import reduce_identity
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ConstArg, ReduceArg, ViewArg
from tinyref.uops.simplify import simplify

Shape = tuple[sint, ...]
# One `index` node per axis of the kernel: where on it we are.
Positions = tuple[UOp, ...]

ZERO = build.const(dtypes.index, 0)
TRUE = build.const(dtypes.bool, True)


def lower(ast: UOp, capabilities: Capabilities) -> UOp:
    """The indexed kernel of `ast` for a device: a SINK of STOREs, empty if nothing is written.

    Raises `UserError` where the shapes of the stores do not belong together.
    """
    # An empty output writes nothing, and must not keep another of the same kernel from writing.
    stores = [store for store in ast.src if 0 not in kernel_shape(store.src[0])]
    if not stores:
        return build.sink()
    shape = _common_shape(stores)
    _check_repeated_axes(stores, shape)
    lowering = _Lowering()
    if capabilities.has_grid:
        outputs = launch_axes(shape, capabilities.grid_limit)
        positions, in_launch = outputs.positions, outputs.valid
    else:
        positions = tuple(lowering.counter(extent, AxisKind.LOOP) for extent in shape)
        in_launch = TRUE
    return build.sink(*lowering.stores(stores, shape, positions, in_launch))


@node_fact
def kernel_shape(node: UOp) -> Shape:
    """The shape of an AST node, sizes broadcast; () for what takes any shape."""
    if isinstance(node.arg, ViewArg):
        return node.arg.tracker.shape
    if node.op is Ops.LOAD:
        return kernel_shape(node.src[0])
    shapes = [shape for shape in map(kernel_shape, node.src) if shape]
    shape = _broadcast(shapes) if shapes else ()
    if isinstance(node.arg, ReduceArg):
        if node.arg.axes and max(node.arg.axes) >= len(shape):
            raise UserError(f"REDUCE over axes {node.arg.axes} of a value with shape {shape}")
        return tuple(1 if axis in node.arg.axes else size for axis, size in enumerate(shape))
    return shape


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    result = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != len(result):
            raise UserError(f"kernel: views of {len(result)} and of {len(shape)} axes meet")
        for axis, size in enumerate(shape):
            if isinstance(result[axis], int) and result[axis] == 1:
                result[axis] = size
            elif size is not result[axis] and size != result[axis] and _is_larger(size):
                raise UserError(f"kernel: sizes {result[axis]} and {size} meet on axis {axis}")
    return tuple(result)


def _is_larger(size: sint) -> bool:
    return isinstance(size, UOp) or size != 1


def output_shape(ast: UOp) -> Shape:
    """The shape that all outputs of the kernel `ast` have or broadcast to; () without outputs."""
    return _common_shape(ast.src)


def _common_shape(stores: Sequence[UOp]) -> Shape:
    shapes = [kernel_shape(store.src[0]) for store in stores]
    return _broadcast(shapes) if shapes else ()


def _check_repeated_axes(stores: Sequence[UOp], shape: Shape) -> None:
    """An output of size 1 is written in the first turn along an axis: there must be one."""
    for store in stores:
        for axis, (size, common) in enumerate(zip(kernel_shape(store.src[0]), shape, strict=True)):
            if isinstance(size, int) and isinstance(common, UOp) and bounds(common)[0] < 1:
                raise UserError(
                    f"kernel: outputs of size 1 and of a size that may be {bounds(common)[0]} "
                    f"share axis {axis}: accepted are sizes of at least 1, or two kernels"
                )


def reduced_sizes(node: UOp) -> Shape:
    """The sizes of the axes that a REDUCE of a kernel AST goes over."""
    shape = kernel_shape(node.src[0])
    return tuple(shape[axis] for axis in _axes(node))


class _Lowering:
    """One kernel on its way: the ranges made so far, and what each node became where."""

    def __init__(self) -> None:
        self.ranges = 0
        self.done: dict[tuple[UOp, Positions], UOp] = {}
        self.loops: dict[tuple[Positions, tuple[int, ...], Shape, int], Positions] = {}

    def counter(self, extent: sint, kind: AxisKind) -> UOp:
        """The position on a new axis: a RANGE, or 0 where there is only one."""
        if isinstance(extent, int) and extent == 1:
            return ZERO
        self.ranges += 1
        return build.counter(extent, self.ranges - 1, kind)

    def stores(
        self, stores: Sequence[UOp], shape: Shape, positions: Positions, in_launch: UOp
    ) -> list[UOp]:
        lowered = []
        for store in stores:
            gate = in_launch
            for axis, size in enumerate(kernel_shape(store.src[0])):
                # A smaller output shares the loops of a larger one: only the first turn writes.
                if size == 1 and not (isinstance(shape[axis], int) and shape[axis] == 1):
                    gate = build.both(gate, build.equal(positions[axis], 0))
            address, valid = self._address(*_task(store.src[0], positions))
            gate = simplify(build.both(gate, valid))
            if _is_const(gate, False):
                continue
            value = self.value(store.src[1], positions)
            lowered.append(build.store(address, value, None if _is_const(gate, True) else gate))
        return lowered

    def value(self, root: UOp, positions: Positions) -> UOp:
        """One element of `root`: the value at `positions`. Needs no recursion."""
        first = _task(root, positions)
        stack = [first]
        while stack:
            task = stack[-1]
            if task in self.done:
                stack.pop()
                continue
            missing = [need for need in self._needs(*task) if need not in self.done]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.done[task] = self._lowered(*task)
            stack.pop()
        return self.done[first]

    def _needs(self, node: UOp, positions: Positions) -> list[tuple[UOp, Positions]]:
        """What must be lowered before `node` at `positions`."""
        if node.op in (Ops.LOAD, Ops.VALID):
            return []
        if isinstance(node.arg, ReduceArg):
            if 0 in reduced_sizes(node):
                return []
            positions = self._inside(node, positions)
        return [_task(source, positions) for source in node.src]

    def _lowered(self, node: UOp, positions: Positions) -> UOp:
        if node.op is Ops.LOAD:
            return self._load(node, positions)
        if isinstance(node.arg, ViewArg):
            return node.arg.tracker.index_and_valid(positions)[1]
        if isinstance(node.arg, ReduceArg):
            return self._reduce(node, node.arg, positions)
        src = tuple(self.done[_task(source, positions)] for source in node.src)
        return node if src == node.src else node.replace(src=src)

    # Memory

    def _address(self, view: UOp, positions: Positions) -> tuple[UOp, UOp]:
        if not isinstance(view.arg, ViewArg):
            raise UserError(f"kernel: {view.op.name} is no view of a buffer")
        position, valid = view.arg.tracker.index_and_valid(positions)
        return build.index(view.src[0], position), valid

    def _load(self, node: UOp, positions: Positions) -> UOp:
        address, valid = self._address(node.src[0], positions)
        if _is_const(valid, False):
            return build.const(node.dtype, 0)
        if _is_const(valid, True):
            return build.load(address)
        return build.load(address, valid, 0)

    # Reduces

    def _inside(self, node: UOp, positions: Positions) -> Positions:
        """The positions inside the loops of a REDUCE.

        Reduces over the same axes share loops, unless one may need the other's result: that one
        is nested deeper in the AST.
        """
        axes = _axes(node)
        key = (positions, axes, reduced_sizes(node), _depth(node))
        found = self.loops.get(key)
        if found is None:
            inside = list(positions)
            for axis, size in zip(axes, key[2], strict=True):
                inside[axis] = self.counter(size, AxisKind.REDUCE)
            found = tuple(inside)
            self.loops[key] = found
        return found

    def _reduce(self, node: UOp, arg: ReduceArg, positions: Positions) -> UOp:
        if 0 in reduced_sizes(node):
            return build.const(node.dtype, reduce_identity(arg.op, node.dtype))
        inside = self._inside(node, positions)
        ranges = tuple(inside[axis] for axis in arg.axes if inside[axis].op is Ops.RANGE)
        value = self.done[_task(node.src[0], inside)]
        if not ranges:
            return value
        return UOp(Ops.REDUCE, node.dtype, (value, *ranges), ReduceArg(arg.op))


def _task(node: UOp, positions: Positions) -> tuple[UOp, Positions]:
    """`node` with the positions that matter to it: along an axis of size 1 there is but one.

    So a reduced value that is used all along its axis is computed once.
    """
    shape = kernel_shape(node)
    if not shape:
        return node, ()
    return node, tuple(
        ZERO if isinstance(size, int) and size == 1 else position
        for size, position in zip(shape, positions, strict=True)
    )


def _axes(node: UOp) -> tuple[int, ...]:
    return node.arg.axes if isinstance(node.arg, ReduceArg) else ()


@node_fact
def _depth(node: UOp) -> int:
    """How many reduces are nested in the value of `node`, itself included."""
    below = max((_depth(source) for source in node.src), default=0)
    return below + (node.op is Ops.REDUCE)


def _is_const(node: UOp, value: bool) -> bool:
    return isinstance(node.arg, ConstArg) and node.arg.value is value
