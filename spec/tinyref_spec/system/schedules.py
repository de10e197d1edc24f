"""Graphs that a schedule cannot take as they are: it folds, splits, stores or goes on from parts.

Sums over elements that are all equal, long reduces whose length divides badly, reduces of reduces,
more inputs and outputs than a kernel has, parts that need what an assignment overwrites, one number
with several values, and schedules of which only the first items ran.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, judge_pairs, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.samples import integers

EXACT = "Equal in every bit: small integers."
Pairs = Iterator[tuple[str, object, object]]
# A prime above the length from which a reduce is split in two: it divides into no equal parts.
LONG = 32_771
# More than many devices bind to one kernel, and more results than are written together.
INPUTS, OUTPUTS = 40, 12


# --- reduces --------------------------------------------------------------------------------------


def _repeated(device: DeviceUnderTest) -> Pairs:
    """Reduces over axes along which all elements are equal, by themselves and beside others."""
    from tinyref import Tensor

    whole, other = integers(3, 4), integers(3, 5, 4, seed=1)
    x = Tensor(whole, device=device.name).realize()
    spread, wide = x.reshape(3, 1, 4).expand(3, 5, 4), np.repeat(whole[:, None], 5, 1)
    yield "a sum, and one of others", spread.sum((1, 2)), wide.sum((1, 2))
    yield "turned", spread.permute(1, 2, 0).flip(0).sum(0), whole.T * 5
    columns = spread.pad(((1, 0), (0, 2), (0, 0)))
    highest = np.pad(np.maximum(whole, 0), ((1, 0), (0, 0)))
    yield "padded beside and along it", columns.max(1), highest
    mixed = spread * Tensor(other, device=device.name)
    yield "with others", mixed.sum(1), (wide * other).sum(1)
    is_odd = spread.int() % 2 != 0
    yield "numbers of truth", is_odd.sum(1), (whole % 2 != 0) * 5
    # Loops that reduce one row after the other are joined, which the outer sum is not along.
    row = Tensor(whole[0], device=device.name).realize()
    again = (row.sum().reshape(1).expand(4).pad(((1, 0),)) + 1)[1:].sum()
    yield "of a sum, times what it sums", again * row, (whole[0].sum() + 1) * 4 * whole[0]
    number = Tensor(np.ones((), np.float32), device=device.name).realize()
    number.assign(3.0)
    power = number.expand(2, 1).prod(0)
    Tensor.realize(power, number)
    yield "of a constant that is written beside it", power, np.full(1, 9, np.float32)


def _long(device: DeviceUnderTest) -> Pairs:
    """Long reduces whose last part is padded with what changes no result."""
    from tinyref import Tensor

    whole = integers(LONG)
    x = Tensor(whole, device=device.name).realize()
    yield "a sum", x.sum(), whole.sum()
    yield "a maximum below zero", (x - 9).max(), whole.max() - 9
    yield "a product", (x < 0).where(-1, 1).prod(), (-1) ** int((whole < 0).sum())


def _reduced_twice(device: DeviceUnderTest) -> Pairs:
    """Reduces of reduces with movement between, which become one or stay two."""
    from tinyref import Tensor

    whole = integers(4, 3, 2)
    x = Tensor(whole, device=device.name).realize()
    yield "turned around", x.sum(2).flip(0).sum(1), whole.sum((1, 2))[::-1]
    yield "repeated", x.sum(2).reshape(1, 4, 3).expand(2, 4, 3).sum(2), [whole.sum((1, 2))] * 2
    part = x.sum(2).permute(1, 0)[1:3]
    yield "a part, turned", part.sum(0), whole.sum(2).T[1:3].sum(0)
    padded = np.pad(whole.sum(2), ((0, 0), (1, 1)))
    yield "padded", x.sum(2).pad(((0, 0), (1, 1))).sum(1), padded.sum(1)
    yield "a maximum, padded", (x - 9).max(2).pad(((0, 0), (1, 0))).max(1), np.zeros(4)


# --- inputs, outputs, assignments -----------------------------------------------------------------


def _many(device: DeviceUnderTest) -> Pairs:
    """More inputs than a kernel may have, and more outputs than are written together."""
    from tinyref import Tensor

    arrays = [integers(3, 4, seed=number) for number in range(INPUTS)]
    given = [Tensor(array, device=device.name).realize() for array in arrays]
    total = functools.reduce(lambda x, y: y - x, given)
    wanted = functools.reduce(lambda x, y: y - x, arrays)
    yield "all inputs", total.sum(1), wanted.sum(1)
    outputs = [given[0] + number for number in range(OUTPUTS)]
    Tensor.realize(*outputs)
    for number, output in enumerate(outputs):
        yield f"output {number}", output, arrays[0] + number


def _old_and_new(device: DeviceUnderTest) -> Pairs:
    """What is computed of elements before an assignment, used with what is computed afterwards."""
    from tinyref import Tensor

    whole = integers(4, 3)
    x = Tensor(whole, device=device.name).realize()
    both, sums = x.pad(((2, 0), (0, 0))), x.sum(1, keepdim=True)
    both[1:5].assign(x)
    x.assign(x + 10)
    both[:4].assign(x)
    after = x.flip(1) - sums
    wanted = whole + 10
    yield "old and new", both, np.concatenate([wanted, whole[3:], whole[3:]])
    yield "a sum of old ones, and new", after, wanted[:, ::-1] - whole.sum(1, keepdims=True)
    yield "the new ones", x, wanted


def _one_number_twice(device: DeviceUnderTest) -> Pairs:
    """A cache is written at one place after the other before anybody reads any of it."""
    from tinyref import Tensor, Variable

    lines, wanted = integers(4, 3), np.zeros((6, 3), np.float32)
    cache = Tensor(wanted, device=device.name).realize()
    place = Variable("place", 0, 5)
    for at, line in zip((2, 0, 5, 2), lines, strict=True):
        bound = place.bind(at)
        cache[bound : bound + 1] = Tensor(line[None], device=device.name)
        wanted[at] = line
    yield "the cache", cache, wanted
    x = Tensor(lines, device=device.name).realize()
    size = Variable("size", 1, 4)
    sums = [x[: size.bind(number)].sum(0) for number in (3, 1, 4)]
    wanted = lines[:3].sum(0) + lines[0] * lines.sum(0)
    yield "sums of several sizes", sums[0] + sums[1] * sums[2], wanted


# --- rows -----------------------------------------------------------------------------------------

FORMS: Mapping[str, Callable[[DeviceUnderTest], Pairs]] = {
    "repeated": _repeated,
    "long": _long,
    "reduced_twice": _reduced_twice,
    "many": _many,
    "old_and_new": _old_and_new,
    "one_number_twice": _one_number_twice,
}


def _measure(
    form: Callable[[DeviceUnderTest], Pairs], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The tensors of a form, as arrays, against what numpy gives."""
    return judge_pairs(
        (what, found.numpy() if hasattr(found, "numpy") else found, wanted)
        for what, found, wanted in form(device)
    )


def rows() -> Iterator[Row]:
    """One row: a case for each kind of graph."""
    yield make_row(
        "system.schedule.float32",
        "Graphs that are folded, split or stored in between have their values.",
        ("system.schedule",),
        Rung.JIT,
        "schedule",
        "float32",
        EXACT,
        kernel_needs(dtypes.float32, dtypes.int32, dtypes.bool),
        lambda: [Check(name, functools.partial(_measure, form)) for name, form in FORMS.items()],
    )
