"""Elementwise programs that run on a device, and helpers that fill and read buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinyref.codegen.decompose import decompose, storage_dtype
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

Expression = Callable[..., UOp]


# An expression and the types of its operands.
Case = tuple[Expression, Sequence[DType]]


def elementwise(cases: Sequence[Case], count: int, device: str, name: str = "kernel") -> Program:
    """Return a program for `device`: one loop over `count` elements that computes every case.

    The outputs come first, then the inputs of the first case, of the second, and so on.
    """
    i = build.counter(build.const(dtypes.int32, count), 0, AxisKind.LOOP, dtypes.int32)
    slot = len(cases)
    stores, outputs, inputs = [], [], []
    for expression, sources in cases:
        memories = [build.define_global(slot + k, dtype, count) for k, dtype in enumerate(sources)]
        value = expression(*[build.load(build.index(memory, i)) for memory in memories])
        out = build.define_global(len(stores), value.dtype, count)
        outputs.append(Parameter(len(stores), storage_dtype(value.dtype), count, True, False))
        stores.append(build.store(build.index(out, i), value))
        for dtype in sources:
            inputs.append(Parameter(slot, storage_dtype(dtype), count, False, True))
            slot += 1
    kernel = decompose(build.sink(*stores), Device[device].capabilities)
    nodes = [node for node in kernel.toposort() if node.op is not Ops.SINK]
    counter = next(node for node in nodes if node.op is Ops.RANGE)
    end = build.close(counter)
    return Program(name, (*nodes, end), (*outputs, *inputs))


def fill(device: str, values: np.ndarray, dtype: DType) -> Buffer:
    data = np.ascontiguousarray(values, numpy_dtype(dtype)).view(np.uint8)
    return Buffer(device, values.size, dtype).copy_in(memoryview(data))


def read(buffer: Buffer) -> np.ndarray:
    return np.frombuffer(buffer.copy_out(), numpy_dtype(buffer.dtype))


def run_cases(
    cases: Sequence[tuple[Expression, Sequence[tuple[np.ndarray, DType]]]], device: str
) -> list[np.ndarray]:
    """Return the values of each expression over its arrays, computed by one kernel of `device`."""
    sizes = [inputs[0][0].size for _, inputs in cases]
    typed = [(expression, [dtype for _, dtype in inputs]) for expression, inputs in cases]
    program = elementwise(typed, max(sizes), device)
    kernel = compile_program(device, program)
    outputs = [
        fill(device, np.zeros(max(sizes)), result_dtype(expression, sources))
        for expression, sources in typed
    ]
    inputs = [
        fill(device, np.resize(array, max(sizes)), dtype)
        for _, arrays in cases
        for array, dtype in arrays
    ]
    kernel([*outputs, *inputs])
    return [read(out)[:size] for out, size in zip(outputs, sizes, strict=True)]


def result_dtype(expression: Expression, sources: Sequence[DType]) -> DType:
    """Return the type of the value of `expression`."""
    return expression(*[build.const(dtype, 1) for dtype in sources]).dtype
