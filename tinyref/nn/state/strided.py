"""Any strided layout that shows no element twice, as movement of a stored row of elements."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.tensor import Tensor
from tinyref.tensor.arguments import fixed
from tinyref.tensor.core import pad, shrink


def strided_view(row: Tensor, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """The tensor of `shape` whose element (i, j, ...) is `row[offset + i * strides[0] + ...]`.

    An axis of stride 0 repeats. It is a view, whatever the device. Raises `ValueError` for
    elements outside the row, negative strides, and layouts that overlap in other ways.
    """
    (length,) = fixed(row.shape, "storage")
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise ValueError(f"shape {tuple(shape)} with strides {tuple(strides)} from {offset}")
    if 0 in shape:
        if offset > length:
            raise ValueError(f"a tensor starts at {offset} of {length} elements")
        return row[:0].reshape(tuple(shape))
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if last >= length:
        raise ValueError(f"a tensor ends at element {last} of {length}")
    # The axes that step through memory, from the longest step to the shortest.
    axes = sorted(
        (axis for axis, size in enumerate(shape) if size > 1 and strides[axis]),
        key=lambda axis: -strides[axis],
    )
    view = row[offset : last + 1]
    for place, axis in enumerate(axes):
        # Before this axis is apart, the last axis of `view` holds all that is left.
        step, size = strides[axis], shape[axis]
        left = 1 + sum((shape[other] - 1) * strides[other] for other in axes[place + 1 :])
        if left > step:
            raise ValueError(f"strides {tuple(strides)} of shape {tuple(shape)} overlap")
        outer = view.shape[:-1]
        missing = size * step - fixed(view.shape[-1:], "storage")[0]
        padding = ((0, 0),) * len(outer) + ((0, missing),)
        rows = pad(view, padding) if missing else view
        rows = rows.reshape((*outer, size, step))
        view = shrink(rows, (*((0, each) for each in (*outer, size)), (0, left)))
    sizes = tuple(shape[axis] for axis in axes)
    view = view.reshape(sizes)
    order = sorted(range(len(axes)), key=lambda place: axes[place])
    view = view.permute(tuple(order)) if len(order) > 1 else view
    single = tuple(
        1 if size == 1 or not step else size for size, step in zip(shape, strides, strict=True)
    )
    return view.reshape(single).expand(tuple(shape))
