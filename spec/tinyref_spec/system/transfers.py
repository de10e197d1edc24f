"""Rows of copies between two devices, both ways: bytes, views, order, tensors, captured functions.

The device under test copies to and from its partners: the next of its kind and the reference, or
the one that the run names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from tinyref.config import Context
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.runtimes.kernel import Kernel, compile_program
from tinyref.runtimes.red_zones import POISONS, GuardedBuffer, MemoryDamageError
from tinyref_spec import samples
from tinyref_spec.bits import to_bits
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, judge_pairs, make_row, same_bytes
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.memory import order

SIZES = (0, 1, 3, 16, 17, 255)
# First elements of views in their buffers: of the source, of the target.
OFFSETS = ((0, 1), (1, 0), (3, 3), (2, 5), (7, 64), (64, 7), (511, 100))
LARGE_BYTES = (1 << 22) + 5
HUGE_BYTES = 1 << 28
BLOCK_BYTES = (32_767, 32_769, 65_535, 65_536, 65_537, 131_073)
WORDS = 1 << 18
NOTHING_THERE = "there is no other device that runs kernels"

# Measures a copy from one device to another, by their names.
OneWay = Callable[[str, str], Measurement]


def _both_ways(check: OneWay, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Run a check from the device to each partner and back; the first failure counts."""
    return _with_partners(check, device, device.partners)


def _with_partners(
    check: OneWay, device: DeviceUnderTest, partners: tuple[str, ...]
) -> Measurement:
    total = Measurement(True, compared=1, observed="" if partners else NOTHING_THERE)
    for partner in partners:
        for origin, target in ((device.name, partner), (partner, device.name)):
            measured = check(origin, target)
            measured.compared += total.compared
            total = measured
            if not total.passed:
                total.message = f"from {origin} to {target}: {total.message}"
                total.fault = total.fault or "unequal-copies"
                return total
    return total


# --- bytes ----------------------------------------------------------------------------------------


def _bytes(dtype: DType, size: int, origin: str, target: str) -> Measurement:
    """Copy elements between red zones, out of a buffer whose other elements stay."""
    data = samples.random_bits(dtype, size + 64, size)
    held, there = Buffer(origin, data.size, dtype), GuardedBuffer(target, dtype, size)
    held.copy_in(to_bits(data).data)
    there.fill(POISONS[0])
    there.view.copy_from(held.view(32 * dtype.itemsize, size, dtype))
    try:
        compared = same_bytes(there.read(), data[32 : size + 32], f"{size} {dtype.name}")
    except MemoryDamageError as error:
        return Measurement(False, str(error), compared=1)
    if not compared.passed:
        return compared
    return same_bytes(np.frombuffer(held.copy_out(), data.dtype), data, "the source")


def _large(nbytes: int, origin: str, target: str) -> Measurement:
    return _bytes(dtypes.uint8, nbytes, origin, target)


def _blocks(origin: str, target: str) -> Measurement:
    """Copy blocks around 32 and 64 KiB, to and from offsets that are no multiples of a word."""
    compared = Measurement(True)
    for nbytes in BLOCK_BYTES:
        data = samples.random_bits(dtypes.uint8, nbytes + 7, nbytes)
        old = samples.random_bits(dtypes.uint8, nbytes + 7, nbytes + 1)
        source = Buffer(origin, data.size, dtypes.uint8).copy_in(data.data)
        there = Buffer(target, old.size, dtypes.uint8).copy_in(old.data)
        part = source.view(3, nbytes, dtypes.uint8)
        there.view(5, nbytes, dtypes.uint8).copy_from(part)
        expected = old.copy()
        expected[5 : nbytes + 5] = data[3 : nbytes + 3]
        arrived = np.frombuffer(there.copy_out(), np.uint8)
        compared = same_bytes(arrived, expected, f"{nbytes} bytes from 3 to 5")
        if not compared.passed:
            return compared
    return compared


def _view_of_view(buffer: Buffer, dtype: DType, offset: int, size: int) -> Buffer:
    """Return `size` elements from `offset` on, through a view that begins half as far."""
    half = offset // 2
    outer = buffer.view(half * dtype.itemsize, buffer.size - half, dtype)
    return outer.view((offset - half) * dtype.itemsize, size, dtype)


