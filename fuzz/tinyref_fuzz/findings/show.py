"""The stages of a case side by side, with the first difference marked, and its values there."""

from __future__ import annotations

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
from tinyref_fuzz.findings.one_line import clip, data_line, fault_line, kernel_line
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.judge import Judge, measured_outputs
from tinyref_fuzz.judge.oracles import oracle_for
from tinyref_spec.kernel_case import Array, Blame, Case, Opts, Pair, Verdict

_MARK = ">"
_NARROWEST = 40
_MAX_LINES = 60
# Elements shown before the first that differs, and after it.
_BEFORE, _AFTER = 3, 6
_ENDS_WITH = 5
# A difference further to the right is brought into view.
_SHOWN_OF_DIFFERENCE = 12

Values = dict[int, Array]


@dataclass(frozen=True)
class Side:
    """One of two things that should be the same.

    stages: the text after each stage of its compile, as far as it came. values: what it gives by
    slot; None where it fails, and `problem` says why.
    """

    title: str
    stages: dict[str, str]
    values: Values | None
    problem: str = ""


def side_by_side(
    case: Case, verdict: Verdict, device: str, width: int = 100, blame: Blame | None = None
) -> str:
    """A case for a terminal of `width` columns: the fault, what is blamed, and both sides.

    Of an optimised program the stages stand next to those of the plain one; the first that differs
    and the one to blame are shown in full. For other pairs the blamed stage stands next to the one
    before it. `blame` is found where it is not given, and something differs.
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


def outline(case: Case, verdict: Verdict, width: int = 100) -> str:
    """Fault, if any, kernel, optimisations and data, of a case that is not to be run for it."""
    lines = _header(case, verdict, None, (), width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _header(
    case: Case, verdict: Verdict, blame: Blame | None, opts: Opts, width: int
) -> Iterator[str]:
    if not verdict.agrees:
        yield clip(f"fault   {fault_line(verdict)}", width)
    if blame is not None and blame.stage:
        yield clip(f"blame   {blame}", width)
        if blame.detail:
            yield clip(f"        {blame.detail.partition(chr(10))[0]}", width)
    yield clip(f"kernel  {kernel_line(case.ast)}", width)
    yield clip(f"opts    {opts_text(opts) or 'none'}", width)
    yield clip(f"data    {data_line(case)}", width)


# Both sides


def _sides(case: Case, verdict: Verdict, judge: Judge, opts: Opts) -> tuple[Side, Side]:
    """What the pair of the verdict compares."""
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


def _equivalent_sides(case: Case, equivalent: UOp, judge: Judge) -> tuple[Side, Side]:
    """The evaluator's values of both; where those are right, the device's of the other one."""
    kernel = _side("kernel", {"ast": to_text(case.ast)}, lambda: _evaluate(case, case.ast))
    other = _side("equivalent", {"ast": to_text(equivalent)}, lambda: _evaluate(case, equivalent))
    if other.values is None or _is_wrong(case, other.values):
        return kernel, other

    def measured() -> Values:
        return measured_outputs(judge.device, equivalent, case.buffers, case.bindings)

    kernel = replace(kernel, stages=stage_texts(case.ast, judge.capabilities, None))
    stages = stage_texts(equivalent, judge.capabilities, None)
    return kernel, _side(f"other on {judge.device}", stages, measured)


def _is_wrong(case: Case, values: Values) -> bool:
    oracle = oracle_for(case)
    return any(oracle.difference(slot, actual) for slot, actual in values.items())


def _evaluate(case: Case, ast: UOp) -> Values:
    return evaluate(ast, dict(enumerate(case.buffers)), case.bindings)


def _side(title: str, stages: dict[str, str], run: Callable[[], Values]) -> Side:
    try:
        with config.Context(THREADS=THREADS):
            return Side(title, stages, run())
    except Exception as error:
        # What is shown is a fault: it may raise anything.
        first = str(error).partition("\n")[0]
        return Side(title, stages, None, f"{type(error).__name__}: {first}")


def _interpret(case: Case, capabilities: Capabilities, opts: Opts) -> Values:
    buffers = [buffer.copy() for buffer in case.buffers]
    run_program(compile_kernel(case.ast, capabilities, opts=opts), buffers, case.bindings)
    return {slot: buffers[slot] for slot in range(len(case.ast.src))}


def stage_texts(ast: UOp, capabilities: Capabilities, opts: Opts | None) -> dict[str, str]:
    """The text after each stage of a compile, up to the one that raises an error.

    Without `opts` the heuristics choose.
    """
    found: dict[str, str] = {}

    def note(stage: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
        found[stage] = to_text(after)

    try:
        with listening(stages=note):
            compile_kernel(ast, capabilities, opts=opts)
    except Exception as error:
        first = str(error).partition("\n")[0]
        found[_next_stage(found)] = f"{type(error).__name__}: {first}\n"
    return found


def _next_stage(found: dict[str, str]) -> str:
    return next((stage for stage in STAGES if stage not in found), "after the last stage")


# Values


def _values(left: Side, right: Side, width: int) -> Iterator[str]:
    """The elements around the first that differs, of each slot where any does."""
    for side in (left, right):
        if side.values is None:
            yield clip(f"values  {side.title} fails: {side.problem}", width)
    if left.values is None or right.values is None:
        yield from _one_sided(left if right.values is None else right, width)
        return
    differing = 0
    for slot, wanted in left.values.items():
        places = _differing(wanted, right.values[slot])
        if places.size:
            differing += 1
            yield from _around(slot, int(places[0]), left, right)
    if not differing:
        yield "values  are equal in this run"


def _one_sided(side: Side, width: int) -> Iterator[str]:
    for slot, values in (side.values or {}).items():
        shown = " ".join(str(each) for each in values[: _BEFORE + _AFTER])
        yield clip(f"        {side.title} gives slot {slot}: {shown}", width)


def _differing(left: Array, right: Array) -> np.ndarray:
    """Where two arrays differ; a NaN is like another."""
    with np.errstate(all="ignore"):
        differs = np.asarray(left != right) & ~(
            np.asarray(left != left) & np.asarray(right != right)
        )
    return np.flatnonzero(differs)


def _around(slot: int, at: int, left: Side, right: Side) -> Iterator[str]:
    assert left.values is not None
    assert right.values is not None
    wanted, actual = left.values[slot], right.values[slot]
    yield f"values  {f'slot {slot}':>12}  {left.title:>22}  {right.title:>22}"
    differing = set(_differing(wanted, actual).tolist())
    for place in range(max(0, at - _BEFORE), min(wanted.size, at + _AFTER)):
        mark = _MARK if place in differing else " "
        row = f"{place:>12}  {wanted[place]!s:>22}  {actual[place]!s:>22}"
        yield f"      {mark} {row}"
    if len(differing) > 1:
        yield f"        {len(differing)} of {wanted.size} elements differ"


# Stages


def _stages(left: Side, right: Side, verdict: Verdict, blame: Blame, width: int) -> Iterator[str]:
    if verdict.pair in (Pair.OPTIMISED, Pair.EQUIVALENT):
        yield from _compare_stages(left, right, blame, width)
        return
    yield from _before_and_after(right.stages, blame, width)


def _compare_stages(left: Side, right: Side, blame: Blame, width: int) -> Iterator[str]:
    """Stage by stage, those that matter in full: the first that differs, and the blamed one."""
    names = [stage for stage in STAGES if stage in left.stages or stage in right.stages]
    texts = {stage: (left.stages.get(stage, ""), right.stages.get(stage, "")) for stage in names}
    first = next((stage for stage in names if texts[stage][0] != texts[stage][1]), None)
    for stage in names:
        before, after = texts[stage]
        notes = [_line_counts(before, after)]
        notes += ["the first that differs"] if stage == first else []
        notes += ["blamed"] if stage == blame.stage else []
        yield clip(f"--- {stage}: {', '.join(notes)}", width)
        if stage == first or (stage == blame.stage and before != after):
            yield from columns(before, after, left.title, right.title, width)


def _line_counts(left: str, right: str) -> str:
    if left == right:
        return f"{left.count(chr(10))} lines on both sides"
    return f"{left.count(chr(10))} and {right.count(chr(10))} lines"


def _before_and_after(stages: dict[str, str], blame: Blame, width: int) -> Iterator[str]:
    """The blamed stage next to the one before it; the last one where none is blamed."""
    names = [stage for stage in stages if stage != blame.stage]
    for stage, text in stages.items():
        note = ", blamed" if stage == blame.stage else ""
        yield f"--- {stage}: {text.count(chr(10))} lines{note}"
        if stage == blame.stage:
            previous = list(itertools.takewhile(lambda name: name != blame.stage, stages))
            before = previous[-1] if previous else ""
            yield from columns(stages.get(before, ""), text, before or "nothing", stage, width)
    if blame.stage not in stages and names:
        yield from _whole(names[-1], stages[names[-1]], width)


def _whole(stage: str, text: str, width: int) -> Iterator[str]:
    yield f"    {stage}"
    lines = text.splitlines()
    yield from (clip(f"    {line}", width) for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        yield f"    ... {len(lines) - _MAX_LINES} lines more"


def columns(left: str, right: str, left_title: str, right_title: str, width: int) -> Iterator[str]:
    """Two texts next to each other, line by line, the first line that differs marked.

    Lines are cut to half of the width. Of long texts the lines around that place are shown.
    """
    column = (max(_NARROWEST, width) - 5) // 2
    pairs = list(itertools.zip_longest(left.splitlines(), right.splitlines(), fillvalue=""))
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    yield f"  {clip(left_title, column):<{column}} | {right_title}"
    start = 0
    if first is not None and len(pairs) > _MAX_LINES:
        start = max(0, min(first - _ENDS_WITH, len(pairs) - _MAX_LINES))
    if start:
        yield f"  ... {start} equal lines"
    for at, (one, other) in enumerate(pairs[start : start + _MAX_LINES], start):
        mark = _MARK if at == first else " "
        here, there = (_visible_part(text, one, other, column) for text in (one, other))
        yield f"{mark} {here:<{column}} | {there}"
    rest = len(pairs) - start - _MAX_LINES
    if rest > 0:
        yield f"  ... {rest} lines more"


def _visible_part(text: str, one: str, other: str, column: int) -> str:
    """The part of a line that fits: its beginning, or what is around the first difference."""
    pairs = zip(one, other, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    if common < column - _SHOWN_OF_DIFFERENCE or one == other:
        return clip(text, column)
    return clip("... " + text[common - column // 2 :], column)
