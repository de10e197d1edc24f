"""The op table and the evaluator against the spec's references, which share nothing with either.

Folding, evaluator and interpreter take what an op means from one table, so that they agree on a
wrong semantics: to ask which of them is alone says nothing. Here each op is looked at by itself, on
a grid of its types, as arrays and as constants, and in a kernel on the very operands it has there.
Views are read position by position, in Python's integers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tinyref.algebra import semantics
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.kernel_shape import positions_of
from tinyref.algebra.op_table import OP_TABLE
from tinyref.dtype import ConstType, DType, dtypes, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.build import tracker_of
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec import oracles
from tinyref_spec.error_rules import Ulp, ulp_limit
from tinyref_spec.kernel_case import Array
from tinyref_spec.measure import judge
from tinyref_spec.samples import edges, small_integers, ties

Signature = tuple[Ops, DType, tuple[DType, ...]]
Values = Mapping[UOp, Array]
Bindings = Mapping[str, int]

# Operands of a signature on the grid.
GRID = 128
# Of these so many one by one, as folding takes them.
FOLDED = 32
# Elements of each value of a kernel that are looked at: in a campaign, and to blame somebody.
SAMPLED, THOROUGHLY_SAMPLED = 8, 64

# The stages that can be to blame, and the cause where the evaluator reads a view wrong.
SEMANTICS = "semantics"
EVALUATE = "evaluate"
VIEWS = "views"
FOLDING = "fold"


@dataclass(frozen=True)
class Fault:
    """What a reference finds wrong. stage: `SEMANTICS` or `EVALUATE`; cause: an op, or `VIEWS`."""

    stage: str
    cause: str
    detail: str


# --- one op ---------------------------------------------------------------------------------------


def signature_of(node: UOp) -> Signature:
    """The op and the scalar types that decide what an ALU node means."""
    return node.op, node.dtype.scalar, tuple(source.dtype.scalar for source in node.src)


def expected(signature: Signature, operands: Sequence[Array]) -> oracles.Expected | None:
    """What flat `operands` owe by the spec's reference; None for what it has no reference for.

    An `index` never overflows, so that it is as good as an int64.
    """
    op = signature[0]
    dtype, *sources = map(_with_bits, (signature[1], *signature[2]))
    if op is Ops.CAST:
        return oracles.cast(operands[0], sources[0], dtype)
    if op is Ops.BITCAST:
        return oracles.bitcast(operands[0], dtype)
    try:
        return oracles.evaluate(op.name, sources[0] if dtype.is_bool else dtype, operands)
    except KeyError:
        return None


def _with_bits(dtype: DType) -> DType:
    return dtypes.int64 if dtype is dtypes.index else dtype


def op_problem(signature: Signature, operands: Sequence[Array], value: Array) -> str:
    """Why `value` is not what the op owes for `operands`, flat and equally long; "" if it is."""
    op, dtype, _ = signature
    owed = expected(signature, operands)
    if owed is None or not value.size:
        return ""
    found = judge(value, owed, Ulp(ulp_limit(op.name, dtype)))
    if not found.fails:
        return ""
    at = found.first
    given = ", ".join(str(operand[at]) for operand in operands)
    return f"{op.name} of {given} as {dtype.name} is {value[at]!s} instead of {owed.values[at]!s}"


def semantics_fault(nodes: Iterable[UOp]) -> Fault | None:
    """The first op among `nodes` whose semantics in the op table are not the reference's."""
    signatures = dict.fromkeys(signature_of(node) for node in nodes if node.op in ALU)
    return next(filter(None, map(_signature_fault, signatures)), None)


