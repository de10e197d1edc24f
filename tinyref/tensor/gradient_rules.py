"""The gradient rules of the ops of the tensor graph: see `gradient.py`."""

from __future__ import annotations

import math

from tinyref.algebra.symbolic import lift, lower, product
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.tensor.arguments import inverse_order
from tinyref.tensor.core import expand, pad, reduce_over, reshape, shrink, with_rule
from tinyref.tensor.gradient import Contributions, GradientStep, gradient_rule
from tinyref.tensor.indexing import Indexing
from tinyref.tensor.movement import placed_like
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BoundsArg, FlipArg, PermuteArg, ReduceArg

# Placement


@gradient_rule(Ops.COPY)
def copy_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Move the gradient back to the device of the source."""
    return (lambda: placed_like(step.gradient, step.sources[0]),)


@gradient_rule(Ops.MULTI)
def multi_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Move the gradient back to the devices of the source."""
    return (lambda: placed_like(step.gradient, step.sources[0]),)


@gradient_rule(Ops.CONTIGUOUS)
def contiguous_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Pass the gradient on unchanged."""
    return (lambda: step.gradient,)


@gradient_rule(Ops.DETACH)
def detach_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Return no gradient."""
    return (None,)


# Movement


@gradient_rule(Ops.RESHAPE)
def reshape_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Reshape the gradient back."""
    return (lambda: reshape(step.gradient, step.sources[0].shape),)


@gradient_rule(Ops.PERMUTE)
def permute_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Permute the gradient by the inverse order."""
    assert isinstance(step.arg, PermuteArg), "PERMUTE carries its order"
    order = step.arg.order
    inverse = inverse_order(order)
    return (lambda: step.gradient.permute(inverse),)


@gradient_rule(Ops.EXPAND)
def expand_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Sum the gradient over the expanded axes."""
    have, want = step.sources[0].shape, step.output.shape
    axes = tuple(axis for axis in range(len(have)) if have[axis] != want[axis])
    return (lambda: step.gradient.sum(axes, keepdim=True),)


@gradient_rule(Ops.PAD)
def pad_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Cut the padding off the gradient."""
    assert isinstance(step.arg, BoundsArg), "PAD carries its amounts"
    amounts = step.arg.bounds
    bounds = tuple(
        (before, lower(lift(size) - lift(after)))
        for (before, after), size in zip(amounts, step.output.shape, strict=True)
    )
    return (lambda: shrink(step.gradient, bounds),)


@gradient_rule(Ops.SHRINK)
def shrink_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Pad the gradient with zeros at the positions that were cut off."""
    assert isinstance(step.arg, BoundsArg), "SHRINK carries its bounds"
    bounds = step.arg.bounds
    cut = tuple(
        (begin, lower(lift(size) - lift(end)))
        for (begin, end), size in zip(bounds, step.sources[0].shape, strict=True)
    )
    return (lambda: pad(step.gradient, cut),)


@gradient_rule(Ops.FLIP)
def flip_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Flip the gradient back."""
    assert isinstance(step.arg, FlipArg), "FLIP carries its axes"
    axes = step.arg.axes
    return (lambda: step.gradient.flip(axes),)


# Arithmetic


@gradient_rule(Ops.NEG)
def neg_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(-x) = -dx."""
    return (lambda: -step.gradient,)


@gradient_rule(Ops.RECIP, reads_output=True)
def recip_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(1/x) = -dx / x^2."""
    return (lambda: -step.gradient * step.output * step.output,)


@gradient_rule(Ops.SQRT, reads_output=True)
def sqrt_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(sqrt x) = dx / (2 sqrt x)."""
    return (lambda: step.gradient / (step.output * 2),)


@gradient_rule(Ops.EXP2, reads_output=True)
def exp2_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(2^x) = 2^x ln 2 dx."""
    return (lambda: step.gradient * step.output * math.log(2),)


@gradient_rule(Ops.LOG2, reads_sources=True)
def log2_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(log2 x) = dx / (x ln 2)."""
    return (lambda: step.gradient / (step.sources[0] * math.log(2)),)


@gradient_rule(Ops.SIN, reads_sources=True)
def sin_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(sin x) = cos x dx."""
    return (lambda: step.gradient * step.sources[0].cos(),)


@gradient_rule(Ops.TRUNC)
def trunc_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Return zero: the function is constant between its steps, and 0 is also used at a step."""
    return (step.gradient.zeros_like,)


@gradient_rule(Ops.ADD)
def add_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(x + y) = dx + dy."""
    return (lambda: step.gradient, lambda: step.gradient)


@gradient_rule(Ops.SUB)
def sub_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(x - y) = dx - dy."""
    return (lambda: step.gradient, lambda: -step.gradient)


@gradient_rule(Ops.MUL, reads_sources=True)
def mul_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(x y) = y dx + x dy."""
    x, y = step.sources
    return (lambda: step.gradient * y, lambda: step.gradient * x)


@gradient_rule(Ops.FDIV, reads_sources=True, reads_output=True)
def fdiv_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(x / y) = dx / y - (x / y) dy / y."""
    y = step.sources[1]
    return (lambda: step.gradient / y, lambda: -step.gradient * step.output / y)


@gradient_rule(Ops.POW, reads_sources=True, reads_output=True)
def pow_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(x^y) = y x^(y-1) dx + x^y ln x dy.

    x^0 is 1 for every x, so its slope in x is 0. For y > 0, 0^y is 0, so its slope in y is 0.
    """
    x, y = step.sources

    def for_base() -> Indexing:
        slope = y * x.pow(y - 1)
        return step.gradient * (y == 0).where(0, slope)

    def for_exponent() -> Indexing:
        is_flat = (x == 0) & (y >= 0)
        logarithm = is_flat.where(1, x).log()
        return step.gradient * is_flat.where(0, step.output * logarithm)

    return (for_base, for_exponent)


