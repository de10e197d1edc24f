"""Mistakes in calls of recurrent layers."""

from __future__ import annotations

import pytest

from tinyref import Tensor, nn
from tinyref.errors import UserError


@pytest.mark.parametrize("state", [3, (Tensor.ones(2, 4),)])
def test_a_state_of_an_lstm_cell_is_two_tensors(state: object) -> None:
    with pytest.raises(UserError, match=r"LSTMCell: hc: accepted are two Tensors"):
        nn.LSTMCell(3, 4)(Tensor.ones(2, 3), state)  # type: ignore[arg-type]
