"""Scratch memory: DEFINE_LOCAL on devices without groups belongs to one call of the kernel."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from elementwise_programs import fill, read
from hosts import HOSTS, each_device

from tinyref.codegen.decompose import decompose
from tinyref.codegen.linearise import linearise
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret import SanitizerError
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program

INT = dtypes.int32


device = each_device([*HOSTS, "PYTHON"])


def turned(dtype: DType, size: int, groups: int, filled: int | None = None) -> Program:
    """Each group copies its `size` elements to scratch, then writes them from last to first.

    Only `filled` of them are copied: the others are read though nothing has set them.
    """
    group = build.special("group", 0, groups, INT)
    scratch = build.define_local("scratch", dtype, size)
    source = build.define_global(1, dtype, size * groups)
    first = build.mul(group, size)
    bound = build.const(INT, size if filled is None else filled)
    i = build.counter(bound, 0, AxisKind.LOOP, INT)
    j = build.counter(build.const(INT, size), 1, AxisKind.LOOP, INT)
    value = build.load(build.index(source, build.add(first, i)))
    fill = build.store(build.index(scratch, i), value)
    full = build.after(scratch, fill, i)
    element = build.load(build.index(full, build.sub(size - 1, j)))
    target = build.index(build.define_global(0, dtype, size * groups), build.add(first, j))
    parameters = (
        Parameter(0, dtype, size * groups, True, False),
        Parameter(1, dtype, size * groups, False, True),
    )
    nodes = linearise(build.sink(build.store(target, element)))
    return Program("turned", nodes, parameters, grid=(groups, 1, 1))


@pytest.mark.parametrize("groups", [1, 5])
@pytest.mark.parametrize(
    "dtype", [dtypes.bool, dtypes.int8, dtypes.float32, dtypes.int64], ids=lambda dtype: dtype.name
)
def test_each_call_has_scratch_of_its_own(device: str, dtype: DType, groups: int) -> None:
    size = 48
    values = (np.arange(size * groups) % 97 % 2).astype(numpy_dtype(dtype))
    if not dtype.is_bool:
        values = (np.arange(size * groups) % 97).astype(numpy_dtype(dtype))
    out = fill(device, np.zeros(size * groups), dtype)
    with Context(THREADS=3):
        kernel = compile_program(device, turned(dtype, size, groups))
        kernel([out, fill(device, values, dtype)])
    assert (read(out).reshape(groups, size) == values.reshape(groups, size)[:, ::-1]).all()


@pytest.mark.sampled(3)
def test_all_that_is_declared_can_be_used(device: str) -> None:
    groups = 4
    size = Device[device].capabilities.shared_bytes // 4
    assert size >= 1024
    values = np.arange(size * groups, dtype=np.int32)
    out = fill(device, np.zeros(size * groups), INT)
    with Context(THREADS=2):
        compile_program(device, turned(INT, size, groups))([out, fill(device, values, INT)])
    assert (read(out).reshape(groups, size) == values.reshape(groups, size)[:, ::-1]).all()


def test_the_interpreter_sees_scratch_that_nothing_has_set() -> None:
    kernel = compile_program("PYTHON", turned(INT, 8, 2, filled=7))
    buffers = [fill("PYTHON", np.zeros(16), INT), fill("PYTHON", np.zeros(16), INT)]
    with pytest.raises(SanitizerError, match="scratch"):
        kernel(buffers)


def test_scratch_holds_vectors(device: str) -> None:
    """Four lanes at a time go in, and come out one iteration later."""
    if 4 not in Device[device].capabilities.vector_lanes:
        pytest.skip(f"{device} has no vectors of 4 lanes")
    scratch = build.define_local("scratch", INT, 20)
    i = build.counter(build.const(INT, 5), 0, AxisKind.LOOP, INT)
    j = build.counter(build.const(INT, 4), 1, AxisKind.LOOP, INT)
    source = build.index(build.define_global(1, INT, 20), build.mul(i, 4))
    store = build.store(build.index(scratch, build.mul(i, 4)), build.load(source, lanes=4))
    full = build.after(scratch, store, i)
    value = build.load(build.index(full, build.add(build.mul(j, 4), 4)), lanes=4)
    target = build.index(build.define_global(0, INT, 16), build.mul(j, 4))
    nodes = linearise(build.sink(build.store(target, value)))
    parameters = (Parameter(0, INT, 16, True, False), Parameter(1, INT, 20, False, True))
    out = fill(device, np.zeros(16), INT)
    kernel = compile_program(device, Program("shifted", nodes, parameters))
    kernel([out, fill(device, np.arange(20), INT)])
    assert read(out).tolist() == list(range(4, 20))


@pytest.mark.parametrize("host", HOSTS)
def test_what_a_host_has_of_groups_is_refused(host: str) -> None:
    capabilities = Device[host].capabilities
    scratch = build.define_local("scratch", INT, 4)
    zero = build.const(INT, 0)
    out = build.define_global(0, INT, 4)
    stored = build.store(build.index(scratch, zero), zero)

    def kernel(ordered: UOp) -> UOp:
        return build.sink(build.store(build.index(out, zero), build.load(ordered)))

    after = build.after(scratch, stored)
    allowed = kernel(build.index(after, zero))
    decompose(allowed, capabilities)
    without = dataclasses.replace(capabilities, shared_bytes=0)
    with pytest.raises(UserError, match="DEFINE_LOCAL: the device has neither groups nor scratch"):
        decompose(allowed, without)
    barrier = build.barrier(stored)
    behind = build.after(scratch, barrier)
    with pytest.raises(UserError, match="BARRIER: the device has no groups, so no barriers"):
        decompose(kernel(build.index(behind, zero)), capabilities)
