"""What a kernel does for nothing: each law broken by a kernel made for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyref.capabilities import Capabilities
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.judge.judge import Judge, judge
from tinyref_fuzz.judge.runs import compile_checked
from tinyref_fuzz.judge.waste import waste_of
from tinyref_spec.kernel_case import Case
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of, load

PYTHON = Device["PYTHON"].capabilities
CORPUS = corpus_kernels()
I32 = dtypes.int32


def expanded(name: str, opts: str = "", capabilities: Capabilities = PYTHON) -> UOp:
    return compile_checked(CORPUS[name].ast, capabilities, parse_opts(opts)).expanded


def memory(slot: int = 1) -> UOp:
    return build.define_global(slot, I32, 64)


def at(position: UOp | int, slot: int = 1) -> UOp:
    return build.index(memory(slot), build.operand(position, I32))


def loop(extent: int = 4) -> UOp:
    return UOp(Ops.RANGE, I32, (build.const(I32, extent),), build.counter(2, 0, AxisKind.LOOP).arg)


def stored(value: UOp, position: UOp | int = 0) -> UOp:
    return build.store(at(position, 0), value)


def wide(position: UOp | int, lanes: int = 4) -> UOp:
    return build.load(at(position), None, 0, lanes)


PLACE = build.mul(loop(), 4)


@pytest.mark.parametrize("opts", ["", "UPCAST(0, 4)", "UPCAST(0, 2)", "LOCAL(0, 4)"])
@pytest.mark.parametrize("name", ["multiply-add-int32", "sum-float16", "sum-rows"])
def test_healthy_kernels_waste_nothing(name, opts):
    assert waste_of(expanded(name, opts), PYTHON) is None


def test_what_a_device_lacks_is_no_waste():
    words = Judge("tinyref_fuzz.judge.devices:Words").capabilities
    for name in ("sum-float16", "divide-by-powers-int16"):
        assert waste_of(expanded(name, capabilities=words), words) is None


@pytest.mark.parametrize(
    ("roots", "stage", "text"),
    [
        ((stored(build.load(at(build.mul(loop(1), 2)))),), "lower", "a RANGE of one iteration"),
        (
            (stored(UOp(Ops.GEP, I32, (wide(0, 1),), build.gep(wide(0), 0).arg)),),
            "expand",
            "scalar",
        ),
        ((stored(build.gep(build.vectorize(wide(0, 1), wide(8, 1)), 1)),), "expand", "VECTORIZE"),
        ((stored(build.gep(build.gep(wide(0), 1, 2), 0)),), "expand", "a lane of GEP"),
        (
            (stored(build.gep(wide(0), 0, 1, 2, 3)),),
            *("expand", "all lanes of a vector in their order"),
        ),
        (
            (stored(build.where(build.const(dtypes.bool, True), wide(0, 1), wide(9, 1))),),
            *("expand", "a choice by a constant"),
        ),
        (
            (stored(UOp(Ops.ADD, I32, (build.const(I32, 2), build.const(I32, 3)))),),
            *("expand", "ADD of constants"),
        ),
        (
            (build.store(at(0, 0), wide(0, 1), build.const(dtypes.bool, True)),),
            *("expand", "a constant gate of a STORE"),
        ),
        (
            (stored(wide(PLACE)), stored(wide(build.add(PLACE, 3), 1), 8)),
            *("expand", "an element that two LOADs have"),
        ),
        (
            (stored(wide(PLACE, 1)), stored(wide(build.add(PLACE, 1), 1), 8)),
            *("expand", "two LOADs of neighbours"),
        ),
        ((stored(wide(0, 1), 2), stored(wide(4, 1), 3)), "expand", "two STOREs of neighbours"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_done_for_nothing(roots, stage, text):
    found = waste_of(build.sink(*roots), PYTHON)
    assert found is not None
    assert found.stage == stage
    assert text in found.text


@pytest.mark.parametrize(
    "roots",
    [
        # An odd place, another stride, another gate: no vector of two begins there.
        (stored(wide(build.add(PLACE, 1), 1)), stored(wide(build.add(PLACE, 2), 1), 8)),
        (stored(wide(loop(), 1)), stored(wide(build.add(loop(), 1), 1), 8)),
        (
            stored(build.load(at(PLACE), build.less(loop(), 3), 0)),
            stored(build.load(at(build.add(PLACE, 1)), build.less(loop(), 2), 0), 8),
        ),
        # Another output, and places that are read from memory.
        (build.store(at(0, 0), wide(4, 1)), build.store(at(1, 2), wide(8, 1))),
        (stored(wide(wide(4, 1), 1)), stored(wide(build.add(wide(4, 1), 1), 1), 8)),
        # Places that are read from memory in other lanes of the same access.
        (
            stored(wide(0, 1)),
            *(stored(wide(place, 1), lane) for lane, place in ((6, 1), (10, wide(12, 1)))),
        ),
        # A gate that is read from memory in other lanes, and always open in these.
        (
            stored(wide(0, 1)),
            stored(wide(1, 1), 6),
            stored(build.load(at(1), build.less(wide(12, 1), 3), 0), 10),
        ),
        # One of them turned out to be a place that is read anyhow.
        (
            stored(build.gep(wide(0, 2), 0)),
            *(stored(wide(place, 1), lane) for lane, place in ((6, 0), (10, wide(12, 1)))),
        ),
        # What is read may have been written in between.
        (stored(build.load(at(4, 0)), 6), stored(build.load(at(5, 0)), 9)),
    ],
)
def test_what_has_to_be_is_no_waste(roots):
    assert waste_of(build.sink(*roots), PYTHON) is None


def test_a_device_that_joins_nothing_may_have_neighbours_apart():
    kernel = build.sink(stored(wide(PLACE, 1)), stored(wide(build.add(PLACE, 1), 1), 8))
    assert waste_of(kernel, replace(PYTHON, vector_lanes=(1,))) is None
    assert waste_of(kernel, replace(PYTHON, has_grid=False)) is None


def test_neighbours_that_a_kernel_reads_for_themselves_may_be_apart():
    """What is at even places and what is at odd ones: two views, of which each has its lanes."""
    parts = (View((4,), (2,), offset) for offset in (0, 1))
    even, odd = (load(1, I32, ShapeTracker((part,)), 8) for part in parts)
    twice = kernel_of(build.add(even, odd), 4)
    found = compile_checked(twice, PYTHON, ()).expanded
    assert waste_of(found, PYTHON, twice) is None
    waste = waste_of(found, PYTHON, kernel_of(even, 4))
    assert waste is not None
    assert waste.text == "two LOADs of neighbours"


def test_a_kernel_may_have_two_views_that_the_compiler_would_join():
    """Generated kernels do: of the first 174 of a seed one was reported."""
    views = View((6,), (1,), 0, None), View((12,), (0,), 2, None)
    load_twice = load(1, I32, ShapeTracker(views), 6)
    buffers = np.zeros(12, np.int32), np.arange(6, dtype=np.int32)
    assert judge(Case(kernel_of(load_twice, 12), buffers), "PYTHON").agrees
