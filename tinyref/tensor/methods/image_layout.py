"""Operands of products laid out as images, under the flag IMAGE: see `schedule.images`."""

from __future__ import annotations

from typing import TypeVar

from tinyref import config
from tinyref.device import Device
from tinyref.dtype import TEXEL, dtypes
from tinyref.lazy.shards import first_device
from tinyref.tensor.arguments import Shape
from tinyref.tensor.methods.movement import Movement
from tinyref.uops.node import sint

_T = TypeVar("_T", bound=Movement)

# A shorter axis would be mostly padding.
SHORTEST = 3


def fits_image_layout(first: Movement, second: Movement, length: sint) -> bool:
    """Whether the sums of products of two tensors, of `length` terms a row, read images."""
    if not config.integer("IMAGE") or not isinstance(length, int) or length < SHORTEST:
        return False
    if any(factor.dtype not in (dtypes.float32, dtypes.float16) for factor in (first, second)):
        return False
    shapes: tuple[Shape, ...] = (first.shape, second.shape)
    if any(not isinstance(size, int) or size == 0 for shape in shapes for size in shape):
        return False
    return Device[first_device(first.device)].capabilities.images


def in_image_layout(tensor: _T, axis: int) -> _T:
    """The tensor in memory where `axis` is the last one, with zeros up to whole texels.

    The axes stay in their order; `axis` is up to three longer.
    """
    place = axis % tensor.ndim
    length = tensor.shape[place]
    assert isinstance(length, int), "fits_image_layout refuses symbolic sizes"
    margins = [(0, -length % TEXEL if number == place else 0) for number in range(tensor.ndim)]
    order = [number for number in range(tensor.ndim) if number != place]
    back = sorted(range(tensor.ndim), key=[*order, place].__getitem__)
    laid = tensor._pad(tuple(margins))._permute((*order, place)).contiguous()
    return laid._permute(tuple(back))
