"""The library of kernels: what each named one computes, by numpy, and what its buffers are."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import PtrDType, dtypes
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import SlotArg
from tinyref.verify import verify
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import shaped

i8, i32, f16 = dtypes.int8, dtypes.int32, dtypes.float16
A = np.array([[1, -2, 3], [4, 5, -6]], np.int32)
B = np.array([[7, 8, 9, 1], [2, -3, 4, 5], [6, 0, -1, 2]], np.int32)
X = np.array([[3, -1, 4, 1], [5, -9, 2, 6]], np.int32)


def sizes_of(ast: UOp) -> list[int]:
    """Return the elements of each buffer, by slot."""
    sizes = {
        node.arg.slot: node.dtype.size
        for node in ast.toposort()
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType)
    }
    return [sizes[slot] for slot in range(len(sizes))]


def outputs(ast: UOp, *buffers: np.ndarray) -> list[list[float]]:
    """Return the outputs of a kernel that found zeros in them."""
    verify(Dialect.AST, ast)
    count = len(ast.src)
    assert sizes_of(ast)[count:] == [buffer.size for buffer in buffers]
    before = [np.zeros(size, np.int32) for size in sizes_of(ast)[:count]]
    contents = dict(enumerate([*before, *(buffer.reshape(-1) for buffer in buffers)]))
    written = evaluate(ast, contents, {})
    return [written[slot].tolist() for slot in sorted(written)]


CASES: dict[str, tuple[UOp, tuple[np.ndarray, ...], list[list[int]]]] = {
    "constant": (named.constant(i32, 7, 3), (), [[7, 7, 7]]),
    "elementwise": (named.elementwise(build.sub, (i32, i32), 2, 4), (X, X[::-1].copy()), [
        [-2, 8, 2, -5, 2, -8, -2, 5],
    ]),
    "copied": (named.copied(i32, shaped(8).flip((0,))), (X,), [[6, 2, -9, 5, 1, 4, -1, 3]]),
    "part of a larger buffer": (
        named.copied(i32, shaped(8).shrink(((2, 5),)), 8), (X,), [[4, 1, 5]],
    ),
    "transposed": (named.transposed(i32, 4, 2), (X,), [[3, 5, -1, -9, 4, 2, 1, 6]]),
    "sum": (named.reduction(Ops.ADD, i32, (2, 4), 1), (X,), [[7, 4]]),
    "product": (named.reduction(Ops.MUL, i32, (2, 4), 0), (X,), [[15, 9, 8, 6]]),
    "maximum": (named.reduction(Ops.MAX, i32, (2, 4), 0, 1), (X,), [[6]]),
    "padded sum": (named.padded_sum(i32, 2, 4, 1, 3), (X,), [[7, 4]]),
    "maximum minus sum": (named.maximum_minus_sum(i32, 2, 4), (X,), [[-3, 2]]),
    "sum and maximum": (named.sum_and_maximum(i32, 2, 4), (X,), [[7, 4], [4, 6]]),
    "sum of maxima": (named.sum_of_maxima(i32, 2, 2, 2), (X,), [[7, 11]]),
    "matrix product": (named.matmul(2, 4, 3, i32), (A, B), [(A @ B).ravel().tolist()]),
    "matrix product, transposed": (
        named.matmul(2, 4, 3, i32, is_transposed=True), (A, B.T.copy()), [(A @ B).ravel().tolist()],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_named_kernel_computes_what_it_says(name: str) -> None:
    ast, buffers, expected = CASES[name]
    assert outputs(ast, *buffers) == expected
