"""Test realize: values on devices, counters, reports, memory, and failures in the middle."""

import gc

import numpy as np
import pytest

from tinyref.config import Context
from tinyref.device import Device, memory
from tinyref.dtype import dtypes, from_numpy_dtype, numpy_dtype
from tinyref.engine import GlobalCounters, accounting, realize
from tinyref.errors import DeviceError, UserError
from tinyref.lazy import graph as g
from tinyref.lazy.buffers import buffer_of
from tinyref.schedule import schedule
from tinyref.uops.ops import Ops

F32, I32 = dtypes.float32, dtypes.int32


def put(array, device="PYTHON"):
    array = np.ascontiguousarray(array)
    node = g.new_buffer(device, array.shape, from_numpy_dtype(array.dtype))
    buffer_of(g.backing(node)).copy_in(memoryview(array).cast("B"))
    return node


def get(node):
    values = np.frombuffer(buffer_of(g.backing(node)).copy_out(), numpy_dtype(node.dtype))
    return values[: int(np.prod(g.shape_of(node)))].reshape(g.shape_of(node))


def run(node, device="PYTHON"):
    return get(realize([(node, device)])[node])


def plus(x, amount):
    return g.alu(Ops.ADD, x, g.constant(amount, x.dtype))


def total(x, *axes):
    return g.reduce(Ops.ADD, x, axes)


def floats(*values):
    return np.array(values, np.float32)


def test_nothing_runs_for_what_is_there_or_has_no_elements():
    before = GlobalCounters.kernel_count
    x = put(floats(1, 2))
    empty = total(g.new_buffer("PYTHON", (0, 3), F32), 1)
    results = realize([(x, "PYTHON"), (empty, "PYTHON"), (g.constant(1.0, F32), "PYTHON")])
    assert results[x] is x
    assert g.shape_of(results[empty]) == (0, 1)
    assert g.uniform_value(results[g.constant(1.0, F32)]) == 1.0
    assert GlobalCounters.kernel_count == before


# --- counters and reports -----------------------------------------------------------------------


def test_counters():
    # Otherwise cycles of earlier tests would be freed in between.
    gc.collect()
    x = put(np.ones((4, 8), np.float32))
    GlobalCounters.reset()
    realize([(plus(total(x, 1), 1.0), "PYTHON")])
    assert GlobalCounters.kernel_count == 1
    assert GlobalCounters.global_ops == 4 * 8 + 4
    assert GlobalCounters.global_mem == 4 * 8 * 4 + 4 * 4
    assert GlobalCounters.time_sum_s == 0
    with Context(DEBUG=2):
        realize([(plus(x, 2.0), "PYTHON")])
    assert GlobalCounters.kernel_count == 2
    assert GlobalCounters.time_sum_s > 0
    assert GlobalCounters.mem_used >= x.dtype.itemsize * 32
    assert "kernel_count=2" in repr(GlobalCounters)


def test_counting_the_work_of_a_kernel_looks_at_each_node_once(monkeypatch):
    """Guard against time that grew with the square of thousands of operations."""
    x = put(np.ones(4, np.float32))
    node = x
    for step in range(200):
        node = plus(node, step + 0.5)
    (item,) = schedule([(node, "PYTHON")]).items
    products = []
    monkeypatch.setattr(accounting, "product", lambda shape: products.append(shape) or 4)
    assert accounting.estimate(item.ast).operations == 800
    assert len(products) == 200
    assert accounting.estimate(item.ast).operations == 800
    assert len(products) == 200


def test_debug_prints_one_line_for_each_kernel(capsys):
    x = put(np.ones((4, 8), np.float32))
    with Context(DEBUG=1):
        realize([(total(g.alu(Ops.SIN, total(x, 1)), 0), "PYTHON")])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("kernel") and "PYTHON" in line for line in lines)
    assert "r_4_8" in lines[0]
    assert "(4, 8)" in lines[0]
    assert " ms " not in lines[0]


def test_debug_levels_add_times_asts_source_and_programs(capsys):
    x = put(np.ones(4, np.float32))
    sizes = []
    for level, shows in ((2, " ms "), (3, "SINK"), (4, "RANGE"), (5, "END")):
        with Context(DEBUG=level):
            realize([(plus(x, float(level)), "PYTHON")])
        text = capsys.readouterr().err
        assert shows in text or level > 3
        assert ("\n  plan  " in text) == (level > 2)
        sizes.append(len(text))
    assert sizes == sorted(sizes)
    with Context(DEBUG=1):
        realize([(g.copy(x, "CPU"), "CPU")])
    assert capsys.readouterr().err == "copy 16 bytes PYTHON -> CPU\n"