@functools.cache
def _signature_fault(signature: Signature) -> Fault | None:
    op, dtype, sources = signature
    if dtypes.index in (dtype, *sources):
        # On a grid it would overflow; the same op has other integers in the program.
        return None
    operands = [_grid(source, number) for number, source in enumerate(sources)]
    value = semantics.apply(op, dtype, operands, sources)
    problem = op_problem(signature, operands, value)
    if problem:
        return Fault(SEMANTICS, op.name, problem)
    few = [operand[:: GRID // FOLDED] for operand in operands]
    for how, one_by_one in ((FOLDING, _folded), ("exact", _exact)):
        try:
            values = one_by_one(signature, few)
            problem = "" if values is None else op_problem(signature, few, values)
        except Exception as error:  # a constant that its type does not hold, if it is no worse
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return Fault(SEMANTICS, f"{how} {op.name}", f"{how}: {problem}")
    return None


def _grid(dtype: DType, number: int) -> Array:
    """Edges, small numbers and ties in turn, in another order for each operand."""
    words = np.random.PCG64(number).random_raw(GRID)
    found = small_integers(dtype, GRID, number, 9)
    for turn, values in enumerate((edges(dtype), ties(dtype))):
        drawn = values[(words % np.uint64(values.size)).astype(np.int64)]
        # Each operand turns at its own pace, so that every kind meets every other.
        found = np.where(np.arange(GRID) // 3**number % 3 == turn, drawn, found)
    return found


def _columns(operands: Sequence[Array]) -> Iterable[tuple[ConstType, ...]]:
    return zip(*(operand.tolist() for operand in operands), strict=True)


def _folded(signature: Signature, operands: Sequence[Array]) -> Array | None:
    op, dtype, sources = signature
    if op is Ops.BITCAST:
        # A constant has no bits that a float could not lose: signalling NaNs.
        return None
    found = [semantics.fold(op, dtype, values, sources) for values in _columns(operands)]
    return np.array(found, numpy_dtype(dtype))


def _exact(signature: Signature, operands: Sequence[Array]) -> Array | None:
    """The op on integers of any size, from which ranges and sizes are computed."""
    op, dtype, sources = signature
    exact = OP_TABLE[op].exact
    if exact is None or any(each.is_float for each in (dtype, *sources)):
        return None
    found = [exact(*values) for values in _columns(operands)]
    if dtype.is_bool:
        return np.array([bool(value) for value in found])
    return np.array([oracles.wrap(int(value), dtype) for value in found], numpy_dtype(dtype))


# --- one kernel -----------------------------------------------------------------------------------


def evaluator_fault(
    ast: UOp, buffers: Sequence[Array], bindings: Bindings, sampled: int = SAMPLED
) -> Fault | None:
    """The first node of which the evaluator's value is not what its sources' values owe.

    At most `sampled` elements of each are looked at. Errors as of `evaluate`.
    """
    values: dict[UOp, Array] = {}
    written = evaluate(ast, dict(enumerate(buffers)), bindings, values)
    kernel = _Kernel(values, buffers, bindings, written, sampled)
    with np.errstate(all="ignore"):
        return next(filter(None, map(kernel.fault, ast.toposort())), None)


@dataclass
class _Kernel:
    values: Values
    buffers: Sequence[Array]
    bindings: Bindings
    written: Mapping[int, Array]
    sampled: int

    def fault(self, node: UOp) -> Fault | None:
        """What is wrong with one node, its sources taken as they are."""
        if node.op in ALU:
            return self._of_op(node)
        if isinstance(node.arg, ReduceArg):
            problem = self._of_reduce(node, node.arg)
            return Fault(EVALUATE, Ops.REDUCE.name, problem) if problem else None
        if node.op in (Ops.LOAD, Ops.VALID, Ops.IOTA, Ops.STORE):
            problem = self._of_view(node)
            return Fault(EVALUATE, VIEWS, problem) if problem else None
        return None

    def _sample(self, size: int) -> Array:
        """Numbers below `size`: the first, the last, and others in between."""
        return np.unique(np.linspace(0, size - 1, min(size, self.sampled)).astype(np.int64))

    def _of_op(self, node: UOp) -> Fault | None:
        arrays = np.broadcast_arrays(*(self.values[source] for source in node.src))
        chosen = self._sample(arrays[0].size)
        operands = [array.reshape(-1)[chosen] for array in arrays]
        value = np.broadcast_to(self.values[node], arrays[0].shape).reshape(-1)[chosen]
        signature = signature_of(node)
        problem = op_problem(signature, operands, value)
        if not problem:
            return None
        again = semantics.apply(node.op, node.dtype, operands, signature[2])
        is_shared = op_problem(signature, operands, again) != ""
        return Fault(SEMANTICS if is_shared else EVALUATE, node.op.name, problem)

    def _of_reduce(self, node: UOp, arg: ReduceArg) -> str:
        source, value = self.values[node.src[0]], self.values[node]
        axes = tuple(axis for axis in range(source.ndim) if axis in arg.axes)
        if value.shape != tuple(1 if axis in axes else n for axis, n in enumerate(source.shape)):
            return f"REDUCE of {source.shape} over {axes} has the shape {value.shape}"
        for number in self._sample(value.size).tolist():
            at = np.unravel_index(number, value.shape)
            part = tuple(slice(None) if axis in axes else at[axis] for axis in range(source.ndim))
            problem = _reduce_problem(arg.op, node.dtype, source[part].reshape(-1), value[at])
            if problem:
                return problem
        return ""

    def _of_view(self, node: UOp) -> str:
        """Whether LOAD, VALID, IOTA or STORE have at some positions what the view shows there."""
        view = node.src[0] if node.op in (Ops.LOAD, Ops.STORE) else node
        assert isinstance(view.arg, ViewArg)
        tracker = tracker_of(view)
        places = [self.values[place] for place in positions_of(view)]
        sizes = [value_of(size, self.bindings) for size in tracker.shape]
        own = tuple(sizes[: len(sizes) - len(places)])
        shape = np.broadcast_shapes(own, *(place.shape for place in places))
        value = np.broadcast_to(self.values[node.src[1] if node.op is Ops.STORE else node], shape)
        computed = [np.broadcast_to(place, shape) for place in places]
        for number in self._sample(math.prod(shape)).tolist():
            at = np.unravel_index(number, shape)
            position = [int(i) if size > 1 else 0 for i, size in zip(at, own, strict=True)]
            position += [int(place[at]) for place in computed]
            element = element_at(tracker, position, self.bindings)
            problem = self._of_element(node, view, element, value[at])
            if problem:
                return f"{problem} at {tuple(map(int, at))}"
        return ""

    def _of_element(self, node: UOp, view: UOp, element: int | None, value: Array) -> str:
        if node.op is Ops.VALID:
            return "" if bool(value) == (element is not None) else f"VALID is {value!s}"
        if node.op is Ops.IOTA:
            return "" if int(value) == (element or 0) else f"IOTA is {value!s}, not {element}"
        slot = slot_of(view)
        if node.op is Ops.STORE:
            if element is None or _is_same(self.written[slot][element], value):
                return ""
            return f"STORE to slot {slot} leaves {self.written[slot][element]!s}, not {value!s}"
        owed = np.zeros((), value.dtype) if element is None else self.buffers[slot][element]
        return "" if _is_same(owed, value) else f"LOAD of slot {slot} is {value!s}, not {owed!s}"


def _is_same(first: Array, second: Array) -> bool:
    return first.tobytes() == second.tobytes() or bool(first == second)


def element_at(tracker: ShapeTracker, position: Sequence[int], bindings: Bindings) -> int | None:
    """The element that one position shows, None for none: the definition of a view, in words.

    Through each view from the outside: the offset and a stride for each step along an axis, where
    the mask has the position; the element is the row-major number of a position of the next view.
    """
    at = list(position)
    for depth in range(len(tracker.views) - 1, -1, -1):
        view = tracker.views[depth]
        element = value_of(view.offset, bindings)
        for axis, place in enumerate(at):
            if not 0 <= place < value_of(view.shape[axis], bindings):
                return None
            if view.mask is not None:
                begin, end = view.mask[axis]
                if not value_of(begin, bindings) <= place < value_of(end, bindings):
                    return None
            element += place * value_of(view.strides[axis], bindings)
        if not depth:
            return element
        at = []
        for size in reversed(tracker.views[depth - 1].shape):
            element, place = divmod(element, value_of(size, bindings))
            at.insert(0, place)
    return None


def _reduce_problem(op: Ops, dtype: DType, terms: Array, value: Array) -> str:
    """Why `value` is no reduce of `terms`; zeros of either sign are equal."""
    if dtype.is_float:
        return _float_reduce_problem(op, dtype, terms, value)
    numbers = [int(term) for term in terms.tolist()]
    if op is Ops.MAX:
        owed = max(numbers, default=int(dtype.minimum))
    elif dtype.is_bool:
        owed = int(any(numbers) if op is Ops.ADD else all(numbers))
    else:
        owed = oracles.wrap(sum(numbers) if op is Ops.ADD else math.prod(numbers), dtype)
    return "" if int(value) == owed else f"REDUCE by {op.name} is {value!s} instead of {owed}"


def _float_reduce_problem(op: Ops, dtype: DType, terms: Array, value: Array) -> str:
    numbers = [float(term) for term in terms.tolist()]
    if op is Ops.MAX and any(map(math.isnan, numbers)):
        return ""
    if not all(map(math.isfinite, numbers)):
        # Any order gives the same of infinities and NaNs, but where partial results overflow.
        wide = (
            max(numbers) if op is Ops.MAX else math.prod(numbers) if op is Ops.MUL else sum(numbers)
        )
        slack = 0.0
    elif op is Ops.MAX:
        wide, slack = max(numbers, default=-math.inf), 0.0
    else:
        exact = sum(map(Fraction, numbers)) if op is Ops.ADD else math.prod(map(Fraction, numbers))
        wide = _to_float(Fraction(exact))
        # What an accumulator of 53 bits may lose, 63 for float64 itself.
        lost = len(numbers) * 2.0 ** (-62 if dtype is dtypes.float64 else -52)
        slack = lost * (sum(map(abs, numbers)) if op is Ops.ADD else abs(wide))
    low, high = (float(oracles.round_to(np.array([wide + s]), dtype)[0]) for s in (-slack, slack))
    number = float(value)
    if min(low, high) <= number <= max(low, high) or (number != number and low != low):
        return ""
    return f"REDUCE by {op.name} is {value!s} instead of {wide!r}"


def _to_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)
