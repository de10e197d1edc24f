"""Named rules: a pattern of nodes, a function that builds the replacement, and their domain.

A pattern is a small tree: `match(Ops.SUB, any_node("x"), any_node("x"))` is x - x. A name that
occurs twice must match the same node twice. `compile_pattern` turns a pattern into straight
Python code, because every node of every kernel is held against dozens of patterns.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.errors import UserError
from tinyref.sources import docstring
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

DTypePredicate = Callable[[DType], bool]
# The node, the context of the rewrite: the replacement, or None where the rule does not apply.
Matcher = Callable[[UOp, Any], UOp | None]
# What a matcher has besides captures: the whole match, and the context of the rewrite.
GIVEN = ("node", "context")


@dataclass(frozen=True)
class Pattern:
    """What a node must look like.

    ops: the ops it may have, None for any. sources: one pattern per source, None for any sources.
    any_order: the two sources may be swapped. name: the capture. value: what a CONST must hold;
    a Python int matches integer and bool constants, a float matches float constants by sign too.
    when: what the type of the node must fulfil.
    """

    ops: frozenset[Ops] | None = None
    sources: tuple[Pattern, ...] | None = None
    any_order: bool = False
    name: str | None = None
    value: ConstType | None = None
    when: DTypePredicate | None = None

    def named(self, name: str) -> Pattern:
        """The same pattern, capturing the node as `name`."""
        return Pattern(self.ops, self.sources, self.any_order, name, self.value, self.when)

    def captures(self) -> Iterator[str]:
        """The names under which it captures nodes."""
        if self.name is not None:
            yield self.name
        for source in self.sources or ():
            yield from source.captures()

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


def match(
    op: Ops | Iterable[Ops], *sources: Pattern, when: DTypePredicate | None = None
) -> Pattern:
    """A node of `op` (or one of several) whose sources match in order; no patterns: any sources."""
    return Pattern(_ops(op), sources or None, when=when)


def commute(op: Ops | Iterable[Ops], left: Pattern, right: Pattern) -> Pattern:
    """A node of two sources that match in either order."""
    return Pattern(_ops(op), (left, right), any_order=True)


def may_match(pattern: Pattern, ops: tuple[Ops, ...]) -> bool:
    """Return True if sources of these `ops` are what `pattern` asks for: it looks no further."""
    wanted = pattern.sources
    if wanted is None:
        return True
    if len(ops) != len(wanted):
        return False
    return _have_ops(wanted, ops) or (pattern.any_order and _have_ops(wanted, ops[::-1]))


def _have_ops(wanted: Sequence[Pattern], ops: Sequence[Ops]) -> bool:
    pairs = zip(wanted, ops, strict=True)
    return all(pattern.ops is None or op in pattern.ops for pattern, op in pairs)


class _Writer:
    """Writes the nested conditions of one matcher and collects the values that they mention."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, object] = {"copysign": math.copysign}
        self.captures: dict[str, str] = {}
        self.depth = 1
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def mention(self, value: object) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = value
        return name

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def nest(self, line: str) -> None:
        self.write(line)
        self.depth += 1

    def check_op(self, pattern: Pattern, variable: str) -> None:
        if pattern.ops is None:
            return
        if len(pattern.ops) == 1:
            (op,) = pattern.ops
            self.nest(f"if {variable}.op is {self.mention(op)}:")
        else:
            self.nest(f"if {variable}.op in {self.mention(pattern.ops)}:")

    def check_value(self, pattern: Pattern, variable: str) -> None:
        value = pattern.value
        if value is None:
            return
        found = self.fresh()
        self.write(f"{found} = {variable}.arg.value")
        kind = "is" if isinstance(value, float) else "is not"
        condition = f"type({found}) {kind} float and {found} == {value!r}"
        if isinstance(value, float) and value == 0:
            condition += f" and copysign(1.0, {found}) == {math.copysign(1.0, value)!r}"
        self.nest(f"if {condition}:")

    def capture(self, pattern: Pattern, variable: str) -> None:
        if pattern.name is None:
            return
        before = self.captures.get(pattern.name)
        if before is None:
            self.captures[pattern.name] = variable
        else:
            self.nest(f"if {variable} is {before}:")

    def patterns(self, root: Pattern, node: str) -> None:
        """Conditions for each pattern on its variable, the ones that reject most first.

        The op of the root is known where they are asked.
        """
        waiting = [(root, node)]
        is_root = True
        while waiting:
            waiting.sort(key=lambda item: item[0].ops is None)
            pattern, variable = waiting.pop(0)
            if not is_root:
                self.check_op(pattern, variable)
            is_root = False
            if pattern.when is not None:
                self.nest(f"if {self.mention(pattern.when)}({variable}.dtype):")
            self.check_value(pattern, variable)
            self.capture(pattern, variable)
            if pattern.sources is not None:
                waiting += self.sources(pattern, pattern.sources, variable)

    def sources(
        self, pattern: Pattern, wanted: tuple[Pattern, ...], variable: str
    ) -> list[tuple[Pattern, str]]:
        found = self.fresh()
        names = [self.fresh() for _ in wanted]
        self.write(f"{found} = {variable}.src")
        self.nest(f"if len({found}) == {len(wanted)}:")
        if pattern.any_order:
            self.nest(f"for {names[0]}, {names[1]} in ({found}, {found}[::-1]):")
        else:
            self.write(f"{', '.join(names)}, = {found}")
        return list(zip(wanted, names, strict=True))


