"""Broadcasting of small arrays, which mostly have the shape that is asked for already."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple[int, ...]


def common_shape(first: Shape, second: Shape) -> Shape:
    """The shape to which arrays of these two shapes broadcast. Raises `ValueError` for none."""
    return first if first == second else np.broadcast_shapes(first, second)


def broadcast_to(array: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
    """`array` broadcast to `shape`, itself where it has that already; not to be written to."""
    return array if array.shape == shape else np.broadcast_to(array, shape)
