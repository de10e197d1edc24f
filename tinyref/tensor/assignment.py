"""Giving tensors new elements: all ways to assign come down to one.

A tensor is written through the view that it is: the base gets new elements where the view shows
them, and every other tensor that shows elements of the base is shown the new ones. What was
computed from any of them before keeps what it had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from tinyref.algebra.symbolic import describe_shape, product
from tinyref.arrays import np
from tinyref.dtype import dtypes
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import assigned_buffer, is_lost, lost_graph_like, only_holds_data
from tinyref.lazy.multi import assign, build
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.lazy.shards import Place, describe_place
from tinyref.tensor.arguments import broadcast, inverse_order
from tinyref.tensor.core import (
    GradientSwitch,
    Record,
    TensorCore,
    Value,
    apart_from,
    apply,
    as_view_of,
    broadcast_to,
    capturing,
    constant_like,
    from_node,
    from_value,
    is_recording,
    leave_storage,
    note_change,
    pad,
    registry,
    reshape,
    same_node,
    set_view,
    shares_storage,
    shows_same,
    shrink,
    steps_of,
    storage_of,
    store_apart,
    take_value,
    value_of,
    whole_tensors,
)
from tinyref.tensor.creation import base_of
from tinyref.tensor.data import Data, become_leaf, write_held
from tinyref.tensor.indexing import Indexing, assignment_target, spread_over
from tinyref.tensor.literals import check_fits, weak_number
from tinyref.tensor.registry import graph_lock, is_computed, parts_of, shown_numbers
from tinyref.tensor.views import (
    VIEW_OPS,
    Step,
    Steps,
    Storage,
    has_expand,
    is_cut_after_expand,
    is_detached,
    is_whole,
)
from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BoundsArg, BufferArg, FlipArg, PermuteArg, ShapeArg

T = TypeVar("T", bound="Indexing")


# States from before assignments that have not run, of one tensor.
MAX_STATES = 8


def _few_states(value: Value) -> Value:
    """Forget the second oldest state if `value` has too many, so that an assignment stays cheap.

    The oldest one is in memory. Undoing all assignments after it gives its elements.
    """
    states = [value]
    while states[-1].before is not None:
        states.append(states[-1].before)
    if len(states) > MAX_STATES:
        states[-3].before = states[-1]
    return value


def _is_whole_of(tensor: TensorCore, others: Sequence[TensorCore]) -> bool:
    """Whether it shows all of its base, and each of `others` is a view of what it shows."""
    steps = steps_of(tensor)
    return is_whole(steps) and all(steps_of(each)[: len(steps)] == steps for each in others)


def _recorded_base(tensor: TensorCore) -> Value | None:
    """The value of the whole that `tensor` was computed from as a view; None without gradients."""
    value = value_of(tensor)
    for step in reversed(steps_of(tensor)):
        # A view of a view may be recorded that shows all of it, and is no step.
        record = value.record
        while record is not None and record.rule in VIEW_OPS and record.rule is not step.op:
            record = record.parents[0].record
        if record is None or record.rule is not step.op:
            return None
        value = record.parents[0]
    return value if value.requires_grad else None


def _attached(node: UOp) -> UOp:
    """The node below DETACH: a base without gradients holds none back, and may be all of memory."""
    if node.op is Ops.MULTI:
        return node.replace(src=tuple(map(_attached, node.src)))
    while node.op is Ops.DETACH:
        node = node.src[0]
    return node


@node_fact
def _whole_buffer(node: UOp) -> UOp | None:
    """The BUFFER that reshapes and ASSIGNs show all of; None for a BUFFER itself."""
    if node.op not in (Ops.RESHAPE, Ops.ASSIGN):
        return None
    below = node.src[0]
    return below if below.op is Ops.BUFFER else _whole_buffer(below)


def _reads_any(root: UOp, numbers: Container[int]) -> bool:
    """Whether a graph reads one of the BUFFERs with these numbers: what is near is seen first."""
    waiting, seen = deque([root]), {root}
    while waiting:
        node = waiting.popleft()
        memory = assigned_buffer(node) if node.op is Ops.ASSIGN else node
        if isinstance(memory.arg, BufferArg) and memory.arg.number in numbers:
            return True
        fresh = [source for source in node.src if source not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return False


def _reads_elsewhere(root: UOp, same: Container[UOp]) -> bool:
    """Whether `root` may read memory, but for each element of the nodes `same` at its place."""
    waiting = [(root, False)]
    seen = set(waiting)
    while waiting:
        node, is_moved = waiting.pop()
        if node in same and not is_moved:
            continue
        if node.op in (Ops.BUFFER, Ops.ASSIGN):
            return True
        is_moved = is_moved or node.op in MOVEMENT or node.op is Ops.REDUCE
        fresh = {(source, is_moved) for source in node.src} - seen
        seen |= fresh
        waiting.extend(fresh)
    return False


def _base_node(tensor: TensorCore) -> UOp | None:
    """The node of which that of `tensor` is the view that `tensor` is of its base, if any."""
    steps = steps_of(tensor)
    first = steps[0]
    if any(step.dtype.itemsize != step.result.itemsize for step in steps):
        return None
    sizes = (*tensor.shape, *(size for step in steps for size in step.shape))
    if not all(isinstance(size, int) for size in sizes):
        return None  # Memory of a symbolic size has room for the largest, and looks like the whole.
    node = tensor.node
    while True:
        # DETACH of itself is itself, and no memory.
        is_base = node.op is not Ops.DETACH and product(shape_of(node)) == product(first.shape)
        if is_base and node.dtype is first.dtype:
            whole = seen = graph.reshape(node, first.shape)
            for step in steps:
                seen = build(step.op, step.arg, step.result, (seen,))
            if seen is tensor.node:
                return whole
        if node.op not in VIEW_OPS:
            return None
        node = node.src[0]


def write_elements(
    x: T,
    name: str,
    value: T,
    chosen: T | None = None,
    *,
    keeps_leaf: bool = False,
    reads_first: bool = False,
) -> None:
    """Gives the elements that this tensor shows those of `value`, of its shape and dtype.

    Where `chosen`, of its shape too, is false they stay what they are. keeps_leaf: a leaf that
    requires grad may be written, and stays one. reads_first: `value` may read the elements at
    other places than the one that it is written to.
    """
    if chosen is None and shows_same(x, value):
        return
    if steps_of(x) and is_empty(shape_of(x.node)) and not value_of(value).requires_grad:
        return  # Nothing of the base is written: it stays what it is.
    if only_holds_data(x.node):
        write_held(x, value.numpy, name)
        return
    base = base_tensor(x, name)
    steps = () if base is x else steps_of(x)
    session = capturing.get()
    if session is not None:
        session.write(x, base)
        session.read(value_of(value))
    if (reads_first or steps) and shares_memory(base, value):
        value = read_first(value)
    if chosen is not None and shares_memory(base, chosen):
        same = parts_of(x.node) if is_whole(steps) else ()
        if _reads_elsewhere(chosen.node, same):
            chosen = read_first(chosen)
    replaces = chosen is None and is_whole(steps)
    if is_recorded(base, name, steps, value, keeps_leaf, replaces):
        merged = merge_elements(base, steps, value, chosen)
        give_elements(base, merged, None if keeps_leaf else value_of(merged).record)
    else:
        with GradientSwitch():
            merged = merge_elements(base, steps, value, chosen)
        give_elements(base, merged)


def shares_memory(x: T, other: T) -> bool:
    """Whether `other` is computed from a buffer that this tensor shows."""
    shown = set(shown_numbers(x.node))
    return bool(shown) and _reads_any(other.node, shown)


def read_first(x: T) -> T:
    """The elements that are there now, in memory that no other tensor shows."""
    copied = x.contiguous()
    if is_computed(copied.node):
        store_apart(value_of(copied))
    return copied


def is_recorded(x: T, name: str, steps: Steps, value: T, keeps_leaf: bool, replaces: bool) -> bool:
    """Whether gradients flow to what this base has been; it is a leaf from now on if not.

    Raises `UserError` where they would be lost.
    """
    if not is_recording() or not value_of(x).requires_grad:
        return True
    is_leaf = value_of(x).record is None
    detached = is_detached(steps)
    if is_leaf and not keeps_leaf and (not detached or value_of(value).requires_grad):
        raise UserStateError(
            f"{name}: this tensor is a leaf that requires grad: "
            f"use Tensor.no_grad(), or assign a detached value"
        )
    if detached and not is_leaf:
        raise UserStateError(
            f"{name}: this detached tensor shows elements of one that was computed with "
            f"gradients, which would be lost: clone() it first, or use Tensor.no_grad()"
        )
    return not (is_leaf or (keeps_leaf and replaces))


def give_elements(x: T, merged: T, record: Record | None = None) -> None:
    """This base goes on as `merged`, in the memory that it has if nobody else holds that.

    What shows it shows that. record: by which gradients go back to targets that were not
    marked, until this base is computed.
    """
    with graph_lock:
        note_change(x)
        before = value_of(x)
        if is_recording() and value_of(merged).requires_grad:
            take_value(x, replace(value_of(merged)))
        else:
            in_place = has_memory_alone(x)
            node = assign(x.node, merged.node) if in_place else _attached(merged.node)
            become_leaf(x, node, x.device)
            value_of(x).record = record
        value_of(x).before = None if is_computed(x.node) else _few_states(before)
        refresh_views(x, before.requires_grad)


def refresh_views(x: T, had_gradient: bool, storage: Storage[TensorCore] | None = None) -> None:
    """All views of this base, or of `storage`, show the elements that it has now."""
    storage = storage or storage_of(x)
    tensors = [] if storage is None else storage.tensors()
    for view in (cast(T, tensor) for tensor in tensors):
        if view is not x:
            refresh_view(view, x, had_gradient)


def has_memory_alone(x: T) -> bool:
    """True where this base stands for a whole buffer that only its views show."""
    parts = [part for part in parts_of(x.node) if not is_empty(shape_of(part))]
    return bool(parts) and all(is_alone(x, part) for part in parts)


def sharing_memory(x: T) -> list[Value]:
    """The values in the memory of this base that no view of it has, as after `clone`."""
    found = [value for n in shown_numbers(x.node) for value in registry.showing(n)]
    tensors = ((value, value.tensor) for value in found)
    return [
        value
        for value, tensor in tensors
        if tensor is not None and not shares_storage(x, cast(T, tensor))
    ]


def refresh_view(x: T, base: T, had_gradient: bool) -> None:
    """This view of `base` shows the elements that `base` has now.

    Where gradients flowed to `base` before, they flow through this view as they did.
    """
    note_change(x)
    was, steps = value_of(x), steps_of(x)
    with GradientSwitch(was.requires_grad or (is_recording() and not had_gradient)):
        shown = value_of(seen_through(base, steps) if steps else as_view_of(base, base))
    if was.requires_grad and was.record is None:
        shown = replace(shown, record=None, requires_grad=True)
    take_value(x, replace(shown, is_frozen=was.is_frozen))


def seen_through(x: T, steps: Steps) -> T:
    """This base, seen through `steps`."""
    shown = x
    for step in steps:
        if step.op is Ops.BITCAST:
            shown = shown.bitcast(step.result)
        else:
            shown = apply(shown, step.op, arg=step.arg, is_view=True)
    return shown


def merge_elements(x: T, steps: Steps, value: T, chosen: T | None) -> T:
    """The elements of this base; those shown through `steps`, where chosen, are `value`'s."""
    for number, step in reversed(tuple(enumerate(steps))):
        if step.dtype.itemsize != step.result.itemsize:
            # A part of an element may be written, so its other bits are read first.
            bits = seen_through(x, steps[: number + 1])
            bits = merge_elements(bits, steps[number + 1 :], value, chosen).contiguous()
            return merge_elements(x, steps[:number], bits.bitcast(step.dtype), None)
    placed = place_in_base(value, steps)
    # What is overwritten whole still has a gradient: it is zero.
    has_gradient = is_recording() and value_of(x).requires_grad
    if chosen is None and is_whole(steps) and not has_gradient:
        # Gradients may be asked for the value: it is computed from, not taken over.
        return apart_from(placed, value) if value_of(value).requires_grad else placed
    if chosen is None:
        chosen = broadcast_to(constant_like(x, True, dtypes.bool), value.shape)
    return place_in_base(chosen, steps).where(placed, x)


