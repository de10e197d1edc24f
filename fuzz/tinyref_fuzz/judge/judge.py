"""Judge one case: evaluator, plain program, optimised programs and device must agree.

`trial.py` compares the values. This module has the judge of a device, the facts that a verdict
names, and a function that runs one kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyref import config
from tinyref.capabilities import reason_without_values
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Buffer, Device
from tinyref.dtype import from_numpy_dtype
from tinyref.errors import UserError, explain_error
from tinyref.optimise.opt import Opt
from tinyref.runtimes.kernel import compile_program
from tinyref.uops.node import UOp
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.judged_device import ALL_LEVELS, JudgedDevice
from tinyref_fuzz.judge.trial import AT_LEVEL, SELDOM_SHARE, DisagreementError, Trial, case_number
from tinyref_spec.kernel_case import Array, KernelCase, KernelVerdict, Opts, Pair, Symptom

# Level of LLVM for the CPU device, by the number of the case: most cases compile quickly.
LEVELS = (0, 0, 1, 0, 0, 1, 0, 2, 0, 0, 1, 0, 0, 1, 0, 3)


def judge(case: KernelCase, device: str, thorough: bool | None = None) -> KernelVerdict:
    """Compare all values of `case` on `device`; see `Judge`."""
    return Judge(device).verdict(case, thorough)


class Judge(JudgedDevice):
    """Judge of cases on one device; raises the errors of `JudgedDevice`."""

    def verdict(self, case: KernelCase, thorough: bool | None = None) -> KernelVerdict:
        """Return the first pair of values of `case` that differs, or that all agree.

        Args:
            thorough: True makes every check: launches again, with other poison and other data, in
                other orders, and at all levels of LLVM. False makes none of them, at the lowest
                level. None is for campaigns: the case itself decides which of its programs get more
                checks.
        """
        number = case_number(case)
        levels: tuple[int, ...] = (LEVELS[number // SELDOM_SHARE % len(LEVELS)],)
        if thorough is not None:
            levels = ALL_LEVELS if thorough and self.has_levels else (0,)
        trial = Trial(self, case, number, thorough, levels)
        with config.Context(VERIFY=2, SANITIZE=1, THREADS=THREADS):
            try:
                trial.run()
            except DisagreementError as error:
                return replace(error.verdict, trial=trial.number, judged=trial.judged)
        return KernelVerdict(judged=trial.judged)

    def failing_opts(self, case: KernelCase, verdict: KernelVerdict) -> Opts:
        """Return the list that the verdict is about; empty for a program without optimisations."""
        if verdict.trial < 0:
            return ()
        lists = self.trials(case)
        return lists[verdict.trial] if verdict.trial < len(lists) else ()


def level_of(verdict: KernelVerdict) -> str:
    """Return the level of LLVM that a verdict names, or ""."""
    match = re.search(rf"{AT_LEVEL}([0-3])$", verdict.detail)
    return match[1] if match else ""


# --- running one kernel ---------------------------------------------------------------------------


def measured_outputs(
    device: str,
    ast: UOp,
    contents: Sequence[Array],
    bindings: Mapping[str, int] | None = None,
    opts: Sequence[Opt] | None = None,
) -> dict[int, Array]:
    """Run the kernel `ast` on `device`; return the contents of each written slot.

    `opts` are the optimisations; the default is what the heuristics choose. Raises the errors of
    `compile_kernel` and of the device.
    """
    program = compile_kernel(ast, Device[device].capabilities, opts=opts)
    kernel = compile_program(device, program)
    buffers = buffers_with(device, contents)
    kernel(buffers, bindings, wait=True)
    written = range(len(ast.src))
    return {slot: np.frombuffer(buffers[slot].copy_out(), contents[slot].dtype) for slot in written}


def buffers_with(device: str, contents: Sequence[Array]) -> list[Buffer]:
    """Return buffers on `device` that hold `contents`."""
    buffers = []
    for content in contents:
        buffer = Buffer(device, content.size, from_numpy_dtype(content.dtype)).allocate()
        buffers.append(buffer.copy_in(content.view(np.uint8).data))
    return buffers


def judge_of(device: str) -> Judge:
    """Return the judge of a device. Raises `TinyrefError` if it fails or returns no values."""
    judge = Judge(device)
    declared = judge.capabilities
    if reason := reason_without_values(declared.ops, declared.keeps_values):
        raise UserError(f"device: {device} {reason}")
    return judge


def verdict_of(judge: Judge, case: KernelCase, thorough: bool | None = None) -> KernelVerdict:
    """Return the judge's verdict; an exception of the judge is a finding too, and ends one case."""
    return guarded_verdict(lambda: judge.verdict(case, thorough))


def guarded_verdict(judge: Callable[[], KernelVerdict]) -> KernelVerdict:
    """Return the result of `judge`, or its exception as a verdict: no case may end a campaign."""
    try:
        return judge()
    except MemoryError:
        return KernelVerdict(Pair.DEVICE, Symptom.MEMORY, "out of memory")
    except Exception as error:
        return KernelVerdict(Pair.PLAIN, Symptom.ERROR, explain_error(error))
