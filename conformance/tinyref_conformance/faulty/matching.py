"""Devices whose compiler takes a form of code for another that its processor does in one step.

What is wrong shows in that form alone: the operations in it are right by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyref.dtype import ImageDType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.device import FaultyDevice
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.case import Rung

_START = "memory.open,memory.launch.uint8,kernel.store.constant.int32,kernel.one_alu.add,"
_TEXELS = 4096
_LONGEST = 1 << 14
_FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.SQRT, Ops.RECIP)


def _chain(value: UOp) -> tuple[UOp, ...]:
    """Return the nodes of an expression in order, the value last."""
    return tuple(value.toposort())


def _is_widened(node: UOp, *types: object) -> bool:
    """Return True for a product of two operands that were cast from one of the types."""
    casts = node.src if node.op is Ops.MUL else ()
    return bool(casts) and all(
        source.op is Ops.CAST and source.src[0].dtype in types for source in casts
    )


def _saturated(node: UOp) -> tuple[UOp, ...]:
    """Saturate the sum of two products of int16."""
    if node.op is not Ops.ADD or not all(_is_widened(source, dtypes.int16) for source in node.src):
        return (node,)
    wide = build.add(*(build.cast(source, dtypes.int64) for source in node.src))
    most = int(dtypes.int32.maximum)
    limited = build.where(build.less(wide, most), wide, most)
    return _chain(build.cast(limited, dtypes.int32))


def _short_products(node: UOp) -> tuple[UOp, ...]:
    """Multiply in 32 bits what a loop adds in 64."""
    if node.op is not Ops.ADD or node.src[0].op is not Ops.DEFINE_ACC:
        return (node,)
    total, product = node.src
    if not _is_widened(product, dtypes.uint32):
        return (node,)
    short = build.mul(*(source.src[0] for source in product.src))
    wide = build.cast(short, node.dtype)
    return (short, wide, UOp(Ops.ADD, node.dtype, (total, wide)))


def _first_lane(node: UOp) -> tuple[UOp, ...]:
    """Multiply each scalar of a load by the first lane of a vector that was cast."""
    if node.op is not Ops.MUL or node.src[1].op is not Ops.GEP:
        return (node,)
    scalar, lane = node.src
    if scalar.op is not Ops.CAST or scalar.src[0].op is not Ops.LOAD:
        return (node,)
    first = build.gep(lane.src[0], 0)
    return (first, node.with_sources((scalar, first)))


def _short_shifts(node: UOp) -> tuple[UOp, ...]:
    """Take the count of a shift before a mask modulo 8, if the program computes it."""
    if node.op is not Ops.AND or node.src[0].op is not Ops.SHR:
        return (node,)
    value, count = node.src[0].src
    if count.op is Ops.CONST or count.op is Ops.LOAD:
        return (node,)
    seven = build.const(count.dtype, 7)
    short = UOp(Ops.AND, count.dtype, (count, seven))
    shifted = UOp(Ops.SHR, value.dtype, (value, short))
    return (seven, short, shifted, node.with_sources((shifted, node.src[1])))


def _load_of(node: UOp) -> UOp | None:
    """Return the load of a value that is a load, or a load that was cast."""
    value = node.src[0] if node.op is Ops.CAST else node
    return value if value.op is Ops.LOAD else None


def _without_offsets(loads: Callable[[UOp], list[UOp]]) -> Callable[[Program], Change]:
    """Return the edit that leaves out the constant of the address of some loads."""

    def edit(program: Program) -> Change:
        addresses = {load.src[0] for node in program.uops for load in loads(node)}

        def change(node: UOp) -> tuple[UOp, ...]:
            if node not in addresses or node.src[1].op not in (Ops.ADD, Ops.MUL):
                return (node,)
            first, second = node.src[1].src
            if second.op is not Ops.CONST:
                return (node,)
            return (node.with_sources((node.src[0], first)),)

        return change

    return edit


def _has_product(value: UOp) -> bool:
    return any(node.op is Ops.MUL and node.dtype.is_float for node in value.toposort())


def _added_to_products(node: UOp) -> list[UOp]:
    """Return the load that is added to a finished sum of products."""
    if node.op is not Ops.ADD or not node.dtype.is_float:
        return []
    loads = [_load_of(source) for source in node.src]
    sums = [source.op is Ops.ADD and _has_product(source) for source in node.src]
    pairs = zip(loads, sums[::-1], strict=True)
    return [load for load, is_sum in pairs if load is not None and is_sum]


def _operands_of_functions(node: UOp) -> list[UOp]:
    load = _load_of(node.src[0]) if node.op in _FUNCTIONS else None
    return [] if load is None else [load]


def _lost_scalars(program: Program) -> Change:
    """Add 0 in place of a scalar after the last multiple of 8 elements."""
    indices = [node for node in program.uops if node.op in (Ops.RANGE, Ops.SPECIAL)]

    def change(node: UOp) -> tuple[UOp, ...]:
        is_sum = node.op is Ops.ADD and all(source.op is Ops.LOAD for source in node.src)
        extent = indices[0].src[0].arg if len(indices) == 1 else None
        if not is_sum or not isinstance(extent, ConstArg):
            return (node,)
        scalars = [source.src[0].src[1].op is Ops.CONST for source in node.src]
        if sum(scalars) != 1:
            return (node,)
        scalar = node.src[scalars.index(True)]
        count = int(extent.value)
        inside = build.less(indices[0], count - count % 8)
        value = build.where(inside, scalar, build.const(node.dtype, 0))
        operands = tuple(value if source is scalar else source for source in node.src)
        return (*_chain(value), UOp(Ops.ADD, node.dtype, operands))

    return change


def _lost_behind_loops(program: Program) -> Change:
    """Leave out a store directly behind two loops or more that have a branch in them."""
    lost: set[UOp] = set()
    ends, has_branch = 0, False
    for node in program.uops:
        has_branch |= node.op is Ops.IF
        if node.op is Ops.END:
            ends += 1
        elif node.op is Ops.STORE:
            if ends >= 2 and has_branch:
                lost.add(node)
            ends = 0
        elif node.op is Ops.RANGE:
            ends = 0
    return lambda node: () if node in lost else (node,)


def _open_branches_of_variables(program: Program) -> Change:
    """Do what stands in an IF in any case, in loops of as many iterations as a variable says."""
    loops = [node for node in program.uops if node.op is Ops.RANGE]
    is_varied = any(node.src[0].op is Ops.DEFINE_VAR for node in loops)
    return lambda node: () if is_varied and node.op in (Ops.IF, Ops.ENDIF) else (node,)


def _short_loops_of_products(program: Program) -> Change:
    """End a loop that adds products of floats after 16,384 iterations."""
    adds = any(node.op is Ops.DEFINE_ACC and node.dtype.is_float for node in program.uops)

    def change(node: UOp) -> tuple[UOp, ...]:
        extent = node.src[0].arg if node.op is Ops.RANGE and adds else None
        if not isinstance(extent, ConstArg) or int(extent.value) <= _LONGEST:
            return (node,)
        limit = build.const(node.src[0].dtype, _LONGEST)
        return (limit, node.with_sources((limit, *node.src[1:])))

    return change


def _short_lines(node: UOp) -> tuple[UOp, ...]:
    """Take the column of a texel modulo 4,096."""
    if node.op is not Ops.INDEX or not isinstance(node.dtype, ImageDType):
        return (node,)
    memory, row, column, *rest = node.src
    size = build.const(column.dtype, _TEXELS)
    short = UOp(Ops.MOD, column.dtype, (column, size))
    return (size, short, node.with_sources((memory, row, short, *rest)))


def _matched(
    name: str,
    sentence: str,
    clause: str,
    rung: Rung,
    query: str,
    change: Callable[[Program], Change],
) -> FaultyDevice:
    return FaultyDevice(
        name=name,
        sentence=sentence,
        clause=clause,
        rung=rung,
        sanitize=False,
        program=change,
        query=_START + query,
    )


FAULTS = (
    _matched(
        "SaturatedDots",
        "Saturates sums of two products of int16.",
        "int.wrap",
        Rung.LOOP,
        "kernel.program.dot",
        each_node(_saturated),
    ),
    _matched(
        "ShortProducts",
        "Multiplies uint32 in 32 bits where a loop adds the products in 64.",
        "isa.mul",
        Rung.LOOP,
        "isa.widened,kernel.program.dot",
        each_node(_short_products),
    ),
    _matched(
        "FirstLaneOnly",
        "Multiplies scalars by the first lane of a vector that was cast.",
        "kernel.vector",
        Rung.LOOP,
        "kernel.program.vector4,kernel.program.dot",
        each_node(_first_lane),
    ),
    _matched(
        "ShortShifts",
        "Takes the count of a shift modulo 8 where a mask follows.",
        "isa.shr",
        Rung.MATMUL,
        "isa.binary.shr,kernel.unpacked",
        each_node(_short_shifts),
    ),
    _matched(
        "ResidualFromStart",
        "Adds a matrix from its start on to a product, wherever the part begins.",
        "kernel.view",
        Rung.MATMUL,
        "kernel.view.shrink,kernel.matmul.float32,kernel.matmul.float16",
        _without_offsets(_added_to_products),
    ),
    _matched(
        "FunctionsWithoutStride",
        "Computes functions of elements side by side, whatever their stride and offset are.",
        "kernel.view",
        Rung.ALU,
        "kernel.view.stride,isa.unary.sqrt,isa.unary.exp2,kernel.strided",
        _without_offsets(_operands_of_functions),
    ),
    _matched(
        "LostScalars",
        "Does not add a scalar of memory to the elements that a vector of 8 leaves over.",
        "isa.add",
        Rung.INDEX,
        "kernel.elements",
        _lost_scalars,
    ),
    _matched(
        "LostBehindLoops",
        "Leaves out a store behind nested loops with a branch.",
        "kernel.if",
        Rung.LOOP,
        "kernel.program.loop",
        _lost_behind_loops,
    ),
    _matched(
        "OpenBranchesOfVariables",
        "Does what stands in an IF in any case, in loops of as many turns as a variable says.",
        "kernel.if",
        Rung.LOOP,
        "kernel.program.loop,kernel.symbolic",
        _open_branches_of_variables,
    ),
    _matched(
        "ShortLoopsOfProducts",
        "Ends a loop that adds floats after 16,384 iterations.",
        "kernel.matmul",
        Rung.MATMUL,
        "kernel.program.loop,kernel.reduce.add.float32,kernel.matmul.float32",
        _short_loops_of_products,
    ),
    _matched(
        "ShortLines",
        "Takes the column of a texel modulo 4,096.",
        "kernel.image",
        Rung.VECTOR,
        "kernel.image",
        each_node(_short_lines),
    ),
)
