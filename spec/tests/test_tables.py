"""The tables themselves: healthy devices pass them, and every comparing case can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from run_rows import failures
from simulated_device import ReferenceDevice

from tinyref import Tensor
from tinyref.dtype import from_numpy_dtype
from tinyref.errors import DeviceError, UserError
from tinyref.uops.program import Program
from tinyref_spec import catalogue
from tinyref_spec.bits import Array, bits_dtype
from tinyref_spec.case import Case, Profile, Row
from tinyref_spec.catalogue import all_rows
from tinyref_spec.device_under_test import DeviceUnderTest, Runnable
from tinyref_spec.tensor import run
from tinyref_spec.tensor.rows import FUNCTIONS

AST_LEVELS = ("isa", "kernel", "memory")
# Rows whose programs go to the renderer as they stand, by parts of their ids.
PROGRAMS = (
    ".program.",
    *(
        f"isa.{name}."
        for name in ("pair", "idiom", "divisor", "cast_chain", "chain", "comparison", "branch")
    ),
)


def has_programs(row: Row) -> bool:
    return any(part in row.id for part in PROGRAMS)


def sample_of(row: Row) -> list[Case]:
    """Return the first case of each kind: `special:0`, `edge:0`, `exact...`."""
    samples: dict[str, Case] = {}
    for case in row.cases(Profile.QUICK):
        name = case.id.removeprefix(row.id).removeprefix(".")
        samples.setdefault(name.partition(":")[0].partition(".")[0], case)
    return list(samples.values())


def every_nth(count: int, *levels: str) -> list[Row]:
    rows = [row for row in all_rows() if row.level in levels]
    return rows[::count]


def failing(rows: list[Row], device: DeviceUnderTest) -> dict[str, str]:
    return failures(device, [case for row in rows for case in sample_of(row)])


# The rows are in this many interleaved parts; one is quick.
STEPS = 5


@pytest.mark.long
@pytest.mark.sampled(STEPS)
@pytest.mark.parametrize("start", range(STEPS))
def test_the_evaluator_passes_the_rows_of_kernels(start: int) -> None:
    """Test the semantics that folding, the evaluator and the interpreter share."""
    rows = [row for row in all_rows() if row.level in AST_LEVELS and not has_programs(row)]
    casts = [row for row in rows if row.op == "CAST"]
    others = [row for row in rows if row.op != "CAST"]
    rows = [*others[start::STEPS], *casts[start * 3 :: STEPS * 3]]
    assert failing(rows, ReferenceDevice()) == {}


@pytest.mark.long
@pytest.mark.sampled(STEPS)
@pytest.mark.parametrize("start", range(STEPS))
def test_the_interpreter_passes_a_sample_of_all_rows(
    interpreter: DeviceUnderTest, start: int
) -> None:
    rows = [*every_nth(9, *AST_LEVELS), *every_nth(23, "tensor")]
    rows += filter(has_programs, all_rows())
    assert failing(rows[start::STEPS], interpreter) == {}


# --- one wrong bit must be seen ------------------------------------------------------------------


def flipped(values: Array) -> Array:
    """Flip one bit of every element: the highest exponent bit, or the low bit of others."""
    dtype = from_numpy_dtype(values.dtype)
    bit = 1 << (dtype.bits - 2) if dtype.is_float else 1
    raw = np.ascontiguousarray(values).view(bits_dtype(dtype)).copy()
    raw ^= np.array(bit, raw.dtype)
    return raw.view(values.dtype)


def one_flipped(values: Array) -> Array:
    """Flip a bit of the last element only: rows must check the tail."""
    corrupt = values.copy()
    if corrupt.size:
        corrupt[-1:] = flipped(corrupt[-1:])
    return corrupt


class CorruptDevice(ReferenceDevice):
    """Computes rightly and gives a wrong last result that has elements."""

    def __init__(self, corrupt: Callable[[Array], Array]) -> None:
        super().__init__()
        self.corrupt = corrupt

    def run(self, *args: Any, **named: Any) -> list[Array]:
        outputs = super().run(*args, **named)
        last = max((index for index, values in enumerate(outputs) if values.size), default=0)
        outputs[last] = self.corrupt(outputs[last])
        return outputs

    def program(self, kernel: Runnable) -> Program:
        # Every case is to fail: without a program none is described at length.
        raise UserError("nothing is compiled")


class CorruptInterpreter(DeviceUnderTest):
    """Runs programs rightly and gives wrong results."""

    def __init__(self) -> None:
        super().__init__("PYTHON")

    def run(self, *args: Any, **named: Any) -> list[Array]:
        return [flipped(values) for values in super().run(*args, **named)]


def passing(rows: list[Row], device: DeviceUnderTest) -> list[str]:
    """Return the cases that a broken device passes: there must be none."""
    cases = [case for row in rows for case in sample_of(row)]
    required = [case for case in cases if case.needs.unmet(device.capabilities) is None]
    problems = failures(device, required)
    return [case.id for case in required if case.id not in problems]


def ast_rows(*levels: str) -> list[Row]:
    """Return the rows whose kernels go through `run`; others: test_limits.py, faulty devices."""
    host = ("memory.open", "memory.copy", "memory.view", "memory.many", "memory.refuse")
    own = ("memory.order", "memory.wait", "kernel.offset", "kernel.far", "kernel.together")
    return [
        row
        for row in all_rows()
        if row.level in levels and not has_programs(row) and not row.id.startswith(host + own)
    ]


@pytest.mark.long
@pytest.mark.parametrize("every", [21, pytest.param(1, marks=pytest.mark.slow)])
def test_comparing_cases_see_flipped_bits(every: int) -> None:
    assert passing(ast_rows(*AST_LEVELS)[::every], CorruptDevice(flipped)) == []


@pytest.mark.long
@pytest.mark.sampled(STEPS)
@pytest.mark.parametrize("start", range(STEPS))
def test_exact_cases_see_one_flipped_bit_in_the_last_element(start: int) -> None:
    passed = passing(ast_rows("kernel", "memory")[start::STEPS], CorruptDevice(one_flipped))
    assert passed == []
    # Of these the last lane of a batch may be unspecified.
    partial = ("IDIV", "MOD", "SHL", "SHR", "CAST")
    rows = [row for row in ast_rows("isa") if row.op not in partial]
    assert passing(rows[start * 7 :: STEPS * 7], CorruptDevice(one_flipped)) == []


@pytest.mark.slow
def test_program_rows_see_a_flipped_bit() -> None:
    rows = [*filter(has_programs, all_rows())]
    passed = passing(rows, CorruptInterpreter())
    # These launch kernels themselves; faulty devices show that they can fail.
    own = (".constants.alternating", ".constants.released", ".beside")
    assert [case_id for case_id in passed if not case_id.endswith(own)] == []


@pytest.mark.long
def test_tensor_rows_see_a_flipped_bit(
    monkeypatch: pytest.MonkeyPatch, interpreter: DeviceUnderTest
) -> None:
    to_numpy = Tensor.numpy

    def wrong(self: Any) -> Array:
        # A tensor on several devices reads another tensor: once is enough.
        with monkeypatch.context() as inner:
            inner.setattr(Tensor, "numpy", to_numpy)
            array = np.asarray(to_numpy(self))
        return flipped(array.reshape(-1)).reshape(array.shape)

    monkeypatch.setattr(Tensor, "numpy", wrong)
    rows = [row for row in every_nth(29, "tensor") if not row.id.endswith(".literal")]
    # What is read in Python and judged by `numpy` is flipped twice.
    reading = (".numpy(", ".tolist(", ".item(", ".data(", ".allclose(")
    twice = {
        function.name
        for function in FUNCTIONS
        for form in function.forms
        if any(call in form.expression for call in reading)
    }
    rows = [row for row in rows if row.op not in twice]
    assert passing(rows, interpreter) == []


@pytest.mark.long
def test_literal_rows_see_a_wrong_value(
    monkeypatch: pytest.MonkeyPatch, interpreter: DeviceUnderTest
) -> None:
    monkeypatch.setattr(Tensor, "tolist", lambda self: [[123.0]])
    monkeypatch.setattr(Tensor, "item", lambda self: 123.0)
    monkeypatch.setattr(Tensor, "numpy", lambda self: np.zeros((1,)))
    cases = catalogue.cases(Profile.QUICK, "tensor.special.literal")
    assert [case.id for case in cases if case.run(interpreter).passed] == []


@pytest.mark.long
def test_every_call_of_the_table_is_refused(interpreter: DeviceUnderTest) -> None:
    assert failures(interpreter, catalogue.cases(Profile.QUICK, "tensor.refuse.literal")) == {}


def explode(expression: str, names: object) -> None:
    raise DeviceError("PYTHON", "segmentation fault")


@pytest.mark.parametrize("evaluate", [lambda expression, names: 7, explode])
def test_a_call_that_is_not_refused_as_it_should_fails(
    evaluate: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
    interpreter: DeviceUnderTest,
) -> None:
    monkeypatch.setattr(run, "evaluate", evaluate)
    cases = catalogue.cases(Profile.QUICK, "tensor.refuse.literal.softmax")
    assert [case.run(interpreter).passed for case in cases] == [False]
