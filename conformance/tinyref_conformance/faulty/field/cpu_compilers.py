"""Faults of compilers that target CPUs: Inductor, XLA, JAX, TVM, Halide, Numba, PoCL."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.runtimes.host.memory import HostHandle, address_of
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, Simulated, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import FaultKind, FieldFault, field_device
from tinyref_conformance.faulty.field.gpu import HEALTHY, OneOrderGpu
from tinyref_conformance.faulty.field.patterns import (
    change_of,
    constant_of,
    elementwise,
    replacing,
    summed,
)
from tinyref_conformance.faulty.programs import Change
from tinyref_spec.kernel.programs import INT, at, item_index, loop, program

# One start value for each of 8 threads, and one more than there should be.
_NUMBA_STARTS = 10
_ALIASED_BYTES = 256


# Arithmetic and maxima


def _widened_byte_arithmetic(node: UOp) -> UOp | None:
    inner = node.src[0] if node.op is Ops.CAST else node
    is_byte = inner.dtype.scalar is dtypes.uint8 and inner.op in (Ops.ADD, Ops.SUB, Ops.MUL)
    if inner is node or not is_byte or not node.dtype.is_int:
        return None
    wide = [build.cast(source, dtypes.int32) for source in inner.src]
    return build.cast(build.binary(inner.op, *wide), node.dtype.scalar)


def _doubled_bytes(device: str) -> Tensor:
    data = Tensor(np.array([128, 3, 255], np.uint8), device=device)
    return (data + data).cast(dtypes.int16)


def _maximum_without_nan(dtype: DType, operands: Sequence[Array], types: Sequence[DType]) -> Array:
    value = right(Ops.MAX, dtype, operands, types)
    if not dtype.is_float:
        return value
    first, second = operands
    return np.where(np.isnan(first), second, np.where(np.isnan(second), first, value))


def _maximum_for_choice(node: UOp) -> UOp | None:
    if node.op is not Ops.WHERE or not node.dtype.is_float:
        return None
    condition, first, second = node.src
    last = second.src[1] if second.op is Ops.UPDATE_ACC else second
    if last.op is Ops.MAX and constant_of(first) != constant_of(first):
        return second
    if condition.op is not Ops.OR:
        return None
    compared = {part.op: part.src for part in condition.src}
    is_maximum = compared == {Ops.CMPNE: (first, first), Ops.CMPLT: (second, first)}
    return build.maximum(first, second) if is_maximum else None


def _shift_for_division(node: UOp) -> UOp | None:
    if node.op is not Ops.IDIV or node.dtype.scalar.is_unsigned:
        return None
    divisor = constant_of(node.src[1])
    if not isinstance(divisor, int) or divisor < 2 or divisor & (divisor - 1):
        return None
    return build.binary(Ops.SHR, node.src[0], divisor.bit_length() - 1)


def _dropped_maximum(node: UOp) -> UOp | None:
    if node.op is not Ops.MAX or node.dtype.scalar is not dtypes.uint8:
        return None
    for value, total in (node.src, node.src[::-1]):
        is_sum = total.op is Ops.ADD and total.src[0].op is Ops.MAX
        if is_sum and total.src[1].op is Ops.CONST and value in total.src[0].src:
            return total
    return None


def _maximum_of_sum(x: UOp, y: UOp) -> UOp:
    return build.maximum(x, build.add(build.maximum(y, x), 87))


# Reduces


def _maxima_of_inactive_lanes(program: Program) -> Change:
    updates = [node for node in program.uops if node.op is Ops.UPDATE_ACC]
    maxima = {node.src[0] for node in updates if node.src[1].op is Ops.MAX}

    def replacement(node: UOp) -> UOp | None:
        if node.dtype.scalar is not dtypes.int8:
            return None
        zero = build.const(node.dtype, 0)
        if node in maxima:
            return UOp(node.op, node.dtype, (zero, *node.src[1:]), node.arg)
        is_last = node.op is Ops.MAX and all(source.op is Ops.GEP for source in node.src)
        return build.maximum(node, zero) if is_last else None

    return change_of(replacement)


def _starts_of_threads(program: Program) -> Change:
    updates = [node for node in program.uops if node.op is Ops.UPDATE_ACC]
    sums = {node.src[0] for node in updates if node.src[1].op is Ops.ADD}

    def replacement(node: UOp) -> UOp | None:
        start = constant_of(node.src[0]) if node in sums else None
        if not isinstance(start, int) or not start:
            return None
        larger = build.const(node.dtype, start * _NUMBA_STARTS)
        return UOp(node.op, node.dtype, (larger, *node.src[1:]), node.arg)

    return change_of(replacement)


# Branches and barriers


def _is_first_item(condition: UOp) -> bool:
    if condition.op is Ops.CMPNE and constant_of(condition.src[1]) is True:
        difference = condition.src[0]
        is_first = difference.op is Ops.CMPNE and constant_of(difference.src[1]) == 0
        return is_first and _is_item(difference.src[0])
    is_less = condition.op is Ops.CMPLT and constant_of(condition.src[1]) == 1
    return is_less and _is_item(condition.src[0])


def _is_item(node: UOp) -> bool:
    return isinstance(node.arg, SpecialArg) and node.arg.scope == "item"


def _without_guards_of_first_item(program: Program) -> Change:
    guards = [node for node in program.uops if node.op is Ops.IF and _is_first_item(node.src[0])]
    return lambda node: () if node in guards or set(node.src) & set(guards) else (node,)


def _guarded_store() -> Program:
    """Return the program whose 4 work-items store 5; the first one then stores 7."""
    out, item = build.define_global(0, INT, 4), item_index(4)
    address, guard = at(out, item), build.branch(build.less(item, 1))
    first, second = (build.store(address, build.const(INT, value)) for value in (5, 7))
    return program("guarded", first, guard, second, build.close(guard), group=(4, 1, 1))


def _without_barriers_beside_branches(program: Program) -> Change:
    loops: list[list[Ops]] = [[]]
    barriers: list[list[Ops]] = []
    for node in program.uops:
        if node.op is Ops.RANGE:
            loops.append([node.op])
        elif node.op is Ops.END:
            loops.pop()
        elif node.op is Ops.BARRIER:
            barriers.append(loops[-1])
        else:
            loops[-1].append(node.op)
    lost = iter([Ops.RANGE in body and Ops.IF in body for body in barriers])
    return lambda node: () if node.op is Ops.BARRIER and next(lost) else (node,)


def _tree_sum() -> Program:
    """Return the program that adds 8 elements pairwise in shared memory, in three rounds."""
    out, data = build.define_global(0, INT, 1), build.define_global(1, INT, 8)
    shared, item, round_number = build.define_local("shared", INT, 8), item_index(8), loop(3, 0)
    distance = build.binary(Ops.SHL, build.const(INT, 1), round_number)
    position = build.mul(item, build.mul(distance, 2))
    inside = build.branch(build.less(position, 8))
    parts = (build.load(at(shared, index)) for index in (position, build.add(position, distance)))
    is_first = build.branch(build.less(item, 1))
    return program(
        "tree",
        build.store(at(shared, item), build.load(at(data, item))),
        round_number,
        build.barrier(),
        inside,
        build.store(at(shared, position), build.add(*parts)),
        build.close(inside),
        build.close(round_number),
        is_first,
        build.store(at(out, 0), build.load(at(shared, 0))),
        build.close(is_first),
        group=(8, 1, 1),
    )


# Memory


def _aliases(device: Simulated) -> dict[int, tuple[HostHandle, memoryview]]:
    """Return each handle that is the host's array, by its address, with that array."""
    aliases: dict[int, tuple[HostHandle, memoryview]]
    aliases = device.__dict__.setdefault("aliases", {})
    return aliases


