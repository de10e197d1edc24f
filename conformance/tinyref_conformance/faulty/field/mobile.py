"""Faults of mobile GPUs: the stacks for Adreno, Mali, PowerVR and VideoCore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyref.contract import Launch
from tinyref.dtype import DType, dtypes
from tinyref.runtimes.host.memory import HostHandle
from tinyref.runtimes.kernel import LaunchesInARow
from tinyref.runtimes.python import Extents
from tinyref.tensor import Tensor
from tinyref.tensor.jit import TinyJit
from tinyref.uops import build
from tinyref.uops.build import branch, close
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import (
    DirectProgram,
    FaultKind,
    FieldFault,
    field_device,
)
from tinyref_conformance.faulty.field.patterns import (
    constant_of,
    has_products,
    inverted,
    is_copy,
    is_product_of_buffers,
)
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.kernel.programs import INT, at, group_index, loop, program

_WHOLE_COLUMNS = 4


def _constant_of_vector_and(node: UOp) -> tuple[UOp, ...]:
    is_vector = node.op is Ops.AND and node.dtype.is_int and node.dtype.lanes > 1
    if not is_vector or constant_of(node.src[1]) is None:
        return (node,)
    return (node.src[1],)


def _cast_by_rounding(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    if dtype.scalar is dtypes.int8 and sources[0].scalar is dtypes.float32:
        operands = [np.rint(operands[0])]
    return right(Ops.CAST, dtype, operands, sources)


def _is_sum_of_products(node: UOp) -> bool:
    if node.op is not Ops.ADD or not node.dtype.is_float:
        return False
    return all(
        any(is_product_of_buffers(source) for source in side.toposort())
        or side.op in (Ops.DEFINE_ACC, Ops.CONST)
        for side in node.src
    )


def _terms(total: UOp) -> list[UOp]:
    """Return the terms of a sum of sums."""
    if total.op is not Ops.ADD:
        return [total]
    return [term for side in total.src for term in _terms(side)]


def _column(position: UOp) -> tuple[UOp, int] | None:
    """Return the index of the column and the number of columns if `position` has them."""
    terms = _terms(position)
    for term in terms:
        columns = constant_of(term.src[0]) if term.op in (Ops.SPECIAL, Ops.RANGE) else None
        rows = [constant_of(other.src[1]) for other in terms if other.op is Ops.MUL]
        if columns and any(isinstance(row, int) and row % columns == 0 for row in rows):
            return term, int(columns)
    return None


def _without_loose_columns(node: UOp) -> tuple[UOp, ...]:
    """Store zero in the columns of a product of matrices after the last whole vector."""
    if node.op is not Ops.STORE or not _is_sum_of_products(node.src[1]):
        return (node,)
    address, value = node.src[:2]
    layout = _column(address.src[1]) if address.op is Ops.INDEX else None
    if layout is None or layout[1] % _WHOLE_COLUMNS == 0:
        return (node,)
    column, columns = layout
    limit = build.const(column.dtype, columns - columns % _WHOLE_COLUMNS)
    zero, is_whole = build.const(value.dtype, 0.0), build.less(column, limit)
    cut = build.where(is_whole, value, zero)
    return (limit, zero, is_whole, cut, node.with_sources((address, cut, *node.src[2:])))


def _without_negation(node: UOp) -> tuple[UOp, ...]:
    condition = inverted(node.src[0]) if node.op is Ops.IF else None
    if condition is None or condition.op not in (Ops.AND, Ops.OR):
        return (node,)
    return (node.with_sources((condition,)),)


def _shifted_after_widening(node: UOp) -> tuple[UOp, ...]:
    shift = node.src[0] if node.op is Ops.CAST and node.dtype is dtypes.uint32 else node
    is_shift = shift.op is Ops.SHL and shift.dtype is dtypes.uint8
    count = constant_of(shift.src[1]) if is_shift else None
    if count is None:
        return (node,)
    wide = build.cast(shift.src[0], dtypes.uint32)
    steps = build.const(dtypes.uint32, count)
    return (wide, steps, build.binary(Ops.SHL, wide, steps))


def _writing_zeros(kernel: SimulatedKernel) -> Call:
    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = kernel.run(buffers, *rest)
        for buffer, parameter in zip(buffers, kernel.program.parameters, strict=True):
            if parameter.is_written:
                buffer[:] = 0
        return seconds

    return run


class _FirstCopyOnly(LaunchesInARow):
    """Leaves zeros in the outputs of all copying kernels but the first."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        edited, copies = list[Launch](), 0
        for item in launches:
            kernel = item.kernel
            if isinstance(kernel, SimulatedKernel) and is_copy(kernel.program):
                copies += 1
                item = item if copies == 1 else replace(item, kernel=_writing_zeros(kernel))
            edited.append(item)
        super().__init__(edited)


