"""What scripts of failures are made of: a launch, what it must give, and the first wrong node."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from tinyref.algebra import semantics
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.interpret import Hooks, Interpreter
from tinyref.interpret.translate import Override
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.runtimes.reproducer import (
    ReproducedLaunch,
    Wanted,
    check,
    ulps_apart,
)
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref.uops.tiles import TILES
from tinyref_spec.kernel.tiles import FORMS, TileProgram
from tinyref_spec.kernels.named import multiplied
from tinyref_spec.kernels.notation import kernel_of, load


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


class Altered(TextBackend):
    """The interpreter with wrong semantics, or hooks."""

    wrong: Mapping[Ops, Override] = {}
    hooks = Hooks()

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        kernel = super().load(entry, binary)
        kernel.interpreter = Interpreter(kernel.program, self.wrong, self.hooks)
        return kernel


def _off_by_one(dtype: object, operands: list, sources: list) -> np.ndarray:
    right = semantics.apply(Ops.MUL, dtype, operands, sources)
    return np.where(right == 12, right + 1, right)


class WrongMul(Altered):
    wrong = {Ops.MUL: _off_by_one}


class _AlignedKernel(InterpretedKernel):
    def __call__(self, buffers, *rest):  # type: ignore[no-untyped-def]
        if any(buffer.ctypes.data % 16 for buffer in buffers):
            raise DeviceError(self.device, "a buffer begins between two vectors")
        return super().__call__(buffers, *rest)


class NeedsAlignment(Altered):
    """Refuses buffers that begin where vectors are not aligned."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return _AlignedKernel(self.name, super().load(entry, binary).program)


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "altered", sys.modules[__name__])
    yield
    for name in [name for name in Device._open if name.startswith("altered")]:
        del Device._open[name]


def sum_of_products(opts: tuple | None = ()) -> Program:
    """out[i] = sum over k of x[i, k] * y[i, k], of 2 x 3."""
    x, y = (load(slot, dtypes.int32, (2, 3)) for slot in (1, 2))
    kernel = kernel_of(multiplied(x, y, 1), 2, 1)
    return compile_kernel(kernel, Device["PYTHON"].capabilities, opts=opts)


X, Y = np.arange(6, dtype=np.int32), np.array([1, 1, 1, 4, 3, 2], np.int32)
INPUTS = [None, X, Y]
WANTED = [Wanted(0, [0, 1], np.array([3, 34], np.int32))]


def test_a_healthy_device_differs_nowhere() -> None:
    for device in ("PYTHON", "CPU"):
        program = sum_of_products()
        if device == "PYTHON":
            assert "no node differs" in ReproducedLaunch(device, program, INPUTS).first_difference()
    assert check(ReproducedLaunch("PYTHON", sum_of_products(), INPUTS), WANTED) == ""


def test_the_first_wrong_node_is_named_with_its_place() -> None:
    # 3 * 4 and 4 * 3 are 12: of group 1 the iterations 0 and 1.
    problem = check(ReproducedLaunch("altered:WrongMul", sum_of_products(), INPUTS), WANTED)
    assert problem == (
        "wrong: element 1: expected 34 (0x00000022), got 36 (0x00000024)\n"
        "the first node that differs is MUL int32 (LOAD, LOAD) at group x 1, iteration 0: "
        "13, 12 by the interpreter; 2 of 6 values differ"
    )


class WrongTile(Altered):
    """Reverses the work-items that hold the result of a tile."""

    hooks = Hooks(tile=lambda tile, result: result[:, ::-1])


def test_a_tile_is_named_where_work_items_share_their_indices() -> None:
    """Name it: the interpreter forbids that all items of a group store the group's index."""
    subject = TileProgram(TILES["nvidia_m16n8k8_float16_float32"], FORMS["product"])
    program = subject.program()
    inputs = [None, *(matrix.reshape(-1) for matrix in subject.inputs())]
    assert (
        "no node differs from the interpreter's"
        in ReproducedLaunch("PYTHON", program, inputs).first_difference()
    )
    problem = ReproducedLaunch("altered:WrongTile", program, inputs).first_difference()
    assert problem.startswith("the first node that differs is WMMA float32x4 ")


