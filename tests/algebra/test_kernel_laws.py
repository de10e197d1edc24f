"""Simplification and value ranges on the expressions of kernels that the fuzzer draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tinyref.algebra.bounds import bounds
from tinyref.algebra.shapes import Shape, kernel_shape
from tinyref.algebra.simplify import simplify
from tinyref.dtype import DType, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SlotArg
from tinyref_fuzz.strategies import kernels
from tinyref_spec.kernel_case import Case
from tinyref_spec.kernels.notation import store

# Exact data: every order of evaluation gives the same values.
KERNELS = kernels("PYTHON", "integers")
RANDOM = settings(
    max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


# The order that sums and products are brought into may cost an operation.
SLACK = 1


def operations(root: UOp) -> int:
    """The operations of an expression, as often as it needs each of them.

    A difference counts as the sum and the product that it becomes, a negation (x != True) nothing:
    a comparison may become the opposite one.
    """
    counts: dict[UOp, int] = {}
    for node in root.toposort():
        own = 2 if node.op is Ops.SUB else int(node.op in ALU)
        if node.op is Ops.CMPNE and node.src[1].dtype.is_bool and node.src[1].op is Ops.CONST:
            own = 0
        counts[node] = own + sum(counts[source] for source in node.src)
    return counts[root]


def expressions(case: Case) -> Iterator[tuple[UOp, Callable[[UOp], np.ndarray]]]:
    """Each operation of a kernel on integers or bools, without reduces, and its evaluator."""
    nodes = case.ast.toposort()
    slot = 1 + max((node.arg.slot for node in nodes if isinstance(node.arg, SlotArg)), default=0)
    for node in nodes:
        shape = kernel_shape(node)
        is_plain = all(each.op is not Ops.REDUCE for each in node.toposort())
        is_exact = node.op in ALU and (node.dtype.is_int or node.dtype.is_bool)
        if not is_plain or not is_exact or not all(isinstance(size, int) for size in shape):
            continue

        def values(root: UOp, dtype: DType = node.dtype, shape: Shape = shape) -> np.ndarray:
            out = np.zeros(int(np.prod(shape, dtype=int)), numpy_dtype(dtype))
            buffers = {**dict(enumerate(case.buffers)), slot: out}
            return evaluate(build.sink(store(slot, root, shape)), buffers, case.bindings)[slot]

        yield node, values


def check_simplification(case: Case) -> None:
    """Simplified once, an expression has the same values, and no more operations."""
    for node, values in expressions(case):
        simple = simplify(node)
        assert simplify(simple) is simple
        assert operations(simple) <= operations(node) + SLACK
        assert np.array_equal(values(simple), values(node))


def check_ranges(case: Case) -> None:
    """Every value is within the range that is known of it."""
    for node, values in expressions(case):
        found, (low, high) = values(node), bounds(node)
        assert found.size == 0 or (low <= found.min() and found.max() <= high)


@pytest.mark.long
@RANDOM
@given(KERNELS)
def test_a_simplified_kernel_keeps_its_values_and_costs_no_more(case: Case) -> None:
    check_simplification(case)


@pytest.mark.long
@RANDOM
@given(KERNELS)
def test_the_known_range_of_a_value_holds_it(case: Case) -> None:
    check_ranges(case)
