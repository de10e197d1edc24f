"""Builders of the tensor graph: each checks its arguments, folds constants and drops no-ops.

The nodes they return are immutable and shared; nothing is computed before `engine.realize`.
Movement of a constant stays a constant, so a constant of any shape is a CONST, a RESHAPE of it to
ones, and an EXPAND of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.sizes import constraints_of, holds, is_certain, require
from tinyref.algebra.symbolic import as_size, at_most, lift, lower
from tinyref.device import Device
from tinyref.dtype import ConstType, DType, as_const, dtypes
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy.buffers import new_buffer_node, only_holds_data, stored_bits, stored_window
from tinyref.lazy.folding import (
    absorbing_value,
    fold_alu,
    fold_reduce,
    full,
    same_as_operand,
    shows_constant,
    uniform_value,
)
from tinyref.lazy.shape import (
    as_shape,
    check_axis,
    check_one_device,
    describe,
    describe_shape,
    device_of,
    is_empty,
    largest_size,
    product,
    shape_of,
)
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, MOVEMENT, REDUCING, Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    FlipArg,
    PermuteArg,
    ReduceArg,
    ShapeArg,
    VarArg,
)

# Defined elsewhere, and part of this module for its users.
__all__ = ["device_of", "full", "shape_of", "uniform_value"]

Bounds = Sequence[tuple[sint, sint]]


def constant(value: ConstType, dtype: DType) -> UOp:
    """`value` in `dtype`, of shape (): integers wrap, floats round. Raises `UserError`."""
    if dtype not in dtypes.all and dtype is not dtypes.index:
        raise UserTypeError(f"constant: {dtype.name} has no constants: use a scalar type")
    return build.const(dtype, value)


def full_like(x: UOp, value: ConstType) -> UOp:
    """A constant of the shape and dtype of `x`."""
    return full(shape_of(x), value, x.dtype)


def iota(size: sint) -> UOp:
    """The numbers 0, 1, 2 ... `size` - 1: of shape (size,), without memory or device.

    They are int32, or int64 for more elements. Raises `UserError` for a negative size, or one that
    may be more than int64 can number.
    """
    sizes = as_shape((size,), "iota")
    dtype = counting_dtype(sizes[0])
    if sizes[0] in (0, 1):
        return full(sizes, 0, dtype)
    return UOp(Ops.IOTA, dtype, (), ShapeArg(sizes))


def counting_dtype(size: sint) -> DType:
    """Return the type that numbers `size` elements: int32, or int64 where that is not enough."""
    most = largest_size((size,))
    if most > dtypes.int64.maximum:
        raise UserError(
            f"iota: {describe(size)} may be {most} elements: accepted are sizes up to "
            f"{dtypes.int64.maximum}, the largest int64"
        )
    return dtypes.int32 if most <= dtypes.int32.maximum else dtypes.int64


def bind(variable: UOp, value: int) -> UOp:
    """A symbolic variable with its value for this run: usable as a size and as a scalar.

    Raises `UserError` for a value outside the variable's bounds.
    """
    argument = variable.arg
    if variable.op is not Ops.DEFINE_VAR or not isinstance(argument, VarArg):
        raise UserTypeError(f"bind: got {variable.op.name}, accepted is a variable")
    if type(value) is not int or not argument.minimum <= value <= argument.maximum:
        bounds = f"{argument.minimum} to {argument.maximum}"
        raise UserError(f"bind: {value!r} for variable {argument.name}: accepted are {bounds}")
    return UOp(Ops.BIND, variable.dtype, (variable, build.const(variable.dtype, value)))


def new_buffer(device: str, shape: Sequence[sint], dtype: DType) -> UOp:
    """A fresh, unwritten buffer of `shape`: BUFFER under a RESHAPE, memory not yet allocated.

    A symbolic shape gets memory for its largest size, and uses the first part of it.
    """
    sizes = as_shape(shape, "shape")
    return window(new_buffer_node(device, largest_size(sizes), dtype), sizes)


# --- arithmetic ---------------------------------------------------------------------------------


def alu(op: Ops, *sources: UOp) -> UOp:
    """An operation on each element of sources of one shape; a source of shape () is expanded.

    Raises `UserError` for shapes, dtypes or devices that do not fit. CAST and BITCAST, which need a
    target, have builders of their own.
    """
    if op not in ALU or op in (Ops.CAST, Ops.BITCAST):
        raise UserError(f"alu: {op.name} is not an operation on elements")
    shape = _common_shape(op, sources)
    src = tuple(
        source if shape_of(source) == shape else spread(source, shape) for source in sources
    )
    check_one_device(op.name, src)
    node = UOp(op, _result_dtype(op, src), src)
    _check_types(node)
    if is_empty(shape):
        return full(shape, 0, node.dtype)
    value = fold_alu(op, node.dtype, src)
    value = absorbing_value(op, src) if value is None else value
    if value is not None:
        return full(shape, value, node.dtype)
    unchanged = same_as_operand(op, src)
    return node if unchanged is None else unchanged


def where(condition: UOp, if_true: UOp, if_false: UOp) -> UOp:
    """`if_true` where `condition` holds, else `if_false`; all of one shape."""
    return alu(Ops.WHERE, condition, if_true, if_false)


def spread(x: UOp, shape: Sequence[sint]) -> UOp:
    """A node of shape () in every place of `shape`."""
    return expand(reshape(x, (1,) * len(shape)), shape)


def _common_shape(op: Ops, sources: tuple[UOp, ...]) -> tuple[sint, ...]:
    if not sources:
        raise UserError(f"{op.name}: got no operands")
    shapes = [shape_of(source) for source in sources]
    shape = next((found for found in shapes if found != ()), ())
    for found in shapes:
        if found not in (shape, ()):
            raise UserError(
                f"{op.name}: shapes {describe_shape(shape)} and {describe_shape(found)} differ: "
                "expand one of them first"
            )
    return shape


def _result_dtype(op: Ops, src: tuple[UOp, ...]) -> DType:
    if op in (Ops.CMPLT, Ops.CMPNE):
        return dtypes.bool
    return src[1].dtype if op is Ops.WHERE and len(src) > 1 else src[0].dtype


def _check_types(node: UOp) -> None:
    """Raises `UserError` with the op table's own sentence."""
    problem = OP_TABLE[node.op].check(node)
    if problem is not None:
        raise UserTypeError(problem)


