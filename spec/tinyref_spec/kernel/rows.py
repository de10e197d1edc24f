"""All rows of the level `kernel`."""

from __future__ import annotations

from collections.abc import Iterator

from tinyref_spec.case import Row
from tinyref_spec.kernel import features, forms, products, programs, reduces, tiles


def rows() -> Iterator[Row]:
    """Forms, reduces, products, hand-written programs, matrix tiles, features probed both ways."""
    yield from forms.rows()
    yield from reduces.rows()
    yield from products.rows()
    yield from programs.rows()
    yield from tiles.rows()
    yield from features.rows()
