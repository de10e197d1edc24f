"""Scatters: sums whose terms each go to one output, at a position that an index gives.

`out[r] = sum over t of (x[t] where k[t] == r else 0)` compares every r with every k[t]. A scatter
sets all outputs to 0, then adds each x[t] to out[k[t]]. It is the opposite of the gather that
`fold_ranges` makes. Each output gets its terms in the order of the reduce, and those that it does
not get are the identity of the reduce. So the result has the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from tinyref.algebra.shapes import kernel_shape, positions_of
from tinyref.dtype import as_const, dtypes
from tinyref.optimise.fold_ranges import at_position, fold_known, in_shape, place_axis
from tinyref.optimise.normal_form import OUTPUT
from tinyref.optimise.one_hot import find_one_hots
from tinyref.optimise.plan import Plan, Scatter
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ConstArg, ReduceArg
from tinyref.views.shape_tracker import tracker_of


def with_scatter(plan: Plan) -> Plan | str:
    """Return the plan of the kernel as a scatter, or the reason why it is none."""
    stores = plan.form.ast.src
    reduces = [node for node in plan.nodes if node.op is Ops.REDUCE]
    if len(stores) != 1 or stores[0].src[1:] != tuple(reduces):
        return "the kernel stores more than the result of one reduce"
    (store,), (reduce,) = stores, reduces
    assert isinstance(reduce.arg, ReduceArg), "a REDUCE has its payload"
    outputs = [axis for axis, owner in enumerate(plan.form.owners) if owner == OUTPUT]
    one_hots = [one_hot for one_hot in find_one_hots(reduce, outputs) if not one_hot.mask]
    if not one_hots:
        return "a term of the reduce goes to several positions of each output axis"
    one_hot, axis = one_hots[0], one_hots[0].axis
    # The index does not change along the axis, so any position of the axis will do.
    index = at_position(one_hot.position(), one_hot, build.const(dtypes.int32, 0))
    if not _differs_along(index, reduce.arg.axes):
        return "the position of a term is not computed from one loaded index for each term"
    view = place_axis(store.src[0], tracker_of(store.src[0]), store.src[0].src, axis, index)
    sizes = kernel_shape(reduce.src[0])
    shape = tuple(1 if number == axis else size for number, size in enumerate(sizes))
    value = at_position(reduce.src[0], one_hot, index)
    term = in_shape(value, shape, build.const(value.dtype, 0))
    ast = build.sink(build.store(view, reduce.with_sources((term,))))
    axes = [
        replace(other, kind=AxisKind.LOOP) if other.kind is AxisKind.REDUCE else other
        for other in plan.axes
        if other.target != axis
    ]
    scatter = Scatter(plan.form.ast, reduce.arg.op, axis)
    return replace(plan, form=replace(plan.form, ast=ast), scatter=scatter).with_axes(axes)


def _differs_along(index: UOp, axes: tuple[int, ...]) -> bool:
    """Return True if an index is computed from one LOAD or IOTA, and changes along each axis.

    No simplification can then make it constant along an axis, so every access to an output stays
    in the loop over the terms.
    """
    sources = [node for node in index.toposort() if node.op in (Ops.LOAD, Ops.IOTA)]
    if len(sources) != 1:
        return False
    (source,) = sources
    view = source.src[0] if source.op is Ops.LOAD else source
    tracker = tracker_of(view)
    if positions_of(view) or tracker.is_masked or len(tracker.views) > 1:
        return False
    first, strides = tracker.views[0].offset, tracker.views[0].strides
    for axis in axes:
        # A buffer may hold any values, an IOTA counts.
        ends = (0, 1) if source.op is Ops.LOAD else (first, first + strides[axis])
        values = [_value_if(index, source, end) for end in ends]
        if strides[axis] == 0 or None in values or values[0] == values[1]:
            return False
    return True


def _value_if(index: UOp, source: UOp, value: sint) -> ConstArg | None:
    """Return the value of `index` if `source` gives `value`; None if that is not known."""
    if isinstance(value, UOp):
        return None
    known: dict[UOp, ConstArg | None] = {source: ConstArg(as_const(value, source.dtype))}
    for node in index.toposort():
        if isinstance(node.arg, ConstArg):
            known[node] = node.arg
        elif node not in known:
            known[node] = fold_known(node, [known[source] for source in node.src])
    return known[index]
