"""Rows of the level `memory`: open, allocate, copy, views, gates, tails, stale outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from tinyref.capabilities import CORE_DTYPES, CORE_OPS
from tinyref.device import Buffer
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import DeviceError, TinyrefError, UserError
from tinyref.runtimes.red_zones import GUARD, MemoryDamageError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec import samples
from tinyref_spec.bits import to_bits
from tinyref_spec.case import CaseNeeds, Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row, same_bytes, sized_checks
from tinyref_spec.conditions import BY_NAME
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernels.named import copied, elementwise
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store
from tinyref_spec.measure import refusal, run_exact
from tinyref_spec.memory import order

# Sizes around powers of two, vector widths and group sizes, for which tails often fail.
TAILS = (1, 2, 3, 7, 31, 33, 127, 1000)
COPY_SIZES = (0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 257, 1000, 4096)
# Some devices make large copies differently, by pages or by words. These have no red zones,
# which would move the ends.
ODD_BYTES = (4099, 70_001)
# Around the sizes of staging buffers and the limit of 16 bits.
BLOCK_BYTES = (32_767, 32_768, 32_769, 49_153, 65_535, 65_536, 65_537, 98_305, 131_071, 131_073)
BLOCK_OFFSETS = (0, 1, 4093)
# Around 2 GiB and 4 GiB: a 32-bit offset, signed or unsigned, would reach the first part again.
FAR_OFFSETS = (0, (1 << 31) - 5, (1 << 32) - 30, (1 << 32) + 8)
OFFSETS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 63, 64, 100, 511, 70_001)
LARGE_BYTES = 1 << 24
HUGE_BYTES = 1 << 28
GATE_DTYPES = (dtypes.float32, dtypes.int32, dtypes.uint8, dtypes.float64, dtypes.float16)
NARROW_DTYPES = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
EXACT = Ulp(0).sentence
STATE = "look at what is stored from launch to launch: arguments, sizes, results"


def _opens(case_id: str, device: DeviceUnderTest) -> Measurement:
    backend = device.backend
    again = device.backend
    return Measurement(
        backend is again,
        "" if backend is again else "opening twice gives two devices",
        compared=1,
        observed=", ".join(f"{name} {text}" for name, text in backend.versions().items()),
    )


def _declares_core(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that a device that runs kernels declares the core dtypes and ops."""
    capabilities = device.capabilities
    if not capabilities.ops:
        return Measurement(True, compared=1, observed="runs no kernels")
    missing = sorted(
        [dtype.name for dtype in CORE_DTYPES if not capabilities.supports(dtype)]
        + sorted(CORE_OPS - capabilities.ops)
    )
    message = f"does not declare {', '.join(missing)}" if missing else ""
    return Measurement(not missing, message, compared=len(CORE_DTYPES) + len(CORE_OPS))


