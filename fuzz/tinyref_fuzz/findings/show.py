"""Print the values of a case around the first difference, and its stages as text differences."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinyref import config
from tinyref.algebra.rewrite import listening
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import STAGES, compile_kernel
from tinyref.formats.text import to_text
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import opts_text
from tinyref.uops.node import UOp
from tinyref_fuzz.findings.examine import blame_or_pair
from tinyref_fuzz.findings.one_line import (
    clip,
    data_line,
    failing_kernel_line,
    fault_line,
    wrapped,
)
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.judge import Judge, measured_outputs
from tinyref_fuzz.judge.oracles import oracle_for
from tinyref_spec.kernel_case import Array, Blame, KernelCase, KernelVerdict, Opts, Pair

_MARK = ">"
_MAX_LINES = 60
# Numbers of elements to print before and after the first one that differs.
_BEFORE, _AFTER = 3, 6

Values = dict[int, Array]


@dataclass(frozen=True)
class Side:
    """One of two runs that should agree."""

    title: str
    stages: dict[str, str]
    """The text after each stage of its compile, as far as it got."""
    values: Values | None
    """The results by slot; None if it fails, and `problem` says why."""
    problem: str = ""


def side_by_side(
    case: KernelCase,
    verdict: KernelVerdict,
    device: str,
    width: int = 100,
    blame: Blame | None = None,
) -> str:
    """Print a case for a terminal of `width` columns: the fault, the blame, and both sides.

    By default `blame` is computed if something differs.
    """
    if blame is not None:
        blamed = blame
    else:
        blamed = Blame("") if verdict.agrees else blame_or_pair(case, verdict, device)
    judge = Judge(device)
    opts = judge.failing_opts(case, verdict)
    left, right = _sides(case, verdict, judge, opts)
    lines = [*_header(case, verdict, blamed, opts, width), ""]
    lines += _values(left, right, width)
    lines += ["", *_stages(left, right, verdict, blamed, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def outline(case: KernelCase, verdict: KernelVerdict, width: int = 100) -> str:
    """Print fault, kernel, optimisations and data of a case without running it."""
    lines = _header(case, verdict, None, (), width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _header(
    case: KernelCase, verdict: KernelVerdict, blame: Blame | None, opts: Opts, width: int
) -> Iterator[str]:
    if not verdict.agrees:
        yield from wrapped("fault", fault_line(verdict, blame), width)
    if blame is not None and blame.stage:
        yield clip(f"blame   {blame}", width)
        if blame.detail:
            yield clip(f"        {blame.detail.partition(chr(10))[0]}", width)
    yield from wrapped("kernel", failing_kernel_line(case.ast, verdict), width)
    yield from wrapped("opts", opts_text(opts) or "none", width)
    yield from wrapped("data", data_line(case), width)


# Both sides


def _sides(case: KernelCase, verdict: KernelVerdict, judge: Judge, opts: Opts) -> tuple[Side, Side]:
    """Return the two runs that the pair of the verdict compares."""
    device, capabilities = judge.device, judge.capabilities

    def on_interpreter(opts: Opts) -> Callable[[], Values]:
        return lambda: _interpret(case, capabilities, opts)

    def measured() -> Values:
        return measured_outputs(device, case.ast, case.buffers, case.bindings, opts)

    stages = stage_texts(case.ast, capabilities, opts)
    if verdict.pair is Pair.OPTIMISED:
        plain = stage_texts(case.ast, capabilities, ())
        return (
            _side("plain", plain, on_interpreter(())),
            _side("optimised", stages, on_interpreter(opts)),
        )
    if verdict.pair is Pair.DEVICE:
        name = "interpreter" if device != "PYTHON" else "interpreter, program as is"
        return _side(name, stages, on_interpreter(opts)), _side(device, stages, measured)
    if verdict.pair is Pair.EQUIVALENT and case.equivalent is not None:
        return _equivalent_sides(case, case.equivalent.ast, judge)
    return (
        _side("evaluator", {}, lambda: _evaluate(case, case.ast)),
        _side("interpreter", stages, on_interpreter(())),
    )


def _equivalent_sides(case: KernelCase, equivalent: UOp, judge: Judge) -> tuple[Side, Side]:
    """Return the evaluator's values of both kernels; if those are right, the device's."""
    kernel = _side("kernel", {"ast": to_text(case.ast)}, lambda: _evaluate(case, case.ast))
    other = _side("equivalent", {"ast": to_text(equivalent)}, lambda: _evaluate(case, equivalent))
    if other.values is None or _is_wrong(case, other.values):
        return kernel, other

    def measured() -> Values:
        return measured_outputs(judge.device, equivalent, case.buffers, case.bindings)

    kernel = replace(kernel, stages=stage_texts(case.ast, judge.capabilities, None))
    stages = stage_texts(equivalent, judge.capabilities, None)
    return kernel, _side(f"other on {judge.device}", stages, measured)


def _is_wrong(case: KernelCase, values: Values) -> bool:
    oracle = oracle_for(case)
    return any(oracle.difference(slot, actual) for slot, actual in values.items())


def _evaluate(case: KernelCase, ast: UOp) -> Values:
    return evaluate(ast, dict(enumerate(case.buffers)), case.bindings)


def _side(title: str, stages: dict[str, str], run: Callable[[], Values]) -> Side:
    try:
        with config.Context(THREADS=THREADS):
            return Side(title, stages, run())
    except Exception as error:
        # The case is a fault: it may raise anything.
        first = str(error).partition("\n")[0]
        return Side(title, stages, None, f"{type(error).__name__}: {first}")


def _interpret(case: KernelCase, capabilities: Capabilities, opts: Opts) -> Values:
    buffers = [buffer.copy() for buffer in case.buffers]
    run_program(compile_kernel(case.ast, capabilities, opts=opts), buffers, case.bindings)
    return {slot: buffers[slot] for slot in range(len(case.ast.src))}


def stage_texts(ast: UOp, capabilities: Capabilities, opts: Opts | None) -> dict[str, str]:
    """Return the text after each stage of a compile, up to the one that raises an error.

    Without `opts` the heuristics choose.
    """
    texts: dict[str, str] = {}

    def note(stage: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
        texts[stage] = to_text(after)

    try:
        with listening(stages=note):
            compile_kernel(ast, capabilities, opts=opts)
    except Exception as error:
        first = str(error).partition("\n")[0]
        texts[_next_stage(texts)] = f"{type(error).__name__}: {first}\n"
    return texts


def _next_stage(texts: dict[str, str]) -> str:
    return next((stage for stage in STAGES if stage not in texts), "after the last stage")


# Values


def _values(left: Side, right: Side, width: int) -> Iterator[str]:
    """Print the elements around the first difference of each slot."""
    for side in (left, right):
        if side.values is None:
            yield clip(f"values  {side.title} fails: {side.problem}", width)
    if left.values is None or right.values is None:
        yield from _one_sided(left if right.values is None else right, width)
        return
    count = 0
    for slot, expected in left.values.items():
        differing = _differing(expected, right.values[slot])
        if differing.size:
            count += 1
            yield from _around(slot, int(differing[0]), left, right)
    if not count:
        yield "values  are equal in this run"


def _one_sided(side: Side, width: int) -> Iterator[str]:
    for slot, values in (side.values or {}).items():
        numbers = " ".join(str(element) for element in values[: _BEFORE + _AFTER])
        yield clip(f"        {side.title} gives b{slot}: {numbers}", width)


def _differing(left: Array, right: Array) -> np.ndarray:
    """Return the positions where two arrays differ; all NaNs are equal."""
    with np.errstate(all="ignore"):
        differs = np.asarray(left != right) & ~(
            np.asarray(left != left) & np.asarray(right != right)
        )
    return np.flatnonzero(differs)


def _around(slot: int, at: int, left: Side, right: Side) -> Iterator[str]:
    assert left.values is not None
    assert right.values is not None
    expected, actual = left.values[slot], right.values[slot]
    yield f"values  {f'b{slot}':>12}  {left.title:>22}  {right.title:>22}"
    differing = set(_differing(expected, actual).tolist())
    for position in range(max(0, at - _BEFORE), min(expected.size, at + _AFTER)):
        mark = _MARK if position in differing else " "
        row = f"{position:>12}  {expected[position]!s:>22}  {actual[position]!s:>22}"
        yield f"      {mark} {row}"
    if len(differing) > 1:
        yield f"        {len(differing)} of {expected.size} elements differ"


# Stages


def _stages(
    left: Side, right: Side, verdict: KernelVerdict, blame: Blame, width: int
) -> Iterator[str]:
    """List the stages, and print how the blamed one, and the first that differs, change the text.

    For a pair of programs, print the difference between them at one stage. Otherwise, print the
    difference from the previous stage.
    """
    first = None
    texts = right.stages
    if verdict.pair in (Pair.OPTIMISED, Pair.EQUIVALENT):
        names = list(dict.fromkeys([*left.stages, *right.stages]))
        pairs = [(name, left.stages.get(name, ""), texts.get(name, "")) for name in names]
        first = next((name for name, before, after in pairs if before != after), None)
    else:
        pairs = list(zip(texts, ["", *texts.values()], texts.values(), strict=False))
    for name, before, after in pairs:
        notes = [f"{after.count(chr(10))} lines"]
        notes += ["the first that differs"] if name == first else []
        notes += ["blamed"] if name == blame.stage else []
        yield clip(f"--- {name}: {', '.join(notes)}", width)
        if name in (first, blame.stage):
            yield from difference(before, after, width)
    if first is None and blame.stage not in texts and texts:
        yield from difference("", list(texts.values())[-1], width)


def difference(before: str, after: str, width: int) -> Iterator[str]:
    """Yield the lines that differ, with `-` and `+` before them, and some context."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="")
    # Skip the names of two files.
    changes = list(itertools.islice(lines, 2, None))
    yield from (clip(f"  {line}", width) for line in changes[:_MAX_LINES])
    if len(changes) > _MAX_LINES:
        yield f"  ... {len(changes) - _MAX_LINES} lines more"
