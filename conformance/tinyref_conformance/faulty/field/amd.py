"""Faults of AMD's stacks: the HIP runtime, LLVM's AMDGPU back end, ROCm OpenCL, rocBLAS."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinyref import TinyJit
from tinyref.contract import Handle, Launch
from tinyref.dtype import AddressSpace, DType, PtrDType, dtypes
from tinyref.interpret import Hooks
from tinyref.runtimes.host.memory import HostHandle, address_of
from tinyref.runtimes.kernel import LaunchesInARow
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, Simulated, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import (
    DirectProgram,
    FaultKind,
    FieldFault,
    field_device,
)
from tinyref_conformance.faulty.field.gpu import HEALTHY, OneOrderGpu, broadcast_last
from tinyref_conformance.faulty.field.patterns import constant_of
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_conformance.faulty.queues import Postponed
from tinyref_spec.kernel.programs import INT, at, group_index, loop, program

_LLVM = "LLVM AMDGPU back end, AMD"
_HIP = "HIP runtime, AMD"
_OPENCL = "ROCm OpenCL, AMD"
_ROCBLAS = "rocBLAS, AMD"
_QUEUED = "tinyref_conformance.faulty:Queueing"
_MASK_24 = 0xFFFFFF
_MAX_GROUPS = 65536
_LONG_GRAPH = 200
_BOUNDARIES = (Ops.RANGE, Ops.END, Ops.IF, Ops.ENDIF, Ops.BARRIER)


# Division


def _divide_constant_by_24_bits(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.IDIV or node.dtype is not dtypes.uint32:
        return (node,)
    dividend, divisor = constant_of(node.src[0]), node.src[1]
    is_short = divisor.op is Ops.CAST and divisor.src[0].dtype in (dtypes.uint8, dtypes.uint16)
    if dividend is None or dividend < 0xFF800000 or not is_short:
        return (node,)
    mask = build.const(node.dtype, _MASK_24)
    return (node, mask, build.both(node, mask))


def _is_masked_24(node: UOp) -> bool:
    return node.op is Ops.AND and constant_of(node.src[1]) == _MASK_24


def _divide_24_bits_by_reciprocal(node: UOp) -> tuple[UOp, ...]:
    is_short = node.op is Ops.IDIV and all(_is_masked_24(source) for source in node.src)
    if not is_short or node.dtype is not dtypes.uint32:
        return (node,)
    dividend, divisor = (build.cast(source, dtypes.float32) for source in node.src)
    one = build.const(dtypes.float32, 1)
    reciprocal = build.bitcast(build.binary(Ops.FDIV, one, divisor), dtypes.uint32)
    # The reciprocal of the hardware may be one unit in the last place too large.
    larger = build.bitcast(build.add(reciprocal, 1), dtypes.float32)
    product = build.mul(dividend, larger)
    quotient = build.cast(product, dtypes.uint32)
    # One too few is corrected, one too many is not.
    rest = build.cast(build.sub(node.src[0], build.mul(quotient, node.src[1])), dtypes.int32)
    is_small = build.less(rest, build.cast(node.src[1], dtypes.int32))
    result = build.where(is_small, quotient, build.add(quotient, 1))
    return tuple(result.toposort())


def _quotient(dividend: int, divisor: int, device: str) -> Tensor:
    numbers = Tensor([dividend, divisor], dtype=dtypes.uint32, device=device).realize()
    return (numbers[0] & _MASK_24) // (numbers[1] & _MASK_24)


# Other arithmetic


def _is_uniform(node: UOp) -> bool:
    """Return True if all work-items of a group have the same value."""
    specials = (source.arg for source in node.toposort() if isinstance(source.arg, SpecialArg))
    return all(special.scope != "item" for special in specials)


def _mask_funnel_shift_by_63(node: UOp) -> tuple[UOp, ...]:
    """Make x << c | y >> (32 - c) of constants the low half of (x, y) >> (64 - c)."""
    if node.op is not Ops.OR or node.dtype is not dtypes.uint32:
        return (node,)
    left, down = node.src
    if left.op is not Ops.SHL or down.op is not Ops.SHR:
        return (node,)
    counts = constant_of(left.src[1]), constant_of(down.src[1])
    if None in counts or sum(count or 0 for count in counts) != 32 or not _is_uniform(left.src[0]):
        return (node,)
    return (build.binary(Ops.SHR, left.src[0], down.src[1]),)


def _select_other_side_of_comparison(node: UOp) -> tuple[UOp, ...]:
    """Make (x < k or k < x) ? y : k the same with x for k: they are equal, or x is NaN."""
    if node.op is not Ops.WHERE or node.src[0].op is not Ops.OR:
        return (node,)
    differs, value, constant = node.src
    first, second = differs.src
    if not first.op is second.op is Ops.CMPLT or first.src != second.src[::-1]:
        return (node,)
    others = [source for source in first.src if source is not constant]
    if len(others) != 1 or constant_of(constant) is None:
        return (node,)
    return (node.with_sources((differs, value, others[0])),)


def _round_pairs_twice(node: UOp) -> tuple[UOp, ...]:
    is_pair = node.op is Ops.CAST and node.dtype is dtypes.float16.vec(2)
    if not is_pair or node.src[0].dtype.scalar is not dtypes.float64:
        return (node,)
    single = build.cast(node.src[0], dtypes.float32)
    return (single, build.cast(single, dtypes.float16))


def _cast_pair() -> Program:
    out = build.define_global(0, dtypes.float16, 2)
    data = build.define_global(1, dtypes.float64, 2)
    pair = build.cast(build.load(at(data, 0), lanes=2), dtypes.float16)
    return program("cast_pair", build.store(at(out, 0), pair))


def _truncate_product(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    """Drop the low half of the bits of an exact product of bfloat16."""
    if dtype.scalar is not dtypes.bfloat16:
        return right(Ops.MUL, dtype, operands, sources)
    first, second = (operand.astype(np.float32) for operand in operands)
    bits = np.asarray(first * second).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(operands[0].dtype)


# Order and control flow


def _is_uniform_reload(node: UOp) -> bool:
    """Return True for a load of one element of shared memory by all work-items."""
    if node.op is not Ops.LOAD or len(node.src) > 1:
        return False
    memory, *position = node.src[0].src
    is_shared = isinstance(memory.dtype, PtrDType) and memory.dtype.space is AddressSpace.LOCAL
    return is_shared and all(constant_of(index) is not None for index in position)


def _load_before_barrier(subject: Program) -> Change:
    """Move loads of one element of shared memory before the barrier in front of them."""
    uops = subject.uops
    is_large = math.prod(subject.group) > 512
    barriers = [index for index, node in enumerate(uops) if node.op is Ops.BARRIER]
    if not is_large or len(barriers) != 1 or any(node.op is Ops.RANGE for node in uops):
        return lambda node: (node,)
    before, behind = uops[: barriers[0]], uops[barriers[0] :]
    loads = [node for node in behind if _is_uniform_reload(node)]
    addresses = [load.src[0] for load in loads if load.src[0] not in before]
    moved = [*addresses, *loads]

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is Ops.BARRIER:
            return (*moved, node)
        return () if node in moved else (node,)

    return change


def _load_after_store(subject: Program) -> Change:
    """Move a load behind the store of a constant to its element, if its uses are behind both."""
    late: dict[UOp, UOp] = {}
    waiting: list[UOp] = []
    for node in subject.uops:
        if node.op in _BOUNDARIES:
            waiting = []
        if node.op is Ops.STORE and constant_of(node.src[1]) is not None:
            late |= {load: node for load in waiting if load.src[0] is node.src[0]}
        waiting = [load for load in waiting if load not in node.src and load not in late]
        waiting += [node] if node.op is Ops.LOAD and len(node.src) == 1 else []

    def change(node: UOp) -> tuple[UOp, ...]:
        if node in late:
            return ()
        return (node, *(load for load, store in late.items() if store is node))

    return change


def _take_and_clear() -> Program:
    """Return a program that adds a number to the result and clears its place."""
    result, data = build.define_global(0, INT, 1), build.define_global(1, INT, 1)
    number = build.load(at(data, 0))
    return program(
        "take_and_clear",
        number,
        build.store(at(data, 0), build.const(INT, 0)),
        build.store(at(result, 0), build.add(number, 1)),
    )


def _without_stores_behind_nested_loops(subject: Program) -> Change:
    depth = 0
    has_branch = is_behind = False

    def change(node: UOp) -> tuple[UOp, ...]:
        nonlocal depth, has_branch, is_behind
        depth += (node.op is Ops.RANGE) - (node.op is Ops.END)
        has_branch |= node.op is Ops.IF and depth == 2
        is_behind |= node.op is Ops.END and depth == 0 and has_branch
        return () if is_behind and depth == 0 and node.op is Ops.STORE else (node,)

    return change


def _checked_nested_loops() -> Program:
    """Return a program that stores 10 behind two loops with a branch inside."""
    out, data = build.define_global(0, INT, 7), build.define_global(1, INT, 6)
    row, column = loop(2, 0), loop(3, 1)
    position = build.add(build.mul(row, 3), column)
    number = build.load(at(data, position))
    check = build.branch(build.less(build.const(INT, 0), number))
    copy = build.store(at(out, position), number)
    ends = (build.close(check), build.close(column), build.close(row))
    return program(
        "checked", number, check, copy, *ends, build.store(at(out, 6), build.const(INT, 10))
    )


# Launches


def _is_half_product(subject: Program) -> bool:
    """Return True for rows times columns of float16, of more than one element each."""
    parameters = subject.parameters
    if len(parameters) != 3 or {item.dtype.scalar for item in parameters} != {dtypes.float16}:
        return False
    out, *inputs = (parameter.size for parameter in parameters)
    depth = math.isqrt(math.prod(inputs) // out)
    is_reduced = depth > 1 and depth**2 * out == math.prod(inputs) and inputs != [out, out]
    return is_reduced and any(node.op is Ops.MUL for node in subject.uops)


def _repeat_before_last(kernel: SimulatedKernel) -> Call:
    """Give the last of an odd number of half products the value of the one before it."""
    healthy, size = kernel.run, kernel.program.parameters[0].size
    if not _is_half_product(kernel.program) or size < 3 or size % 2 == 0:
        return healthy

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        out = buffers[0]
        out[2 * size - 2 : 2 * size] = out[2 * size - 4 : 2 * size - 2]
        return seconds

    return run


def _half_product(device: str) -> Tensor:
    rows = Tensor(np.arange(15).reshape(3, 5), dtype=dtypes.float16, device=device)
    column = Tensor([[5], [4], [3], [2], [1]], dtype=dtypes.float16, device=device)
    return rows @ column


def _numbered_groups(count: int) -> Program:
    out, group = build.define_global(0, INT, count), group_index(count)
    return program("numbered", build.store(at(out, group), group), grid=(count, 1, 1))


# Copies and graphs


def _read_back_early(device: Simulated) -> dict[str, Call]:
    """Read memory before a copy to it that was called directly before."""
    last: list[Any] = []

    def allocate(nbytes: int) -> HostHandle:
        handle: HostHandle = device.memory.allocate(nbytes)
        handle[:] = 0
        return handle

    def copy_in(handle: HostHandle, source: memoryview) -> None:
        work = functools.partial(device.memory.copy_in, handle, memoryview(bytes(source)))
        last[:] = [work, address_of(handle)]
        device.queue.put(work)

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        queue = device.queue
        assert isinstance(queue, Postponed), "the device of this edit has this queue"
        is_direct = bool(queue.work) and last == [queue.work[-1], address_of(handle)]
        if not is_direct:
            queue.wait()
        device.memory.copy_out(destination, handle)
        queue.wait()

    return {"allocate": allocate, "copy_in": copy_in, "copy_out": copy_out}


class _ReadsFirstContents(LaunchesInARow):
    """Runs long lists on the contents that the buffers they only read had at the first run."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        super().__init__(launches)
        self._arguments = [list(launch.buffers) for launch in launches]
        kernels = [launch.kernel for launch in launches]
        self._programs = [kernel.program for kernel in kernels if hasattr(kernel, "program")]
        self._first: dict[int, HostHandle] = {}

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        self._arguments[launch][place] = handle
        super().rebind(launch, place, handle)

    def __call__(self) -> None:
        if len(self._arguments) < _LONG_GRAPH:
            super().__call__()
            return
        with self._old_contents():
            super().__call__()

    @contextmanager
    def _old_contents(self) -> Iterator[None]:
        inputs = self._read_only()
        present = {address: handle.copy() for address, handle in inputs.items()}
        for address, handle in inputs.items():
            handle[:] = self._first.setdefault(address, handle.copy())
        yield
        for address, handle in inputs.items():
            handle[:] = present[address]

    def _read_only(self) -> dict[int, Any]:
        pairs = [
            (parameter.is_written, handle)
            for subject, handles in zip(self._programs, self._arguments, strict=True)
            for parameter, handle in zip(subject.parameters, handles, strict=True)
        ]
        written = {address_of(handle) for is_written, handle in pairs if is_written}
        everything = {address_of(handle): handle for _, handle in pairs}
        return {key: handle for key, handle in everything.items() if key not in written}


