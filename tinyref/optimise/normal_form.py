"""The normal form of a kernel: every axis belongs to the outputs or to one group of reduces.

A kernel AST may use one axis twice, as in x - max(x): the axis of the output is also the axis of
the maximum. In normal form these are two axes, so each can be split and ordered by itself. REDUCEs
over the same positions share their axes: they are a group.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tinyref.algebra.rewrite import listeners, takes_step
from tinyref.algebra.semantics import reduce_identity
from tinyref.algebra.shapes import (
    Shape,
    check_repeated_axes,
    common_shape,
    is_one,
    kernel_shape,
    positions_of,
    reduced_axes,
    reduced_sizes,
)
from tinyref.algebra.symbolic import lift, lowest, product
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.uops import build
from tinyref.uops.node import UOp, node_fact, rebuild, sint, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of

# The owner of the positions of an axis: the outputs, or the group of reduces with this number.
OUTPUT = -1
# An axis of size 1 has only one position.
NOBODY = -2

# The context in which a node is evaluated: for each axis of the AST, the owner of its positions.
Context = tuple[int, ...]
Task = tuple[UOp, Context]


@dataclass(frozen=True)
class NormalForm:
    """`ast` in normal form, without axes of size 1; `owners` has OUTPUT or a group for each axis.

    The axes of the outputs come first, then the axes of groups, enclosing groups before nested
    ones. Stores without elements are removed.
    """

    ast: UOp
    owners: tuple[int, ...]

    @functools.cached_property
    def shape(self) -> Shape:
        """Return the size of each axis."""
        sizes: list[int | UOp] = [1] * len(self.owners)
        for node in self.ast.toposort():
            for axis, size in enumerate(kernel_shape(node) if node.op is not Ops.SINK else ()):
                if not is_one(size):
                    sizes[axis] = size
        return tuple(sizes)


def normal_form(ast: UOp) -> NormalForm:
    """Return the normal form of a kernel AST, with the same value in each slot.

    Raises `UserError` if the shapes of the stores do not belong together.
    """
    counts_steps = listeners().steps is not None
    known: NormalForm | tuple[int, ...] | None = ast.facts.get(normal_form)
    if counts_steps:
        # An earlier result must not hide a step.
        known = None
    if isinstance(known, NormalForm):
        return known
    if known is not None:
        return NormalForm(ast, known)
    form = unmerged_form(ast)
    merged, owners = merge_within(form.ast, form.owners)
    if merged is not form.ast and not takes_step("pass", "merge_axes"):
        return form
    form = NormalForm(merged, tuple(owners))
    if fold_ranges(merged) is not merged:
        # A reduce over nothing or over one position hid a one-hot reduce, or several of its axes
        # were merged.
        form = normal_form(merged)
    if not counts_steps:
        # The node itself is not stored: it would keep itself alive.
        ast.facts[normal_form] = form.owners if form.ast is ast else form
    return form


def unmerged_form(ast: UOp) -> NormalForm:
    """Return the normal form before neighbouring axes are merged; errors as in `normal_form`."""
    ast = fold_ranges(ast)
    # An empty output writes nothing, and must not prevent another one from writing.
    stores = [store for store in ast.src if 0 not in kernel_shape(store.src[0])]
    if not stores:
        return NormalForm(build.sink(), ())
    shape = common_shape(stores)
    check_repeated_axes(stores, shape)
    walk = _Walk(stores, shape)
    root = walk.rebuilt(stores)
    return NormalForm(root, tuple(walk.owners))


def _task(node: UOp, context: Context) -> Task:
    shape = kernel_shape(node)
    if not shape:
        return node, ()
    return node, tuple(
        NOBODY if is_one(size) else owner for size, owner in zip(shape, context, strict=True)
    )


def _is_empty(node: UOp) -> bool:
    return isinstance(node.arg, ReduceArg) and 0 in reduced_sizes(node)


class _Walk:
    """Every node in every context in which it is evaluated, sources first."""

    def __init__(self, stores: list[UOp], shape: Shape) -> None:
        self.outer: Context = (OUTPUT,) * len(shape)
        self.groups: dict[tuple[Context, tuple[int, ...], Shape, int], int] = {}
        roots = [_task(part, self.outer) for store in stores for part in store.src]
        self.order = toposort(roots, lambda task: self.sources(*task))
        # The new axis of each pair of an old axis and an owner.
        self.axis_of: dict[tuple[int, int], int] = {}
        self.owners: list[int] = []
        for axis, size in enumerate(shape):
            if not is_one(size):
                self._add(axis, OUTPUT)
        for (_, axes, sizes, _), group in self.groups.items():
            for axis, size in zip(axes, sizes, strict=True):
                if not is_one(size):
                    self._add(axis, group)

    def _add(self, axis: int, owner: int) -> None:
        self.axis_of[axis, owner] = len(self.owners)
        self.owners.append(owner)

    def sources(self, node: UOp, context: Context) -> list[Task]:
        """Return the sources of `node` in their contexts; none for a REDUCE over nothing."""
        if _is_empty(node):
            return []
        if isinstance(node.arg, ViewArg):
            return [_task(position, context) for position in positions_of(node)]
        if isinstance(node.arg, ReduceArg):
            context = self.inside(node, node.arg, context)
        return [_task(source, context) for source in node.src]

    def inside(self, node: UOp, arg: ReduceArg, context: Context) -> Context:
        """Return the context of the source of a REDUCE.

        REDUCEs over the same axes share them, unless one may need the result of the other: that one
        is nested deeper in the AST.
        """
        key = (context, arg.axes, reduced_sizes(node), _depth(node))
        group = self.groups.setdefault(key, len(self.groups))
        return tuple(group if axis in arg.axes else owner for axis, owner in enumerate(context))

    def rebuilt(self, stores: list[UOp]) -> UOp:
        done: dict[Task, UOp] = {}
        for task in self.order:
            node, context = task
            src = tuple([done[source] for source in self.sources(*task)])
            done[task] = self._rebuilt(node, context, src)
        new_stores = [
            build.store(*[done[_task(part, self.outer)] for part in store.src]) for store in stores
        ]
        return build.sink(*new_stores)

    def _rebuilt(self, node: UOp, context: Context, src: tuple[UOp, ...]) -> UOp:
        if isinstance(node.arg, ViewArg):
            tracker = self._place_axes(tracker_of(node), context, len(src))
            memory = node.src[: len(node.src) - len(src)]
            return UOp(node.op, node.dtype, (*memory, *src), ViewArg(tracker))
        if not isinstance(node.arg, ReduceArg):
            return node.with_sources(src)
        if _is_empty(node):
            return self._identity(node, node.arg, context)
        inside = self.inside(node, node.arg, context)
        sizes = zip(node.arg.axes, reduced_sizes(node), strict=True)
        axes = [self.axis_of[axis, inside[axis]] for axis, size in sizes if not is_one(size)]
        if axes:
            return build.reduce(node.arg.op, src[0], tuple(axes))
        return build.reduce_single(node.arg.op, src[0])

    def _identity(self, node: UOp, arg: ReduceArg, context: Context) -> UOp:
        """Return the value of a REDUCE over nothing, on all axes that remain.

        A reduce around it loops over these axes, which may have their size only here.
        """
        identity = build.const(node.dtype, reduce_identity(arg.op, node.dtype))
        if all(owner in (OUTPUT, NOBODY) for owner in context):
            return identity
        tracker = self._place_axes(ShapeTracker.from_shape(kernel_shape(node)), context, 0)
        everywhere = build.valid(tracker)
        return UOp(Ops.WHERE, node.dtype, (everywhere, identity, identity))

    def _place_axes(self, tracker: ShapeTracker, context: Context, placed: int) -> ShapeTracker:
        """Return the view with its axes at their new positions, and size 1 on all others.

        Its last `placed` axes take their positions from values, and stay.
        """
        rank = len(tracker.shape) - placed
        last = tracker.shape[rank:]
        axes = [axis for axis, size in enumerate(tracker.shape[:rank]) if not is_one(size)]
        sizes = {self.axis_of[axis, context[axis]]: tracker.shape[axis] for axis in axes}
        order = sorted(range(len(axes)), key=list(sizes).__getitem__)
        split = tracker.reshape([*sizes.values(), *last])
        moved = split.permute((*order, *range(len(axes), len(axes) + placed)))
        ones = [sizes.get(axis, 1) for axis in range(len(self.owners))]
        return moved.reshape([*ones, *last])


@node_fact
def _depth(node: UOp) -> int:
    """Return the number of reduces that are nested in the value of `node`, itself included."""
    below = max((_depth(source) for source in node.src), default=0)
    return below + (node.op is Ops.REDUCE)


# --- neighbouring axes become one where all views allow it: fewer, longer loops -------------------


Runs = list[list[int]]
Label = TypeVar("Label")


def merge_axes(ast: UOp) -> UOp:
    """Merge every pair of neighbouring axes that no view separates.

    Two axes merge only if the same REDUCEs loop over both of them.
    """
    return merge_within(ast, reducers(ast))[0]


def reducers(ast: UOp) -> list[frozenset[UOp]]:
    """Return the REDUCEs that loop over each axis."""
    order = ast.toposort()
    rank = next((len(kernel_shape(n)) for n in order if isinstance(n.arg, ViewArg)), 0)
    return [frozenset(node for node in order if axis in reduced_axes(node)) for axis in range(rank)]


def merge_within(ast: UOp, labels: Sequence[Label]) -> tuple[UOp, list[Label]]:
    """Merge neighbouring axes of equal label; return the AST and the remaining labels."""
    order = ast.toposort()
    trackers = list({tracker_of(n): None for n in order if isinstance(n.arg, ViewArg)})
    runs: Runs = []
    for axis in range(len(labels)):
        if runs and labels[axis] == labels[runs[-1][0]]:
            wider = [*runs[:-1], [*runs[-1], axis]]
            rest = [[later] for later in range(axis + 1, len(labels))]
            if all(_stays_simple(tracker, wider + rest, axis) for tracker in trackers):
                runs = wider
                continue
        runs.append([axis])
    if len(runs) == len(labels):
        return ast, list(labels)
    return _with_runs(ast, runs), [labels[run[0]] for run in runs]


def _merged_shape(tracker: ShapeTracker, runs: Runs) -> tuple[sint, ...]:
    # Axes after those of the kernel take their positions from values.
    placed = tracker.shape[runs[-1][-1] + 1 :]
    return (*(product(tracker.shape[axis] for axis in run) for run in runs), *placed)


def _stays_simple(tracker: ShapeTracker, runs: Runs, axis: int) -> bool:
    # A value that varies along only one of the axes would need a size between the two.
    if is_one(tracker.shape[axis - 1]) != is_one(tracker.shape[axis]):
        return False
    merged = _merged_shape(tracker, runs)
    # Sizes are never negative, but this may not be proved for a product of them.
    if any(lowest(lift(size)) < 0 for size in merged):
        return False
    return len(tracker.reshape(merged).views) <= len(tracker.views)


def _with_runs(ast: UOp, runs: Runs) -> UOp:
    run_of = {axis: number for number, run in enumerate(runs) for axis in run}

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, ViewArg):
            tracker = tracker_of(node)
            return node.replace(src=src, arg=ViewArg(tracker.reshape(_merged_shape(tracker, runs))))
        if isinstance(node.arg, ReduceArg):
            axes = sorted({run_of[axis] for axis in node.arg.axes})
            return node.replace(src=src, arg=ReduceArg(node.arg.op, tuple(axes)))
        return None

    return rebuild(ast, change)


# --- values that a reduce and the outputs both need -----------------------------------------------


@dataclass(frozen=True)
class Reused:
    """A value `inner` of a reduce over AST axis `reduced` that is `outer` along axis `output`."""

    inner: UOp
    outer: UOp
    reduced: int
    output: int


def reused_values(form: NormalForm) -> tuple[Reused, ...]:
    """Return the values of reduces that the outputs of a kernel need again, at each position."""
    values: tuple[Reused, ...] | None = form.ast.facts.get(reused_values)
    if values is None:
        values = tuple(_reused_values(form))
        form.ast.facts[reused_values] = values
    return values


def _reused_values(form: NormalForm) -> Iterator[Reused]:
    nodes = set(form.ast.toposort())
    outputs = [axis for axis, owner in enumerate(form.owners) if owner == OUTPUT]
    seen: set[UOp] = set()
    for node in form.ast.toposort():
        if not isinstance(node.arg, ReduceArg) or len(node.arg.axes) != 1:
            continue
        inner, reduced = node.src[0], node.arg.axes[0]
        if inner in seen or inner.op not in ALU or not isinstance(form.shape[reduced], int):
            continue
        for output in outputs:
            outer = _exchanged(inner, reduced, output)
            if outer is not inner and outer in nodes:
                seen.add(inner)
                yield Reused(inner, outer, reduced, output)
                break


def _exchanged(value: UOp, one: int, other: int) -> UOp:
    """Return `value` with two axes of the AST exchanged."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not isinstance(node.arg, ViewArg):
            return None
        tracker = tracker_of(node)
        order = list(range(len(tracker.shape)))
        order[one], order[other] = other, one
        return node.replace(src=src, arg=ViewArg(tracker.permute(order)))

    return rebuild(value, change)
