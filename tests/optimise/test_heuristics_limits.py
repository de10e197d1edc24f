"""Test the heuristics on both sides of each limit: one line for each kernel and device."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import pytest
from kernel_cases import GRID, LOOPS

from tinyref.capabilities import Capabilities
from tinyref.dtype import dtypes
from tinyref.optimise.choices import heuristic_plan
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import TILES
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels import named
from tinyref_spec.kernels.notation import kernel_of, largest, load, shaped, total

f32, f64, u8 = dtypes.float32, dtypes.float64, dtypes.uint8
HOST = dataclasses.replace(LOOPS, vector_lanes=(1, 2, 4, 8, 16), shared_bytes=1 << 19, threads=4)
GPU = dataclasses.replace(GRID, vector_lanes=(1, 2, 4), shared_bytes=48 << 10)
DEVICES = {
    "host": HOST,
    "host_of_little_memory": dataclasses.replace(HOST, shared_bytes=1 << 12),
    "gpu": GPU,
    "gpu_without_vectors": dataclasses.replace(GPU, vector_lanes=(1,)),
    "grid_without_groups": dataclasses.replace(GPU, has_groups=False),
    "gpu_with_tiles": dataclasses.replace(
        GPU, matrix_tiles=(TILES["apple_m8n8k8_float32_float32"],)
    ),
}
# A limit or a power of two, and one less or more.
LENGTHS = (3, 4, 7, 8, 32, 33, 256, 4096)


def softmax(rows: int, columns: int) -> UOp:
    """Return exp2(x - max) / sum of these: the result of a reduce is used twice."""
    x = load(1, f32, (rows, columns))
    wide = shaped(rows, 1).expand((rows, columns))
    powers = build.unary(Ops.EXP2, build.sub(x, build.view(largest(x, 1), wide)))
    sums = build.view(total(powers, 1), wide)
    return kernel_of(build.binary(Ops.FDIV, powers, sums), rows, columns)


def chain(rows: int, length: int, operations: int) -> UOp:
    """Return row sums of elements with this number of operations."""
    value = load(1, f32, (rows, length))
    for number in range(operations):
        value = build.add(build.mul(value, value), float(number))
    return kernel_of(total(value, 1), rows, 1)


def swapped(rows: int, columns: int) -> UOp:
    """Return an axis that is read forwards and backwards, as in a step of a sorting network."""
    x, turned = shaped(rows, columns, 2, 4), View((rows, columns, 2, 4), (columns * 8, 8, -4, 1), 4)
    second = load(1, f32, ShapeTracker((turned,)), rows * columns * 8)
    return kernel_of(build.maximum(load(1, f32, x), second), rows, columns, 2, 4)


def cut(rows: int, columns: int) -> UOp:
    """Return a kernel with a small axis that a mask cuts."""
    return named.copied(f32, shaped(columns, rows).pad(((0, 0), (1, 0))))


def of_any_size() -> Iterator[tuple[str, UOp]]:
    """Yield kernels with sizes that are known only at run time."""
    rows, columns = build.variable("rows", 1, 64), build.variable("columns", 1, 64)
    yield "product of any rows and columns", named.matmul(rows, columns, 128, f32)
    yield "product of any rows", named.matmul(rows, 64, 128, f32)
    yield "product of any depth", named.matmul(64, 48, columns, f32)
    yield "sums of any rows", named.reduction(Ops.ADD, f32, (rows, 1024), 1)
    yield "sums of rows of any length", named.reduction(Ops.ADD, f32, (64, columns), 1)
    yield "cut, any rows", named.copied(f32, shaped(2048, rows).pad(((0, 0), (1, 0))))


def dot_products(rows: int, columns: int) -> UOp:
    """Return products of two matrices, summed along rows: no operand stays the same."""
    operands = (load(slot, f32, (rows, columns)) for slot in (1, 2))
    return kernel_of(total(build.mul(*operands), 1), rows, 1)


def named_kernels() -> Iterator[tuple[str, UOp]]:
    """Yield each kernel with its name."""
    for length in LENGTHS:
        yield f"copy {length}", named.copied(f32, shaped(length))
        yield f"copy of bytes 3 {length}", named.copied(u8, shaped(3, length))
        yield f"transpose 48 {length}", named.transposed(f32, 48, length)
        yield f"sums of 3 rows of {length}", named.reduction(Ops.ADD, f32, (3, length), 1)
        yield f"sums of 4096 rows of {length}", named.reduction(Ops.ADD, f32, (4096, length), 1)
        yield f"sums of {length} columns of 64", named.reduction(Ops.ADD, f32, (64, length), 0)
        yield f"product {length} 64 32", named.matmul(length, 64, 32, f32)
        yield f"product 64 {length} 32", named.matmul(64, length, 32, f32)
        yield f"product 64 48 {length}", named.matmul(64, 48, length, f32)
        yield f"transposed {length} 48 32", named.matmul(length, 48, 32, f32, is_transposed=True)
        yield f"vector {length}, matrix", named.matmul(1, 64, length, f32, is_transposed=True)
        yield f"softmax 64 {length}", softmax(64, length)
        yield f"cut 5000 {length}", cut(length, 5000)
        yield f"swapped {length}", swapped(length, 64)
        yield f"maxima in sums {length}", named.sum_of_maxima(f32, 64, length, 4)
    for rows in (64, 1024, 2048, 2080):
        yield f"sums of {rows} rows of 1024", named.reduction(Ops.ADD, f32, (rows, 1024), 1)
        yield f"matrix {rows} 128, vector", named.matmul(1, rows, 128, f32, is_transposed=True)
        yield f"copy 1 {rows} 31", named.copied(f32, shaped(rows, 31).permute((1, 0)))
    for operations in (1, 2, 8):
        for length in (16, 4096):
            yield f"chain of {operations} along {length}", chain(256, length, operations)
    for size in (16, 128, 512):
        yield f"product {size} of doubles", named.matmul(size, size, size, f64)
        yield f"dot products of {size}", dot_products(size, size)
    # At this depth four vectors of columns fit the scratch memory of the host; at one more, two do.
    for length in (2048, 2049):
        yield f"product 64 64 {length}", named.matmul(64, 64, length, f32)
    for length in (4, 64, 300):
        yield f"maximum minus sum {length}", named.maximum_minus_sum(f32, 64, length)
    yield "sum of all", named.reduction(Ops.ADD, f32, (4096,), 0)
    yield from of_any_size()


@functools.cache
def kernels() -> Mapping[str, UOp]:
    """Return all kernels, for every device."""
    return dict(named_kernels())


@pytest.mark.table
@pytest.mark.parametrize("device", DEVICES)
def test_plans_at_limits(device: str, golden: Callable[[str, str], None]) -> None:
    """Compare the plans with the golden file, whose changes need a look, line by line."""
    capabilities: Capabilities = DEVICES[device]
    lines = []
    for name, ast in kernels().items():
        plan = heuristic_plan(Plan.of(ast, capabilities))
        packed = f", packed {plan.packed}" if plan.packed else ""
        lines.append(f"{name}: {', '.join(map(str, plan.axes))}{packed}")
    golden(f"limits_{device}.txt", "\n".join(lines) + "\n")
