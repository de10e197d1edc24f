"""Kernels of every form: AST evaluator, loops, grid and small grid agree with literals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import DEVICES, GRID, LOOPS, agree, ramp

from tinyref.algebra.evaluate import launch_grid
from tinyref.algebra.rewrite import listening
from tinyref.capabilities import Capabilities
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


@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats], ids=lambda d: d.name)
def test_addition_in_every_type(dtype: DType) -> None:
    x = load(1, dtype, (2, 3))
    y = load(2, dtype, (2, 3))
    ast = kernel_of(build.add(x, y), 2, 3)
    inputs = {0: zeros(6, dtype), 1: ramp(6, dtype), 2: ramp(6, dtype, 10)}
    agree(ast, inputs, {0: [11, 13, 15, 17, 19, 21]})


def test_bool_logic() -> None:
    x = load(1, dtypes.bool, (4,))
    y = load(2, dtypes.bool, (4,))
    ast = kernel_of(build.both(x, build.logical_not(y)), 4)
    buffers = {
        0: zeros(4, dtypes.bool),
        1: np.array([0, 0, 1, 1], np.bool_),
        2: np.array([0, 1, 0, 1], np.bool_),
    }
    agree(ast, buffers, {0: [False, False, True, False]})


def test_no_axes_at_all() -> None:
    ast = kernel_of(build.add(load(1, f32, ()), 2.0))
    agree(ast, {0: zeros(1), 1: ramp(1)}, {0: [3]})


def test_constant_takes_the_shape_of_the_store() -> None:
    ast = kernel_of(build.const(f32, 7), 2, 3)
    agree(ast, {0: zeros(6)}, {0: [7] * 6})


def test_sizes_of_one() -> None:
    shown = shaped(1, 3, 1)
    ast = build.sink(store(0, build.mul(load(1, f32, shown), 2.0), shown))
    agree(ast, {0: zeros(3), 1: ramp(3)}, {0: [2, 4, 6]})


def test_nothing_to_write_is_an_empty_program() -> None:
    shown = shaped(3, 0)
    ast = build.sink(store(0, load(1, f32, shown), shown))
    agree(ast, {0: zeros(0), 1: zeros(0)})
    for capabilities in DEVICES.values():
        program = compile_kernel(ast, capabilities)
        assert not any(node.op is Ops.STORE for node in program.uops)
        assert program.grid == (1, 1, 1)
        assert [parameter.slot for parameter in program.parameters] == [0, 1]


# --- views ------------------------------------------------------------------------------------


def test_broadcast() -> None:
    row = shaped(3).reshape((1, 3)).expand((2, 3))
    ast = kernel_of(load(1, i32, row), 2, 3)
    agree(ast, {0: zeros(6, i32), 1: ramp(3, i32)}, {0: [1, 2, 3, 1, 2, 3]})


def test_permuted() -> None:
    shown = shaped(2, 3).permute((1, 0))
    ast = kernel_of(load(1, i32, shown), 3, 2)
    agree(ast, {0: zeros(6, i32), 1: ramp(6, i32)}, {0: [1, 4, 2, 5, 3, 6]})


def test_flipped_and_strided() -> None:
    shown = shaped(6).flip((0,)).reshape((3, 2)).shrink(((0, 3), (0, 1)))
    ast = kernel_of(load(1, i32, shown), 3, 1)
    agree(ast, {0: zeros(3, i32), 1: ramp(6, i32)}, {0: [6, 4, 2]})


def test_padding_reads_zero() -> None:
    shown = shaped(2, 2).pad(((1, 0), (0, 1)))
    ast = kernel_of(build.add(load(1, i32, shown), 1), 3, 3)
    agree(ast, {0: zeros(9, i32), 1: ramp(4, i32, 10)}, {0: [1, 1, 1, 11, 12, 1, 13, 14, 1]})


def test_several_views() -> None:
    shown = shaped(2, 3).permute((1, 0)).reshape((6,)).pad(((1, 1),)).reshape((2, 4))
    assert len(shown.views) > 1
    ast = kernel_of(load(1, i32, shown), 2, 4)
    agree(ast, {0: zeros(8, i32), 1: ramp(6, i32)}, {0: [0, 1, 4, 2, 5, 3, 6, 0]})


def test_masked_store_leaves_the_rest() -> None:
    target = shaped(4).pad(((2, 1),))
    value = load(1, i32, (7,))
    ast = build.sink(store(0, value, target))
    agree(ast, {0: zeros(4, i32), 1: ramp(7, i32)}, {0: [3, 4, 5, 6]})


def test_store_into_a_part() -> None:
    target = shaped(5).shrink(((1, 4),))
    ast = build.sink(store(0, load(1, i32, (3,)), target, 5))
    agree(ast, {0: np.full(5, 9, np.int32), 1: ramp(3, i32)}, {0: [9, 1, 2, 3, 9]})


def test_valid_tells_padding_from_zero() -> None:
    shown = shaped(2).pad(((1, 1),))
    value = build.where(build.valid(shown), load(1, i32, shown), -1)
    ast = kernel_of(value, 4)
    agree(ast, {0: zeros(4, i32), 1: np.zeros(2, np.int32)}, {0: [-1, 0, 0, -1]})


def test_in_place_reads_before_it_writes() -> None:
    whole = shaped(4)
    ast = build.sink(store(0, load(1, i32, whole), whole), store(1, load(0, i32, whole), whole))
    agree(ast, {0: ramp(4, i32), 1: ramp(4, i32, 11)}, {0: [11, 12, 13, 14], 1: [1, 2, 3, 4]})


# --- reduces ----------------------------------------------------------------------------------

SHAPE = (2, 3, 4)


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_reduces_over_every_set_of_axes(op: Ops, axes: tuple[int, ...]) -> None:
    out = tuple(1 if axis in axes else size for axis, size in enumerate(SHAPE))
    count = int(np.prod(out))
    ast = build.sink(store(0, build.reduce(op, _cube(), axes), out))
    values = ramp(24, i32, -7)
    function = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    wanted = function.reduce(values.reshape(SHAPE), axis=axes, dtype=np.int32).reshape(-1)
    agree(ast, {0: zeros(count, i32), 1: values}, {0: wanted})


def _cube() -> UOp:
    return load(1, i32, SHAPE)


def test_two_reduces_of_one_shape_share_their_loop() -> None:
    x = load(1, i32, (2, 3))
    total = build.add(build.reduce(Ops.ADD, x, (1,)), build.reduce(Ops.MAX, x, (1,)))
    ast = kernel_of(total, 2, 1)
    agree(ast, {0: zeros(2, i32), 1: ramp(6, i32)}, {0: [9, 21]})
    program = compile_kernel(ast, GRID, opts=())
    assert sum(node.op is Ops.RANGE for node in program.uops) == 1
    assert sum(node.op is Ops.DEFINE_ACC for node in program.uops) == 2


def test_reduces_of_other_axes_in_one_kernel() -> None:
    x = load(1, i32, (2, 3))
    rows = build.reduce(Ops.ADD, x, (1,))
    columns = build.reduce(Ops.ADD, x, (0,))
    ast = kernel_of(build.add(build.mul(rows, 100), columns), 2, 3)
    agree(ast, {0: zeros(6, i32), 1: ramp(6, i32)}, {0: [605, 607, 609, 1505, 1507, 1509]})


def test_reduce_inside_a_reduce() -> None:
    x = load(1, i32, (2, 3))
    best = build.reduce(Ops.MAX, build.reduce(Ops.ADD, x, (1,)), (0,))
    ast = kernel_of(best, 1, 1)
    agree(ast, {0: zeros(1, i32), 1: ramp(6, i32)}, {0: [15]})


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


def test_reduce_over_padding_adds_zeros() -> None:
    shown = shaped(3).pad(((1, 2),))
    ast = kernel_of(build.reduce(Ops.ADD, load(1, i32, shown), (0,)), 1)
    agree(ast, {0: zeros(1, i32), 1: ramp(3, i32)}, {0: [6]})


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


# --- symbolic sizes ---------------------------------------------------------------------------

N = build.variable("n", 1, 8)


@pytest.mark.table
@pytest.mark.parametrize("n", [1, 3, 8])
def test_symbolic_extent(n: int) -> None:
    ast = kernel_of(build.mul(load(1, i32, (N,)), 2), N)
    wanted = [2 * k if k <= n else -1 for k in range(1, 9)]
    agree(ast, {0: np.full(8, -1, np.int32), 1: ramp(8, i32)}, {0: wanted}, {"n": n})


@pytest.mark.parametrize("n", [1, 5])
def test_symbolic_reduce_and_value(n: int) -> None:
    x = load(1, i32, (2, N))
    total = build.add(build.reduce(Ops.ADD, x, (1,)), build.cast(N, i32))
    ast = kernel_of(total, 2, 1)
    values = ramp(16, i32)
    wanted = [values[:n].sum() + n, values[n : 2 * n].sum() + n]
    agree(ast, {0: zeros(2, i32), 1: values}, {0: wanted}, {"n": n})


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


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.float16], ids=lambda d: d.name)
def test_emulated_types_run_on_buffers_of_the_type_itself(dtype: DType) -> None:
    small = frozenset({dtypes.bfloat16, dtypes.float16})
    emulating = Capabilities(LOOPS.dtypes - small, LOOPS.ops, emulated=small)
    x = load(1, dtype, (2, 3))
    ast = kernel_of(build.reduce(Ops.ADD, build.mul(x, x), (1,)), 2, 1)
    program = compile_kernel(ast, emulating)
    assert [parameter.dtype for parameter in program.parameters] == [dtypes.uint16] * 2
    result = zeros(2, dtype)
    run_program(program, [result, ramp(6, dtype)])
    assert [float(value) for value in result] == [14, 77]


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