def cast(x: UOp, dtype: DType) -> UOp:
    """The values of `x` in `dtype`."""
    if x.dtype is dtype:
        return x
    return _cast(Ops.CAST, x, dtype)


def bitcast(x: UOp, dtype: DType) -> UOp:
    """The bits of `x` read as `dtype`. Raises `UserError` unless the sizes are equal.

    Where the device only holds data they may differ: the last axis shrinks or grows.
    """
    if x.dtype is dtype:
        return x
    stored = stored_bits(x, dtype)
    if stored is not None:
        return reshape(*stored)
    if x.dtype.itemsize != dtype.itemsize:
        raise UserError(
            f"bitcast: {x.dtype.name} has {x.dtype.itemsize} bytes and {dtype.name} "
            f"has {dtype.itemsize}: accepted are dtypes of equal size"
        )
    return _cast(Ops.BITCAST, x, dtype)


def _cast(op: Ops, x: UOp, dtype: DType) -> UOp:
    node = UOp(op, dtype, (x,))
    _check_types(node)
    shape = shape_of(x)
    if is_empty(shape):
        return full(shape, 0, dtype)
    value = fold_alu(op, dtype, (x,))
    if value is None and shows_constant(x):
        # Padding is zero in every type.
        return x.replace(dtype=dtype, src=(_cast(op, x.src[0], dtype),))
    return node if value is None else full(shape, value, dtype)


# --- movement -----------------------------------------------------------------------------------


