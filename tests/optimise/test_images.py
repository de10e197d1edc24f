"""Test images: views of elements become texels by row and column, or are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import GRID

from tinyref.codegen.compile import compile_kernel, plan_for
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, image, numpy_dtype
from tinyref.errors import UserError, VerifyError
from tinyref.interpret import Fault, SanitizerError, run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.renderers.c import CRenderer
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import TILES
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

F16, F32 = dtypes.float16, dtypes.float32
IMAGES = replace(GRID, images=True, vector_lanes=(1, 2, 4), shared_bytes=1 << 16)
SIZE = (6, 4)
COUNT = 6 * 4 * 4


def picture(slot: int, base: DType = F32, size: tuple[int, int] = SIZE) -> UOp:
    return UOp(Ops.DEFINE_GLOBAL, image(base, *size), (), SlotArg(slot))


def read(slot: int, tracker: ShapeTracker, base: DType = F32) -> UOp:
    memory = picture(slot, base)
    return UOp(Ops.LOAD, F32, (build.view(memory, tracker),))


def written(slot: int, tracker: ShapeTracker, value: UOp, base: DType = F32) -> UOp:
    memory = picture(slot, base)
    return build.store(build.view(memory, tracker), value)


def run(ast: UOp, buffers: list[np.ndarray]) -> np.ndarray:
    """Return slot 0 after the program ran with the sanitizer."""
    program = compile_kernel(ast, IMAGES)
    accesses = [node for node in program.uops if node.op in (Ops.LOAD, Ops.STORE)]
    images = [node.src[0] for node in accesses if node.src[0].dtype.name.startswith("image")]
    assert images
    assert all(len(address.src) == 3 for address in images)
    copies = [buffer.copy() for buffer in buffers]
    run_program(program, copies)
    expected = evaluate(ast, dict(enumerate(buffers)))[0]
    np.testing.assert_array_equal(copies[0], expected)
    return copies[0]


def ramp(count: int = COUNT, dtype: DType = F32) -> np.ndarray:
    return np.arange(count).astype(numpy_dtype(dtype))


ROWS = shaped(6, 16)


def test_positions_become_rows_and_columns() -> None:
    """Element 4 * (4 * 2 + 3) + lane is the third texel of the second row, counted from 0."""
    one = shaped(4).reshape((1, 4))
    tracker = ROWS.shrink(((2, 3), (12, 16)))
    ast = build.sink(store(0, read(1, tracker), one))
    program = compile_kernel(ast, IMAGES)
    (address,) = [node for node in program.uops if node.op is Ops.INDEX and len(node.src) == 3]
    assert [source.arg.value for source in address.src[1:]] == [2, 3]
    assert run(ast, [np.zeros(4, np.float32), ramp()]).tolist() == [44.0, 45.0, 46.0, 47.0]


def test_a_reduce_along_texels_is_unrolled_by_four() -> None:
    total = build.reduce(Ops.ADD, read(1, ROWS), (1,))
    ast = kernel_of(total, 6, 1)
    plan = plan_for(ast, IMAGES)
    assert plan.opts[0] == Opt(OptOp.UNROLL, 1, 4)
    result = run(ast, [np.zeros(6, np.float32), ramp()])
    assert result.tolist() == [sum(range(16 * row, 16 * row + 16)) for row in range(6)]


def test_texels_may_be_taken_apart() -> None:
    """Read whole texels for lanes in another order, and for columns that a gate shifts."""
    backwards = build.sink(store(0, read(1, ROWS.flip((1,))), ROWS))
    result = run(backwards, [np.zeros(COUNT, np.float32), ramp()])
    assert result.reshape(6, 16)[:, ::-1].reshape(-1).tolist() == list(range(COUNT))
    tracker = ROWS.pad(((0, 0), (1, 3)))
    shifted = kernel_of(read(1, tracker), 6, 20)
    result = run(shifted, [np.zeros(120, np.float32), ramp()])
    assert result.reshape(6, 20)[2].tolist() == [0.0, *range(32, 48), 0.0, 0.0, 0.0]


def test_lanes_come_without_optimisations_too() -> None:
    ast = build.sink(written(0, ROWS, build.mul(read(1, ROWS), 2.0)))
    with Context(NOOPT=1):
        assert plan_for(ast, IMAGES).opts == (Opt(OptOp.UPCAST, 0, 4),)


def test_kernels_without_images_keep_their_plan() -> None:
    ast = kernel_of(load(1, F32, (16,)), 16)
    with Context(NOOPT=1):
        assert plan_for(ast, IMAGES).opts == ()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tracker",
    [
        ROWS.shrink(((0, 6), (0, 6))),
        ROWS.shrink(((0, 6), (2, 14))),
        shaped(6, 8, 2).shrink(((0, 6), (0, 8), (0, 1))).reshape((6, 8)),
        ROWS.shrink(((0, 6), (0, 1))).expand((6, 16)),
    ],
    ids=["six columns", "shifted", "every other", "one lane"],
)
def test_parts_of_texels_are_refused(tracker: ShapeTracker) -> None:
    ast = build.sink(store(0, read(1, tracker), tracker.shape))
    with pytest.raises(UserError, match="accepted are texels of 4: an axis of unit stride must be"):
        compile_kernel(ast, IMAGES)


def test_an_explicit_list_without_lanes_is_refused() -> None:
    ast = build.sink(written(0, ROWS, read(1, ROWS)))
    with pytest.raises(UserError, match="1 lanes of an image: accepted are texels of 4"):
        compile_kernel(ast, IMAGES, opts=())


def test_a_device_without_images_refuses_them() -> None:
    ast = build.sink(written(0, ROWS, read(1, ROWS)))
    with pytest.raises(UserError, match=r"the device has no images, got image.float32\[6,4\]"):
        compile_kernel(ast, replace(IMAGES, images=False))
    with pytest.raises(UserError, match="the device has no images"):
        compile_kernel(ast, Device["CPU"].capabilities)


def test_values_of_images_are_float32() -> None:
    memory = picture(1, F16)
    half = UOp(Ops.LOAD, F16, (build.view(memory, ROWS),))
    ast = build.sink(store(0, half, ROWS))
    with pytest.raises(VerifyError, match="LOAD of float16 through a pointer to float32"):
        compile_kernel(ast, IMAGES)


def test_a_matrix_tile_takes_no_texels() -> None:
    tile = TILES["apple_m8n8k8_float32_float32"]
    size = (8, 8, 8)
    a = read(1, shaped(8, 1, 8).expand(size))
    b = load(2, F32, shaped(8, 8).permute((1, 0)).reshape((1, 8, 8)).expand(size))
    total = build.reduce(Ops.ADD, build.mul(a, b), (2,))
    ast = kernel_of(total, 8, 8, 1)
    with pytest.raises(KernelOptError, match="no sum of products fits"):
        Plan.of(ast, replace(IMAGES, matrix_tiles=(tile,))).apply(Opt(OptOp.TC))


def access(row: int, column: int, is_store: bool = False, base: DType = F32) -> Program:
    """Return a program that copies one texel from or to an image of 2 x 3."""
    i32 = dtypes.int32
    address = build.texel(picture(1, base, (2, 3)), build.const(i32, row), build.const(i32, column))
    other = build.index(build.define_global(0, F32, 4), build.const(i32, 0))
    source, target = (other, address) if is_store else (address, other)
    value = build.load(source, lanes=4)
    root = build.sink(build.store(target, value))
    parameters = (
        Parameter(0, F32, 4, not is_store, is_store),
        Parameter(1, base, 24, is_store, not is_store),
    )
    uops = tuple(node for node in root.toposort() if node.op is not Ops.SINK)
    return Program("texel", uops, parameters, (), (1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize("is_store", [False, True], ids=["load", "store"])
@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        (2, 0, "row 2 of slot 1, which has 2"),
        (-1, 0, "row -1 of slot 1"),
        # As one number these are inside the image.
        (0, 3, "column 3 of slot 1, which has 3"),
        (1, -1, "column -1 of slot 1"),
    ],
)
def test_rows_and_columns_are_checked_apart(
    row: int, column: int, message: str, is_store: bool
) -> None:
    with pytest.raises(SanitizerError, match=message) as caught:
        run_program(access(row, column, is_store), [np.zeros(4, np.float32), ramp(24)])
    assert caught.value.kind is Fault.BOUNDS


def test_without_the_sanitizer_a_store_outside_is_dropped() -> None:
    target = ramp(24)
    run_program(access(0, 3, True), [np.zeros(4, np.float32), target], sanitize=False)
    assert target.tolist() == list(range(24))
    run_program(access(1, 0, True), [np.zeros(4, np.float32), target], sanitize=False)
    assert target[12:16].tolist() == [0.0] * 4


@pytest.mark.parametrize("renderer", [CRenderer, LlvmRenderer])
def test_renderers_of_the_host_refuse_images(renderer) -> None:
    with pytest.raises(UserError, match=r"image.float32\[2,3\] is an image: accepted are buffers"):
        renderer().render(access(0, 0))
