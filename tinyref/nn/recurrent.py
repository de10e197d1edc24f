"""Layers that carry a state from step to step."""

from __future__ import annotations

import math

from tinyref.algebra.symbolic import describe_shape
from tinyref.errors import UserError, UserTypeError
from tinyref.nn.layer import Layer, check_input
from tinyref.nn.linear import positive
from tinyref.tensor import Tensor


class LSTMCell(Layer):
    """One step of a long short-term memory: (x, (h, c)) gives the next (h, c).

    The gates lie one after the other in axis 0 of the weights: input, forget, cell, output.
    Shapes: x (batch, input_size), h and c (batch, hidden_size), weight_ih (4 hidden_size,
    input_size), weight_hh (4 hidden_size, hidden_size), biases (4 hidden_size,). A state of None is
    zeros. Weights start uniform within 1 / sqrt(hidden_size), biases at 0. Source: Hochreiter and
    Schmidhuber, "Long Short-Term Memory", 1997, with the forget gate of Gers et al., 2000.

    Examples:
        >>> hidden, cell = nn.LSTMCell(2, 3)(Tensor([[1.0, 2.0]]))
        >>> hidden.shape, cell.shape
        ((1, 3), (1, 3))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        inputs = self.input_size = positive(input_size, "LSTMCell: input_size")
        self.hidden_size = positive(hidden_size, "LSTMCell: hidden_size")
        self.bias = bias
        gates = 4 * self.hidden_size
        limit = 1 / math.sqrt(self.hidden_size)
        self.weight_ih = Tensor.uniform(gates, inputs, low=-limit, high=limit, requires_grad=True)
        self.weight_hh = Tensor.uniform(
            gates, self.hidden_size, low=-limit, high=limit, requires_grad=True
        )
        self.bias_ih: Tensor | None = None
        self.bias_hh: Tensor | None = None
        if bias:
            self.bias_ih = Tensor.zeros(gates).contiguous().requires_grad_()
            self.bias_hh = Tensor.zeros(gates).contiguous().requires_grad_()

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        check_input(x, "LSTMCell")
        if x.ndim != 2:
            raise UserError(
                f"LSTMCell: input {describe_shape(x.shape)}: accepted is (batch, input_size)"
            )
        if hc is None:
            shape = (x.shape[0], self.hidden_size)
            hidden = cell = Tensor.zeros(*shape, device=x.device, dtype=x.dtype)
        elif isinstance(hc, tuple | list) and [isinstance(x, Tensor) for x in hc] == [True] * 2:
            hidden, cell = hc
        else:
            raise UserTypeError("LSTMCell: hc: accepted are two Tensors (hidden, cell), or None")
        gates = x.linear(self.weight_ih.T, self.bias_ih)
        gates = gates + hidden.linear(self.weight_hh.T, self.bias_hh)
        entering, forgetting, content, leaving = gates.chunk(4, dim=1)
        cell = forgetting.sigmoid() * cell + entering.sigmoid() * content.tanh()
        hidden = leaving.sigmoid() * cell.tanh()
        return hidden.contiguous(), cell.contiguous()
