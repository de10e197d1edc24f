"""Vectors and their lanes in an expanded kernel: what takes no node, and how lanes are combined."""

from __future__ import annotations

import pytest

from tinyref.codegen.expand import vectors
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

F32 = dtypes.float32
a, b, c, d = (UOp(Ops.BUFFER, F32, (), BufferArg("CPU", 4, number)) for number in range(1, 5))
loaded = UOp(Ops.BUFFER, F32.vec(4), (), BufferArg("CPU", 4, 5))
other = UOp(Ops.BUFFER, F32.vec(4), (), BufferArg("CPU", 4, 6))
made = build.vectorize(a, b, c, d)
twos = build.const(F32.vec(4), 2.0)


@pytest.mark.table
@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (vectors.take(loaded, 0, 1, 2, 3), loaded),
        (vectors.take(loaded, 0, 1), build.gep(loaded, 0, 1)),
        (vectors.take(loaded, 3, 2, 1, 0), build.gep(loaded, 3, 2, 1, 0)),
        (vectors.take(made, 2), c),
        (vectors.take(made, 3, 1), build.vectorize(d, b)),
        # Lanes of lanes are lanes of what was loaded, and may be all of it in its order.
        (vectors.take(build.gep(loaded, 3, 2, 1, 0), 0), build.gep(loaded, 3)),
        (vectors.take(build.gep(loaded, 3, 2, 1, 0), 2, 3), build.gep(loaded, 1, 0)),
        (vectors.take(build.gep(loaded, 3, 2, 1, 0), 3, 2, 1, 0), loaded),
        (vectors.take(twos, 1), build.const(F32, 2.0)),
        (vectors.take(twos, 1, 3), build.const(F32.vec(2), 2.0)),
        (vectors.repeat(a, 1), a),
        (vectors.repeat(a, 2), build.vectorize(a, a)),
        (vectors.repeat(build.const(F32, 2.0), 4), twos),
        (vectors.join([(a, 0)]), a),
        (vectors.join([(a, 0), (a, 0)]), build.vectorize(a, a)),
        (vectors.join([(a, 0), (made, 1)]), build.vectorize(a, b)),
        (vectors.join([(loaded, 1), (loaded, 0)]), build.gep(loaded, 1, 0)),
        (
            vectors.join([(loaded, 1), (other, 2)]),
            build.vectorize(build.gep(loaded, 1), build.gep(other, 2)),
        ),
        (vectors.tidy(build.where(build.const(dtypes.bool, True), a, b)), a),
        (vectors.tidy(build.where(build.const(dtypes.bool, False), a, b)), b),
        (
            vectors.tidy(UOp(Ops.ADD, F32, (build.const(F32, 1.0), build.const(F32, 2.0)))),
            build.const(F32, 3.0),
        ),
        (vectors.combine(Ops.ADD, [a]), a),
        (vectors.combine(Ops.ADD, [a, b, c]), UOp(Ops.ADD, F32, (UOp(Ops.ADD, F32, (a, b)), c))),
        (
            vectors.combine(Ops.ADD, [a, b, c, d]),
            UOp(Ops.ADD, F32, (UOp(Ops.ADD, F32, (a, b)), UOp(Ops.ADD, F32, (c, d)))),
        ),
        # Equal ones count in a sum, and not in a maximum.
        (vectors.combine(Ops.ADD, [a, a]), UOp(Ops.ADD, F32, (a, a))),
        (vectors.combine(Ops.MAX, [a, b, a]), UOp(Ops.MAX, F32, (a, b))),
        (vectors.combine(Ops.MAX, [a, a]), a),
        (vectors.combine_lanes(Ops.MAX, a, (1, 2)), a),
        (vectors.combine_lanes(Ops.MUL, build.vectorize(a, b), (1,)), UOp(Ops.MUL, F32, (a, b))),
    ],
)
def test_lanes(found: UOp, wanted: UOp) -> None:
    assert found is wanted


def test_lanes_are_combined_half_with_half() -> None:
    total = vectors.combine_lanes(Ops.ADD, loaded, (1, 2, 4))
    halves = UOp(Ops.ADD, F32.vec(2), (build.gep(loaded, 0, 1), build.gep(loaded, 2, 3)))
    assert total is UOp(Ops.ADD, F32, (build.gep(halves, 0), build.gep(halves, 1)))
    # Without vectors of two lanes one by one, in a tree.
    alone = vectors.combine_lanes(Ops.ADD, loaded, (4,))
    first, second, third, fourth = (build.gep(loaded, lane) for lane in range(4))
    pairs = UOp(Ops.ADD, F32, (first, second)), UOp(Ops.ADD, F32, (third, fourth))
    assert alone is UOp(Ops.ADD, F32, pairs)
