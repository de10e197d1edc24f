"""All rows of the level `kernel`."""

from __future__ import annotations

from collections.abc import Iterator

from tinyref_spec.case import Row
from tinyref_spec.kernel import (
    dot_products,
    features,
    forms,
    gathers,
    gpu_forms,
    group_sizes,
    images,
    limits,
    long_reduces,
    memory_order,
    opt_tiles,
    opts,
    products,
    programs,
    ranges,
    reduces,
    regressions,
    strided,
    tiles,
    together,
    unpacked,
)


def rows() -> Iterator[Row]:
    """Yield the rows of every kind of kernel, of optimisations, and of features both ways."""
    yield from together.rows()
    yield from forms.rows()
    yield from ranges.rows()
    yield from gathers.rows()
    yield from strided.rows()
    yield from reduces.rows()
    yield from long_reduces.rows()
    yield from products.rows()
    yield from unpacked.rows()
    yield from programs.rows()
    yield from dot_products.rows()
    yield from gpu_forms.rows()
    yield from images.rows()
    yield from memory_order.rows()
    yield from limits.rows()
    yield from group_sizes.rows()
    yield from tiles.rows()
    yield from opts.rows()
    yield from opt_tiles.rows()
    yield from features.rows()
    yield from regressions.rows()
