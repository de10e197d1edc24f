"""Facts of single calls: what they give (values.tsv), and what their errors must say (refused.tsv).

The rows of the suite have the values of each function, and more calls that are refused, in
`spec/tinyref_spec/tensor/refused.tsv`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Tensor, Variable, dtypes

FOLDER = Path(__file__).parent
# More elements than int32 numbers.
FAR = 3_000_000_000


def endless() -> list[object]:
    """Return a list that holds itself."""
    data: list[object] = []
    data.append(data)
    return data


def numbered(*shape: int) -> Tensor:
    return Tensor(np.arange(math.prod(shape), dtype=np.int32).reshape(shape))


def bound(value: int) -> Any:
    return Variable("n", 1, 8).bind(value)


def names() -> dict[str, Any]:
    """Return what the calls may name; the tensors are new ones for each call."""
    whole = numbered(3, 8)
    return {
        **{"n": bound, "whole": whole, "part": whole[:, : bound(3)]},
        **{"Tensor": Tensor, "Variable": Variable, "dtypes": dtypes, "np": np, "math": math},
        "ml_dtypes": ml_dtypes,
        **{"square": numbered(2, 2), "small": numbered(2, 3), "grid": numbered(3, 4)},
        **{"wide": numbered(7, 6), "cube": numbered(2, 3, 4), "places": numbered(2)},
        **{"line": Tensor([1.0, 2.0, 3.0]), "rows": numbered(2, 3).float()},
        **{"table": Tensor.zeros(4, 5), "heads": Tensor.zeros(4, 2, 3), "endless": endless},
        **{"INF": math.inf, "NAN": math.nan, "FAR": FAR, "ends": numbered(2)},
        **{"TWO": ("CPU:0", "CPU:1"), "FOUR": ("CPU:0", "CPU:1", "CPU:2", "CPU:3")},
    }


def read_table(name: str) -> list[list[str]]:
    lines = (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [line.split("\t") for line in lines]


@pytest.mark.table
@pytest.mark.parametrize(("call", "dtype", "elements"), read_table("values"))
def test_the_elements_of_a_call(call: str, dtype: str, elements: str) -> None:
    result = eval(call, names())
    assert (result.dtype.name, repr(result.tolist())) == (dtype, elements)


@pytest.mark.table
@pytest.mark.parametrize(("call", "words"), read_table("refused"))
def test_the_error_of_a_call_says_what_is_wrong(call: str, words: str) -> None:
    check_refusal(words.split(" | "), lambda: eval(call, names()))


@pytest.mark.table
@pytest.mark.parametrize(
    ("call", "words"),
    [row for row in read_table("refused") if row[0].startswith(("grid[", "part["))],
)
def test_an_index_is_refused_for_a_write_as_for_a_read(call: str, words: str) -> None:
    check_refusal(words.split(" | "), lambda: exec(f"{call} = 1", names()))
