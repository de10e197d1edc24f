"""Which tensors go together, as operands of a step."""

from __future__ import annotations

import numpy as np

from tinyref_fuzz.programs.arrays import Array

# How names of variables begin whose bounds are wider than what they cut.
WIDE = "w"


def may_cut(size: int | str) -> bool:
    """Whether a bound size may cut off a part of an axis: it is fixed, and there are several."""
    return isinstance(size, int) and size > 1


def is_cut_widely(array: Array) -> bool:
    """Whether it has a size whose variable has wider bounds than what it cut.

    A further axis that is cut then is refused, as the number of elements might be negative.
    """
    return any(isinstance(size, str) and WIDE in size for size in array.sizes)


def axes_of_at_least(least: int, array: Array) -> list[int]:
    """The axes of fixed size off which so many elements may be cut."""
    return [
        axis
        for axis, size in enumerate(array.sizes)
        if isinstance(size, int) and size >= max(2, least)
    ]


def is_alike(array: Array, other: Array) -> bool:
    """Whether both have one type and one place."""
    return other.dtype == array.dtype and other.place == array.place


def may_be_written(value: Array, array: Array) -> bool:
    """Whether `value` may go into `array` where no gradient flows through the write."""
    return is_alike(array, value) and not value.requires_grad


def are_operands(array: Array, other: Array) -> bool:
    """Whether both are elementwise operands: of one shape, or one of a single element."""
    if not is_alike(array, other):
        return False
    if array.is_symbolic or other.is_symbolic:
        # A function's results of two calls may have one variable, bound to other values.
        return (array.sizes, array.shape) == (other.sizes, other.shape)
    if array.shape == other.shape or () in (array.shape, other.shape):
        return True
    return fits_into(other, array) or fits_into(array, other)


def fits_into(value: Array, array: Array) -> bool:
    """Whether `value` broadcasts to the shape of `array`."""
    if value.is_symbolic or array.is_symbolic:
        return value.sizes == array.sizes
    try:
        return np.broadcast_shapes(value.shape, array.shape) == array.shape
    except ValueError:
        return False


def may_join(array: Array, other: Array, axis: int) -> bool:
    """Whether `cat` joins both along `axis`."""

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:axis], *shape[axis + 1 :])

    is_like = is_alike(array, other) and not other.is_symbolic
    return (
        is_like and len(other.shape) == len(array.shape) and rest(other.shape) == rest(array.shape)
    )


def may_multiply(array: Array, other: Array) -> bool:
    """Whether they are factors of a product of matrices."""
    is_like = is_alike(array, other) and not other.is_symbolic
    return (
        is_like and len(array.shape) == len(other.shape) == 2 and other.shape[0] == array.shape[1]
    )


def is_index_of(places: Array, array: Array) -> bool:
    """Whether the elements are places of the first axis of `array`."""
    if places.dtype != "int32" or places.place != array.place or places.is_symbolic:
        return False
    elements = places.elements
    return bool(elements.size) and elements.min() >= 0 and elements.max() < array.shape[0]


def may_replace(array: Array, example: Array) -> bool:
    """Whether a captured function takes `array` where it took `example`."""
    return is_alike(example, array) and array.sizes == example.sizes


def may_be_argument(array: Array) -> bool:
    """Whether captured functions take it at all."""
    return not (array.is_symbolic or array.is_repeated or array.requires_grad)


def has_history(array: Array) -> bool:
    """Whether gradients flow from it to something else, as far as the oracle knows."""
    record = array.record
    return record.is_certain and bool(record.sources) and not array.bound
