"""Tensor: what users write; autograd, indexing and the functions of neural networks."""

from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import Variable

__all__ = ["Tensor", "Variable"]
