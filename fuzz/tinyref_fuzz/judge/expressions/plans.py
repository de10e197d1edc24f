"""What plans accept and refuse, on devices of every kind, as of `docs/spec/optimisations.md`.

No value tells that an optimisation is refused for nothing, and few that one is accepted against its
rule. A plan costs microseconds, so that of a small kernel is asked for devices of every kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from tinyref.algebra.kernel_shape import positions_of
from tinyref.capabilities import Capabilities
from tinyref.dtype import ImageDType, dtypes
from tinyref.optimise.opt import OPTS, REUSED, Argument, Opt, OptOp, opts_text
from tinyref.optimise.plan import LANE_KINDS, Axis, Plan, changes
from tinyref.optimise.reused import Reused, reused_values
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind, ViewArg
from tinyref.views.build import tracker_of
from tinyref_fuzz.judge.expressions.padded import MAX_PADDING, may_pad
from tinyref_fuzz.judge.expressions.points import Problem
from tinyref_fuzz.judge.expressions.questions import Question
from tinyref_fuzz.judge.expressions.tiled import tile_questions
from tinyref_spec.kernel_case import Case, Symptom

COLUMN = "plans"
MEMORY = 1 << 16
# Of the questions to any kernel one in so many is asked beside a case.
SHARE = 5
SELDOM = 9
# Multiples of which most sizes have some and some not.
MULTIPLES = (-4, 1, 2, 3, 5)
_REDUCING = (OptOp.GROUP, OptOp.GROUPTOP)
_CUTTING = tuple(op for op, spec in OPTS.items() if spec.takes is Argument.AMOUNT)
_KIND_OF_CUT = {
    OptOp.UPCAST: AxisKind.UPCAST,
    OptOp.UNROLL: AxisKind.UNROLL,
    OptOp.LOCAL: AxisKind.LOCAL,
    OptOp.GROUP: AxisKind.GROUP_REDUCE,
    OptOp.GROUPTOP: AxisKind.GROUP_REDUCE,
    OptOp.THREAD: AxisKind.THREAD,
}


def plan_problems(case: Case, own: Capabilities, lot: int | None = None) -> Iterator[Problem]:
    """The optimisations of a kernel that are accepted or refused against their rule.

    lot: the number of a case of a campaign, of which one device is asked some questions; all
    without it.
    """
    if any(isinstance(node.dtype, ImageDType) for node in case.ast.toposort()):
        # The lanes of texels are chosen before.
        return
    devices = _devices(own)
    if lot is not None:
        # With neither there is little that may be accepted.
        devices = (devices[2 if lot % SELDOM == 0 else lot % 2],)
    for name, device in devices:
        plan = Plan.of(case.ast, device)
        for question in _questions(plan, lot):
            asked = plan
            if question.changes:
                asked = Plan.of(case.ast, replace(device, **question.changes))
            if _accepts(asked, question.opts) != question.is_legal:
                answer = "refused" if question.is_legal else "accepted"
                more = "".join(f", {key} {value}" for key, value in question.changes.items())
                text = f"{opts_text(question.opts)} is {answer} with {name}{more}"
                yield Problem(COLUMN, text, Symptom.COST)


def _devices(own: Capabilities) -> tuple[tuple[str, Capabilities], ...]:
    """A device as if it had groups, or threads, or neither and no long index."""
    groups = replace(
        own,
        dtypes=own.dtypes | {dtypes.int64},
        has_grid=True,
        has_groups=True,
        threads=1,
        shared_bytes=MEMORY,
        grid_limit=(1 << 31, 1 << 15, 1 << 15),
        group_limit=(1024, 1024, 64),
        group_size_limit=1024,
        matrix_tiles=(),
    )
    host = replace(groups, has_grid=False, has_groups=False, threads=4)
    return (
        ("groups", groups),
        ("threads", host),
        ("neither", replace(host, threads=1, shared_bytes=0, dtypes=own.dtypes - {dtypes.int64})),
    )


def _accepts(plan: Plan, opts: tuple[Opt, ...]) -> bool:
    for opt in opts:
        reached = plan.legal(opt)
        if reached is None:
            return False
        plan = reached
    return True


def _questions(plan: Plan, lot: int | None) -> Iterator[Question]:
    """All questions; of those that any kernel is asked a part where there is a number of a case."""
    yield from _paddings(plan)
    yield from _copies(plan)
    yield from _kept(plan)
    yield from _items(plan)
    yield from _shared_items(plan)
    common = (_without_axis, _cuts, _orders, _cut_twice, tile_questions)
    every = itertools.chain.from_iterable(asked(plan) for asked in common)
    yield from every if lot is None else itertools.islice(every, lot % SHARE, None, SHARE)


def _has_feature(plan: Plan, op: OptOp) -> bool:
    device = plan.capabilities
    match OPTS[op].feature:
        case "groups":
            has_memory = op not in _REDUCING or device.shared_bytes > 0
            return device.has_groups and plan.uses_groups and has_memory
        case "threads":
            return not device.has_grid and not plan.of_kind(AxisKind.THREAD)
        case "scratch":
            return not device.has_groups and device.shared_bytes > 0
    return True


def _without_axis(plan: Plan) -> Iterator[Question]:
    for op, spec in OPTS.items():
        if spec.has_axis:
            yield from (Question((Opt(op, axis, 2),), False) for axis in (-1, len(plan.axes)))


# --- cuts -----------------------------------------------------------------------------------------


def _cuts(plan: Plan, only: int | None = None) -> Iterator[Question]:
    """What cuts an axis: by its divisors, to the limits of the op and of the device."""
    for (number, axis), op in itertools.product(enumerate(plan.axes), _CUTTING):
        if only is not None and number != only:
            continue
        size = axis.extent
        if not isinstance(size, int):
            yield Question((*plan.opts, Opt(op, number, 2)), False)
            continue
        fits = axis.kind in OPTS[op].kinds and _has_feature(plan, op) and _may_share(plan, op, axis)
        for amount in dict.fromkeys((-size, 0, 1, 2, 3, size, 2 * size)):
            whole = size if amount == 0 and OPTS[op].may_be_whole else amount
            divides = whole >= 2 and size % whole == 0
            is_legal = fits and divides and whole <= _most(plan, op, axis)
            yield Question((*plan.opts, Opt(op, number, amount)), is_legal)


def _may_share(plan: Plan, op: OptOp, axis: Axis) -> bool:
    """Whether a group may share out what goes over an axis."""
    return op not in _REDUCING or (
        len(plan.reduces_over(axis.target)) == 1
        and not any(plan.loads_of(slot_of(store)) for store in plan.form.ast.src)
    )


def _most(plan: Plan, op: OptOp, axis: Axis) -> int:
    """The largest amount of an optimisation; each work-item of a group has room for its result."""
    device = plan.capabilities
    if op is OptOp.THREAD:
        return device.threads
    if op is OptOp.LOCAL:
        return device.group_size_limit // plan.group_size
    if op in _REDUCING:
        items = device.group_size_limit // plan.group_size
        needed = plan.group_size * sum(
            reduce.dtype.itemsize * _lanes_of(plan, reduce)
            for reduce in plan.reduces_over(axis.target)
        )
        return min(items, device.shared_bytes // max(1, needed))
    return OPTS[op].max_amount or 1


def _lanes_of(plan: Plan, node: UOp) -> int:
    """In how many lanes of a plan a value is another one."""
    lanes = 1
    for axis in plan.axes:
        if axis.kind in LANE_KINDS and axis.target in changes(node):
            lanes *= axis.extent if isinstance(axis.extent, int) else 1
    return lanes


def _cut_twice(plan: Plan) -> Iterator[Question]:
    """What may follow a cut, on the axis that is cut off and on what is left."""
    for (number, axis), op in itertools.product(enumerate(plan.axes), _CUTTING):
        size = axis.extent
        if not isinstance(size, int) or size % 2 or size < 4:
            continue
        reached = plan.legal(Opt(op, number, 2))
        if reached is None:
            continue
        kind = _KIND_OF_CUT[op]
        for place in reached.of_kind(kind):
            if reached.axes[place].target != axis.target:
                continue
            if kind is not AxisKind.GROUP_REDUCE:
                yield from _cuts(reached, place)
            yield Question((*reached.opts, Opt(OptOp.PADTO, place, 3)), False)
            others = reached.of_kind(AxisKind.GLOBAL)
            yield from (Question((*reached.opts, Opt(OptOp.SWAP, o, place)), False) for o in others)
        left = next(
            (
                n
                for n, a in enumerate(reached.axes)
                if a.target == axis.target and a.kind is axis.kind
            )
        )
        if op not in _REDUCING:
            yield from _cuts(reached, left)
        if op in (OptOp.GROUPTOP, OptOp.THREAD):
            # It is the inner part: more iterations would repeat positions of the next one.
            yield Question((*reached.opts, Opt(OptOp.PADTO, left, size // 2 + 1)), False)
        if plan.capabilities.has_groups:
            is_free = kind not in (AxisKind.LOCAL, AxisKind.GROUP_REDUCE)
            yield Question((*reached.opts, Opt(OptOp.NOLOCALS)), is_free)


def _items(plan: Plan) -> Iterator[Question]:
    """Groups that are switched off, and the limits of what a group has."""
    device = plan.capabilities
    off = Opt(OptOp.NOLOCALS)
    yield Question((off,), device.has_groups)
    if not device.has_groups:
        return
    yield Question((off, off), False)
    even = [
        number
        for number, axis in enumerate(plan.axes)
        if isinstance(axis.extent, int) and axis.extent % 2 == 0
    ]
    outputs = [number for number in even if plan.axes[number].kind is AxisKind.GLOBAL]
    for number in outputs:
        cut = Opt(OptOp.LOCAL, number, 2)
        yield Question((off, cut), False)
        for name, fits, too_small in (
            ("group_size_limit", 2, 1),
            ("group_limit", (2, 1, 1), (1, 2, 2)),
        ):
            yield Question((cut,), True, {name: fits})
            yield Question((cut,), False, {name: too_small})
    for number in even:
        reduces = plan.reduces_over(plan.axes[number].target)
        cut = Opt(OptOp.GROUP, number, 2)
        if not _may_share(plan, OptOp.GROUP, plan.axes[number]):
            continue
        yield Question((off, cut), False)
        yield Question((cut,), False, {"shared_bytes": 0})
        for lanes in ((), *((Opt(OptOp.UPCAST, output, 2),) for output in outputs)):
            copies = [plan.axes[lane.axis].target in changes(reduces[0]) for lane in lanes]
            needed = 2 * reduces[0].dtype.itemsize * (2 if any(copies) else 1)
            # What is cut off comes behind; an axis that is lanes altogether is gone.
            gone = any(plan.axes[lane.axis].extent == 2 and lane.axis < number for lane in lanes)
            opts = (*lanes, replace(cut, axis=number - gone))
            yield Question(opts, True, {"shared_bytes": needed})
            yield Question(opts, False, {"shared_bytes": needed - 1})


def _shared_items(plan: Plan) -> Iterator[Question]:
    """Two reduces that groups share out: the same work-items, unless one is a part of the other."""
    if not plan.capabilities.has_groups:
        return
    loops: list[tuple[int, UOp]] = []
    for axis in plan.axes:
        reduces = plan.reduces_over(axis.target)
        if axis.is_divisible(2) and len(reduces) == 1 and _may_share(plan, OptOp.GROUP, axis):
            loops.append((axis.target, reduces[0]))
    for (first, one), (second, other) in itertools.combinations(loops, 2):
        if one is other:
            continue
        are_apart = first not in changes(other) and second not in changes(one)
        opts: tuple[Opt, ...] = ()
        reached = plan
        for target in (first, second):
            number = reached.number_along(target, AxisKind.REDUCE)
            assert number is not None, "a reduce that is left"
            cut = Opt(OptOp.GROUP, number, 2)
            opts, reached = (*opts, cut), reached.legal(cut) or reached
        items = 2 if are_apart else 4
        yield Question(opts, True, {"group_size_limit": items})
        yield Question(opts, False, {"group_size_limit": items - 1})


# --- padding and order ----------------------------------------------------------------------------


def _paddings(plan: Plan) -> Iterator[Question]:
    """To multiples that add something, but not too much, where nothing else is added."""
    device = plan.capabilities
    for number, axis in enumerate(plan.axes):
        size = axis.extent
        if not isinstance(size, int):
            yield Question((Opt(OptOp.PADTO, number, 2),), False)
            continue
        is_harmless = all(may_pad(reduce, axis.target) for reduce in plan.reduces_over(axis.target))
        for multiple in dict.fromkeys((*MULTIPLES, size, MAX_PADDING * size, 5 * size)):
            padded = -(-size // multiple) * multiple if multiple >= 2 else size
            is_some = size < padded <= MAX_PADDING * size
            is_legal = is_some and is_harmless and _is_near(plan, axis, padded)
            opt = Opt(OptOp.PADTO, number, multiple)
            yield Question((opt,), is_legal)
            if is_legal and device.has_grid and axis.kind is AxisKind.GLOBAL:
                yield from _grids(plan, opt, padded)


def _is_near(plan: Plan, padded_axis: Axis, padded: int) -> bool:
    """Whether the index of a last position is an int32, or may be longer."""
    if dtypes.int64 in plan.capabilities.dtypes:
        return True
    ends = {axis.target: axis.extent for axis in plan.axes} | {padded_axis.target: padded}
    for node in plan.nodes:
        if isinstance(node.arg, ViewArg):
            strides = tracker_of(node).views[-1].strides
            steps = [(strides[target], end) for target, end in ends.items()]
            known = [
                abs(s) * (e - 1) for s, e in steps if isinstance(s, int) and isinstance(e, int)
            ]
            if sum(known) > dtypes.int32.maximum:
                return False
    return True


def _grids(plan: Plan, opt: Opt, padded: int) -> Iterator[Question]:
    """The least grid that holds what is padded, and one less."""
    total = padded
    for number in plan.of_kind(AxisKind.GLOBAL):
        extent = plan.axes[number].extent
        if not isinstance(extent, int):
            return
        total *= 1 if number == opt.axis else extent
    yield Question((opt,), True, {"grid_limit": (total, 1, 1)})
    yield Question((opt,), False, {"grid_limit": (total - 1, 1, 1)})


def _orders(plan: Plan) -> Iterator[Question]:
    count = len(plan.axes)
    for first, second in itertools.product(range(count), range(-1, count + 1)):
        is_there = 0 <= second < count
        kinds = {plan.axes[first].kind, plan.axes[second].kind} if is_there else set()
        is_legal = kinds == {AxisKind.GLOBAL} and first != second
        yield Question((Opt(OptOp.SWAP, first, second),), is_legal)


# --- copies in scratch memory ---------------------------------------------------------------------


def _copies(plan: Plan) -> Iterator[Question]:
    """What one load of a buffer touches in a reduce, for each of the outputs along an axis."""
    slots = 2 + max((slot_of(store) for store in plan.form.ast.src), default=0) + 3
    for number, slot in itertools.product(range(len(plan.axes)), range(slots)):
        needed = _bytes_of_copy(plan, number, slot)
        opt = Opt(OptOp.PACK, number, slot)
        fits = _has_feature(plan, OptOp.PACK) and 0 < needed <= plan.capabilities.shared_bytes
        yield Question((opt,), fits)
        if fits:
            yield Question((opt, opt), False)
            yield Question((opt,), True, {"shared_bytes": needed})
            yield Question((opt,), False, {"shared_bytes": needed - 1})


def _bytes_of_copy(plan: Plan, number: int, slot: int) -> int:
    """What a copy takes; 0 where there may be none."""
    loads = plan.loads_of(slot)
    is_written = any(slot_of(store) == slot for store in plan.form.ast.src)
    axis = plan.axes[number]
    if len(loads) != 1 or is_written or axis.kind is not AxisKind.GLOBAL:
        return 0
    (load,) = loads
    moving = changes(load)
    inside = [a.extent for a in plan.axes if a.kind is AxisKind.REDUCE and a.target in moving]
    if axis.target in moving or positions_of(load.src[0]) or not inside:
        return 0
    total = load.dtype.itemsize
    for extent in inside:
        total *= extent if isinstance(extent, int) else 0
    return total


def _kept(plan: Plan) -> Iterator[Question]:
    """Values of a reduce that the outputs need again, along an axis of theirs."""
    values = reused_values(plan.form)
    needed = 0
    for value in values:
        size = plan.shape[value.reduced]
        assert isinstance(size, int), "no value along a symbolic axis is kept"
        needed += size * value.inner.dtype.itemsize
    for number, axis in enumerate(plan.axes):
        is_along = any(axis.target == value.output for value in values)
        fits = _has_feature(plan, OptOp.PACK) and is_along and axis.kind is AxisKind.GLOBAL
        opt = Opt(OptOp.PACK, number, REUSED)
        yield Question((opt,), fits and needed <= plan.capabilities.shared_bytes)
        if not fits or not isinstance(axis.extent, int):
            continue
        yield Question((opt, opt), False)
        for lanes, copies in _lanes_of_kept(plan, number, values):
            yield Question((*lanes, opt), True, {"shared_bytes": copies * needed})
            yield Question((*lanes, opt), False, {"shared_bytes": copies * needed - 1})
        pad = Opt(OptOp.PADTO, number, axis.extent + 1)
        yield from (Question(opts, False) for opts in ((opt, pad), (pad, opt)))


def _lanes_of_kept(
    plan: Plan, number: int, values: tuple[Reused, ...]
) -> Iterator[tuple[tuple[Opt, ...], int]]:
    """Lanes that leave axis `number` in its place, and of how many places they make several."""
    yield (), 1
    if len(values) != 1:
        return
    (value,) = values
    for other, axis in enumerate(plan.axes):
        # An axis that is lanes altogether is gone.
        if other == number or not axis.is_divisible(2) or axis.extent == 2:
            continue
        if axis.target == value.reduced:
            # All places are there whatever goes over them.
            yield (Opt(OptOp.UNROLL, other, 2),), 1
        elif axis.kind is AxisKind.GLOBAL:
            yield (Opt(OptOp.UPCAST, other, 2),), 2 if axis.target in changes(value.inner) else 1
