"""The type of a row of the op table, the table, and typing rules; `op_rows.py` has the rows.

A typing rule checks the types of a node and of its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import get_args

from tinyref.algebra.named_rules import floating, integer, integer_or_bool
from tinyref.arrays import Array
from tinyref.dtype import AddressSpace, DType, Kind, PtrDType, dtypes
from tinyref.uops import payload
from tinyref.uops.node import UOp
from tinyref.uops.ops import REDUCING, Dialect, Ops
from tinyref.uops.tiles import Operand

Arity = tuple[int, int | None]
PayloadType = type | UnionType
# Returns None if the node is well typed, else the problem as one sentence.
Typing = Callable[[UOp], str | None]

# Arrays of the source types in, an array of the result type out, shapes broadcast.
Kernel = Callable[..., Array]
# Chooses the kernel of an op for a scalar result type and scalar source types.
Semantics = Callable[[DType, Sequence[DType]], Kernel]
# The op on Python integers of any size, before the result wraps into its type.
Exact = Callable[..., int]

Range = tuple[int, int]
# Computes the range of a node from the ranges of its sources (None for a float or a pointer).
RangeRule = Callable[[UOp, Sequence[Range | None]], Range | None]


@dataclass(frozen=True)
class OpSpec:
    """The row of one op."""

    op: Ops
    # Least and largest number of sources; None for no limit.
    arity: Arity
    # Returns the problem of a node with the right number of sources, or None.
    typing: Typing
    # The type of `arg`; NoneType for no payload.
    payload: PayloadType
    # The semantics in words.
    sentence: str
    # The label in the spec.
    clause: str
    # The dialects that have the op.
    dialects: frozenset[Dialect]
    # Computes the range of a node from the ranges of its sources.
    value_range: RangeRule
    # Chooses the numpy function of an arithmetic op; None for structure and memory.
    semantics: Semantics | None = None
    # The function on integers of any size, for an op that has integers.
    exact: Exact | None = None

    def check(self, node: UOp) -> str | None:
        """Return the problem of `node` as one sentence (arity, payload, then types), or None."""
        least, most = self.arity
        count = len(node.src)
        if count < least or (most is not None and count > most):
            accepted = f"{least}" if least == most else f"{least} to {most or 'any number'}"
            return f"{self.op.name} takes {accepted} sources, got {count}"
        if isinstance(node.arg, self.payload):
            return self.typing(node)
        got = "none" if node.arg is None else type(node.arg).__name__
        if self.payload is NoneType:
            return f"{self.op.name} has no payload, got {got}"
        kinds = get_args(self.payload) or (self.payload,)
        accepted = " or ".join(kind.__name__ for kind in kinds)
        return f"{self.op.name} needs a payload {accepted}, got {got}"


# `op_rows.py` fills the table. The package imports it, because its rules look ops up here.
OP_TABLE: dict[Ops, OpSpec] = {}


def _is_number(dtype: DType) -> bool:
    return integer(dtype) or floating(dtype)


def _is_number_or_bool(dtype: DType) -> bool:
    return _is_number(dtype) or dtype.is_bool


def _is_value(dtype: DType) -> bool:
    return dtype.kind is not Kind.VOID


def _wrong_type(node: UOp, dtype: DType, accepted: str) -> str:
    return f"{node.op.name} accepts {accepted}, got {dtype.name}"


def _same(accepts: Callable[[DType], bool], accepted: str) -> Typing:
    """Check that result and sources have one type, which `accepts` admits."""

    def typing(node: UOp) -> str | None:
        if not accepts(node.dtype):
            return _wrong_type(node, node.dtype, accepted)
        for source in node.src:
            if source.dtype is not node.dtype:
                return f"{node.op.name} of {node.dtype.name} has a source of {source.dtype.name}"
        return None

    return typing


def compare(node: UOp) -> str | None:
    """CMPLT and CMPNE: two values of one ordered type give bool."""
    left, right = node.src
    if not _is_number_or_bool(left.dtype):
        return _wrong_type(node, left.dtype, "numbers and bool")
    if left.dtype is not right.dtype:
        return f"{node.op.name} compares {left.dtype.name} with {right.dtype.name}"
    if node.dtype is not dtypes.bool.vec(left.dtype.lanes):
        return f"{node.op.name} of {left.dtype.name} gives bool, not {node.dtype.name}"
    return None


def shift(node: UOp) -> str | None:
    """SHL and SHR: an integer and a count that may have an integer type of its own."""
    value, count = node.src
    if not node.dtype.is_int or not count.dtype.is_int:
        return _wrong_type(node, count.dtype if node.dtype.is_int else node.dtype, "integers")
    if value.dtype is not node.dtype:
        return f"{node.op.name} of {node.dtype.name} has a source of {value.dtype.name}"
    if count.dtype.lanes != node.dtype.lanes:
        return f"{node.op.name} of {node.dtype.lanes} lanes has {count.dtype.lanes} counts"
    return None


def select(node: UOp) -> str | None:
    """WHERE: a bool chooses between two values of one type."""
    condition, chosen, other = node.src
    if not _is_value(node.dtype):
        return _wrong_type(node, node.dtype, "values")
    if condition.dtype is not dtypes.bool.vec(node.dtype.lanes):
        return f"WHERE of {node.dtype.name} has a condition of {condition.dtype.name}, not bool"
    for source in (chosen, other):
        if source.dtype is not node.dtype:
            return f"WHERE of {node.dtype.name} chooses a value of {source.dtype.name}"
    return None


def convert(node: UOp) -> str | None:
    """CAST: any value to any other, lane by lane."""
    (source,) = node.src
    for dtype in (source.dtype, node.dtype):
        if not _is_value(dtype):
            return _wrong_type(node, dtype, "scalars and vectors")
    if source.dtype.lanes != node.dtype.lanes:
        return f"{node.op.name} turns {source.dtype.lanes} lanes into {node.dtype.lanes}"
    return None


def reinterpret(node: UOp) -> str | None:
    """BITCAST: sizes are equal, and all bits are legal in the result type."""
    problem = convert(node)
    if problem is not None:
        return problem
    source = node.src[0].dtype
    if node.dtype.is_bool and not source.is_bool:
        return f"BITCAST to bool from {source.name}: not every byte is a bool; compare with 0"
    if dtypes.index in (source.scalar, node.dtype.scalar) and source is not node.dtype:
        return "BITCAST of index: it has no bits; cast it"
    if source.itemsize != node.dtype.itemsize:
        return f"BITCAST: {source.name} and {node.dtype.name} differ in size"
    return None


def void(node: UOp) -> str | None:
    """Check that the node has no value."""
    return None if node.dtype is dtypes.void else _wrong_type(node, node.dtype, "void")


def value(node: UOp) -> str | None:
    """Check that the value of the node is a scalar or a vector."""
    return None if _is_value(node.dtype) else _wrong_type(node, node.dtype, "values")


def like_first(node: UOp) -> str | None:
    """Check that the node has the type of its first source."""
    first = node.src[0].dtype
    if first is not node.dtype:
        return f"{node.op.name} has the type of its source, {first.name}, not {node.dtype.name}"
    return None


def value_like_first(node: UOp) -> str | None:
    """Check that the node has a value of the type of its first source."""
    return value(node) or like_first(node)


def values_of_one_type(node: UOp) -> str | None:
    """MULTI: result and sources are values of one type."""
    return _same(_is_value, "values")(node)


def constant(node: UOp) -> str | None:
    """CONST: a Python value of the type's own kind, inside its range."""
    if not isinstance(node.arg, payload.ConstArg) or not _is_value(node.dtype):
        return _wrong_type(node, node.dtype, "values")
    expected = bool if node.dtype.is_bool else int if node.dtype.is_int else float
    if type(node.arg.value) is not expected:
        return f"CONST of {node.dtype.name} holds a {type(node.arg.value).__name__}"
    if expected is int and not node.dtype.minimum <= node.arg.value <= node.dtype.maximum:
        return f"CONST {node.arg.value} is outside {node.dtype.name}"
    return None


