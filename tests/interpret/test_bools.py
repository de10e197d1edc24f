"""Bools in memory are bytes, of which any but 0 is true; what a kernel writes is 0 or 1."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref import Tensor
from tinyref.dtype import dtypes
from tinyref.interpret.evaluate import evaluate
from tinyref_spec.kernels.named import copied
from tinyref_spec.kernels.notation import shaped

BYTES = np.array([0, 1, 2, 128, 255, 0], np.uint8)
WRITTEN = [0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_a_kernel_writes_one_for_any_byte_but_zero(device: str) -> None:
    given = Tensor(BYTES.view(np.bool_), device=device)
    assert given.flip(0).numpy().view(np.uint8).tolist() == WRITTEN[::-1]
    assert given.cast("int32").sum().item() == 4


def test_the_evaluator_writes_one_for_any_byte_but_zero() -> None:
    kernel = copied(dtypes.bool, shaped(6))
    written = evaluate(kernel, {0: np.zeros(6, np.bool_), 1: BYTES.view(np.bool_)})
    assert written[0].view(np.uint8).tolist() == WRITTEN
