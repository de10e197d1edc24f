"""Mutants of views in the compiler: merged axes, masks, index arithmetic, the normal form."""

from __future__ import annotations

import functools

from tinyref_fuzz.mutants.mutant import Mutant

_TRACKER = "tinyref.views.shape_tracker"
_COMPOSITION = "tinyref.views.composition"
_NORMAL = "tinyref.optimise.normal_form"
# A view is made for the normal form and read by lowering.
_STAGES = ("normal", "lower", "evaluate")

_merge = functools.partial(
    Mutant, kind="masks lost when views merge", module=_COMPOSITION, stages=_STAGES
)
MERGES = (
    _merge(
        name="merged-with-gap",
        kind="merged non-contiguous dims",
        old="        elif outer.stride == axis.size * axis.stride "
        "and axis.end - axis.begin == axis.size:",
        new="        elif axis.stride == 1 and axis.end - axis.begin == axis.size:",
        resembles="rows with a gap between them were read as one long row",
    ),
    _merge(
        name="merged-loses-inner-mask",
        old="        elif outer.stride == axis.size * axis.stride "
        "and axis.end - axis.begin == axis.size:",
        new="        elif outer.stride == axis.size * axis.stride:",
        resembles="the padding of rows was forgotten when rows became one axis",
    ),
    _merge(
        name="merged-loses-outer-begin",
        old="            begin, end = outer.begin * axis.size, outer.end * axis.size",
        new="            begin, end = outer.begin, outer.end * axis.size",
        resembles="where a mask begins was counted in rows, where it ends in elements",
    ),
    _merge(
        name="composed-mask-not-a-box",
        old="        if not at_most(run.begin, low) or not at_most(high + 1, run.end):\n"
        "            return None",
        new="        if not at_most(run.begin, low) or not at_most(high + 1, run.end):\n"
        "            return box",
        resembles="a mask that is no box after a reshape was replaced by the box around it",
    ),
    _merge(
        name="axes-of-other-owners-merged",
        kind="merged non-contiguous dims",
        module="tinyref.optimise.merge_axes",
        old="            if all(_stays_simple(tracker, wider + rest, axis) "
        "for tracker in trackers):",
        new="            if all(_stays_simple(tracker, wider + rest, axis) "
        "for tracker in trackers[:1]):",
        resembles="axes were merged because the first buffer allows it",
        stages=("normal",),
    ),
    _merge(
        name="permutation-inverted",
        kind="permuted axes",
        module=_NORMAL,
        old="        order = sorted(range(len(axes)), key=list(sizes).__getitem__)",
        new="        order = sorted(range(len(axes)), key=list(sizes).__getitem__)\n"
        "        order.sort(key=order.copy().__getitem__)",
        resembles="a permutation of three axes was applied the other way round",
        stages=("normal",),
    ),
)

_index = functools.partial(Mutant, kind="mask off by one", module=_TRACKER, stages=("lower",))
INDICES = (
    _index(
        name="mask-end-included",
        old="            conditions.append(build.less(position, as_node(bounds[1])))",
        new="            conditions.append(build.less(position, build.add(as_node(bounds[1]), 1)))",
        resembles="the first element of the padding was read too",
    ),
    _index(
        name="mask-begin-excluded",
        old="            conditions.append(build.at_least(position, as_node(bounds[0])))",
        new="            conditions.append(build.less(as_node(bounds[0]), position))",
        resembles="the element just after the padding was taken for padding",
    ),
    _index(
        name="only-last-mask",
        kind="masks lost when views merge",
        old="        valid = condition if valid.op is Ops.CONST else build.both(valid, condition)",
        new="        valid = condition",
        resembles="of several conditions on an index only the last was kept",
    ),
    _index(
        name="mask-of-outer-view-alone",
        kind="masks lost when views merge",
        old="        index = _flat(view, _unflatten(index, view.shape), conditions)",
        new="        index = _flat(view, _unflatten(index, view.shape), [])",
        resembles="of a padded view that was reshaped the padding was forgotten",
    ),
    _index(
        name="offset-of-constant-view",
        kind="offset lost",
        old="        known = known.plus(Linear({}, offset))",
        new="        known = known.plus(Linear({}, 0 if -1 in strides else offset))",
        resembles="a flipped axis was read from the wrong end",
    ),
)

_reduce = functools.partial(
    Mutant, kind="wrong reduce identity", module=_NORMAL, stages=("normal",)
)
REDUCES = (
    _reduce(
        name="empty-reduce-is-zero",
        old="build.const(node.dtype, reduce_identity(arg.op, node.dtype))",
        new="build.const(node.dtype, 0)",
        resembles="the maximum of nothing was 0",
    ),
    _reduce(
        name="empty-reduce-loses-axes",
        old="        if all(owner in (OUTPUT, NOBODY) for owner in context):",
        new="        if context:",
        resembles="a sum over an axis that only the sum of nothing in it has was of one term",
    ),
    _reduce(
        name="empty-output-stops-all",
        kind="store gated wrongly",
        old="    if not stores:\n",
        new="    if len(stores) < len(ast.src):\n",
        resembles="one output without elements kept all others from being written",
    ),
)

MUTANTS = (*MERGES, *INDICES, *REDUCES)