@pytest.mark.parametrize(
    ("opts", "more"), [((), [np.arange(9, dtype=np.int32)]), (None, [])], ids=["unread", "opts"]
)
def test_neither_unread_inputs_nor_heuristics_change_which_node_is_wrong(
    opts: tuple | None, more: list
) -> None:
    launch = ReproducedLaunch("altered:WrongMul", sum_of_products(opts), [*INPUTS, *more])
    assert "the first node that differs is MUL int32" in check(launch, WANTED)


@pytest.mark.parametrize("unaligned", [(0,), (1, 2)])
def test_buffers_begin_where_they_did(unaligned: tuple[int, ...]) -> None:
    launch = ReproducedLaunch("altered:NeedsAlignment", sum_of_products(), INPUTS)
    assert check(launch, WANTED) == ""
    with pytest.raises(DeviceError, match="a buffer begins between two vectors"):
        check(dataclasses.replace(launch, unaligned=unaligned), WANTED)


@pytest.mark.parametrize(
    ("actual", "expected", "apart"),
    [
        (1.0, 1.0, 0),
        (1.0, 1.0000001, 1),
        (0.0, -0.0, np.inf),
        (np.nan, np.nan, 0),
        (np.nan, 1.0, np.inf),
        (np.inf, 3.4028235e38, 1),
        (1e-45, -1e-45, 2),
    ],
)
def test_units_in_the_last_place(actual: float, expected: float, apart: float) -> None:
    assert ulps_apart(f32(actual), f32(expected)).tolist() == [apart]


@pytest.mark.parametrize(
    ("actual", "expected", "apart"),
    [
        (0.054586480818724026, 0.05458648081872403, 1),
        (-1.0, -1.0000000000000004, 2),
        (5e-324, -5e-324, 2),
        (1.7976931348623157e308, np.inf, 1),
    ],
)
def test_units_of_float64_are_counted_exactly(actual: float, expected: float, apart: float) -> None:
    """Guard scripts of float64 that called one unit infinitely far: a float64 has 53 bits."""
    assert ulps_apart(np.array([actual]), np.array([expected])).tolist() == [apart]


def test_integers_are_equal_or_not() -> None:
    apart = ulps_apart(np.array([3, 4], np.uint8), np.array([3, 5], np.uint8))
    assert apart.tolist() == [0, np.inf]


@pytest.mark.parametrize(
    ("element", "actual", "problem"),
    [
        (Wanted(0, [1], f32(2)), f32(9, 2), ""),
        (Wanted(0, [1], f32(2)), f32(2, 9), "element 1: expected 2.0 (0x40000000), got 9.0 "),
        (Wanted(0, [0], f32(0), [f32(-0.0)]), f32(-0.0), ""),
        (Wanted(0, [0], f32(0)), f32(-0.0), "element 0: expected 0.0"),
        (Wanted(0, [0], f32(1), ulps=1), f32(1.0000001), ""),
        (Wanted(0, [0], f32(1), ulps=1), f32(1.0000002), "element 0"),
        (Wanted(0, [0], f32(1), bounds=(f32(0.5), f32(1.5))), f32(1.5), ""),
        (Wanted(0, [0], f32(1), bounds=(f32(0.5), f32(1.5))), f32(1.6), "element 0"),
        (Wanted(0, [0], f32(1), bounds=(f32(0.5), f32(1.5))), f32(np.nan), "element 0: expected 1"),
        (Wanted(0, [0], f32(1)), np.array([1.0]), ""),
        (Wanted(0, [0], f32(1), shape=(1, 1)), f32(1), "expected float32 of shape (1, 1), got"),
        (Wanted(0, [0], f32(1), shape=(1,)), np.array([1.0]), "expected float32 of shape (1,)"),
        (Wanted(0, [0], f32(np.nan)), f32(np.nan), ""),
    ],
)
def test_what_an_element_may_be(element: Wanted, actual: np.ndarray, problem: str) -> None:
    assert element.problem(actual).startswith(problem)
    assert bool(element.problem(actual)) is bool(problem)