def _first_group_only(kernel: SimulatedKernel) -> Call:
    def run(buffers: Sequence[HostHandle], grid: Extents, group: Extents, *rest: Any) -> Any:
        return healthy(buffers, (1, 1, 1) if group == (1, 1, 1) else grid, group, *rest)

    healthy = kernel.run
    return run


def _sums_in_half(program: Program) -> Change:
    is_half = all(parameter.dtype is dtypes.float16 for parameter in program.parameters)
    multiplies = has_products(program)

    def change(node: UOp) -> tuple[UOp, ...]:
        is_sum = node.op is Ops.ADD and node.dtype.scalar is dtypes.float32
        if not is_sum or not is_half or multiplies:
            return (node,)
        rounded = build.cast(node, dtypes.float16)
        return (node, rounded, build.cast(rounded, dtypes.float32))

    return change


def _masked_vector() -> DirectProgram:
    out, data = build.define_global(0, INT, 4), build.define_global(1, INT, 4)
    mask = build.const(INT.vec(4), 15)
    low = build.both(build.load(at(data, 0), lanes=4), mask)
    numbers = np.array([16, 17, 18, 51], np.int32)
    return launch(program("mask", build.store(at(out, 0), low)), [None, numbers], 0, 1, 2, 3)


def _negated_branch() -> DirectProgram:
    out, i = build.define_global(0, INT, 4), loop(4, 0)
    outside = build.either(build.less(i, 1), build.less(2, i))
    inside = branch(build.logical_not(outside))
    store = build.store(at(out, i), build.add(i, 10))
    kernel = program("branch", i, inside, store, close(inside), close(i))
    return launch(kernel, [np.zeros(4, np.int32)], 0, 11, 12, 0)


def _packed_nibble() -> DirectProgram:
    out = build.define_global(0, dtypes.uint32, 1)
    data = build.define_global(1, dtypes.uint8, 1)
    shifted = build.binary(Ops.SHL, build.load(at(data, 0)), build.const(dtypes.uint8, 4))
    store = build.store(at(out, 0), build.cast(shifted, dtypes.uint32))
    return launch(program("pack", store), [None, np.array([0xAB], np.uint8)], 0xB0)