def scalar_integer(node: UOp) -> str | None:
    """Check that the value of the node is one integer."""
    if not node.dtype.is_int or node.dtype.lanes != 1:
        return _wrong_type(node, node.dtype, "one integer")
    return None


def numbering(node: UOp) -> str | None:
    """IOTA: int32, the type of positions on every device, or int64 if positions need it."""
    if node.dtype not in (dtypes.int32, dtypes.int64):
        return _wrong_type(node, node.dtype, "int32 or int64")
    return _positions(node, node.src)


def variable(node: UOp) -> str | None:
    """DEFINE_VAR: one integer with a range that is not empty."""
    problem = scalar_integer(node)
    if problem is None and isinstance(node.arg, payload.VarArg):
        return None if node.arg.minimum <= node.arg.maximum else "DEFINE_VAR has an empty range"
    return problem


def counter(node: UOp) -> str | None:
    """RANGE and SPECIAL: one integer of the type of its extent."""
    return scalar_integer(node) or like_first(node)


def bind(node: UOp) -> str | None:
    """BIND: a DEFINE_VAR and a CONST of its type."""
    variable, value = node.src
    if variable.op is not Ops.DEFINE_VAR:
        return f"BIND binds a DEFINE_VAR, got {variable.op.name}"
    if value.op is not Ops.CONST or value.dtype is not variable.dtype:
        return f"BIND gives a CONST of {variable.dtype.name}, got {value.op.name}"
    return like_first(node)