@gradient_rule(Ops.MAX, reads_sources=True)
def maximum_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Pass the gradient to the larger source; equal sources get half each."""
    x, y = step.sources

    def share(mine: Indexing, other: Indexing) -> Indexing:
        tied = (mine == other).where(step.gradient * 0.5, 0)
        return (mine > other).where(step.gradient, tied)

    return (lambda: share(x, y), lambda: share(y, x))


@gradient_rule(Ops.WHERE, reads_sources=True)
def where_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Pass the gradient to the selected source."""
    condition = step.sources[0]
    return (
        None,
        lambda: condition.where(step.gradient, 0),
        lambda: condition.where(0, step.gradient),
    )


@gradient_rule(Ops.MULACC, reads_sources=True)
def mulacc_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Apply d(x y + z) = y dx + x dy + dz."""
    x, y, _ = step.sources
    return (lambda: step.gradient * y, lambda: step.gradient * x, lambda: step.gradient)


@gradient_rule(Ops.CAST)
def cast_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Cast the gradient back. Integers and bools have no gradient."""
    source = step.sources[0].dtype
    return ((lambda: step.gradient.cast(source)) if source.is_float else None,)


@gradient_rule(Ops.BITCAST)
def bitcast_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Return no gradient: bits have no slope."""
    return (None,)


# Reduction


@gradient_rule(Ops.REDUCE, reads_sources=True, reads_output=True)
def reduce_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Return the gradient of a sum, a product or a maximum.

    Sum: each element gets the gradient. Product: each factor gets it times the product of the
    others, which is no NaN beside a zero. Maximum: the largest elements share it evenly.
    """
    assert isinstance(step.arg, ReduceArg), "REDUCE carries its op and axes"
    axes = step.arg.axes
    x, gradient = step.sources[0], step.gradient

    def of_maximum() -> Indexing:
        is_largest = (x == step.output).cast(gradient.dtype)
        return gradient * is_largest / is_largest.sum(axes, keepdim=True)

    rules = {
        Ops.ADD: lambda: expand(gradient, x.shape),
        Ops.MUL: lambda: gradient * _product_of_others(x, axes),
        Ops.MAX: of_maximum,
    }
    return (rules[step.arg.op],)


def _product_of_others(x: Indexing, axes: tuple[int, ...]) -> Indexing:
    """Return for each element the product of the others along `axes`.

    It divides the product of all by the element, and counts zeros. Second derivatives need its own
    gradient, which leaves one factor out of each of n products.
    """

    def product_without_one(x: Indexing) -> Indexing:
        is_zero = x == 0
        zeros = reduce_over(is_zero.cast(x.dtype), Ops.ADD, axes)
        others = is_zero.where(1, x)
        product = reduce_over(others, Ops.MUL, axes)
        without_zeros = (zeros == 0).where(product, 0) / others
        return is_zero.where((zeros == 1).where(product, 0), without_zeros)

    return with_rule(x, "product_of_others", product_without_one, arg=ReduceArg(Ops.MUL, axes))


@gradient_rule("product_of_others", reads_sources=True)
def product_of_others_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Return the gradient of `_product_of_others`."""
    assert isinstance(step.arg, ReduceArg), "it carries its axes"
    axes = step.arg.axes
    return (lambda: _slope_of_others(step, axes),)


def _slope_of_others(step: GradientStep[Indexing], axes: tuple[int, ...]) -> Indexing:
    """Return, per element, the sum over i of g[i] times all factors except i and the element."""
    x = step.sources[0]
    outer = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = (*outer, *axes)
    shape = tuple(x.shape[axis] for axis in order)
    count = product(x.shape[axis] for axis in axes)
    if not isinstance(count, int):
        raise UserError("backward: the second derivative of a product needs known sizes")
    rows = (*shape[: len(outer)], count)
    left_out = x.eye(count, dtype=dtypes.bool, device=x.device)
    factors = x.permute(order).reshape(rows)
    matrix = left_out.where(1, factors.unsqueeze(-2))
    others = left_out.where(0, _product_of_others(matrix, (matrix.ndim - 1,)))
    weights = step.gradient.permute(order).reshape(rows)
    slope = (others * weights.unsqueeze(-1)).sum(-2)
    inverse = inverse_order(order)
    return slope.reshape(shape).permute(inverse)


@gradient_rule("contiguous_backward")
def contiguous_backward_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Pass the gradient on in memory of its own."""
    return (step.gradient.contiguous,)


@gradient_rule("steps")
def steps_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Return zero: the function is constant between its steps, and 0 is also used at a step."""
    return tuple(step.gradient.zeros_like for _ in step.sources)


@gradient_rule("copysign", reads_sources=True, reads_output=True)
def copysign_gradient(step: GradientStep[Indexing]) -> Contributions:
    """Multiply by 1 if the sign stays, by -1 if it turns, by 0 at 0. The sign source gets zero."""
    x = step.sources[0]
    return (
        lambda: step.gradient * x.sign() * step.output.sign(),
        step.gradient.zeros_like,
    )