def _fold_movement(node: UOp) -> UOp:
    """A movement of a constant, or one that leaves no elements, is a constant itself.

    Not where it is only possible for some values of its variables, which are to be looked at again.
    """
    if not is_certain(node):
        return node
    shape = shape_of(node)
    value = uniform_value(node)
    if value is None and is_empty(shape) and node.op is not Ops.RESHAPE:
        value = 0
    return node if value is None else full(shape, value, node.dtype)


def _uncertain(node: UOp) -> UOp | None:
    """`node` where its sizes are only possible for some values of their variables, bound to one.

    It stays as it is, so that they can be looked at again. Raises `UserError` for other values.
    """
    if is_certain(node):
        return None
    require(constraints_of(node))
    return node


def reshape(x: UOp, shape: Sequence[sint]) -> UOp:
    """The elements of `x`, in order, in another shape. Raises `UserError` if sizes differ."""
    sizes = as_shape(shape, "reshape")
    have = shape_of(x)
    if sizes == have:
        return x
    count, wanted = lift(product(have)), lift(product(sizes))
    if not (holds(count, wanted) and holds(wanted, count)):
        raise UserError(
            f"reshape: {describe_shape(have)} has {describe(product(have))} elements, "
            f"{describe_shape(sizes)} has {describe(product(sizes))}: they must be equal"
        )
    if x.op is Ops.RESHAPE and is_certain(x):
        return reshape(x.src[0], sizes)
    return _fold_movement(UOp(Ops.RESHAPE, x.dtype, (x,), ShapeArg(sizes)))


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """Axis i of the result is axis `order[i]` of `x`."""
    shape = shape_of(x)
    axes = tuple(check_axis(axis, len(shape), "permute") for axis in order)
    if sorted(axes) != list(range(len(shape))):
        raise UserError(
            f"permute: order {axes} does not name each of the {len(shape)} axes exactly once"
        )
    if axes == tuple(range(len(shape))):
        return x
    value = uniform_value(x)
    if value is not None:
        return full([shape[axis] for axis in axes], value, x.dtype)
    if x.op is Ops.PERMUTE and isinstance(x.arg, PermuteArg):
        inner = x.arg.order
        return permute(x.src[0], [inner[axis] for axis in axes])
    return UOp(Ops.PERMUTE, x.dtype, (x,), PermuteArg(axes))


def expand(x: UOp, shape: Sequence[sint]) -> UOp:
    """`x` with axes of size 1 repeated. Raises `UserError` for any other change of size."""
    sizes = as_shape(shape, "expand")
    have = shape_of(x)
    if len(sizes) != len(have):
        raise UserError(
            f"expand: {describe_shape(have)} has {len(have)} axes and {describe_shape(sizes)} "
            f"has {len(sizes)}: reshape first"
        )
    for axis, (old, new) in enumerate(zip(have, sizes, strict=True)):
        if old not in (new, 1):
            raise UserError(
                f"expand: cannot grow axis {axis} from {describe(old)} to {describe(new)}: "
                "only axes of size 1 expand"
            )
    if sizes == have:
        return x
    if x.op is Ops.EXPAND and is_certain(x):
        x = x.src[0]
    return _fold_movement(UOp(Ops.EXPAND, x.dtype, (x,), ShapeArg(sizes)))


