"""Judges one case: evaluator, plain program, optimised programs and device must agree.

What is compared is in `trial.py`. Here are the judge of a device, what a verdict names, and how a
kernel is run alone.
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

# How hard LLVM optimises for the CPU device, by the number of the case: most cases quickly.
LEVELS = (0, 0, 1, 0, 0, 1, 0, 2, 0, 0, 1, 0, 0, 1, 0, 3)


def judge(case: KernelCase, device: str, thorough: bool | None = None) -> KernelVerdict:
    """Whether all values of `case` agree on `device`; see `Judge`."""
    return Judge(device).verdict(case, thorough)


class Judge(JudgedDevice):
    """Judges cases on one device; errors as of `JudgedDevice`."""

    def verdict(self, case: KernelCase, thorough: bool | None = None) -> KernelVerdict:
        """The first pair of values of `case` that differs, or that all agree.

        thorough: True makes every check: launches again, with other poison and other data, in other
        orders, and at all levels of LLVM; False makes none of them, at the lowest level. None is
        for campaigns: a share of the programs gets more, which the case itself decides.
        """
        number = case_number(case)
        levels: tuple[int, ...] = (LEVELS[number // SELDOM_SHARE % len(LEVELS)],)
        if thorough is not None:
            levels = ALL_LEVELS if thorough and self.has_levels else (0,)
        trial = Trial(self, case, number, thorough, levels)
        with config.Context(VERIFY=1, SANITIZE=1, THREADS=THREADS):
            try:
                trial.run()
            except DisagreementError as found:
                return replace(found.verdict, trial=trial.number, judged=trial.judged)
        return KernelVerdict(judged=trial.judged)

    def failing_opts(self, case: KernelCase, verdict: KernelVerdict) -> Opts:
        """The list that the verdict is about; empty for a program without optimisations."""
        if verdict.trial < 0:
            return ()
        lists = self.trials(case)
        return lists[verdict.trial] if verdict.trial < len(lists) else ()


def level_of(verdict: KernelVerdict) -> str:
    """The level of LLVM that a verdict names, or an empty text."""
    found = re.search(rf"{AT_LEVEL}([0-3])$", verdict.detail)
    return found[1] if found else ""


# --- running a kernel alone -----------------------------------------------------------------------


def measured_outputs(
    device: str,
    ast: UOp,
    contents: Sequence[Array],
    bindings: Mapping[str, int] | None = None,
    opts: Sequence[Opt] | None = None,
) -> dict[int, Array]:
    """What each written slot holds after the kernel `ast` ran on `device`.

    `opts` are the optimisations, those of the heuristics without them. Errors as of
    `compile_kernel` and of the device.
    """
    program = compile_kernel(ast, Device[device].capabilities, opts=opts)
    kernel = compile_program(device, program)
    buffers = buffers_with(device, contents)
    kernel(buffers, bindings, wait=True)
    written = range(len(ast.src))
    return {slot: np.frombuffer(buffers[slot].copy_out(), contents[slot].dtype) for slot in written}


def buffers_with(device: str, contents: Sequence[Array]) -> list[Buffer]:
    """Buffers on `device` that hold `contents`."""
    buffers = []
    for content in contents:
        buffer = Buffer(device, content.size, from_numpy_dtype(content.dtype)).allocate()
        buffers.append(buffer.copy_in(content.view(np.uint8).data))
    return buffers


def judge_of(device: str) -> Judge:
    """The judge for a device. Raises `TinyrefError` where it does not open or gives no values."""
    judge = Judge(device)
    declared = judge.capabilities
    if reason := reason_without_values(declared.ops, declared.keeps_values):
        raise UserError(f"device: {device} {reason}")
    return judge


def verdict_of(judge: Judge, case: KernelCase, thorough: bool | None = None) -> KernelVerdict:
    """The judge's verdict; what escapes the judge is a finding too, and costs one case."""
    return guarded_verdict(lambda: judge.verdict(case, thorough))


def guarded_verdict(judge: Callable[[], KernelVerdict]) -> KernelVerdict:
    """What `judge` says, or what escapes it: nothing that one case does may end a campaign."""
    try:
        return judge()
    except MemoryError:
        return KernelVerdict(Pair.DEVICE, Symptom.MEMORY, "out of memory")
    except Exception as error:
        return KernelVerdict(Pair.PLAIN, Symptom.ERROR, explain_error(error))
