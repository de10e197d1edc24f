"""The value of an expression on numpy arrays: each node by its meaning in the op table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra.semantics import kernel_for
from tinyref.dtype import numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg

Array = npt.NDArray[Any]


def evaluate_expression(root: UOp, leaves: Mapping[UOp, Array]) -> Array:
    """The value of `root`, an expression of ALU ops over constants and the nodes in `leaves`.

    Leaves are arrays of the numpy type of their node, of broadcastable shapes; the result has the
    type of `root`. Raises `UserError` for a node that is neither an ALU op nor given.
    """
    values: dict[UOp, Array] = dict(leaves)
    with np.errstate(all="ignore"):
        for node in root.toposort():
            if node in values:
                continue
            if node.op is Ops.CONST and isinstance(node.arg, ConstArg):
                values[node] = np.array(node.arg.value, numpy_dtype(node.dtype))
            elif node.op in ALU:
                kernel = kernel_for(node.op, node.dtype, [source.dtype for source in node.src])
                values[node] = kernel(*[values[source] for source in node.src])
            else:
                raise UserError(f"evaluate: no value is given for {node!r}")
    return np.asarray(values[root])
