"""The PYTHON device runs program text and checks it; the NPY device holds data and runs nothing."""

from __future__ import annotations

import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.formats.text import program_from_text
from tinyref.interpret import Fault, SanitizerError
from tinyref.runtimes.data_only import NpyBackend
from tinyref.runtimes.kernel import compile_ast, compile_program
from tinyref.runtimes.python import InterpretedKernel, PythonBackend
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_spec.kernel.programs import at, item_index, program
from tinyref_spec.kernels.named import copied, reduction
from tinyref_spec.kernels.notation import shaped

f32 = dtypes.float32
i32 = dtypes.int32


def test_both_work_everywhere() -> None:
    for name, backend in (("PYTHON", PythonBackend), ("NPY", NpyBackend)):
        assert Device.availability(name).works
        assert isinstance(Device[name], backend)
        assert "numpy" in Device[name].versions()
        assert Device[f"{name}:1"].name == f"{name}:1"


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


def _reverse(barrier: bool) -> Program:
    lane = item_index(4)
    out, shared = build.define_global(0, i32, 4), build.define_local("shared", i32, 4)
    put = build.store(at(shared, lane), lane)
    taken = build.store(at(out, lane), build.load(at(shared, build.sub(3, lane))))
    middle = [build.barrier()] if barrier else []
    return program("reverse", put, *middle, taken, group=(4, 1, 1))


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


def test_npy_runs_no_kernels() -> None:
    with pytest.raises(UserError, match="runs no kernels"):
        compile_ast("NPY", copied(f32, shaped(4)))
    with pytest.raises(UserError, match="reverse: the device runs no kernels"):
        compile_program("NPY", _reverse(barrier=True))
    with pytest.raises(DeviceError, match="compute on another device"):
        Device["NPY"].compiler.compile("text")
    with pytest.raises(DeviceError, match="runs no kernels"):
        Device["NPY"].load("k", b"")
