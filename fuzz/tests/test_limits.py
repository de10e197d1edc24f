"""The oracle of declared limits: each limit broken by a program that takes one more than it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import ImageDType, dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.judge.limits import declared_lack, limit_problem
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of

PYTHON = Device["PYTHON"].capabilities
CPU = Device["CPU"].capabilities
CORPUS = corpus_kernels()


def program_of(name: str, opts: str = "") -> Program:
    return compile_kernel(CORPUS[name].ast, PYTHON, opts=parse_opts(opts))


GROUPED = program_of("sum-rows", "GROUP(1, 4)")
VECTORS = program_of("multiply-add-int32", "UPCAST(0, 4)")
TILED = program_of("matmul-float32", "TC(0, -1, level 2, mode 1)")
PLAIN = program_of("multiply-add-int32")


def local_bytes(program: Program) -> int:
    return sum(
        n.dtype.size * n.dtype.base.itemsize for n in program.uops if n.op is Ops.DEFINE_LOCAL
    )


def test_what_is_declared_is_no_problem():
    for program in (GROUPED, VECTORS, TILED, PLAIN):
        assert limit_problem(program, PYTHON) == ""
    exact = replace(
        PYTHON,
        group_size_limit=4,
        group_limit=(4, 1, 1),
        grid_limit=GROUPED.grid,
        shared_bytes=local_bytes(GROUPED),
        buffer_limit=2,
    )
    assert limit_problem(GROUPED, exact) == ""


BROKEN = [
    (GROUPED, {"has_groups": False}, "the device has no groups"),
    (GROUPED, {"group_size_limit": 3}, "a group of 4 work-items, declared are 3"),
    (GROUPED, {"group_limit": (3, 9, 9)}, "a group of (4, 1, 1), declared are (3, 9, 9)"),
    (GROUPED, {"grid_limit": (1, 9, 9)}, "declared are (1, 9, 9)"),
    (GROUPED, {"shared_bytes": local_bytes(GROUPED) - 1}, "bytes of local memory, declared are"),
    (GROUPED, {"buffer_limit": 1}, "2 buffers, declared are 1"),
    (GROUPED, {"has_grid": False}, "the device has 1 threads and no grid"),
    (VECTORS, {"vector_lanes": (1, 2)}, "of 4 lanes, declared are (1, 2)"),
    (TILED, {"matrix_tiles": ()}, "the tile"),
    (PLAIN, {"dtypes": PYTHON.dtypes - {dtypes.int32}}, "of int32, a type that"),
    (PLAIN, {"ops": PYTHON.ops - {"MUL"}}, "the op MUL"),
    (PLAIN, {"ops": PYTHON.ops - {"STORE"}}, "the op STORE"),
]


@pytest.mark.parametrize(("program", "less", "words"), BROKEN)
def test_one_more_than_declared(program, less, words):
    assert words in limit_problem(program, replace(PYTHON, **less))


def test_nolocals_promises_no_group():
    assert limit_problem(GROUPED, PYTHON, parse_opts("NOLOCALS(0, 0)")) == (
        "a group of (4, 1, 1) after NOLOCALS"
    )
    assert limit_problem(PLAIN, PYTHON, parse_opts("NOLOCALS(0, 0)")) == ""


def test_threads_are_a_grid_of_one_dimension():
    kernel = CORPUS["multiply-add-int32"]
    four = replace(CPU, threads=4)
    threaded = compile_kernel(kernel.ast, four, opts=parse_opts("THREAD(0, 4)"))
    assert threaded.grid == (4, 1, 1)
    assert limit_problem(threaded, four) == ""
    assert "no grid" in limit_problem(threaded, replace(CPU, threads=3))
    assert "no grid" in limit_problem(replace(threaded, grid=(4, 2, 1)), four)


def test_an_index_must_have_the_extent_of_the_launch():
    assert "the launch has 1" in limit_problem(replace(GROUPED, group=(1, 1, 1)), PYTHON)
    assert "the launch has 99" in limit_problem(replace(GROUPED, grid=(99, 1, 1)), PYTHON)


def test_a_symbolic_grid_is_counted_with_its_bindings():
    kernel = next(each for each in CORPUS.values() if each.bindings)
    program = compile_kernel(kernel.ast, PYTHON, opts=())
    assert limit_problem(program, PYTHON, (), kernel.bindings) == ""
    small = replace(PYTHON, grid_limit=(1, 1, 1))
    assert "a grid of" in limit_problem(program, small, (), kernel.bindings)


# --- what a device may refuse ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "capabilities", "lack"),
    [
        ("sum-float16", PYTHON, ""),
        ("sum-float16", replace(PYTHON, dtypes=PYTHON.dtypes - {dtypes.float16}), "float16"),
        ("sum-float16", CPU, ""),
        ("multiply-add-int32", replace(PYTHON, buffer_limit=2), "3 buffers"),
        ("sum-rows", replace(PYTHON, grid_limit=(1, 1, 1)), "a grid of 12"),
    ],
)
def test_what_may_be_refused(name, capabilities, lack):
    assert declared_lack(CORPUS[name].ast, capabilities) == lack


def test_images_may_be_refused_where_they_are_not_declared():
    image = ImageDType(dtypes.float32, (2, 2))
    ast = UOp(Ops.SINK, dtypes.void, (UOp(Ops.DEFINE_GLOBAL, image, (), None),))
    lacking: Capabilities = replace(PYTHON, images=False)
    assert declared_lack(ast, lacking) == "images"


@pytest.mark.parametrize(
    ("view", "is_long"),
    [
        (View((30,), (74074074,), -74074074, ((1, 28),)), True),
        (View((29,), (70000000,), 0), False),
        (View((1 << 16, 1 << 16), (0, 0), 0), True),
        (View((3,), (-1,), 2**31 - 3), False),
        (View((2**31 - 1,), (-1,), 2**31 - 2), False),
        (View((4,), (1,), 2**31 - 3), True),
    ],
    ids=["hidden steps", "steps", "positions", "an offset", "a flip", "a larger offset"],
)
def test_positions_and_steps_beyond_32_bits_may_be_refused(view, is_long):
    """A step that a mask hides is computed: 29 * 74074074 is more than 2**31 - 1."""
    ast = kernel_of(build.iota(ShapeTracker((view,))), *view.shape)
    wanted = "positions beyond 32 bits" if is_long else ""
    assert declared_lack(ast, replace(PYTHON, dtypes=PYTHON.dtypes - {dtypes.int64})) == wanted
    assert declared_lack(ast, PYTHON) == ""