@pytest.mark.parametrize("level", [1, 2])
def test_a_kernel_is_one_line_of_a_hundred_columns(capsys, level):
    x = put(np.ones((3, 5, 7, 2, 9, 4), np.float32))
    for axis in range(3):
        x = plus(total(x, axis), 1.5)
    with Context(DEBUG=level):
        realize([(g.permute(x, (2, 1, 0, 3, 5, 4)), "PYTHON")])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["kernel"] * len(lines)
    widths = [len(line) for line in lines]
    assert max(widths) <= 100
    assert level == 1 or set(widths) == {100}


def test_dump_after_schedule_prints_kernels(capsys):
    x = put(np.ones(4, np.float32))
    with Context(DUMP="after:schedule"):
        schedule([(plus(x, 1.0), "PYTHON")])
    assert capsys.readouterr().err.startswith("# after schedule: PYTHON\n")


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intermediate_buffers_die_with_their_last_user():
    x = put(np.ones((100, 10), np.float32))
    gc.collect()
    start = memory.now["PYTHON"]
    memory.peak["PYTHON"] = start
    node = x
    for step in range(6):
        sums = g.expand(total(node, step % 2), (100, 10))
        node = g.alu(Ops.ADD, x, sums)
    results = realize([(node, "PYTHON")])
    result = results.pop(node)
    assert not results
    # The result, and two of the sums (three of 40 and of 400 bytes): the one read and the next,
    # each in whole lines of 64 bytes.
    assert memory.peak["PYTHON"] - start <= 4000 + 64 + 448
    del node, sums
    gc.collect()
    assert memory.now["PYTHON"] - start == 4000
    del result
    gc.collect()
    assert memory.now["PYTHON"] == start


# --- failures -----------------------------------------------------------------------------------


class Broken:
    """Allocator that makes one allocation of the PYTHON device fail, the one of `nbytes`."""

    def __init__(self, monkeypatch, nbytes, error):
        allocator = Device["PYTHON"].allocator
        working = type(allocator).allocate

        def allocate(this, size):
            if size == nbytes:
                raise error
            return working(this, size)

        monkeypatch.setattr(type(allocator), "allocate", allocate)


@pytest.mark.parametrize("error", [MemoryError("no room"), DeviceError("PYTHON", "no room")])
def test_out_of_memory_in_the_middle_names_the_kernel(monkeypatch, error):
    x = put(floats(1, 2, 3))
    assign = g.assign(x, plus(x, 1.0))
    wide = g.contiguous(g.expand(g.reshape(assign, (3, 1)), (3, 7)))
    Broken(monkeypatch, 84, error)
    with pytest.raises(DeviceError, match=r"kernel e_.*no room") as failure:
        realize([(assign, "PYTHON"), (wide, "PYTHON")])
    assert failure.value.device == "PYTHON"
    assert failure.value.source


def test_nothing_has_run_when_a_kernel_does_not_compile(monkeypatch):
    from tinyref.runtimes import kernel as kernels

    x = put(floats(1, 2, 3))
    assign = g.assign(x, plus(x, 1.0))
    sines = g.alu(Ops.SIN, g.reshape(g.contiguous(g.flip(assign, (0,))), (3,)))
    backend = type(Device["PYTHON"])
    working = backend.interpret

    def interpret(this, program):
        if any(node.op is Ops.SIN for node in program.uops):
            raise DeviceError("PYTHON", "the compiler is out of ideas")
        return working(this, program)

    kernels.forget_kernels()
    monkeypatch.setattr(backend, "interpret", interpret)
    with pytest.raises(DeviceError, match="kernel e_3: the compiler is out of ideas"):
        realize([(assign, "PYTHON"), (sines, "PYTHON")])
    assert get(x).tolist() == [1, 2, 3]


def test_a_device_without_kernels_is_refused_by_name():
    x = put(floats(1, 2, 3), "NPY")
    for beam in (0, 1):
        with Context(BEAM=beam), pytest.raises(UserError, match="kernel: NPY holds data but runs"):
            realize([(plus(x, 1.0), "NPY")])
    assert run(plus(g.copy(x, "PYTHON"), 1.0)).tolist() == [2, 3, 4]
