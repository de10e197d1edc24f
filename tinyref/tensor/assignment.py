"""Assignments to tensors: all forms of assignment use `write_elements`.

A write to a view gives its base new elements at the positions of the view. All other views of the
base then show the new elements. Tensors that were computed from any of them before the write keep
their values.
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
    store_separately,
    take_value,
    value_of,
    whole_tensors,
)
from tinyref.tensor.creation import base_of
from tinyref.tensor.data import Data, become_leaf, write_held
from tinyref.tensor.indexing import Indexing, assignment_target, spread_over
from tinyref.tensor.literals import check_fits, weak_number
from tinyref.tensor.registry import buffer_numbers, graph_lock, is_computed, parts_of
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


# The limit of earlier values of one tensor that are stored for assignments that have not run.
MAX_STATES = 8


def _few_states(value: Value) -> Value:
    """Drop the second oldest state if `value` has too many, so that an assignment stays cheap.

    The oldest state is in memory. Undoing all later assignments gives its elements.
    """
    states = [value]
    while states[-1].before is not None:
        states.append(states[-1].before)
    if len(states) > MAX_STATES:
        states[-3].before = states[-1]
    return value


def _is_whole_of(tensor: TensorCore, others: Sequence[TensorCore]) -> bool:
    """Return True if `tensor` shows all of its base and each of `others` is a view of it."""
    steps = steps_of(tensor)
    return is_whole(steps) and all(steps_of(other)[: len(steps)] == steps for other in others)


def _recorded_base(tensor: TensorCore) -> Value | None:
    """Return the recorded value of the base that `tensor` is a view of; None without gradients."""
    value = value_of(tensor)
    for step in reversed(steps_of(tensor)):
        # The record may have a view that changes nothing, for which there is no step.
        record = value.record
        while record is not None and record.rule in VIEW_OPS and record.rule is not step.op:
            record = record.parents[0].record
        if record is None or record.rule is not step.op:
            return None
        value = record.parents[0]
    return value if value.requires_grad else None


def _attached(node: UOp) -> UOp:
    """Return the node below DETACH. A base without gradients needs none, and may be a buffer."""
    if node.op is Ops.MULTI:
        return node.replace(src=tuple(map(_attached, node.src)))
    while node.op is Ops.DETACH:
        node = node.src[0]
    return node


@node_fact
def _whole_buffer(node: UOp) -> UOp | None:
    """Return the BUFFER below reshapes and ASSIGNs; None if there is none or for a BUFFER."""
    if node.op not in (Ops.RESHAPE, Ops.ASSIGN):
        return None
    below = node.src[0]
    return below if below.op is Ops.BUFFER else _whole_buffer(below)


def _reads_any(root: UOp, numbers: Container[int]) -> bool:
    """Return True if a graph reads one of the BUFFERs with these numbers (breadth first)."""
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
    """Return True if `root` may read memory other than the same element of the nodes `same`."""
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
    """Return the node of the base of `tensor`, taken from the node of `tensor`; None if none fits.

    The steps of the view, applied to the base's node, must give the node of `tensor`.
    """
    steps = steps_of(tensor)
    first = steps[0]
    if any(step.dtype.itemsize != step.result.itemsize for step in steps):
        return None
    sizes = (*tensor.shape, *(size for step in steps for size in step.shape))
    if not all(isinstance(size, int) for size in sizes):
        return None  # Memory has room for the largest symbolic size: sizes do not show the base.
    node = tensor.node
    while True:
        # A DETACH is no memory, although its own DETACH is the same node.
        is_base = node.op is not Ops.DETACH and product(shape_of(node)) == product(first.shape)
        if is_base and node.dtype is first.dtype:
            base = view = graph.reshape(node, first.shape)
            for step in steps:
                view = build(step.op, step.arg, step.result, (view,))
            if view is tensor.node:
                return base
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
    """Write the elements of `value`, which has the shape and dtype of this tensor, to this tensor.

    chosen: bools of the same shape; where false, elements do not change.
    keeps_leaf: allow a write to a leaf that requires grad, which stays a leaf.
    reads_first: an element of `value` may read this tensor at another position than its own.
    """
    if chosen is None and shows_same(x, value):
        return
    if steps_of(x) and is_empty(shape_of(x.node)) and not value_of(value).requires_grad:
        return  # An empty view: no element of the base changes.
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
    """Return True if `other` is computed from a buffer that this tensor views."""
    numbers = set(buffer_numbers(x.node))
    return bool(numbers) and _reads_any(other.node, numbers)


def read_first(x: T) -> T:
    """Return the current elements in memory that no other tensor views."""
    copied = x.contiguous()
    if is_computed(copied.node):
        store_separately(value_of(copied))
    return copied


def is_recorded(x: T, name: str, steps: Steps, value: T, keeps_leaf: bool, replaces: bool) -> bool:
    """Return True if gradients still flow to the old value of this base; else it becomes a leaf.

    Raises `UserError` if gradients would be lost.
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
            f"{name}: this detached tensor is a view of a tensor with gradients, "
            f"which would be lost: clone() it first, or use Tensor.no_grad()"
        )
    return not (is_leaf or (keeps_leaf and replaces))