def _forget(device: Simulated, handle: HostHandle) -> None:
    aliases = _aliases(device)
    overlapping = [key for key, item in aliases.items() if np.may_share_memory(item[0], handle)]
    for key in overlapping:
        del aliases[key]


def _refresh(device: Simulated) -> None:
    for handle, source in _aliases(device).values():
        device.memory.copy_in(handle, source)


def _aliasing(device: Simulated) -> dict[str, Call]:
    def copy_in(handle: HostHandle, source: memoryview) -> None:
        device.memory.copy_in(handle, source)
        _forget(device, handle)
        if source.nbytes >= _ALIASED_BYTES and not source.readonly:
            _aliases(device)[address_of(handle)] = handle, source

    def copy_out(destination: memoryview, handle: HostHandle) -> None:
        _refresh(device)
        device.memory.copy_out(destination, handle)

    return {"copy_in": copy_in, "copy_out": copy_out, "free": functools.partial(_forget, device)}


def _launch_on_aliases(kernel: SimulatedKernel) -> Call:
    healthy, parameters = kernel.run, kernel.program.parameters

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        _refresh(kernel.owner)
        seconds = healthy(buffers, *rest)
        for parameter, buffer in zip(parameters, buffers, strict=True):
            if parameter.is_written:
                _forget(kernel.owner, buffer)
        return seconds

    return run


def _changed_on_host(device: str) -> Tensor:
    data = np.arange(100, dtype=np.float32)
    tensor = Tensor(data, device=device).realize()
    data[0] = -1
    return tensor[:2]


_INDUCTOR = "Inductor C++ back end, PyTorch"
_POCL = "PoCL CPU driver, PoCL project"

