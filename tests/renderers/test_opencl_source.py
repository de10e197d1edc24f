"""Test features that only OpenCL C has, word for word: images, exact division."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinyref.capabilities import Capabilities
from tinyref.dtype import dtypes, image
from tinyref.errors import UserError
from tinyref.renderers.c_style import C_STYLE_OPS
from tinyref.renderers.opencl import OpenCLRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, SpecialArg
from tinyref.uops.program import Parameter, Program

F32 = dtypes.float32
OUT, IN = Parameter(0, F32, 4, True, False), Parameter(1, F32, 4, False, True)
LANES = OpenCLRenderer(Capabilities(frozenset(dtypes.all), C_STYLE_OPS, vector_lanes=(1, 4)))


def number(value: int) -> UOp:
    return build.const(dtypes.int32, value)


def image_program(is_read_too: bool = False) -> Program:
    source, target = (
        UOp(Ops.DEFINE_GLOBAL, image(base, 2, 3), (), SlotArg(slot))
        for slot, base in ((1, F32), (0, dtypes.float16))
    )
    row = UOp(Ops.SPECIAL, dtypes.int32, (number(2),), SpecialArg("group", 0))

    def texel(memory: UOp) -> UOp:
        return UOp(Ops.INDEX, memory.dtype, (memory, row, number(1)))

    value = UOp(Ops.LOAD, F32.vec(4), (texel(target if is_read_too else source),))
    store = UOp(Ops.STORE, dtypes.void, (texel(target), build.add(value, value)))
    parameters = (
        Parameter(0, dtypes.float16, 24, True, is_read_too),
        Parameter(1, F32, 24, False, True),
    )
    nodes = [source, *(node for node in toposort([store]) if node is not source)]
    return Program("texels", tuple(nodes), parameters)


def test_images(golden: Callable[[str, str], None]) -> None:
    golden("texels.cl", LANES.render(image_program()))


def test_an_image_that_is_read_and_written_is_refused() -> None:
    with pytest.raises(UserError, match=r"image\.float16\[2,3\] is read and written by one kernel"):
        LANES.render(image_program(is_read_too=True))


def quotients() -> Program:
    x = build.load(build.index(build.define_global(1, F32, 4), number(0)))
    root = build.unary(Ops.SQRT, build.binary(Ops.FDIV, build.unary(Ops.RECIP, x), x))
    store = build.store(build.index(build.define_global(0, F32, 4), number(0)), root)
    return Program("quotients", tuple(toposort([store])), (OUT, IN))


def test_division_that_is_not_exact_goes_through_float64() -> None:
    exact = LANES.render(quotients())
    assert "double" not in exact
    assert "sqrt(" in exact
    text = OpenCLRenderer(exact_division=False).render(quotients())
    assert "(float)((double)1.0f / (double)v1)" in text
    assert "(float)((double)v2 / (double)v1)" in text
    assert "(float)sqrt((double)v3)" in text


def test_of_vectors_only_division_that_is_not_exact_goes_lane_by_lane() -> None:
    inexact = OpenCLRenderer(
        Capabilities(frozenset(dtypes.all), C_STYLE_OPS, vector_lanes=(1, 4)), exact_division=False
    )
    x = build.load(build.index(build.define_global(1, F32, 4), number(0)), lanes=4)
    for value, count in ((build.add(x, x), 0), (build.binary(Ops.FDIV, x, x), 4)):
        store = build.store(build.index(build.define_global(0, F32, 4), number(0)), value)
        text = inexact.render(Program("lanes", tuple(toposort([store])), (OUT, IN)))
        assert text.count("(double)") == 2 * count
        assert ("v1 + v1" in text) == (count == 0)
