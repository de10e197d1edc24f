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

from tinyref.dtype import DType, dtypes
from tinyref_spec.bits import Array
from tinyref_spec.case import Failure, Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel_case.buffers import buffer_from_json

FILE = Path(__file__).parent.parent / "fuzzed" / "programs.jsonl"
# Stands for the name of the device in the text of a program.
DEVICE = "DEVICE"
_CAPTURES = "@TinyJit"
# What stands before a program in a script of its own.
HEAD = """import numpy as np

from tinyref import Tensor, TinyJit, Variable

def check(tensor):
    print(tensor.numpy().tolist())

"""


@dataclass(frozen=True)
class Read:
    """What a program reads: an array, and by how much each of its elements may be off."""

    values: Array
    bound: float


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
def programs(file: Path = FILE) -> tuple[Fuzzed, ...]:
    """All of them, in the order of the file."""
    return tuple(_fuzzed(json.loads(line)) for line in file.read_text("utf-8").splitlines())


def _fuzzed(item: dict[str, Any]) -> Fuzzed:
    reads = tuple(
        Read(buffer_from_json(each["values"], "reads").reshape(each["shape"]), each["bound"])
        for each in item["reads"]
    )
    used = tuple(getattr(dtypes, name) for name in item["dtypes"])
    return Fuzzed("\n".join(item["text"]), reads, used)


def run(fuzzed: Fuzzed, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Whether a program reads what it owes on the device."""
    from tinyref import Tensor, TinyJit, Variable

    text = fuzzed.text_for(device.name)
    found: list[Array] = []
    names = {"np": np, "Tensor": Tensor, "TinyJit": TinyJit, "Variable": Variable}
    names["check"] = lambda tensor: found.append(np.array(tensor.numpy()))
    exec(compile(text, "<program>", "exec", dont_inherit=True), names)
    compared = 0
    for number, (read, got) in enumerate(zip(fuzzed.reads, found, strict=True)):
        compared += max(read.values.size, 1)
        if problem := _problem(read, got):
            owed = f"\n# read {number} owes {read.values.tolist()}\n"
            details = Failure(script=HEAD + text + owed)
            return Measurement(False, f"read {number}: {problem}", compared, details=details)
    return Measurement(True, "", compared)


def _problem(read: Read, found: Array) -> str:
    """Why an array is not what is owed, or nothing; zeros of either sign are equal, as NaNs are."""
    wanted = read.values
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype} {found.shape} instead of {wanted.dtype} {wanted.shape}"
    with np.errstate(all="ignore"):
        good = (found == wanted) | ((found != found) & (wanted != wanted))
        if read.bound:
            good |= np.abs(found.astype(np.float64) - wanted.astype(np.float64)) <= read.bound
    wrong = np.flatnonzero(~good.reshape(-1))
    if not wrong.size:
        return ""
    place = int(wrong[0])
    got, want = found.reshape(-1)[place], wanted.reshape(-1)[place]
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
            ("system.fuzzed",),
            rung,
            name,
            "",
            "the same values, or within a bound that the evaluator derives",
            kernel_needs(),
            functools.partial(_checks, name == "captured"),
        )


def _checks(captures: bool) -> Iterator[Check]:
    alike = [each for each in programs() if each.captures == captures]
    for number, fuzzed in enumerate(alike):
        needs = kernel_needs(*fuzzed.dtypes)
        yield Check(f":{number}", functools.partial(run, fuzzed), needs=needs)
