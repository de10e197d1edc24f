"""Programs that store one value: a node of what is loaded, a matrix tile, a gated access."""

from __future__ import annotations

import dataclasses

from tinyref.algebra.op_table import OP_TABLE
from tinyref.dtype import DType, dtypes, to_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import TileArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import MatrixTile, Operand
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at

SIZE = 64


def loaded(slot: int, dtype: DType, lanes: int = 1) -> UOp:
    """Return the first `lanes` elements of a buffer."""
    return build.load(at(build.define_global(slot, dtype, SIZE), 0), lanes=lanes)


def stored(value: UOp) -> Program:
    """Return a program that writes `value`, whose variables are those of the value."""
    out = build.define_global(0, value.dtype.scalar, SIZE)
    program = programs.program("sample", build.store(at(out, 0), value))
    variables = tuple(node for node in program.uops if node.op is Ops.DEFINE_VAR)
    return dataclasses.replace(program, variables=variables)


def applied(op: Ops, dtype: DType, result: DType | None = None, lanes: int = 1) -> UOp:
    """Return `op` of elements of as many buffers as it has sources, of slot 1 and up."""
    slots = range(1, OP_TABLE[op].arity[0] + 1)
    sources = tuple(loaded(slot, dtype, lanes) for slot in slots)
    return UOp(op, (result or dtype).vec(lanes), sources)


def node_of(words: str) -> UOp:
    """Return the node that `words` name: "ADD int8", "CAST int8 float32", "CONST float32 -inf".

    A comparison is of two elements of its type.
    """
    name, operand, *rest = words.split()
    op, dtype = Ops[name], to_dtype(operand)
    if op is Ops.CONST:
        number = rest[0]
        return build.const(dtype, float(number) if dtype.is_float else int(number))
    if op in (Ops.CMPLT, Ops.CMPNE):
        return applied(op, dtype, dtypes.bool)
    return applied(op, dtype, to_dtype(rest[0]) if rest else None)


def gated(dtype: DType, lanes: int = 1) -> Program:
    """Return a program that loads behind a gate, else takes 1, and stores behind it."""
    gate = loaded(3, dtypes.bool)
    position = build.mul(loaded(2, dtypes.int32), 4)
    source, out = (build.define_global(slot, dtype, SIZE) for slot in (1, 0))
    value = build.load(build.index(source, position), gate, 1, lanes=lanes)
    return programs.program("gated", build.store(build.index(out, position), value, gate))


def tile_of(tile: MatrixTile, by_lanes: bool = False) -> UOp:
    """Return the product of a tile whose fragments are loaded at once, or lane by lane."""
    fragments = []
    for slot, operand in enumerate(Operand, 1):
        count = tile.layout(operand).registers
        memory = build.define_global(slot, tile.dtype(operand), SIZE)
        if not by_lanes:
            fragments.append(loaded(slot, tile.dtype(operand), count))
            continue
        lanes = [build.load(at(memory, lane)) for lane in range(count)]
        fragments.append(build.vectorize(*lanes) if count > 1 else lanes[0])
    return UOp(Ops.WMMA, tile.fragment(Operand.C), tuple(fragments), TileArg(tile))


def tile_by_lanes(tile: MatrixTile) -> Program:
    """Return a program of one tile, loaded and stored lane by lane."""
    value = tile_of(tile, by_lanes=True)
    out = build.define_global(0, tile.dtype_out, SIZE)
    stores = [
        build.store(at(out, lane), build.gep(value, lane)) for lane in range(value.dtype.lanes)
    ]
    return programs.program("tile", *stores, group=(32, 1, 1))
