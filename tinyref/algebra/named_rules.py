"""Named rules: a pattern of nodes, a function that builds the replacement, and a domain.

A pattern is a small tree: `match(Ops.SUB, any_node("x"), any_node("x"))` is x - x. A name that
occurs twice must match the same node twice.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.errors import UserError
from tinyref.sources import docstring
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg

DTypePredicate = Callable[[DType], bool]
# Captured nodes by the names in the pattern.
Captures = dict[str, UOp]


@dataclass(frozen=True)
class Pattern:
    """A condition on a node and its sources."""

    # The ops of the node; None for any.
    ops: frozenset[Ops] | None = None
    # One pattern per source; None for any sources.
    sources: tuple[Pattern, ...] | None = None
    # True if the two sources may be swapped; only for the root of a rule.
    any_order: bool = False
    # The name of the capture.
    name: str | None = None
    # The value of a CONST: an int for integers and bools; a float, with its sign, for floats.
    value: ConstType | None = None
    # A predicate on the type of the node.
    when: DTypePredicate | None = None
    # The pattern that every source must match.
    every: Pattern | None = None

    def named(self, name: str) -> Pattern:
        """Return the same pattern that captures the node as `name`."""
        return replace(self, name=name)

    def captures(self) -> Iterator[str]:
        """Yield the names of all captures."""
        if self.name is not None:
            yield self.name
        for source in self.sources or ():
            yield from source.captures()

    @functools.cached_property
    def is_free(self) -> bool:
        """Return True if the pattern admits every node."""
        return self == Pattern(name=self.name)

    def commutes(self) -> bool:
        """Return True if the sources of a node in the pattern may be swapped."""
        return self.any_order or any(source.commutes() for source in self.sources or ())

    def __str__(self) -> str:
        if self.value is not None:
            return str(self.value)
        if self.ops is None:
            return self.name or "_"
        ops = "|".join(sorted(op.name for op in self.ops))
        if self.sources is None:
            return f"{self.name}:{ops}" if self.name else ops
        inner = ", ".join(str(source) for source in self.sources)
        return f"{ops}({inner})"


def _ops(op: Ops | Iterable[Ops]) -> frozenset[Ops]:
    return frozenset({op}) if isinstance(op, Ops) else frozenset(op)


def any_node(name: str, when: DTypePredicate | None = None) -> Pattern:
    """Match any node, captured as `name`."""
    return Pattern(name=name, when=when)


def is_const(name: str) -> Pattern:
    """Match any CONST, captured as `name`."""
    return Pattern(ops=frozenset({Ops.CONST}), name=name)


def constant(value: ConstType) -> Pattern:
    """Match the CONST of this value: an int for integers and bools; a float, with its sign."""
    return Pattern(ops=frozenset({Ops.CONST}), value=value)


def match(op: Ops | Iterable[Ops], *sources: Pattern, every: Pattern | None = None) -> Pattern:
    """Match a node of `op` (or one of several), and its sources in order if patterns follow."""
    return Pattern(_ops(op), sources or None, every=every)


def commute(op: Ops | Iterable[Ops], left: Pattern, right: Pattern) -> Pattern:
    """Match a node of two sources in either order."""
    return Pattern(_ops(op), (left, right), any_order=True)


def may_match(pattern: Pattern, ops: tuple[Ops, ...]) -> bool:
    """Return True if `pattern` admits sources of these `ops`; nothing else is checked."""
    sources = pattern.sources
    if sources is None:
        return pattern.every is None or _have_ops((pattern.every,) * len(ops), ops)
    if len(ops) != len(sources):
        return False
    return _have_ops(sources, ops) or (pattern.any_order and _have_ops(sources, ops[::-1]))


def _have_ops(patterns: Sequence[Pattern], ops: Sequence[Ops]) -> bool:
    pairs = zip(patterns, ops, strict=True)
    return all(pattern.ops is None or op in pattern.ops for pattern, op in pairs)


def _matches_node(pattern: Pattern, node: UOp, src: Sequence[UOp], captures: Captures) -> bool:
    """Return True if `node` matches `pattern` with sources `src`, and add its captures.

    If a name has a capture already, it must be the same node.
    """
    if pattern.ops is not None and node.op not in pattern.ops:
        return False
    if pattern.when is not None and not pattern.when(node.dtype):
        return False
    if pattern.value is not None and not _has_value(node, pattern.value):
        return False
    if pattern.name is not None and captures.setdefault(pattern.name, node) is not node:
        return False
    patterns = pattern.sources
    if patterns is None:
        patterns = () if pattern.every is None else (pattern.every,) * len(src)
    elif len(src) != len(patterns):
        return False
    for inner, source in zip(patterns, src, strict=False):
        # Most sources may be any node.
        if inner.is_free:
            if inner.name is not None and captures.setdefault(inner.name, source) is not source:
                return False
        elif not _matches_node(inner, source, source.src, captures):
            return False
    return True


def _has_value(node: UOp, value: ConstType) -> bool:
    """Return True if a CONST has `value`: a float with its sign, an int for integers and bools."""
    held = node.arg.value if isinstance(node.arg, ConstArg) else None
    if held is None or held != value or isinstance(held, float) is not isinstance(value, float):
        return False
    return not isinstance(value, float) or math.copysign(1.0, held) == math.copysign(1.0, value)


class Keeps(Enum):
    """Properties of floats that rules preserve bit for bit."""

    __hash__ = object.__hash__

    NAN = "NaN stays NaN"
    INFINITY = "infinities stay"
    SIGNED_ZERO = "the sign of zero stays"
    ROUNDING = "every rounding stays"


def integer(dtype: DType) -> bool:
    """Admit fixed-width integers and `index`: rules hold under wrapping."""
    return dtype.is_int


def index(dtype: DType) -> bool:
    """Admit the `index` type alone: rules may assume that nothing overflows."""
    return dtype.scalar is dtypes.index


def boolean(dtype: DType) -> bool:
    """Admit bool."""
    return dtype.is_bool


def integer_or_bool(dtype: DType) -> bool:
    """Admit integers, `index` and bool."""
    return dtype.is_int or dtype.is_bool


def floating(dtype: DType) -> bool:
    """Admit the float types that have arithmetic."""
    return dtype.scalar in dtypes.floats


def anything(dtype: DType) -> bool:
    """Admit every type."""
    return True


@dataclass(frozen=True)
class Domain:
    """The domain in which a rule holds."""

    # The name of the file of the rule.
    family: str
    # A predicate on the type of the root; its name is part of the documentation.
    dtypes: DTypePredicate
    # True if the rule uses value ranges and fires only if they prove that it holds.
    needs_bounds: bool = False


# Ops that only integers have.
INTEGER_OPS = frozenset({Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR})


@dataclass(frozen=True, eq=False)
class Rule:
    """One rewrite: where `pattern` matches, `function` returns the replacement or None.

    `equation` is the docstring of the function: an equation and its reason. `parameters` are the
    captures that the function takes.
    """

    name: str
    pattern: Pattern
    function: Callable[..., UOp | None]
    parameters: tuple[str, ...]
    domain: Domain
    equation: str

    def apply(self, node: UOp) -> UOp | None:
        """Return the replacement of `node`, which has an op of the root and a type of the domain.

        If the pattern matches in several ways, the first one that the function accepts counts.
        """
        pattern = self.pattern
        for src in (node.src, node.src[::-1]) if pattern.any_order else (node.src,):
            captures: Captures = {}
            if _matches_node(pattern, node, src, captures):
                captures["node"] = node
                result = self.function(*[captures[name] for name in self.parameters])
                if result is not None and result is not node:
                    return result
        return None

    def __call__(self, node: UOp) -> UOp | None:
        """Return the replacement of `node`, or None if the rule does not apply."""
        if node.op not in (self.pattern.ops or ()) or not self.domain.dtypes(node.dtype):
            return None
        return self.apply(node)


def rule(
    name: str,
    pattern: Pattern,
    *,
    when: DTypePredicate | None = None,
    needs_bounds: bool = False,
) -> Callable[[Callable[..., UOp | None]], Rule]:
    """Make a `Rule` of a function whose parameters are captures of `pattern`.

    A parameter `node` takes the whole match. `when` is a predicate on the type of the root; by
    default every type of its ops is admitted. Raises `UserError` for a rule without an equation,
    with a root of any op, or with a parameter that the pattern does not capture.
    """

    def decorate(function: Callable[..., UOp | None]) -> Rule:
        equation = docstring(function)
        if not equation:
            raise UserError(f"rule {name}: the docstring must state the equation")
        if pattern.ops is None:
            raise UserError(f"rule {name}: the pattern must name the ops of its root")
        if any(source.commutes() for source in pattern.sources or ()):
            raise UserError(f"rule {name}: only the root of the pattern may commute")
        family = function.__module__.rpartition(".")[2]
        parameters = tuple(inspect.signature(function).parameters)
        unknown = [name for name in parameters if name not in {"node", *pattern.captures()}]
        if unknown:
            raise UserError(f"rule {name}: the pattern does not capture {unknown[0]!r}")
        types = when or (integer if pattern.ops <= INTEGER_OPS else anything)
        domain = Domain(family, types, needs_bounds)
        return Rule(name, pattern, function, parameters, domain, equation)

    return decorate


def rules_of(*modules: ModuleType) -> list[Rule]:
    """Return every rule that the modules define, in the order of their names."""
    rules = [
        value for module in modules for value in vars(module).values() if isinstance(value, Rule)
    ]
    return sorted(rules, key=lambda rule: rule.name)
