"""Faults of Intel's stacks: IGC, the compute runtime, oneDNN, OpenVINO, SYCL and PyTorch XPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tinyref.dtype import dtypes
from tinyref.interpret import Access, Hooks
from tinyref.runtimes.host.memory import HostHandle
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.build import close
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.device import Array, Call, Simulated, SimulatedKernel
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
    is_fill,
    is_product_of_buffers,
    negated,
)
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_conformance.faulty.queues import Postponed
from tinyref_conformance.faulty.transfers import allocation_of
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.programs import at, loop, program

_LONGEST_DOT = 2048
_LONG_CHAIN = 100
_DOUBLE8 = dtypes.float64.vec(8)


def _is_cast_bytes(node: UOp, source: Ops) -> bool:
    is_wide = node.op is Ops.CAST and node.dtype is dtypes.int32.vec(4)
    if not is_wide or node.src[0].dtype is not dtypes.int8.vec(4):
        return False
    return node.src[0].op is source


def _dot_of_shuffled_bytes(node: UOp) -> tuple[UOp, ...]:
    """Reorder the bytes that were loaded one by one where the others were loaded together."""
    if node.op is not Ops.MUL:
        return (node,)
    for loose, packed in (node.src, node.src[::-1]):
        if _is_cast_bytes(loose, Ops.VECTORIZE) and _is_cast_bytes(packed, Ops.LOAD):
            moved = build.gep(loose, 0, 2, 1, 3)
            return (moved, build.mul(moved, packed))
    return (node,)


def _without_upper_fields(access: Access) -> Array:
    if access.node.dtype is not _DOUBLE8:
        return access.value
    value = np.array(access.value)
    value[..., [5, 7]] = 0
    return value


def _sign_by_comparisons(node: UOp) -> tuple[UOp, ...]:
    """Make the sign of a float 1 above zero, x at zero, and -1 for all others, NaN included."""
    if node.op is not Ops.WHERE or node.dtype.scalar is not dtypes.float32:
        return (node,)
    below, minus_one, inner = node.src
    is_sign = (
        inner.op is Ops.WHERE and constant_of(minus_one) == -1 and constant_of(inner.src[1]) == 1
    )
    if not is_sign or below.op is not Ops.CMPLT or below.src[0] is not inner.src[2]:
        return (node,)
    x, zero = below.src
    is_other = build.not_equal(x, zero)
    rest = build.where(is_other, minus_one, x)
    return (is_other, rest, build.where(inner.src[0], inner.src[1], rest))


def _dot_of_first_elements(program: Program) -> Change:
    products = [node for node in program.uops if is_product_of_buffers(node)]
    lanes = max((node.dtype.lanes for node in products), default=1)
    is_dot = any(node.dtype.scalar is dtypes.float32 for node in products)

    def change(node: UOp) -> tuple[UOp, ...]:
        count = constant_of(node.src[0]) if node.op is Ops.RANGE and is_dot else None
        if not isinstance(count, int) or count * lanes <= _LONGEST_DOT:
            return (node,)
        shorter = build.const(node.src[0].dtype, _LONGEST_DOT // lanes)
        return (shorter, node.with_sources((shorter,)))

    return change


def _dot_from_words(kernel: SimulatedKernel) -> Call:
    healthy, parameters = kernel.run, kernel.program.parameters
    is_dot = has_products(kernel.program)

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        moved = list(buffers)
        for position, parameter in enumerate(parameters):
            if is_dot and parameter.dtype is dtypes.bfloat16 and not parameter.is_written:
                whole, offset = allocation_of(buffers[position])
                moved[position] = whole[offset - offset % 4 :][: buffers[position].size]
        return healthy(moved, *rest)

    return run


def _fill_of_words(kernel: SimulatedKernel) -> Call:
    healthy, parameters = kernel.run, kernel.program.parameters
    is_short = is_fill(kernel.program) and all(item.dtype.itemsize == 2 for item in parameters)

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        skipped = [buffer for buffer in buffers if is_short and allocation_of(buffer)[1] % 4]
        saved = [buffer.copy() for buffer in skipped]
        seconds = healthy(buffers, *rest)
        for buffer, old in zip(skipped, saved, strict=True):
            buffer[:] = old
        return seconds

    return run


def _finite_identity(node: UOp) -> tuple[UOp, ...]:
    start = constant_of(node.src[0]) if node.op is Ops.DEFINE_ACC else None
    if not isinstance(start, float) or not math.isinf(start):
        return (node,)
    zero = build.const(node.src[0].dtype, 0.0)
    return (zero, node.with_sources((zero, *node.src[1:])))


def _signed_magnitude(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.WHERE or node.dtype.scalar is not dtypes.int32:
        return (node,)
    condition, first, second = node.src
    is_below = condition.op is Ops.CMPLT and constant_of(condition.src[1]) == 0
    is_magnitude = is_below and condition.src[0] is second and negated(first) is second
    return (second,) if is_magnitude else (node,)


def _is_nan_test(node: UOp) -> bool:
    return node.op is Ops.CMPNE and node.src[0] is node.src[1]


def _is_inf_test(node: UOp) -> bool:
    unequal = inverted(node)
    return unequal is not None and constant_of(unequal.src[1]) == math.inf


def _always_inf_or_nan(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.OR:
        return (node,)
    tests = (node.src, node.src[::-1])
    is_pair = any(_is_nan_test(first) and _is_inf_test(second) for first, second in tests)
    return (build.const(node.dtype, True),) if is_pair else (node,)


def _freed_behind_chain(device: Simulated) -> dict[str, Call]:
    queue = device.queue
    assert isinstance(queue, Postponed), "launches wait"

    def free(handle: HostHandle) -> None:
        """Overwrite the memory before the last of many launches that wait."""
        if len(queue.work) > _LONG_CHAIN:
            queue.work.insert(-1, functools.partial(handle.fill, 0xFF))

    return {"free": free}


def _copied_doubles() -> DirectProgram:
    out, data = (build.define_global(slot, dtypes.float64, 8) for slot in range(2))
    store = build.store(at(out, 0), build.load(at(data, 0), lanes=8))
    numbers = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    return launch(program("copy", store), [None, np.array(numbers)], *numbers)


def _short_dot() -> DirectProgram:
    out = build.define_global(0, dtypes.float32, 1)
    buffers = [build.define_global(slot, dtypes.bfloat16, 4) for slot in (1, 2)]
    k = loop(4, 0)
    total = build.accumulator("total", build.const(dtypes.float32, 0.0))
    first, second = (build.cast(build.load(at(data, k)), dtypes.float32) for data in buffers)
    new = build.update(total, build.add(total, build.mul(first, second)))
    kernel = program("dot", total, k, new, close(k), build.store(at(out, 0), new))
    numbers = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    return launch(kernel, [None, numbers, numbers[::-1].copy()], 20)


def _short_fill() -> DirectProgram:
    first, second = (build.define_global(slot, dtypes.int16, 3) for slot in range(2))
    i, seven = loop(3, 0), build.const(dtypes.int16, 7)
    stores = [build.store(at(data, i), seven) for data in (first, second)]
    kernel = program("fill", i, *stores, close(i))
    zeros = np.zeros(3, np.int16)

    def values(device: str) -> list[float]:
        results = DeviceUnderTest(device).run(kernel, [zeros, zeros])
        return [float(number) for result in results for number in result]

    return DirectProgram(values, (7,) * 6)


def _inf_or_nan(device: str) -> Tensor:
    numbers = Tensor([1.23, 0.0], device=device)
    return numbers.isinf() | numbers.isnan()


def _long_chain(device: str) -> Tensor:
    total = Tensor([1.0], device=device).realize()
    for _ in range(120):
        total = (total + 1).realize()
    return total


FAULTS = (
    FieldFault(
        device=field_device(
            name="IgcShufflesBytesOfDot",
            sentence="Pairs the wrong lanes of two int8 vectors of four if one was loaded whole "
            "and the other byte by byte.",
            program=each_node(_dot_of_shuffled_bytes),
        ),
        stack="IGC, Intel",
        kind=FaultKind.VECTOR,
        link="https://github.com/intel/intel-xpu-backend-for-triton/issues/7854",
        program=compute(
            lambda device: (
                Tensor([[1, 2, 3, 4]], dtype="int8", device=device)
                @ Tensor([[1, 0], [2, 0], [4, 0], [8, 0]], dtype="int8", device=device)
            ),
            49,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="IgcLosesUpperFields",
            sentence="Reads 0 for the sixth and the eighth lane of a vector of eight float64.",
            hooks=Hooks(load=_without_upper_fields),
        ),
        stack="IGC, Intel",
        kind=FaultKind.VECTOR,
        link="https://github.com/intel/intel-graphics-compiler/issues/392",
        program=_copied_doubles(),
    ),
    FieldFault(
        device=field_device(
            name="IgcCallsAllInfOrNan",
            sentence="Returns true for every number if one expression tests for infinity or NaN.",
            program=each_node(_always_inf_or_nan),
        ),
        stack="IGC, Intel",
        kind=FaultKind.BOOL,
        link="https://github.com/CHIP-SPV/chipStar/issues/634",
        program=compute(_inf_or_nan, 0, 0),
    ),
    FieldFault(
        device=field_device(
            name="OpenVinoSignOfNan",
            sentence="Returns -1 as the sign of a float32 NaN.",
            program=each_node(_sign_by_comparisons),
        ),
        stack="OpenVINO GPU plugin, Intel",
        kind=FaultKind.SPECIAL,
        link="https://github.com/openvinotoolkit/openvino/issues/37732",
        program=compute(
            lambda device: Tensor([math.nan, 2.0, -3.0, 0.0], device=device).sign(),
            math.nan,
            1,
            -1,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="OpenVinoDotBeyond2048",
            sentence="Ignores all elements of a float32 dot product after the first 2,048.",
            program=_dot_of_first_elements,
        ),
        stack="OpenVINO GPU plugin, Intel",
        kind=FaultKind.REDUCE,
        link="https://github.com/openvinotoolkit/openvino/issues/22613",
        program=compute(
            lambda device: (
                Tensor.ones(1, 2049, device=device).contiguous()
                @ Tensor.ones(2049, 1, device=device).contiguous()
            ),
            2049,
        ),
    ),
    FieldFault(
        device=field_device(
            name="OneDnnUnalignedBfloat16",
            sentence="Reads a bfloat16 operand of a matrix product from two bytes before its "
            "start if its address is no multiple of four.",
            launch=_dot_from_words,
        ),
        stack="oneDNN GPU, Intel",
        kind=FaultKind.TILE,
        link="https://github.com/ggml-org/llama.cpp/issues/27771",
        program=_short_dot(),
    ),
    FieldFault(
        device=field_device(
            name="LevelZeroSkipsUnalignedFill",
            sentence="Skips a fill with a 16-bit value that starts at an address that is no "
            "multiple of four.",
            launch=_fill_of_words,
        ),
        stack="Compute runtime, Intel",
        kind=FaultKind.COPY,
        link="https://github.com/intel/compute-runtime/issues/567",
        program=_short_fill(),
    ),
    FieldFault(
        device=field_device(
            name="SyclIdentityIsZero",
            sentence="Starts a float minimum or maximum over a loop at 0 instead of infinity.",
            program=each_node(_finite_identity),
        ),
        stack="SYCL reductions, Intel",
        kind=FaultKind.REDUCE,
        link="https://github.com/intel/llvm/issues/13813",
        program=compute(
            lambda device: Tensor.full((4096,), -2.0, device=device).contiguous().max(), -2
        ),
    ),
    FieldFault(
        device=field_device(
            name="IntelMagnitudeKeepsSign",
            sentence="Returns a negative int32 unchanged as its absolute value.",
            program=each_node(_signed_magnitude),
        ),
        stack="OpenGL driver, Intel",
        kind=FaultKind.INTEGER,
        link="https://crbug.com/642227",
        program=compute(
            lambda device: Tensor([-5, 3, 0], dtype="int32", device=device).abs(), 5, 3, 0
        ),
    ),
    FieldFault(
        device=field_device(
            name="XpuFreesBehindLongChain",
            sentence="Frees memory that a waiting launch still reads if more than a hundred "
            "launches wait.",
            healthy="tinyref_conformance.faulty:Queueing",
            queue=Postponed,
            memory=_freed_behind_chain,
        ),
        stack="PyTorch XPU, Intel",
        kind=FaultKind.MEMORY,
        link="https://github.com/pytorch/pytorch/issues/197520",
        program=compute(_long_chain, 121),
    ),
)