def pad(x: UOp, bounds: Bounds) -> UOp:
    """`x` with (before, after) zeros added per axis."""
    pairs = _pairs("pad", x, bounds)
    shape = shape_of(x)
    for axis, (before, after) in enumerate(pairs):
        if isinstance(before, int) and isinstance(after, int) and min(before, after) < 0:
            raise UserError(
                f"pad: axis {axis} gets ({before}, {after}): "
                "accepted are counts of 0 and more; shrink takes elements away"
            )
    if all(pair == (0, 0) for pair in pairs):
        return x
    uncertain = _uncertain(UOp(Ops.PAD, x.dtype, (x,), BoundsArg(pairs)))
    if uncertain is not None:
        return uncertain
    sizes = [
        lower(lift(size) + lift(before) + lift(after))
        for size, (before, after) in zip(shape, pairs, strict=True)
    ]
    zero = as_const(0, x.dtype)
    if is_empty(shape) or is_empty(sizes) or _is_zero(x):
        return full(sizes, zero, x.dtype)
    if x.op is Ops.PAD and isinstance(x.arg, BoundsArg) and is_certain(x):
        pairs = tuple(
            (lower(lift(before) + lift(a)), lower(lift(after) + lift(b)))
            for (before, after), (a, b) in zip(x.arg.bounds, pairs, strict=True)
        )
        x = x.src[0]
    return UOp(Ops.PAD, x.dtype, (x,), BoundsArg(pairs))


def shrink(x: UOp, bounds: Bounds) -> UOp:
    """The elements from `begin` to before `end` of each axis, as (begin, end) per axis."""
    pairs = _pairs("shrink", x, bounds)
    shape = shape_of(x)
    for axis, (size, (begin, end)) in enumerate(zip(shape, pairs, strict=True)):
        steps = [step for step in (0, begin, end, size) if isinstance(step, int)]
        if any(low > high for low, high in itertools.pairwise(steps)):
            raise UserError(
                f"shrink: axis {axis} of size {describe(size)} cannot keep {describe(begin)} to "
                f"{describe(end)}: accepted is 0 <= begin <= end <= {describe(size)}"
            )
    if all(pair == (0, size) for size, pair in zip(shape, pairs, strict=True)):
        return x
    uncertain = _uncertain(UOp(Ops.SHRINK, x.dtype, (x,), BoundsArg(pairs)))
    if uncertain is not None:
        return uncertain
    sizes = [lower(lift(end) - lift(begin)) for begin, end in pairs]
    value = uniform_value(x)
    if value is not None or is_empty(sizes):
        return full(sizes, 0 if value is None else value, x.dtype)
    stored = stored_window(x, pairs)
    if stored is not None:
        part, kept, rest = stored
        return shrink(reshape(part, kept), rest)
    if x.op is Ops.PAD and isinstance(x.arg, BoundsArg) and is_certain(x):
        unpadded = _without_padding(x.src[0], x.arg.bounds, pairs)
        if unpadded is not None:
            return unpadded
    if x.op is Ops.SHRINK and isinstance(x.arg, BoundsArg) and is_certain(x):
        pairs = tuple(
            (lower(lift(first) + lift(begin)), lower(lift(first) + lift(end)))
            for (first, _), (begin, end) in zip(x.arg.bounds, pairs, strict=True)
        )
        x = x.src[0]
    return UOp(Ops.SHRINK, x.dtype, (x,), BoundsArg(pairs))


def _without_padding(x: UOp, padding: Bounds, bounds: Bounds) -> UOp | None:
    """What `bounds` keep of padded `x`, where that is padding alone or has none; else None."""
    inside = []
    for size, (before, _), (begin, end) in zip(shape_of(x), padding, bounds, strict=True):
        first, last = lift(begin) - lift(before), lift(end) - lift(before)
        if at_most(last, 0) or at_most(lift(size), first):
            sizes = [lower(lift(end) - lift(begin)) for begin, end in bounds]
            return full(sizes, 0, x.dtype)
        if not (at_most(0, first) and at_most(last, lift(size))):
            return None
        inside.append((lower(first), lower(last)))
    return shrink(x, inside)


def flip(x: UOp, axes: Sequence[int]) -> UOp:
    """`x` with the given axes reversed."""
    shape = shape_of(x)
    wanted = {check_axis(axis, len(shape), "flip") for axis in axes}
    if len(wanted) != len(axes):
        raise UserError(f"flip: axes {tuple(axes)} name one twice")
    reversed_axes = tuple(sorted(axis for axis in wanted if shape[axis] != 1))
    if not reversed_axes or uniform_value(x) is not None:
        return x
    if x.op is Ops.FLIP and isinstance(x.arg, FlipArg):
        return flip(x.src[0], sorted(set(x.arg.axes) ^ set(reversed_axes)))
    return UOp(Ops.FLIP, x.dtype, (x,), FlipArg(reversed_axes))


