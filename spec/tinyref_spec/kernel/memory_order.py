"""Loads and stores of one element in one kernel, which no compiler may reorder.

Each iteration of a loop uses one element twice or more: at a known index, at an index from the
data, or at one of the iteration before. Every width of memory has its own instructions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from tinyref.device import Buffer
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.build import accumulator, close, update
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec import samples
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row, same_bytes
from tinyref_spec.device_under_test import DeviceUnderTest, compile_for
from tinyref_spec.kernel.programs import INT, at, loop, program, subtract
from tinyref_spec.measure import run_exact
from tinyref_spec.styles import Style

DTYPES = (dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float32)
# Types whose rows have all forms in the quick profile; others have those of `QUICK`.
WHOLE = (dtypes.uint8, dtypes.int32)
QUICK = ("load_store_load", "by_data", "constants")
COUNT = 24
# Neighbours are often equal: what is stored is then loaded in the same iteration or the next one.
PLACES = np.array([3, 3, 5, 5, 5, 0, 7, 7, 2, 0, 0, 9, 23, 23, 1, 1] + [4] * 8, np.int32)

# Slot 0 is read and written, slot 1 is the output, slot 2 the input, slot 3 has `PLACES`.
Memories = tuple[UOp, UOp, UOp, UOp]
# Returns the nodes of an iteration, and a function that does the same in arrays.
Body = Callable[[Memories, UOp], tuple[UOp, ...]]
Reference = Callable[[Array, Array, Array, int], None]


def _again(memory: UOp, index: UOp) -> UOp:
    """Return a second load of an element: a different node with the same address."""
    return build.load(at(memory, build.add(index, 0)))


def _load_store(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Use a value after a store to its element."""
    cell, out, data, _ = memories
    old = build.load(at(cell, i))
    return old, build.store(at(cell, i), build.load(at(data, i))), build.store(at(out, i), old)


def _load_store_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    out[i] = cell[i]
    cell[i] = data[i]


