"""Listeners to rewrites: to each stage of the compiler, and to each rule that fires."""

from __future__ import annotations

import contextlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from tinyref.algebra.rewrite.steps import Step, Steps
from tinyref.uops.node import UOp

P = ParamSpec("P")
T = TypeVar("T")
# The name of the rule, the node that it matched, what it made of it.
RuleListener = Callable[[str, UOp, UOp], None]
# The name of the stage, the graph before it, what it gave: a graph, at last a program's nodes.
StageListener = Callable[[str, UOp, UOp | tuple[UOp, ...]], None]


@dataclass(frozen=True)
class Listeners:
    """What is called at each stage and at each firing.

    afresh: rules fire again for what was rewritten before. steps: counts and limits optional steps.
    """

    stages: tuple[StageListener, ...] = ()
    rules: tuple[RuleListener, ...] = ()
    afresh: bool = False
    steps: Steps | None = None


_NOBODY = Listeners()
_active: ContextVar[Listeners] = ContextVar("tinyref_listeners", default=_NOBODY)


def listeners() -> Listeners:
    """The active listeners of this thread."""
    return _active.get()


@contextlib.contextmanager
def listening(
    *,
    stages: StageListener | None = None,
    rules: RuleListener | None = None,
    afresh: bool = False,
    steps: Steps | None = None,
) -> Iterator[None]:
    """Calls the listeners in the block, besides those around it, in this thread.

    A listener may raise: so it ends what it listens to. With `afresh` rewriting neither takes
    results that nodes have kept nor keeps any, so that every firing is reported: slower. `steps`
    counts the optional steps, and decides whether each is taken; it implies `afresh`.
    """
    outer = _active.get()
    inner = Listeners(
        outer.stages if stages is None else (*outer.stages, stages),
        outer.rules if rules is None else (*outer.rules, rules),
        outer.afresh or afresh or steps is not None,
        outer.steps if steps is None else steps,
    )
    token = _active.set(inner)
    try:
        yield
    finally:
        _active.reset(token)


def takes_step(kind: str, name: str) -> bool:
    """Return True if an optional step may be taken now; it is counted then."""
    steps = _active.get().steps
    return steps is None or steps.take(Step(kind, name))


def uncached(function: Callable[P, T]) -> Callable[P, T]:
    """A function with an `lru_cache` that rewrites: without its cache where steps are counted."""
    if _active.get().steps is None:
        return function
    bare: Callable[P, T] = inspect.unwrap(function)
    return bare


@contextlib.contextmanager
def counting_rules() -> Iterator[Counter[str]]:
    """How often each rule fires in the block; not again for what was rewritten before."""
    fired: Counter[str] = Counter()

    def count(name: str, node: UOp, result: UOp) -> None:
        fired[name] += 1

    with listening(rules=count):
        yield fired
