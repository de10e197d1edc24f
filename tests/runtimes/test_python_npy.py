"""The PYTHON device runs program text and checks it; the NPY device holds data and runs nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import DeviceError, UserError
from tinyref.formats.json_format import program_from_text
from tinyref.interpret import Fault, SanitizerError
from tinyref.runtimes.data_only import NpyBackend
from tinyref.runtimes.kernel import compile_ast, compile_program
from tinyref.runtimes.python import InterpretedKernel, PythonBackend
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Parameter, Program
from tinyref_spec.kernels.named import copied, elementwise, reduction
from tinyref_spec.kernels.notation import kernel_of, load, shaped

f32 = dtypes.float32
i32 = dtypes.int32


def compute(expression: Callable[..., UOp], dtype: DType, *inputs: np.ndarray) -> np.ndarray:
    """`expression` of loads from arrays of one type and size, by a kernel on PYTHON."""
    count = inputs[0].size
    kernel = compile_ast("PYTHON", elementwise(expression, [dtype] * len(inputs), count))
    out = fill("PYTHON", np.zeros(count), kernel.program.parameters[0].dtype)
    kernel([out, *(fill("PYTHON", array, dtype) for array in inputs)])
    return read(out)


def test_both_work_everywhere() -> None:
    for name, backend in (("PYTHON", PythonBackend), ("NPY", NpyBackend)):
        assert Device.availability(name).works
        assert isinstance(Device[name], backend)
        assert "numpy" in Device[name].versions()
        assert Device[f"{name}:1"].name == f"{name}:1"


@pytest.mark.parametrize("dtype", [*dtypes.ints, *dtypes.floats], ids=lambda d: d.name)
def test_python_computes_in_every_type(dtype: DType) -> None:
    x = np.array([3, 7, 100]).astype(numpy_dtype(dtype))
    y = np.array([2, 5, 10]).astype(numpy_dtype(dtype))
    result = compute(lambda a, b: build.add(build.mul(a, b), a), dtype, x, y)
    wanted = {dtypes.int8: 76, dtypes.uint8: 76, dtypes.bfloat16: 1104}.get(dtype, 1100)
    assert [int(value) for value in result] == [9, 42, wanted]


@pytest.mark.parametrize("dtype", dtypes.fp8s, ids=lambda d: d.name)
def test_python_stores_fp8(dtype: DType) -> None:
    x = np.array([1, -2, 0.5]).astype(numpy_dtype(dtype))
    result = compute(lambda a: build.cast(build.mul(build.cast(a, f32), 3.0), dtype), dtype, x)
    assert [float(value) for value in result] == [3, -6, 1.5]


def test_python_runs_the_program_that_it_is_given() -> None:
    kernel = compile_ast("PYTHON", reduction(Ops.ADD, f32, (3, 4), 1))
    assert isinstance(kernel.launchable, InterpretedKernel)
    assert kernel.launchable.program is kernel.program
    assert program_from_text(kernel.source) == kernel.program
    out = fill("PYTHON", np.zeros(3), f32)
    seconds = kernel([out, fill("PYTHON", np.arange(12), f32)], wait=True)
    assert seconds is not None
    assert seconds > 0
    assert list(read(out)) == [6, 22, 38]


def test_python_takes_symbolic_sizes() -> None:
    n = build.variable("n", 1, 6)
    value = build.add(load(1, i32, (n,)), build.cast(n, i32))
    kernel = compile_ast("PYTHON", kernel_of(value, n))
    for size in (1, 4, 6):
        out = fill("PYTHON", np.zeros(6), i32)
        kernel([out, fill("PYTHON", np.arange(6), i32)], {"n": size})
        assert list(read(out)) == [k + size if k < size else 0 for k in range(6)]
    with pytest.raises(UserError, match="n is 7"):
        kernel([out, out], {"n": 7})


def test_python_groups_share_memory() -> None:
    kernel = compile_program("PYTHON", _reverse(barrier=True))
    out = fill("PYTHON", np.zeros(4), i32)
    kernel([out])
    assert list(read(out)) == [3, 2, 1, 0]


def _reverse(barrier: bool) -> Program:
    four = build.const(i32, 4)
    lane = build.special("item", 0, four)
    lane = UOp(Ops.SPECIAL, i32, (four,), lane.arg)
    out, shared = build.define_global(0, i32, 4), build.define_local("shared", i32, 4)
    put_at = build.index(shared, lane)
    three = build.const(i32, 3)
    other = build.sub(three, lane)
    took_at = build.index(shared, other)
    took = build.load(took_at)
    out_at = build.index(out, lane)
    middle = [build.barrier()] if barrier else []
    uops = (
        out, shared, four, three, lane, put_at, build.store(put_at, lane), *middle,
        other, took_at, took, out_at, build.store(out_at, took),
    )  # fmt: skip
    return Program("reverse", uops, (Parameter(0, i32, 4, True, False),), group=(4, 1, 1))


def test_python_checks_unless_told_not_to() -> None:
    kernel = compile_program("PYTHON", _reverse(barrier=False))
    out = fill("PYTHON", np.zeros(4), i32)
    with pytest.raises(SanitizerError) as caught:
        kernel([out])
    assert caught.value.kind is Fault.RACE
    with Context(SANITIZE=0):
        kernel([out])


def test_python_refuses_what_it_cannot_load() -> None:
    backend = Device["PYTHON"]
    with pytest.raises(DeviceError, match="cannot load k") as caught:
        backend.load("k", b"no program")
    assert caught.value.source == "no program"
    with pytest.raises(DeviceError, match="cannot load k"):
        backend.load("k", b"\xff")
    text = backend.renderer.render(_reverse(barrier=True))
    with pytest.raises(DeviceError, match="no entry 'other'"):
        backend.load("other", backend.compiler.compile(text))
    launch = backend.load("reverse", backend.compiler.compile(text))
    with pytest.raises(DeviceError, match="takes 1 buffers and 0 variables, got 0 and 1"):
        launch([], variables=[3])


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_npy_keeps_data(dtype: DType) -> None:
    values = np.array([0, 1, 1, 0]).astype(numpy_dtype(dtype))
    held = fill("NPY", values, dtype)
    assert read(held).tobytes() == values.tobytes()
    part = held.view(dtype.itemsize, 2, dtype)
    assert read(part).tobytes() == values[1:3].tobytes()


def test_npy_runs_no_kernels() -> None:
    with pytest.raises(UserError, match="runs no kernels"):
        compile_ast("NPY", copied(f32, shaped(4)))
    with pytest.raises(UserError, match="reverse: the device runs no kernels"):
        compile_program("NPY", _reverse(barrier=True))
    with pytest.raises(DeviceError, match="compute on another device"):
        Device["NPY"].compiler.compile("text")
    with pytest.raises(DeviceError, match="runs no kernels"):
        Device["NPY"].load("k", b"")
