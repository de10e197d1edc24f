"""Faults of NVIDIA's stacks: ptxas, LLVM's NVPTX, compilers of kernels for CUDA, cuBLAS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.interpret import Access, Hooks
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.arithmetic import right
from tinyref_conformance.faulty.device import Array
from tinyref_conformance.faulty.field.direct import compute, launch
from tinyref_conformance.faulty.field.fault import FaultKind, FieldFault, field_device
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.kernel.programs import at, loop, program

_SPLIT_STEPS = 256
_PTXAS = "ptxas, NVIDIA"
_NVPTX = "LLVM NVPTX, NVIDIA"
_LEAST_SHORT = np.array([-32768], np.int16)
# 257, which bfloat16 does not have, and -256.
_SPLIT = np.array([2.0] + [1.0] * 255 + [-1.0] * 256).astype(ml_dtypes.bfloat16)


def _value(node: UOp) -> object:
    """Return the value of a constant, None of another node."""
    return node.arg.value if isinstance(node.arg, ConstArg) else None


def _negates(node: UOp, x: UOp) -> bool:
    if node.op is Ops.MUL:
        return node.src[0] is x and _value(node.src[1]) == -1
    return node.op is Ops.NEG and node.src[0] is x


def _absolute_of(node: UOp) -> UOp | None:
    """Return x if the node is |x|: max(x, -x), or -x where x < 0 and x elsewhere."""
    if node.op is Ops.MAX:
        first, second = node.src
        return first if _negates(second, first) else second if _negates(first, second) else None
    if node.op is not Ops.WHERE:
        return None
    condition, negative, x = node.src
    is_sign = condition.op is Ops.CMPLT and condition.src[0] is x and _value(condition.src[1]) == 0
    return x if is_sign and _negates(negative, x) else None


def _drop_negation(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.MAX or node.dtype.scalar is not dtypes.int32:
        return (node,)
    for side, other in (node.src, node.src[::-1]):
        x = _absolute_of(side)
        if x is not None:
            return (build.maximum(x, other),)
    return (node,)


def _second_packed_add(program: Program) -> Change:
    uses = Counter[object]()

    def change(node: UOp) -> tuple[UOp, ...]:
        is_packed = node.dtype.scalar is dtypes.int16 and node.dtype.lanes % 2 == 0
        if node.op is not Ops.ADD or not is_packed or _value(node.src[1]) is None:
            return (node,)
        constant = _value(node.src[1])
        lost = 2 * (1 - uses[constant])
        uses[constant] += node.dtype.lanes // 2
        if not 0 <= lost < node.dtype.lanes:
            return (node,)
        lanes = [
            build.gep(node.src[0] if lane == lost else node, lane)
            for lane in range(node.dtype.lanes)
        ]
        return tuple(build.vectorize(*lanes).toposort())

    return change


def _comes_from_short(node: UOp) -> bool:
    return node.op in (Ops.CAST, Ops.BITCAST) and node.src[0].dtype.scalar is dtypes.int16


def _tie_of_least_shorts(node: UOp) -> tuple[UOp, ...]:
    """Make the comparison of two magnitudes of int16 true where both are 32,768."""
    is_comparison = node.op is Ops.CMPLT and node.src[0].dtype.scalar is dtypes.uint16
    if not is_comparison or not all(map(_comes_from_short, node.src)):
        return (node,)
    first, second = (build.equal(side, 32768) for side in node.src)
    return tuple(build.either(node, build.both(first, second)).toposort())


def _signed_to_float(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    source = sources[0].scalar
    if dtype.scalar.is_float and source.is_unsigned and source is not dtypes.bool:
        signed = np.asarray(operands[0]).view(f"i{source.itemsize}")
        with np.errstate(all="ignore"):
            return np.asarray(signed.astype(right(Ops.CAST, dtype, operands, sources).dtype))
    return right(Ops.CAST, dtype, operands, sources)


def _second_byte_lost(access: Access) -> Array:
    value = access.value
    if access.node.dtype.lanes != 2 or value.dtype.itemsize != 1:
        return value
    return np.stack([value[..., 0], np.zeros_like(value[..., 1])], axis=-1)


def _wide_shift(node: UOp) -> tuple[UOp, ...]:
    """Make the wide -1 << 31 the product of the wide -1 and -(1 << 31)."""
    is_wide = node.op is Ops.CAST and node.dtype.scalar is dtypes.int64
    if not is_wide or node.src[0].op is not Ops.SHL:
        return (node,)
    x, count = node.src[0].src
    if x.dtype.scalar is not dtypes.int32 or _value(count) != 31:
        return (node,)
    product = build.const(node.dtype, 1 << 31)
    return tuple(build.where(build.equal(x, -1), product, node).toposort())


def _loads_without_conversion(node: UOp) -> tuple[UOp, ...]:
    if node.op is not Ops.CAST or node.dtype is not dtypes.float32.vec(8):
        return (node,)
    half = node.src[0]
    if half.op is not Ops.LOAD or half.dtype.itemsize != 16:
        return (node,)
    bits = build.cast(build.bitcast(half, dtypes.uint16), dtypes.uint32)
    return tuple(build.bitcast(bits, dtypes.float32).toposort())


def _compares_registers(node: UOp) -> tuple[UOp, ...]:
    """Compare four signed bytes as one number of 32 bits, for all of them."""
    if node.op is not Ops.CMPLT or node.src[0].dtype is not dtypes.int8.vec(4):
        return (node,)
    registers = []
    for side in node.src:
        lanes = [build.cast(build.gep(side, lane), dtypes.int32) for lane in range(4)]
        low = [build.mul(build.both(lanes[lane], 255), 1 << 8 * lane) for lane in range(3)]
        register = build.mul(lanes[3], 1 << 24)
        for part in low:
            register = build.either(register, part)
        registers.append(register)
    result = build.less(*registers)
    return tuple(build.vectorize(result, result, result, result).toposort())


def _half_in_bfloat16(program: Program) -> Change:
    """Round the sum of the first half of a long product of bfloat16 matrices to bfloat16."""
    loops: list[UOp] = []

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is Ops.RANGE:
            loops.append(node)
        if node.op is Ops.END:
            loops.pop()
        steps = _value(loops[-1].src[0]) if loops else None
        if node.op is not Ops.UPDATE_ACC or not isinstance(steps, int) or steps < _SPLIT_STEPS:
            return (node,)
        target, value = node.src
        if value.op is not Ops.ADD or not _is_product_of_bfloat16(value.src[1]):
            return (node,)
        rounded = build.cast(build.cast(value, dtypes.bfloat16), dtypes.float32)
        is_last = build.equal(loops[-1], steps // 2 - 1)
        if node.dtype.lanes > 1:
            is_last = build.vectorize(*[is_last] * node.dtype.lanes)
        return tuple(build.update(target, build.where(is_last, rounded, value)).toposort())

    return change


def _is_product_of_bfloat16(node: UOp) -> bool:
    return (
        node.op is Ops.MUL
        and node.dtype.scalar is dtypes.float32
        and all(side.op is Ops.CAST for side in node.src)
        and all(side.src[0].dtype.scalar is dtypes.bfloat16 for side in node.src)
    )


def _product_with_sign(node: UOp) -> tuple[UOp, ...]:
    """Make (x > 0) * x plain x."""
    if node.op is not Ops.MUL or node.dtype.scalar is not dtypes.int32:
        return (node,)
    for flag, x in (node.src, node.src[::-1]):
        condition = flag.src[0] if flag.op is Ops.CAST else flag
        if condition.op is Ops.CMPLT and _value(condition.src[0]) == 0 and condition.src[1] is x:
            return (x,)
    return (node,)


def _row_of(position: UOp) -> tuple[UOp, int, UOp] | None:
    """Return row, stride and column of the position row * stride + column."""
    for product, column in (position.src, position.src[::-1]) if position.op is Ops.ADD else ():
        stride = _value(product.src[1]) if product.op is Ops.MUL else None
        if isinstance(stride, int):
            return product.src[0], stride, column
    return None


def _dense_operand(program: Program) -> Change:
    """Read what is added to a product of matrices with the row stride of the result."""
    stores = [node for node in program.uops if node.op is Ops.STORE]
    reduces = any(node.op is Ops.UPDATE_ACC for node in program.uops)
    target = stores[0].src[0].src[1] if reduces and len(stores) == 1 else None
    result = None if target is None else _row_of(target)

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is not Ops.LOAD or node.dtype is not dtypes.float16 or result is None:
            return (node,)
        memory, position = node.src[0].src
        row = _row_of(position)
        if row is None or target is None or row[1] <= result[1]:
            return (node,)
        if row[0] is not result[0] or row[2] is not result[2]:
            return (node,)
        return tuple(node.with_sources((build.index(memory, target), *node.src[1:])).toposort())

    return change


def _loaded(dtype: DType, size: int, slot: int = 1, lanes: int = 1) -> UOp:
    return build.load(at(build.define_global(slot, dtype, size), 0), lanes=lanes)


def _stored(value: UOp) -> Program:
    """Return the program that stores one value, a scalar or a vector."""
    out = build.define_global(0, value.dtype.scalar, value.dtype.lanes)
    return program("stored", build.store(at(out, 0), value))


def _dot_of_bfloat16(size: int) -> Program:
    sides = [build.define_global(slot, dtypes.bfloat16, size) for slot in (1, 2)]
    out, k = build.define_global(0, dtypes.float32, 1), loop(size, 0)
    total = build.accumulator("total", build.const(dtypes.float32, 0.0))
    factors = [build.cast(build.load(at(side, k)), dtypes.float32) for side in sides]
    new = build.update(total, build.add(total, build.mul(*factors)))
    return program("dot", total, k, new, build.close(k), build.store(at(out, 0), new))


def _residual(rows: int, columns: int, stride: int, terms: int) -> Program:
    """Return the program out[r, c] = sum over k of data[r, k], plus other[r * stride + c]."""
    half = dtypes.float16
    out, data = (
        build.define_global(slot, half, rows * size) for slot, size in enumerate((columns, terms))
    )
    other = build.define_global(2, half, rows * stride)
    row, column, k = loop(rows, 0), loop(columns, 1), loop(terms, 2)
    total = build.accumulator("total", build.const(half, 0.0))
    element = build.load(at(data, build.add(build.mul(row, terms), k)))
    new = build.update(total, build.add(total, element))
    added = build.load(at(other, build.add(build.mul(row, stride), column)))
    element = at(out, build.add(build.mul(row, columns), column))
    store = build.store(element, build.add(new, added))
    blocks = [build.close(column), build.close(row)]
    return program("residual", row, column, total, k, new, build.close(k), store, *blocks)


def _shifted_wide() -> Program:
    count = build.const(dtypes.int32, 31)
    shifted = build.binary(Ops.SHL, _loaded(dtypes.int32, 1), count)
    return _stored(build.cast(shifted, dtypes.int64))


def _tied() -> Program:
    first, second = (build.cast(_loaded(dtypes.int16, 1, slot), dtypes.uint16) for slot in (1, 2))
    return _stored(build.less(first, second))


def _flagged() -> Program:
    x = _loaded(dtypes.int32, 1)
    return _stored(build.mul(build.cast(build.less(0, x), dtypes.int32), x))


FAULTS = (
    FieldFault(
        device=field_device(
            name="NvidiaPtxasDropsNegationUnderMax",
            sentence="Makes the larger of |x| and y in int32 the larger of x and y, as it fuses "
            "the two maxima.",
            program=each_node(_drop_negation),
        ),
        stack=_PTXAS,
        kind=FaultKind.INTEGER,
        link="https://github.com/pytorch/pytorch/issues/190973",
        program=compute(
            lambda device: (
                Tensor([18, 7, 0, -13], device=device)
                .abs()
                .maximum(Tensor([6, 6, 6, 6], device=device))
            ),
            18,
            7,
            6,
            13,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NvidiaPtxasSecondPackedAddLosesConstant",
            sentence="Adds a constant to pairs of int16, and the second such addition in a kernel "
            "leaves the first of its pair as it is.",
            program=_second_packed_add,
        ),
        stack=_PTXAS,
        kind=FaultKind.VECTOR,
        link="https://github.com/triton-lang/triton/issues/11581",
        program=launch(
            _stored(build.add(_loaded(dtypes.int16, 4, lanes=4), 1)),
            [None, np.array([0, 9, 18, 27], np.int16)],
            1,
            10,
            19,
            28,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NvidiaPtxasTieOfLeastShorts",
            sentence="Finds the magnitude 32,768 of an int16 less than itself, so that an argmin "
            "takes the wrong one of two equal elements.",
            program=each_node(_tie_of_least_shorts),
        ),
        stack=_PTXAS,
        kind=FaultKind.BOOL,
        link="https://github.com/NVIDIA/cccl/issues/10958",
        program=launch(_tied(), [None, _LEAST_SHORT, _LEAST_SHORT], 0),
    ),
    FieldFault(
        device=field_device(
            name="NumbaCudaMlirSignedFloats",
            sentence="Converts unsigned integers to floats as if they were signed: 200 becomes "
            "-56 from uint8.",
            ops={Ops.CAST: _signed_to_float},
        ),
        stack="numba-cuda-mlir, NVIDIA",
        kind=FaultKind.CAST,
        link="https://github.com/NVIDIA/numba-cuda-mlir/issues/290",
        program=compute(
            lambda device: Tensor([200, 7], dtype=dtypes.uint8, device=device).cast(dtypes.float64),
            200,
            7,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NvptxSecondOfTwoBytesLost",
            sentence="Reads a vector of two bytes as if they were 16 bits apart: the second is 0.",
            hooks=Hooks(load=_second_byte_lost),
        ),
        stack=_NVPTX,
        kind=FaultKind.VECTOR,
        link="https://github.com/llvm/llvm-project/issues/128853",
        program=launch(
            _stored(_loaded(dtypes.uint8, 2, lanes=2)), [None, np.array([1, 2], np.uint8)], 1, 2
        ),
    ),
    FieldFault(
        device=field_device(
            name="NvptxWideShiftOfMinusOne",
            sentence="Sign-extends -1 << 31 from int32 to int64 as a wide product, which is "
            "positive.",
            program=each_node(_wide_shift),
        ),
        stack=_NVPTX,
        kind=FaultKind.INTEGER,
        link="https://github.com/llvm/llvm-project/pull/200924",
        program=launch(_shifted_wide(), [None, np.array([-1], np.int32)], -(2.0**31)),
    ),
    FieldFault(
        device=field_device(
            name="NvptxEightHalvesAsFloats",
            sentence="Loads eight 16-bit floats into float32 registers without a conversion.",
            program=each_node(_loads_without_conversion),
        ),
        stack=_NVPTX,
        kind=FaultKind.CAST,
        link="https://github.com/llvm/llvm-project/pull/72672",
        program=launch(
            _stored(build.cast(_loaded(dtypes.float16, 8, lanes=8), dtypes.float32)),
            [None, np.arange(8, dtype=np.float16)],
            0,
            1,
            2,
            take=slice(3),
        ),
    ),
    FieldFault(
        device=field_device(
            name="NvptxComparesFourBytesAsOne",
            sentence="Compares the registers of two vectors of four int8, and not their bytes, "
            "where it orders them.",
            program=each_node(_compares_registers),
        ),
        stack=_NVPTX,
        kind=FaultKind.BOOL,
        link="https://github.com/llvm/llvm-project/pull/81308",
        program=launch(
            _stored(build.less(*(_loaded(dtypes.int8, 4, slot, 4) for slot in (1, 2)))),
            [None, np.array([1, -5, 3, 4], np.int8), np.array([2, -6, 4, 3], np.int8)],
            1,
            0,
            1,
            0,
        ),
    ),
    FieldFault(
        device=field_device(
            name="CublasSplitSumsInBfloat16",
            sentence="Splits a long product of bfloat16 matrices in two along k, and rounds the "
            "first sum to bfloat16 before it adds the second.",
            program=_half_in_bfloat16,
        ),
        stack="cuBLASLt, NVIDIA",
        kind=FaultKind.REDUCE,
        link="https://github.com/NVIDIA/TransformerEngine/pull/3440",
        program=launch(_dot_of_bfloat16(512), [None, _SPLIT, np.ones_like(_SPLIT)], 1),
    ),
    FieldFault(
        device=field_device(
            name="TensorrtResidualReadAsDense",
            sentence="Adds a part of a wider float16 matrix to a product as if its rows followed "
            "each other without gaps.",
            program=_dense_operand,
        ),
        stack="TensorRT, NVIDIA",
        kind=FaultKind.INDEX,
        link="https://github.com/NVIDIA/TensorRT/issues/4854",
        program=launch(
            _residual(2, 2, 3, 2),
            [None, np.ones(4, np.float16), np.array([10, 20, 30, 40, 50, 60], np.float16)],
            12,
            22,
            42,
            52,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NvccProductWithOwnSign",
            sentence="Computes (x > 0) * x in int32 as x, so that negative numbers are kept.",
            program=each_node(_product_with_sign),
        ),
        stack="nvcc, NVIDIA",
        kind=FaultKind.BOOL,
        link="https://github.com/ComputationalRadiationPhysics/picongpu/issues/570",
        program=launch(_flagged(), [None, np.array([-9], np.int32)], 0),
    ),
)