def compile_pattern(
    pattern: Pattern, function: Callable[..., UOp | None], parameters: Sequence[str]
) -> Matcher:
    """The matcher of `pattern` whose captures are given to `function` by name.

    `parameters` are the captures, or names of `GIVEN`, that the function takes. The caller has
    checked the op of the root. Where a pattern matches in several ways, the first that the
    function accepts counts.
    """
    writer = _Writer()
    writer.patterns(pattern, "node")
    known = {name: name for name in GIVEN} | writer.captures
    arguments = ", ".join(f"{name}={known[name]}" for name in parameters)
    writer.write(f"result = {writer.mention(function)}({arguments})")
    writer.nest("if result is not None and result is not node:")
    writer.write("return result")
    source = "\n".join(["def matcher(node, context):", *writer.lines, "    return None"])
    namespace = dict(writer.values)
    exec(_code(source), namespace)
    matcher: Matcher = namespace["matcher"]  # type: ignore[assignment]
    return matcher


@functools.cache
def _code(source: str) -> types.CodeType:
    """Half of all patterns have the text of another: they differ in the values that it names."""
    return compile(source, "<pattern>", "exec")


class Keeps(Enum):
    """What a float rule leaves bit for bit as it was."""

    __hash__ = object.__hash__

    NAN = "NaN stays NaN"
    INFINITY = "infinities stay"
    SIGNED_ZERO = "the sign of zero stays"
    ROUNDING = "every rounding stays"


KEEPS_ALL = frozenset(Keeps)


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
    of the documentation. keeps: what a float rule keeps. needs_bounds: the rule looks at value
    ranges and fires only where they show that it holds.
    """

    family: str
    dtypes: DTypePredicate
    keeps: frozenset[Keeps] = KEEPS_ALL
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

    @functools.cached_property
    def matcher(self) -> Matcher:
        """Takes nodes that have an op of the pattern's root and a type of the domain.

        Compiled when it is first asked for: most kernels need few of the rules.
        """
        return compile_pattern(self.pattern, self.function, self.parameters)

    def __call__(self, node: UOp, context: object = None) -> UOp | None:
        """The replacement of `node`, or None where the rule does not apply."""
        if node.op not in (self.pattern.ops or ()) or not self.domain.dtypes(node.dtype):
            return None
        return self.matcher(node, context)


def rule(
    name: str,
    pattern: Pattern,
    *,
    when: DTypePredicate | None = None,
    keeps: Iterable[Keeps] = KEEPS_ALL,
    needs_bounds: bool = False,
) -> Callable[[Callable[..., UOp | None]], Rule]:
    """Makes a `Rule` of a function whose parameters are captures of `pattern`.

    A parameter `node` takes the whole match, `context` the context of the rewrite. `when` is what
    the type of the root must fulfil; without it that may be all that its ops have. Raises
    `UserError` for a rule without an equation, with a root of any op, or with a parameter that the
    pattern does not capture.
    """

    def decorate(function: Callable[..., UOp | None]) -> Rule:
        equation = docstring(function)
        if not equation:
            raise UserError(f"rule {name}: the docstring must state the equation")
        if pattern.ops is None:
            raise UserError(f"rule {name}: the pattern must name the ops of its root")
        family = function.__module__.rpartition(".")[2]
        parameters = tuple(inspect.signature(function).parameters)
        unknown = [each for each in parameters if each not in {*GIVEN, *pattern.captures()}]
        if unknown:
            raise UserError(f"rule {name}: the pattern does not capture {unknown[0]!r}")
        types = when or (integer if pattern.ops <= INTEGER_OPS else anything)
        domain = Domain(family, types, frozenset(keeps), needs_bounds)
        return Rule(name, pattern, function, parameters, domain, equation)

    return decorate


def rules_of(*modules: ModuleType) -> list[Rule]:
    """Every rule that the modules define, by name."""
    found = [
        value for module in modules for value in vars(module).values() if isinstance(value, Rule)
    ]
    return sorted(found, key=lambda each: each.name)
