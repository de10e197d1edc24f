"""Reverse-mode gradients.

In: a tensor with the record of what it was computed from. Out: the gradients of those that are
asked for, as tensors that have gradients themselves.

`rules.py` has a rule for each op of the tensor graph, `functions.py` one for each function whose
closed form is better than the rules of the ops that compute it, `walk.py` goes back by them.
"""

from tinyref.tensor.gradient import functions
from tinyref.tensor.gradient.rules import RULES
from tinyref.tensor.gradient.walk import gradients, history

__all__ = ["RULES", "functions", "gradients", "history"]
