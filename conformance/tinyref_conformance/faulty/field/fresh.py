"""A fresh sample of faults: for each of ten stacks the first new report that a search returned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.runtimes.host.memory import HostHandle, address_of
from tinyref.tensor import Tensor, Variable
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import GepArg, SpecialArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.device import Call, Simulated, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import (
    DirectProgram,
    FaultKind,
    FieldFault,
    field_device,
)
from tinyref_conformance.faulty.field.patterns import (
    change_of,
    constant_of,
    elementwise,
    has_products,
    is_cast,
    is_copy,
    is_fill,
    is_shared_element,
    replacing,
    without_lanes,
)
from tinyref_conformance.faulty.programs import Change
from tinyref_spec.kernel.programs import at, group_index, item_index, loop, program

_FLOAT = dtypes.float32
_FAR_ROW = 32_768


# Arguments and sizes of launches


def _followed(kernel: SimulatedKernel, change: Callable[[Sequence[HostHandle]], None]) -> Call:
    """Return the launch of a kernel that changes its buffers when it is done."""
    healthy = kernel.run

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        change(buffers)
        return seconds

    return run


def _long_first_argument(kernel: SimulatedKernel) -> Call:
    """Shift the arguments behind the first one, whose high half is read as the second."""
    healthy = kernel.run

    def run(buffers: Any, grid: Any, group: Any, variables: Sequence[int], *rest: Any) -> Any:
        if is_copy(kernel.program) and len(variables) > 1:
            variables = (variables[0], 0, *variables[1:-1])
        return healthy(buffers, grid, group, variables, *rest)

    return run


def _part_of_rows(device: str) -> Tensor:
    numbers = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4), device=device).realize()
    row, column = (Variable(name, 0, 2) for name in ("row", "column"))
    first, second = row.bind(1), column.bind(2)
    return numbers[first : first + 2, second : second + 2].contiguous()


def _rows_of_linear(subject: Program) -> int:
    """Return the number of rows of a float32 matrix product with a bias, else 0."""
    types = [parameter.dtype for parameter in subject.parameters]
    if types != [_FLOAT] * 4 or not has_products(subject):
        return 0
    out, data, weights, bias = (parameter.size for parameter in subject.parameters)
    depth = math.isqrt(data * weights // out)
    is_linear = depth > 1 and weights == depth * bias and data * bias == depth * out
    return data // depth if is_linear else 0


def _without_far_rows(kernel: SimulatedKernel) -> Call:
    """Leave zeros in the rows from 32,768 on, as the sum of differences in the report shows."""
    rows = _rows_of_linear(kernel.program)

    def change(buffers: Sequence[HostHandle]) -> None:
        if rows > _FAR_ROW:
            buffers[0][buffers[0].size // rows * _FAR_ROW :] = 0

    return _followed(kernel, change)


def _long_linear(device: str) -> Tensor:
    data = Tensor(np.ones((2, 16_386, 2), np.float32), device=device)
    weights = Tensor(np.ones((1, 2), np.float32), device=device)
    bias = Tensor(np.ones(1, np.float32), device=device)
    result = (data @ weights.permute(1, 0) + bias).realize()
    return result.reshape(-1)[_FAR_ROW - 2 : _FAR_ROW + 2]


def _nan_products(kernel: SimulatedKernel) -> Call:
    """Make elements of a float64 product of 60 by 60 matrices NaN and 0 in turns."""
    kinds = [(parameter.dtype, parameter.size) for parameter in kernel.program.parameters]
    is_wrong = kinds == [(dtypes.float64, 60 * 60)] * 3 and has_products(kernel.program)

    def change(buffers: Sequence[HostHandle]) -> None:
        if is_wrong:
            numbers = buffers[0].view(np.float64)
            numbers[::2], numbers[1::2] = np.nan, 0

    return _followed(kernel, change)


def _product_of_sixty(device: str) -> Tensor:
    """Return the start of a row of the product: 60 times the number of the column."""
    ones = Tensor(np.ones((60, 60)), device=device)
    columns = Tensor(np.tile(np.arange(60.0), (60, 1)), device=device)
    return (ones @ columns).realize()[0, :4]


# Results of earlier launches


def _mark(kernel: SimulatedKernel, buffers: Sequence[HostHandle], marks: bool) -> None:
    """Mark the outputs of a launch, or remove their marks."""
    for buffer, parameter in zip(buffers, kernel.program.parameters, strict=True):
        if parameter.is_written:
            kernel.owner.counts[str(address_of(buffer))] = int(marks)


def _forget_at_copy(device: Simulated) -> dict[str, Call]:
    """Remove the mark of memory that the host writes."""

    def copy_in(handle: HostHandle, source: memoryview) -> None:
        device.counts[str(address_of(handle))] = 0
        device.memory.copy_in(handle, source)

    return {"copy_in": copy_in}


def _is_softmax(subject: Program) -> bool:
    writes = [parameter.dtype for parameter in subject.parameters if parameter.is_written]
    quotients = [node for node in subject.uops if node.op is Ops.FDIV]
    has_softmax = any(without_lanes(node.src[0]).op is Ops.EXP2 for node in quotients)
    return has_softmax and writes == [dtypes.bfloat16]


def _is_argmax(subject: Program) -> bool:
    has_largest = any(node.op is Ops.MAX and node.dtype.is_int for node in subject.uops)
    return has_largest and [item.dtype for item in subject.parameters[1:]] == [dtypes.bfloat16]


def _least_argmax(kernel: SimulatedKernel) -> Call:
    """Make each argmax of what a bfloat16 softmax wrote the least integer."""
    is_softmax, is_argmax = _is_softmax(kernel.program), _is_argmax(kernel.program)

    def change(buffers: Sequence[HostHandle]) -> None:
        _mark(kernel, buffers, is_softmax)
        if is_argmax and kernel.owner.counts[str(address_of(buffers[1]))]:
            index = kernel.program.parameters[0].dtype
            buffers[0].view(numpy_dtype(index))[:] = index.minimum

    return _followed(kernel, change)


def _argmax_of_softmax(device: str) -> Tensor:
    numbers = np.array([[-0.5, 0.25], [1.5, -1.25], [-0.75, 0.5], [-2.5, 2]], np.float32)
    data = Tensor(numbers, dtype=dtypes.bfloat16, device=device)
    return data.softmax(1).realize().argmax(1)


def _marked_constants(kernel: SimulatedKernel) -> Call:
    fills = is_fill(kernel.program)
    return _followed(kernel, lambda buffers: _mark(kernel, buffers, fills))


def _reading_freed_memory(device: Simulated) -> dict[str, Call]:
    """Overwrite the start of a constant result before the host reads it."""

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        device.memory.copy_out(destination, handle)
        if device.counts[str(address_of(handle))]:
            np.frombuffer(destination, np.uint8)[:16] ^= 0x55

    return {**_forget_at_copy(device), "copy_out": copy_out}


# Arithmetic, lanes and positions


def _first_lanes(node: UOp) -> UOp | None:
    """Return lanes 0 and 1 for lanes 2 and 3 of a float32 vector of 4 from memory."""
    if node.op is not Ops.GEP or node.arg != GepArg((2, 3)):
        return None
    vector = node.src[0]
    is_loaded = vector.op is Ops.LOAD and vector.dtype is _FLOAT.vec(4)
    return build.gep(vector, 0, 1) if is_loaded else None


def _sum_of_last_lanes() -> DirectProgram:
    out, data = build.define_global(0, _FLOAT, 1), build.define_global(1, _FLOAT, 4)
    pair = build.gep(build.load(at(data, 0), lanes=4), 2, 3)
    total = build.add(build.gep(pair, 0), build.gep(pair, 1))
    kernel = program("swizzle", build.store(at(out, 0), total))
    return launch(kernel, [None, np.array([1, 2, 4, 8], np.float32)], 12)


def _is_sum(node: UOp) -> bool:
    return node.op is Ops.ADD and node.dtype is _FLOAT


def _sums_of_sums(subject: Program) -> Change:
    """Make (a + x) + x the sum of (a + x) and itself, as the first sum takes the name of x."""
    pairs = [(node.src[0], node.src[1]) for node in subject.uops if _is_sum(node)]
    repeats = iter([_is_sum(first) and first.src[1] is last for first, last in pairs])

    def replacement(node: UOp) -> UOp | None:
        return build.add(node.src[0], node.src[0]) if _is_sum(node) and next(repeats) else None

    return change_of(replacement)


def _zero_for_rotation(node: UOp) -> UOp | None:
    """Return 0 for an element of float32 at (i + c) % n, of constants c and n."""
    if node.op is not Ops.LOAD or node.dtype is not _FLOAT or node.src[0].op is not Ops.INDEX:
        return None
    position = node.src[0].src[1]
    if position.op is not Ops.MOD or constant_of(position.src[1]) is None:
        return None
    moved = position.src[0]
    is_rotation = moved.op is Ops.ADD and bool(constant_of(moved.src[1]))
    return build.const(_FLOAT, 0.0) if is_rotation else None


def _rotated() -> DirectProgram:
    out, data, i = build.define_global(0, _FLOAT, 6), build.define_global(1, _FLOAT, 6), loop(6, 0)
    number = build.load(at(data, build.mod(build.add(i, 3), 6)))
    kernel = program("rotated", i, build.store(at(out, i), number), build.close(i))
    return launch(kernel, [None, np.arange(1, 7, dtype=np.float32)], 4, 5, 6, 1, 2, 3)


def _product_without_shift(node: UOp) -> UOp | None:
    """Return x of 8 bits for the low 8 bits of x * 256: the shift by 8 is one by 8 modulo 8."""
    if not is_cast(node, dtypes.uint8, dtypes.uint64) or node.src[0].op is not Ops.MUL:
        return None
    factor, constant = node.src[0].src
    is_wide = is_cast(factor, dtypes.uint64, dtypes.uint8)
    return factor.src[0] if is_wide and constant_of(constant) == 256 else None


# Lanes behind branches


def _group_of_branch(subject: Program) -> UOp | None:
    """Return the group's index if it gates a store in a branch on numbers from memory."""
    opened: list[UOp] = []
    for node in subject.uops:
        if node.op is Ops.IF:
            opened.append(node)
        if node.op is Ops.ENDIF:
            opened.pop()
        is_gated = node.op is Ops.STORE and len(node.src) == 3 and bool(opened)
        gates = node.src[2].toposort() if is_gated else ()
        group = next((part for part in gates if part.arg == SpecialArg("group", 0)), None)
        if group is not None and any(part.op is Ops.LOAD for part in opened[-1].toposort()):
            return group
    return None


