"""Giving tensors new elements: all ways to assign come down to one.

A tensor is written through the view that it is: the base gets new elements where the view shows
them, and every other tensor that shows elements of the base is shown the new ones. What was
computed from any of them before keeps what it had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any, Self, cast

from tinyref.algebra.symbolic import describe_shape, product
from tinyref.arrays import Array, np
from tinyref.dtype import ConstType, dtypes
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import assigned_buffer, is_lost, lost_graph_like
from tinyref.lazy.multi import assign, build
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.lazy.shards import Place, describe_place
from tinyref.lazy.storage import only_holds_data
from tinyref.tensor.arguments import broadcast
from tinyref.tensor.literals import check_fits, weak_number
from tinyref.tensor.methods.creation import base_of
from tinyref.tensor.methods.data import Data, compute
from tinyref.tensor.methods.data_devices import write_held
from tinyref.tensor.values.core import (
    GradientSwitch,
    Record,
    TensorCore,
    Value,
    capturing,
    is_recording,
    recording,
    registry,
    steps_of,
    store_apart,
    whole_tensors,
)
from tinyref.tensor.values.locks import building
from tinyref.tensor.values.registry import is_computed, parts_of, shown_numbers
from tinyref.tensor.values.views import (
    VIEW_OPS,
    Step,
    Steps,
    Storage,
    View,
    has_expand,
    is_cut_after_expand,
    is_detached,
    is_whole,
)
from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BoundsArg, BufferArg, FlipArg, PermuteArg, ShapeArg

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


class Assignment(Data):
    """Writing to a tensor writes to the elements that it shows, whoever else shows them."""

    __slots__ = ()

    def assign(self, x: Self | ConstType | Array | Sequence[Any]) -> Self:
        """Give this tensor the elements of `x`, which broadcasts to its shape; return it.

        Every view of the same elements shows the new ones; whatever was computed from them before
        keeps what it had. `x` may be computed from this tensor, whichever elements it reads.
        Memory that nothing else holds is written in place.

        An assignment stores values: no gradient flows to what `x` was computed from. `t[...] = x`
        lets it flow. A tensor that is given all of its elements is a leaf from then
        on, and through a part of one the gradient is zero, whether that tensor is still there or
        not. Where it is gone, a view of all of it takes its place from which all others were taken
        that are left, as the result of a function is. Raises
        `UserError` where type or device differ, or this tensor shows one element at several places.

        Examples:
            >>> x = Tensor([1, 2]).contiguous().realize()
            >>> x.assign(Tensor([3, 4])).tolist()
            [3, 4]
        """
        value = self._assignable(x)
        if value._value.requires_grad:
            value = value.detach()
        self._write("assign", value, keeps_leaf=True)
        return self

    def _assignable(self, x: object) -> Self:
        if isinstance(x, Data):
            value = cast(Self, x)
        elif (number := weak_number(x)) is not None:
            check_fits(number, self.dtype, "assign")
            value = self._constant(number, self.dtype)
        else:
            value = type(self)(x, device=self._computing_place(), dtype=self.dtype)
        if value.dtype is not self.dtype:
            raise UserTypeError(
                f"assign: {value.dtype.name} for {self.dtype.name}: cast the value first"
            )
        is_elsewhere = value.device != self.device and graph.device_of(value._node) is not None
        if is_elsewhere and not only_holds_data(self._node):
            raise UserError(
                f"assign: the value is on {describe_place(value.device)}, "
                f"the tensor on {describe_place(self.device)}: use .to({self.device!r})"
            )
        if broadcast((value.shape, self.shape), "assign") != self.shape:
            raise UserError(
                f"assign: shape {describe_shape(value.shape)} does not fit "
                f"{describe_shape(self.shape)}"
            )
        return value._broadcast_to(self.shape)

    def _assign_result(self, name: str, result: Self) -> Self:
        """`result`, computed from this tensor, in its place, for operators such as `+=`.

        Where gradients flow its elements go on as the result; else they are assigned to.
        """
        if only_holds_data(self._node):
            raise UserError(
                f"{name}: {self.device} only holds data: nothing is computed there; assign what "
                f"was computed from a copy, as in x.assign(x.to('CPU') + 1)"
            )
        if result.shape != self.shape or result.dtype is not self.dtype:
            raise UserError(
                f"{name}: {result.dtype.name} {describe_shape(result.shape)} does not fit in place "
                f"of {self.dtype.name} {describe_shape(self.shape)}"
            )
        self._write(name, result)
        return self

    def __setitem__(self, key: object, value: Self | ConstType | Array) -> None:
        if isinstance(value, Data):
            found = value
        else:
            found = type(self)(value, device=self._computing_place(), dtype=self.dtype)
        if only_holds_data(self._node):
            self._write_held_at(key, found)
            return
        target, chosen, source = self._assignment_target(key, found)
        if chosen is None and target._shows_same(found):
            return  # `x[key] += y` puts back the view that it has written to
        target._write("assignment by index", source, chosen, reads_first=True)

    def __delitem__(self, key: object) -> None:
        raise UserTypeError(
            "del: a tensor keeps its elements: take those that stay by index, or join them with cat"
        )

    def _computing_place(self) -> Place | None:
        """Where what is written here is computed: None is the default device."""
        return None if only_holds_data(self._node) else self.device

    def _write_held_at(self, key: object, value: Self) -> None:
        """Assignment by index on a device that only holds data."""
        name = "assignment by index"
        items = key if isinstance(key, tuple) else (key,)
        if not any(
            isinstance(item, Data | np.ndarray | list | range | tuple | bool | np.bool_)
            for item in items
        ):
            part = self[key]
            part._write(name, value._cast(self.dtype)._spread_over(part.shape))
            return
        with GradientSwitch():
            whole = self.to(None).contiguous()
            whole[key] = value.to(None)
        self._write(name, whole)

    # Writing through a view

    def _write(
        self,
        name: str,
        value: Self,
        chosen: Self | None = None,
        *,
        keeps_leaf: bool = False,
        reads_first: bool = False,
    ) -> None:
        """Gives the elements that this tensor shows those of `value`, of its shape and dtype.

        Where `chosen`, of its shape too, is false they stay what they are. keeps_leaf: a leaf that
        requires grad may be written, and stays one. reads_first: `value` may read the elements at
        other places than the one that it is written to.
        """
        if chosen is None and self._shows_same(value):
            return
        if steps_of(self) and is_empty(shape_of(self._node)) and not value._value.requires_grad:
            return  # Nothing of the base is written: it stays what it is.
        if only_holds_data(self._node):
            write_held(self, value.numpy, name, compute)
            return
        base = self._base(name)
        steps = () if base is self else steps_of(self)
        session = capturing.get()
        if session is not None:
            session.read(base._value)
            # A replay writes where this capture does: in memory that only this base has.
            session.separate(base._sharing())
            if base._value.session is not session and not base._has_memory_alone():
                # It shows an element at several places, or a part of what nobody else shows.
                session.give_memory(base._value)
            session.read(value._value)
        if (reads_first or steps) and base._shares_memory(value):
            value = value._read_first()
        if chosen is not None and base._shares_memory(chosen):
            same = parts_of(self._node) if is_whole(steps) else ()
            if _reads_elsewhere(chosen._node, same):
                chosen = chosen._read_first()
        replaces = chosen is None and is_whole(steps)
        if base._is_recorded(name, steps, value, keeps_leaf, replaces):
            merged = base._merge_elements(steps, value, chosen)
            base._give(merged, None if keeps_leaf else merged._value.record)
        else:
            with GradientSwitch():
                merged = base._merge_elements(steps, value, chosen)
            base._give(merged)

    def _shows_same(self, other: Self) -> bool:
        """Whether `other` is this tensor, or the same view of the same elements."""
        return other is self or (other._view is not None and other._view == self._view)

    def _shares_memory(self, other: Self) -> bool:
        """Whether `other` is computed from a buffer that this tensor shows."""
        shown = set(shown_numbers(self._node))
        return bool(shown) and _reads_any(other._node, shown)

    def _read_first(self) -> Self:
        """The elements that are there now, in memory that no other tensor shows."""
        copied = self.contiguous()
        if is_computed(copied._node):
            store_apart(copied._value)
        return copied

    def _is_recorded(
        self, name: str, steps: Steps, value: Self, keeps_leaf: bool, replaces: bool
    ) -> bool:
        """Whether gradients flow to what this base has been; it is a leaf from now on if not.

        Raises `UserError` where they would be lost.
        """
        if not is_recording() or not self._value.requires_grad:
            return True
        is_leaf = self._value.record is None
        detached = is_detached(steps)
        if is_leaf and not keeps_leaf and (not detached or value._value.requires_grad):
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

    def _give(self, merged: Self, record: Record | None = None) -> None:
        """This base goes on as `merged`, in the memory that it has if nobody else holds that.

        What shows it shows that. record: by which gradients go back to targets that were not
        marked, until this base is computed.
        """
        with building:
            self._before_change()
            before = self._value
            if is_recording() and merged._value.requires_grad:
                self._take(replace(merged._value))
            else:
                in_place = self._has_memory_alone()
                node = assign(self._node, merged._node) if in_place else _attached(merged._node)
                self._become(node, self._device)
                self._value.record = record
            self._value.before = None if is_computed(self._node) else _few_states(before)
            self._refresh_views(before.requires_grad)

    def _refresh_views(
        self: Self, had_gradient: bool, storage: Storage[TensorCore] | None = None
    ) -> None:
        """All views of this base, or of `storage`, show the elements that it has now."""
        if storage is None and self._view is not None:
            storage = self._view.storage
        tensors = [] if storage is None else storage.tensors()
        for view in (cast(Self, tensor) for tensor in tensors):
            if view is not self:
                view._refresh(self, had_gradient)

    def _undo(self) -> Value:
        """Give the base, and all views of it, the value from before the last assignment.

        Returns the value that this tensor has then.
        """
        before = self._value.before
        if before is None:
            return self._value
        had_gradient, session = self._value.requires_grad, before.session
        storage = None if self._view is None else self._view.storage
        wholes = [self] if storage is None else [cast(Self, t) for t in whole_tensors(self)]
        if before.is_overwritten:
            before.node = lost_graph_like(before.node, "were overwritten through another tensor")
        if wholes:
            base = wholes[0]
            base._before_change()
            base._take(before)
        else:
            base = self._of(before)
        before.session = session
        base._refresh_views(had_gradient, storage)
        return self._value

    def _has_memory_alone(self) -> bool:
        """True where this base stands for a whole buffer that only its views show."""
        parts = [part for part in parts_of(self._node) if not is_empty(shape_of(part))]
        return bool(parts) and all(self._is_alone(part) for part in parts)

    def _is_alone(self, part: UOp) -> bool:
        node = part if part.op is Ops.BUFFER else _whole_buffer(part)
        if node is None or not isinstance(node.arg, BufferArg) or is_lost(node):
            return False
        others = (value.tensor for value in registry.showing(node.arg.number))
        return all(other is None or self._shows_with(cast(Self, other)) for other in others)

    def _sharing(self) -> list[Value]:
        """The values in the memory of this base that no view of it has, as after `clone`."""
        found = [value for n in shown_numbers(self._node) for value in registry.showing(n)]
        tensors = ((value, value.tensor) for value in found)
        return [
            value
            for value, tensor in tensors
            if tensor is not None and not self._shows_with(cast(Self, tensor))
        ]

    def _refresh(self, base: Self, had_gradient: bool) -> None:
        """This view of `base` shows the elements that `base` has now.

        Where gradients flowed to `base` before, they flow through this view as they did.
        """
        self._before_change()
        was, steps = self._value, steps_of(self)
        with recording(was.requires_grad or (is_recording() and not had_gradient)):
            shown = (base._through(steps) if steps else base._as_view_of(base))._value
        if was.requires_grad and was.record is None:
            shown = replace(shown, record=None, requires_grad=True)
        self._take(replace(shown, is_frozen=was.is_frozen))

    # The base of a view

    def _base(self, name: str) -> Self:
        """The tensor that this one is a view of; one that stands for it where it is gone."""
        if self._view is None:
            return self
        steps = steps_of(self)
        tensors = [cast(Self, tensor) for tensor in self._view.storage.tensors()]
        alive = next(iter(whole_tensors(self)), None)
        is_only = len(tensors) == 1
        if has_expand(steps) and not is_only:
            raise UserError(
                f"{name}: this tensor of shape {describe_shape(self.shape)} is a view through "
                f"expand, which shows elements of another several times: clone() it first"
            )
        if alive is not None:
            return cast(Self, alive)
        found = None if has_expand(steps) else self._found_base(tensors)
        if found is None:
            self._leave()
            return self
        storage = self._view.storage
        if any(found is tensor for tensor in tensors):
            # It takes the place of the base, and the others were taken from it.
            taken = len(steps_of(found))
            for tensor in tensors:
                tensor._view = View(storage, steps_of(tensor)[taken:])
                tensor._value.before = None  # It is of the base that is gone.
        found._view = View(storage)
        return found

    def _found_base(self, tensors: Sequence[Self]) -> Self | None:
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
        found = self._found_memory(tensors)
        if found is None:
            if len(tensors) == 1 and was is None:
                return None
            found = self._merge_views(tensors)
            within = capturing.get()
            outside = [each for each in tensors if each._value.session is not within]
            # As above: it is given memory, in which replays write.
            found._value.session = outside[0]._value.session if outside else within
        if was is not None and (was.record is None or not found._value.requires_grad):
            found._value.record = was.record
            found._value.requires_grad = was.requires_grad
        return found

    def _found_memory(self, tensors: Sequence[Self]) -> Self | None:
        """The memory of the base of which `tensors` are views, if one of them shows it."""
        for tensor in tensors:
            with building:
                node = _base_node(tensor)
                if node is not None and base_of(node).op in (Ops.BUFFER, Ops.ASSIGN):
                    found = self._from_node(node, self._device)
                    # What a capture meets from outside is not made within, as this tensor was.
                    found._value.session = tensor._value.session
                    return found
        return None

    def _merge_views(self, tensors: Sequence[Self]) -> Self:
        """The base of which all these are views: their elements, zero where none shows any."""
        if any(is_cut_after_expand(steps_of(tensor)) for tensor in tensors):
            raise UserError(
                "assign: the tensor that this one is a view of is gone, and part of an expanded "
                "view of it is left: keep that tensor, or clone() the expanded view"
            )
        # Of those that show an element gradients go back through the last one.
        ordered = sorted(tensors, key=lambda tensor: _recorded_base(tensor) is not None)
        found = ordered[0]._place_in_base(steps_of(ordered[0]))
        for tensor in ordered[1:]:
            found = found._merge_elements(steps_of(tensor), tensor, None)
        return found._same() if any(found is tensor for tensor in tensors) else found

    def _through(self, steps: Steps) -> Self:
        """This base, seen through `steps`."""
        shown = self
        for step in steps:
            if step.op is Ops.BITCAST:
                shown = shown.bitcast(step.result)
            else:
                shown = shown._apply(step.op, arg=step.arg, is_view=True)
        return shown

    def _merge_elements(self, steps: Steps, value: Self, chosen: Self | None) -> Self:
        """The elements of this base; those shown through `steps`, where chosen, are `value`'s."""
        for number, step in reversed(tuple(enumerate(steps))):
            if step.dtype.itemsize != step.result.itemsize:
                # A part of an element may be written, so its other bits are read first.
                bits = self._through(steps[: number + 1])
                bits = bits._merge_elements(steps[number + 1 :], value, chosen).contiguous()
                return self._merge_elements(steps[:number], bits.bitcast(step.dtype), None)
        placed = value._place_in_base(steps)
        # What is overwritten whole still has a gradient: it is zero.
        has_gradient = is_recording() and self._value.requires_grad
        if chosen is None and is_whole(steps) and not has_gradient:
            # Gradients may be asked for the value: it is computed from, not taken over.
            return placed._apart_from(value) if value._value.requires_grad else placed
        if chosen is None:
            chosen = self._constant(True, dtypes.bool)._broadcast_to(value.shape)
        return chosen._place_in_base(steps).where(placed, self)

    def _place_in_base(self, steps: Steps) -> Self:
        """The inverse of `_through`: zeros where the base is not shown. For bools too that say
        which elements are chosen.
        """
        placed = self
        for step in reversed(steps):
            placed = placed._placed_by(step)
        return placed

    def _placed_by(self, step: Step) -> Self:
        argument = step.arg
        if step.op is Ops.RESHAPE:
            return self._reshape(step.shape)
        if step.op is Ops.BITCAST:
            return self.bitcast(step.dtype) if self.dtype is step.result else self
        if isinstance(argument, PermuteArg):
            order = argument.order
            return self._permute(tuple(sorted(range(len(order)), key=order.__getitem__)))
        if isinstance(argument, FlipArg):
            return self._flip(argument.axes)
        sizes = zip(step.shape, self.shape, strict=True)
        if isinstance(argument, ShapeArg):
            return self._shrink(tuple((0, size if size == now else 1) for size, now in sizes))
        if not isinstance(argument, BoundsArg):
            return self
        pairs = tuple(zip(argument.bounds, step.shape, strict=True))
        if step.op is Ops.PAD:
            return self._shrink(tuple((before, before + size) for (before, _), size in pairs))
        return self._pad(tuple((begin, size - end) for (begin, end), size in pairs))

    def __iadd__(self, x: Self | ConstType) -> Self:
        return self._assign_result("+=", self.add(x))

    def __isub__(self, x: Self | ConstType) -> Self:
        return self._assign_result("-=", self.sub(x))

    def __imul__(self, x: Self | ConstType) -> Self:
        return self._assign_result("*=", self.mul(x))

    def __itruediv__(self, x: Self | ConstType) -> Self:
        return self._assign_result("/=", self.div(x))

    def __ifloordiv__(self, x: Self | ConstType) -> Self:
        return self._assign_result("//=", self._floor_divide(x))

    def __imod__(self, x: Self | ConstType) -> Self:
        return self._assign_result("%=", self.mod(x))

    def __ipow__(self, x: Self | ConstType) -> Self:
        return self._assign_result("**=", self.pow(x))

    def __imatmul__(self, x: Self) -> Self:
        return self._assign_result("@=", self.matmul(x))

    def __iand__(self, x: Self | ConstType) -> Self:
        return self._assign_result("&=", self.bitwise_and(x))

    def __ior__(self, x: Self | ConstType) -> Self:
        return self._assign_result("|=", self.bitwise_or(x))

    def __ixor__(self, x: Self | ConstType) -> Self:
        return self._assign_result("^=", self.bitwise_xor(x))

    def __ilshift__(self, x: Self | ConstType) -> Self:
        return self._assign_result("<<=", self.lshift(x))

    def __irshift__(self, x: Self | ConstType) -> Self:
        return self._assign_result(">>=", self.rshift(x))


def _is_whole_of(tensor: TensorCore, others: Sequence[TensorCore]) -> bool:
    """Whether it shows all of its base, and each of `others` is a view of what it shows."""
    steps = steps_of(tensor)
    return is_whole(steps) and all(steps_of(each)[: len(steps)] == steps for each in others)


def _recorded_base(tensor: TensorCore) -> Value | None:
    """The value of the whole that `tensor` was computed from as a view; None without gradients."""
    value = tensor._value
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
    node = tensor._node
    while True:
        # DETACH of itself is itself, and no memory.
        is_base = node.op is not Ops.DETACH and product(shape_of(node)) == product(first.shape)
        if is_base and node.dtype is first.dtype:
            whole = seen = graph.reshape(node, first.shape)
            for step in steps:
                seen = build(step.op, step.arg, step.result, (seen,))
            if seen is tensor._node:
                return whole
        if node.op not in VIEW_OPS:
            return None
        node = node.src[0]
