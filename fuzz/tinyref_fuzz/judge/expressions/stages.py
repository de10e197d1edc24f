"""What lowering, rules, decompositions and narrow indices make of a kernel, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import decompose
from tinyref.codegen.lower import lower_ast
from tinyref.codegen.narrow import narrow_index
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.words import WORD
from tinyref_fuzz.judge.expressions.indexed import AccessError, written_by
from tinyref_fuzz.judge.expressions.points import Points, Problem
from tinyref_fuzz.judge.limits import declared_lack
from tinyref_spec.kernel_case import Case, Symptom

Stage = tuple[str, Callable[[UOp], UOp]]


def stage_problems(
    points: Points, case: Case, name: str, capabilities: Capabilities
) -> Iterator[Problem]:
    """What is wrong after the first wrong stage of the compile for a device.

    Outputs that the device may refuse, and those that share words of memory, are left out.
    """
    stores = [store for store in case.ast.src if _is_taken(store, capabilities)]
    if not stores:
        return
    stages: tuple[Stage, ...] = (
        ("lower", lambda ast: lower_ast(ast, capabilities)),
        ("simplify", simplify),
        ("decompose", lambda root: decompose(root, capabilities)),
        ("narrow", lambda root: narrow_index(root, capabilities)),
    )
    given = replace(case, ast=build.sink(*stores))
    root = given.ast
    for stage, apply in stages:
        before = root
        try:
            root = apply(before)
            text = "" if root is before else _first_wrong(points, given, root)
        except Exception as error:  # the compiler is under test
            problem = f"{type(error).__name__}: {error}, for {name}"
            yield Problem(stage, problem, Symptom.ERROR)
            return
        if text:
            yield Problem(stage, f"{text}, for {name}")
            return


def _is_taken(store: UOp, capabilities: Capabilities) -> bool:
    has_words = not capabilities.stored_in_words or store.src[1].dtype.itemsize >= WORD.itemsize
    return has_words and not declared_lack(build.sink(store), capabilities)


def _first_wrong(points: Points, case: Case, root: UOp) -> str:
    """The sentence about the first output that another value is written to; "" for none."""
    slots = [slot_of(store) for store in case.ast.src]
    try:
        written = written_by(root, case.buffers, case.bindings, frozenset(slots))
    except AccessError as error:
        return str(error)
    oracle = points.oracle(case.ast.src)
    for slot in slots:
        buffer = case.buffers[slot]
        actual = written[slot][: buffer.nbytes].view(buffer.dtype)
        if text := oracle.difference(slot, actual):
            return text
    return ""
