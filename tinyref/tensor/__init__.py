"""Tensor: what users write; gradients, indexing, the functions of neural networks, captures.

In: Python and numpy data, and calls of methods. Out: graphs of tensor ops, checked at once, and
computed by `engine` when their elements are asked for.

From the bottom up: `arguments.py` and `literals.py` read what methods are given, `variable.py` is
a symbolic size; `core.py` is what a tensor stands for, with `views.py` (who shows the same
elements), `registry.py` (all living values, and the locks) and `naming.py` (names of nodes).
`gradient.py` goes back through what was recorded. The mixins are `elementwise.py`, `functions.py`,
`movement.py`, `reduction.py`, `contraction.py`, `creation.py`, `data.py`, `indexing.py`,
`windows.py` and `losses.py`. `realisation.py` computes graphs, `assignment.py` writes; `tensor.py`
is all of them together. `jit/` captures a function that uses tensors, and replays its kernels.
"""

from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import Variable

__all__ = ["Tensor", "Variable"]
