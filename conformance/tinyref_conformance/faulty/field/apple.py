"""Faults of Apple's stacks: the Metal compiler and driver, MPS, MLX, Core ML, Metal.jl."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyref.dtype import AddressSpace, DType, PtrDType, dtypes
from tinyref.interpret.translate import Override
from tinyref.runtimes.host.memory import HostHandle
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import changed, flush, right
from tinyref_conformance.faulty.device import Array, Call, Simulated, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch, reversed_in_group
from tinyref_conformance.faulty.field.fault import FaultKind, FieldFault, field_device
from tinyref_conformance.faulty.field.gpu import HEALTHY, OneOrderGpu, broadcast_last
from tinyref_conformance.faulty.field.patterns import constant_of
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_conformance.faulty.queues import Postponed
from tinyref_spec.kernel.programs import INT, at, group_index, loop, program

_METAL = "Metal compiler, Apple"
_MPS = "PyTorch MPS, Apple"
_MLX = "MLX, Apple"
_LONG_LOOP = 1_000_000
_LONG_PRODUCT = 32767
_LEAST = float(np.finfo(np.float32).min)
_HALF_TINY = float(np.finfo(np.float16).tiny)


def _keep(node: UOp) -> tuple[UOp, ...]:
    return (node,)


def _sizes(subject: Program) -> list[int]:
    return [parameter.size for parameter in subject.parameters]


# Barriers, loops and branches


def _without_barriers_in_small_groups(subject: Program) -> Change:
    is_small = math.prod(subject.group) <= 32
    return lambda node: () if is_small and node.op is Ops.BARRIER else (node,)


def _is_shared_store(node: UOp) -> bool:
    memory = node.src[0].src[0] if node.op is Ops.STORE else node
    return isinstance(memory.dtype, PtrDType) and memory.dtype.space is AddressSpace.LOCAL


def _without_barriers_behind_gates(subject: Program) -> Change:
    """Drop the barriers if every store to shared memory has a gate or is in a branch."""
    depth, gated = 0, set[bool]()
    for node in subject.uops:
        depth += (node.op is Ops.IF) - (node.op is Ops.ENDIF)
        if node.op is Ops.STORE and _is_shared_store(node):
            gated.add(depth > 0 or len(node.src) == 3)
    return lambda node: () if gated == {True} and node.op is Ops.BARRIER else (node,)


def _without_stores_of_long_loops(subject: Program) -> Change:
    iterations = longest = 1
    for node in subject.uops:
        if node.op is Ops.RANGE:
            iterations *= int(constant_of(node.src[0]) or 1)
            longest = max(longest, iterations)
        if node.op is Ops.END:
            iterations //= int(constant_of(node.src[0].src[0]) or 1)
    return lambda node: () if longest > _LONG_LOOP and node.op is Ops.STORE else (node,)


def _counted(iterations: int) -> Program:
    """Return a program that counts the iterations of a loop."""
    out, counter = build.define_global(0, INT, 1), loop(iterations, 0)
    total = build.accumulator("total", build.const(INT, 0))
    update = build.update(total, build.add(total, 1))
    end, store = build.close(counter), build.store(at(out, 0), update)
    return program("counted", total, counter, update, end, store)


def _without_checked_stores(subject: Program) -> Change:
    """Drop stores of a branch in a loop whose number of iterations is known at run time."""
    open_blocks: list[UOp] = []

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op in (Ops.RANGE, Ops.IF):
            open_blocks.append(node)
        if node.op in (Ops.END, Ops.ENDIF):
            open_blocks.pop()
        is_varying = any(
            block.op is Ops.RANGE and constant_of(block.src[0]) is None for block in open_blocks
        )
        is_checked = bool(open_blocks) and open_blocks[-1].op is Ops.IF
        return () if node.op is Ops.STORE and is_varying and is_checked else (node,)

    return change


def _checked_copy() -> Program:
    """Return a program that copies as many numbers as a buffer says, with a check of each."""
    out, data = build.define_global(0, INT, 3), build.define_global(1, INT, 3)
    count = build.load(at(build.define_global(2, INT, 1), 0))
    element = loop(count, 0)
    check = build.branch(build.less(element, 3))
    copy = build.store(at(out, element), build.load(at(data, element)))
    ends = (build.close(check), build.close(element))
    return program("checked_copy", count, element, check, copy, *ends)


# Reduces


def _is_reduced(value: UOp, op: Ops) -> bool:
    return value.op is op or (value.op is Ops.UPDATE_ACC and value.src[1].op is op)


def _is_reduce(subject: Program) -> bool:
    """Return True if the output has fewer elements than an input."""
    out, *inputs = _sizes(subject)
    return any(size > out for size in inputs)


def _zero_largest_int64(subject: Program) -> Change:
    if not _is_reduce(subject):
        return _keep

    def change(node: UOp) -> tuple[UOp, ...]:
        is_int64 = node.op is Ops.STORE and node.src[1].dtype is dtypes.int64
        return _store_zero(node) if is_int64 and _is_reduced(node.src[1], Ops.MAX) else (node,)

    return change


def _store_zero(node: UOp) -> tuple[UOp, ...]:
    zero = build.const(node.src[1].dtype, 0)
    return (zero, node.with_sources((node.src[0], zero, *node.src[2:])))


def _is_nan_guard(node: UOp) -> bool:
    """Return True for the selection of NaN in a reduce that has seen NaN."""
    if node.op is not Ops.WHERE or not node.dtype.is_float:
        return False
    value = constant_of(node.src[1])
    return value is not None and math.isnan(value) and _is_reduced(node.src[0], Ops.MAX)


def _skip_nan(subject: Program) -> Change:
    """Forget that a maximum has seen NaN, and take the other number."""
    if not any(_is_nan_guard(node) for node in subject.uops):
        return _keep

    def change(node: UOp) -> tuple[UOp, ...]:
        if _is_nan_guard(node):
            return (node.src[2],)
        if node.op is not Ops.MAX or not node.dtype.is_float:
            return (node,)
        first, second = node.src
        is_other = build.either(build.less(first, second), build.not_equal(first, first))
        return (*is_other.src, is_other, build.where(is_other, second, first))

    return change


def _start_at_least_finite(subject: Program) -> Change:
    """Start the maximum of sizes that are no multiple of 4 at the least finite number."""
    is_odd = any(size % 4 for size in _sizes(subject)[1:])

    def change(node: UOp) -> tuple[UOp, ...]:
        is_start = node.op is Ops.DEFINE_ACC and node.dtype is dtypes.float32
        if not is_odd or not is_start or constant_of(node.src[0]) != -math.inf:
            return (node,)
        least = build.const(dtypes.float32, _LEAST)
        return (least, node.with_sources((least, *node.src[1:])))

    return change


def _multiply_past_end(subject: Program) -> Change:
    """Round the long loops of float32 products up to a multiple of 16."""
    types = {parameter.dtype.scalar for parameter in subject.parameters}
    ops = {node.op for node in subject.uops}
    is_product = len(subject.parameters) == 3 and {Ops.MUL, Ops.DEFINE_ACC} <= ops
    if types != {dtypes.float32} or not is_product or _sizes(subject)[0] < 256:
        return _keep

    def change(node: UOp) -> tuple[UOp, ...]:
        extent = constant_of(node.src[0]) if node.op is Ops.RANGE else None
        if extent is None or extent < _LONG_PRODUCT:
            return (node,)
        longer = build.const(node.src[0].dtype, int(extent) + int(-extent) % 16)
        return (longer, node.with_sources((longer,)))

    return change


def _long_product() -> Program:
    """Return a program that multiplies 16 x 32,767 by 32,767 x 16 elements."""
    rows, columns, depth = 16, 16, _LONG_PRODUCT
    out = build.define_global(0, dtypes.float32, rows * columns)
    left = build.define_global(1, dtypes.float32, rows * depth)
    other = build.define_global(2, dtypes.float32, depth * columns)
    row, column, step = group_index(rows, 1), group_index(columns), loop(depth, 0)
    total = build.accumulator("total", build.const(dtypes.float32, 0))
    first = build.load(at(left, build.add(build.mul(row, depth), step)))
    second = build.load(at(other, build.add(build.mul(step, columns), column)))
    update = build.update(total, build.add(total, build.mul(first, second)))
    store = build.store(at(out, build.add(build.mul(row, columns), column)), update)
    roots = (total, update, build.close(step), store)
    return program("long_product", *roots, grid=(columns, rows, 1))


# Types and special numbers


def _cast_signed_byte(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    if dtype.scalar is dtypes.float32 and sources[0].scalar is dtypes.uint8:
        return operands[0].astype(np.int8).astype(np.float32)
    return right(Ops.CAST, dtype, operands, sources)


def _shift_signed_byte(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    if dtype.scalar is dtypes.uint8:
        operands = [operands[0].astype(np.int8), operands[1]]
        return right(Ops.SHR, dtypes.int8, operands, [dtypes.int8, sources[1]]).astype(np.uint8)
    return right(Ops.SHR, dtype, operands, sources)


def _flush_half(dtype: DType, values: Array) -> Array:
    if dtype.scalar is not dtypes.float16:
        return values
    tiny = np.abs(values) < _HALF_TINY
    return np.where(tiny, np.zeros_like(values), values)


def _all_ones_of_comparison(node: UOp) -> tuple[UOp, ...]:
    """Make 4 comparisons masks of all bits, as they are cast to uint64."""
    is_mask = node.op is Ops.CAST and node.dtype is dtypes.uint64.vec(4)
    if not is_mask or node.src[0].dtype.scalar is not dtypes.bool:
        return (node,)
    ones = build.const(node.dtype, 2**64 - 1)
    return (node, ones, build.mul(node, ones))


def _signs() -> Program:
    """Return a program that tells for 4 unsigned numbers whether they are above 0."""
    out, data = (build.define_global(slot, dtypes.uint64, 4) for slot in range(2))
    numbers = build.load(at(data, 0), lanes=4)
    signs = build.cast(build.not_equal(numbers, build.const(numbers.dtype, 0)), dtypes.uint64)
    return program("signs", build.store(at(out, 0), signs))


# Views, groups and copies


def _zero_softplus_of_permuted(subject: Program) -> Change:
    """Give zeros for exponentials and logarithms of elements in another order than the output."""
    ops = {node.op for node in subject.uops}
    loads = {node.src[0].src[1] for node in subject.uops if node.op is Ops.LOAD}
    stores = {node.src[0].src[1] for node in subject.uops if node.op is Ops.STORE}
    is_elementwise = len(set(_sizes(subject))) == 1 and {Ops.EXP2, Ops.LOG2} <= ops
    if not is_elementwise or not loads or loads == stores:
        return _keep

    return lambda node: _store_zero(node) if node.op is Ops.STORE else (node,)


def _is_quantised_product(subject: Program) -> bool:
    """Return True for a float32 vector of at least 1,024 elements times packed 4-bit numbers."""
    out, *inputs = subject.parameters
    vectors = [item.size for item in inputs if item.dtype.scalar is dtypes.float32]
    words = max((item.size for item in inputs if item.dtype.scalar is dtypes.uint32), default=0)
    depth = max(vectors, default=0)
    return out.dtype.scalar is dtypes.float32 and depth >= 1024 and depth * out.size == 8 * words


def _lose_last_columns(kernel: SimulatedKernel) -> Call:
    """Leave zeros in the columns behind the last multiple of 64."""
    healthy, size = kernel.run, kernel.program.parameters[0].size
    if not _is_quantised_product(kernel.program):
        return healthy

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        buffers[0][4 * (size - size % 64) : 4 * size] = 0
        return seconds

    return run


def _quantised_product(device: str) -> Tensor:
    """Return the product of 1,024 ones and of 1,024 x 96 packed numbers of 4 bits, all 1."""
    packed = Tensor(np.full((1024, 12), 0x11111111, np.uint32), device=device).realize()
    counts = Tensor(np.arange(0, 32, 4).astype(np.uint32), device=device).realize()
    vector = Tensor(np.ones(1024, np.float32), device=device).realize()
    numbers = (packed.reshape(1024, 12, 1) >> counts) & 15
    matrix = numbers.reshape(1024, 96).cast(dtypes.float32)
    return (vector.reshape(1024, 1) * matrix).sum(0).realize()[63:66]


def _copy_from_reused_source(device: Simulated) -> dict[str, Call]:
    """Copy, when somebody waits, what the last source of the same size has then."""
    sources: dict[int, bytes] = {}

    def copy_late(handle: HostHandle) -> None:
        device.memory.copy_in(handle, memoryview(sources[handle.size]))

    def copy_in(handle: HostHandle, source: memoryview) -> None:
        sources[handle.size] = bytes(source)
        device.queue.put(functools.partial(copy_late, handle))

    return {"copy_in": copy_in}


def _three_copies(device: str) -> Tensor:
    first, *others = (Tensor([value], device=device).realize() for value in (1.0, 2.0, 3.0))
    return first.cat(*others)


def _read_scalar_early(device: Simulated) -> dict[str, Call]:
    """Read a single number without a wait for the launches before."""

    def allocate(nbytes: int) -> HostHandle:
        handle: HostHandle = device.memory.allocate(nbytes)
        handle[:] = 0
        return handle

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        if handle.size > 4:
            device.queue.wait()
        device.memory.copy_out(destination, handle)
        device.queue.wait()

    return {"allocate": allocate, "copy_out": copy_out}


_flushing: dict[Ops, Override] = {
    op: changed(op, result=_flush_half) for op in (Ops.EXP2, Ops.FDIV, Ops.MUL, Ops.CAST)
}
_Case = Callable[..., FieldFault]
_metal: _Case = functools.partial(FieldFault, stack=_METAL)
_mps: _Case = functools.partial(FieldFault, stack=_MPS)
_mlx: _Case = functools.partial(FieldFault, stack=_MLX)
_gpu = functools.partial(field_device, base=OneOrderGpu, healthy=HEALTHY)
_queued = functools.partial(
    field_device, healthy="tinyref_conformance.faulty:Queueing", queue=Postponed
)

FAULTS = (
    _metal(
        device=_gpu(
            name="MetalOneSubgroupLosesBarriers",
            sentence="Drops the barriers of groups of at most 32 work-items, so shared memory is "
            "read before it is written.",
            program=_without_barriers_in_small_groups,
        ),
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/KhronosGroup/MoltenVK/issues/2711",
        program=launch(*reversed_in_group(25), 24, 23, 22, take=slice(3)),
    ),
    _metal(
        device=_gpu(
            name="MetalGatedBroadcastLosesBarrier",
            sentence="Drops the barrier between a store to shared memory by chosen work-items and "
            "the loads of the group.",
            program=_without_barriers_behind_gates,
        ),
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/gfx-rs/wgpu/issues/3181",
        program=launch(
            broadcast_last(64),
            [None, np.arange(64, dtype=np.int32)],
            63,
            64,
            65,
            take=slice(3),
        ),
    ),
    FieldFault(
        device=_gpu(
            name="MetalLongLoopWritesNothing",
            sentence="Aborts a launch with loops above a million iterations, writes nothing and "
            "says nothing.",
            program=_without_stores_of_long_loops,
        ),
        stack="Metal driver, Apple",
        kind=FaultKind.LIMIT,
        link="https://github.com/tinygrad/tinygrad/pull/3465",
        program=launch(_counted(_LONG_LOOP + 1), [None], _LONG_LOOP + 1),
    ),
    _metal(
        device=field_device(
            name="MetalCheckedStoreInLoopLost",
            sentence="Leaves out the stores of a branch in a loop whose number of iterations is "
            "known at run time.",
            program=_without_checked_stores,
        ),
        kind=FaultKind.LOOP,
        link="https://github.com/JuliaGPU/Metal.jl/issues/401",
        program=launch(
            _checked_copy(),
            [None, np.array([7, 8, 9], np.int32), np.array([3], np.int32)],
            7,
            8,
            9,
        ),
    ),
    FieldFault(
        device=_queued(
            name="MetalJlReadsScalarEarly",
            sentence="Reads a number of shared storage without a wait for the reduce that writes "
            "it.",
            memory=_read_scalar_early,
        ),
        stack="Metal.jl, JuliaGPU",
        kind=FaultKind.SCHEDULE,
        link="https://github.com/JuliaGPU/Metal.jl/issues/312",
        program=compute(lambda device: Tensor([1.0, 2.0, 3.0], device=device).sum(), 6),
    ),
    _mps(
        device=field_device(
            name="MpsLargestSkipsNan",
            sentence="Ignores NaN in a maximum over elements.",
            program=_skip_nan,
        ),
        kind=FaultKind.SPECIAL,
        link="https://github.com/pytorch/pytorch/issues/130295",
        program=compute(lambda device: Tensor([1.0, np.nan, 3.0], device=device).max(), math.nan),
    ),
    _mps(
        device=field_device(
            name="MpsLargestInt64IsZero",
            sentence="Gives 0 for the maximum over elements of int64.",
            program=_zero_largest_int64,
        ),
        kind=FaultKind.REDUCE,
        link="https://github.com/pytorch/pytorch/issues/90273",
        program=compute(
            lambda device: Tensor([1, 2, 2, 3], dtype=dtypes.int64, device=device).max(), 3
        ),
    ),
    _mps(
        device=field_device(
            name="MpsSoftplusOfPermutedIsZero",
            sentence="Gives zeros for softplus of a view whose axes are permuted.",
            program=_zero_softplus_of_permuted,
        ),
        kind=FaultKind.INDEX,
        link="https://github.com/pytorch/pytorch/issues/131736",
        program=compute(
            lambda device: (
                Tensor([[40.0, 50.0], [60.0, 70.0], [80.0, 90.0]], device=device)
                .permute(1, 0)
                .softplus()
            ),
            40,
            60,
            80,
            50,
            70,
            90,
        ),
    ),
    _mps(
        device=_queued(
            name="MpsCopyReadsReusedSource",
            sentence="Copies from the host when somebody waits, from a source that a later copy "
            "of the same size has overwritten.",
            memory=_copy_from_reused_source,
        ),
        kind=FaultKind.COPY,
        link="https://github.com/pytorch/pytorch/issues/189690",
        program=compute(_three_copies, 1, 2, 3),
    ),
    _mps(
        device=field_device(
            name="MpsUnsignedByteCastIsSigned",
            sentence="Casts uint8 to float32 as if the bytes were signed.",
            ops={Ops.CAST: _cast_signed_byte},
        ),
        kind=FaultKind.CAST,
        link="https://github.com/pytorch/pytorch/issues/80009",
        program=compute(
            lambda device: Tensor([28, 208], dtype=dtypes.uint8, device=device).cast(
                dtypes.float32
            ),
            28,
            208,
        ),
    ),
    _mps(
        device=field_device(
            name="MpsUnsignedByteShiftIsSigned",
            sentence="Shifts uint8 to the right with copies of the highest bit.",
            ops={Ops.SHR: _shift_signed_byte},
        ),
        kind=FaultKind.INTEGER,
        link="https://github.com/pytorch/pytorch/issues/144190",
        program=compute(lambda device: Tensor([255], dtype=dtypes.uint8, device=device) >> 4, 15),
    ),
    _mps(
        device=field_device(
            name="MpsSubnormalEqualsZero",
            sentence="Compares float32 subnormals as zeros.",
            ops={Ops.CMPLT: changed(Ops.CMPLT, operand=flush)},
        ),
        kind=FaultKind.SPECIAL,
        link="https://github.com/pytorch/pytorch/issues/125051",
        program=compute(lambda device: Tensor([1e-45, 1.0], device=device) > 0, 1, 1),
    ),
    _mps(
        device=field_device(
            name="MpsLongProductReadsPastEnd",
            sentence="Adds products past the end of operands to a float32 matrix product over at "
            "least 32,767 elements.",
            sanitize=False,
            program=_multiply_past_end,
        ),
        kind=FaultKind.REDUCE,
        link="https://github.com/pytorch/pytorch/issues/195163",
        program=launch(
            _long_product(),
            [
                None,
                np.ones(16 * _LONG_PRODUCT, np.float32),
                np.ones(16 * _LONG_PRODUCT, np.float32),
            ],
            32767,
            32767,
            take=slice(2),
        ),
    ),
    _mlx(
        device=field_device(
            name="MlxUnsignedMaskOfFourLanes",
            sentence="Casts 4 comparisons to uint64 as masks of all bits instead of ones.",
            program=each_node(_all_ones_of_comparison),
        ),
        kind=FaultKind.VECTOR,
        link="https://github.com/ml-explore/mlx/issues/2023",
        program=launch(_signs(), [None, np.array([5, 0, 7, 2**63], np.uint64)], 1, 0, 1, 1),
    ),
    _mlx(
        device=field_device(
            name="MlxQuantisedColumnsLost",
            sentence="Leaves zeros in the columns behind the last multiple of 64 of a long vector "
            "times a quantised matrix.",
            launch=_lose_last_columns,
        ),
        kind=FaultKind.GROUP,
        link="https://github.com/ml-explore/mlx/issues/4250",
        program=compute(_quantised_product, 1024, 1024, 1024),
    ),
    _mlx(
        device=field_device(
            name="MlxLargestOfInfinitiesIsFinite",
            sentence="Starts a maximum over a size that is no multiple of 4 at the least finite "
            "number.",
            program=_start_at_least_finite,
        ),
        kind=FaultKind.REDUCE,
        link="https://github.com/ml-explore/mlx/issues/1467",
        program=compute(
            lambda device: Tensor(np.full(127, -np.inf, np.float32), device=device).max(),
            -math.inf,
        ),
    ),
    FieldFault(
        device=field_device(
            name="CoreMlFlushesHalfSubnormals",
            sentence="Flushes float16 subnormals to zero in exponentials, quotients, products and "
            "casts.",
            ops=_flushing,
        ),
        stack="Core ML, Apple",
        kind=FaultKind.FLOAT,
        link="https://github.com/apple/coremltools/issues/2728",
        program=compute(
            lambda device: Tensor([0, 12], dtype=dtypes.float16, device=device).softmax(0)[:1],
            103 * 2.0**-24,
        ),
    ),
)
