"""The tensors that a captured function keeps from call to call, and those that look at them.

A replay reads and writes the memory that the capture saw. So a tensor that had this memory must
still have it, and what was computed from old contents, or shows them, must get them before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tinyref.engine.capture import Known, Recorder
from tinyref.errors import UserStateError
from tinyref.lazy.graph import backing
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.tensor.assignment import base_tensor, refresh_view
from tinyref.tensor.core import TensorCore, Value, hold_tensors, registry, steps_of
from tinyref.tensor.indexing import Indexing
from tinyref.tensor.jit.session import (
    CaptureSession,
    compute_before_write,
    compute_copies,
    description_of,
    reaching,
)
from tinyref.tensor.registry import graph_lock, is_assigned, is_view, parts_of, shown_numbers
from tinyref.tensor.views import has_expand
from tinyref.uops.node import UOp
from tinyref.uops.payload import BufferArg

Compute = Callable[[Sequence[TensorCore]], None]


@dataclass(slots=True)
class _Holder:
    """A tensor that had its memory when the function was captured, and the value it had then.

    node: how it showed its memory. is_read: the function reads it; others only show the same
    memory, as a clone does.
    """

    tensor: weakref.ref[TensorCore]
    value: Value
    node: UOp
    numbers: tuple[int, ...]
    is_read: bool = True

    @classmethod
    def of(cls, tensor: TensorCore, value: Value, is_read: bool = True) -> _Holder:
        """The holder of what `value` shows now."""
        node = value.node
        return cls(weakref.ref(tensor), value, node, shown_numbers(node), is_read)

    def is_stale(self, tensor: TensorCore, written: set[int]) -> bool:
        """Whether `tensor` was assigned to since, or was about to be, by another thread, then.

        Or whether a replay, which writes `written`, overwrites what it is computed from.
        """
        if tensor._value is not self.value:
            return True
        node = self.value.node
        if not registry.any_pending((id(self.value),)) or is_view(node):
            return False
        return is_assigned(node) or not written.isdisjoint(self.numbers)


def _shows_alike(before: UOp, now: UOp) -> bool:
    """Whether both show the same elements of the same memory, in the same order."""
    if before is now:
        return True
    pairs = list(zip(parts_of(before), parts_of(now), strict=False))
    return shape_of(before) == shape_of(now) and all(
        (memory := backing(old)) is not None and memory is backing(new) for old, new in pairs
    )


def _is_view_of(tensor: TensorCore | None, storages: set[int]) -> bool:
    return tensor is not None and tensor._view is not None and id(tensor._view.storage) in storages


def _is_expanded(tensor: TensorCore) -> bool:
    return has_expand(steps_of(tensor))


def _refresh_views(tensor: TensorCore) -> None:
    """Views that were computed for themselves show the memory again that a replay writes."""
    tensors = [] if tensor._view is None else tensor._view.storage.tensors()
    if len(tensors) < 2:
        return
    # Of an expanded view the base is not found; nothing is written to it here.
    plain = next((each for each in tensors if not _is_expanded(each)), tensor)
    assert isinstance(plain, Indexing), "tensors are assigned to"
    base = base_tensor(plain, "TinyJit")
    numbers = set(shown_numbers(base._node))
    for other in tensors:
        if other is not base and not numbers.issuperset(shown_numbers(other._node)):
            assert isinstance(other, Indexing), "tensors are assigned to"
            refresh_view(other, base, base._value.requires_grad)


class State:
    """The memory that a capture shares with tensors outside.

    written: the numbers of the BUFFERs that the steps write.

    recorder: what was captured. own: BUFFERs that are inputs or outputs, and no state. session:
    the capture, which has ended.
    """

    def __init__(self, recorder: Recorder, own: Iterable[int], session: CaptureSession) -> None:
        own = set(own)
        outside = {
            number: known
            for number, known in recorder.known.items()
            if number not in own and not known.is_temporary
        }
        self.written = {number for number, known in outside.items() if known.is_written}
        self._needed: dict[int, str] = {}
        self._hold(
            [
                holder
                for number, known in outside.items()
                for holder in self._holders_of(number, known, session)
            ]
        )
        self._check_changed(session)
        self._moments = registry.moments(self.written)
        self._constants = list(session.constants)
        self._check_constants()

    @classmethod
    def from_saved(
        cls, written: set[int], needed: dict[int, str], tensors: Iterable[TensorCore]
    ) -> State:
        """The state of a capture from a pickle, which `tensors` hold now."""
        state = object.__new__(cls)
        state.written = written
        state._needed = needed
        state._constants = []
        state._hold([_Holder.of(tensor, tensor._value) for tensor in tensors])
        state._moments = registry.moments(written)
        return state

    def _hold(self, holders: list[_Holder]) -> None:
        self._holders = holders
        self._identities = [id(holder.value) for holder in holders]
        # What was pending when none of it read memory that is written, and which memory that was.
        self._unread: tuple[int, Collection[int]] | None = None

    def tensors(self) -> list[TensorCore]:
        """The tensors that hold it now: views last, those first that the function reads."""
        held = [(not each.is_read, each.tensor()) for each in self._holders]
        found = [(is_unread, tensor) for is_unread, tensor in held if tensor is not None]
        found.sort(key=lambda each: (bool(steps_of(each[1])), each[0]))
        return list({id(tensor): tensor for _, tensor in found}.values())

    def copies(self) -> TensorCore | None:
        """A tensor that the function reads in one memory with another one, which is no view of it.

        They have equal elements until either is assigned to, as after `clone`.
        """
        readers: dict[int, object] = {}
        for holder in self._holders:
            tensor = holder.tensor()
            if tensor is None or not holder.is_read:
                continue
            storage = tensor if tensor._view is None else tensor._view.storage
            if any(readers.setdefault(n, storage) is not storage for n in holder.numbers):
                return tensor
        return None

    @property
    def needed(self) -> dict[int, str]:
        """The BUFFERs that tensors from outside must go on to show, with descriptions."""
        return self._needed

    def keep(self, numbers: Collection[int]) -> None:
        """From now on replays touch no other BUFFERs than `numbers`."""
        self._needed = {n: text for n, text in self._needed.items() if n in numbers}

    def __len__(self) -> int:
        return len(self.written)

    def _holders_of(self, number: int, known: Known, session: CaptureSession) -> Iterator[_Holder]:
        before = session.before
        shown = hold_tensors(lambda: registry.showing(number))
        values = {value: tensor for value, tensor in shown.items() if tensor is not None}
        if known.existed and number in before:
            self._needed[number] = before[number]
            # Others may show it still: what a function keeps of it, as a copy.
            is_replaced = not values or session.has_left(number)
            if is_replaced and number in session.left:
                raise UserStateError(
                    f"TinyJit: the function reads a {before[number]} and then assigns to it, which "
                    f"shows a part of memory, or in another order: replays would read that memory, "
                    f"and not what was assigned; before the capture give it memory of its own, as "
                    f"in x.replace(x.contiguous().realize())"
                )
            if is_replaced:
                raise UserStateError(
                    f"TinyJit: a {before[number]} that the function reads was replaced in it: "
                    f"replays would read the old one; assign() to it in place, or pass it in and "
                    f"return it"
                )
        for value, tensor in values.items():
            yield _Holder.of(tensor, value, session.has_read(value))

    def _check_changed(self, session: CaptureSession) -> None:
        """Raises `UserStateError` where a tensor from outside was given what no replay gives it."""
        for held in session.changed:
            tensor = held()
            if tensor is None or is_empty(shape_of(tensor._node)):
                continue
            numbers = shown_numbers(tensor._node)
            if not numbers or not self.written.issuperset(numbers):
                raise UserStateError(
                    f"TinyJit: the function gives a {description_of(tensor)} from outside other "
                    f"memory, which no replay would do: assign() to it in place, within "
                    f"Tensor.no_grad() where it requires grad, or return what it is to hold"
                )

    def overlaps(self, numbers: Iterable[int], is_written: bool) -> bool:
        """Whether an argument that shows `numbers` is state that is written, or both are."""
        touched = self._outside if is_written else self.written
        return not touched.isdisjoint(numbers)

    def before_replay(self, compute: Compute, inputs: Iterable[int] = ()) -> None:
        """Makes sure that a replay does what a call would do to the tensors outside.

        `inputs` are the BUFFERs of arguments that are written.
        Raises `UserError` where a tensor that the function reads has other memory by now, or was a
        constant.
        """
        self._check_constants()
        if self._has_stale():
            self._renew(compute)
        if registry.has_changed(self._moments):
            self._keep_copies(compute)
        if registry.has_pending:
            self._keep_results(frozenset(inputs))

    def _check_constants(self) -> None:
        """Raises `UserStateError` where a constant that is part of the capture was assigned to."""
        for held, node in self._constants:
            tensor = held()
            if tensor is not None and tensor._node is not node:
                raise UserStateError(
                    f"TinyJit: a {description_of(tensor)} that the function reads was a constant, "
                    f"too large for memory unasked, and was assigned to: give it memory before the "
                    f"capture, as in x.replace(x.contiguous().realize())"
                )

    def _has_stale(self) -> bool:
        """Whether a tensor was assigned to, or is gone."""
        # A value that gets another node is out of the registry for a moment.
        with graph_lock:
            for holder in self._holders:
                tensor = holder.tensor()
                if tensor is None or tensor._value is not holder.value:
                    return True
            return registry.any_pending(self._identities)

    def _renew(self, compute: Compute) -> None:
        """Finds the tensors again that were assigned to, or are gone."""
        holders: list[_Holder] = []
        # What a tensor that is read has left, though another one shows it still.
        left: set[int] = set()
        for holder in self._holders:
            tensor = holder.tensor()
            if tensor is None:
                continue
            if holder.is_stale(tensor, self.written):
                compute([tensor])
                _refresh_views(tensor)
                now = _Holder.of(tensor, tensor._value, holder.is_read)
                if holder.is_read:
                    # In another order it is elsewhere, too: replays read it as it was.
                    is_same = _shows_alike(holder.node, now.node)
                    left |= set(holder.numbers).difference(now.numbers if is_same else ())
                holder = now
            holders.append(holder)
        held = {number for holder in holders for number in holder.numbers} - left
        for number, description in self._needed.items():
            if number not in held:
                raise UserStateError(
                    f"TinyJit: a {description} that the captured function reads is gone, or has "
                    f"other memory by now: assign() to it in place, or capture anew after reset()"
                )
        self._hold([holder for holder in holders if set(holder.numbers) & self._outside])

    @property
    def _outside(self) -> set[int]:
        return self.written | self._needed.keys()

    def _keep_copies(self, compute: Compute) -> None:
        """Tensors that show memory which the replay overwrites get copies of their own.

        But views of the state show it again, where they were computed for themselves.
        """
        for each in self.tensors():
            if not self.written.isdisjoint(shown_numbers(each._node)):
                _refresh_views(each)
        others = hold_tensors(self._others)
        for value in others:
            value.is_overwritten |= value.tensor is None
        # Computing gives views memory of their own; what still shows the memory itself is copied.
        compute([tensor for value in others if (tensor := value.tensor) is not None])
        # Asked first: what another thread enters meanwhile is looked at by the next replay.
        moments = registry.moments(self.written)
        shown = hold_tensors(self._others)
        compute_copies([value for value, tensor in shown.items() if tensor is not None])
        self._moments = moments

    def _others(self) -> list[Value]:
        """The values that show memory which is written, but do not hold it as state."""
        found = {id(value): value for number in self.written for value in registry.showing(number)}
        return self._without_views(found.values())

    def _without_views(self, values: Iterable[Value]) -> list[Value]:
        """Those of `values` that no holder has; its views show what a replay writes, as it does."""
        holding = {id(holder.value) for holder in self._holders}
        holders = [tensor for holder in self._holders if (tensor := holder.tensor()) is not None]
        shown = {id(tensor._view.storage) for tensor in holders if tensor._view is not None}
        return [
            value
            for value in values
            if id(value) not in holding and not _is_view_of(value.tensor, shown)
        ]

    def _keep_results(self, inputs: Collection[int]) -> None:
        """What is not computed yet, and reads memory that the replay overwrites, is computed."""
        # Asked first: what another thread enters meanwhile is looked at by the next replay.
        asked = (registry.pending_entered, inputs)
        if asked == self._unread:
            return
        written = self.written.union(inputs)

        def is_written(node: UOp) -> bool:
            return isinstance(node.arg, BufferArg) and node.arg.number in written

        pending = hold_tensors(registry.computable)
        reached = reaching(list(pending), is_written)
        if not reached:
            self._unread = asked
            return
        reading = self._without_views(reached)
        for value in reading:
            value.is_overwritten |= value.tensor is None
        compute_before_write(reading, written)
