"""What the script of a failure imports: it computes something again and checks the result.

A child of the script computes, so that a crash and a hang are answers too: the script exits with 0
where all is right and with 1 where it is not, as `git bisect run` wants it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tinyref import config
from tinyref.errors import TinyrefError
from tinyref.runtimes.kernel import forget_kernels
from tinyref.runtimes.red_zones import POISONS
from tinyref.runtimes.trace import MAX_SECONDS, GuardedKernel, first_difference, ulps_apart
from tinyref.uops.program import Program
from tinyref.workers.processes import describe_exit

Array = npt.NDArray[Any]

IN_THIS_PROCESS = "--in-this-process"


@dataclass(frozen=True)
class Launch:
    """One launch of `program` on `device`.

    inputs: per slot, flat, None for an output. unaligned: the slots of buffers that begin where
    vectors are not aligned. before: inputs and bindings of earlier launches in the same buffers.
    """

    device: str
    program: Program
    inputs: Sequence[Array | None]
    bindings: Mapping[str, int] = field(default_factory=dict)
    unaligned: Collection[int] = ()
    before: Sequence[tuple[Sequence[Array | None], Mapping[str, int]]] = ()

    def first_difference(self, seconds: float = MAX_SECONDS) -> str:
        """Return a sentence that names the first node with another value on the device."""
        place = self.device, self.program, self.inputs, self.bindings
        return first_difference(*place, self.unaligned, seconds)


@dataclass(frozen=True)
class Wanted:
    """What elements `places` of the array with the number `slot` must be.

    values: one for each place, and `others` that are as good. ulps: how many units in the last
    place they may be off. bounds: the lowest and highest for each place. shape: of the whole array,
    where its shape and type must be right too; else integers may be of another type than the
    values, as some libraries have wider ones.
    """

    slot: int
    places: Sequence[int]
    values: Array
    others: Sequence[Array] = ()
    ulps: float = 0
    bounds: tuple[Array, Array] | None = None
    shape: tuple[int, ...] | None = None

    def problem(self, found: Array) -> str:
        """Return what is wrong first in an array; empty where nothing is."""
        dtype = self.values.dtype
        if self.shape is not None and (found.shape, found.dtype) != (self.shape, dtype):
            return f"expected {dtype} of shape {self.shape}, got {found.dtype} of {found.shape}"
        actual = found.reshape(-1)[list(self.places)]
        if actual.dtype != dtype:
            narrowed = actual.astype(dtype)
            if not np.array_equal(narrowed, actual):
                return f"expected elements of {dtype}, got {actual}"
            actual = narrowed
        good = np.logical_or.reduce(
            [ulps_apart(actual, values) <= self.ulps for values in (self.values, *self.others)]
        )
        if self.bounds is not None:
            lowest, highest = self.bounds
            with np.errstate(all="ignore"):
                number = actual.astype(lowest.dtype)
                good = good | ((lowest <= number) & (number <= highest))
        wrong = np.flatnonzero(~good)
        if not wrong.size:
            return ""
        first = int(wrong[0])
        values = [_format_value(array[first : first + 1]) for array in (self.values, actual)]
        return f"element {self.places[first]}: expected {values[0]}, got {values[1]}"


def _format_value(values: Array) -> str:
    bits = int.from_bytes(values.tobytes(), sys.byteorder)
    return f"{values[0]} (0x{bits:0{2 * values.dtype.itemsize}x})"


def run(problem: Callable[[], str], seconds: float = 60.0) -> NoReturn:
    """Asks in a child of this script what is wrong, prints it and exits: 0 nothing, 1 something.

    Errors of the device are wrong too; any other error ends the script with its traceback. With
    `--in-this-process` there is no child, so that a debugger sees the launch. A backend may lie in
    the folder where the script is run, which comes last as for the commands.
    """
    sys.path.append(os.getcwd())
    if IN_THIS_PROCESS in sys.argv[1:]:
        try:
            found = problem()
        except TinyrefError as error:
            found = f"wrong: {type(error).__name__}: {error}"
        _say(found or "right")
        sys.exit(1 if found else 0)
    command = [sys.executable, sys.argv[0], IN_THIS_PROCESS]
    try:
        code = subprocess.run(command, check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        _say(f"wrong: no end within {seconds:g} s")
        sys.exit(1)
    if code not in (0, 1):
        _say(f"wrong: the launch ended its process: {describe_exit(code)}")
    sys.exit(1 if code else 0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def check(launch: Launch, wanted: Sequence[Wanted]) -> str:
    """What is wrong with the launch, and the first node of which it is; empty where all is right.

    It is launched over two poisons, each in new buffers. Then a kernel that is loaded again makes
    the earlier launches, or one with other inputs, and this launch in the same buffers.
    """
    for poison in POISONS:
        problem = _problem(launch, wanted, _loaded(launch), poison)
        if problem:
            return f"wrong: {problem}\n{launch.first_difference()}"
    forget_kernels()
    kernel = _loaded(launch)
    for inputs, bindings in launch.before or [_with_other_inputs(launch)]:
        kernel.launch(inputs, bindings)
    problem = _problem(launch, wanted, kernel, POISONS[0])
    return f"wrong after a launch with other inputs: {problem}" if problem else ""


def check_values(compute: Callable[[], Sequence[Array]], wanted: Sequence[Wanted]) -> str:
    """Return what is wrong with the arrays that `compute` returns; empty if they are right.

    It is called with memory as it is, then with new memory that holds one of two poisons. Without
    them an element that no kernel writes may have the right value from an earlier computation.
    """
    for poison in (0, *POISONS):
        with config.Context(POISON=poison):
            arrays = compute()
        for item in wanted:
            problem = item.problem(arrays[item.slot])
            if problem:
                where = f"array {item.slot}: " if len(arrays) > 1 else ""
                return f"wrong: {where}{problem}"
    return ""


def _loaded(launch: Launch) -> GuardedKernel:
    return GuardedKernel(launch.device, launch.program, launch.unaligned)


def _problem(launch: Launch, wanted: Sequence[Wanted], kernel: GuardedKernel, poison: int) -> str:
    slots = [parameter.slot for parameter in launch.program.parameters]
    found = kernel.launch(launch.inputs, launch.bindings, poison)
    for item in wanted:
        dtype = item.values.dtype
        problem = item.problem(found[slots.index(item.slot)].view(dtype))
        if problem:
            return problem
    return ""


def _with_other_inputs(launch: Launch) -> tuple[list[Array | None], Mapping[str, int]]:
    """Return each input turned by one element, so with the same values in other places."""
    turned = [None if data is None else np.roll(data, 1) for data in launch.inputs]
    return turned, launch.bindings
