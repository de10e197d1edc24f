"""Layers that multiply by a matrix, or pick rows of one."""

from __future__ import annotations

import math

from tinyref.errors import UserError, UserTypeError
from tinyref.nn.layer import Layer, check_input
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import integer


def positive(value: object, name: str) -> int:
    """`value` as an integer of at least 1. Raises `UserError` naming the argument."""
    found = integer(value, name)
    if found < 1:
        raise UserError(f"{name}: got {found}, accepted are integers of 1 and more")
    return found


class Linear(Layer):
    """x @ weight.T + bias over the last axis.

    Shapes: input (..., in_features), output (..., out_features), weight (out_features,
    in_features), bias (out_features,). Both start uniform within 1 / sqrt(in_features).

    Examples:
        >>> layer = nn.Linear(2, 3)
        >>> layer(Tensor([[1.0, 2.0]])).shape
        (1, 3)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = positive(in_features, "Linear: in_features")
        self.out_features = positive(out_features, "Linear: out_features")
        limit = 1 / math.sqrt(self.in_features)
        shape = (self.out_features, self.in_features)
        self.weight = Tensor.uniform(shape, low=-limit, high=limit, requires_grad=True)
        self.bias: Tensor | None = None
        if bias:
            self.bias = Tensor.uniform(
                self.out_features, low=-limit, high=limit, requires_grad=True
            )

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "Linear")
        return x.linear(self.weight.transpose(), self.bias)


class Embedding(Layer):
    """Rows of a table by their numbers: each of `vocab_size` has a vector of `embed_size`.

    Shapes: input (...) of an integer type, output (..., embed_size). The table starts as
    `Tensor.glorot_uniform`. A number outside 0 to vocab_size - 1 gives what indexing by a tensor
    gives. Only the rows that are asked for are read.

    Examples:
        >>> layer = nn.Embedding(vocab_size=10, embed_size=4)
        >>> layer(Tensor([[1, 2, 3]])).shape
        (1, 3, 4)
    """

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        self.vocab_size = positive(vocab_size, "Embedding: vocab_size")
        self.embed_size = positive(embed_size, "Embedding: embed_size")
        self.weight = Tensor.glorot_uniform(self.vocab_size, self.embed_size, requires_grad=True)

    def __call__(self, idx: Tensor) -> Tensor:
        if not isinstance(idx, Tensor) or not idx.dtype.is_int:
            got = idx.dtype.name if isinstance(idx, Tensor) else type(idx).__name__
            raise UserTypeError(f"Embedding: got {got}: accepted is a Tensor of an integer type")
        found: Tensor = self.weight[idx]
        return found
