"""Generated pages, and the arrays of reproducers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinyref.dtype import dtypes, numpy_dtype
from tinyref_spec import catalogue, pages
from tinyref_spec.bits import Array
from tinyref_spec.literal_text import array_literal
from tinyref_spec.samples import random_bits


@pytest.mark.long
def test_pages_name_every_row_and_clause(tmp_path: Path) -> None:
    pages.write(tmp_path)
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    for row in catalogue.all_rows():
        assert f"`{row.id}`" in text
        for label in row.clauses:
            assert f"`{label}`" in text


@pytest.mark.parametrize(
    "values",
    [
        np.full(1024, -0.0, np.float32),
        np.array([1, -2, 3], np.int8),
        random_bits(dtypes.bfloat16, 700, 1),
        np.array([True, False]),
    ],
)
def test_array_literals_read_back(values: Array) -> None:
    import base64
    import zlib

    names = {
        "np": np, "base64": base64, "zlib": zlib, "dtypes": dtypes, "numpy_dtype": numpy_dtype
    }  # fmt: skip
    actual = eval(array_literal(values), names)
    assert actual.dtype == values.dtype
    assert actual.tobytes() == values.tobytes()