def place_in_base(x: T, steps: Steps) -> T:
    """The inverse of `seen_through`: zeros where the base is not shown. For bools too that say
    which elements are chosen.
    """
    placed = x
    for step in reversed(steps):
        placed = placed_by(placed, step)
    return placed


def placed_by(x: T, step: Step) -> T:
    """Undo one step: the elements before it, zeros where it shows none."""
    argument = step.arg
    if step.op is Ops.RESHAPE:
        return reshape(x, step.shape)
    if step.op is Ops.BITCAST:
        return x.bitcast(step.dtype) if x.dtype is step.result else x
    if isinstance(argument, PermuteArg):
        order = argument.order
        return x.permute(inverse_order(order))
    if isinstance(argument, FlipArg):
        return x.flip(argument.axes)
    sizes = zip(step.shape, x.shape, strict=True)
    if isinstance(argument, ShapeArg):
        return shrink(x, tuple((0, size if size == now else 1) for size, now in sizes))
    if not isinstance(argument, BoundsArg):
        return x
    pairs = tuple(zip(argument.bounds, step.shape, strict=True))
    if step.op is Ops.PAD:
        return shrink(x, tuple((before, before + size) for (before, _), size in pairs))
    return pad(x, tuple((begin, size - end) for (begin, end), size in pairs))


