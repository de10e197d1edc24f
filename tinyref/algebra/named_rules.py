"""Named rules: a pattern of nodes, a function that builds the replacement, and their domain.

A pattern is a small tree: `match(Ops.SUB, any_node("x"), any_node("x"))` is x - x. A name that
occurs twice must match the same node twice.
"""

from __future__ import annotations

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
# Nodes by the names under which a pattern captures them.
Captures = dict[str, UOp]


@dataclass(frozen=True)
class Pattern:
    """What a node must look like.

    ops: the ops it may have, None for any. sources: one pattern per source, None for any sources.
    each: what every source must match.
    any_order: the two sources may be swapped, of the root of a rule. name: the capture. value: what
    a CONST must hold; a Python int matches integer and bool constants, a float matches float
    constants by sign too. when: what the type of the node must fulfil.
    """

    ops: frozenset[Ops] | None = None
    sources: tuple[Pattern, ...] | None = None
    any_order: bool = False
    name: str | None = None
    value: ConstType | None = None
    when: DTypePredicate | None = None
    each: Pattern | None = None

    def named(self, name: str) -> Pattern:
        """The same pattern, capturing the node as `name`."""
        return replace(self, name=name)

    def captures(self) -> Iterator[str]:
        """The names under which it captures nodes."""
        if self.name is not None:
            yield self.name
        for source in self.sources or ():
            yield from source.captures()

    def commutes(self) -> bool:
        """Whether the sources of a node in it may be swapped."""
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
    """Any node, captured as `name`."""
    return Pattern(name=name, when=when)


def is_const(name: str) -> Pattern:
    """Any CONST, captured as `name`."""
    return Pattern(ops=frozenset({Ops.CONST}), name=name)


def constant(value: ConstType) -> Pattern:
    """The CONST of that value: an int for integers and bools, a float, by sign, for floats."""
    return Pattern(ops=frozenset({Ops.CONST}), value=value)


def match(op: Ops | Iterable[Ops], *sources: Pattern, each: Pattern | None = None) -> Pattern:
    """A node of `op` (or one of several) whose sources match in order; no patterns: any sources."""
    return Pattern(_ops(op), sources or None, each=each)


def commute(op: Ops | Iterable[Ops], left: Pattern, right: Pattern) -> Pattern:
    """A node of two sources that match in either order."""
    return Pattern(_ops(op), (left, right), any_order=True)


def may_match(pattern: Pattern, ops: tuple[Ops, ...]) -> bool:
    """Return True if sources of these `ops` are what `pattern` asks for: it looks no further."""
    wanted = pattern.sources
    if wanted is None:
        return pattern.each is None or _have_ops((pattern.each,) * len(ops), ops)
    if len(ops) != len(wanted):
        return False
    return _have_ops(wanted, ops) or (pattern.any_order and _have_ops(wanted, ops[::-1]))


def _have_ops(wanted: Sequence[Pattern], ops: Sequence[Ops]) -> bool:
    pairs = zip(wanted, ops, strict=True)
    return all(pattern.ops is None or op in pattern.ops for pattern, op in pairs)


def matches(pattern: Pattern, node: UOp) -> Iterator[Captures]:
    """Yield the captures of each way in which `pattern` matches `node`: two at most."""
    for src in (node.src, node.src[::-1]) if pattern.any_order else (node.src,):
        captures: Captures = {}
        if _matches_node(pattern, node, src, captures):
            yield captures


def _matches_node(pattern: Pattern, node: UOp, src: Sequence[UOp], captures: Captures) -> bool:
    """Whether `node` is as `pattern` says, with its sources as `src`; adds what is captured.

    A name that is captured already must be the same node.
    """
    if pattern.ops is not None and node.op not in pattern.ops:
        return False
    if pattern.when is not None and not pattern.when(node.dtype):
        return False
    if pattern.value is not None and not _has_value(node, pattern.value):
        return False
    if pattern.name is not None and captures.setdefault(pattern.name, node) is not node:
        return False
    wanted = pattern.sources
    if wanted is None:
        wanted = () if pattern.each is None else (pattern.each,) * len(src)
    elif len(src) != len(wanted):
        return False
    for inner, source in zip(wanted, src, strict=False):
        if not _matches_node(inner, source, source.src, captures):
            return False
    return True


