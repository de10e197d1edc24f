"""Vectors and their lanes in an expanded kernel: what takes no node, and how lanes are combined."""

from __future__ import annotations

import pytest

from tinyref.codegen.expand import copies
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
        (copies.take(loaded, 0, 1, 2, 3), loaded),
        (copies.take(loaded, 0, 1), build.gep(loaded, 0, 1)),
        (copies.take(loaded, 3, 2, 1, 0), build.gep(loaded, 3, 2, 1, 0)),
        (copies.take(made, 2), c),
        (copies.take(made, 3, 1), build.vectorize(d, b)),
        # Lanes of lanes are lanes of what was loaded, and may be all of it in its order.
        (copies.take(build.gep(loaded, 3, 2, 1, 0), 0), build.gep(loaded, 3)),
        (copies.take(build.gep(loaded, 3, 2, 1, 0), 2, 3), build.gep(loaded, 1, 0)),
        (copies.take(build.gep(loaded, 3, 2, 1, 0), 3, 2, 1, 0), loaded),
        (copies.take(twos, 1), build.const(F32, 2.0)),
        (copies.take(twos, 1, 3), build.const(F32.vec(2), 2.0)),
        (copies.repeat(a, 1), a),
        (copies.repeat(a, 2), build.vectorize(a, a)),
        (copies.repeat(build.const(F32, 2.0), 4), twos),
        (copies.join([(a, 0)]), a),
        (copies.join([(a, 0), (a, 0)]), build.vectorize(a, a)),
        (copies.join([(a, 0), (made, 1)]), build.vectorize(a, b)),
        (copies.join([(loaded, 1), (loaded, 0)]), build.gep(loaded, 1, 0)),
        (
            copies.join([(loaded, 1), (other, 2)]),
            build.vectorize(build.gep(loaded, 1), build.gep(other, 2)),
        ),
        (copies.tidy(build.where(build.const(dtypes.bool, True), a, b)), a),
        (copies.tidy(build.where(build.const(dtypes.bool, False), a, b)), b),
        (
            copies.tidy(UOp(Ops.ADD, F32, (build.const(F32, 1.0), build.const(F32, 2.0)))),
            build.const(F32, 3.0),
        ),
        (copies.combine(Ops.ADD, [a]), a),
        (copies.combine(Ops.ADD, [a, b, c]), UOp(Ops.ADD, F32, (UOp(Ops.ADD, F32, (a, b)), c))),
        (
            copies.combine(Ops.ADD, [a, b, c, d]),
            UOp(Ops.ADD, F32, (UOp(Ops.ADD, F32, (a, b)), UOp(Ops.ADD, F32, (c, d)))),
        ),
        # Equal ones count in a sum, and not in a maximum.
        (copies.combine(Ops.ADD, [a, a]), UOp(Ops.ADD, F32, (a, a))),
        (copies.combine(Ops.MAX, [a, b, a]), UOp(Ops.MAX, F32, (a, b))),
        (copies.combine(Ops.MAX, [a, a]), a),
        (copies.combine_lanes(Ops.MAX, a, (1, 2)), a),
        (copies.combine_lanes(Ops.MUL, build.vectorize(a, b), (1,)), UOp(Ops.MUL, F32, (a, b))),
    ],
)
def test_lanes(found: UOp, wanted: UOp) -> None:
    assert found is wanted


def test_lanes_are_combined_half_with_half() -> None:
    total = copies.combine_lanes(Ops.ADD, loaded, (1, 2, 4))
    halves = UOp(Ops.ADD, F32.vec(2), (build.gep(loaded, 0, 1), build.gep(loaded, 2, 3)))
    assert total is UOp(Ops.ADD, F32, (build.gep(halves, 0), build.gep(halves, 1)))
    # Without vectors of two lanes one by one, in a tree.
    alone = copies.combine_lanes(Ops.ADD, loaded, (4,))
    first, second, third, fourth = (build.gep(loaded, lane) for lane in range(4))
    pairs = UOp(Ops.ADD, F32, (first, second)), UOp(Ops.ADD, F32, (third, fourth))
    assert alone is UOp(Ops.ADD, F32, pairs)
