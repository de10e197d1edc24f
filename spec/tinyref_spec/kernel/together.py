"""Kernels that are compiled in one call: each is as if it were compiled alone.

A compiler that takes one source at a time gets them one by one. Its kernels must not be confused
either, if all of them are loaded before the first is launched.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator, Sequence

import numpy as np

from tinyref.contract import BatchCompiler
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes.kernel import (
    Kernel,
    compile_kernels_together,
    compile_program,
    forget_kernels,
)
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs
from tinyref_spec.ladder import TOGETHER

# Values that the kernels store: all different, and not in order of size.
NUMBERS = (7, -3, 100, 0, 41, -1000, 12, 5)
# Numbers whose texts have equal length.
ALIKE = (41, 57, 23, 68)
LAUNCHES = 3
# Invalid in every language; it neither opens nor closes a block.
NO_SOURCE = "this text is no kernel ;;"


def storing(name: str, number: int) -> Program:
    """Return out[0] = number."""
    out = build.define_global(0, dtypes.int32, 1)
    value = build.const(dtypes.int32, number)
    return programs.program(name, build.store(programs.at(out, 0), value))


def _measure(names: Sequence[str], case_id: str, device: DeviceUnderTest) -> Measurement:
    """Load all kernels, then launch each."""
    several = [storing(name, number) for name, number in zip(names, NUMBERS, strict=True)]
    kernels = compile_kernels_together(device.name, several)
    for index, (kernel, number) in enumerate(zip(kernels, NUMBERS, strict=True)):
        (stored,) = device.run_kernel(kernel, [None])
        if not np.array_equal(stored, [number]):
            message = f"kernel {index} of {len(kernels)} stores {stored[0]}, expected {number}"
            return Measurement(False, message, compared=len(kernels))
    return Measurement(True, compared=len(kernels))


def _refuse_one(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Compile several sources with an error in one: that one has an error, or all are refused."""
    compiler = device.backend.compiler
    if not isinstance(compiler, BatchCompiler):
        return Measurement(True, compared=1, observed="compiles one source at a time")
    sources = [device.backend.renderer.render(storing(f"f{i}", i)) for i in range(3)]
    sources.insert(1, NO_SOURCE)
    try:
        results = compiler.compile_many(sources)
    except DeviceError as error:
        return Measurement(True, compared=1, observed=f"refuses all: {error}".partition("\n")[0])
    if len(results) != len(sources):
        return Measurement(
            False, f"{len(results)} results of {len(sources)} sources", compared=len(sources)
        )
    for index, (source, result) in enumerate(zip(sources, results, strict=True)):
        is_refused, is_wrong = isinstance(result, DeviceError), not _compiles(compiler, source)
        if is_refused != is_wrong:
            words = "an error" if is_refused else "no error"
            message = f"source {index} of {len(sources)} has {words}, unlike alone"
            return Measurement(False, message, compared=len(sources))
    return Measurement(True, compared=len(sources))


def _compiles(compiler: BatchCompiler, source: str) -> bool:
    try:
        compiler.compile(source)
    except DeviceError:
        return False
    return True


def _release_kernels() -> None:
    """Forget all kernels; those in cycles are young, so collecting their generation is enough."""
    forget_kernels()
    gc.collect(1)


def _stores(kernel: Kernel, number: int, when: str, device: DeviceUnderTest) -> Measurement:
    (stored,) = device.run_kernel(kernel, [None])
    message = "" if stored[0] == number else f"{when}: stores {stored[0]}, expected {number}"
    return Measurement(not message, message, compared=1)


def _released(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Release each kernel before the next one is loaded, perhaps to the same address."""
    measured = Measurement(True)
    for number in ALIKE:
        _release_kernels()
        kernel = compile_program(device.name, storing("alike", number))
        for launch in range(1, LAUNCHES + 1):
            measured = _stores(kernel, number, f"launch {launch} of a kernel of {number}", device)
            if not measured.passed:
                return measured
        del kernel
    return measured


def _alternating(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Launch two kernels in turn, then one of them and another that is loaded later."""
    first, second, third = ALIKE[:3]
    _release_kernels()
    kernels = {
        number: compile_program(device.name, storing("alike", number)) for number in (first, second)
    }
    measured = Measurement(True)
    for turn in range(2 * LAUNCHES):
        if turn == LAUNCHES:
            del kernels[first]
            _release_kernels()
            kernels[third] = compile_program(device.name, storing("alike", third))
        for number, kernel in kernels.items():
            measured = _stores(kernel, number, f"turn {turn + 1} of two kernels", device)
            if not measured.passed:
                return measured
    return measured


def _checks() -> list[Check]:
    names = [f"stores_{index}" for index in range(len(NUMBERS))]
    return [
        Check("own_names", functools.partial(_measure, names)),
        Check("one_name", functools.partial(_measure, ["stores"] * len(NUMBERS))),
        Check("one_is_wrong", _refuse_one),
    ]


def rows() -> Iterator[Row]:
    """Yield two rows: the first decides if kernels of later cases are compiled together."""
    yield make_row(
        TOGETHER,
        "Kernels compiled in one call compute what they compute compiled alone.",
        clauses=("device.together",),
        rung=Rung.STORE,
        op="STORE",
        dtype=dtypes.int32,
        checks=_checks,
    )
    yield make_row(
        "kernel.program.constants",
        "Kernels that differ only in a constant keep theirs, even if others are released.",
        clauses=("isa.const", "kernel.name"),
        rung=Rung.STORE,
        op="STORE",
        dtype=dtypes.int32,
        checks={"released": _released, "alternating": _alternating},
        advice="look at how kernels are stored, and by which key: a name, an address or a length "
        "may belong to a kernel that is gone",
    )