def _has_value(node: UOp, value: ConstType) -> bool:
    """Whether a CONST holds `value`: a float by sign, an int for integers and bools."""
    held = node.arg.value if isinstance(node.arg, ConstArg) else None
    if held is None or held != value or isinstance(held, float) is not isinstance(value, float):
        return False
    return not isinstance(value, float) or math.copysign(1.0, held) == math.copysign(1.0, value)


class Keeps(Enum):
    """What every float rule leaves bit for bit as it was."""

    __hash__ = object.__hash__

    NAN = "NaN stays NaN"
    INFINITY = "infinities stay"
    SIGNED_ZERO = "the sign of zero stays"
    ROUNDING = "every rounding stays"


def integer(dtype: DType) -> bool:
    """Fixed-width integers and `index`: rules hold under wrapping."""
    return dtype.is_int


def index(dtype: DType) -> bool:
    """The `index` type alone: rules may assume that nothing overflows."""
    return dtype.scalar is dtypes.index


def boolean(dtype: DType) -> bool:
    """The bool type."""
    return dtype.is_bool


def integer_or_bool(dtype: DType) -> bool:
    """Integers, `index` and bool."""
    return dtype.is_int or dtype.is_bool


def floating(dtype: DType) -> bool:
    """The float types that have arithmetic."""
    return dtype.scalar in dtypes.floats


def anything(dtype: DType) -> bool:
    """Every type."""
    return True


@dataclass(frozen=True)
class Domain:
    """Where a rule holds.

    family: the file it stands in. dtypes: what the type of the root must fulfil; its name is part
    of the documentation. needs_bounds: the rule looks at value ranges and fires only where they
    show that it holds.
    """

    family: str
    dtypes: DTypePredicate
    needs_bounds: bool = False


# Ops that only integers have.
INTEGER_OPS = frozenset({Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR})


@dataclass(frozen=True, eq=False)
class Rule:
    """One rewrite: where `pattern` matches, `function` gives the replacement or None.

    `equation` is the docstring of the function: what equals what, and why. `parameters` are the
    captures that it takes.
    """

    name: str
    pattern: Pattern
    function: Callable[..., UOp | None]
    parameters: tuple[str, ...]
    domain: Domain
    equation: str

    def apply(self, node: UOp) -> UOp | None:
        """The replacement of `node`, which has an op of the root and a type of the domain.

        Where the pattern matches in several ways, the first that the function accepts counts.
        """
        for captures in matches(self.pattern, node):
            captures["node"] = node
            result = self.function(**{name: captures[name] for name in self.parameters})
            if result is not None and result is not node:
                return result
        return None

    def __call__(self, node: UOp) -> UOp | None:
        """The replacement of `node`, or None where the rule does not apply."""
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
    """Makes a `Rule` of a function whose parameters are captures of `pattern`.

    A parameter `node` takes the whole match. `when` is what the type of the root must fulfil;
    without it that may be all that its ops have. Raises
    `UserError` for a rule without an equation, with a root of any op, or with a parameter that the
    pattern does not capture.
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
        unknown = [each for each in parameters if each not in {"node", *pattern.captures()}]
        if unknown:
            raise UserError(f"rule {name}: the pattern does not capture {unknown[0]!r}")
        types = when or (integer if pattern.ops <= INTEGER_OPS else anything)
        domain = Domain(family, types, needs_bounds)
        return Rule(name, pattern, function, parameters, domain, equation)

    return decorate


def rules_of(*modules: ModuleType) -> list[Rule]:
    """Every rule that the modules define, by name."""
    found = [
        value for module in modules for value in vars(module).values() if isinstance(value, Rule)
    ]
    return sorted(found, key=lambda each: each.name)