def is_alone(x: T, part: UOp) -> bool:
    """Return True if `part` of a base is a whole buffer that only its views show."""
    node = part if part.op is Ops.BUFFER else _whole_buffer(part)
    if node is None or not isinstance(node.arg, BufferArg) or is_lost(node):
        return False
    others = (value.tensor for value in registry.showing(node.arg.number))
    return all(other is None or shares_storage(x, cast(T, other)) for other in others)


def base_tensor(x: T, name: str) -> T:
    """The tensor that this one is a view of; one that stands for it where it is gone."""
    storage = storage_of(x)
    if storage is None:
        return x
    steps = steps_of(x)
    tensors = [cast(T, tensor) for tensor in storage.tensors()]
    alive = next(iter(whole_tensors(x)), None)
    is_only = len(tensors) == 1
    if has_expand(steps) and not is_only:
        raise UserError(
            f"{name}: this tensor of shape {describe_shape(x.shape)} is a view through "
            f"expand, which shows elements of another several times: clone() it first"
        )
    if alive is not None:
        return cast(T, alive)
    found = None if has_expand(steps) else found_base(x, tensors)
    if found is None:
        leave_storage(x)
        return x
    if any(found is tensor for tensor in tensors):
        # It takes the place of the base, and the others were taken from it.
        taken = len(steps_of(found))
        for tensor in tensors:
            set_view(tensor, storage, steps_of(tensor)[taken:])
            value_of(tensor).before = None  # It is of the base that is gone.
    set_view(found, storage)
    return found


