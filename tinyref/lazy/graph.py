"""Builders of the tensor graph: each checks its arguments, folds constants and drops no-ops.

The nodes that they return are immutable and shared; nothing is computed before `engine.realize`.
A moved constant stays a constant. So a constant of any shape is a CONST, a RESHAPE of it to ones,
and an EXPAND of the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.sizes import are_equal, constraints_of, is_certain, require
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
    """Return `value` in `dtype` with shape (): integers wrap, floats round. Raises `UserError`."""
    if dtype not in dtypes.all and dtype is not dtypes.index:
        raise UserTypeError(f"constant: {dtype.name} has no constants: use a scalar type")
    return build.const(dtype, value)


def full_like(x: UOp, value: ConstType) -> UOp:
    """Return a constant of the shape and dtype of `x`."""
    return full(shape_of(x), value, x.dtype)


def iota(size: sint) -> UOp:
    """Return the numbers 0, 1, 2 ... `size` - 1, of shape (size,), without memory or device.

    They are int32, or int64 for more elements. Raises `UserError` for a negative size, or a size
    that may exceed the largest int64.
    """
    sizes = as_shape((size,), "iota")
    dtype = counting_dtype(sizes[0])
    if sizes[0] in (0, 1):
        return full(sizes, 0, dtype)
    return UOp(Ops.IOTA, dtype, (), ShapeArg(sizes))


def counting_dtype(size: sint) -> DType:
    """Return the type that numbers `size` elements: int32, or int64 if int32 is not enough."""
    most = largest_size((size,))
    if most > dtypes.int64.maximum:
        raise UserError(
            f"iota: {describe(size)} may be {most} elements: accepted are sizes up to "
            f"{dtypes.int64.maximum}, the largest int64"
        )
    return dtypes.int32 if most <= dtypes.int32.maximum else dtypes.int64


def bind(variable: UOp, value: int) -> UOp:
    """Return a symbolic variable with its value for this run, to be used as a size or a scalar.

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
    """Return a new buffer of `shape`: a BUFFER under a RESHAPE, with memory not yet allocated.

    A symbolic shape gets memory for its largest size, and uses the first part of it.
    """
    sizes = as_shape(shape, "shape")
    return window(new_buffer_node(device, largest_size(sizes), dtype), sizes)


# --- arithmetic ---------------------------------------------------------------------------------


def alu(op: Ops, *sources: UOp) -> UOp:
    """Apply an operation to each element of sources of one shape; a scalar source is expanded.

    Raises `UserError` for shapes, dtypes or devices that do not fit. CAST and BITCAST need a target
    type, so they have builders of their own.
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
    """Return `if_true` where `condition` is true, else `if_false`; all have one shape."""
    return alu(Ops.WHERE, condition, if_true, if_false)


def spread(x: UOp, shape: Sequence[sint]) -> UOp:
    """Repeat a node of shape () at every position of `shape`."""
    return expand(reshape(x, (1,) * len(shape)), shape)


def _common_shape(op: Ops, sources: tuple[UOp, ...]) -> tuple[sint, ...]:
    if not sources:
        raise UserError(f"{op.name}: got no operands")
    shapes = [shape_of(source) for source in sources]
    shape = next((other for other in shapes if other != ()), ())
    for other in shapes:
        if other not in (shape, ()):
            raise UserError(
                f"{op.name}: shapes {describe_shape(shape)} and {describe_shape(other)} differ: "
                "expand one of them first"
            )
    return shape


def _result_dtype(op: Ops, src: tuple[UOp, ...]) -> DType:
    if op in (Ops.CMPLT, Ops.CMPNE):
        return dtypes.bool
    return src[1].dtype if op is Ops.WHERE and len(src) > 1 else src[0].dtype


def _check_types(node: UOp) -> None:
    """Raise `UserError` with the message of the op table."""
    problem = OP_TABLE[node.op].check(node)
    if problem is not None:
        raise UserTypeError(problem)


def cast(x: UOp, dtype: DType) -> UOp:
    """Convert the values of `x` to `dtype`."""
    if x.dtype is dtype:
        return x
    return _cast(Ops.CAST, x, dtype)


def bitcast(x: UOp, dtype: DType) -> UOp:
    """Read the bits of `x` as `dtype`. Raises `UserError` unless the sizes are equal.

    If the device only holds data, the sizes may differ: the last axis changes its size.
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
    """Replace a movement of a constant, or one that leaves no elements, by a constant.

    A movement that is legal only for some values of its variables stays, so that it can be checked
    again for other values.
    """
    if not is_certain(node):
        return node
    shape = shape_of(node)
    value = uniform_value(node)
    if value is None and is_empty(shape) and node.op is not Ops.RESHAPE:
        value = 0
    return node if value is None else full(shape, value, node.dtype)


def _uncertain(node: UOp) -> UOp | None:
    """Return `node` if its sizes are legal only for some values of variables, else None.

    Such a node stays unchanged, so that its sizes can be checked again for other values. Raises
    `UserError` if they are illegal for the bound values.
    """
    if is_certain(node):
        return None
    require(constraints_of(node))
    return node