def _is_zero(x: UOp) -> bool:
    value = uniform_value(x)
    return value is not None and str(value) in ("0", "0.0", "False")


def _pairs(name: str, x: UOp, bounds: Bounds) -> tuple[tuple[sint, sint], ...]:
    rank = len(shape_of(x))
    if len(bounds) != rank:
        raise UserError(f"{name}: got {len(bounds)} pairs for {rank} axes: give one pair per axis")
    try:
        pairs = [(first, second) for first, second in bounds]
    except (TypeError, ValueError):
        raise UserTypeError(f"{name}: {bounds!r} is not a sequence of pairs") from None
    return tuple((as_size(first, name), as_size(second, name)) for first, second in pairs)


# --- reduction ----------------------------------------------------------------------------------


def reduce(op: Ops, x: UOp, axes: Sequence[int]) -> UOp:
    """`x` summed (ADD), multiplied (MUL) or maximised (MAX) over `axes`, which stay as size 1.

    The result keeps the dtype of `x`; nothing to reduce gives the identity of `op`.
    """
    if op not in REDUCING:
        accepted = ", ".join(sorted(known.name for known in REDUCING))
        raise UserError(f"reduce: {op.name} does not reduce: accepted are {accepted}")
    shape = shape_of(x)
    wanted = sorted({check_axis(axis, len(shape), "reduce") for axis in axes})
    if len(wanted) != len(axes):
        raise UserError(f"reduce: axes {tuple(axes)} name one twice")
    kept = tuple(1 if axis in wanted else size for axis, size in enumerate(shape))
    node = UOp(Ops.REDUCE, x.dtype, (x,), ReduceArg(op, tuple(wanted)))
    _check_types(node)
    folded = _fold_reduce(op, x, wanted, kept)
    if folded is not None:
        return folded
    remaining = tuple(axis for axis in wanted if shape[axis] != 1)
    if not remaining:
        return x
    if x.op is Ops.REDUCE and isinstance(x.arg, ReduceArg) and x.arg.op is op:
        remaining = tuple(sorted({*x.arg.axes, *remaining}))
        x = x.src[0]
    return UOp(Ops.REDUCE, x.dtype, (x,), ReduceArg(op, remaining))


def _fold_reduce(op: Ops, x: UOp, axes: list[int], kept: tuple[sint, ...]) -> UOp | None:
    if is_empty(kept):
        return full(kept, 0, x.dtype)
    shape = shape_of(x)
    count = product(shape[axis] for axis in axes)
    value = uniform_value(x)
    if value is None:
        value = 0 if count == 0 else None
    if value is None or not isinstance(count, int):
        return None
    result = fold_reduce(op, as_const(value, x.dtype), count, x.dtype)
    return None if result is None else full(kept, result, x.dtype)


# --- placement ----------------------------------------------------------------------------------


def copy(x: UOp, device: str) -> UOp:
    """`x` on another device; constants live on every device, and views are made after the copy.

    A device that only holds data gets all elements in order, a constant's too.
    """
    target = Device.canonical(device)
    source = device_of(x)
    if source == target:
        return x
    if not Device.runs_kernels(target):
        return _held_copy(x, target)
    if source is None:
        return x
    if is_empty(shape_of(x)):
        return full(shape_of(x), 0, x.dtype)
    # These keep or repeat elements, so the copy below them is no larger.
    after = {Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.FLIP}
    if only_holds_data(x):
        # Nothing can be computed before the copy.
        after |= {Ops.SHRINK, Ops.PAD, Ops.BITCAST, Ops.DETACH}
    if x.op in after:
        return x.replace(src=(copy(x.src[0], target),))
    return UOp(Ops.COPY, x.dtype, (x,), CopyArg(target))