def _round_trip(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy random bits to the device and back; then other bits over them."""
    buffer = device.guarded(dtype, size)
    try:
        for seed in (size, size + 1):
            data = samples.random_bits(dtype, size, seed)
            buffer.fill(data)
            compared = same_bytes(buffer.read(), data, f"copy {seed - size} of {size} elements")
            if not compared.passed:
                return compared
    except MemoryDamageError as error:
        return Measurement(False, str(error), compared=1)
    compared.compared += 2 * GUARD
    return compared


def _views(dtype: DType, offset: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Write and read through a view: only its part changes, and only its part is read."""
    whole = samples.random_bits(dtype, max(1024, offset + 400), offset)
    part = samples.random_bits(dtype, 300, offset + 1000)
    base = Buffer(device.name, whole.size, dtype)
    base.copy_in(to_bits(whole).data)
    view = base.view(offset * dtype.itemsize, part.size, dtype)
    before = np.frombuffer(view.copy_out(), dtype=numpy_dtype(dtype))
    compared = same_bytes(before, whole[offset : offset + part.size], f"view at {offset}")
    if not compared.passed:
        return compared
    view.copy_in(to_bits(part).data)
    expected = whole.copy()
    expected[offset : offset + part.size] = part
    after = np.frombuffer(base.copy_out(), dtype=numpy_dtype(dtype))
    return same_bytes(after, expected, f"whole buffer after a write at {offset}")


def _two_buffers(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Fill two hundred buffers at once: none shares memory with another."""
    data = [samples.random_bits(dtypes.uint8, 64 + number, number) for number in range(200)]
    buffers = [Buffer(device.name, item.size, dtypes.uint8) for item in data]
    for buffer, item in zip(buffers, data, strict=True):
        buffer.copy_in(item.data)
    for number, (buffer, item) in enumerate(zip(buffers, data, strict=True)):
        compared = same_bytes(np.frombuffer(buffer.copy_out(), np.uint8), item, f"buffer {number}")
        if not compared.passed:
            return compared
    return Measurement(True, compared=sum(item.size for item in data))


def _large(nbytes: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)
    buffer = Buffer(device.name, nbytes, dtypes.uint8).copy_in(data.data)
    return same_bytes(np.frombuffer(buffer.copy_out(), np.uint8), data, f"{nbytes} bytes")


def _blocks(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy to and from a part of a buffer, with sizes around 32, 64 and 128 KiB, at odd offsets.

    The bytes before and after stay. The host memory begins at an odd address too.
    """
    compared = Measurement(True)
    for nbytes in BLOCK_BYTES:
        for offset in BLOCK_OFFSETS:
            old = samples.random_bits(dtypes.uint8, nbytes + offset + 67, nbytes)
            new = samples.random_bits(dtypes.uint8, nbytes + offset % 2, offset)[offset % 2 :]
            base = Buffer(device.name, old.size, dtypes.uint8).copy_in(old.data)
            part = base.view(offset, nbytes, dtypes.uint8).copy_in(new.data)
            expected = old.copy()
            expected[offset : offset + nbytes] = new
            where = f"{nbytes} bytes at {offset}"
            for buffer, contents in ((base, expected), (part, new)):
                compared = same_bytes(np.frombuffer(buffer.copy_out(), np.uint8), contents, where)
                if not compared.passed:
                    return compared
    return compared


def _far_views(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy through views of a buffer of more than 4 GiB, which is mostly only reserved."""
    size = 21
    whole = Buffer(device.name, FAR_OFFSETS[-1] + 4096, dtypes.uint8)
    try:
        whole.allocate()
    except DeviceError:
        return Measurement(True, compared=1, observed="not probed: no room for more than 4 GiB")
    views = [whole.view(offset, size, dtypes.uint8) for offset in FAR_OFFSETS]
    data = [samples.random_bits(dtypes.uint8, size, number) for number in range(len(views))]
    for view, held in zip(views, data, strict=True):
        view.copy_in(held.data)
    compared = Measurement(True)
    for view, held, offset in zip(views, data, FAR_OFFSETS, strict=True):
        arrived = np.frombuffer(view.copy_out(), np.uint8)
        compared = same_bytes(arrived, held, f"a view at {offset:,}")
        if not compared.passed:
            return compared
    return compared


def _measure_refusal(
    act: Callable[[DeviceUnderTest], object], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Check that `act` raises a UserError of one line."""
    try:
        got = act(device)
    except TinyrefError as error:
        return refusal(None, error, (UserError, DeviceError))
    return refusal(got, None, (UserError, DeviceError))


def _copy_too_little(device: DeviceUnderTest) -> object:
    return Buffer(device.name, 8, dtypes.float32).copy_in(memoryview(bytes(31)))


def _copy_too_much(device: DeviceUnderTest) -> object:
    return Buffer(device.name, 8, dtypes.float32).copy_in(memoryview(bytes(33)))


def _view_past_end(device: DeviceUnderTest) -> object:
    return Buffer(device.name, 8, dtypes.float32).view(4, 8, dtypes.float32)


def _view_before_start(device: DeviceUnderTest) -> object:
    return Buffer(device.name, 8, dtypes.float32).view(-4, 2, dtypes.float32)


REFUSALS: dict[str, Callable[[DeviceUnderTest], object]] = {
    "copy_too_little": _copy_too_little,
    "copy_too_much": _copy_too_much,
    "view_past_end": _view_past_end,
    "view_before_start": _view_before_start,
}


def _gated_load(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read a padded view: the buffer inside, 0 outside."""
    tracker = shaped(size).pad(((2, 3),))
    kernel = copied(dtype, tracker, size)
    data = samples.random_bits(dtype, size, size)
    wide = np.pad(data, (2, 3))
    return run_exact(case_id, device, kernel, [None, data], [wide])


def _widened_load(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Read a padded view of a narrow type as int32, which shows the rest of a register."""
    tracker = shaped(size).pad(((2, 3),))
    wide = build.cast(load(1, dtype, tracker, size), dtypes.int32)
    data = samples.random_bits(dtype, size, size + 1)
    # Both ends of the type are always there: a sign bit, and none.
    data[0], data[-1] = dtype.minimum, dtype.maximum
    expected = np.pad(data.astype(np.int32), (2, 3))
    return run_exact(case_id, device, kernel_of(wide, size + 5), [None, data], [expected])


# Single bits, all bits, some bits: any byte except 0 is true.
_BYTES_OF_BOOLS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 255, 254, 3, 0)


def _bools_of_bytes(form: str, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run a kernel over bytes that are read as bools: copied, negated, or as a choice."""
    data = np.array(_BYTES_OF_BOOLS, np.uint8)
    truth, size = data != 0, data.size
    loaded = load(1, dtypes.bool, (size,))
    seven, nine = build.const(dtypes.int32, 7), build.const(dtypes.int32, 9)
    value, expected = {
        "copied": (loaded, truth),
        "turned": (build.not_equal(loaded, True), ~truth),
        "chosen": (build.where(loaded, seven, nine), np.where(truth, 7, 9).astype(np.int32)),
    }[form]
    return run_exact(
        case_id, device, kernel_of(value, size), [None, data.view(np.bool_)], [expected]
    )


def _far_load(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Load with a mask that is off for all positions but the first, which lie far outside."""
    tracker = ShapeTracker((View((64,), (1 << 24,), 0, ((0, 1),)),))
    kernel = copied(dtype, tracker, 1)
    data = samples.moderate(dtype, 1, 5)
    expected = np.zeros(64, dtype=data.dtype)
    expected[0] = data[0]
    return run_exact(case_id, device, kernel, [None, data], [expected])


def _gated_store(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store through a padded view: the valid part is written; the rest would hit the red zones."""
    tracker = shaped(size).pad(((2, 3),))
    value = load(1, dtype, (size + 5,))
    kernel = build.sink(store(0, value, tracker))
    data = samples.random_bits(dtype, size + 5, size)
    return run_exact(case_id, device, kernel, [None, data], [data[2 : size + 2]])


def _partial_store(dtype: DType, size: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store with a mask into a longer buffer: the elements outside of the mask stay."""
    whole = shaped(size)
    middle = whole.shrink(((size // 3, size - size // 3),))
    # Padded to full size again: what was cut off is masked.
    tracker = middle.pad(((size // 3, size // 3),))
    kernel = build.sink(store(0, load(1, dtype, (size,)), tracker, size))
    old = samples.random_bits(dtype, size, 1)
    new = samples.random_bits(dtype, size, 2)
    expected = old.copy()
    expected[size // 3 : size - size // 3] = new[size // 3 : size - size // 3]
    return run_exact(case_id, device, kernel, [old, new], [expected])


def _plus_one(x: UOp) -> UOp:
    return build.add(x, 1)


def _relaunch(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Launch a kernel three times: each launch gives results of its own inputs."""
    kernel = elementwise(_plus_one, (dtype,), 16)
    for seed in (1, 2, 3):
        data = samples.small_integers(dtype, 16, seed, 50)
        expected = (data + 1).astype(data.dtype)
        measured = run_exact(case_id, device, kernel, [None, data], [expected])
        if not measured.passed:
            measured.message = f"launch {seed}: {measured.message}"
            return measured
    return measured


def _measure_untouched_ends(
    dtype: DType, size: int, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Run a kernel on the middle `size` elements of its buffers: both ends stay."""
    tracker = shaped(size + 64).shrink(((32, size + 32),))
    value = build.add(load(1, dtype, tracker, size + 64), 1)
    kernel = build.sink(store(0, value, tracker, size + 64))
    old = samples.small_integers(dtype, size + 64, 3)
    data = samples.small_integers(dtype, size + 64, 4)
    expected = old.copy()
    expected[32 : size + 32] = (data + 1)[32 : size + 32]
    return run_exact(case_id, device, kernel, [old, data.astype(old.dtype)], [expected])


def _capability(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that a declared type works, and that others are refused with a clear error."""
    declared = device.capabilities.supports(dtype)
    kernel = copied(dtype, shaped(16))
    data = samples.moderate(dtype, 16, 1)
    if declared:
        return run_exact(case_id, device, kernel, [None, data], [data])
    try:
        got = device.run(kernel, [None, data])
    except TinyrefError as error:
        return refusal(None, error, (UserError, DeviceError))
    return refusal(got, None, (UserError, DeviceError))


def _host_rows() -> Iterator[Row]:
    yield make_row(
        "memory.open",
        "The device opens once, and declares what every device must have.",
        clauses=("memory.open",),
        rung=Rung.OPEN,
        op="OPEN",
        needs=CaseNeeds(),
        checks={"opens": _opens, "core": _declares_core},
    )
    for dtype in dtypes.all:
        yield make_row(
            f"memory.copy.{dtype.name}",
            f"Bits of {dtype.name} copied to the device come back unchanged, between red zones.",
            clauses=("memory.copy", "memory.allocate", "memory.red_zone"),
            rung=Rung.MEMORY,
            op="COPY",
            dtype=dtype.name,
            needs=CaseNeeds(),
            checks=functools.partial(sized_checks, _round_trip, dtype, COPY_SIZES),
            advice="look at offsets, sizes and directions of copies, and at what they wait for",
        )
    for dtype in (dtypes.uint8, dtypes.float32, dtypes.float64):
        yield make_row(
            f"memory.view.{dtype.name}",
            f"A view is a part of its buffer, at any offset in {dtype.name} elements.",
            clauses=("memory.view",),
            rung=Rung.MEMORY,
            op="COPY",
            dtype=dtype.name,
            needs=CaseNeeds(),
            checks=functools.partial(sized_checks, _views, dtype, OFFSETS, "offset"),
            advice="look at the offset of a view, and at how copies use it",
        )
    yield make_row(
        "memory.many",
        "Buffers do not share memory, and large ones are whole.",
        clauses=("memory.allocate",),
        rung=Rung.MEMORY,
        op="COPY",
        dtype="uint8",
        needs=CaseNeeds(),
        checks=lambda: [
            Check("two_hundred", _two_buffers),
            Check("large:16MiB", functools.partial(_large, LARGE_BYTES)),
            *(Check(f"odd:{nbytes}", functools.partial(_large, nbytes)) for nbytes in ODD_BYTES),
            Check("blocks", _blocks),
            Check("far", _far_views),
            Check("large:256MiB", functools.partial(_large, HUGE_BYTES), full_only=True),
        ],
        advice="look at what allocate returns, and at sizes of copies",
    )
    yield make_row(
        "memory.refuse",
        "Copies and views that do not fit their buffer are refused.",
        clauses=("memory.refuse",),
        rung=Rung.MEMORY,
        op="COPY",
        dtype="float32",
        needs=CaseNeeds(),
        error_rule="Refused with one clear line.",
        checks=lambda: [
            Check(name, functools.partial(_measure_refusal, act)) for name, act in REFUSALS.items()
        ],
    )


def _kernel_rows() -> Iterator[Row]:
    yield make_row(
        "memory.bytes.bool",
        "A bool in memory is a byte: any except 0 is true, and kernels write 0 or 1.",
        clauses=("memory.bool", "isa.load", "isa.store"),
        rung=Rung.ALU,
        op="LOAD",
        dtype=dtypes.bool,
        uses=(dtypes.bool, dtypes.int32),
        checks=lambda: [
            Check(form, functools.partial(_bools_of_bytes, form))
            for form in ("copied", "turned", "chosen")
        ],
        advice="a bool in memory is a byte: any except 0 is true, and 0 or 1 is stored",
    )
    for dtype in NARROW_DTYPES:
        yield make_row(
            f"memory.gate.widened.{dtype.name}",
            f"The result of a gated LOAD of {dtype.name} is the same number in a wider type.",
            clauses=("isa.load", "memory.gate.load", "isa.cast"),
            rung=Rung.GATE,
            op="LOAD",
            dtype=dtype,
            uses=(dtype, dtypes.int32),
            checks=functools.partial(sized_checks, _widened_load, dtype, (7, 33)),
            advice="loads with a gate extend the sign of a narrow type as plain ones do",
        )
    for dtype in GATE_DTYPES:
        yield make_row(
            f"memory.gate.load.{dtype.name}",
            f"A gated-off LOAD of {dtype.name} gives the alternative and touches no memory.",
            clauses=("isa.load", "memory.gate.load", "kernel.view"),
            rung=Rung.GATE,
            op="LOAD",
            dtype=dtype,
            checks=functools.partial(_load_checks, dtype),
            advice=BY_NAME["gate"].advice,
        )
        yield make_row(
            f"memory.gate.store.{dtype.name}",
            f"A gated-off STORE of {dtype.name} writes nothing.",
            clauses=("isa.store", "memory.gate.store", "memory.red_zone"),
            rung=Rung.GATE,
            op="STORE",
            dtype=dtype,
            checks=functools.partial(_store_checks, dtype),
            advice=BY_NAME["gate"].advice,
        )
        yield make_row(
            f"memory.launch.{dtype.name}",
            f"Each launch writes all of its {dtype.name} output, from its own inputs, and no more.",
            clauses=("memory.launch", "memory.red_zone"),
            rung=Rung.ONE_ALU,
            op="STORE",
            dtype=dtype,
            checks=functools.partial(_launch_checks, dtype),
            advice=STATE,
        )
        yield make_row(
            f"memory.launch.elements.{dtype.name}",
            f"A launch over many {dtype.name} elements writes those and leaves others alone.",
            clauses=("memory.launch", "memory.red_zone"),
            rung=Rung.INDEX,
            op="STORE",
            dtype=dtype,
            checks=functools.partial(
                sized_checks, _measure_untouched_ends, dtype, (33, 127), "middle"
            ),
            advice=STATE,
        )
    for dtype in dtypes.all:
        yield make_row(
            f"memory.capability.{dtype.name}",
            f"{dtype.name} works if it is declared, and is refused if it is not.",
            clauses=("device.capability",),
            rung=Rung.ONE_ALU,
            op="LOAD",
            dtype=dtype.name,
            needs=CaseNeeds(features=frozenset({"kernels"})),
            checks={"both_ways": functools.partial(_capability, dtype)},
        )


def _load_checks(dtype: DType) -> list[Check]:
    far = Check("far:64", functools.partial(_far_load, dtype, 64))
    return [*sized_checks(_gated_load, dtype, TAILS), far]


def _store_checks(dtype: DType) -> list[Check]:
    partial = sized_checks(_partial_store, dtype, (9, 33, 1000), "partial")
    return [*sized_checks(_gated_store, dtype, TAILS), *partial]


def _launch_checks(dtype: DType) -> list[Check]:
    middle = sized_checks(_measure_untouched_ends, dtype, (1, 7), "middle")
    return [Check("again", functools.partial(_relaunch, dtype)), *middle]


def rows() -> Iterator[Row]:
    """Yield all rows of the level `memory`."""
    yield from _host_rows()
    yield from _kernel_rows()
    yield from order.rows()
