"""One-hot reduces: along an axis, all terms except one are the identity of the reduce.

`sum over i of (x[i] where i == k else 0)` is x[k], or 0 if k is not on the axis. This file detects
the pattern in tensor graphs, where movement is between the nodes, and in kernel ASTs, where leaves
have views. Others use it: the scheduler does not count such a reduce as a loop, and `fold_ranges`
replaces i by k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tinyref.algebra import semantics
from tinyref.algebra.bounds import bounds
from tinyref.algebra.shapes import is_one, kernel_shape, positions_of, reduced_axes, shape_of
from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import ALU, MOVEMENT, Ops
from tinyref.uops.payload import ConstArg, ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, apply_movement, tracker_of

# A node, and in a tensor graph the tracker to its elements from the positions of the reduce.
Term = tuple[UOp, ShapeTracker | None]

# The axes on which a view hides positions, each with the range that it shows: begin and end.
Mask = tuple[tuple[int, tuple[sint, sint]], ...]

# A pattern with more terms than this is not detected.
MAX_TERMS = 2000
MAX_CONDITIONS = 64


@dataclass(frozen=True)
class OneHot:
    """A selection along `axis`: terms that are not the identity have a false `equality`, a CMPNE.

    It is false where `index` is offset + sign * position.

    terms: the parts of the index.
    index: None in a tensor graph.
    mask: where it hides the counter, the counter is 0.
    """

    axis: int
    equality: UOp
    terms: tuple[Term, ...]
    index: UOp | None
    sign: int
    offset: int
    mask: Mask = ()

    def depends_on(self, axis: int) -> bool:
        """Return True if the selected position may change along `axis`."""
        return not all(is_repeated(term, axis) for term in self.terms)

    def position(self) -> UOp:
        """Return the selected position in a kernel AST, an integer; outside if there is none."""
        assert self.index is not None, "the terms of a tensor graph have shapes of their own"
        value = self.index
        if value.dtype.bits < 32:
            value = build.cast(value, dtypes.int32)
        offset = build.const(value.dtype, self.offset)
        if self.sign < 0:
            return build.sub(offset, value)
        return build.sub(value, offset) if self.offset else value


@node_fact
def one_hot_axes(reduce: UOp) -> tuple[int, ...]:
    """Return the one-hot axes of a REDUCE of a tensor graph; () for any other node."""
    if not isinstance(reduce.arg, ReduceArg):
        return ()
    tracker = ShapeTracker.from_shape(shape_of(reduce.src[0]))
    return tuple(one_hot.axis for one_hot in _find_one_hots(reduce, reduce.arg.axes, tracker))


@node_fact
def scatter_axis(reduce: UOp) -> OneHot | None:
    """Return the axis of the result on which each term of a REDUCE has a single position.

    The REDUCE is in a tensor graph. None if there is no such axis.
    """
    if not isinstance(reduce.arg, ReduceArg):
        return None
    tracker = ShapeTracker.from_shape(shape_of(reduce.src[0]))
    outputs = [axis for axis in range(len(tracker.shape)) if axis not in reduce.arg.axes]
    return next(iter(_find_one_hots(reduce, outputs, tracker)), None)


def is_one_hot_reduce(reduce: UOp) -> bool:
    """Return True if all axes of a REDUCE of a tensor graph are one-hot: it is no loop."""
    chosen = one_hot_axes(reduce)
    if not chosen:
        return False
    shape = shape_of(reduce.src[0])
    return all(axis in chosen or is_one(shape[axis]) for axis in reduced_axes(reduce))


def find_one_hots(reduce: UOp, axes: Sequence[int] | None = None) -> list[OneHot]:
    """Return one-hot axes of a REDUCE of a kernel AST; no index depends on one of these axes.

    An index may depend on another axis: after folding, there may be more.

    axes: those to look at; by default, those that are reduced.
    """
    if not isinstance(reduce.arg, ReduceArg):
        return []
    return _find_one_hots(reduce, reduce.arg.axes if axes is None else axes, None)


def _find_one_hots(reduce: UOp, axes: Sequence[int], tracker: ShapeTracker | None) -> list[OneHot]:
    # Any other value has no condition.
    if reduce.src[0].op not in _SELECTING:
        return []
    assert isinstance(reduce.arg, ReduceArg), "a REDUCE has its payload"
    identity = ConstArg(semantics.reduce_identity(reduce.arg.op, reduce.dtype))
    equalities = list(_equalities((reduce.src[0], tracker), identity))
    shape = kernel_shape(reduce.src[0]) if tracker is None else tracker.shape
    every = [one_hot for axis in axes for one_hot in _one_hots_along(axis, shape[axis], equalities)]
    # An index may depend on another axis only until that axis is folded.
    fixed = [one for one in every if not any(map(one.depends_on, axes))]
    result: list[OneHot] = []
    for one_hot in (*fixed, *every):
        if _is_independent(one_hot, result):
            result.append(one_hot)
    return result


def _one_hots_along(
    axis: int, size: sint, equalities: Iterable[tuple[UOp, tuple[Term, Term]]]
) -> Iterator[OneHot]:
    """Yield the one-hot of each equality that selects along an axis."""
    if size in (0, 1):
        return
    for equality, (left, right) in equalities:
        one_hot = _solve_equality(axis, size, equality, left, right)
        one_hot = one_hot or _solve_equality(axis, size, equality, right, left)
        if one_hot is not None:
            yield one_hot


_SELECTING = frozenset({Ops.WHERE, Ops.CAST, Ops.MUL, Ops.AND, Ops.OR, Ops.CMPNE}) | MOVEMENT


def _is_independent(one_hot: OneHot, others: list[OneHot]) -> bool:
    """Return True if axis and equality differ from `others`, and no position depends on another."""
    if any(other.axis == one_hot.axis or other.equality is one_hot.equality for other in others):
        return False
    if any(one_hot.depends_on(other.axis) for other in others):
        return False
    return not any(other.depends_on(one_hot.axis) for other in others)


# --- where a value is not the identity ------------------------------------------------------------


def _equalities(start: Term, identity: ConstArg) -> Iterator[tuple[UOp, tuple[Term, Term]]]:
    """Yield equalities that must hold or `start` is `identity`: CMPNE and its sides."""
    stack = [(start, identity)]
    for _ in range(MAX_CONDITIONS):
        if not stack:
            return
        (node, tracker), idle = stack.pop()
        if node.op in MOVEMENT:
            # Outside its source, a PAD gives 0.
            if node.op is not Ops.PAD or idle == ConstArg(as_const(0, node.dtype)):
                stack.append((_term_of_movement(node, tracker), idle))
        elif node.op is Ops.CMPNE and not node.src[0].dtype.is_bool:
            if idle == ConstArg(True):
                yield node, ((node.src[0], tracker), (node.src[1], tracker))
        else:
            stack += [((source, tracker), value) for source, value in _idle_sources(node, idle)]


def _idle_sources(node: UOp, idle: ConstArg) -> Iterator[tuple[UOp, ConstArg]]:
    """Yield (source, value): if any one of the sources has its value, `node` has the value `idle`.

    A CMPNE compares bools.
    """
    src = node.src
    if node.op is Ops.WHERE and _constant(src[2]) == idle:
        yield src[0], ConstArg(False)
        yield src[1], idle
    elif node.op is Ops.WHERE and _constant(src[1]) == idle:
        yield src[0], ConstArg(True)
        yield src[2], idle
    elif node.op is Ops.CAST:
        before = _before_cast(node, idle)
        if before is not None:
            yield src[0], before
    elif node.op is Ops.CMPNE:
        flips = _constant(src[1])
        if flips is not None:
            yield src[0], ConstArg(idle.value != flips.value)
    elif _absorbs(node, idle):
        yield src[0], idle
        yield src[1], idle


def _absorbs(node: UOp, idle: ConstArg) -> bool:
    """Return True if `idle` as one operand decides the result; 0 * inf is NaN."""
    if node.op is Ops.OR:
        return idle == ConstArg(True)
    is_exact = node.op is Ops.AND or (node.op is Ops.MUL and node.dtype.is_int)
    return is_exact and not node.dtype.is_float and idle.value == 0


def _before_cast(node: UOp, idle: ConstArg) -> ConstArg | None:
    """Return a constant that the CAST `node` converts to `idle`."""
    source = node.src[0].dtype
    value = idle.value
    if not source.is_float and not _fits(int(value) if value == value // 1 else None, source):
        return None
    before = as_const(value, source)
    after = semantics.fold(Ops.CAST, node.dtype, [before], [source])
    return ConstArg(before) if ConstArg(after) == idle else None


def _fits(value: int | None, dtype: DType) -> bool:
    return value is not None and int(dtype.minimum) <= value <= int(dtype.maximum)


def _constant(node: UOp) -> ConstArg | None:
    while node.op in MOVEMENT and node.op is not Ops.PAD:
        node = node.src[0]
    return node.arg if isinstance(node.arg, ConstArg) else None


# --- the position that makes two sides equal ------------------------------------------------------


def _solve_equality(
    axis: int, size: sint, equality: UOp, counted: Term, index: Term
) -> OneHot | None:
    """Return the one-hot of `axis` by `counted == index`, if only `counted` counts along it.

    Terms that are added to the counter go to the other side; arithmetic wraps on both.
    """
    if not is_repeated(index, axis):
        return None
    terms = [index]
    other = index[0] if index[1] is None else None
    for _ in range(MAX_CONDITIONS):
        counted = _at_value(counted)
        line = _line(counted, axis, size)
        if line is not None:
            return OneHot(axis, equality, tuple(terms), other, *line, _mask_of(counted))
        node, tracker = counted
        sources = [(source, tracker) for source in node.src]
        if node.op is Ops.NEG:
            counted = sources[0]
        elif node.op not in (Ops.ADD, Ops.SUB):
            return None
        elif is_repeated(sources[1], axis):
            counted = sources[0]
            terms.append(sources[1])
        elif is_repeated(sources[0], axis):
            counted = sources[1]
            terms.append(sources[0])
        else:
            return None
        other = None if other is None else _solved(node, counted[0], other)
    return None


def _solved(node: UOp, counted: UOp, value: UOp) -> UOp:
    """Return the value of `counted`, a source of `node`, if the NEG, ADD or SUB is `value`."""
    if node.op is Ops.NEG:
        return build.unary(Ops.NEG, value)
    left, right = node.src
    if node.op is Ops.ADD:
        return build.sub(value, right if counted is left else left)
    return build.add(value, right) if counted is left else build.sub(left, value)


def _line(term: Term, axis: int, size: sint) -> tuple[int, int] | None:
    """Return (sign, offset) if the value is offset + sign * position and never wraps."""
    above: list[UOp] = []
    node, tracker = _at_value(term)
    while node.op in (Ops.CAST, Ops.ADD, Ops.SUB, Ops.NEG) and len(above) < MAX_CONDITIONS:
        if not node.dtype.is_int:
            return None
        above.append(node)
        number = 1 if node.op in (Ops.ADD, Ops.SUB) and _constant(node.src[0]) else 0
        node, tracker = _at_value((node.src[number], tracker))
    line = _counts(node, tracker, axis)
    last = (size if isinstance(size, int) else bounds(size)[1]) - 1
    for step in reversed(above):
        if line is None:
            return None
        line = _extend_line(step, *line)
        if line is None or not all(_fits(line[1] + line[0] * end, step.dtype) for end in (0, last)):
            return None
    return line


def node_tracker(node: UOp) -> ShapeTracker | None:
    """Return the tracker of a VIEW, VALID or IOTA of a kernel; None for any other node."""
    return tracker_of(node) if isinstance(node.arg, ViewArg) else None


def _mask_of(counted: Term) -> Mask:
    """Return the mask of the IOTA below a line; empty in a tensor graph."""
    iota = next(node for node in counted[0].toposort() if node.op is Ops.IOTA)
    tracker = node_tracker(iota)
    if tracker is None or tracker.views[0].mask is None:
        return ()
    axes = enumerate(zip(tracker.views[0].mask, tracker.shape, strict=True))
    return tuple((axis, ends) for axis, (ends, size) in axes if ends != (0, size))


def _extend_line(step: UOp, sign: int, offset: int) -> tuple[int, int] | None:
    """Return the line after one more operation with a constant."""
    if step.op is Ops.CAST:
        return sign, offset
    if step.op is Ops.NEG:
        return -sign, -offset
    first, second = (_constant(source) for source in step.src)
    if second is not None:
        value = int(second.value)
        return sign, offset + (value if step.op is Ops.ADD else -value)
    if first is None:
        return None
    value = int(first.value)
    return (sign, offset + value) if step.op is Ops.ADD else (-sign, value - offset)


def _counts(node: UOp, tracker: ShapeTracker | None, axis: int) -> tuple[int, int] | None:
    """Return (sign, offset) of an IOTA that counts only along `axis`."""
    if node.op is not Ops.IOTA or node.src:
        return None
    tracker = tracker or node_tracker(node)
    is_kernel = tracker is node_tracker(node)
    if tracker is None or len(tracker.views) > 1:
        return None
    (view,) = tracker.views
    # A kernel may mask values around a one-hot reduce; a tensor graph is cut there.
    if view.mask is not None and (not is_kernel or view.mask[axis] != (0, view.shape[axis])):
        return None
    stride, offset = view.strides[axis], view.offset
    others = [other for other in range(len(view.shape)) if other != axis]
    if any(view.strides[other] != 0 and not is_one(view.shape[other]) for other in others):
        return None
    if isinstance(stride, UOp) or isinstance(offset, UOp) or abs(stride) != 1:
        return None
    return stride, offset


# --- terms ----------------------------------------------------------------------------------------


def _term_of_movement(node: UOp, tracker: ShapeTracker | None) -> Term:
    """Return the source of a movement node of a tensor graph, with its tracker."""
    assert tracker is not None, "there is no movement in a kernel"
    source = node.src[0]
    step = apply_movement(ShapeTracker.from_shape(shape_of(source)), node.op, node.arg)
    return source, step.followed_by(tracker)


def _at_value(term: Term) -> Term:
    """Return the term below movement, except padding."""
    node, tracker = term
    while node.op in MOVEMENT and node.op is not Ops.PAD:
        node, tracker = _term_of_movement(node, tracker)
    return node, tracker


def repeats(tracker: ShapeTracker, axis: int) -> bool:
    """Return True if a view shows the same element at every position along `axis`."""
    view = tracker.views[-1]
    if is_one(view.shape[axis]):
        return True
    if view.mask is not None and any(begin == end for begin, end in view.mask):
        # The view shows nothing: it is 0 everywhere.
        return True
    return view.strides[axis] == 0 and (
        view.mask is None or view.mask[axis] == (0, view.shape[axis])
    )


def is_repeated(start: Term, axis: int) -> bool:
    """Return True if the graph shows that the value of a term is constant along `axis`."""
    stack = [start]
    seen: set[Term] = set()
    while stack:
        term = stack.pop()
        if term in seen:
            continue
        seen.add(term)
        below = None if len(seen) > MAX_TERMS else _changing(*term, axis)
        if below is None:
            return False
        stack += below
    return True


def _changing(node: UOp, tracker: ShapeTracker | None, axis: int) -> list[Term] | None:
    """Return the terms that must be constant for `node` to be; None if it changes itself."""
    if node.op in (Ops.CONST, Ops.DEFINE_VAR) or (tracker is not None and repeats(tracker, axis)):
        return []
    if node.op in ALU:
        return [(source, tracker) for source in node.src]
    if tracker is not None:
        return [_term_of_movement(node, tracker)] if node.op in MOVEMENT else None
    if isinstance(node.arg, ReduceArg):
        return [] if axis in node.arg.axes else [(node.src[0], None)]
    view = node.src[0] if node.op is Ops.LOAD else node
    if not isinstance(view.arg, ViewArg) or not repeats(tracker_of(view), axis):
        return None
    return [(position, None) for position in positions_of(view)]