def give_elements(x: T, merged: T, record: Record | None = None) -> None:
    """Make `merged` the new value of this base and its views.

    If only its views use the memory of the base, the elements are written there.
    record: the record for gradients at unmarked tensors, until this base is computed.
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
    """Make all views of this base, or of `storage`, show its current elements."""
    storage = storage or storage_of(x)
    tensors = [] if storage is None else storage.tensors()
    for view in (cast(T, tensor) for tensor in tensors):
        if view is not x:
            refresh_view(view, x, had_gradient)


def has_memory_alone(x: T) -> bool:
    """Return True if this base is a whole buffer that only its own views use."""
    parts = [part for part in parts_of(x.node) if not is_empty(shape_of(part))]
    return bool(parts) and all(is_alone(x, part) for part in parts)


def sharing_memory(x: T) -> list[Value]:
    """Return the values in the memory of this base that are not its views, as after `clone`."""
    values = [value for n in buffer_numbers(x.node) for value in registry.views_of(n)]
    tensors = ((value, value.tensor) for value in values)
    return [
        value
        for value, tensor in tensors
        if tensor is not None and not shares_storage(x, cast(T, tensor))
    ]


def refresh_view(x: T, base: T, had_gradient: bool) -> None:
    """Make this view of `base` show the current elements of `base`.

    If gradients flowed to `base` before, they flow through this view as before.
    """
    note_change(x)
    before, steps = value_of(x), steps_of(x)
    with GradientSwitch(before.requires_grad or (is_recording() and not had_gradient)):
        current = value_of(seen_through(base, steps) if steps else as_view_of(base, base))
    if before.requires_grad and before.record is None:
        current = replace(current, record=None, requires_grad=True)
    take_value(x, replace(current, is_frozen=before.is_frozen))


def seen_through(x: T, steps: Steps) -> T:
    """Return the view of this base through `steps`."""
    view = x
    for step in steps:
        if step.op is Ops.BITCAST:
            view = view.bitcast(step.result)
        else:
            view = apply(view, step.op, arg=step.arg, is_view=True)
    return view


def merge_elements(x: T, steps: Steps, value: T, chosen: T | None) -> T:
    """Return this base with the chosen elements of its view through `steps` set to `value`."""
    for number, step in reversed(tuple(enumerate(steps))):
        if step.dtype.itemsize != step.result.itemsize:
            # The write may change a part of an element: read its other bits first.
            bits = seen_through(x, steps[: number + 1])
            bits = merge_elements(bits, steps[number + 1 :], value, chosen).contiguous()
            return merge_elements(x, steps[:number], bits.bitcast(step.dtype), None)
    placed = place_in_base(value, steps)
    # A base that is overwritten completely still has a gradient: it is zero.
    has_gradient = is_recording() and value_of(x).requires_grad
    if chosen is None and is_whole(steps) and not has_gradient:
        # If `value` may need a gradient, the base must be another tensor than `value`.
        return apart_from(placed, value) if value_of(value).requires_grad else placed
    if chosen is None:
        chosen = broadcast_to(constant_like(x, True, dtypes.bool), value.shape)
    return place_in_base(chosen, steps).where(placed, x)


def place_in_base(x: T, steps: Steps) -> T:
    """Return a tensor of the base's shape with `x` at the positions of the view, zeros elsewhere.

    This is the inverse of `seen_through`. It also works for the bools of chosen elements.
    """
    placed = x
    for step in reversed(steps):
        placed = placed_by(placed, step)
    return placed


def placed_by(x: T, step: Step) -> T:
    """Undo one step: return the elements before it, with zeros where it shows none."""
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
    """Return True if `part` of the base `x` is a whole buffer that only views of `x` use."""
    node = part if part.op is Ops.BUFFER else _whole_buffer(part)
    if node is None or not isinstance(node.arg, BufferArg) or is_lost(node):
        return False
    others = (value.tensor for value in registry.views_of(node.arg.number))
    return all(other is None or shares_storage(x, cast(T, other)) for other in others)


def base_tensor(x: T, name: str) -> T:
    """Return the base of this tensor; if that was deleted, a tensor that replaces it."""
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
            f"expand, which repeats elements of another tensor: clone() it first"
        )
    if alive is not None:
        return cast(T, alive)
    base = None if has_expand(steps) else restore_base(x, tensors)
    if base is None:
        leave_storage(x)
        return x
    if any(base is tensor for tensor in tensors):
        # One view becomes the base: the others were taken from it.
        removed = len(steps_of(base))
        for tensor in tensors:
            set_view(tensor, storage, steps_of(tensor)[removed:])
            value_of(tensor).before = None  # It is a value of the deleted base.
    set_view(base, storage)
    return base


def restore_base(x: T, tensors: Sequence[T]) -> T | None:
    """Return a replacement of a deleted base: its memory, or one merged from its views `tensors`.

    Gradients flow from the replacement as they did from the base. A view that shows all of the
    base, and from which the other views were taken, becomes the base itself: the results of many
    functions are such views. Returns None if `x` is the only view and has no gradients.
    """
    recorded = next(filter(None, map(_recorded_base, tensors)), None)
    if recorded is not None and recorded.record is not None:
        result = next((tensor for tensor in tensors if _is_whole_of(tensor, tensors)), None)
        if result is not None:
            return result
    base = base_in_memory(x, tensors)
    if base is None:
        if len(tensors) == 1 and recorded is None:
            return None
        base = merge_views(x, tensors)
        current = capturing.get()
        outside = [tensor for tensor in tensors if value_of(tensor).session is not current]
        # With an outside view the base counts as outside: it gets memory that replays write.
        value_of(base).session = value_of(outside[0]).session if outside else current
    if recorded is not None and (recorded.record is None or not value_of(base).requires_grad):
        value_of(base).record = recorded.record
        value_of(base).requires_grad = recorded.requires_grad
    return base


def base_in_memory(x: T, tensors: Sequence[T]) -> T | None:
    """Return a tensor for the memory of the base of `tensors`, if one of them views it."""
    for tensor in tensors:
        with graph_lock:
            node = _base_node(tensor)
            if node is not None and base_of(node).op in (Ops.BUFFER, Ops.ASSIGN):
                base = from_node(type(x), node, x.device)
                # The session of the view says if a capture regards the memory as outside.
                value_of(base).session = value_of(tensor).session
                return base
    return None


def merge_views(x: T, tensors: Sequence[T]) -> T:
    """Return a base made from the elements of all its views, with zeros where no view shows any."""
    if any(is_cut_after_expand(steps_of(tensor)) for tensor in tensors):
        raise UserError(
            "assign: the base of this view was deleted, and only a part of an expanded view of "
            "it is left: keep a reference to the base, or clone() the expanded view"
        )
    # If several views show an element, its gradient flows through the last one.
    ordered = sorted(tensors, key=lambda tensor: _recorded_base(tensor) is not None)
    base = place_in_base(ordered[0], steps_of(ordered[0]))
    for tensor in ordered[1:]:
        base = merge_elements(base, steps_of(tensor), tensor, None)
    return same_node(base) if any(base is tensor for tensor in tensors) else base


def assignable_value(tensor: T, x: object) -> T:
    """Return the assigned value `x` as a tensor of the shape of `tensor`. Raises `UserError`."""
    if isinstance(x, Indexing):
        value = cast(T, x)
    elif (number := weak_number(x)) is not None:
        check_fits(number, tensor.dtype, "assign")
        value = constant_like(tensor, number, tensor.dtype)
    else:
        value = type(tensor)(x, device=computing_place(tensor), dtype=tensor.dtype)
    if value.dtype is not tensor.dtype:
        raise UserTypeError(
            f"assign: the value is {value.dtype.name}, the tensor {tensor.dtype.name}: "
            f"cast the value first"
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
    """Write `result` to the tensor that it was computed from, for operators such as `+=`.

    If gradients flow, the tensor continues as the result; else its elements are assigned to.
    """
    if only_holds_data(x.node):
        raise UserError(
            f"{name}: device {x.device} only holds data and computes nothing: assign a result "
            f"that was computed from a copy, as in x.assign(x.to('CPU') + 1)"
        )
    if result.shape != x.shape or result.dtype is not x.dtype:
        raise UserError(
            f"{name}: a {result.dtype.name} result of shape {describe_shape(result.shape)} does "
            f"not fit a {x.dtype.name} tensor of shape {describe_shape(x.shape)}"
        )
    write_elements(x, name, result)
    return x


def computing_place(x: T) -> Place | None:
    """Return the device that computes values for `x`; None for the default device."""
    return None if only_holds_data(x.node) else x.device


def write_at(x: T, key: object, value: object) -> None:
    """Write `value` to the elements that `key` selects."""
    if isinstance(value, Indexing):
        assigned = cast(T, value)
    else:
        assigned = type(x)(value, device=computing_place(x), dtype=x.dtype)
    if only_holds_data(x.node):
        write_held_at(x, key, assigned)
        return
    target, chosen, source = assignment_target(x, key, assigned)
    if chosen is None and shows_same(target, assigned):
        return  # `x[key] += y` assigns the view that it has already written to.
    write_elements(target, "assignment by index", source, chosen, reads_first=True)


def write_held_at(x: T, key: object, value: T) -> None:
    """Assign by index on a device that only holds data."""
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
    """Restore the base, and all views of it, to the value before the last assignment.

    Returns the restored value of this tensor.
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
