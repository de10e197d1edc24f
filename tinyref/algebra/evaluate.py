"""Values of expressions: sizes and positions as Python integers, other expressions on arrays.

Both use the op semantics of `semantics`. The references of the spec and the oracles of the fuzzer
have evaluators of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

from tinyref.algebra import semantics
from tinyref.algebra.bounds import wrap_range
from tinyref.algebra.op_table import OP_TABLE
from tinyref.arrays import Array, np
from tinyref.dtype import numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref.uops.program import Program


def value_of(expression: sint, bindings: Mapping[str, int]) -> int:
    """Return the value of a size or position for these values of its variables.

    `index` arithmetic is exact; integers of other types wrap. Raises `UserError` for a variable
    without a value or out of its bounds, or a node that is no integer arithmetic.
    """
    if isinstance(expression, int):
        return expression
    values: dict[UOp, int] = {}
    for node in expression.toposort():
        values[node] = _integer(node, [values[source] for source in node.src], bindings)
    return values[expression]


def _integer(node: UOp, operands: Sequence[int], bindings: Mapping[str, int]) -> int:
    if isinstance(node.arg, ConstArg) and not node.dtype.is_float:
        return int(node.arg.value)
    if isinstance(node.arg, VarArg):
        return bound_value(node.arg, bindings)
    if node.op is Ops.BIND:
        return operands[1]
    exact = OP_TABLE[node.op].exact
    if exact is None or not (node.dtype.is_int or node.dtype.is_bool):
        raise UserError(f"size: {node.op.name} of {node.dtype.name} is no integer arithmetic")
    if node.dtype.is_bool:
        return int(bool(exact(*operands)))
    value = int(exact(*operands))
    return wrap_range(node.dtype, value, value)[0]


def bound_value(variable: VarArg, bindings: Mapping[str, int], argument: str = "bindings") -> int:
    """Return the value of a variable. Raises `UserError` unless it is an integer in bounds."""
    name, accepted = variable.name, f"{variable.minimum} to {variable.maximum}"
    value = bindings.get(name)
    if value is None:
        raise UserError(f"{argument}: variable {name} has no value: give one from {accepted}")
    try:
        value = operator.index(value)
    except TypeError:
        raise UserError(
            f"{argument}: variable {name} is {value!r}, accepted are integers from {accepted}"
        ) from None
    if not variable.minimum <= value <= variable.maximum:
        raise UserError(f"{argument}: variable {name} is {value}, accepted is {accepted}")
    return value


def launch_grid(program: Program, bindings: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the groups of a launch for these values of the variables; errors: see `value_of`."""
    x, y, z = (value_of(extent, bindings) for extent in program.grid)
    return x, y, z


def evaluate_expression(root: UOp, leaves: Mapping[UOp, Array]) -> Array:
    """Return the value of `root`, an expression of ALU ops over constants and `leaves`.

    Leaves are arrays of the numpy type of their node, of broadcastable shapes. The result has the
    type of `root`. Raises `UserError` for a node that is neither an ALU op nor in `leaves`.
    """
    values: dict[UOp, Array] = dict(leaves)
    with np.errstate(all="ignore"):
        for node in root.toposort():
            if node in values:
                continue
            if isinstance(node.arg, ConstArg):
                values[node] = np.array(node.arg.value, numpy_dtype(node.dtype))
            elif node.op in ALU:
                types = [source.dtype for source in node.src]
                kernel = semantics.kernel_for(node.op, node.dtype, types)
                values[node] = kernel(*[values[source] for source in node.src])
            else:
                raise UserError(f"evaluate: {node!r} has no value: give it among the leaves")
    return np.asarray(values[root])
