"""Arguments of Tensor functions: read shapes, axes and paddings, and broadcast shapes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tinyref.algebra import symbolic
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.sizes import are_equal, bindings_of, current_value
from tinyref.algebra.symbolic import describe, describe_shape, product
from tinyref.errors import UserError, UserIndexError, UserTypeError
from tinyref.uops.node import UOp, sint

Shape = tuple[sint, ...]
Bounds = tuple[tuple[sint, sint], ...]
_LONGEST_TEXT = 120


def flat(first: object, rest: Sequence[object], argument: str) -> tuple[Any, ...]:
    """Return the items of a variadic argument: `f(2, 3)` and `f((2, 3))` are the same."""
    if not isinstance(first, list | tuple):
        return (first, *rest)
    if rest:
        listed = ", ".join(repr(item) for item in (first, *rest))
        raise UserTypeError(
            f"{argument}: got {listed}: accepted are integers, or one tuple of them"
        )
    return tuple(first)


def integer(value: object, argument: str) -> int:
    """Return `value` as an int. Accepts any object with `__index__`, but no bools."""
    if isinstance(value, bool):
        raise UserTypeError(f"{argument}: got {value!r}, accepted is an integer")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UserTypeError(
            f"{argument}: got {on_one_line(value)}, accepted is an integer"
        ) from None


def count_of(value: object, argument: str, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int. Raises `UserError` for a value outside the bounds."""
    number = integer(value, argument)
    if number < minimum or (maximum is not None and number > maximum):
        limits = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
        raise UserError(f"{argument} {number}, accepted is {limits}")
    return number


def require_one_of(value: object, accepted: Sequence[str | None], argument: str) -> None:
    """Raise `UserError` for a mode that does not exist."""
    if value not in accepted:
        listed = ", ".join(map(repr, accepted))
        raise UserError(f"{argument} {value!r}: accepted are {listed}")


def wrong_type(argument: str, value: object, accepted: str) -> UserTypeError:
    """Return the error for an argument of a type that is not accepted."""
    return UserTypeError(f"{argument} is a {type(value).__name__}, accepted {accepted}")


def inverse_order(order: Sequence[int]) -> tuple[int, ...]:
    """Return the order that undoes a permutation of axes."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def on_one_line(value: object) -> str:
    """Return the repr of an argument for an error, without newlines and at most 120 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def dimension(value: object, argument: str, minimum: int = 0) -> sint:
    """Return a size: an integer that is at least `minimum`, or a symbolic expression."""
    if isinstance(value, UOp):
        return value
    size = integer(value, argument)
    if size < minimum:
        raise UserError(f"{argument}: size {size} is negative, accepted is at least {minimum}")
    return size


def shape_argument(first: object, rest: Sequence[object], argument: str) -> Shape:
    """Return the shape in one sequence or several sizes. Raises `UserError` for a bad size."""
    return tuple(dimension(size, argument) for size in flat(first, rest, argument))


def fixed(shape: Shape, argument: str) -> tuple[int, ...]:
    """Return `shape` as integers. Raises `UserError` for a symbolic size."""
    for size in shape:
        if isinstance(size, UOp):
            raise UserError(f"{argument}: needs known sizes, got the symbolic {describe(size)}")
    return tuple(size for size in shape if isinstance(size, int))


def bound_sizes(shape: Shape) -> tuple[int, ...]:
    """Return `shape` with values for its variables. Raises `UserError` for an unbound one."""
    bindings = bindings_of(shape)
    return tuple(value_of(size, bindings) for size in shape)


def axis_of(axis: object, ndim: int, argument: str) -> int:
    """Return `axis` counted from the front. A tensor without axes accepts 0 and -1."""
    number = integer(axis, argument)
    limit = max(ndim, 1)
    if not -limit <= number < limit:
        raise UserIndexError(f"{argument}: axis {number} is outside {-limit} to {limit - 1}")
    return number % limit


