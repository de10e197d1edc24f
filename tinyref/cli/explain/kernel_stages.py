"""The stages of one kernel: the lines that each changed, and the rules that fired."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinyref.algebra.rewrite import listening
from tinyref.algebra.simplify import ALL_RULES
from tinyref.cli.explain.recording import KernelRecord, shorten
from tinyref.codegen.compile import STAGES, compile_kernel, plan_for
from tinyref.device import Device
from tinyref.engine.report import chosen_opts
from tinyref.errors import TinyrefError
from tinyref.formats.text import node_text, to_text
from tinyref.optimise.opt import opts_text
from tinyref.uops.node import UOp

# Texts of more lines are not compared: the time grows with the square of their number.
MAX_COMPARED = 1500
# Texts with less in common are shown whole.
LEAST_IN_COMMON = 0.35
CONTEXT = 2
MAX_SHOWN = 300
# The number of rewrites of a stage that the page lists.
MAX_REWRITES = 100

SENTENCES = {
    "ast": "The kernel as the scheduler made it: views, elementwise operations, reduces.",
    "normal": "Axes merged and ordered; equal kernels become the same.",
    "lower": "Views become index arithmetic, axes become loops and launch indices.",
    "simplify": "The rules, applied until none fires any more.",
    "expand": "Unrolled and vectorised axes become copies and lanes.",
    "accumulate": "Reduces become loops that add to an accumulator.",
    "decompose": "What the device lacks, in terms of what it has.",
    "narrow": "Index arithmetic gets its type: int32 where that is enough.",
    "linearise": "The program: the nodes in one order, each loop closed.",
}

_EQUATIONS = {rule.name: " ".join(rule.equation.split()) for rule in ALL_RULES.rules}
_LINE_NAME = re.compile(r"^[%$]\d+ = ")
_NAME = re.compile(r"[%$]\d+")


@dataclass(frozen=True)
class StageLine:
    """A line of a stage. `mark` is "+" for new, "-" for gone, "@" for a gap, "" for the rest."""

    mark: str
    text: str


@dataclass(frozen=True)
class RuleCount:
    """A rule that fired, how often, and its equation."""

    name: str
    count: int
    equation: str


@dataclass(frozen=True)
class Rewrite:
    """One firing of a rule: the node that it matched, and what it made of it."""

    rule: str
    before: str
    after: str


@dataclass(frozen=True)
class Stage:
    """One stage: its result, the lines that changed, and the rules that fired."""

    name: str
    sentence: str
    text: str
    lines: list[StageLine]
    nodes: int
    added: int
    removed: int
    is_whole: bool
    rules: list[RuleCount]
    rewrites: list[Rewrite]


@dataclass(frozen=True)
class Compiled:
    """A kernel through the compiler; `problem` is the error that stopped it, if any."""

    plan: str
    opts: str
    stages: list[Stage]
    problem: str = ""


def compiled_stages(record: KernelRecord) -> Compiled:
    """Compile the kernel again, and record the stages and the rules that fire."""
    texts: list[tuple[str, str, list[Rewrite]]] = []
    fired: list[Rewrite] = []

    def on_stage(name: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
        texts.append((name, to_text(after), list(fired)))
        fired.clear()

    def on_firing(name: str, node: UOp, result: UOp) -> None:
        fired.append(Rewrite(name, node_text(node), node_text(result)))

    plan = opts = problem = ""
    try:
        capabilities = Device[record.device].capabilities
        chosen = chosen_opts(record.device, record.ast)
        made = plan_for(record.ast, capabilities, chosen)
        plan = ", ".join(map(str, made.axes)) or "no axes"
        opts = opts_text(made.opts) if made.opts else "none"
        with listening(stages=on_stage, rules=on_firing, afresh=True):
            compile_kernel(record.ast, capabilities, opts=chosen)
    except TinyrefError as error:
        problem = str(error)
    stages: list[Stage] = []
    before = ""
    for name, text, rules in texts:
        stages.append(_stage(name, before, text, rules))
        before = text
    return Compiled(plan, opts, stages, problem)


def _stage(name: str, before: str, text: str, fired: list[Rewrite]) -> Stage:
    counts = Counter(rewrite.rule for rewrite in fired).most_common()
    rules = [RuleCount(rule, count, _EQUATIONS.get(rule, "")) for rule, count in counts]
    rewrites = fired[:MAX_REWRITES]
    old, new = before.splitlines(), text.splitlines()
    changes = None if name in (STAGES[0], STAGES[-1]) else _changes(old, new)
    if changes is None:
        whole = [StageLine("", line) for line in shorten(text, MAX_SHOWN).split("\n")]
        return Stage(name, SENTENCES[name], text, whole, len(new), 0, 0, True, rules, rewrites)
    added = sum(line.mark == "+" for line in changes)
    removed = sum(line.mark == "-" for line in changes)
    if len(changes) > MAX_SHOWN:
        left = f"... {len(changes) - MAX_SHOWN:,} lines more are left out here ..."
        changes = [*changes[:MAX_SHOWN], StageLine("@", left)]
    return Stage(
        name, SENTENCES[name], text, changes, len(new), added, removed, False, rules, rewrites
    )


def _changes(old: Sequence[str], new: Sequence[str]) -> list[StageLine] | None:
    """Return the lines that differ, with some around; None if they are too many.

    Lines are compared without the numbers of nodes, which change with every node before them.
    """
    if max(len(old), len(new)) > MAX_COMPARED:
        return None
    plain_old, plain_new = list(map(_plain, old)), list(map(_plain, new))
    matcher = difflib.SequenceMatcher(None, plain_old, plain_new, autojunk=False)
    if matcher.ratio() < LEAST_IN_COMMON:
        return None
    return list(_hunks(matcher, old, new))


def _plain(line: str) -> str:
    return _NAME.sub("%", _LINE_NAME.sub("", line))


def _hunks(
    matcher: difflib.SequenceMatcher[str], old: Sequence[str], new: Sequence[str]
) -> Iterator[StageLine]:
    end = 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        start = group[0][3]
        if start > end:
            yield _gap(start - end)
        for tag, old_begin, old_end, new_begin, new_end in group:
            if tag == "equal":
                yield from (StageLine("", line) for line in new[new_begin:new_end])
                continue
            yield from (StageLine("-", line) for line in old[old_begin:old_end])
            yield from (StageLine("+", line) for line in new[new_begin:new_end])
        end = group[-1][4]
    if len(new) > end:
        yield _gap(len(new) - end)


def _gap(count: int) -> StageLine:
    return StageLine("@", f"{count:,} {'line' if count == 1 else 'lines'} as before")
