"""Named rules: a pattern, a function that builds the replacement, and the domain where it holds."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType

from tinyref.algebra.rewrite.pattern import (
    GIVEN,
    DTypePredicate,
    Matcher,
    Pattern,
    compile_pattern,
    may_match,
)
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.sources import docstring
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


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
# So often a node is looked at by its sources' ops alone, before a pattern is compiled.
LOOKS = 32


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

        Compiled when it is first asked for, which takes as long as hundreds of looks.
        """
        return compile_pattern(self.pattern, self.function, self.parameters)

    def first_matcher(self, tried: list[tuple[str, Matcher]], place: int) -> Matcher:
        """Does what `matcher` does, and takes its place in `tried` once a node may match it.

        Most kernels have none for most rules. What is looked at often is compiled all the same.
        """
        looks = itertools.count(1)

        def attempt(node: UOp, context: object) -> UOp | None:
            if next(looks) < LOOKS and not may_match(self.pattern, node):
                return None
            tried[place] = self.name, self.matcher
            return self.matcher(node, context)

        return attempt

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
