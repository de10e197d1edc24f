"""Tensor programs that a fuzzer made: views, assignments, gradients, captures, all in one.

Other rows have what somebody thought of. These are small programs, chosen for what of the compiler
and the schedule they reach and others do not; what each reads stands beside it in the file, by the
fuzzer's eager evaluator, which shares nothing with either.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyref.config import Context
from tinyref.dtype import DType, to_dtype
from tinyref.runtimes.reproducer import Wanted
from tinyref_spec.bits import Array
from tinyref_spec.case import Failure, Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel_case.buffers import buffer_from_json
from tinyref_spec.reproducer import program_script

FILE = Path(__file__).parent.parent / "fuzzed" / "programs.json"
# Stands for the name of the device in the text of a program.
DEVICE = "DEVICE"
_CAPTURES = "@TinyJit"


@dataclass(frozen=True, eq=False)
class Read:
    """What a program reads: each element is within `bound` of these."""

    elements: Array
    bound: float = 0.0

    def wanted(self, number: int) -> Wanted:
        """Return the same for a script in which it is the read of this number."""
        elements = self.elements.reshape(-1)
        ends = (elements, elements)
        if self.bound:
            wide = elements.astype(np.float64)
            ends = (wide - self.bound, wide + self.bound)
        places = range(elements.size)
        return Wanted(number, places, elements, bounds=ends, shape=self.elements.shape)


@dataclass(frozen=True)
class Fuzzed:
    """A program: Python that calls Tensor, with a call of `check` for each of `reads`."""

    text: str
    reads: tuple[Read, ...]
    dtypes: tuple[DType, ...]

    @property
    def captures(self) -> bool:
        """Whether it has a captured function."""
        return _CAPTURES in self.text

    def text_for(self, device: str) -> str:
        """What runs on a device."""
        return self.text.replace(repr(DEVICE), repr(device))


@functools.cache
def programs() -> tuple[Fuzzed, ...]:
    """All of them, in the order of the file."""
    return tuple(map(_fuzzed, json.loads(FILE.read_text(encoding="utf-8"))))


def _fuzzed(item: dict[str, Any]) -> Fuzzed:
    reads = tuple(
        Read(buffer_from_json(each["values"], "reads").reshape(each["shape"]), each["bound"])
        for each in item["reads"]
    )
    return Fuzzed("\n".join(item["text"]), reads, tuple(map(to_dtype, item["dtypes"])))


def run(fuzzed: Fuzzed, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Whether a program reads what it owes on the device."""
    from tinyref import Tensor, TinyJit, Variable

    text = fuzzed.text_for(device.name)
    found: list[Array] = []
    names = {"np": np, "Tensor": Tensor, "TinyJit": TinyJit, "Variable": Variable}
    names["check"] = lambda tensor: found.append(np.array(tensor.numpy()))
    with Context(JIT=1):
        exec(compile(text, "<program>", "exec", dont_inherit=True), names)
    compared = 0
    for number, (read, got) in enumerate(zip(fuzzed.reads, found, strict=True)):
        compared += max(read.elements.size, 1)
        if problem := mismatch(read, got):
            items = [each.wanted(place) for place, each in enumerate(fuzzed.reads)]
            script = program_script(case_id, device.name, text, items)
            details = Failure(script=script)
            return Measurement(False, f"read {number}: {problem}", compared, details=details)
    return Measurement(True, "", compared)


def mismatch(read: Read, found: Array) -> str:
    """Why an array is not what is to be read, or nothing.

    Zeros of both signs are equal: which one a maximum gives is not specified. So are NaNs.
    """
    wanted = read.elements
    if wanted.dtype != found.dtype:
        return f"{found.dtype.name} instead of {wanted.dtype.name}"
    if wanted.shape != found.shape:
        return f"shape {found.shape} instead of {wanted.shape}"
    if read.bound:
        # Differences that are no numbers are wrong too.
        distance = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        wrong = np.flatnonzero(~(distance <= read.bound))
    else:
        differs = wanted.reshape(-1) != found.reshape(-1)
        # What is no number is not even equal to itself.
        are_numbers = (wanted == wanted) | (found == found)
        wrong = np.flatnonzero(differs & are_numbers.reshape(-1))
    if not wrong.size:
        return ""
    place = int(wrong[0])
    got, want = found.reshape(-1)[place].item(), wanted.reshape(-1)[place].item()
    return f"element {place} of {wanted.size} is {got} instead of {want}"


def rows() -> Iterator[Row]:
    """A row of those that capture, and one of the others."""
    kinds = (
        ("captured", "Programs of a fuzzer with captured functions read what they owe.", Rung.JIT),
        ("eager", "Programs of a fuzzer read what they owe.", Rung.AUTOGRAD),
    )
    for name, sentence, rung in kinds:
        yield make_row(
            f"system.fuzzed.{name}",
            sentence,
            clauses=("system.fuzzed",),
            rung=rung,
            op=name,
            error_rule="the same values, or within a bound that the evaluator derives",
            checks=functools.partial(_checks, name == "captured"),
        )


def _checks(captures: bool) -> Iterator[Check]:
    alike = [each for each in programs() if each.captures == captures]
    for number, fuzzed in enumerate(alike):
        needs = kernel_needs(*fuzzed.dtypes)
        yield Check(f":{number}", functools.partial(run, fuzzed), needs=needs)
