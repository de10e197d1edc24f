"""Listeners to rewrites: to each stage of the compiler, and to each rule that fires."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from tinyref.uops.node import UOp

# The name of the rule, the node that it matched, what it made of it.
RuleListener = Callable[[str, UOp, UOp], None]
# The name of the stage, the graph before it, what it gave: a graph, at last a program's nodes.
StageListener = Callable[[str, UOp, UOp | tuple[UOp, ...]], None]


@dataclass(frozen=True)
class Listeners:
    """What is called at each stage and at each firing.

    afresh: rules fire again for what was rewritten before.
    """

    stages: tuple[StageListener, ...] = ()
    rules: tuple[RuleListener, ...] = ()
    afresh: bool = False


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
) -> Iterator[None]:
    """Calls the listeners in the block, besides those around it, in this thread.

    A listener may raise: so it ends what it listens to. With `afresh` rewriting neither takes
    results that nodes have kept nor keeps any, so that every firing is reported: slower.
    """
    outer = _active.get()
    inner = Listeners(
        outer.stages if stages is None else (*outer.stages, stages),
        outer.rules if rules is None else (*outer.rules, rules),
        outer.afresh or afresh,
    )
    token = _active.set(inner)
    try:
        yield
    finally:
        _active.reset(token)


@contextlib.contextmanager
def counting_rules() -> Iterator[Counter[str]]:
    """How often each rule fires in the block; not again for what was rewritten before."""
    fired: Counter[str] = Counter()

    def count(name: str, node: UOp, result: UOp) -> None:
        fired[name] += 1

    with listening(rules=count):
        yield fired
