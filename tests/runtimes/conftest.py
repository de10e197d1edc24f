"""Elementwise programs for the devices under test, and the values worth trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.runtimes.kernel import Kernel, compile_program
from tinyref.uops import build
from tinyref.uops.decompose import decompose, storage_dtype
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

Expression = Callable[..., UOp]


def elementwise(
    expression: Expression, sources: Sequence[DType], count: int, device: str, name: str = "kernel"
) -> Program:
    """out[i] = expression(in0[i], in1[i], ...) as a program for `device`."""
    i = build.counter(build.const(dtypes.int32, count), 0, AxisKind.LOOP, dtypes.int32)
    inputs = [build.define_global(1 + k, dtype, count) for k, dtype in enumerate(sources)]
    value = expression(*[build.load(build.index(memory, i)) for memory in inputs])
    out = build.define_global(0, value.dtype, count)
    kernel = build.sink(build.store(build.index(out, i), value))
    kernel = decompose(kernel, Device[device].capabilities)
    nodes = (*(node for node in kernel.toposort() if node.op is not Ops.SINK),)
    counter = next(node for node in nodes if node.op is Ops.RANGE)
    parameters = [Parameter(0, storage_dtype(value.dtype), count, True, False)]
    for k, dtype in enumerate(sources):
        parameters.append(Parameter(1 + k, storage_dtype(dtype), count, False, True))
    end = UOp(Ops.END, dtypes.void, (counter,))
    return Program(name, (*nodes, end), tuple(parameters))


def buffer_with(device: str, values: np.ndarray, dtype: DType) -> Buffer:
    data = np.ascontiguousarray(values, numpy_dtype(dtype)).view(np.uint8)
    return Buffer(device, values.size, dtype).copy_in(memoryview(data))


def values_of(buffer: Buffer) -> np.ndarray:
    return np.frombuffer(buffer.copy_out(), numpy_dtype(buffer.dtype))


def run_elementwise(
    expression: Expression, inputs: Sequence[tuple[np.ndarray, DType]], device: str
) -> np.ndarray:
    """The values of `expression` over arrays of one size, computed on `device`."""
    count = inputs[0][0].size
    program = elementwise(expression, [dtype for _, dtype in inputs], count, device)
    kernel = compile_program(device, program)
    result = _result_dtype(expression, [dtype for _, dtype in inputs])
    out = buffer_with(device, np.zeros(count), result)
    kernel([out, *(buffer_with(device, array, dtype) for array, dtype in inputs)])
    return values_of(out)


def _result_dtype(expression: Expression, sources: Sequence[DType]) -> DType:
    return expression(*[build.const(dtype, 1) for dtype in sources]).dtype


@pytest.fixture
def run() -> Callable[..., np.ndarray]:
    return run_elementwise


@pytest.fixture
def make_program() -> Callable[..., Program]:
    return elementwise


@pytest.fixture
def fill() -> Callable[..., Buffer]:
    return buffer_with


@pytest.fixture
def read() -> Callable[[Buffer], np.ndarray]:
    return values_of


@pytest.fixture
def compiled() -> Callable[[str, Program], Kernel]:
    return compile_program


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what an earlier version of the renderers left in the user's cache."""
    folder = tmp_path_factory.getbasetemp() / "compile-cache"
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(folder))