def _load_store_load(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Load an element before and after a store: the old value, then the new one."""
    cell, out, data, _ = memories
    old, new = build.load(at(cell, i)), _again(cell, i)
    put = build.store(at(cell, i), build.load(at(data, i)))
    return old, put, new, build.store(at(out, i), build.add(build.add(old, new), new))


def _load_store_load_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    out[i] = cell[i] + data[i] + data[i]
    cell[i] = data[i]


def _constants(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Use values after constants, also zero, were stored to their elements."""
    cell, out, _, _ = memories
    old, before = build.load(at(cell, i)), build.load(at(out, i))
    number, zero = (build.const(old.dtype, value) for value in (3, 0))
    stores = (build.store(at(cell, i), zero), build.store(at(out, i), number))
    return (
        old,
        before,
        *stores,
        build.store(at(out, subtract(COUNT - 1, i)), build.add(old, before)),
    )


def _constants_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    total = cell[i] + out[i]
    cell[i], out[i] = 0, 3
    out[COUNT - 1 - i] = total


def _store_load_store(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Store twice: the last value stays, and a load between gives the first."""
    cell, out, data, _ = memories
    value = build.load(at(data, i))
    first, between = build.store(at(cell, i), build.add(value, 3)), build.load(at(cell, i))
    return value, first, between, build.store(at(cell, i), value), build.store(at(out, i), between)


def _store_load_store_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    out[i] = data[i] + 3
    cell[i] = data[i]


def _two_stores(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Store twice: the second value stays; the output gets two values, the first of them later."""
    cell, out, data, _ = memories
    value = build.load(at(data, i))
    return (
        build.store(at(cell, i), value),
        build.store(at(out, subtract(COUNT - 1, i)), value),
        build.store(at(cell, i), build.add(value, 1)),
        build.store(at(out, i), build.add(value, 2)),
    )


def _two_stores_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    cell[i] = data[i] + 1
    out[COUNT - 1 - i] = data[i]
    out[i] = data[i] + 2


def _exchange(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Exchange the values of two elements, twice for each pair."""
    cell, out, _, _ = memories
    mirrored = subtract(COUNT - 1, i)
    low, high = build.load(at(cell, i)), build.load(at(cell, mirrored))
    stores = (build.store(at(cell, i), high), build.store(at(cell, mirrored), low))
    return low, high, *stores, build.store(at(out, i), build.add(low, build.add(high, high)))


def _exchange_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    low, high = cell[i], cell[COUNT - 1 - i]
    out[i] = low + high + high
    cell[i], cell[COUNT - 1 - i] = high, low


def _by_data(memories: Memories, i: UOp) -> tuple[UOp, ...]:
    """Use indices from the data, so that equal ones are unknown before the launch."""
    cell, out, data, positions = memories
    here = build.load(at(positions, i))
    there = build.load(at(positions, build.mod(build.add(i, 1), COUNT)))
    old, put = build.load(at(cell, there)), build.store(at(cell, here), build.load(at(data, i)))
    new = _again(cell, there)
    return here, there, old, put, new, build.store(at(out, i), build.add(build.add(old, new), new))


def _by_data_of_arrays(cell: Array, out: Array, data: Array, i: int) -> None:
    here, there = PLACES[i], PLACES[(i + 1) % COUNT]
    old = cell[there]
    cell[here] = data[i]
    out[i] = old + cell[there] + cell[there]


FORMS: dict[str, tuple[Body, Reference]] = {
    "load_store": (_load_store, _load_store_of_arrays),
    "load_store_load": (_load_store_load, _load_store_load_of_arrays),
    "constants": (_constants, _constants_of_arrays),
    "store_load_store": (_store_load_store, _store_load_store_of_arrays),
    "two_stores": (_two_stores, _two_stores_of_arrays),
    "exchange": (_exchange, _exchange_of_arrays),
    "by_data": (_by_data, _by_data_of_arrays),
}


def _memories(dtype: DType) -> Memories:
    cell, out, data = (build.define_global(slot, dtype, COUNT) for slot in range(3))
    return cell, out, data, build.define_global(3, INT, COUNT)


def _looped(name: str, dtype: DType, body: Body) -> Program:
    memories, i = _memories(dtype), loop(COUNT, 0)
    return program(name, *memories, i, *body(memories, i), close(i))


def _inputs(dtype: DType) -> tuple[Array, Array, Array]:
    """Return old values of the cells and of the output, and the input: all numbers differ."""
    numbers = np.arange(COUNT)
    values = (numbers + 40, numbers * 3 + 7, numbers * 5 % 31 - 9 * (dtype is not dtypes.uint8))
    cell, out, data = (array.astype(numpy_dtype(dtype)) for array in values)
    return cell, out, data


def _run_form(name: str, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    body, reference = FORMS[name]
    cell, out, data = _inputs(dtype)
    new_cell, new_out = cell.copy(), out.copy()
    for i in range(COUNT):
        reference(new_cell, new_out, data, i)
    subject = _looped(name, dtype, body)
    return run_exact(case_id, device, subject, [cell, out, data, PLACES], [new_cell, new_out])


def _straight(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run without a loop: loads, stores of constants to the same elements, uses of the loads."""
    memories = _memories(dtype)
    cell, out, _, _ = memories
    old = [build.load(at(cell, index)) for index in range(4)]
    puts = [build.store(at(cell, index), build.const(dtype, index % 2)) for index in range(4)]
    uses = [
        build.store(at(out, index), build.add(old[index], old[3 - index])) for index in range(4)
    ]
    first, before, data = _inputs(dtype)
    changed, written = first.copy(), before.copy()
    changed[:4] = [0, 1, 0, 1]
    written[:4] = first[:4] + first[3::-1]
    subject = program("straight", *memories, *old, *puts, *uses)
    return run_exact(case_id, device, subject, [first, before, data, PLACES], [changed, written])


def _carried(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store in each iteration what the one before has loaded: all elements move up by one."""
    cell, out, data, positions = _memories(dtype)
    i, carried = loop(COUNT, 0), accumulator("carried", build.load(at(data, 0)))
    old = build.load(at(cell, i))
    steps = (old, build.store(at(cell, i), carried), build.store(at(out, i), old))
    # The old value is used after its element was overwritten.
    subject = program(
        "carried", *(cell, out, data, positions), carried, i, *steps, update(carried, old), close(i)
    )
    first, before, values = _inputs(dtype)
    moved = np.append(values[:1], first[:-1])
    return run_exact(case_id, device, subject, [first, before, values, PLACES], [moved, first])


def _strided(stride: int, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store, then load the same element and its neighbour, every `stride` elements."""
    memories, i = _memories(dtype), loop(COUNT // stride, 0)
    cell, out, data, _ = memories
    position = build.mul(i, stride)
    address = at(cell, position)
    put = build.store(address, build.load(at(data, position)))
    new, neighbour = build.load(address), build.load(at(cell, build.add(position, 1)))
    final = build.store(at(out, position), build.add(new, neighbour))
    subject = program("strided", *memories, i, position, put, new, neighbour, final, close(i))
    old, before, values = _inputs(dtype)
    changed, written = old.copy(), before.copy()
    positions = np.arange(COUNT // stride) * stride
    changed[positions] = values[positions]
    written[positions] = values[positions] + old[positions + 1]
    return run_exact(case_id, device, subject, [old, before, values, PLACES], [changed, written])


def _beside(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Use buffers that are views of one allocation, as close as their alignment allows."""
    alignment = max(device.capabilities.view_alignment, 8)
    subject = _looped("beside", dtype, _load_store_load)
    kernel = compile_for(device.name, subject, device.style or Style.FULL)
    arrays = [*_inputs(dtype), PLACES]
    starts, end = [], alignment
    for array in arrays:
        starts.append(end)
        end += array.nbytes + -array.nbytes % alignment
    old = samples.random_bits(dtypes.uint8, end + alignment, 1)
    expected = old.copy()
    for start, array in zip(starts, arrays, strict=True):
        for memory in (old, expected):
            memory[start : start + array.nbytes] = to_bits(array).view(np.uint8)
    cell, out, data = (
        expected[start : start + array.nbytes].view(array.dtype)
        for start, array in zip(starts[:3], arrays[:3], strict=True)
    )
    for i in range(COUNT):
        _load_store_load_of_arrays(cell, out, data, i)
    whole = Buffer(device.name, old.size, dtypes.uint8).copy_in(old.data)
    kernel(
        [
            whole.view(start, COUNT, slot_dtype)
            for start, slot_dtype in zip(starts, (dtype, dtype, dtype, INT), strict=True)
        ]
    )
    result = np.frombuffer(whole.copy_out(), np.uint8)
    return same_bytes(result, expected, "bytes of the allocation")


def _checks(dtype: DType) -> list[Check]:
    return [
        *(
            Check(
                name,
                functools.partial(_run_form, name, dtype),
                full_only=dtype not in WHOLE and name not in QUICK,
            )
            for name in FORMS
        ),
        Check("straight", functools.partial(_straight, dtype)),
        Check("carried", functools.partial(_carried, dtype)),
        Check("strided:2", functools.partial(_strided, 2, dtype)),
        Check("beside", functools.partial(_beside, dtype)),
    ]


def rows() -> Iterator[Row]:
    """Yield a row for each width of memory."""
    for dtype in DTYPES:
        yield make_row(
            f"kernel.program.order.{dtype.name}",
            f"Loads and stores of one {dtype.name} in one kernel happen in the order of the "
            "program.",
            clauses=("isa.load", "isa.store", "kernel.global"),
            rung=Rung.LOOP,
            op="STORE",
            dtype=dtype,
            uses=(dtype, INT),
            features=(f"native:{dtype.name}",),
            checks=functools.partial(_checks, dtype),
            advice="look at what moves loads and stores: a load must stay before a store to its "
            "element, even if its value is used later",
        )