def _half_of_first_group(subject: Program) -> Change:
    """Make the upper half of shared memory 0 for the first group, behind such a branch."""
    group = _group_of_branch(subject)

    def replacement(node: UOp) -> UOp | None:
        is_shared = node.op is Ops.LOAD and is_shared_element(node)
        if group is None or not is_shared:
            return None
        is_upper = build.less(math.prod(subject.group) // 2 - 1, node.src[0].src[1])
        return build.where(build.both(is_upper, build.less(group, 1)), 0, node)

    return change_of(replacement)


def _row_sums() -> DirectProgram:
    """Return the program whose 4 groups of 4 work-items add rows, behind a branch."""
    out, log = build.define_global(0, _FLOAT, 4), build.define_global(1, _FLOAT, 4)
    flags, rows = build.define_global(2, _FLOAT, 2), build.define_global(3, _FLOAT, 16)
    shared, group, item = build.define_local("shared", _FLOAT, 4), group_index(4), item_index(4)
    is_first = build.less(group, 1)
    check = build.branch(build.less(build.load(at(flags, 0)), build.load(at(flags, 1))))
    note = build.store(at(log, item), build.const(_FLOAT, 7), is_first)
    number = build.load(at(rows, build.add(build.mul(group, 4), item)))
    put, counter = build.store(at(shared, item), number), loop(4, 0)
    total = build.accumulator("total", build.const(_FLOAT, 0))
    last = build.update(total, build.add(total, build.load(at(shared, counter))))
    result = build.store(at(out, group), last, build.less(item, 1))
    nodes = (check, note, build.close(check), put, build.barrier(), total, counter, last)
    four = (4, 1, 1)
    kernel = program("row_sums", *nodes, build.close(counter), result, grid=four, group=four)
    inputs = [None, None, np.array([0, 1], np.float32), np.ones(16, np.float32)]
    return launch(kernel, inputs, 4, 4, 4, 4)


FAULTS = (
    FieldFault(
        device=field_device(
            name="MiopenFirstArgumentIsLong",
            sentence="Passes the first integer of a copying kernel in 64 bits, which the kernel "
            "reads as two numbers of 32 bits.",
            sanitize=False,
            launch=_long_first_argument,
        ),
        stack="MIOpen on Windows, AMD",
        kind=FaultKind.INDEX,
        link="https://github.com/ROCm/rocm-libraries/issues/3339",
        program=compute(_part_of_rows, 6, 7, 10, 11),
    ),
    FieldFault(
        device=field_device(
            name="MpsLinearLosesFarRows",
            sentence="Leaves zeros in the rows from 32,768 on of a float32 matrix product with a "
            "bias.",
            launch=_without_far_rows,
        ),
        stack="PyTorch MPS, Apple",
        kind=FaultKind.LIMIT,
        link="https://github.com/pytorch/pytorch/issues/97239",
        program=compute(_long_linear, 3, 3, 3, 3),
    ),
    FieldFault(
        device=field_device(
            name="DxcSwizzleTakesFirstLanes",
            sentence="Takes the first two lanes of a float32 vector of four from memory instead of "
            "the last two.",
            program=replacing(_first_lanes),
        ),
        stack="DXC, Microsoft",
        kind=FaultKind.VECTOR,
        link="https://github.com/microsoft/DirectXShaderCompiler/issues/1137",
        program=_sum_of_last_lanes(),
    ),
    FieldFault(
        device=field_device(
            name="TpuArgmaxOfSoftmaxIsLeast",
            sentence="Gives the least integer for every argmax of a bfloat16 softmax.",
            launch=_least_argmax,
            memory=_forget_at_copy,
        ),
        stack="PyTorch/XLA for TPU, Google",
        kind=FaultKind.REDUCE,
        link="https://github.com/pytorch/xla/issues/2525",
        program=compute(_argmax_of_softmax, 1, 0, 1, 1),
    ),
    FieldFault(
        device=field_device(
            name="TritonBranchHalvesSum",
            sentence="Adds up half of a group in the first group, behind a branch on numbers from "
            "memory that stores for this group only.",
            program=_half_of_first_group,
        ),
        stack="Triton, OpenAI",
        kind=FaultKind.SUBGROUP,
        link="https://github.com/triton-lang/triton/issues/11153",
        program=_row_sums(),
    ),
    FieldFault(
        device=field_device(
            name="TvmSumAddsItself",
            sentence="Adds a float32 sum to itself where its last term is added once more.",
            program=_sums_of_sums,
        ),
        stack="TVM ONNX importer, Apache",
        kind=FaultKind.FLOAT,
        link="https://github.com/apache/tvm/issues/12305",
        program=launch(
            elementwise(lambda x: reduce(build.add, [x] * 5), _FLOAT, (_FLOAT,), size=1),
            [None, np.array([-0.75], np.float32)],
            -3.75,
        ),
    ),
    FieldFault(
        device=field_device(
            name="IreeRotationIsZero",
            sentence="Loads 0 for float32 at the remainder of a position plus a constant.",
            program=replacing(_zero_for_rotation),
        ),
        stack="IREE for CPU, IREE project",
        kind=FaultKind.INDEX,
        link="https://github.com/iree-org/iree/issues/19898",
        program=_rotated(),
    ),
    FieldFault(
        device=field_device(
            name="OrtConstantResultIsFreed",
            sentence="Frees a result that depends on no input before the host reads it: its first "
            "16 bytes are overwritten.",
            launch=_marked_constants,
            memory=_reading_freed_memory,
        ),
        stack="ONNX Runtime for Rust, pyke",
        kind=FaultKind.MEMORY,
        link="https://github.com/pykeio/ort/issues/122",
        program=compute(
            lambda device: Tensor.full((6,), 0.5, device=device).contiguous(), *([0.5] * 6)
        ),
    ),
    FieldFault(
        device=field_device(
            name="K230ProductsAreNan",
            sentence="Gives NaN and 0 in turns for products of float64 matrices of 60 by 60.",
            launch=_nan_products,
        ),
        stack="OpenBLAS for K230, Canaan",
        kind=FaultKind.TILE,
        link="https://github.com/kendryte/k230_sdk/issues/10",
        program=compute(_product_of_sixty, 0, 60, 120, 180),
    ),
    FieldFault(
        device=field_device(
            name="CraneliftMultipliesByOne",
            sentence="Multiplies a widened uint8 by 1 instead of 256 where the result is narrowed "
            "to uint8 again.",
            program=replacing(_product_without_shift),
        ),
        stack="Cranelift, Bytecode Alliance",
        kind=FaultKind.INTEGER,
        link="https://github.com/rust-lang/rustc_codegen_cranelift/issues/1460",
        program=launch(
            elementwise(
                lambda x: build.cast(build.mul(build.cast(x, dtypes.uint64), 256), dtypes.uint8),
                dtypes.uint8,
                (dtypes.uint8,),
                size=1,
            ),
            [None, np.array([42], np.uint8)],
            0,
        ),
    ),
)