def axes_of(axes: object, ndim: int, argument: str) -> tuple[int, ...]:
    """Return the axes of a reduction in rising order. None means all axes.

    Raises `UserError` for an axis that is out of range or named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    listed = axes if isinstance(axes, list | tuple) else (axes,)
    numbers = [axis_of(axis, ndim, argument) for axis in listed]
    if len(set(numbers)) != len(numbers):
        raise UserError(f"{argument}: axes {tuple(listed)} name an axis twice")
    return tuple(sorted(numbers)) if ndim else ()


def resolve_reshape(old: Shape, new: Sequence[object], argument: str) -> Shape:
    """Return `new` with a single -1 computed, and None replaced by the old size of that axis."""
    sizes: list[sint] = []
    unknown = None
    for axis, size in enumerate(new):
        if size is None and axis < len(old):
            sizes.append(old[axis])
        elif not isinstance(size, UOp) and integer(size, argument) == -1:
            if unknown is not None:
                raise UserError(f"{argument}: shape {tuple(new)} has more than one -1")
            unknown = axis
            sizes.append(1)
        else:
            sizes.append(dimension(size, argument))
    if unknown is not None:
        total = product(old)
        sizes[unknown] = _quotient(total, product(sizes))
        if sizes[unknown] == -1:
            raise UserError(
                f"{argument}: shape {tuple(new)} does not divide {describe(total)} elements"
            )
    count, new_count = product(old), product(sizes)
    if not are_equal(count, new_count):
        raise UserError(
            f"{argument}: cannot turn {describe_shape(old)} into {describe_shape(tuple(sizes))}: "
            f"{describe(count)} elements are not {describe(new_count)}"
        )
    return tuple(sizes)


def _quotient(total: sint, divisor: sint) -> sint:
    """Return `total` over `divisor`, or -1 if the quotient is no integer.

    If the quotient is no integer for some values of the variables, the current values decide.
    """
    if divisor == 0:
        return -1
    try:
        quotient, rest = symbolic.split(symbolic.lift(total), symbolic.lift(divisor))
        if rest == 0:
            return symbolic.lower(quotient)
    except symbolic.Undecided:
        pass
    first, second = current_value(total), current_value(divisor)
    return -1 if not second or first is None or first % second else first // second


def broadcast(shapes: Sequence[Shape], argument: str) -> Shape:
    """Return the shape to which all `shapes` expand: aligned right, with sizes equal or 1."""
    ndim = max(len(shape) for shape in shapes)
    aligned = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    result: list[sint] = []
    for sizes in zip(*aligned, strict=True):
        large = [size for size in sizes if not (isinstance(size, int) and size == 1)]
        if any(size is not large[0] and size != large[0] for size in large[1:]):
            listed = " and ".join(describe_shape(shape) for shape in shapes)
            raise UserError(
                f"{argument}: shapes {listed} do not broadcast: "
                f"aligned from the right, sizes must be equal or 1"
            )
        result.append(large[0] if large else 1)
    return tuple(result)


def permutation(order: Sequence[object], ndim: int) -> tuple[int, ...]:
    """Return an order of all axes. Raises `UserError` unless each axis occurs once."""
    axes = tuple(axis_of(axis, ndim, "permute") for axis in order)
    if sorted(axes) != list(range(ndim)):
        raise UserError(
            f"permute: order {tuple(order)} must name each of the {ndim} axes exactly once"
        )
    return axes


def padding_bounds(padding: object, ndim: int) -> Bounds:
    """Return (before, after) per axis, from either form of padding.

    Flat numbers start at the last axis, two for each axis: `(left, right, top, bottom)`. Pairs
    start at the first axis, one for each axis, with None for no padding. One number is refused:
    it could mean several paddings.
    """
    if not isinstance(padding, list | tuple):
        raise UserTypeError(f"pad: padding {padding!r}: accepted are a tuple of sizes or of pairs")
    if all(item is None or isinstance(item, list | tuple) for item in padding) and padding:
        if len(padding) != ndim:
            raise UserError(f"pad: {len(padding)} pairs for {ndim} axes: accepted is one per axis")
        return tuple(_pair(item) for item in padding)
    if len(padding) % 2 or len(padding) > 2 * ndim:
        raise UserError(
            f"pad: {len(padding)} numbers for {ndim} axes: "
            f"accepted are two for each of the last axes"
        )
    numbers = [_amount(item) for item in padding]
    pairs = [(numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)][::-1]
    return ((0, 0),) * (ndim - len(pairs)) + tuple(pairs)


def _pair(item: Sequence[object] | None) -> tuple[sint, sint]:
    if item is None:
        return (0, 0)
    if len(item) != 2:
        raise UserTypeError(f"pad: {item!r} is not a pair (before, after)")
    return (_amount(item[0]), _amount(item[1]))


def _amount(item: object) -> sint:
    return item if isinstance(item, UOp) else integer(item, "pad")


def per_axis(value: object, count: int, argument: str, minimum: int | None) -> tuple[int, ...]:
    """Return an integer for each of `count` spatial axes, from one integer or a sequence."""
    listed = value if isinstance(value, list | tuple) else (value,) * count
    if len(listed) != count:
        raise UserError(f"{argument}: got {tuple(listed)}, accepted is one or {count} integers")
    numbers = tuple(integer(item, argument) for item in listed)
    if minimum is not None and any(number < minimum for number in numbers):
        raise UserError(f"{argument}: got {numbers}, accepted is at least {minimum}")
    return numbers


def spatial_padding(
    value: object, count: int, argument: str, minimum: int | None = 0
) -> tuple[tuple[int, int], ...]:
    """Return (before, after) for each spatial axis, first axis first.

    Accepts one integer; one for each axis; or two for each axis, starting at the last axis.
    """
    if isinstance(value, list | tuple) and len(value) == 2 * count and count > 0:
        numbers = per_axis(value, 2 * count, argument, minimum)
        return tuple((numbers[2 * i], numbers[2 * i + 1]) for i in range(count))[::-1]
    return tuple((number, number) for number in per_axis(value, count, argument, minimum))
