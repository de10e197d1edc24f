"""GPU_EMU: groups, barriers and shared memory by LLVM alone, and the faults that it finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref.config import Context
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.llvm_gpu import LlvmGpuRenderer
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import TileArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import TILES
from tinyref_spec.kernel.programs import at, group_index, item_index, program

INT = dtypes.int32
ITEMS, GROUPS = 8, 3
TOTAL = ITEMS * GROUPS

Rule = Callable[[UOp], UOp]
OUT, DATA = (build.define_global(slot, INT, TOTAL) for slot in (0, 1))
ITEM, GROUP = item_index(ITEMS), group_index(GROUPS)
# The element of each work-item.
PLACE = build.add(build.mul(GROUP, ITEMS), ITEM)
SIZES = {"grid": (GROUPS, 1, 1), "group": (ITEMS, 1, 1)}


def load(memory: UOp, position: UOp, lanes: int = 1) -> UOp:
    return build.load(at(memory, position), lanes=lanes)


def store(memory: UOp, position: UOp, value: UOp) -> UOp:
    return build.store(at(memory, position), value)


def turned(
    reads: Rule = lambda i: build.sub(ITEMS - 1, i),
    elements: int = ITEMS,
    waits: bool = True,
) -> Program:
    """Write the elements of each group to shared memory, wait, and read them there."""
    shared = build.define_local("turned", INT, elements)
    stored = store(shared, ITEM, load(DATA, PLACE))
    barrier = [build.barrier(stored)] if waits else []
    out = store(OUT, PLACE, load(shared, reads(ITEM)))
    return program("turned", stored, *barrier, out, **SIZES)


def run(kernel: Program, size: int = TOTAL) -> list[int]:
    buffers = [fill("GPU_EMU", np.zeros(size), INT), fill("GPU_EMU", np.arange(size), INT)]
    compile_program("GPU_EMU", kernel)(buffers[: len(kernel.parameters)])
    actual: list[int] = read(buffers[0]).tolist()
    return actual


TURNED = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 23, 22, 21, 20, 19, 18, 17, 16]


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("order", ["forward", "reverse", "both"])
@pytest.mark.parametrize("check", [0, 1])
def test_work_items_wait_for_each_other(order: str, check: int, level: int) -> None:
    with Context(EMU_ORDER=order, EMU_CHECK=check, CPU_LEVEL=level):
        assert run(turned()) == TURNED


# --- faults ---------------------------------------------------------------------------------------


def refuses(kernel: Program, says: str, size: int = TOTAL, **flags: int | str) -> None:
    with Context(**flags), pytest.raises(DeviceError) as caught:
        run(kernel, size)
    assert caught.value.device == "GPU_EMU"
    assert says in str(caught.value)


def test_a_missing_barrier_gives_another_result_in_one_of_the_orders() -> None:
    broken = turned(waits=False)
    wrong = []
    for order in ("forward", "reverse"):
        with Context(EMU_ORDER=order):
            wrong.append(run(broken) != TURNED)
    assert any(wrong)
    refuses(broken, "the order of work-items matters: element 0 of data0", EMU_ORDER="both")


def test_a_race_names_the_element_and_both_work_items() -> None:
    """Work-item 1 reads element 0, which work-item 0 wrote with no barrier between."""
    before = turned(reads=lambda i: build.maximum(build.sub(i, 1), 0), waits=False)
    says = (
        "GPU_EMU: turned: race: work-item (1, 0, 0) of group (0, 0, 0) reads element 0 of turned, "
        "which work-item (0, 0, 0) of group (0, 0, 0) touches unordered, at LOAD int32 (INDEX)"
    )
    refuses(before, says, EMU_CHECK=1)
    says = (
        "uninitialised read: work-item (0, 0, 0) of group (0, 0, 0) reads element 7 of turned, "
        "which was never written, at LOAD int32 (INDEX)"
    )
    refuses(turned(waits=False), says, EMU_CHECK=1)


def test_groups_race_for_an_element() -> None:
    """Write the elements of the first group in all three; no index names the group."""
    kernel = program("again", store(OUT, ITEM, load(DATA, ITEM)), **SIZES)
    says = (
        "race: work-item (0, 0, 0) of group (1, 0, 0) writes element 0 of data0, which "
        "work-item (0, 0, 0) of group (0, 0, 0) touches unordered"
    )
    refuses(kernel, says, EMU_CHECK=1)
    assert run(kernel)[:9] == [0, 1, 2, 3, 4, 5, 6, 7, 0]


def test_a_buffer_that_is_two_arguments_races_with_itself() -> None:
    """Read in each work-item what its neighbour writes through another argument."""
    swapped = store(OUT, ITEM, load(DATA, build.sub(ITEMS - 1, ITEM)))
    kernel = program("swapped", swapped, group=(ITEMS, 1, 1))
    both = fill("GPU_EMU", np.arange(TOTAL), INT)
    with Context(EMU_CHECK=1), pytest.raises(DeviceError, match=r"race: .* of data[01], which"):
        compile_program("GPU_EMU", kernel)([both, both])


@pytest.mark.parametrize(
    ("element", "reads"), [(8, lambda i: build.sub(8, i)), (-1, lambda i: build.sub(i, 1))]
)
def test_an_access_outside_names_the_element(element: int, reads: Rule) -> None:
    says = (
        f"out of bounds: work-item (0, 0, 0) of group (0, 0, 0) reads element {element} of turned"
    )
    refuses(turned(reads), says, EMU_CHECK=1)


def test_a_parameter_ends_where_the_program_says() -> None:
    late = store(OUT, PLACE, load(DATA, build.add(PLACE, 1)))
    says = "out of bounds: work-item (7, 0, 0) of group (2, 0, 0) reads element 24 of data1"
    refuses(program("late", late, **SIZES), says, EMU_CHECK=1)


def test_a_vector_stands_at_a_multiple_of_its_lanes() -> None:
    position = build.add(build.mul(item_index(2), 4), 1)
    out, data = (build.define_global(slot, INT, 16) for slot in (0, 1))
    moved = store(out, build.sub(position, 1), load(data, position, lanes=4))
    kernel = program("crooked", moved, group=(2, 1, 1))
    says = "unaligned vector: work-item (0, 0, 0) of group (0, 0, 0) reads element 1 of data1"
    refuses(kernel, says, 16, EMU_CHECK=1)
    assert run(kernel, 16)[:8] == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("threads", [1, 3])
def test_groups_are_shared_over_threads(threads: int) -> None:
    """Run a hundred groups with a barrier each; a fault in one of them ends the launch."""
    size = 100 * ITEMS
    out, data = (build.define_global(slot, INT, size) for slot in (0, 1))
    position = build.add(build.mul(group_index(100), ITEMS), ITEM)
    for elements in (ITEMS, ITEMS - 1):
        shared = build.define_local("turned", INT, elements)
        stored = store(shared, ITEM, load(data, position))
        result = store(out, position, load(shared, build.sub(ITEMS - 1, ITEM)))
        nodes = (stored, build.barrier(stored), result)
        kernel = program("many", *nodes, grid=(100, 1, 1), group=(ITEMS, 1, 1))
        if elements == ITEMS:
            with Context(THREADS=threads):
                actual = np.reshape(run(kernel, size), (100, ITEMS))
            assert (actual == np.arange(size).reshape(100, ITEMS)[:, ::-1]).all()
        else:
            refuses(kernel, "the bytes after shared array turned", size, THREADS=threads)


@pytest.mark.parametrize("elements", [4, 7])
def test_an_undersized_array_is_found_without_checks(elements: int) -> None:
    says = f"the bytes after shared array turned of {elements} elements were written by group (0"
    refuses(turned(elements=elements), says, EMU_ORDER="forward", THREADS=1)


def test_a_divergent_barrier_names_the_barrier() -> None:
    shared = build.define_local("half", INT, ITEMS)
    first = store(shared, ITEM, ITEM)
    opened = build.branch(build.less(ITEM, 4))
    second = build.barrier(opened)
    out = store(OUT, ITEM, load(shared, build.sub(ITEMS - 1, ITEM)))
    nodes = (first, build.barrier(first), opened, second, build.close(opened), out)
    says = (
        "divergent barrier: work-item (4, 0, 0) of group (0, 0, 0) is done, others of its group "
        "wait at barrier 2, of 2 barriers"
    )
    refuses(program("half", *nodes, **SIZES), says, THREADS=1)


def test_shared_memory_is_poisoned_for_each_group() -> None:
    """Nobody writes: floats are NaN."""
    shared = build.define_local("empty", dtypes.float32, ITEMS)
    kernel = program("empty", store(OUT, PLACE, build.bitcast(load(shared, ITEM), INT)), **SIZES)
    assert run(kernel) == [-1] * TOTAL
    refuses(kernel, "reads element 0 of empty, which was never written", EMU_CHECK=1)


TILE = TILES["apple_m8n8k8_float32_float32"]
ONES, ZEROS = (build.const(dtypes.float32.vec(2), value) for value in (1.0, 0.0))
PRODUCT = UOp(Ops.WMMA, dtypes.float32.vec(2), (ONES, ONES, ZEROS), TileArg(TILE))
LANE, OUT_OF_LANES = item_index(32), build.define_global(0, INT, 32)


def passed_through(waits: bool) -> Program:
    """Work-items of a subgroup exchange elements next to a matrix tile, with or without a barrier.

    A and B are ones, so every element of the product is 8.
    """
    shared = build.define_local("beside", INT, 32)
    stored = store(shared, LANE, LANE)
    taken = load(shared, build.sub(31, LANE))
    out = store(OUT_OF_LANES, LANE, build.add(build.cast(build.gep(PRODUCT, 1), INT), taken))
    barrier = [build.barrier(stored)] if waits else []
    return program("beside", stored, PRODUCT, *barrier, out, group=(32, 1, 1))


def test_a_matrix_tile_is_made_by_all_and_is_no_barrier() -> None:
    for check in (0, 1):
        with Context(EMU_CHECK=check):
            assert run(passed_through(waits=True), 32) == list(range(39, 7, -1))
    refuses(passed_through(waits=False), "race: ", 32, EMU_CHECK=1)


def test_a_matrix_tile_that_part_of_a_group_reaches_is_a_divergence() -> None:
    opened = build.branch(build.less(LANE, 16))
    stored = store(OUT_OF_LANES, LANE, LANE)
    nodes = (ONES, ZEROS, opened, PRODUCT, build.close(opened), stored)
    says = (
        "divergent barrier: work-item (16, 0, 0) of group (0, 0, 0) is done, others of its group "
        "wait at matrix tile 1, of 0 barriers"
    )
    refuses(program("partly", *nodes, group=(32, 1, 1)), says, 32, EMU_ORDER="forward")


# --- memory ---------------------------------------------------------------------------------------


def test_handles_are_no_arrays_and_freed_memory_is_out_of_reach() -> None:
    memory = Device["GPU_EMU"].allocator
    whole = memory.allocate(64)
    part = memory.view(memory.view(whole, 16, 32), 8, 8)
    assert not hasattr(whole, "__array_interface__")
    memory.copy_in(part, memoryview(b"12345678"))
    actual = bytearray(40)
    memory.copy_out(memoryview(actual), whole)
    assert actual[24:32] == b"12345678"
    with pytest.raises(UserError, match="view: bytes 30 to 34 are outside the memory's 32"):
        memory.view(memory.view(whole, 16, 32), 30, 4)
    memory.free(whole)
    with pytest.raises(DeviceError, match="memory of 64 bytes is used after it was freed"):
        memory.copy_out(memoryview(actual), part)
    with pytest.raises(DeviceError, match="used after it was freed"):
        memory.free(whole)


def test_a_kernel_that_writes_behind_its_memory_is_found() -> None:
    """Write more elements than the parameter declares."""
    out = build.define_global(0, INT, ITEMS)
    kernel = program("long", store(out, build.add(ITEM, 1), ITEM), group=(ITEMS, 1, 1))
    buffer = fill("GPU_EMU", np.zeros(ITEMS), INT)
    with pytest.raises(DeviceError, match="bytes after an allocation of 32 bytes were written"):
        compile_program("GPU_EMU", kernel)([buffer])


def test_a_wrong_number_of_buffers_is_refused() -> None:
    kernel = compile_program("GPU_EMU", turned())
    with pytest.raises(DeviceError, match="turned takes 2 buffers, got 0"):
        kernel.launchable([], (1, 1, 1), (1, 1, 1))


def test_what_is_larger_than_a_gpu_has_is_refused() -> None:
    with pytest.raises(UserError, match=r"turned: takes 65540 bytes of shared memory.* 65536"):
        run(turned(elements=16385))
    kernel = compile_program("GPU_EMU", turned())
    buffers = [Buffer("GPU_EMU", TOTAL, INT) for _ in range(2)]
    handles = [buffer.handle for buffer in buffers]
    with pytest.raises(UserError, match=r"group \(33, 32, 1\): accepted are up to 1024 work-items"):
        kernel.launchable(handles, (1, 1, 1), (33, 32, 1))


def test_the_llvm_before_22_ends_a_coroutine_with_an_answer() -> None:
    """Expect an i1 from `llvm.coro.end` up to LLVM 21, and nothing from 22 on."""
    assert "= call i1 @llvm.coro.end(" in LlvmGpuRenderer(20).render(turned())
    assert "  call void @llvm.coro.end(" in LlvmGpuRenderer(22).render(turned())
