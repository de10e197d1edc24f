"""Reproducers: a script that shows a fault by itself, and five lines for the terminal."""

from __future__ import annotations

import shlex

import numpy as np

from tinyref.dtype import from_numpy_dtype
from tinyref.formats.text import to_text
from tinyref.optimise.opt import OptOp, opts_text
from tinyref.reproduce import SCRIPT_LINES, script
from tinyref.runtimes.identity import device_settings
from tinyref.uops.node import UOp
from tinyref_fuzz.findings.one_line import clip, data_line, fault_line, kernel_line
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.judge import Judge, level_of
from tinyref_spec.kernel_case import Array, Case, Opts, Pair, Verdict

MAX_LINES = 40
# Longer buffers, and numbers that Python has no literal for, are given by their bytes.
_MAX_LISTED = 64
_WIDTH = 96

_IMPORTS = """\
import numpy as np
from tinyref.device import Device
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.codegen.compile import compile_kernel
from tinyref.interpret import run_program
from tinyref.optimise.opt import parse_opts
from tinyref.formats.text import from_text"""
_EVALUATE = "from tinyref.interpret.evaluate import evaluate"
_MEASURE = "from tinyref_fuzz.judge.judge import measured_outputs"
_CONTEXT = "from tinyref.config import Context"

_INTERPRETED = """\
def interpreted(opts):
    buffers = [buffer.copy() for buffer in DATA]
    run_program(compile_kernel(KERNEL, CAPABILITIES, opts=opts), buffers, BINDINGS)
    return buffers"""
_PRINT = """\
for slot in range(len(KERNEL.src)):
    print(f"slot {{slot}} {left}: {{left[slot].tolist()}}")
    print(f"slot {{slot}} {right}: {{right[slot].tolist()}}")"""


def reproducer(case: Case, verdict: Verdict, device: str) -> str:
    """A script of at most 40 lines that prints both values of the pair that differs.

    It sets the flags that are not at their default now, and the level of LLVM that the verdict
    names. It needs tinyref alone, and the package of the device. An error is raised where it
    happens. A kernel of too many nodes is written on one line.
    """
    settings = device_settings(device)
    if level := level_of(verdict):
        settings["TINYREF_CPU_LEVEL"] = level
    most = MAX_LINES - (SCRIPT_LINES if settings else 0)
    for in_one_line in (False, True):
        text = _script(case, verdict, device, in_one_line)
        if text.count("\n") <= most:
            break
    return script(text, settings)


def _script(case: Case, verdict: Verdict, device: str, in_one_line: bool) -> str:
    opts = Judge(device).failing_opts(case, verdict)
    left, right = _sides(verdict)
    lines = [f'"""{_sentence(verdict)}"""', *_imports(opts, left, right), ""]
    lines.append(f"KERNEL = from_text({_literal(case.ast, in_one_line)})")
    if verdict.pair is Pair.EQUIVALENT and case.equivalent is not None:
        lines.append(f"EQUIVALENT = from_text({_literal(case.equivalent.ast, True)})")
    lines += _data(case, in_one_line)
    lines.append(f'OPTS, BINDINGS = parse_opts("{opts_text(opts)}"), {dict(case.bindings)!r}')
    lines += _capabilities(device, opts)
    if "interpreted" in left + right:
        lines += ["", _INTERPRETED, ""]
    lines += [f"left = {left}", f"right = {right.replace('DEVICE', repr(device))}"]
    first, second = _titles(verdict, device)
    lines.append(_PRINT.format(left=first, right=second))
    return "\n".join(lines) + "\n"


def _sentence(verdict: Verdict) -> str:
    text = fault_line(verdict).replace("\\", "/").replace('"', "'")
    return clip(text, _WIDTH)