def found_base(x: T, tensors: Sequence[T]) -> T | None:
    """The base whose last tensor is gone: its memory, or what is left of it in `tensors`.

    Gradients go back from it as they did, so that it is not seen whether that tensor is gone.
    One of `tensors` takes its place that shows all of it, and from which the others were taken,
    as is the result of many a function of what it was computed in. None where there is only
    this one, and no gradients.
    """
    was = next(filter(None, map(_recorded_base, tensors)), None)
    if was is not None and was.record is not None:
        result = next((each for each in tensors if _is_whole_of(each, tensors)), None)
        if result is not None:
            return result
    found = found_memory(x, tensors)
    if found is None:
        if len(tensors) == 1 and was is None:
            return None
        found = merge_views(x, tensors)
        within = capturing.get()
        outside = [each for each in tensors if value_of(each).session is not within]
        # As above: it is given memory, in which replays write.
        value_of(found).session = value_of(outside[0]).session if outside else within
    if was is not None and (was.record is None or not value_of(found).requires_grad):
        value_of(found).record = was.record
        value_of(found).requires_grad = was.requires_grad
    return found


def found_memory(x: T, tensors: Sequence[T]) -> T | None:
    """The memory of the base of which `tensors` are views, if one of them shows it."""
    for tensor in tensors:
        with graph_lock:
            node = _base_node(tensor)
            if node is not None and base_of(node).op in (Ops.BUFFER, Ops.ASSIGN):
                found = from_node(type(x), node, x.device)
                # What a capture meets from outside is not made within, as this tensor was.
                value_of(found).session = value_of(tensor).session
                return found
    return None


def merge_views(x: T, tensors: Sequence[T]) -> T:
    """The base of which all these are views: their elements, zero where none shows any."""
    if any(is_cut_after_expand(steps_of(tensor)) for tensor in tensors):
        raise UserError(
            "assign: the tensor that this one is a view of is gone, and part of an expanded "
            "view of it is left: keep that tensor, or clone() the expanded view"
        )
    # Of those that show an element gradients go back through the last one.
    ordered = sorted(tensors, key=lambda tensor: _recorded_base(tensor) is not None)
    found = place_in_base(ordered[0], steps_of(ordered[0]))
    for tensor in ordered[1:]:
        found = merge_elements(found, steps_of(tensor), tensor, None)
    return same_node(found) if any(found is tensor for tensor in tensors) else found