FAULTS = (
    FieldFault(
        device=field_device(
            name="InductorWidensByteArithmetic",
            sentence="Adds, subtracts and multiplies uint8 without wrapping where the result is "
            "cast to a wider integer.",
            program=replacing(_widened_byte_arithmetic),
        ),
        stack=_INDUCTOR,
        kind=FaultKind.CAST,
        link="https://github.com/pytorch/pytorch/issues/105264",
        program=compute(_doubled_bytes, 0, 6, 254),
    ),
    FieldFault(
        device=field_device(
            name="InductorMaximumOfInactiveLanes",
            sentence="Includes the zeros of inactive lanes in maxima of int8, so that the maximum "
            "of negative numbers is 0.",
            program=_maxima_of_inactive_lanes,
        ),
        stack=_INDUCTOR,
        kind=FaultKind.REDUCE,
        link="https://github.com/pytorch/pytorch/pull/191543",
        program=compute(
            lambda device: Tensor(np.arange(-24, -3, dtype=np.int8), device=device).max(), -4
        ),
    ),
    FieldFault(
        device=field_device(
            name="XlaCpuMaximumDropsNan",
            sentence="Gives the other operand of a float maximum where one is NaN, reduces "
            "included.",
            program=replacing(_maximum_for_choice),
            ops={Ops.MAX: _maximum_without_nan},
        ),
        stack="XLA CPU, Google",
        kind=FaultKind.SPECIAL,
        link="https://github.com/tensorflow/tensorflow/issues/116992",
        program=compute(
            lambda device: Tensor([float("nan"), 1.0, 3.0, 2.0], device=device).max(), float("nan")
        ),
    ),
    FieldFault(
        device=field_device(
            name="JaxCpuAliasesHostArray",
            sentence="Keeps the host's array of 256 bytes or more in the place of a copy, so that "
            "later changes of it show.",
            memory=_aliasing,
            launch=_launch_on_aliases,
        ),
        stack="JAX CPU client, Google",
        kind=FaultKind.COPY,
        link="https://github.com/jax-ml/jax/issues/37830",
        program=compute(_changed_on_host, 0, 1),
    ),
    FieldFault(
        device=field_device(
            name="TvmShiftsForDivision",
            sentence="Divides signed integers by a constant power of two with a shift, which "
            "rounds negative quotients down.",
            program=replacing(_shift_for_division),
        ),
        stack="TVM LLVM code generator, Apache",
        kind=FaultKind.INTEGER,
        link="https://github.com/apache/tvm/pull/2204",
        program=launch(
            elementwise(lambda x: build.idiv(x, 4), INT, (INT,), size=4),
            [None, np.array([-7, 7, -8, -1], np.int32)],
            -1,
            1,
            -2,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="HalideDropsMaximumOfWrappedSum",
            sentence="Simplifies max(x, max(y, x) + constant) of uint8 to the sum, which may have "
            "wrapped.",
            program=replacing(_dropped_maximum),
        ),
        stack="Halide, Halide project",
        kind=FaultKind.INTEGER,
        link="https://github.com/halide/Halide/issues/3818",
        program=launch(
            elementwise(_maximum_of_sum, dtypes.uint8, (dtypes.uint8, dtypes.uint8), size=2),
            [None, np.array([95, 1], np.uint8), np.array([247, 2], np.uint8)],
            95,
            89,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NumbaAddsStartOfEachThread",
            sentence="Adds the start value of an integer sum once more for each of 8 threads and "
            "for the result.",
            program=_starts_of_threads,
        ),
        stack="Numba parallel accelerator, Anaconda",
        kind=FaultKind.REDUCE,
        link="https://github.com/numba/numba/issues/7344",
        program=launch(
            summed(lambda x: build.cast(build.less(0, x), INT), build.const(INT, 1), INT, size=5),
            [None, np.array([3, 0, 1, 0, 9], np.int32)],
            4,
        ),
    ),
    FieldFault(
        device=field_device(
            name="PoclRunsGuardOfFirstItem",
            sentence="Executes the branch of the first work-item of a group in every work-item.",
            sanitize=False,
            program=_without_guards_of_first_item,
        ),
        stack=_POCL,
        kind=FaultKind.LOOP,
        link="https://github.com/pocl/pocl/issues/1977",
        program=launch(_guarded_store(), [None], 7, 5, 5, 5),
    ),
    FieldFault(
        device=field_device(
            name="PoclLosesBarrierBesideBranch",
            sentence="Drops the barriers of a loop that has a branch in its body as well.",
            base=OneOrderGpu,
            healthy=HEALTHY,
            program=_without_barriers_beside_branches,
        ),
        stack=_POCL,
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/pocl/pocl/issues/1794",
        program=launch(_tree_sum(), [None, np.arange(1, 9, dtype=np.int32)], 36),
    ),
)