def _views(dtype: DType, offsets: tuple[int, int], origin: str, target: str) -> Measurement:
    """Copy a part of one buffer to a part of another, whose rest stays."""
    at_source, at_target = offsets
    held, old = samples.random_bits(dtype, 1024, 1), samples.random_bits(dtype, 1024, 2)
    source = Buffer(origin, 1024, dtype).copy_in(to_bits(held).data)
    there = Buffer(target, 1024, dtype).copy_in(to_bits(old).data)
    part = _view_of_view(source, dtype, at_source, 301)
    _view_of_view(there, dtype, at_target, 301).copy_from(part)
    expected = old.copy()
    expected[at_target : at_target + 301] = held[at_source : at_source + 301]
    for buffer, contents, what in ((there, expected, "the target"), (source, held, "the source")):
        values = np.frombuffer(buffer.copy_out(), numpy_dtype(dtype))
        judged = same_bytes(values, contents, what)
        if not judged.passed:
            return judged
    return judged


# --- order ----------------------------------------------------------------------------------------


def _short(device: str) -> Kernel:
    return compile_program(device, order.chain(order.FIRST_ITERATIONS))


def _word_pairs(*words: tuple[str, Buffer, int]) -> Measurement:
    return judge_pairs((what, order.number_in(buffer), number) for what, buffer, number in words)


def _after_launch(origin: str, target: str) -> Measurement:
    """Copy the result of a launch, launch on it there, and copy it back."""
    work, short = order.long_work(origin), _short(target)
    out, start = order.word(origin, 0), order.word(origin, 5)
    there, result = order.word(target, 0), order.word(target, 0)
    back = order.word(origin, 0)
    work.kernel([out, start])
    there.copy_from(out)
    short([result, there])
    back.copy_from(result)
    copied = order.after_iterations(5, work.iterations)
    further = order.after_iterations(copied, order.FIRST_ITERATIONS)
    return _word_pairs(
        ("the result of a launch before the copy", there, copied),
        ("the input of a launch after the copy", result, further),
        ("the value that came back", back, further),
    )


def _before_launch(origin: str, target: str) -> Measurement:
    """Check that a launch called before the copy reads the old contents."""
    work = order.long_work(target)
    out, there = order.word(target, 0), order.word(target, 9)
    work.kernel([out, there])
    there.copy_from(order.word(origin, 1))
    expected = order.after_iterations(9, work.iterations)
    return _word_pairs(
        ("the input of a launch before the copy", out, expected), ("the copied value", there, 1)
    )


def _both_busy(origin: str, target: str) -> Measurement:
    """Keep both devices busy, and copy what each computes to the other, several times."""
    ends = (origin, target)
    works = [order.long_work(name) for name in ends]
    kernels = [(work.kernel, _short(name)) for work, name in zip(works, ends, strict=True)]
    short = order.FIRST_ITERATIONS
    words = [order.word(name, number) for name, number in zip(ends, (3, 4), strict=True)]
    others = [order.word(name, 0) for name in ends]
    expected = [3, 4]
    for turn in range(3):
        counts = [short if turn else work.iterations for work in works]
        for number, pair in enumerate(kernels):
            pair[turn > 0]([others[number], words[number]])
        words[0].copy_from(others[1])
        words[1].copy_from(others[0])
        expected = [order.after_iterations(expected[end], counts[end]) for end in (1, 0)]
    return _word_pairs(
        ("the value that came to the first device", words[0], expected[0]),
        ("the value that came to the second device", words[1], expected[1]),
    )