def assignable_value(tensor: T, x: object) -> T:
    """Return what is assigned, as a tensor of the shape of `tensor`. Raises `UserError`."""
    if isinstance(x, Indexing):
        value = cast(T, x)
    elif (number := weak_number(x)) is not None:
        check_fits(number, tensor.dtype, "assign")
        value = constant_like(tensor, number, tensor.dtype)
    else:
        value = type(tensor)(x, device=computing_place(tensor), dtype=tensor.dtype)
    if value.dtype is not tensor.dtype:
        raise UserTypeError(
            f"assign: {value.dtype.name} for {tensor.dtype.name}: cast the value first"
        )
    is_elsewhere = value.device != tensor.device and graph.device_of(value.node) is not None
    if is_elsewhere and not only_holds_data(tensor.node):
        raise UserError(
            f"assign: the value is on {describe_place(value.device)}, "
            f"the tensor on {describe_place(tensor.device)}: use .to({tensor.device!r})"
        )
    if broadcast((value.shape, tensor.shape), "assign") != tensor.shape:
        raise UserError(
            f"assign: shape {describe_shape(value.shape)} does not fit "
            f"{describe_shape(tensor.shape)}"
        )
    return broadcast_to(value, tensor.shape)


def assign_result(x: T, name: str, result: T) -> T:
    """`result`, computed from this tensor, in its place, for operators such as `+=`.

    Where gradients flow its elements go on as the result; else they are assigned to.
    """
    if only_holds_data(x.node):
        raise UserError(
            f"{name}: {x.device} only holds data: nothing is computed there; assign what "
            f"was computed from a copy, as in x.assign(x.to('CPU') + 1)"
        )
    if result.shape != x.shape or result.dtype is not x.dtype:
        raise UserError(
            f"{name}: {result.dtype.name} {describe_shape(result.shape)} does not fit in place "
            f"of {x.dtype.name} {describe_shape(x.shape)}"
        )
    write_elements(x, name, result)
    return x


def computing_place(x: T) -> Place | None:
    """Where what is written here is computed: None is the default device."""
    return None if only_holds_data(x.node) else x.device


def write_at(x: T, key: object, value: object) -> None:
    """Write `value` to the elements that `key` shows, or looks up."""
    if isinstance(value, Indexing):
        given = cast(T, value)
    else:
        given = type(x)(value, device=computing_place(x), dtype=x.dtype)
    if only_holds_data(x.node):
        write_held_at(x, key, given)
        return
    target, chosen, source = assignment_target(x, key, given)
    if chosen is None and shows_same(target, given):
        return  # `x[key] += y` puts back the view that it has written to
    write_elements(target, "assignment by index", source, chosen, reads_first=True)


def write_held_at(x: T, key: object, value: T) -> None:
    """Assignment by index on a device that only holds data."""
    name = "assignment by index"
    items = key if isinstance(key, tuple) else (key,)
    if not any(
        isinstance(item, Data | np.ndarray | list | range | tuple | bool | np.bool_)
        for item in items
    ):
        part = x[key]
        write_elements(part, name, spread_over(value.cast(x.dtype), part.shape))
        return
    with GradientSwitch():
        whole = x.to(None).contiguous()
        write_at(whole, key, value.to(None))
    write_elements(x, name, whole)


def undo_assignment(x: T) -> Value:
    """Give the base, and all views of it, the value from before the last assignment.

    Returns the value that this tensor has then.
    """
    before = value_of(x).before
    if before is None:
        return value_of(x)
    had_gradient, session = value_of(x).requires_grad, before.session
    storage = storage_of(x)
    wholes = [x] if storage is None else [cast(T, t) for t in whole_tensors(x)]
    if before.is_overwritten:
        before.node = lost_graph_like(before.node, "were overwritten through another tensor")
    if wholes:
        base = wholes[0]
        note_change(base)
        take_value(base, before)
    else:
        base = from_value(type(x), before)
    before.session = session
    refresh_views(base, had_gradient, storage)
    return value_of(x)
