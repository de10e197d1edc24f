"""Calls that are refused: the table refused.tsv has each call, and words that its error must say.

The suite has more of them, in `spec/tinyref_spec/tensor/refused.tsv`, without words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Tensor, Variable, dtypes

TABLE = Path(__file__).with_name("refused.tsv")


def endless() -> list[object]:
    """Return a list that holds itself."""
    data: list[object] = []
    data.append(data)
    return data


def numbered(*shape: int) -> Tensor:
    return Tensor(np.arange(math.prod(shape), dtype=np.int32).reshape(shape))


def names() -> Mapping[str, Any]:
    """Return what the calls of the table may name; the tensors are new ones for each call."""
    return {
        **{"Tensor": Tensor, "Variable": Variable, "dtypes": dtypes, "np": np, "math": math},
        **{"small": numbered(2, 3), "grid": numbered(3, 4), "wide": numbered(7, 6)},
        **{"cube": numbered(2, 3, 4), "places": numbered(2), "line": Tensor([1.0, 2.0, 3.0])},
        **{"rows": numbered(2, 3).float(), "table": Tensor.zeros(4, 5)},
        **{"heads": Tensor.zeros(4, 2, 3), "endless": endless, "INF": math.inf, "NAN": math.nan},
        **{"TWO": ("CPU:0", "CPU:1"), "FOUR": ("CPU:0", "CPU:1", "CPU:2", "CPU:3")},
    }


def read_table() -> list[tuple[str, list[str]]]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return [(call, words.split(" | ")) for call, words in rows]


@pytest.mark.table
@pytest.mark.parametrize(("call", "words"), read_table())
def test_the_error_of_a_call_says_what_is_wrong(call: str, words: list[str]) -> None:
    check_refusal(words, lambda: eval(call, dict(names())))


@pytest.mark.table
@pytest.mark.parametrize("call", [call for call, _ in read_table() if call.startswith("grid[")])
def test_an_index_is_refused_for_a_write_as_for_a_read(call: str) -> None:
    words = dict(read_table())[call]
    check_refusal(words, lambda: exec(f"{call} = 1", dict(names())))
