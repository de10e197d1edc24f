"""A law: the equation of a rule, for all values of its leaves and of its constants.

A law is a function of its leaves that builds both sides with the builders of the compiler. The
leaves are variables, and so are the constants of a rule: a proof holds for every constant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.sources import docstring
from tinyref.uops import build
from tinyref.uops.node import UOp


class Proof(Enum):
    """The way in which a law is proved."""

    __hash__ = object.__hash__

    BITS = "bit-vectors"
    INTEGERS = "bounded integers"
    EXHAUSTIVE = "exhaustively"
    FLOAT16 = "float16"


INTS = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.index)
INDEX = (dtypes.index,)
BOOL = (dtypes.bool,)
VALUES = (*INTS, dtypes.bool)
# Every integer type, for casts.
INTEGERS = (*(dtype for dtype in dtypes.all if dtype.is_int), dtypes.index)


@dataclass(frozen=True)
class Equation:
    """left == right, if all of `where` are true.

    where: bools over the leaves. steps: bools that follow from `where`, each from those before it;
    they are proved first, and help the solver. reads: leaves for sums that the rule reads as
    mathematical integers (`linear.exact`), with these sums; nothing in them wraps. wraps: the sides
    may wrap, as both are the same sum of the same quotients and remainders of leaves. Values that
    are equal as integers are equal modulo any width.
    """

    left: UOp
    right: UOp
    where: tuple[UOp, ...] = ()
    steps: tuple[UOp, ...] = ()
    reads: tuple[tuple[UOp, UOp], ...] = ()
    wraps: bool = False


@dataclass(frozen=True)
class Law:
    """One equation of one rule.

    proof: BITS, at the width of each type, or INTEGERS, with all leaves and results within the
    range of each type (`index` has no range). over: the types for which it is proved. constants:
    the leaves that are CONSTs in the rule.
    """

    rule: str
    function: Callable[..., Equation]
    proof: Proof = Proof.BITS
    over: tuple[DType, ...] = INTS
    constants: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        return f"{self.rule} {self.function.__name__}"

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Return the leaves, in the order of the function's parameters."""
        return tuple(inspect.signature(self.function).parameters)

    def leaves(self, dtype: DType) -> list[UOp]:
        """Return variables of `dtype` with its whole range."""
        low, high = int(dtype.minimum), int(dtype.maximum)
        return [build.variable(name, low, high, dtype) for name in self.names]

    def equation(self, dtype: DType) -> Equation:
        """Return both sides over these variables."""
        return self.function(*self.leaves(dtype))


LAWS: dict[str, list[Law]] = {}


def law(
    rule: str, proof: Proof = Proof.BITS, over: Sequence[DType] = INTS, *, constants: str = ""
) -> Callable[[Callable[..., Equation]], Callable[..., Equation]]:
    """Add a law of `rule` to the table; `constants` are names of leaves in one text.

    Raises `UserError` for a law without a docstring, or with a constant that is no parameter.
    """

    def decorate(function: Callable[..., Equation]) -> Callable[..., Equation]:
        made = Law(rule, function, proof, tuple(over), frozenset(constants.split()))
        unknown = made.constants - set(made.names)
        if unknown or not docstring(function):
            raise UserError(f"law {made.label}: needs a docstring and has no leaf {unknown or ''}")
        LAWS.setdefault(rule, []).append(made)
        return function

    return decorate