def assign(node: UOp) -> str | None:
    """ASSIGN: target and value have one type."""
    target, value = node.src
    if target.dtype is not value.dtype:
        return f"ASSIGN of {value.dtype.name} to {target.dtype.name}"
    return value_like_first(node)


def reduce(node: UOp) -> str | None:
    """REDUCE: by ADD, MUL or MAX; a bool only by MAX."""
    if isinstance(node.arg, payload.ReduceArg):
        if node.arg.op not in REDUCING:
            return f"REDUCE by {node.arg.op.name}: accepted are ADD, MUL and MAX"
        if node.arg.op is not Ops.MAX and not _is_number(node.dtype):
            return _wrong_type(node, node.dtype, "numbers")
    if not _is_number_or_bool(node.dtype):
        return _wrong_type(node, node.dtype, "numbers and bool")
    return like_first(node)


def pointer_to(space: AddressSpace) -> Typing:
    """Check that the node is a pointer into `space`."""

    def typing(node: UOp) -> str | None:
        if isinstance(node.dtype, PtrDType) and node.dtype.space is space:
            return None
        return _wrong_type(node, node.dtype, f"a {space.value} pointer")

    return typing


def address(node: UOp) -> str | None:
    """INDEX and VIEW: an address in the memory that the first source points to."""
    if not isinstance(node.src[0].dtype, PtrDType):
        return _wrong_type(node, node.src[0].dtype, "a pointer as its first source")
    return _positions(node, node.src[1:]) or like_first(node)


def _positions(node: UOp, sources: Sequence[UOp]) -> str | None:
    for position in sources:
        if not position.dtype.is_int or position.dtype.lanes != 1:
            return _wrong_type(node, position.dtype, "one integer as its position")
    return None


def truth(node: UOp) -> str | None:
    """VALID: a bool, at positions that are integers."""
    wrong = None if node.dtype.is_bool else _wrong_type(node, node.dtype, "bool")
    return wrong or _positions(node, node.src)


def _gate(node: UOp, gate: UOp) -> str | None:
    if gate.dtype is dtypes.bool:
        return None
    return f"{node.op.name} has a gate of {gate.dtype.name}, not bool"


def _element_problem(node: UOp, address: DType, value: DType) -> str | None:
    if not isinstance(address, PtrDType):
        return _wrong_type(node, address, "a pointer as its first source")
    if address.value is not value.scalar:
        return f"{node.op.name} of {value.name} through a pointer to {address.value.name}"
    return None


