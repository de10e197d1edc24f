"""Faults of NPUs, DSPs and TPUs: Tenstorrent, Hexagon, Ascend, Google, Intel and AMD."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from tinyref.device import Buffer
from tinyref.dtype import DType, dtypes
from tinyref.interpret import Access, Hooks
from tinyref.runtimes.host.memory import HostHandle
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ConstArg, RangeArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array, Call, Simulated
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import (
    DirectProgram,
    FaultKind,
    FieldFault,
    field_device,
)
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_conformance.faulty.queues import Postponed, Work
from tinyref_spec.kernel.programs import at, loop, program

_TENSTORRENT = "TT-Metal, Tenstorrent"
_ASCEND_TILE = 128
_ASCEND_STEP = 16
_LARGEST_HALF = 65504
_LEAST_INT = -(2**31)


def _least_int(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.NEG, dtype, operands, sources)
    return np.full_like(value, _LEAST_INT) if dtype.scalar is dtypes.int32 else value


def _sign_of_difference(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    if sources[0].scalar is not dtypes.int32:
        return right(Ops.CMPLT, dtype, operands, sources)
    with np.errstate(over="ignore"):
        return np.asarray(np.subtract(*operands) < 0)


def _overflow_to_nan(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.CAST, dtype, operands, sources)
    if dtype.scalar is not dtypes.float16 or sources[0].scalar is not dtypes.float32:
        return value
    size = np.abs(operands[0])
    is_lost = np.isfinite(size) & (size > 65536)
    return np.where(is_lost, np.float16(np.nan), value)


def _is_never_nan(node: UOp) -> tuple[UOp, ...]:
    is_test = node.op is Ops.CMPNE and node.src[0] is node.src[1]
    if not is_test or node.src[0].dtype.scalar is not dtypes.bfloat16:
        return (node,)
    return (build.const(node.dtype, False),)


def _keep_sign_bit(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.SHL, dtype, operands, sources)
    if dtype.scalar is not dtypes.int32:
        return value
    return np.asarray((value & np.int32(2**31 - 1)) | (operands[0] & np.int32(_LEAST_INT)))


def _least_int_is_zero(node: UOp) -> tuple[UOp, ...]:
    """Make the least int32 a 0 where a loop takes the largest element."""
    if node.op is not Ops.UPDATE_ACC or node.dtype.scalar is not dtypes.int32:
        return (node,)
    target, value = node.src
    if value.op is not Ops.MAX or target not in value.src:
        return (node,)
    element = value.src[1] if value.src[0] is target else value.src[0]
    held = build.where(build.equal(element, _LEAST_INT), 0, element)
    return tuple(build.update(target, build.maximum(target, held)).toposort())


def _infinite_sine(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    value = right(Ops.SIN, dtype, operands, sources)
    is_far = np.isfinite(operands[0]) & (np.abs(operands[0]) >= 500_000)
    return np.where(is_far, value.dtype.type(-np.inf), value)


def _saturated_products(node: UOp) -> tuple[UOp, ...]:
    """Stop sums of products of int32 at the largest float16."""
    if node.op is not Ops.UPDATE_ACC or node.dtype.scalar is not dtypes.int32:
        return (node,)
    target, value = node.src
    if value.op is not Ops.ADD or Ops.MUL not in {side.op for side in value.src}:
        return (node,)
    is_above = build.less(build.const(node.dtype, _LARGEST_HALF), value)
    return tuple(build.update(target, build.where(is_above, _LARGEST_HALF, value)).toposort())


def _terms_at_once(program: Program) -> int:
    """Return how many terms an iteration adds: each lane has its own if lanes are added later."""
    for node in program.uops:
        sides = {side.op for side in node.src}
        if node.op is Ops.ADD and sides == {Ops.GEP} and node.src[0].src[0].op is Ops.UPDATE_ACC:
            return node.src[0].src[0].dtype.lanes
    return 1


def _shorter_tail(program: Program) -> Change:
    """Cut the last tile of a long product of float16 matrices to whole steps of 16 terms."""
    factors = [node.src[0].dtype.scalar for node in program.uops if node.op is Ops.CAST]
    has_product = any(node.op is Ops.MUL and node.dtype.is_float for node in program.uops)
    terms = _terms_at_once(program)

    def change(node: UOp) -> tuple[UOp, ...]:
        is_reduce = isinstance(node.arg, RangeArg) and node.arg.kind is AxisKind.REDUCE
        if not (is_reduce and has_product and dtypes.float16 in factors):
            return (node,)
        extent = node.src[0].arg.value if isinstance(node.src[0].arg, ConstArg) else 0
        rest = int(extent) * terms % _ASCEND_TILE % _ASCEND_STEP
        if extent * terms <= _ASCEND_TILE or not rest:
            return (node,)
        shorter = build.const(node.src[0].dtype, int(extent) - rest // terms)
        return (shorter, node.with_sources((shorter,)))

    return change


def _lose_pair(access: Access) -> Access:
    """Drop every fourth pair of neighbours of gated stores of float32."""
    if access.gate is None or access.value.dtype != np.float32:
        return access
    return dataclasses.replace(access, gate=access.gate & (access.index // 2 % 4 != 3))


def _uncleared_vectors(node: UOp) -> tuple[UOp, ...]:
    """Start a vector accumulator of a float sum from what its register holds: 5, say."""
    is_vector = node.op is Ops.DEFINE_ACC and node.dtype.lanes > 1 and node.dtype.is_float
    start = node.src[0].arg if is_vector else None
    if not isinstance(start, ConstArg) or start.value != 0:
        return (node,)
    held = build.const(node.dtype, 5.0)
    return (held, node.with_sources((held, *node.src[1:])))


def _lost_bfloat16(program: Program) -> Change:
    reduces = any(node.op is Ops.UPDATE_ACC for node in program.uops)

    def change(node: UOp) -> tuple[UOp, ...]:
        is_lost = node.op is Ops.STORE and node.src[1].dtype.scalar is dtypes.bfloat16
        return () if is_lost and reduces else (node,)

    return change


def _views_of_words(device: Simulated) -> dict[str, Call]:
    def view(handle: HostHandle, offset: int, nbytes: int) -> HostHandle:
        start = offset if offset % 4 == 0 else offset // 16 * 4
        return device.memory.view(handle, start, nbytes)

    return {"view": view}


class _UnaryBehind(Postponed):
    """Runs a launch with one input and one output behind all that the same batch has."""

    def put(self, work: Work) -> None:
        kernel = getattr(work, "kernel", None)
        parameters = () if kernel is None else kernel.program.parameters
        read = [parameter for parameter in parameters if not parameter.is_written]
        if len(parameters) == 2 and len(read) == 1:
            super().put(work)
        else:
            work()


def _stored(value: UOp) -> Program:
    """Return the program that stores one value, a scalar or a vector."""
    out = build.define_global(0, value.dtype.scalar, value.dtype.lanes)
    return program("stored", build.store(at(out, 0), value))


def _element(dtype: DType) -> UOp:
    return build.load(at(build.define_global(1, dtype, 1), 0))


def _reduced(
    dtype: DType, size: int, start: float, combine: Callable[[UOp, UOp], UOp], result: DType
) -> Program:
    """Return the program that combines all elements of slot 1, one after the other."""
    out, data = build.define_global(0, result, 1), build.define_global(1, dtype, size)
    k = loop(size, 0, AxisKind.REDUCE)
    total = build.accumulator("total", build.const(result, start))
    new = build.update(total, combine(total, build.load(at(data, k))))
    return program("reduced", total, k, new, build.close(k), build.store(at(out, 0), new))


def _add_square(total: UOp, element: UOp) -> UOp:
    wide = build.cast(element, total.dtype)
    return build.add(total, build.mul(wide, wide))


def _vector_sum() -> Program:
    out, data = (
        build.define_global(slot, dtypes.float32, 4 * size) for slot, size in enumerate((1, 3))
    )
    k = loop(3, 0, AxisKind.REDUCE)
    total = build.accumulator("total", build.const(dtypes.float32.vec(4), 0.0))
    element = build.load(at(data, build.mul(k, 4)), lanes=4)
    new = build.update(total, build.add(total, element))
    return program("vectors", total, k, new, build.close(k), build.store(at(out, 0), new))


def _gated_copy(size: int) -> Program:
    out, data = (build.define_global(slot, dtypes.float32, size) for slot in range(2))
    i = loop(size, 0)
    store = build.store(at(out, i), build.load(at(data, i)), build.less(i, size - 1))
    return program("gated", i, store, build.close(i))


def _offset_bytes(device: str) -> list[float]:
    buffer = Buffer(device, 8, dtypes.uint8).allocate().copy_in(memoryview(bytes(8)))
    buffer.view(1, 7, dtypes.uint8).copy_in(memoryview(bytes([11] * 7)))
    return [float(byte) for byte in buffer.copy_out()]


def _batch(device: str) -> list[float]:
    x, y = (Tensor(data, device=device).realize() for data in ([1.0, 2.0], [10.0, 20.0]))
    doubled = Tensor([0.0, 0.0], device=device).realize()
    doubled.assign(x * 2).realize()
    return [float(number) for number in (doubled + y).numpy()]


FAULTS = (
    FieldFault(
        device=field_device(
            name="TenstorrentNegatesIntsToTheLeast",
            sentence="Negates every int32 to -2147483648.",
            ops={Ops.NEG: _least_int},
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.INTEGER,
        link="https://github.com/tenstorrent/tt-metal/issues/24000",
        program=launch(
            _stored(build.unary(Ops.NEG, _element(dtypes.int32))), [None, np.array([13], "i4")], -13
        ),
    ),
    FieldFault(
        device=field_device(
            name="TenstorrentOrdersIntsByDifference",
            sentence="Orders two int32 by the sign of their difference, which wraps for large "
            "operands of opposite signs.",
            ops={Ops.CMPLT: _sign_of_difference},
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.BOOL,
        link="https://github.com/tenstorrent/tt-metal/pull/27829",
        program=compute(
            lambda device: (
                Tensor([-2_000_000_000, 5], device=device)
                < Tensor([2_000_000_000, 7], device=device)
            ),
            1,
            1,
        ),
    ),
    FieldFault(
        device=field_device(
            name="TenstorrentHalfOverflowIsNan",
            sentence="Converts a finite float32 above 65,536 to a float16 NaN, not to infinity.",
            ops={Ops.CAST: _overflow_to_nan},
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.CAST,
        link="https://github.com/tenstorrent/tt-metal/issues/57215",
        program=compute(
            lambda device: Tensor([65536.0, 131072.0], device=device).cast(dtypes.float16),
            np.inf,
            np.inf,
        ),
    ),
    FieldFault(
        device=field_device(
            name="TenstorrentIsnanOfBfloat16",
            sentence="Finds no NaN in bfloat16: isnan is false for all elements.",
            program=each_node(_is_never_nan),
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.SPECIAL,
        link="https://github.com/tenstorrent/tt-metal/issues/27993",
        program=compute(
            lambda device: Tensor([np.nan, 0.5], dtype=dtypes.bfloat16, device=device).isnan(), 1, 0
        ),
    ),
    FieldFault(
        device=field_device(
            name="TenstorrentShiftKeepsSignBit",
            sentence="Shifts int32 to the left and leaves the top bit as it was.",
            ops={Ops.SHL: _keep_sign_bit},
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.INTEGER,
        link="https://github.com/tenstorrent/tt-metal/issues/15514",
        program=launch(
            _stored(build.binary(Ops.SHL, _element(dtypes.int32), build.const(dtypes.int32, 1))),
            [None, np.array([2**30], np.int32)],
            _LEAST_INT,
        ),
    ),
    FieldFault(
        device=field_device(
            name="TenstorrentMaximumLosesLeastInt",
            sentence="Holds int32 as sign and magnitude when it reduces to the largest, so that "
            "-2147483648 counts as 0.",
            program=each_node(_least_int_is_zero),
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.REDUCE,
        link="https://github.com/tenstorrent/tt-metal/issues/44750",
        program=launch(
            _reduced(dtypes.int32, 3, _LEAST_INT, build.maximum, dtypes.int32),
            [None, np.array([-7, _LEAST_INT, -9], np.int32)],
            -7,
        ),
    ),
    FieldFault(
        device=field_device(
            name="TenstorrentSineOfHalfAMillion",
            sentence="Gives -inf for the sine of arguments from about 500,000 on.",
            ops={Ops.SIN: _infinite_sine},
            query="memory.open,memory.launch.uint8,isa.unary.sin",
        ),
        stack=_TENSTORRENT,
        kind=FaultKind.FUNCTION,
        link="https://github.com/tenstorrent/tt-metal/issues/33971",
        program=compute(
            lambda device: Tensor([500_000.0, 600_000.0], device=device).sin().abs() <= 1, 1, 1
        ),
    ),
    FieldFault(
        device=field_device(
            name="IntelNpuSumsIntsAsHalves",
            sentence="Stops sums of products of int32 at 65,504, the largest float16.",
            program=each_node(_saturated_products),
        ),
        stack="OpenVINO for NPU, Intel",
        kind=FaultKind.REDUCE,
        link="https://github.com/openvinotoolkit/openvino/issues/28193",
        program=launch(
            _reduced(dtypes.int32, 10, 0, _add_square, dtypes.int32),
            [None, np.full(10, 127, np.int32)],
            161290,
        ),
    ),
    FieldFault(
        device=field_device(
            name="AscendTailOfProducts",
            sentence="Cuts products of float16 matrices with more than 128 terms so that the last "
            "tile has a multiple of 16.",
            program=_shorter_tail,
        ),
        stack="TileLang for Ascend, Huawei",
        kind=FaultKind.LOOP,
        link="https://github.com/tile-ai/tilelang-ascend/issues/1341",
        program=launch(
            _reduced(dtypes.float16, 200, 0.0, _add_square, dtypes.float32),
            [None, np.ones(200, np.float16)],
            200,
        ),
    ),
    FieldFault(
        device=field_device(
            name="AscendMaskedStoresLosePairs",
            sentence="Leaves out some aligned pairs of float32 in stores with a mask.",
            hooks=Hooks(store=_lose_pair),
        ),
        stack="FlagTree for Ascend, BAAI",
        kind=FaultKind.INDEX,
        link="https://github.com/flagos-ai/FlagTree/issues/1245",
        program=launch(
            _gated_copy(9), [None, np.arange(9, dtype=np.float32)], 5, 6, 7, take=slice(5, 8)
        ),
    ),
    FieldFault(
        device=field_device(
            name="HexagonUnclearedVectorSums",
            sentence="Does not set vector accumulators of float sums to zero before the loop.",
            program=each_node(_uncleared_vectors),
        ),
        stack="TVM for Hexagon, Qualcomm",
        kind=FaultKind.VECTOR,
        link="https://github.com/apache/tvm/pull/13165",
        program=launch(_vector_sum(), [None, np.ones(12, np.float32)], 3, 3, 3, 3),
    ),
    FieldFault(
        device=field_device(
            name="HexagonUnaryResultsComeLate",
            sentence="Starts the next kernel of a batch before the results of a kernel with one "
            "input are in memory.",
            healthy="tinyref_conformance.faulty:Queueing",
            queue=_UnaryBehind,
        ),
        stack="ggml for Hexagon, Qualcomm",
        kind=FaultKind.SCHEDULE,
        link="https://github.com/ggml-org/llama.cpp/issues/25876",
        program=DirectProgram(_batch, (12, 24)),
    ),
    FieldFault(
        device=field_device(
            name="TpuLosesBfloat16Results",
            sentence="Writes no bfloat16 result of a kernel with a reduction.",
            program=_lost_bfloat16,
        ),
        stack="Pallas for TPU v3, Google",
        kind=FaultKind.MEMORY,
        link="https://github.com/jax-ml/jax/issues/30391",
        program=launch(
            _reduced(dtypes.bfloat16, 4, 0.0, build.add, dtypes.bfloat16),
            [None, np.ones(4, ml_dtypes.bfloat16)],
            4,
        ),
    ),
    FieldFault(
        device=field_device(
            name="AmdNpuOffsetsInWords",
            sentence="Divides the offset of a part of memory that begins within a word by four: "
            "offsets below 16 bytes are 0.",
            memory=_views_of_words,
        ),
        stack="MLIR-AIE for Ryzen AI, AMD",
        kind=FaultKind.COPY,
        link="https://github.com/Xilinx/mlir-aie/issues/1578",
        program=DirectProgram(_offset_bytes, (0, 11, 11, 11, 11, 11, 11, 11)),
    ),
)