def _sides(verdict: Verdict) -> tuple[str, str]:
    """The two values as expressions of the script."""
    evaluated = "evaluate(KERNEL, dict(enumerate(DATA)), BINDINGS)"
    if verdict.pair is Pair.OPTIMISED:
        return "interpreted(())", "interpreted(OPTS)"
    if verdict.pair is Pair.DEVICE:
        return "interpreted(OPTS)", "measured_outputs(DEVICE, KERNEL, DATA, BINDINGS, OPTS)"
    if verdict.pair is Pair.EQUIVALENT and verdict.detail.startswith("evaluator"):
        return evaluated, "evaluate(EQUIVALENT, dict(enumerate(DATA)), BINDINGS)"
    if verdict.pair is Pair.EQUIVALENT:
        return evaluated, "measured_outputs(DEVICE, EQUIVALENT, DATA, BINDINGS)"
    return evaluated, "interpreted(())"


def _titles(verdict: Verdict, device: str) -> tuple[str, str]:
    """What the two values are called."""
    name = device.replace("{", "").replace("}", "")
    if verdict.pair is Pair.OPTIMISED:
        return "plain", "optimised"
    if verdict.pair is Pair.DEVICE:
        return "interpreter", name
    if verdict.pair is Pair.EQUIVALENT:
        return "kernel", "equivalent"
    return "evaluator", "interpreter"


def _imports(opts: Opts, left: str, right: str) -> list[str]:
    found = _IMPORTS.split("\n")
    used = left + right
    found += [_EVALUATE] if "evaluate(" in used else []
    found += [_MEASURE] if "measured_outputs" in used else []
    found += [_CONTEXT] if _uses_threads(opts) else []
    return [found[0], *sorted(found[1:])]


def _uses_threads(opts: Opts) -> bool:
    return any(opt.op is OptOp.THREAD for opt in opts)


def _capabilities(device: str, opts: Opts) -> list[str]:
    """The device as the judge sees it: with as many threads on any machine."""
    line = f"CAPABILITIES = Device[{device!r}].capabilities"
    if not _uses_threads(opts):
        return [line]
    return [f"with Context(THREADS={THREADS}):", f"    {line}"]


def _literal(ast: UOp, in_one_line: bool) -> str:
    text = to_text(ast)
    return repr(text) if in_one_line else f'"""\n{text}"""'


def _data(case: Case, in_one_line: bool) -> list[str]:
    """The buffers by slot: the name of the type, and elements or bytes."""
    rows = [_row(buffer) for buffer in case.buffers]
    read = "DATA = [np.array(v).astype(numpy_dtype(getattr(dtypes, n))) for n, v in DATA]"
    if any(".fromhex" in row for row in rows):
        read = (
            "DATA = [np.frombuffer(v, t) if isinstance(v, bytes) else np.array(v).astype(t)"
            " for t, v in ((numpy_dtype(getattr(dtypes, n)), v) for n, v in DATA)]"
        )
    if in_one_line or sum(map(len, rows)) < _WIDTH - 10:
        return [f"DATA = [{', '.join(rows)}]", read]
    return ["DATA = [", *(f"    {row}," for row in rows), "]", read]


def _row(buffer: Array) -> str:
    name = from_numpy_dtype(buffer.dtype).name
    values = buffer.astype(np.float64) if buffer.dtype.kind in "fV" else buffer
    is_plain = bool(np.isfinite(values).all()) and buffer.size <= _MAX_LISTED
    if not is_plain:
        return f'("{name}", bytes.fromhex("{buffer.tobytes().hex()}"))'
    return f'("{name}", {values.tolist()!r})'


def terminal_lines(case: Case, verdict: Verdict, file: str, width: int = 100) -> str:
    """Five lines: the fault, the kernel, the optimisations, the data, and how to replay the case.

    `file` is where the case is kept. Lines longer than `width` are cut, but for the command.
    """
    lines = (
        f"fault   {fault_line(verdict)}",
        f"kernel  {kernel_line(case.ast)}",
        f"opts    {_opts_line(case, verdict)}",
        f"data    {data_line(case)}",
    )
    shown = [clip(line, width) for line in lines]
    return "\n".join([*shown, f"replay  tinyref fuzz replay {shlex.quote(file)}"]) + "\n"


def _opts_line(case: Case, verdict: Verdict) -> str:
    """The list that the verdict is about; what the heuristics choose only a device could decide."""
    if verdict.trial < 0:
        return "none"
    if not case.opts:
        return "those of the heuristics"
    return opts_text(case.opts[verdict.trial]) if verdict.trial < len(case.opts) else "none"