def load(node: UOp) -> str | None:
    """LOAD: an address, or an address, an alternative and a gate."""
    problem = _element_problem(node, node.src[0].dtype, node.dtype)
    if problem is not None or len(node.src) == 1:
        return problem
    if len(node.src) == 2:
        return "LOAD with an alternative needs a gate as well"
    _, alternative, gate = node.src
    if alternative.dtype is not node.dtype:
        return f"LOAD of {node.dtype.name} has an alternative of {alternative.dtype.name}"
    return _gate(node, gate)


def store(node: UOp) -> str | None:
    """STORE: an address, a value of its element type, maybe a gate, and after it maybe a mask."""
    problem = void(node) or _element_problem(node, node.src[0].dtype, node.src[1].dtype)
    if problem is not None or len(node.src) == 2:
        return problem
    if len(node.src) == 4 and not node.src[1].dtype is node.src[3].dtype is dtypes.uint32:
        return f"STORE by a mask takes uint32, got {node.src[1].dtype.name}"
    return _gate(node, node.src[2])


def update(node: UOp) -> str | None:
    """UPDATE_ACC: a DEFINE_ACC and a value of its type."""
    accumulator, value = node.src
    if accumulator.op not in (Ops.DEFINE_ACC, Ops.AFTER):
        return f"UPDATE_ACC updates a DEFINE_ACC, got {accumulator.op.name}"
    if value.dtype is not node.dtype:
        return f"UPDATE_ACC of {node.dtype.name} takes a value of {value.dtype.name}"
    return value_like_first(node)


def vectorize(node: UOp) -> str | None:
    """VECTORIZE: one scalar for each lane of the node."""
    if node.dtype.lanes != len(node.src):
        return f"VECTORIZE of {node.dtype.lanes} lanes has {len(node.src)} sources"
    for source in node.src:
        if source.dtype is not node.dtype.scalar:
            return f"VECTORIZE of {node.dtype.name} has a lane of {source.dtype.name}"
    return None


def takes_lanes(node: UOp) -> str | None:
    """GEP: lanes of the source; if ranges follow, their counters select one of the lanes."""
    source = node.src[0].dtype
    ranges = node.src[1:]
    if any(counter.op is not Ops.RANGE for counter in ranges):
        return "GEP takes a vector, then RANGEs"
    if not isinstance(node.arg, payload.GepArg) or not node.arg.lanes:
        return "GEP takes at least one lane"
    for lane in node.arg.lanes:
        if not 0 <= lane < source.lanes:
            return f"GEP takes lane {lane} of {source.name}"
    if ranges:
        return None if node.dtype is source.scalar else f"GEP by ranges is no {node.dtype.name}"
    if node.dtype is not source.scalar.vec(len(node.arg.lanes)):
        return f"GEP of {len(node.arg.lanes)} lanes of {source.name} is not {node.dtype.name}"
    return None


def tile(node: UOp) -> str | None:
    """WMMA: the fragments of A, B and C in one thread; the result D has the type of C."""
    if not isinstance(node.arg, payload.TileArg):
        return "WMMA needs a tile"
    declared = node.arg.tile
    for operand, source in zip(Operand, node.src, strict=True):
        fragment = declared.fragment(operand)
        if source.dtype is not fragment:
            return f"WMMA takes {operand.value} as {fragment.name}, got {source.dtype.name}"
    result = declared.fragment(Operand.C)
    return None if node.dtype is result else f"WMMA gives {result.name}, not {node.dtype.name}"


def branch(node: UOp) -> str | None:
    """IF: one bool, then nodes that must come before."""
    if node.src[0].dtype is not dtypes.bool:
        return f"IF has a condition of {node.src[0].dtype.name}, not bool"
    return void(node)


def closes(opener: Ops) -> Typing:
    """Check that the node closes a block that `opener` opened."""

    def typing(node: UOp) -> str | None:
        if node.src[0].op is not opener:
            return f"{node.op.name} closes {opener.name}, got {node.src[0].op.name}"
        return void(node)

    return typing


numbers = _same(_is_number, "numbers")
floats = _same(floating, "floats")
integers = _same(integer, "integers")
bits = _same(integer_or_bool, "integers and bool")
ordered = _same(_is_number_or_bool, "numbers and bool")
words = _same(lambda dtype: dtype.scalar is dtypes.uint64, "uint64")
