"""Kernels of every form: AST evaluator, loops, grid and small grid agree with literals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import DEVICES, GRID, LOOPS, agree, ramp

from tinyref.algebra.evaluate import launch_grid
from tinyref.algebra.rewrite import listening
from tinyref.capabilities import Capabilities
from tinyref.codegen import compile as compiler
from tinyref.codegen.compile import STAGES, compile_kernel, kernel_name
from tinyref.config import Context
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError, VerifyError
from tinyref.formats.text import from_text, to_text
from tinyref.interpret import run_program
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import TILES
from tinyref_spec.kernels.named import matmul
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

f32 = dtypes.float32
i32 = dtypes.int32


def zeros(count: int, dtype: DType = f32) -> np.ndarray:
    return np.zeros(count, numpy_dtype(dtype))


# --- elementwise ------------------------------------------------------------------------------


def test_no_axes_at_all() -> None:
    ast = kernel_of(build.add(load(1, f32, ()), 2.0))
    agree(ast, {0: zeros(1), 1: ramp(1)}, {0: [3]})


def test_nothing_to_write_is_an_empty_program() -> None:
    view = shaped(3, 0)
    ast = build.sink(store(0, load(1, f32, view), view))
    agree(ast, {0: zeros(0), 1: zeros(0)})
    for capabilities in DEVICES.values():
        program = compile_kernel(ast, capabilities)
        assert not any(node.op is Ops.STORE for node in program.uops)
        assert program.grid == (1, 1, 1)
        assert [parameter.slot for parameter in program.parameters] == [0, 1]


# --- views ------------------------------------------------------------------------------------


def test_masked_store_leaves_the_rest() -> None:
    target = shaped(4).pad(((2, 1),))
    value = load(1, i32, (7,))
    ast = build.sink(store(0, value, target))
    agree(ast, {0: zeros(4, i32), 1: ramp(7, i32)}, {0: [3, 4, 5, 6]})


def test_valid_tells_padding_from_zero() -> None:
    view = shaped(2).pad(((1, 1),))
    value = build.where(build.valid(view), load(1, i32, view), -1)
    ast = kernel_of(value, 4)
    agree(ast, {0: zeros(4, i32), 1: np.zeros(2, np.int32)}, {0: [-1, 0, 0, -1]})


def test_in_place_reads_before_it_writes() -> None:
    whole = shaped(4)
    ast = build.sink(store(0, load(1, i32, whole), whole), store(1, load(0, i32, whole), whole))
    agree(ast, {0: ramp(4, i32), 1: ramp(4, i32, 11)}, {0: [11, 12, 13, 14], 1: [1, 2, 3, 4]})


# --- reduces ----------------------------------------------------------------------------------

SHAPE = (2, 3, 4)


def test_two_reduces_of_one_shape_share_their_loop() -> None:
    x = load(1, i32, (2, 3))
    total = build.add(build.reduce(Ops.ADD, x, (1,)), build.reduce(Ops.MAX, x, (1,)))
    ast = kernel_of(total, 2, 1)
    agree(ast, {0: zeros(2, i32), 1: ramp(6, i32)}, {0: [9, 21]})
    program = compile_kernel(ast, GRID, opts=())
    assert sum(node.op is Ops.RANGE for node in program.uops) == 1
    assert sum(node.op is Ops.DEFINE_ACC for node in program.uops) == 2


def test_second_reduce_needs_the_first() -> None:
    """Softmax's shape: the sum reads the maximum of its own row at every iteration."""
    x = load(1, i32, (2, 3))
    above = build.sub(build.reduce(Ops.MAX, x, (1,)), x)
    total = build.reduce(Ops.ADD, above, (1,))
    ast = kernel_of(build.add(build.mul(total, 10), above), 2, 3)
    agree(ast, {0: zeros(6, i32), 1: ramp(6, i32)}, {0: [32, 31, 30, 32, 31, 30]})
    program = compile_kernel(ast, LOOPS, opts=())
    # Rows, then columns of the output, one loop for the maximum and one for the sum.
    assert sum(node.op is Ops.RANGE for node in program.uops) == 4


@pytest.mark.table
@pytest.mark.parametrize(("op", "identity"), [(Ops.ADD, 0), (Ops.MUL, 1), (Ops.MAX, -(2**31))])
def test_reduce_of_nothing_gives_the_identity(op: Ops, identity: int) -> None:
    nothing = load(1, i32, (2, 0))
    ast = kernel_of(build.reduce(op, nothing, (1,)), 2, 1)
    agree(ast, {0: zeros(2, i32), 1: zeros(0, i32)}, {0: [identity, identity]})


def test_outputs_of_two_sizes_share_a_launch() -> None:
    x = load(2, i32, (2, 3))
    ast = build.sink(
        store(0, build.reduce(Ops.ADD, x, (1,)), (2, 1)),
        store(1, build.mul(x, 2), (2, 3)),
    )
    buffers = {0: zeros(2, i32), 1: zeros(6, i32), 2: ramp(6, i32)}
    agree(ast, buffers, {0: [6, 15], 1: [2, 4, 6, 8, 10, 12]})


def test_outputs_that_do_not_fit_together_are_refused() -> None:
    ast = build.sink(
        store(0, build.const(i32, 1), (2,)),
        store(1, build.const(i32, 1), (3,)),
    )
    with Context(VERIFY=0), pytest.raises(UserError, match="sizes 2 and 3 meet on axis 0"):
        compile_kernel(ast, LOOPS)


