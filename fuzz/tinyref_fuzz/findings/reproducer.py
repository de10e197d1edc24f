"""Write reproducers: a script that shows a fault by itself, and a summary for the terminal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import from_numpy_dtype
from tinyref.optimise.opt import OptOp, opts_text
from tinyref.runtimes.identity import device_settings
from tinyref.runtimes.reproducer import ReproducedLaunch, Wanted
from tinyref_fuzz.findings.one_line import data_line, failing_kernel_line, fault_line, wrapped
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.guard import WrittenElements
from tinyref_fuzz.judge.judge import Judge, level_of
from tinyref_fuzz.judge.oracles import AllowedElements, Oracle, oracle_for
from tinyref_spec.kernel_case import Array, Blame, KernelCase, KernelVerdict, Pair
from tinyref_spec.reproducer import ScriptKernel, kernel_script
from tinyref_spec.tool_scripts.languages import script_of

# Runs the compiler's programs for any device.
_INTERPRETER = "PYTHON"


def reproducer(case: KernelCase, verdict: KernelVerdict, device: str) -> str:
    """Return a script of under 40 lines that exits with 1 while the kernel is wrong.

    It launches the program of the verdict on `device` if that differs from the interpreter, else on
    the interpreter. It sets the flags that differ from their default, and the judge's flags. It
    only needs tinyref and the package of the device. Raises the errors of `oracle_for`.
    """
    judge = Judge(device)
    kernel, on_device = _failing_kernel(judge, case, verdict)
    oracle = _device_oracle(judge, case, kernel) if on_device else oracle_for(case)
    inputs, expected = _inputs_and_expected(case, kernel, oracle)
    return kernel_script(
        fault_line(verdict),
        judge.device if on_device else _INTERPRETER,
        kernel,
        inputs,
        expected,
        bindings=case.bindings,
        settings=_settings(verdict, kernel),
    )


def tool_reproducer(case: KernelCase, verdict: KernelVerdict, device: str, language: str) -> str:
    """Return a script in a language without tinyref; `device` has kernels of that language.

    Raises `UserError` if the language cannot express the launch, and the errors of `oracle_for`.
    """
    judge = Judge(device)
    kernel, _ = _failing_kernel(judge, case, verdict)
    inputs, expected = _inputs_and_expected(case, kernel, _device_oracle(judge, case, kernel))
    program = compile_kernel(kernel.ast, judge.capabilities, opts=kernel.opts)
    launch = ReproducedLaunch(device, program, inputs, case.bindings)
    return script_of(fault_line(verdict), launch, expected, language)


def _inputs_and_expected(
    case: KernelCase, kernel: ScriptKernel, oracle: Oracle
) -> tuple[list[Array | None], list[Wanted]]:
    outputs = WrittenElements.of(kernel.ast, case.buffers, case.bindings)
    # The script chooses the contents of an output that the kernel does not read.
    inputs = [None if at in outputs.poisoned else data for at, data in enumerate(case.buffers)]
    return inputs, [_expected(slot, allowed, outputs) for slot, allowed in oracle.allowed.items()]


def _failing_kernel(
    judge: Judge, case: KernelCase, verdict: KernelVerdict
) -> tuple[ScriptKernel, bool]:
    """Return the kernel to launch, and True if the device launches it, as in the judge."""
    if verdict.pair is not Pair.EQUIVALENT or case.equivalent is None:
        opts = judge.failing_opts(case, verdict)
        return ScriptKernel(case.ast, opts, judge.device), verdict.pair is Pair.DEVICE
    on_device = verdict.detail.startswith("device")
    return ScriptKernel(case.equivalent.ast, None if on_device else (), judge.device), on_device


def _device_oracle(judge: Judge, case: KernelCase, kernel: ScriptKernel) -> Oracle:
    """Return the oracle for the device, by what it declares of its floats and tiles."""
    may_have_tiles = kernel.opts is None or any(opt.op is OptOp.TC for opt in kernel.opts)
    arithmetic = judge.arithmetic
    return oracle_for(
        case, replace(arithmetic, multiplies_tiles=True) if may_have_tiles else arithmetic
    )


def _expected(slot: int, allowed: AllowedElements, outputs: WrittenElements) -> Wanted:
    """Return all elements of an output that are written and have a specified value."""
    has_value = np.ones(allowed.low.size, np.bool_)
    if allowed.unknown is not None:
        has_value &= ~allowed.unknown
    written = outputs.masks[slot]
    if written is not None and slot in outputs.poisoned:
        has_value &= written
    positions = np.flatnonzero(has_value)
    low, high = allowed.low[positions], allowed.high[positions]
    # The bounds allow zeros of either sign.
    has_bounds = allowed.low is not allowed.high or from_numpy_dtype(low.dtype).is_float
    return Wanted(slot, positions.tolist(), low, bounds=(low, high) if has_bounds else None)


def _settings(verdict: KernelVerdict, kernel: ScriptKernel) -> dict[str, str]:
    """Return the flags of this process and device, and those that the judge sets."""
    settings = device_settings(kernel.device)
    if level := level_of(verdict):
        settings["TINYREF_CPU_LEVEL"] = level
    if any(opt.op is OptOp.THREAD for opt in kernel.opts or ()):
        settings["TINYREF_THREADS"] = str(THREADS)
    return settings


def terminal_lines(
    case: KernelCase, verdict: KernelVerdict, blame: Blame | None = None, width: int = 97
) -> tuple[str, ...]:
    """Return fault, kernel, optimisations and inputs, in lines of at most `width` characters."""
    return (
        *wrapped("fault", fault_line(verdict, blame), width),
        *wrapped("kernel", failing_kernel_line(case.ast, verdict), width),
        *wrapped("opts", _opts_line(case, verdict), width),
        *wrapped("data", data_line(case), width),
    )


def _opts_line(case: KernelCase, verdict: KernelVerdict) -> str:
    """Return the list of the verdict; only the device could tell the heuristics' choice."""
    if verdict.trial < 0:
        return "none"
    if not case.opts:
        return "chosen by the heuristics"
    return opts_text(case.opts[verdict.trial]) if verdict.trial < len(case.opts) else "none"
