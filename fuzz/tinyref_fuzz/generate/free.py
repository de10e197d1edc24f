"""Expressions that no rule asked for, of counters and of values in narrow ranges.

What a rule matches stands alone in an instance. Here its result is what the next one looks at, and
what is known of a range decides often: of a counter along an axis it is known to the last number.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from random import Random

from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.values import Shape, Value, full_range, value_in_range
from tinyref_spec.proofs.expressions import drawn_over, wrapping

# So many are drawn for one of which all is specified.
TRIES = 3
# Most leaves of an expression.
MAX_LEAVES = 3
# So many of 100 are of indices, which do not wrap, where the sizes of axes are known.
OF_INDICES = 45
# Of the others so many of 100 are sums that just wrap, or just do not, split into terms.
WRAPPING = 15
# What is added to a counter.
OFFSETS = (0, 0, 0, 1, 4, -1, -3, -8)
# The first and the last number of a narrow range.
SPANS = ((0, 1), (0, 3), (0, 7), (0, 11), (1, 4), (4, 7), (-3, 3), (-8, -1), (-4, -1), (-1, 5))
# An index is multiplied so often at most: what comes of it is far from what 32 bits hold.
MAX_PRODUCTS = 3
_PRODUCTS = frozenset({Ops.MUL, Ops.SHL})
_DIVISIONS = frozenset({Ops.IDIV, Ops.MOD})


@functools.cache
def wrapping_of(dtype: DType) -> tuple[UOp, ...]:
    """Sums of a type that just wrap, or just do not, split into terms; over variables."""
    return tuple(wrapping((dtype,)))


def free_expression(draw: Expressions, shape: Shape) -> Value | None:
    """An expression over up to three leaves of one type; None for what is not specified.

    An index is stored as an int32. Shapes are of fixed sizes, or no index is among the leaves.
    """
    kernel, tape = draw.kernel, draw.tape
    dtype = _type_of_leaves(draw, shape)
    if dtype is None:
        return None
    for _ in range(TRIES):
        if dtype is not dtypes.index and tape.chance(WRAPPING):
            node = _wrapping(draw, shape, dtype)
        else:
            leaves = _leaves(draw, shape, dtype)
            node = drawn_over(leaves, Random(tape.below(1 << 16)))
        if is_specified(node, kernel.dtypes):
            break
    else:
        return None
    node = build.cast(node, dtypes.int32) if node.dtype is dtypes.index else node
    return value_in_range(kernel.mode, node, shape, *full_range(node.dtype))


def expression_leaves(draw: Expressions, shape: Shape) -> list[UOp] | None:
    """Up to three leaves of one type, as of `free_expression`; None where no type fits."""
    dtype = _type_of_leaves(draw, shape)
    return None if dtype is None else _leaves(draw, shape, dtype)


def _type_of_leaves(draw: Expressions, shape: Shape) -> DType | None:
    """An integer type of the kernel or, where sizes are known, that of indices."""
    kernel = draw.kernel
    integers = [dtype for dtype in kernel.dtypes if dtype in dtypes.ints]
    if not integers:
        return None
    is_fixed = all(isinstance(size, int) for size in shape)
    if is_fixed and kernel.has(dtypes.int32) and draw.tape.chance(OF_INDICES):
        return dtypes.index
    return draw.tape.pick(integers, [draw.policy.dtypes.get(dtype, 1) for dtype in integers])


def _leaves(draw: Expressions, shape: Shape, dtype: DType) -> list[UOp]:
    return [_leaf(draw, shape, dtype) for _ in range(draw.tape.between(1, MAX_LEAVES))]


def _wrapping(draw: Expressions, shape: Shape, dtype: DType) -> UOp:
    """A sum that just wraps, or just does not, split into terms."""
    node = draw.tape.pick(wrapping_of(dtype))
    values = {}
    for leaf in node.toposort():
        if isinstance(leaf.arg, VarArg):
            low, high = int(leaf.arg.minimum), int(leaf.arg.maximum)
            values[leaf] = _in_range(_any(draw, shape, dtype), low, high)
    return substitute(node, values)


def is_specified(node: UOp, types: Sequence[DType]) -> bool:
    """Whether it is of the device's types, and no quotient or index leaves its type."""
    nodes = [each for each in node.toposort() if each.op in ALU]
    products = sum(each.op in _PRODUCTS and each.dtype is dtypes.index for each in nodes)
    return products <= MAX_PRODUCTS and not any(
        _may_overflow(each) or each.dtype not in (*types, dtypes.index) for each in nodes
    )


def _may_overflow(node: UOp) -> bool:
    """Whether it is the quotient of an integer by -1, which the type may not hold."""
    if node.op not in _DIVISIONS or node.dtype is dtypes.index:
        return False
    divisor = node.src[1].arg
    return not isinstance(divisor, ConstArg) or divisor.value == -1


def _leaf(draw: Expressions, shape: Shape, dtype: DType) -> UOp:
    """A counter or, of other types, any value, one in a narrow range, or a counter cast."""
    tape = draw.tape
    if dtype is dtypes.index:
        return _moved(draw, counter(draw, shape))
    choice = tape.below(5)
    if choice == 0 and all(isinstance(size, int) for size in shape):
        return build.cast(counter(draw, shape), dtype)
    x = _any(draw, shape, dtype)
    if choice < 2:
        return x
    low, high = tape.pick([span for span in SPANS if span[0] >= 0 or not dtype.is_unsigned])
    return build.mod(x, high + 1) if low == -high else _in_range(x, low, high)


def _any(draw: Expressions, shape: Shape, dtype: DType) -> UOp:
    """A load, mostly of a buffer that is loaded already."""
    return draw.kernel.reused_load(shape, dtype, 0).node


def _in_range(x: UOp, low: int, high: int) -> UOp:
    """The numbers `low` to `high`, by a mask where they are a power of two, else by a remainder."""
    size, most = high - low + 1, int(x.dtype.maximum)
    if size > most:
        return x
    if size & (size - 1):
        found = build.mod(build.both(x, as_const(most, x.dtype)), size)
    else:
        found = build.both(x, as_const(size - 1, x.dtype))
    return build.add(found, as_const(low, x.dtype)) if low else found


def _moved(draw: Expressions, x: UOp) -> UOp:
    """`x`, or so much more or less than it."""
    offset = draw.tape.pick(OFFSETS)
    offset = abs(offset) if x.dtype.is_unsigned else offset
    return build.add(x, as_const(offset, x.dtype)) if offset else x


def counter(draw: Expressions, shape: Shape) -> UOp:
    """The number of each position along an axis of fixed size, or along one of two parts of it."""
    sizes = [int(size) for size in shape if isinstance(size, int)]
    axis = draw.tape.below(len(sizes))
    size = sizes[axis]
    after = draw.tape.pick([n for n in (1, 1, 2, 3, 4, 6, 8) if size % n == 0])
    parts = (*sizes[:axis], size // after, after, *sizes[axis + 1 :])
    counted = axis + draw.tape.below(2)
    ones = tuple(n if number == counted else 1 for number, n in enumerate(parts))
    return build.iota(ShapeTracker.from_shape(ones).expand(parts).reshape(shape))