def reshape(x: UOp, shape: Sequence[sint]) -> UOp:
    """Give the elements of `x`, in order, another shape. Raises `UserError` if sizes differ."""
    sizes = as_shape(shape, "reshape")
    have = shape_of(x)
    if sizes == have:
        return x
    count, new_count = product(have), product(sizes)
    if not are_equal(count, new_count):
        raise UserError(
            f"reshape: {describe_shape(have)} has {describe(count)} elements, "
            f"{describe_shape(sizes)} has {describe(new_count)}: they must be equal"
        )
    if x.op is Ops.RESHAPE and is_certain(x):
        return reshape(x.src[0], sizes)
    return _fold_movement(UOp(Ops.RESHAPE, x.dtype, (x,), ShapeArg(sizes)))


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """Make axis `order[i]` of `x` axis i of the result."""
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
    """Repeat axes of size 1. Raises `UserError` for any other change of size."""
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
    """Add (before, after) zeros to each axis of `x`."""
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
    """Take the elements from `begin` to `end` of each axis, end excluded."""
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
        part, part_shape, rest = stored
        return shrink(reshape(part, part_shape), rest)
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
    """Shrink padded `x` to `bounds`, if the result is padding alone or has none; else None."""
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
    """Reverse these axes of `x`."""
    shape = shape_of(x)
    numbers = {check_axis(axis, len(shape), "flip") for axis in axes}
    if len(numbers) != len(axes):
        raise UserError(f"flip: axes {tuple(axes)} name one twice")
    reversed_axes = tuple(sorted(axis for axis in numbers if shape[axis] != 1))
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
    """Reduce `x` by ADD, MUL or MAX over `axes`, which stay as size 1.

    The result has the dtype of `x`; a reduction of no elements is the identity of `op`.
    """
    if op not in REDUCING:
        accepted = ", ".join(sorted(known.name for known in REDUCING))
        raise UserError(f"reduce: {op.name} does not reduce: accepted are {accepted}")
    shape = shape_of(x)
    numbers = sorted({check_axis(axis, len(shape), "reduce") for axis in axes})
    if len(numbers) != len(axes):
        raise UserError(f"reduce: axes {tuple(axes)} name one twice")
    reduced = tuple(1 if axis in numbers else size for axis, size in enumerate(shape))
    node = UOp(Ops.REDUCE, x.dtype, (x,), ReduceArg(op, tuple(numbers)))
    _check_types(node)
    folded = _fold_reduce(op, x, numbers, reduced)
    if folded is not None:
        return folded
    remaining = tuple(axis for axis in numbers if shape[axis] != 1)
    if not remaining:
        return x
    if x.op is Ops.REDUCE and isinstance(x.arg, ReduceArg) and x.arg.op is op:
        remaining = tuple(sorted({*x.arg.axes, *remaining}))
        x = x.src[0]
    return UOp(Ops.REDUCE, x.dtype, (x,), ReduceArg(op, remaining))


def _fold_reduce(op: Ops, x: UOp, axes: list[int], reduced: tuple[sint, ...]) -> UOp | None:
    if is_empty(reduced):
        return full(reduced, 0, x.dtype)
    shape = shape_of(x)
    count = product(shape[axis] for axis in axes)
    value = uniform_value(x)
    if value is None:
        value = 0 if count == 0 else None
    if value is None or not isinstance(count, int):
        return None
    result = fold_reduce(op, as_const(value, x.dtype), count, x.dtype)
    return None if result is None else full(reduced, result, x.dtype)


# --- placement ----------------------------------------------------------------------------------


def copy(x: UOp, device: str) -> UOp:
    """Copy `x` to another device; constants are on every device, and views follow the copy.

    A device that only holds data gets all elements in order, also for a constant.
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
    """Copy `x` to a device that only holds data; another device computes it first."""
    if only_holds_data(x) and backing(x) is None:
        x = copy(x, Device.default)
    if device_of(x) is None:
        x = UOp(Ops.CONTIGUOUS, x.dtype, (x,))
    return UOp(Ops.COPY, x.dtype, (x,), CopyArg(target))


def contiguous(x: UOp) -> UOp:
    """Give `x` memory of its own, in row-major order; a buffer has this already."""
    if is_contiguous(x):
        return x
    return UOp(Ops.CONTIGUOUS, x.dtype, (x,))


def is_contiguous(x: UOp) -> bool:
    """Return True if `x` is a node, maybe reshaped, that has memory of its own once realised."""
    if backing(x) is not None:
        return True
    while x.op is Ops.RESHAPE:
        x = x.src[0]
    return x.op in (Ops.COPY, Ops.CONTIGUOUS)


def backing(x: UOp) -> UOp | None:
    """Return the BUFFER whose first elements, in order, are the elements of `x`; else None.

    Every realised node has this form: a BUFFER, shrunk to the used part if the shape is symbolic,
    and then reshaped. It may also be detached.
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
    """Return the first elements of a BUFFER as `shape`; `backing` is the inverse."""
    used = product(shape)
    if used != shape_of(buffer)[0]:
        buffer = UOp(Ops.SHRINK, buffer.dtype, (buffer,), BoundsArg(((0, used),)))
    return reshape(buffer, shape)


def detach(x: UOp) -> UOp:
    """Return `x` as a node through which no gradient flows."""
    return x if x.op is Ops.DETACH else UOp(Ops.DETACH, x.dtype, (x,))


def assign(target: UOp, value: UOp) -> UOp:
    """Write `value` to `target`, a view of a buffer; return the target after the write.

    Shapes and dtypes must be equal. Raises `UserError` if the target is no buffer, or a view that
    repeats or pads one.
    """
    base = target
    while base.op in MOVEMENT:
        if base.op in (Ops.EXPAND, Ops.PAD):
            raise UserError(
                f"assign: the target goes through {base.op.name}: assign to a buffer itself"
            )
        base = base.src[0]
    # The target of an ASSIGN was checked when that ASSIGN was built.
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
