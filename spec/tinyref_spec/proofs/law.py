"""A law: the equation of a rule, for all values of its leaves and of its constants.

A law is a function of its leaves that builds both sides with the builders of the compiler, so it
is written in the language that it speaks of. The leaves are variables, and so are the constants of
a rule: what is proved holds for every constant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.sources import docstring
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg


class Proof(Enum):
    """How a law is proved."""

    __hash__ = object.__hash__

    BITS = "bit-vectors"
    INTEGERS = "bounded integers"
    EXHAUSTIVE = "exhaustively"
    FLOAT16 = "float16"


SIGNED = (dtypes.int32, dtypes.int64)
MACHINE = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)
INTS = (*MACHINE, dtypes.index)
INDEX = (dtypes.index,)
BOOL = (dtypes.bool,)
VALUES = (*INTS, dtypes.bool)
# Every integer type, for laws about casts.
INTEGERS = (*(dtype for dtype in dtypes.all if dtype.is_int), dtypes.index)


@dataclass(frozen=True)
class Equation:
    """left == right, wherever `given` holds.

    given: bools over the leaves. steps: bools that follow from `given`, each from those before it;
    they are proved first, and help the solver. reads: leaves that stand for sums which the rule
    reads as mathematical integers (`linear.exact`), with these sums; nothing in them wraps.
    wraps: the sides may wrap, as both are the same sum of the same quotients and remainders of
    leaves: what is equal as integers is equal modulo any width.
    """

    left: UOp
    right: UOp
    given: tuple[UOp, ...] = ()
    steps: tuple[UOp, ...] = ()
    reads: tuple[tuple[UOp, UOp], ...] = ()
    wraps: bool = False


@dataclass(frozen=True)
class Law:
    """One equation of one rule.

    proof: how it is proved: BITS, at the width of each type, or INTEGERS, with all leaves within
    the range of each type and nothing that leaves it (`index` has no range). over: the types for
    which it is proved. flags: the leaves that are bools. constants: the leaves that are CONSTs
    in the rule. choices: constants that are proved one value at a time.
    """

    rule: str
    number: int
    function: Callable[..., Equation]
    proof: Proof
    over: tuple[DType, ...]
    flags: frozenset[str]
    constants: frozenset[str]
    choices: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def label(self) -> str:
        return f"{self.rule}.{self.number}"

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The leaves, in the order of the function's parameters."""
        return tuple(inspect.signature(self.function).parameters)

    @functools.cached_property
    def sums(self) -> frozenset[str]:
        """The leaves that stand for sums."""
        dtype = dtypes.index if self.proof is Proof.INTEGERS else self.over[0]
        leaves = {name: self.leaf(name, dtype) for name in self.names}
        read = {leaf for leaf, _ in self.equation(leaves).reads}
        return frozenset(name for name, leaf in leaves.items() if leaf in read)

    @property
    def sentence(self) -> str:
        """The law in words."""
        return " ".join(docstring(self.function).split())

    def leaf(self, name: str, dtype: DType) -> UOp:
        """The variable `name`: a bool for a flag, else of `dtype` with its whole range."""
        if name in self.flags:
            return build.variable(name, 0, 1, dtypes.bool)
        if dtype.is_float:
            return UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, self.names.index(name)))
        return build.variable(name, int(dtype.minimum), int(dtype.maximum), dtype)

    def equation(self, leaves: dict[str, UOp]) -> Equation:
        """Both sides over these leaves."""
        return self.function(**{name: leaves[name] for name in self.names})

    def general(self, dtype: DType) -> Equation:
        """Both sides over variables of `dtype`."""
        return self.equation({name: self.leaf(name, dtype) for name in self.names})


LAWS: dict[str, list[Law]] = {}


def law(
    rule: str,
    proof: Proof = Proof.BITS,
    over: Sequence[DType] = INTS,
    *,
    flags: str = "",
    constants: str = "",
    choices: dict[str, Iterable[int]] | None = None,
    table: dict[str, list[Law]] | None = None,
) -> Callable[[Callable[..., Equation]], Callable[..., Equation]]:
    """Adds a law of `rule` to the table (or to another one); names are words of one text.

    Raises `UserError` for a law without a docstring, or with a name that is no parameter.
    """

    def decorate(function: Callable[..., Equation]) -> Callable[..., Equation]:
        laws = (LAWS if table is None else table).setdefault(rule, [])
        options = tuple((name, tuple(values)) for name, values in (choices or {}).items())
        made = Law(
            rule,
            len(laws),
            function,
            proof,
            tuple(over),
            frozenset(flags.split()),
            frozenset(constants.split()) | {name for name, _ in options},
            options,
        )
        stated = made.flags | made.constants
        # To read the parameters of all of them is a good part of an import.
        unknown = stated - set(made.names) if stated else stated
        if unknown or not made.sentence:
            raise UserError(f"law {made.label}: needs a docstring and has no leaf {unknown or ''}")
        laws.append(made)
        return function

    return decorate