def _held_copy(x: UOp, target: str) -> UOp:
    """`x` in memory that only holds data: computed elsewhere before."""
    if only_holds_data(x) and backing(x) is None:
        x = copy(x, Device.default)
    if device_of(x) is None:
        x = UOp(Ops.CONTIGUOUS, x.dtype, (x,))
    return UOp(Ops.COPY, x.dtype, (x,), CopyArg(target))


def contiguous(x: UOp) -> UOp:
    """`x` with memory of its own, in order; a buffer already has that."""
    if is_contiguous(x):
        return x
    return UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def is_contiguous(x: UOp) -> bool:
    """True where `x` is, up to its shape, a node that has memory of its own once realised."""
    if backing(x) is not None:
        return True
    while x.op is Ops.RESHAPE:
        x = x.src[0]
    return x.op in (Ops.COPY, Ops.CONTIGUOUS)


def backing(x: UOp) -> UOp | None:
    """The BUFFER whose first elements, in order, are those of `x`; None if `x` is no such view.

    This is the form of every realised node: a BUFFER, reshaped, and before that cut down to the
    part in use where the shape is symbolic; detached it is the same.
    """
    while x.op is Ops.DETACH or (x.op is Ops.RESHAPE and (is_certain(x) or _keeps_count(x))):
        x = x.src[0]
    if x.op is Ops.SHRINK and x.src[0].op is Ops.BUFFER and isinstance(x.arg, BoundsArg):
        begin, end = x.arg.bounds[0]
        if begin != 0 or isinstance(end, int):
            return None
        return x.src[0] if at_most(lift(end), lift(shape_of(x.src[0])[0])) else None
    return x if x.op is Ops.BUFFER else None


def _keeps_count(reshaped: UOp) -> bool:
    return bool(product(shape_of(reshaped)) == product(shape_of(reshaped.src[0])))


def window(buffer: UOp, shape: Sequence[sint]) -> UOp:
    """The first elements of a BUFFER seen as `shape`: what `backing` takes apart."""
    used = product(shape)
    if used != shape_of(buffer)[0]:
        buffer = UOp(Ops.SHRINK, buffer.dtype, (buffer,), BoundsArg(((0, used),)))
    return reshape(buffer, shape)


def detach(x: UOp) -> UOp:
    """`x`, through which no gradient flows."""
    return x if x.op is Ops.DETACH else UOp(Ops.DETACH, x.dtype, (x,))


def assign(target: UOp, value: UOp) -> UOp:
    """`target`, a view of a buffer, after `value` was written to it.

    Shapes and dtypes must be equal. Raises `UserError` where the target is no buffer, or a view
    that repeats or pads one.
    """
    base = target
    while base.op in MOVEMENT:
        if base.op in (Ops.EXPAND, Ops.PAD):
            raise UserError(
                f"assign: the target goes through {base.op.name}: assign to a buffer itself"
            )
        base = base.src[0]
    # What an ASSIGN wrote to was looked at when that was made.
    if base.op not in (Ops.BUFFER, Ops.ASSIGN):
        raise UserError(f"assign: the target is a {base.op.name}, accepted is a buffer: realise it")
    shape = shape_of(target)
    if shape_of(value) == () and shape != ():
        value = spread(value, shape)
    if shape_of(value) != shape:
        raise UserError(
            f"assign: shape {describe_shape(shape_of(value))} does not fit the target's "
            f"{describe_shape(shape)}: they must be equal"
        )
    if value.dtype is not target.dtype:
        raise UserTypeError(
            f"assign: {value.dtype.name} does not fit the target's {target.dtype.name}: cast it"
        )
    check_one_device("assign", (target, value))
    if is_empty(shape):
        return target
    return UOp(Ops.ASSIGN, target.dtype, (target, value))