def test_verify_says_which_borders_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    ast = kernel_of(build.add(load(1, f32, (4,)), 2.0), 4)
    program = compile_kernel(ast, LOOPS).uops
    graph = UOp(Ops.SINK, dtypes.void, (build.const(f32, 1.0),))
    monkeypatch.setattr(compiler, "narrow_index", lambda root, capabilities: graph)
    monkeypatch.setattr(compiler, "linearise", lambda root: program[::-1])
    monkeypatch.setattr(compiler, "_launch", lambda root: ((1, 1, 1), (1, 1, 1)))
    for level, broken in ((2, "indexed"), (1, "program")):
        with Context(VERIFY=level), pytest.raises(VerifyError, match=broken):
            compile_kernel(ast, LOOPS)
    with Context(VERIFY=0):
        assert compile_kernel(ast, LOOPS).uops == program[::-1]


# --- symbolic sizes ---------------------------------------------------------------------------

N = build.variable("n", 1, 8)


def test_a_program_lists_its_variables() -> None:
    ast = kernel_of(load(1, i32, (N,)), N)
    program = compile_kernel(ast, GRID)
    assert [node.arg.name for node in program.variables] == ["n"]
    assert all(node.dtype is i32 for node in program.variables)
    assert launch_grid(program, {"n": 5}) == (5, 1, 1)
    with pytest.raises(UserError, match="variable n is 9, accepted is 1 to 8"):
        launch_grid(program, {"n": 9})
    with pytest.raises(UserError, match="variable n has no value"):
        run_program(program, [zeros(8, i32), zeros(8, i32)], {})


# --- names, stages, determinism ------------------------------------------------------------------


def test_names_are_made_of_sizes() -> None:
    x = load(1, i32, SHAPE)
    assert kernel_name(build.sink(store(0, x, SHAPE))) == "e_2_3_4"
    row = build.reduce(Ops.ADD, x, (2,))
    assert kernel_name(kernel_of(row, 2, 3, 1)) == "r_2_3_4"
    symbolic = kernel_of(load(1, i32, (N,)), N)
    assert kernel_name(symbolic) == "e_n"


def _example() -> UOp:
    x = load(1, f32, shaped(3, 4).pad(((0, 0), (1, 0))))
    return kernel_of(build.reduce(Ops.ADD, x, (1,)), 3, 1)


def test_stages_are_results_in_order_and_print_as_text_that_parses_back() -> None:
    results: dict[str, object] = {"": _example()}

    def listen(stage: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
        assert before is list(results.values())[-1]
        results[stage] = after
        assert from_text(to_text(after)) == after

    with listening(stages=listen):
        program = compile_kernel(_example(), GRID, name="mine")
    assert tuple(results) == ("", *STAGES)
    assert results["linearise"] == program.uops
    assert program.name == "mine"


def test_dump_prints_the_stages_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with Context(DUMP="after:lower,after:linearise"):
        compile_kernel(_example(), GRID)
    printed = capsys.readouterr().err
    assert printed.count("# after") == 2
    assert "# after lower: r_3_5" in printed
    program = printed[printed.index("# after linearise") :]
    assert from_text(program) == compile_kernel(_example(), GRID).uops
    compile_kernel(_example(), GRID)
    assert capsys.readouterr().err == ""


def test_equal_kernels_give_equal_programs_whatever_was_built_before() -> None:
    first = to_text(compile_kernel(_example(), LOOPS).uops)
    noise = [build.add(build.variable(f"v{k}", 0, k), k) for k in range(200)]
    assert to_text(compile_kernel(_example(), LOOPS).uops) == first
    assert noise


def test_verification_can_be_turned_off() -> None:
    memory = build.define_global(0, f32, 4)
    broken = build.sink(build.store(memory, build.const(f32, 1)))
    with pytest.raises(VerifyError, match="ast"):
        compile_kernel(broken, LOOPS)
    with Context(VERIFY=0), pytest.raises(UserError, match="DEFINE_GLOBAL is no view"):
        compile_kernel(broken, LOOPS)


def test_parameters_say_who_reads_and_writes() -> None:
    program = compile_kernel(_example(), GRID)
    assert [(p.slot, p.size, p.is_written, p.is_read) for p in program.parameters] == [
        (0, 3, True, False),
        (1, 12, False, True),
    ]


# --- what a device lacks ---------------------------------------------------------------------


def test_a_device_without_ops_runs_no_kernels() -> None:
    with pytest.raises(UserError, match="runs no kernels"):
        compile_kernel(_example(), Capabilities(frozenset(dtypes.all), frozenset()))


def test_a_large_buffer_needs_int64() -> None:
    size = 2**31 + 8
    far = shaped(size).shrink(((size - 2, size),))
    ast = kernel_of(load(1, dtypes.int8, far), 2)
    wide = compile_kernel(ast, LOOPS)
    assert any(node.op is Ops.ADD and node.dtype is dtypes.int64 for node in wide.uops)
    narrow = Capabilities(LOOPS.dtypes - {dtypes.int64}, LOOPS.ops)
    with pytest.raises(UserError, match="needs int64"):
        compile_kernel(ast, narrow)


def test_what_a_work_item_holds_of_a_tile_may_be_one_element() -> None:
    tile = TILES["nvidia_m8n8k4_float64_float64"]
    device = replace(GRID, shared_bytes=1 << 16, vector_lanes=(1, 2), matrix_tiles=(tile,))
    ast = matmul(8, 8, 4, dtypes.float64, dtypes.float64)
    with Context(STRICT_FLOAT=0):
        program = compile_kernel(ast, device, opts=parse_opts("TC(0, 0, level 0, mode 1)"))
    (product,) = (node for node in program.uops if node.op is Ops.WMMA)
    assert [operand.dtype.lanes for operand in product.src] == [1, 1, 2]
    a, b = np.arange(32.0).reshape(8, 4), np.arange(32.0).reshape(4, 8)
    out = np.zeros(64)
    run_program(program, [out, a.ravel(), b.ravel()])
    assert out.tolist() == (a @ b).ravel().tolist()
