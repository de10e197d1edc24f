"""Faults of WebGPU and Vulkan layers: Dawn, naga, DXC, SPIRV-Tools, SPIRV-Cross and MoltenVK."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyref.dtype import ImageDType, dtypes, from_numpy_dtype
from tinyref.runtimes.host.memory import HostHandle
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.build import barrier, branch, close
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, SpecialArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.device import Call, SimulatedKernel
from tinyref_conformance.faulty.field.direct import compute, launch, reversed_in_group
from tinyref_conformance.faulty.field.fault import (
    DirectProgram,
    FaultKind,
    FieldFault,
    field_device,
)
from tinyref_conformance.faulty.field.patterns import constant_of, is_fill, is_shared_element
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_conformance.faulty.transfers import allocation_of
from tinyref_spec.kernel.programs import INT, at, item_index, loop, program

_SMALLEST = -(2**31)
_TEXELS_IN_LINE = 4096
_SEEN_ITEMS = 16


def _unsigned_division(node: UOp) -> tuple[UOp, ...]:
    """Divide as unsigned if the divisor is the smallest int32 shifted right."""
    is_division = node.op is Ops.IDIV and node.dtype is dtypes.int32
    if not is_division or node.src[1].op is not Ops.SHR:
        return (node,)
    if constant_of(node.src[1].src[0]) != _SMALLEST:
        return (node,)
    sides = [build.bitcast(side, dtypes.uint32) for side in node.src]
    quotient = build.idiv(*sides)
    return (*sides, quotient, build.bitcast(quotient, dtypes.int32))


def _arithmetic_shift(node: UOp) -> tuple[UOp, ...]:
    """Shift a uint16 that was shifted left back with its sign."""
    is_shift = node.op is Ops.SHR and node.dtype is dtypes.uint16
    if not is_shift or node.src[0].op is not Ops.SHL:
        return (node,)
    signed = build.bitcast(node.src[0], dtypes.int16)
    moved = UOp(Ops.SHR, dtypes.int16, (signed, node.src[1]))
    return (signed, moved, build.bitcast(moved, dtypes.uint16))


def _wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _remainder(dividend: int, divisor: int) -> int:
    """Return the remainder with the sign of the dividend."""
    size = abs(dividend) % abs(divisor)
    return -size if dividend < 0 else size


def _folded_remainder(node: UOp) -> tuple[UOp, ...]:
    """Fold int32 a % b to ((a % b) + b) % b, whose sum wraps."""
    if node.op is not Ops.MOD or node.dtype is not dtypes.int32:
        return (node,)
    dividend, divisor = (constant_of(side) for side in node.src)
    if not isinstance(dividend, int) or not isinstance(divisor, int) or divisor == 0:
        return (node,)
    total = _wrapped(_remainder(dividend, divisor) + divisor)
    return (build.const(node.dtype, _remainder(total, divisor)),)


def _negated_divisor(node: UOp) -> tuple[UOp, ...]:
    """Make -x / c x / -c."""
    is_division = node.op is Ops.IDIV and node.dtype is dtypes.int32
    if not is_division or node.src[0].op is not Ops.NEG:
        return (node,)
    divisor = constant_of(node.src[1])
    if divisor is None:
        return (node,)
    opposite = build.const(node.dtype, -divisor)
    return (opposite, build.idiv(node.src[0].src[0], opposite))


def _decrement(node: UOp) -> tuple[UOp, ...]:
    is_double = node.op is Ops.NEG and node.src[0].op is Ops.NEG
    if not is_double or not node.dtype.is_int:
        return (node,)
    one = build.const(node.dtype, 1)
    return (one, build.sub(node.src[0].src[0], one))


def _half_positions(program: Program) -> Change:
    has_half = any(
        node.op is Ops.LOAD and node.dtype.scalar is dtypes.float16 for node in program.uops
    )

    def change(node: UOp) -> tuple[UOp, ...]:
        if not has_half or node.op not in (Ops.IDIV, Ops.MOD) or node.dtype is not dtypes.int32:
            return (node,)
        half = build.cast(node.src[0], dtypes.float16)
        rounded = build.cast(half, dtypes.int32)
        return (half, rounded, node.with_sources((rounded, node.src[1])))

    return change


def _fill_at_word_offset(kernel: SimulatedKernel) -> Call:
    """Write a fill of a part of an allocation to four times its offset."""
    healthy, fills = kernel.run, is_fill(kernel.program)

    def run(buffers: Sequence[HostHandle], *rest: Any) -> Any:
        if not fills or len(buffers) != 1:
            return healthy(buffers, *rest)
        whole, offset = allocation_of(buffers[0])
        if offset == 0:
            return healthy(buffers, *rest)
        filled = np.zeros_like(buffers[0])
        seconds = healthy([filled], *rest)
        target = whole[4 * offset :][: filled.size]
        target[:] = filled[: target.size]
        return seconds

    return run


def _rounded_clear(program: Program) -> Change:
    fills = is_fill(program)

    def change(node: UOp) -> tuple[UOp, ...]:
        if not fills or node.op is not Ops.STORE:
            return (node,)
        address, cleared, *gate = node.src
        value = constant_of(cleared)
        if cleared.dtype.scalar is not dtypes.int32 or value is None:
            return (node,)
        rounded = build.const(cleared.dtype, min(int(np.float32(value)), 2**31 - 1))
        return (rounded, node.with_sources((address, rounded, *gate)))

    return change


def _float_of_bits(node: UOp) -> tuple[UOp, ...]:
    """Convert the unsigned number itself instead of its bits as an int32."""
    if node.op is not Ops.CAST or not node.dtype.is_float or node.src[0].op is not Ops.BITCAST:
        return (node,)
    bits = node.src[0]
    number = bits.src[0]
    if bits.dtype.scalar is not dtypes.int32 or number.dtype.scalar is not dtypes.uint32:
        return (node,)
    return (build.cast(number, node.dtype.scalar),)


def _single_step_loops(program: Program) -> Change:
    """Leave each loop that has a barrier after its first iteration."""
    opened, with_barrier = list[UOp](), set[UOp]()
    for node in program.uops:
        if node.op is Ops.RANGE:
            opened.append(node)
        elif node.op is Ops.END:
            opened.remove(node.src[0])
        elif node.op is Ops.BARRIER:
            with_barrier.update(opened)
    arguments = [node.arg for node in with_barrier]

    def change(node: UOp) -> tuple[UOp, ...]:
        if node.op is not Ops.RANGE or node.arg not in arguments:
            return (node,)
        once = build.const(node.dtype, 1)
        return (once, node.with_sources((once,)))

    return change


def _broken_lines(node: UOp) -> tuple[UOp, ...]:
    """Break lines of an image after 4,096 texels."""
    if node.op is not Ops.INDEX or not isinstance(node.dtype, ImageDType):
        return (node,)
    if node.dtype.shape[1] <= _TEXELS_IN_LINE:
        return (node,)
    memory, row, column, *rest = node.src
    limit = build.const(column.dtype, _TEXELS_IN_LINE)
    lines, texel = build.idiv(column, limit), build.mod(column, limit)
    line = build.add(row, lines)
    return (limit, lines, line, texel, node.with_sources((memory, line, texel, *rest)))


def _stale_shared_memory(program: Program) -> Change:
    """Hide what work-items behind the sixteenth stored to shared memory from all others."""
    item = next((node for node in program.uops if node.arg == SpecialArg("item", 0)), None)
    is_large = math.prod(program.group) > _SEEN_ITEMS
    waits = any(node.op is Ops.BARRIER for node in program.uops)

    def change(node: UOp) -> tuple[UOp, ...]:
        is_shared = node.op is Ops.LOAD and is_shared_element(node)
        if not is_shared or item is None or not (is_large and waits):
            return (node,)
        position = node.src[0].src[1]
        limit, zero = build.const(position.dtype, _SEEN_ITEMS), build.const(node.dtype, 0)
        is_early, is_other = build.less(position, limit), build.not_equal(position, item)
        own = build.where(is_other, zero, node)
        return (node, limit, zero, is_early, is_other, own, build.where(is_early, node, own))

    return change


def _one_value(value: UOp, *expected: float) -> DirectProgram:
    """Return the program that computes a value without inputs."""
    out = build.define_global(0, value.dtype, 1)
    return launch(program("value", build.store(at(out, 0), value)), [None], *expected)


def _of_one(
    kind: type[np.generic], number: int, expression: Callable[[UOp], UOp], *expected: float
) -> DirectProgram:
    """Return the program that computes `expression` of one number."""
    data = build.define_global(1, from_numpy_dtype(kind), 1)
    value = expression(build.load(at(data, 0)))
    out = build.define_global(0, value.dtype, 1)
    kernel = program("value", build.store(at(out, 0), value))
    return launch(kernel, [None, np.array([number], kind)], *expected)


def _divided_positions() -> DirectProgram:
    half = dtypes.float16
    out, data = build.define_global(0, half, 4), build.define_global(1, half, 1030)
    i = loop(4, 0)
    index = build.idiv(build.add(i, 2048), 2)
    kernel = program("pairs", i, build.store(at(out, i), build.load(at(data, index))), close(i))
    return launch(kernel, [None, np.arange(1030).astype(np.float16)], 1024, 1024, 1025, 1025)


def _fill_of_part() -> DirectProgram:
    out, i = build.define_global(0, INT, 4), loop(4, 0)
    kernel = program("fill", i, build.store(at(out, i), build.const(INT, 7)), close(i))
    return launch(kernel, [np.zeros(4, np.int32)], 7, 7, 7, 7)


def _tree_sum(size: int) -> DirectProgram:
    """Return the program whose work-items add 1 .. size by halves in shared memory."""
    out, data = build.define_global(0, INT, 1), build.define_global(1, INT, size)
    shared, item = build.define_local("shared", INT, size), item_index(size)
    put = build.store(at(shared, item), build.load(at(data, item)))
    step = loop(size.bit_length() - 1, 0)
    distance = build.binary(Ops.SHL, build.const(INT, 1), step)
    adds = branch(build.less(build.mod(item, build.mul(distance, 2)), 1))
    pair = build.load(at(shared, item)), build.load(at(shared, build.add(item, distance)))
    add = build.store(at(shared, item), build.add(*pair))
    first = branch(build.less(item, 1))
    total = build.store(at(out, 0), build.load(at(shared, 0)))
    kernel = program(
        "tree",
        put,
        barrier(),
        step,
        adds,
        add,
        close(adds),
        barrier(),
        close(step),
        first,
        total,
        close(first),
        group=(size, 1, 1),
    )
    return launch(kernel, [None, np.arange(1, size + 1, dtype=np.int32)], size * (size + 1) // 2)


def _far_texel() -> DirectProgram:
    wide = ImageDType(dtypes.float32, (2, 4100))
    image = UOp(Ops.DEFINE_GLOBAL, wide, (), SlotArg(0))
    texel = build.texel(image, build.const(INT, 0), build.const(INT, 4097))
    store = build.store(texel, build.const(dtypes.float32.vec(4), 3.0))
    zeros = np.zeros(wide.size, np.float32)
    part = slice(4 * 4097, 4 * 4098)
    return launch(program("texel", store), [zeros], 3, 3, 3, 3, take=part)


FAULTS = (
    FieldFault(
        device=field_device(
            name="DxcDividesUnsigned",
            sentence="Divides int32 as unsigned by the smallest int32 shifted right.",
            program=each_node(_unsigned_division),
        ),
        stack="DXC, Microsoft",
        kind=FaultKind.INTEGER,
        link="https://github.com/microsoft/DirectXShaderCompiler/issues/8094",
        program=_of_one(
            np.int32,
            31,
            lambda count: build.idiv(
                build.const(INT, 10), build.binary(Ops.SHR, build.const(INT, _SMALLEST), count)
            ),
            -10,
        ),
    ),
    FieldFault(
        device=field_device(
            name="DxcExtendsBitFields",
            sentence="Sign-extends a uint16 bit field that two shifts extract.",
            program=each_node(_arithmetic_shift),
        ),
        stack="DXC, Microsoft",
        kind=FaultKind.CAST,
        link="https://github.com/microsoft/DirectXShaderCompiler/pull/7167",
        program=_of_one(
            np.uint16,
            0xFF,
            lambda number: build.binary(Ops.SHR, build.binary(Ops.SHL, number, 8), 8),
            0xFF,
        ),
    ),
    FieldFault(
        device=field_device(
            name="SpirvOptFoldsRemainder",
            sentence="Folds the remainder of two int32 constants with a sum that overflows.",
            program=each_node(_folded_remainder),
        ),
        stack="SPIRV-Tools, Khronos",
        kind=FaultKind.INTEGER,
        link="https://github.com/KhronosGroup/SPIRV-Tools/issues/5499",
        program=_one_value(
            build.mod(build.const(INT, 300_000_000), build.const(INT, 2_000_000_001)), 300_000_000
        ),
    ),
    FieldFault(
        device=field_device(
            name="SpirvOptNegatesDivisor",
            sentence="Folds -x / c to x / -c, which is wrong for the smallest int32.",
            program=each_node(_negated_divisor),
        ),
        stack="SPIRV-Tools, Khronos",
        kind=FaultKind.INTEGER,
        link="https://github.com/KhronosGroup/SPIRV-Tools/issues/4487",
        program=_of_one(
            np.int32,
            _SMALLEST,
            lambda number: build.idiv(build.unary(Ops.NEG, number), -2_018_396_466),
            1,
        ),
    ),
    FieldFault(
        device=field_device(
            name="NagaDecrements",
            sentence="Subtracts 1 from an integer that is negated twice.",
            program=each_node(_decrement),
        ),
        stack="naga, gfx-rs",
        kind=FaultKind.INTEGER,
        link="https://github.com/gfx-rs/naga/issues/1564",
        program=_of_one(
            np.int32,
            5,
            lambda number: build.unary(Ops.NEG, build.unary(Ops.NEG, number)),
            5,
        ),
    ),
    FieldFault(
        device=field_device(
            name="WebGpuPositionsInHalf",
            sentence="Rounds the dividend of index arithmetic to float16 in float16 kernels.",
            program=_half_positions,
        ),
        stack="ONNX Runtime WebGPU, Microsoft",
        kind=FaultKind.INDEX,
        link="https://github.com/microsoft/onnxruntime/issues/28976",
        program=_divided_positions(),
    ),
    FieldFault(
        device=field_device(
            name="MoltenVkFillsAtWordOffset",
            sentence="Multiplies the byte offset of a fill by four.",
            launch=_fill_at_word_offset,
        ),
        stack="MoltenVK, Khronos",
        kind=FaultKind.COPY,
        link="https://github.com/KhronosGroup/MoltenVK/pull/250",
        program=_fill_of_part(),
    ),
    FieldFault(
        device=field_device(
            name="MoltenVkBreaksLongLines",
            sentence="Addresses images as if their lines had at most 4,096 texels.",
            program=each_node(_broken_lines),
        ),
        stack="MoltenVK, Khronos",
        kind=FaultKind.IMAGE,
        link="https://github.com/KhronosGroup/MoltenVK/issues/589",
        program=_far_texel(),
    ),
    FieldFault(
        device=field_device(
            name="DawnClearsByFloat",
            sentence="Rounds an int32 above 2^24 to float32 when it clears memory with it.",
            program=_rounded_clear,
        ),
        stack="Dawn on D3D12, Google",
        kind=FaultKind.CAST,
        link="https://crbug.com/dawn/537",
        program=compute(
            lambda device: Tensor.full((3,), 2**24 + 1, dtype="int32", device=device).contiguous(),
            16_777_217,
            16_777_217,
            16_777_217,
        ),
    ),
    FieldFault(
        device=field_device(
            name="SpirvCrossConvertsUnsigned",
            sentence="Converts a uint32 to float as unsigned although the program bitcasts it "
            "to int32 first.",
            program=each_node(_float_of_bits),
        ),
        stack="SPIRV-Cross, Khronos",
        kind=FaultKind.CAST,
        link="https://github.com/KhronosGroup/SPIRV-Cross/pull/943",
        program=_of_one(
            np.uint32,
            2**32 - 1,
            lambda number: build.cast(build.bitcast(number, INT), dtypes.float32),
            -1,
        ),
    ),
    FieldFault(
        device=field_device(
            name="WarpLeavesLoopWithBarrier",
            sentence="Leaves a loop that contains a barrier after its first iteration.",
            program=_single_step_loops,
        ),
        stack="Basic Render Driver, Microsoft",
        kind=FaultKind.LOOP,
        link="https://github.com/gfx-rs/wgpu/issues/7904",
        program=_tree_sum(64),
    ),
    FieldFault(
        device=field_device(
            name="NagaSynchronisesSixteen",
            sentence="Hides what work-items after the sixteenth of a group store to shared memory "
            "from the others, despite a barrier.",
            program=_stale_shared_memory,
        ),
        stack="naga, gfx-rs",
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/gfx-rs/wgpu/issues/2408",
        program=launch(*reversed_in_group(17), 16, 15, 14, take=slice(3)),
    ),
)
