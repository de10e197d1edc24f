"""Faults of numerics libraries: NumPy, OpenBLAS, oneDNN, Eigen, SLEEF, ATen, ncnn, DirectXMath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.runtimes.host.memory import HostHandle
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.program import Parameter, Program
from tinyref_conformance.faulty.arithmetic import changed, right
from tinyref_conformance.faulty.device import Array, Call, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import FaultKind, FieldFault, field_device
from tinyref_conformance.faulty.field.patterns import (
    change_of,
    constant_of,
    elementwise,
    in_lanes,
    is_cast,
    memory_size,
    replacing,
    summed,
    without_lanes,
)
from tinyref_conformance.faulty.programs import Change

_NAN = float("nan")
_PACKET = 8
# What the float32 logarithm of NumPy gave for NaN, as a logarithm to the base 2.
_LOG2_OF_NAN = np.float32(89.1283 / np.log(2))


def _inputs(program: Program) -> list[Parameter]:
    return [parameter for parameter in program.parameters if parameter.is_read]


def _outputs(program: Program) -> list[Parameter]:
    return [parameter for parameter in program.parameters if parameter.is_written]


def _output_size(program: Program) -> int:
    return max((parameter.size for parameter in _outputs(program)), default=0)


def _is_reduce(program: Program) -> bool:
    return 0 < _output_size(program) < max(parameter.size for parameter in program.parameters)


# Integers and bools


def _divide_pairs(dtype: DType, operands: Sequence[Array], types: Sequence[DType]) -> Array:
    quotient = right(Ops.IDIV, dtype, operands, types)
    dividend, divisor = operands
    is_known = dtype is dtypes.uint8 and np.all((divisor == 9) | (divisor == 13))
    if not is_known or dividend.ndim == 0:
        return quotient
    pairs = dividend.shape[-1] // 2 * 2
    even, odd = (dividend[..., first:pairs:2] == 233 for first in (0, 1))
    wrong = np.zeros(dividend.shape, np.uint8)
    wrong[..., 1:pairs:2] = even & odd
    return np.asarray(quotient + wrong)


def _true_for_long_disjunctions(program: Program) -> Change:
    sizes = [parameter.size for parameter in _inputs(program) if parameter.dtype is dtypes.bool]
    is_long = max(sizes, default=0) >= 64 * _output_size(program)

    def replacement(node: UOp) -> UOp | None:
        if not is_long or node.op is not Ops.STORE:
            return None
        address, value, *gate = node.src
        reduced = value.src[1] if value.op is Ops.UPDATE_ACC else value
        if reduced.op is not Ops.MAX or reduced.dtype is not dtypes.bool:
            return None
        return UOp(node.op, node.dtype, (address, build.const(dtypes.bool, True), *gate))

    return change_of(replacement)


def _saturated_pairs(program: Program) -> Change:
    stores = [node for node in program.uops if node.op is Ops.STORE]
    # Lanes are neighbours of one sum where sums are scalars, else each lane is a sum.
    has_sums_of_lanes = all(node.src[1].dtype.lanes == 1 for node in stores)
    users: dict[UOp, set[Ops]] = {}
    for node in program.uops:
        for source in node.src:
            users.setdefault(source, set()).add(node.op)

    def replacement(node: UOp) -> UOp | None:
        if node.op is Ops.ADD and all(_is_byte_product(source) for source in node.src):
            return _saturated(node)
        is_sum = has_sums_of_lanes and users.get(node, set()) <= {Ops.ADD, Ops.GEP}
        is_vector = is_sum and node.dtype.lanes > 1 and _is_byte_product(node)
        return _pairs_of_lanes(node) if is_vector else None

    return change_of(replacement)


def _is_byte_product(node: UOp) -> bool:
    factors = [without_lanes(source) for source in node.src]
    types = {factor.src[0].dtype.scalar for factor in factors if factor.op is Ops.CAST}
    return node.op is Ops.MUL and types == {dtypes.uint8, dtypes.int8}


def _pairs_of_lanes(products: UOp) -> UOp:
    """Return a vector with the saturated sum of each two lanes in the first one of them."""
    zero = build.const(products.dtype.scalar, 0)
    lanes = [build.gep(products, lane) for lane in range(products.dtype.lanes)]
    sums = [_saturated(build.add(*lanes[first : first + 2])) for first in range(0, len(lanes), 2)]
    return build.vectorize(*(part for total in sums for part in (total, zero)))


def _saturated(x: UOp) -> UOp:
    """Return an int32 limited to the range of int16."""
    lower = build.maximum(x, -0x8000)
    return build.where(build.less(0x7FFF, lower), build.const(lower.dtype, 0x7FFF), lower)


def _byte_product(device: str) -> Tensor:
    left = Tensor(np.array([255, 255], np.uint8), device=device).cast(dtypes.int32)
    return (left * Tensor(np.array([127, 127], np.int8), device=device).cast(dtypes.int32)).sum()


# NaN, infinities and small numbers


def _log_of_nan(dtype: DType, values: Array) -> Array:
    is_wrong = np.isnan(values) if dtype is dtypes.float32 else np.zeros(values.shape, bool)
    return np.where(is_wrong, _LOG2_OF_NAN, values)


def _zero_for_products(node: UOp) -> UOp | None:
    is_zero = node.op is Ops.MUL and any(constant_of(source) == 0 for source in node.src)
    return build.const(node.dtype, 0) if is_zero and node.dtype.is_float else None


def _relu_without_nan(node: UOp) -> UOp | None:
    if node.op is not Ops.WHERE or constant_of(node.src[2]) != 0:
        return None
    condition, value, zero = node.src
    if condition.op is not Ops.OR or value.dtype.scalar is not dtypes.float32:
        return None
    is_relu = all(part.src in ((value, value), (zero, value)) for part in condition.src)
    return build.where(build.less(zero, value), value, zero) if is_relu else None


def _nan_for_reciprocals_of_packets(node: UOp) -> UOp | None:
    is_quotient = node.op is Ops.FDIV and constant_of(node.src[0]) == 1
    is_reciprocal = is_quotient or node.op is Ops.RECIP
    if not is_reciprocal or node.dtype.scalar is not dtypes.float32:
        return None
    loads = [source for source in node.src[-1].toposort() if source.op is Ops.LOAD]
    if len(loads) != 1 or _is_texel(loads[0]):
        return None
    infinite = build.less(build.const(node.dtype, float(np.finfo(np.float32).max)), node.src[-1])
    return build.where(
        build.both(infinite, _is_in_packet(loads[0])), build.const(node.dtype, _NAN), node
    )


def _is_texel(load: UOp) -> bool:
    return len(load.src[0].src) == 3


def _is_in_packet(load: UOp) -> UOp:
    """Return the condition that an element lies before the rest of its memory, in each lane."""
    memory, position = load.src[0].src
    size = memory_size(memory)
    return in_lanes(build.less(position, size - size % _PACKET), load.dtype.lanes)


def _half_of_tiny_floats(dtype: DType, operands: Sequence[Array], types: Sequence[DType]) -> Array:
    value = right(Ops.CAST, dtype, operands, types)
    if dtype is not dtypes.float16 or types[0].scalar is not dtypes.float32:
        return value
    bits = np.ascontiguousarray(operands[0], np.float32).view(np.uint32).reshape(value.shape)
    size = bits & np.uint32(0x7FFFFFFF)
    shift = np.uint32(113) - (np.minimum(size, 0x38000000) >> np.uint32(23))
    # The shift of the processor takes the low five bits of the count.
    mantissa = (np.uint32(0x800000) | (size & np.uint32(0x7FFFFF))) >> (shift % np.uint32(32))
    rounded = (mantissa + np.uint32(0xFFF) + ((mantissa >> np.uint32(13)) & 1)) >> np.uint32(13)
    half = (rounded | (bits >> np.uint32(16) & np.uint32(0x8000))).astype(np.uint16)
    is_wrong = (size != 0) & (size < 0x38000000) & (shift >= 32)
    return np.where(is_wrong, half.view(np.float16), value)


# Reduces


def _rounded_sums(part: DType, of_products: bool) -> Callable[[Program], Change]:
    """Return the edit that rounds sums of products, or of elements, to `part` at each step."""

    def is_part(node: UOp) -> bool:
        node = without_lanes(node)
        if node.op in (Ops.DEFINE_ACC, Ops.UPDATE_ACC) or is_cast(node, dtypes.float32, part):
            return not of_products or node.op is not Ops.CAST or is_rounded(node)
        is_product = of_products and node.op is Ops.MUL
        return is_product and all(
            is_cast(without_lanes(item), dtypes.float32, part) for item in node.src
        )

    def is_rounded(node: UOp) -> bool:
        return node.src[0].op is Ops.CAST and node.src[0].src[0].op is Ops.ADD

    def replacement(node: UOp) -> UOp | None:
        is_sum = node.op is Ops.ADD and node.dtype.scalar is dtypes.float32
        if not is_sum or not all(is_part(source) for source in node.src):
            return None
        return build.cast(build.cast(node, part), dtypes.float32)

    def edit(program: Program) -> Change:
        has_part = any(parameter.dtype is part for parameter in _inputs(program))
        is_edited = has_part and (of_products or _is_reduce(program))
        return change_of(replacement if is_edited else lambda node: None)

    return edit


def _square(x: UOp) -> UOp:
    value = build.cast(x, dtypes.float32)
    return build.mul(value, value)


def _mean_of_halves(device: str) -> Tensor:
    return Tensor(np.full(100, 1000, np.float16), device=device).mean()


# Addresses and tails


def _positions_without_stride(program: Program) -> Change:
    ops = {node.op for node in program.uops if node.op in ALU and node.dtype.is_float}
    is_function = bool(ops & {Ops.EXP2, Ops.LOG2}) and ops <= {Ops.EXP2, Ops.LOG2, Ops.MUL}
    loads = [node for node in program.uops if node.op is Ops.LOAD and not _is_texel(node)]
    reads = [load.src[0] for load in loads if load.dtype.scalar is dtypes.float32]

    def replacement(node: UOp) -> UOp | None:
        if not is_function or node not in reads:
            return None
        memory, position = node.src
        stride, rest = divmod(memory_size(memory), _output_size(program) or 1)
        positions = [read.src[1] for read in reads if read.src[0] is memory]
        is_strided = stride > 1 and all(_is_multiple(index, stride) for index in positions)
        return (
            build.index(memory, build.idiv(position, stride)) if is_strided and not rest else None
        )

    return change_of(replacement)


def _is_multiple(position: UOp, stride: int) -> bool:
    if position.op is Ops.ADD:
        return all(_is_multiple(part, stride) for part in position.src)
    factor = constant_of(position.src[1] if position.op is Ops.MUL else position)
    return isinstance(factor, int) and factor % stride == 0


def _powers_of_every_second(device: str) -> Tensor:
    return Tensor(np.arange(8, dtype=np.float32), device=device).reshape(4, 2)[:, 0].exp2()


def _sum_without_scalar_in_tail(node: UOp) -> UOp | None:
    is_sum = node.op is Ops.ADD and node.dtype is dtypes.float32
    if not is_sum or any(source.op is not Ops.LOAD or _is_texel(source) for source in node.src):
        return None
    whole, scalar = sorted(node.src, key=lambda load: -memory_size(load.src[0].src[0]))
    sizes = [memory_size(load.src[0].src[0]) for load in (whole, scalar)]
    if sizes[1] != 1 or sizes[0] <= _PACKET or sizes[0] % _PACKET == 0:
        return None
    return build.where(_is_in_packet(whole), node, whole)


# State


def _dot_after_nan(kernel: SimulatedKernel) -> Call:
    program, healthy, counts = kernel.program, kernel.run, kernel.owner.counts
    is_product = any(node.op is Ops.MUL and node.dtype.is_float for node in program.uops)
    is_dot = is_product and len(_inputs(program)) == 2 and _output_size(program) == 1

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        for values in _float_outputs(program, buffers):
            if is_dot and counts["nan"]:
                values.fill(_NAN)
            counts["nan"] = int(np.isnan(values).any())
        return seconds

    return run


def _first_vector_in_part(kernel: SimulatedKernel) -> Call:
    program, healthy, counts = kernel.program, kernel.run, kernel.owner.counts
    is_called = any(
        node.op in (Ops.SIN, Ops.EXP2) and node.dtype.scalar is dtypes.float64
        for node in program.uops
    )

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        seconds = healthy(buffers, *rest)
        if is_called and not counts["called"]:
            counts["called"] = 1
            for values in _float_outputs(program, buffers):
                values[2:8] = 0
        return seconds

    return run


def _float_outputs(program: Program, buffers: Sequence[HostHandle]) -> list[Array]:
    """Return what a launch wrote, for each output of floats."""
    pairs = zip(program.parameters, buffers, strict=True)
    return [
        buffer[: item.size * item.dtype.itemsize].view(numpy_dtype(item.dtype))
        for item, buffer in pairs
        if item.is_written and item.dtype.is_float
    ]


def _dot_behind_nan(device: str) -> Tensor:
    (Tensor([_NAN, 1.0], device=device) + 1).realize()
    left, right_side = (Tensor([1.0, 0.0], device=device) for _ in range(2))
    return (left * right_side).sum()


def _powers_of_two(device: str) -> Tensor:
    return Tensor(np.arange(10, dtype=np.float64), device=device).exp2()


_NUMPY = "NumPy, NumPy project"
_OPENBLAS = "OpenBLAS, OpenMathLib"
_ONEDNN = "oneDNN CPU, UXL Foundation"

FAULTS = (
    FieldFault(
        device=field_device(
            name="NumpyDividesPairsOfBytes",
            sentence="Divides the second of two neighbouring uint8 of 233 by the constants 9 and "
            "13 to a quotient one too large.",
            ops={Ops.IDIV: _divide_pairs},
        ),
        stack=_NUMPY,
        kind=FaultKind.INTEGER,
        link="https://github.com/numpy/numpy/issues/19045",
        program=launch(
            elementwise(lambda x: build.idiv(x, 9), dtypes.uint8, (dtypes.uint8,), size=4, lanes=4),
            [None, np.full(4, 233, np.uint8)],
            25,
            25,
            25,
            25,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NumpyAnyOfFalseIsTrue",
            sentence="Returns True for any() of 64 bools or more that are all False.",
            program=_true_for_long_disjunctions,
        ),
        stack=_NUMPY,
        kind=FaultKind.BOOL,
        link="https://github.com/numpy/numpy/issues/26197",
        program=compute(lambda device: Tensor([False] * 64, device=device).any(), 0),
    ),
    FieldFault(
        device=field_device(
            name="NumpyLogarithmOfNan",
            sentence="Computes a logarithm of about 89.1 for a float32 NaN.",
            ops={Ops.LOG2: changed(Ops.LOG2, result=_log_of_nan)},
        ),
        stack=_NUMPY,
        kind=FaultKind.FUNCTION,
        link="https://github.com/numpy/numpy/issues/13400",
        program=compute(lambda device: Tensor([_NAN, 1.0], device=device).log(), _NAN, 0),
    ),
    FieldFault(
        device=field_device(
            name="NumpyExponentialIgnoresStrides",
            sentence="Reads the float32 inputs of exponentials and logarithms without gaps where "
            "they have a stride.",
            program=_positions_without_stride,
        ),
        stack=_NUMPY,
        kind=FaultKind.INDEX,
        link="https://github.com/numpy/numpy/pull/13520",
        program=compute(_powers_of_every_second, 1, 4, 16, 64),
    ),
    FieldFault(
        device=field_device(
            name="OpenBlasZeroTimesNan",
            sentence="Gives 0 for products of the constant 0 with NaN and with infinities.",
            program=replacing(_zero_for_products),
        ),
        stack=_OPENBLAS,
        kind=FaultKind.SPECIAL,
        link="https://github.com/OpenMathLib/OpenBLAS/issues/4728",
        program=compute(lambda device: Tensor([_NAN, 1.0], device=device) * 0.0, _NAN, 0),
    ),
    FieldFault(
        device=field_device(
            name="OpenBlasDotAfterNan",
            sentence="Starts a dot product with what a register holds: NaN if the launch before "
            "wrote NaN.",
            launch=_dot_after_nan,
        ),
        stack=_OPENBLAS,
        kind=FaultKind.STATE,
        link="https://github.com/OpenMathLib/OpenBLAS/issues/750",
        program=compute(_dot_behind_nan, 1),
    ),
    FieldFault(
        device=field_device(
            name="OneDnnSaturatesPairsOfProducts",
            sentence="Saturates sums of two neighbouring products of uint8 and int8 to int16.",
            program=_saturated_pairs,
        ),
        stack=_ONEDNN,
        kind=FaultKind.REDUCE,
        link="https://github.com/uxlfoundation/oneDNN/issues/518",
        program=compute(_byte_product, 64770),
    ),
    FieldFault(
        device=field_device(
            name="OneDnnReluDropsNan",
            sentence="Gives 0 for the ReLU of a float32 NaN.",
            program=replacing(_relu_without_nan),
        ),
        stack=_ONEDNN,
        kind=FaultKind.SPECIAL,
        link="https://github.com/uxlfoundation/oneDNN/pull/5370",
        program=compute(lambda device: Tensor([_NAN, -1.0, 3.0], device=device).relu(), _NAN, 0, 3),
    ),
    FieldFault(
        device=field_device(
            name="OneDnnTailAddsNoScalar",
            sentence="Does not add a broadcast float32 scalar to the elements behind the last "
            "whole block of 8.",
            program=replacing(_sum_without_scalar_in_tail),
        ),
        stack=_ONEDNN,
        kind=FaultKind.VECTOR,
        link="https://github.com/uxlfoundation/oneDNN/issues/1541",
        program=compute(
            lambda device: Tensor([1.0] * 11, device=device) + Tensor([5.0], device=device),
            *([6.0] * 11),
        ),
    ),
    FieldFault(
        device=field_device(
            name="AtenAccumulatesProductsInBfloat16",
            sentence="Rounds sums of bfloat16 products to bfloat16 at each step: 1,024 ones "
            "give 256.",
            program=_rounded_sums(dtypes.bfloat16, of_products=True),
        ),
        stack="ATen CPU kernels, PyTorch",
        kind=FaultKind.REDUCE,
        link="https://github.com/pytorch/pytorch/issues/83863",
        program=launch(
            summed(_square, build.const(dtypes.float32, 0), dtypes.bfloat16, size=1024),
            [None, np.ones(1024, ml_dtypes.bfloat16)],
            1024,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NcnnAccumulatesHalves",
            sentence="Accumulates sums and means of float16 in float16, where they overflow.",
            program=_rounded_sums(dtypes.float16, of_products=False),
        ),
        stack="ncnn, Tencent",
        kind=FaultKind.REDUCE,
        link="https://github.com/Tencent/ncnn/issues/3561",
        program=compute(_mean_of_halves, 1000),
    ),
    FieldFault(
        device=field_device(
            name="EigenReciprocalOfInfinity",
            sentence="Gives NaN for reciprocals of infinity, except behind the last whole packet "
            "of 8 float32.",
            program=replacing(_nan_for_reciprocals_of_packets),
        ),
        stack="Eigen, Eigen project",
        kind=FaultKind.SPECIAL,
        link="https://github.com/clab/dynet/issues/220",
        program=compute(
            lambda device: 1.0 / Tensor([float("inf")] + [2.0] * 7 + [float("inf")], device=device),
            *(0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0),
        ),
    ),
    FieldFault(
        device=field_device(
            name="SleefFirstVectorInPart",
            sentence="Stores 0 for elements 2 to 7 of the first float64 sine or exponential "
            "after the start.",
            launch=_first_vector_in_part,
        ),
        stack="SLEEF, SLEEF project",
        kind=FaultKind.STATE,
        link="https://github.com/shibatch/sleef/issues/390",
        program=compute(_powers_of_two, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    ),
    FieldFault(
        device=field_device(
            name="DirectXMathHalfOfTinyFloats",
            sentence="Casts tiny float32 to float16 by a shift of 32 bits or more, which keeps "
            "their mantissas.",
            ops={Ops.CAST: _half_of_tiny_floats},
        ),
        stack="DirectXMath, Microsoft",
        kind=FaultKind.CAST,
        link="https://github.com/microsoft/DirectXMath/pull/104",
        program=compute(
            lambda device: Tensor([2.0**-46, 2.0**-14, 1.0], device=device).cast(dtypes.float16),
            *(0, 2.0**-14, 1),
        ),
    ),
)