def _overwritten(origin: str, target: str) -> Measurement:
    """Change the source after the copy was called, which must not reach the target."""
    numbers = np.arange(WORDS, dtype=np.uint32)
    source = Buffer(origin, WORDS, order.WORD).copy_in(numbers.data)
    there = Buffer(target, WORDS, order.WORD).copy_in(np.zeros_like(numbers).data)
    there.copy_from(source)
    # As near to the end as the alignment of views allows.
    alignment = Device[origin].capabilities.view_alignment
    index = WORDS - max(1, alignment // order.WORD.itemsize)
    last = source.view(index * order.WORD.itemsize, 1, order.WORD)
    _short(origin)([last, order.word(origin, 3)])
    source.view(0, index, order.WORD).copy_in(np.full(index, 77, np.uint32).data)
    expected = order.after_iterations(3, order.FIRST_ITERATIONS)
    copied = np.frombuffer(there.copy_out(), np.uint32)
    after = np.frombuffer(source.copy_out(), np.uint32)
    return judge_pairs(
        (
            ("the target", copied, numbers),
            ("the source after a copy", after[:index], np.full(index, 77)),
            ("the source after a launch", after[index], expected),
        )
    )


def _freed(origin: str, target: str) -> Measurement:
    """Free the source as soon as the copy was called, and use its memory for other things."""
    numbers = np.arange(WORDS, dtype=np.uint32)
    source = Buffer(origin, WORDS, order.WORD).copy_in(numbers.data)
    there = Buffer(target, WORDS, order.WORD)
    there.copy_from(source)
    del source
    others = [Buffer(origin, WORDS, order.WORD) for _ in range(3)]
    for other in others:
        other.copy_in(np.full(WORDS, 99, np.uint32).data)
    return judge_pairs([("the target", np.frombuffer(there.copy_out(), np.uint32), numbers)])


ORDERS: dict[str, OneWay] = {
    "after_launch": _after_launch,
    "before_launch": _before_launch,
    "both_busy": _both_busy,
    "overwritten": _overwritten,
    "freed": _freed,
}


# --- tensors --------------------------------------------------------------------------------------


def _there_and_back(jit: int, origin: str, target: str) -> Measurement:
    """Compute values, send them, compute there, and send them back, through views."""
    from tinyref import Tensor, TinyJit

    @TinyJit
    def there_and_back(x: Tensor) -> Tensor:
        away = (x.T * 2).to(target) + 1
        return away[1:].flip(0).to(origin) - 3

    def pairs() -> Iterator[tuple[str, object, object]]:
        for call in range(4):
            x = samples.integers(3, 4, seed=call)
            result = there_and_back(Tensor(x, device=origin)).numpy()
            yield f"call {call}", result, (x.T * 2 + 1)[1:][::-1] - 3

    with Context(JIT=jit):
        return judge_pairs(pairs())


PROGRAMS: dict[str, OneWay] = {
    "plain": functools.partial(_there_and_back, 0),
    "replay": functools.partial(_there_and_back, 1),
}


_WAITS = "look at what a copy between devices waits for, and at what waits for it, on both of them"
ORDER_TYPES = (order.WORD, dtypes.int32)
PROGRAM_TYPES = (dtypes.float32, dtypes.int32, dtypes.bool)


def _computed(
    check: OneWay, used: tuple[DType, ...], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Run a check with the partners that run kernels of the types it uses."""
    partners = tuple(
        name
        for name in device.partners
        if Device[name].capabilities.ops and all(map(Device[name].capabilities.supports, used))
    )
    return _with_partners(check, device, partners)


def _computed_checks(checks: dict[str, OneWay], used: tuple[DType, ...]) -> list[Check]:
    return [Check(name, functools.partial(_computed, act, used)) for name, act in checks.items()]


def _way_check(name: str, check: OneWay, full_only: bool = False) -> Check:
    return Check(name, functools.partial(_both_ways, check), full_only)


def _byte_checks(dtype: DType) -> list[Check]:
    return [_way_check(f"size:{size}", functools.partial(_bytes, dtype, size)) for size in SIZES]


def _view_checks(dtype: DType) -> list[Check]:
    return [
        _way_check(f"offsets:{first}_{second}", functools.partial(_views, dtype, (first, second)))
        for first, second in OFFSETS
    ]


def _row(
    name: str,
    dtype: str,
    sentence: str,
    checks: Callable[[], list[Check]],
    *used: DType,
    clauses: tuple[str, ...] = (),
    advice: str = "look at offsets, sizes and directions of copies between devices",
) -> Row:
    return make_row(
        f"system.transfer.{name}{dtype}",
        sentence,
        clauses=("system.transfer", *clauses),
        rung=Rung.JIT,
        op="transfer",
        dtype=dtype,
        uses=(*used,),
        checks=checks,
        advice=advice,
    )


def rows() -> Iterator[Row]:
    """Yield rows of copies between devices."""
    for dtype in dtypes.all:
        sentence = f"Bits of {dtype.name} arrive on another device unchanged, and no others."
        make = functools.partial(_byte_checks, dtype)
        yield _row("bytes.", dtype.name, sentence, make, clauses=("memory.red_zone",))
    for dtype in (dtypes.uint8, dtypes.float32, dtypes.float64):
        sentence = f"A part of a buffer of {dtype.name} arrives in a part of another."
        make = functools.partial(_view_checks, dtype)
        yield _row("view.", dtype.name, sentence, make, clauses=("memory.view",))
    yield _row(
        "large.",
        "uint8",
        "Large buffers arrive whole.",
        lambda: [
            _way_check("size:4MiB_and_5", functools.partial(_large, LARGE_BYTES)),
            _way_check("blocks", _blocks),
            _way_check("size:256MiB", functools.partial(_large, HUGE_BYTES), full_only=True),
        ],
    )
    yield _row(
        "order.",
        "uint32",
        "A copy to another device comes after earlier calls on both devices, and before later "
        "ones.",
        functools.partial(_computed_checks, ORDERS, ORDER_TYPES),
        *ORDER_TYPES,
        clauses=("device.order",),
        advice=_WAITS,
    )
    yield _row(
        "",
        "float32",
        "Values go from device to device and back, captured or not.",
        functools.partial(_computed_checks, PROGRAMS, PROGRAM_TYPES),
        *PROGRAM_TYPES,
        clauses=("tensor.copy",),
        advice=_WAITS,
    )
