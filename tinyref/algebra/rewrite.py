"""The rewriting engine, its listeners, and the optional steps of a compile.

A set of rules is applied bottom-up until none of them fires. Listeners are called for each stage of
the compiler and for each rule that fires. A step is a rule that fires, an optimisation of a plan,
or a pass that only improves a kernel. Steps are counted, so that a limit can skip all later ones,
like the opt-bisect-limit of LLVM. Mandatory lowerings are not counted: they always happen.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from tinyref import config
from tinyref.algebra.named_rules import Rule, may_match
from tinyref.dtype import DType
from tinyref.errors import UserError, VerifyError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


@dataclass(frozen=True)
class OptionalStep:
    """One optional step: its kind ("rule", "opt" or "pass") and its name.

    A rule also has the node that it matched, and its replacement.
    """

    kind: str
    name: str
    node: UOp | None = None
    result: UOp | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass
class Steps:
    """The steps of one compile; after `limit` steps no more are taken."""

    limit: int | None = None
    taken: list[OptionalStep] = field(default_factory=list)

    def take(self, step: OptionalStep) -> bool:
        """Count the step and return True, or return False if the limit is reached."""
        if self.limit is not None and len(self.taken) >= self.limit:
            return False
        self.taken.append(step)
        return True


P = ParamSpec("P")
T = TypeVar("T")
# Arguments: the name of the rule, the node that it matched, the replacement.
RuleListener = Callable[[str, UOp, UOp], None]
# Arguments: the name of the stage, the graph before it, its result: a graph, or a program's nodes.
StageListener = Callable[[str, UOp, UOp | tuple[UOp, ...]], None]


@dataclass(frozen=True)
class Listeners:
    """Callbacks for each stage and each firing.

    afresh: rules fire again for nodes that were rewritten before. steps: counts and limits optional
    steps.
    """

    stages: tuple[StageListener, ...] = ()
    rules: tuple[RuleListener, ...] = ()
    afresh: bool = False
    steps: Steps | None = None


_NOBODY = Listeners()
_active: ContextVar[Listeners] = ContextVar("tinyref_listeners", default=_NOBODY)


def listeners() -> Listeners:
    """Return the active listeners of this thread."""
    return _active.get()


@contextlib.contextmanager
def listening(
    *,
    stages: StageListener | None = None,
    rules: RuleListener | None = None,
    afresh: bool = False,
    steps: Steps | None = None,
) -> Iterator[None]:
    """Call these listeners in the block, after the active ones, in this thread.

    A listener may raise to end the rewrite. With `afresh` rewriting neither uses nor stores results
    with nodes, so that every firing is reported; this is slower. `steps` counts the optional steps
    and decides if each is taken; it implies `afresh`.
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
    """Return True if an optional step may be taken now, and count it."""
    steps = _active.get().steps
    return steps is None or steps.take(OptionalStep(kind, name))


def uncached(function: Callable[P, T]) -> Callable[P, T]:
    """Return a cached function that rewrites without its `lru_cache` if steps are counted."""
    if _active.get().steps is None:
        return function
    bare: Callable[P, T] = inspect.unwrap(function)
    return bare


@contextlib.contextmanager
def counting_rules() -> Iterator[Counter[str]]:
    """Count how often each rule fires in the block, except for nodes rewritten before."""
    fired: Counter[str] = Counter()

    def count(name: str, node: UOp, result: UOp) -> None:
        fired[name] += 1

    with listening(rules=count):
        yield fired


# A rewrite may take this many firings, and this many more for each node of the initial graph.
FREE_FIRINGS = 20_000
FIRINGS_PER_NODE = 200


class RuleSet:
    """Rules by the op of their root. The order of `rules` does not matter.

    Rules of one op are tried in the order of their names. With the flag SHUFFLE_RULES, which is
    read here, they are tried in an order drawn from this seed. Results are stored with the nodes,
    so a node that this set has rewritten before costs nothing. Raises `UserError` if two rules have
    the same name.
    """

    def __init__(self, rules: Iterable[Rule], name: str = "rules") -> None:
        self.name = name
        self.rules = tuple(sorted(rules, key=lambda rule: rule.name))
        self.seed = config.integer("SHUFFLE_RULES")
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            raise UserError(f"rule set {name}: two rules are named {', '.join(twice)}")
        self._roots = frozenset(op for rule in self.rules for op in rule.pattern.ops or ())
        self._by_ops: dict[tuple[object, ...], list[Rule]] = {}

    def candidates(self, node: UOp) -> Sequence[Rule]:
        """Return the rules that the ops of `node` and its sources admit, in the order of trial."""
        if node.op not in self._roots:
            return ()
        ops = tuple([source.op for source in node.src])
        key = (node.op, node.dtype, ops)
        admitted = self._by_ops.get(key)
        if admitted is None:
            rules = self._rules_for(node.op, node.dtype)
            admitted = self._by_ops[key] = [rule for rule in rules if may_match(rule.pattern, ops)]
        return admitted

    def _rules_for(self, op: Ops, dtype: DType) -> list[Rule]:
        """Return the rules for a root of this op and type, in the order of trial."""
        rules = [
            rule
            for rule in self.rules
            if op in (rule.pattern.ops or ()) and rule.domain.dtypes(dtype)
        ]
        if self.seed:
            order = random.Random(f"{self.seed} {op.name} {dtype.name}")
            rules = order.sample(rules, len(rules))
        return rules

    def fire(self, node: UOp) -> tuple[str, UOp] | None:
        """Return the first rule that applies to `node` alone, and its replacement; else None.

        Raises `VerifyError` rewrite.type if a rule changes the type of a node.
        """
        for rule in self.candidates(node):
            result = rule.apply(node)
            if result is not None:
                if result.dtype is not node.dtype:
                    raise VerifyError(
                        "rewrite.type",
                        f"rule {rule.name} on {node!r}",
                        node.dtype.name,
                        result.dtype.name,
                    )
                return rule.name, result
        return None


