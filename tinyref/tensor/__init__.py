"""Tensor, the user's class: gradients, indexing, functions of neural networks, captures.

In: Python and numpy data, and calls of methods. Out: graphs of tensor ops, checked at once, and
computed by `engine` when their elements are read.

From the bottom up: `arguments.py` and `literals.py` read arguments, and `variable.py` has symbolic
sizes. `core.py` has the value of a tensor, with `views.py` (tensors that share elements),
`registry.py` (all live values, and the lock) and `naming.py` (names of nodes). `gradient.py`
follows the records back. The mixins are `elementwise.py`, `functions.py`, `movement.py`,
`reduction.py`, `contraction.py`, `creation.py`, `data.py`, `indexing.py`, `windows.py` and
`losses.py`. `realisation.py` computes graphs, and `assignment.py` writes elements. `tensor.py`
joins all of them. `jit/` captures a function of tensors, and replays its kernels.
"""

from tinyref.tensor.tensor import Tensor
from tinyref.tensor.variable import Variable

__all__ = ["Tensor", "Variable"]