def _recorded_copies(device: str) -> list[float]:
    @TinyJit
    def transposed(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return first.permute(1, 0).contiguous().realize(), second.permute(
            1, 0
        ).contiguous().realize()

    results: list[float] = []
    for start in (1, 5, 9):
        numbers = np.arange(start, start + 4, dtype=np.float32).reshape(2, 2)
        pair = transposed(Tensor(numbers, device=device), Tensor(-numbers, device=device))
        results = [float(number) for tensor in pair for number in tensor.numpy().reshape(-1)]
    return results


def _one_item_groups() -> DirectProgram:
    data, group = build.define_global(0, INT, 4), group_index(4)
    element = at(data, group)
    kernel = program(
        "tens", build.store(element, build.mul(build.load(element), 10)), grid=(4, 1, 1)
    )
    return launch(kernel, [np.array([1, 2, 3, 4], np.int32)], 10, 20, 30, 40)


def _product_of_ones(device: str, rows: int, inner: int, columns: int) -> Tensor:
    first = Tensor.ones(rows, inner, device=device).contiguous()
    return (first @ Tensor.ones(inner, columns, device=device).contiguous()).realize()


FAULTS = (
    FieldFault(
        device=field_device(
            name="MaliVectorAndIsConstant",
            sentence="Returns the constant operand for the bitwise AND of an integer vector and "
            "a constant vector.",
            program=each_node(_constant_of_vector_and),
        ),
        stack="GLSL compiler for Mali, Arm",
        kind=FaultKind.VECTOR,
        link="https://github.com/dolphin-emu/dolphin/pull/9636",
        program=_masked_vector(),
    ),
    FieldFault(
        device=field_device(
            name="ArmComputeRoundsCastsToInt8",
            sentence="Rounds to nearest when it casts float32 to int8.",
            ops={Ops.CAST: _cast_by_rounding},
        ),
        stack="Compute Library, Arm",
        kind=FaultKind.CAST,
        link="https://github.com/ARM-software/ComputeLibrary/issues/881",
        program=compute(
            lambda device: Tensor([1.75, -2.75, 0.25, 7.0], device=device).cast("int8"),
            1,
            -2,
            0,
            7,
        ),
    ),
    FieldFault(
        device=field_device(
            name="ArmComputeLosesLooseColumns",
            sentence="Writes zero to the columns of a float matrix product that follow the last "
            "whole vector of four.",
            program=each_node(_without_loose_columns),
        ),
        stack="Compute Library, Arm",
        kind=FaultKind.TILE,
        link="https://github.com/ARM-software/ComputeLibrary/issues/239",
        program=compute(
            lambda device: _product_of_ones(device, 2, 4, 5)[0],
            4,
            4,
            4,
            4,
            4,
        ),
    ),
    FieldFault(
        device=field_device(
            name="AdrenoIgnoresNegatedCondition",
            sentence="Ignores the negation in a branch condition that negates an AND or OR.",
            program=each_node(_without_negation),
        ),
        stack="GLSL compiler for Adreno, Qualcomm",
        kind=FaultKind.LOOP,
        link="https://github.com/dolphin-emu/dolphin/pull/1434",
        program=_negated_branch(),
    ),
    FieldFault(
        device=field_device(
            name="AdrenoLeaksShiftedNibble",
            sentence="Keeps the bits above the eighth when it shifts a byte left by a constant "
            "and widens it to uint32.",
            program=each_node(_shifted_after_widening),
        ),
        stack="OpenCL compiler for Adreno, Qualcomm",
        kind=FaultKind.INTEGER,
        link="https://github.com/tetherto/qvac-fabric-llm.cpp/pull/208",
        program=_packed_nibble(),
    ),
    FieldFault(
        device=field_device(
            name="PowerVrKeepsFirstRecordedCopy",
            sentence="Writes zeros instead of the results of all copying kernels in a command "
            "buffer except the first.",
            commands=_FirstCopyOnly,
        ),
        stack="Vulkan driver for PowerVR, Imagination",
        kind=FaultKind.SCHEDULE,
        link="https://github.com/pytorch/executorch/pull/17468",
        program=DirectProgram(_recorded_copies, (9, 11, 10, 12, -9, -11, -10, -12)),
    ),
    FieldFault(
        device=field_device(
            name="VideoCoreRunsFirstGroup",
            sentence="Runs only the first group of a grid if its groups have one work-item.",
            launch=_first_group_only,
        ),
        stack="OpenGL driver for VideoCore, Broadcom",
        kind=FaultKind.GROUP,
        link="https://github.com/gfx-rs/wgpu/issues/1583",
        program=_one_item_groups(),
    ),
    FieldFault(
        device=field_device(
            name="NcnnPoolsInHalf",
            sentence="Accumulates float16 averages in float16, so sums over large areas overflow.",
            program=_sums_in_half,
        ),
        stack="ncnn Vulkan, Tencent",
        kind=FaultKind.REDUCE,
        link="https://github.com/Tencent/ncnn/pull/2698",
        program=compute(
            lambda device: (
                Tensor.full((4096,), 100.0, dtype="float16", device=device).contiguous().mean()
            ),
            100,
        ),
    ),
)