class _Rewrite:
    """One run of the engine; `done` maps a node to its normal form."""

    def __init__(self, root: UOp, rules: RuleSet, active: Listeners) -> None:
        self.root = root
        self.rules = rules
        self.listeners = active.rules
        self.steps = active.steps
        self.is_stored = not active.afresh
        self.done: dict[UOp, UOp] = {}
        # Nodes whose replacement is being rewritten, in the order of their firings.
        self.waiting: dict[UOp, str] = {}
        self.fired = 0
        self.limit = FREE_FIRINGS
        self.is_limit_final = False

    def run(self) -> UOp:
        done = self.done
        waiting = self.waiting
        # A node to rewrite, or a node and the replacement whose normal form it takes.
        stack: list[tuple[UOp, UOp | None]] = [(self.root, None)]
        while stack:
            node, replacement = stack.pop()
            if replacement is not None:
                waiting.pop(node, None)
                self.finish(node, done[replacement])
                continue
            if node in done or self.recall(node):
                continue
            if node in waiting:
                raise self.loop(node)
            missing = [source for source in node.src if source not in done]
            if missing:
                stack.append((node, None))
                stack += [(source, None) for source in missing]
                continue
            self.visit(node, stack)
        return done[self.root]

    def recall(self, node: UOp) -> bool:
        """Take the result that an earlier run has stored with the node, if there is one."""
        if not self.is_stored or self.rules not in node.facts:
            return False
        stored = node.facts[self.rules]
        self.done[node] = node if stored is None else stored
        return True

    def finish(self, node: UOp, result: UOp) -> None:
        self.done[node] = result
        if self.is_stored:
            # A node that stores itself would be a reference cycle.
            node.facts[self.rules] = None if result is node else result

    def visit(self, node: UOp, stack: list[tuple[UOp, UOp | None]]) -> None:
        """Rewrite a node whose sources are done; push the remaining work on the stack."""
        done = self.done
        src = tuple([done[source] for source in node.src])
        rebuilt = node if src == node.src else node.with_sources(src)
        if rebuilt is not node:
            if rebuilt in done or self.recall(rebuilt):
                self.finish(node, done[rebuilt])
                return
            if rebuilt in self.waiting:
                raise self.loop(rebuilt)
        fired = self.rules.fire(rebuilt)
        if fired is None or not self.may_take(*fired, rebuilt):
            self.finish(rebuilt, rebuilt)
            if rebuilt is not node:
                self.finish(node, rebuilt)
            return
        name, result = fired
        self.count(name, rebuilt, result)
        self.waiting[rebuilt] = name
        if rebuilt is not node:
            stack.append((node, rebuilt))
        stack.append((rebuilt, result))
        stack.append((result, None))

    def may_take(self, name: str, result: UOp, node: UOp) -> bool:
        """Return True if the limit of a bisection admits this firing."""
        return self.steps is None or self.steps.take(OptionalStep("rule", name, node, result))

    def count(self, name: str, node: UOp, result: UOp) -> None:
        for listener in self.listeners:
            listener(name, node, result)
        self.fired += 1
        if self.fired <= self.limit:
            return
        if self.is_limit_final:
            recent = list(self.waiting.values())[-20:]
            raise VerifyError(
                "rewrite.loop",
                repr(node),
                f"a fixed point within {self.limit} firings",
                f"rules that still fire: {', '.join(sorted({name, *recent}))}",
            )
        self.is_limit_final = True
        self.limit += FIRINGS_PER_NODE * len(self.root.toposort())

    def loop(self, node: UOp) -> VerifyError:
        nodes = list(self.waiting)
        names = list(self.waiting.values())[nodes.index(node) :]
        return VerifyError(
            "rewrite.loop",
            repr(node),
            "a fixed point",
            f"a node that turns into itself by the rules {' -> '.join(names)}",
        )


def _print_firing(name: str, node: UOp, result: UOp) -> None:
    sys.stderr.write(f"rewrite {name}: {node!r} -> {result!r}\n")


def rewrite(root: UOp, rules: RuleSet) -> UOp:
    """Apply `rules` to every node of `root`, sources first, until none of them applies.

    Listeners are called at every firing; with DEBUG=6 firings are printed to stderr. Graphs may
    have any depth. Raises `VerifyError` rewrite.loop, with the names of the rules, if a node turns
    into itself or rules fire without end. Raises rewrite.type if a rule changes a type.
    """
    active = listeners()
    if not active.afresh and rules in root.facts:
        stored: UOp | None = root.facts[rules]
        return root if stored is None else stored
    if config.integer("DEBUG") >= 6:
        active = replace(active, rules=(*active.rules, _print_firing), afresh=True)
    return _Rewrite(root, rules, active).run()