def _replayed_after_update(kernels: int) -> DirectProgram:
    """Return a program that replays many kernels on a number that changes between replays."""

    def values(device: str) -> list[float]:
        number = Tensor([42.0], device=device).realize()

        @TinyJit
        def run() -> Tensor:
            result = number
            for _ in range(kernels):
                result = (result + 1).realize()
            return result

        results = []
        for value in (42.0, 42.0, 42.0, 99.0):
            number.assign(Tensor([value], device=device)).realize()
            results.append(float(run().numpy()[0]))
        return results

    total = float(kernels)
    return DirectProgram(values, (42 + total, 42 + total, 42 + total, 99 + total))


_Case = Callable[..., FieldFault]
_llvm: _Case = functools.partial(FieldFault, stack=_LLVM)

FAULTS = (
    _llvm(
        device=field_device(
            name="LlvmAmdgpuConstantDividendOf24Bits",
            sentence="Divides a constant above 0xff800000 by a widened short number as 24-bit "
            "numbers, so the quotient loses its high byte.",
            program=each_node(_divide_constant_by_24_bits),
        ),
        kind=FaultKind.INTEGER,
        link="https://github.com/llvm/llvm-project/issues/194829",
        program=compute(
            lambda device: (
                0xFFFFFFFF // Tensor([1, 2], dtype=dtypes.uint8, device=device).cast(dtypes.uint32)
            ),
            4294967295,
            2147483647,
        ),
    ),
    _llvm(
        device=field_device(
            name="LlvmAmdgpuReciprocalOf24Bits",
            sentence="Divides unsigned 24-bit numbers by a float reciprocal and does not correct "
            "a quotient that is one too large.",
            program=each_node(_divide_24_bits_by_reciprocal),
        ),
        kind=FaultKind.INTEGER,
        link="https://github.com/llvm/llvm-project/pull/202753",
        program=compute(functools.partial(_quotient, 0xBF2758, 0xBF2759), 0),
    ),
    _llvm(
        device=field_device(
            name="LlvmAmdgpuFunnelShiftByNegative",
            sentence="Shifts a uniform pair of words left by a constant with a count modulo 64 "
            "instead of 32.",
            program=each_node(_mask_funnel_shift_by_63),
        ),
        kind=FaultKind.INTEGER,
        link="https://github.com/llvm/llvm-project/pull/199052",
        program=compute(
            lambda device: (lambda word: (word << 3) | (word >> 29))(
                Tensor([0x80000001], dtype=dtypes.uint32, device=device)
            ),
            12,
        ),
    ),
    _llvm(
        device=field_device(
            name="LlvmAmdgpuSelectOfOrderedComparison",
            sentence="Returns x instead of the constant k from a selection by x < k or k < x when "
            "x is NaN.",
            program=each_node(_select_other_side_of_comparison),
        ),
        kind=FaultKind.BOOL,
        link="https://github.com/llvm/llvm-project/pull/213029",
        program=compute(
            lambda device: (lambda x: ((x < 2) | (x > 2)).where(7.0, 2.0))(
                Tensor([np.nan, 1.0, 2.0], device=device)
            ),
            2,
            7,
            2,
        ),
    ),
    _llvm(
        device=field_device(
            name="LlvmAmdgpuHalfPairsRoundedTwice",
            sentence="Casts pairs of float64 to float16 through float32, and so rounds twice.",
            program=each_node(_round_pairs_twice),
        ),
        kind=FaultKind.CAST,
        link="https://github.com/llvm/llvm-project/pull/135659",
        program=launch(
            _cast_pair(),
            [None, np.array([1 + 2**-11 + 2**-30, 3.0])],
            1 + 2**-10,
            3,
        ),
    ),
    _llvm(
        device=field_device(
            name="LlvmAmdgpuSharedReloadBeforeBarrier",
            sentence="Reloads a number for the whole group from shared memory before the barrier, "
            "in groups above 512 work-items.",
            base=OneOrderGpu,
            healthy=HEALTHY,
            program=_load_before_barrier,
        ),
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/llvm/llvm-project/issues/207883",
        program=launch(
            broadcast_last(1024),
            [None, np.arange(1024, dtype=np.int32)],
            1023,
            1024,
            1025,
            take=slice(3),
        ),
    ),
    FieldFault(
        device=field_device(
            name="TritonAmdTruncatesBfloat16Products",
            sentence="Rounds products of bfloat16 towards zero instead of to nearest.",
            ops={Ops.MUL: _truncate_product},
        ),
        stack="Triton AMD back end, OpenAI",
        kind=FaultKind.FLOAT,
        link="https://github.com/triton-lang/triton/issues/11217",
        program=compute(
            lambda device: (lambda x: x * x)(
                Tensor([1.078125, 1.5], dtype=dtypes.bfloat16, device=device)
            ),
            1.1640625,
            2.25,
        ),
    ),
    FieldFault(
        device=field_device(
            name="RocmLoadSinksBelowStore",
            sentence="Loads a number after the store of a constant to its place, not before it.",
            program=_load_after_store,
        ),
        stack=_OPENCL,
        kind=FaultKind.ORDER,
        link="https://github.com/fireice-uk/xmr-stak/issues/1797",
        program=launch(_take_and_clear(), [None, np.array([41], dtype=np.int32)], 42),
    ),
    FieldFault(
        device=field_device(
            name="RocmStoreBehindNestedLoopsLost",
            sentence="Leaves out the stores behind two nested loops with a branch inside.",
            program=_without_stores_behind_nested_loops,
        ),
        stack=_OPENCL,
        kind=FaultKind.LOOP,
        link="https://github.com/ROCm/legacy-rocm-build/issues/1182",
        program=launch(
            _checked_nested_loops(),
            [None, np.arange(1, 7, dtype=np.int32)],
            1,
            2,
            3,
            4,
            5,
            6,
            10,
        ),
    ),
    FieldFault(
        device=field_device(
            name="RocblasHalfProductRepeatsRow",
            sentence="Gives the last of an odd number of float16 dot products the value of the "
            "one before it.",
            launch=_repeat_before_last,
        ),
        stack=_ROCBLAS,
        kind=FaultKind.REDUCE,
        link="https://github.com/ROCm/rocBLAS/issues/340",
        program=compute(_half_product, 20, 95, 170),
    ),
    FieldFault(
        device=field_device(
            name="RocblasGroupsBeyondLimit",
            sentence="Does not launch the groups from 65,536 on in a dimension.",
            hooks=Hooks(grid=lambda grid: (min(grid[0], _MAX_GROUPS), *grid[1:])),
        ),
        stack=_ROCBLAS,
        kind=FaultKind.GROUP,
        link="https://github.com/ROCm/rocm-libraries/pull/9184",
        program=launch(
            _numbered_groups(_MAX_GROUPS + 2),
            [None],
            65535,
            65536,
            65537,
            take=slice(65535, None),
        ),
    ),
    FieldFault(
        device=field_device(
            name="HipReadBackBeforeCopy",
            sentence="Copies memory back before a copy to it that was called directly before.",
            healthy=_QUEUED,
            queue=Postponed,
            memory=_read_back_early,
        ),
        stack=_HIP,
        kind=FaultKind.COPY,
        link="https://github.com/ROCm/hip/issues/3314",
        program=compute(lambda device: Tensor([5.0, 6.0, 7.0], device=device).realize(), 5, 6, 7),
    ),
    FieldFault(
        device=field_device(
            name="HipLongGraphReadsOldContents",
            sentence="Replays a graph of at least 200 kernels on the contents that its inputs had "
            "at the first replay.",
            commands=_ReadsFirstContents,
        ),
        stack=_HIP,
        kind=FaultKind.STATE,
        link="https://github.com/ROCm/hip/issues/3887",
        program=_replayed_after_update(_LONG_GRAPH),
    ),
)
