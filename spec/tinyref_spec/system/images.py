"""Rows of products whose operands are read as images, under the flag IMAGE.

Data are small integers, so every sum of products is exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref.config import Context
from tinyref.dtype import DType, ImageDType, dtypes, numpy_dtype
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest


@dataclass(frozen=True)
class Product:
    """A sum of products of two tensors, and the same of arrays."""

    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    run: Callable[[Any, Any], Any]
    expected: Callable[[Array, Array], Array]


def _correlate(x: Array, w: Array) -> Array:
    """conv2d without padding, window by window."""
    rows, columns = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    result = np.zeros((x.shape[0], w.shape[0], rows, columns), np.float64)
    for row in range(w.shape[2]):
        for column in range(w.shape[3]):
            window = x[:, :, row : row + rows, column : column + columns]
            result += np.einsum("bcij,oc->boij", window, w[:, :, row, column])
    return result


PRODUCTS: dict[str, Product] = {
    "whole": Product(((8, 12), (12, 4)), lambda x, w: x @ w, np.matmul),
    "padded": Product(((5, 6), (6, 7)), lambda x, w: x @ w, np.matmul),
    "batch": Product(((2, 3, 8), (2, 8, 5)), lambda x, w: x @ w, np.matmul),
    "linear": Product(((4, 8), (6, 8)), lambda x, w: x.linear(w.T), lambda x, w: x @ w.T),
    "conv2d": Product(((1, 8, 5, 5), (4, 8, 3, 3)), lambda x, w: x.conv2d(w), _correlate),
    "channels": Product(((2, 3, 5, 4), (2, 3, 2, 2)), lambda x, w: x.conv2d(w), _correlate),
}


def _run(product: Product, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The product is exact, and its kernel takes two images."""
    from tinyref import Tensor
    from tinyref.schedule import KernelItem, schedule

    arrays = [
        samples.small_integers(dtype, int(np.prod(shape)), seed, 3).reshape(shape)
        for seed, shape in enumerate(product.shapes)
    ]
    with Context(IMAGE=1):
        result = product.run(*(Tensor(array, device=device.name) for array in arrays))
        items = schedule([(result.node, device.name)]).items
        found = result.numpy()
    last = next(item for item in reversed(items) if isinstance(item, KernelItem))
    count = sum(isinstance(node.dtype, ImageDType) for node in last.ast.toposort()) // 2
    if count != 2:
        return Measurement(False, f"the kernel takes {count} images, expected 2", compared=1)
    wide = [array.astype(np.float64) for array in arrays]
    expected = product.expected(wide[0], wide[1]).astype(numpy_dtype(dtype))
    wrong = np.argwhere(found != expected)
    if wrong.size:
        place = tuple(int(number) for number in wrong[0])
        message = f"element {place} is {found[place]!r}, expected {expected[place]!r}"
        return Measurement(False, message, compared=expected.size)
    return Measurement(True, compared=expected.size)


def rows() -> Iterator[Row]:
    """Rows of products by images."""
    for dtype in (dtypes.float32, dtypes.float16):
        yield make_row(
            f"system.image.product.{dtype.name}",
            f"Matrix products and convolutions whose operands are images of {dtype.name}.",
            clauses=("system.image", "kernel.image"),
            rung=Rung.MATMUL,
            op="image",
            dtype=dtype,
            uses=(dtype, dtypes.float32),
            features=("images",),
            checks=functools.partial(_checks, dtype),
        )


def _checks(dtype: DType) -> list[Check]:
    return [
        Check(name, functools.partial(_run, product, dtype)) for name, product in PRODUCTS.items()
    ]
