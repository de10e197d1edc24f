"""Random nodes with every payload, and a few real graphs, for the tests of text and JSON."""

from __future__ import annotations

import dataclasses
import math
import struct

from hypothesis import strategies as st

from tinyref.dtype import AddressSpace, dtypes, image, pointer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import (
    AxisKind,
    BoundsArg,
    BufferArg,
    ConstArg,
    CopyArg,
    FlipArg,
    GepArg,
    LocalArg,
    Payload,
    PermuteArg,
    RangeArg,
    ReduceArg,
    ShapeArg,
    ShardArg,
    SlotArg,
    SpecialArg,
    TileArg,
    VarArg,
    ViewArg,
)
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import TILES
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec.kernels.notation import kernel_of, load, shaped, total

N = build.variable("n", 1, 8)
M = build.variable("m", 2, 5)
ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
FLOATS = (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, ODD_NAN, 5e-324, 1.7976931348623157e308)
DTYPES = (
    *dtypes.all,
    dtypes.void,
    dtypes.index,
    dtypes.float16.vec(8),
    pointer(dtypes.float32, 12),
    pointer(dtypes.int8, 4, AddressSpace.LOCAL),
    image(dtypes.float32, 2, 3),
)

names = st.text(max_size=6)
small = st.integers(-(1 << 62), 1 << 62)
axes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
sizes = st.one_of(st.integers(0, 9), st.sampled_from([N, build.add(build.mul(N, M), 1)]))
pairs = st.lists(st.tuples(sizes, sizes), max_size=3).map(tuple)


@st.composite
def trackers(draw: st.DrawFn) -> ShapeTracker:
    tracker = ShapeTracker.from_shape((draw(st.integers(1, 4)), 6, N))
    if draw(st.booleans()):
        tracker = tracker.permute((2, 1, 0))
    if draw(st.booleans()):
        tracker = tracker.reshape((tracker.views[-1].size,))
    if draw(st.booleans()):
        tracker = tracker.pad(((1, 2),) * len(tracker.shape))
    return tracker.flip(range(len(tracker.shape)))


payloads: st.SearchStrategy[Payload] = st.one_of(
    st.none(),
    st.one_of(st.sampled_from(FLOATS), st.floats(), small, st.booleans()).map(ConstArg),
    st.builds(VarArg, names, small, small),
    st.builds(BufferArg, names, small, small),
    st.builds(CopyArg, names),
    st.builds(ShardArg, st.lists(names, max_size=3).map(tuple), st.none() | small, axes),
    st.builds(ShapeArg, st.lists(sizes, max_size=3).map(tuple)),
    st.builds(PermuteArg, axes),
    st.builds(BoundsArg, pairs),
    st.builds(FlipArg, axes),
    st.builds(ReduceArg, st.sampled_from(Ops), axes),
    st.builds(SlotArg, small),
    st.builds(LocalArg, names),
    st.builds(ViewArg, trackers()),
    st.builds(RangeArg, small, st.sampled_from(AxisKind)),
    st.builds(SpecialArg, names, small),
    st.builds(GepArg, axes),
    st.builds(
        lambda tile, name: TileArg(dataclasses.replace(tile, name=f"own_{name}")),
        st.sampled_from(sorted(TILES.values(), key=lambda tile: tile.name)),
        st.text("abcXYZ019_", max_size=6),
    ),
)


@st.composite
def node_lists(draw: st.DrawFn, most: int = 12) -> list[UOp]:
    """Draw nodes that use each other, well typed or not: all that can be built can be written."""
    nodes: list[UOp] = []
    for _ in range(draw(st.integers(1, most))):
        src = tuple(draw(st.lists(st.sampled_from(nodes), max_size=3))) if nodes else ()
        nodes.append(
            UOp(draw(st.sampled_from(Ops)), draw(st.sampled_from(DTYPES)), src, draw(payloads))
        )
    return nodes


@st.composite
def programs(draw: st.DrawFn) -> Program:
    flags = st.booleans()
    parameter = st.builds(Parameter, small, st.sampled_from(dtypes.all), small, flags, flags)
    return Program(
        draw(names),
        tuple(draw(node_lists())),
        tuple(draw(st.lists(parameter, max_size=3))),
        draw(st.sampled_from([(), (N,), (M, N)])),
        (draw(sizes), draw(sizes), 1),
        draw(st.tuples(*[st.integers(1, 1024)] * 3)),
    )


def row_sum() -> UOp:
    """Return the kernel AST of a sum of the rows of a transposed (3, 4) matrix, times two."""
    matrix = load(1, dtypes.float32, shaped(3, 4).permute((1, 0)))
    return kernel_of(build.mul(total(matrix, 1), 2.0), 4, 1)


def doubling() -> Program:
    """Return a program with a loop that doubles n elements in place."""
    buffer = build.define_global(0, dtypes.int32, 8)
    n = build.variable("n", 1, 8, dtypes.int32)
    loop = build.counter(n, 0, AxisKind.LOOP, dtypes.int32)
    address = build.index(buffer, loop)
    value = build.load(address)
    doubled = build.add(value, value)
    stored = build.store(address, doubled)
    end = build.close(loop)
    uops = (buffer, n, loop, address, value, doubled, stored, end)
    return Program("e_n", uops, (Parameter(0, dtypes.int32, 8, True, True),), (n,), (1, 1, 1))
