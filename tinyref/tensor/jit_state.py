"""The tensors that a captured function keeps from call to call, and those that look at them.

A replay reads and writes the memory that the capture saw. So a tensor that had this memory must
still have it, and what was computed from old contents, or shows them, must get them before.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tinyref.engine.capture import Known, Recorder
from tinyref.errors import TinyrefError, UserStateError
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import is_empty, largest_size, shape_of
from tinyref.tensor.core import TensorCore, Value
from tinyref.tensor.data import store_apart
from tinyref.tensor.registry import parts_of, registry, shown_numbers
from tinyref.uops.node import UOp, toposort
from tinyref.uops.payload import BufferArg
from tinyref.uops.symbolic import describe_shape

# A constant of more elements is part of a capture: that much memory is not taken unasked.
LARGEST_CONSTANT = 1 << 22

Compute = Callable[[Sequence[TensorCore]], None]


def shown_by_tensors() -> dict[int, str]:
    """The numbers of all BUFFERs that tensors show now, each with a description of a tensor."""
    found: dict[int, str] = {}
    for value in registry.live():
        if value.tensor is not None:
            for number in shown_numbers(value.node):
                found.setdefault(number, _description(value.tensor))
    return found


def _description(tensor: TensorCore) -> str:
    return f"{tensor.dtype.name} tensor of shape {describe_shape(tensor.shape)}"


def give_memory(compute: Compute) -> None:
    """Computes all tensors, constants too, so that a capture meets memory where it meets a tensor.

    A replay finds what a tensor holds by then in its memory, and nowhere else: a graph that is not
    computed yet, or a constant, would be repeated as it was. A tensor that cannot be computed, and
    a constant above `LARGEST_CONSTANT` elements, stays as it is.
    """
    for value in registry.live():
        if value.tensor is None or not _is_small_constant(value.node):
            continue
        store_apart(value)
    waiting = [tensor for value in registry.pending() if (tensor := value.tensor) is not None]
    try:
        compute(waiting)
    except TinyrefError:
        for tensor in waiting:
            with contextlib.suppress(TinyrefError):
                compute([tensor])


def _is_small_constant(node: UOp) -> bool:
    if is_empty(shape_of(node)) or any(uniform_value(part) is None for part in parts_of(node)):
        return False
    return largest_size(shape_of(node)) <= LARGEST_CONSTANT


def _reaching(values: Sequence[Value], is_wanted: Callable[[UOp], bool]) -> list[Value]:
    """Those of `values` whose graph holds a wanted node."""
    reached: set[UOp] = set()
    for node in toposort({value.node: None for value in values}):
        if is_wanted(node) or any(source in reached for source in node.src):
            reached.add(node)
    return [value for value in values if value.node in reached]


@dataclass(slots=True)
class _Holder:
    """A tensor that had its memory when the function was captured, and the value it had then."""

    tensor: weakref.ref[TensorCore]
    value: Value
    numbers: tuple[int, ...]


class State:
    """The memory that a capture shares with tensors outside.

    written: the numbers of the BUFFERs that the steps write.

    recorder: what was captured. own: BUFFERs that are inputs or outputs, and no state. before:
    the BUFFERs that tensors showed before the capture, with descriptions.
    """

    def __init__(self, recorder: Recorder, own: Iterable[int], before: dict[int, str]) -> None:
        own = set(own)
        outside = {
            number: known
            for number, known in recorder.known.items()
            if number not in own and not known.is_temporary
        }
        self.written = {number for number, known in outside.items() if known.is_written}
        self._needed: dict[int, str] = {}
        self._holders: list[_Holder] = []
        for number, known in outside.items():
            self._add_holders(number, known, before)
        self._counts = {number: registry.count_showing(number) for number in self.written}

    def __len__(self) -> int:
        return len(self.written)

    def _add_holders(self, number: int, known: Known, before: dict[int, str]) -> None:
        values = [value for value in registry.showing(number) if value.tensor is not None]
        if known.existed and number in before:
            self._needed[number] = before[number]
            if not values:
                raise UserStateError(
                    f"TinyJit: a {before[number]} that the function reads was replaced in it: "
                    f"replays would read the old one; assign() to it in place, or pass it in and "
                    f"return it"
                )
        for value in values:
            tensor = value.tensor
            if tensor is not None:
                holder = _Holder(weakref.ref(tensor), value, shown_numbers(value.node))
                self._holders.append(holder)

    def before_replay(self, compute: Compute) -> None:
        """Makes sure that a replay does what a call would do to the tensors outside.

        Raises `UserError` where a tensor that the function reads has other memory by now.
        """
        for holder in self._holders:
            tensor = holder.tensor()
            if tensor is None or tensor._value is not holder.value:
                self._renew(compute)
                break
        if registry.differs(self._counts):
            self._keep_copies(compute)
        if registry.has_pending:
            self._keep_results(compute)

    def _renew(self, compute: Compute) -> None:
        """Finds the tensors again that were assigned to, or are gone."""
        holders: list[_Holder] = []
        for holder in self._holders:
            tensor = holder.tensor()
            if tensor is None:
                continue
            if tensor._value is not holder.value:
                compute([tensor])
                numbers = shown_numbers(tensor._node)
                holder = _Holder(holder.tensor, tensor._value, numbers)
            holders.append(holder)
        held = {number for holder in holders for number in holder.numbers}
        for number, description in self._needed.items():
            if number not in held:
                raise UserStateError(
                    f"TinyJit: a {description} that the captured function reads is gone, or has "
                    f"other memory by now: assign() to it in place, or capture anew after reset()"
                )
        self._holders = [holder for holder in holders if set(holder.numbers) & self._outside]
        self._counts = {number: registry.count_showing(number) for number in self.written}

    @property
    def _outside(self) -> set[int]:
        return self.written | self._needed.keys()

    def _keep_copies(self, compute: Compute) -> None:
        """Tensors that show memory which the replay overwrites get copies of their own."""
        others = self._others()
        for value in others:
            value.is_overwritten |= value.tensor is None
        # Computing gives views memory of their own; what still shows the memory itself is copied.
        compute([tensor for value in others if (tensor := value.tensor) is not None])
        copied = [
            (value, tensor) for value in self._others() if (tensor := value.tensor) is not None
        ]
        for value, _ in copied:
            store_apart(value)
        compute([tensor for _, tensor in copied])
        self._counts = {number: registry.count_showing(number) for number in self.written}

    def _others(self) -> list[Value]:
        """The values that show memory which is written, but do not hold it as state."""
        holding = {id(holder.value) for holder in self._holders}
        found = {id(value): value for number in self.written for value in registry.showing(number)}
        return [value for identity, value in found.items() if identity not in holding]

    def _keep_results(self, compute: Compute) -> None:
        """What is not computed yet, and reads memory that the replay overwrites, is computed."""
        reading = _reaching(registry.pending(), self._is_written)
        for value in reading:
            value.is_overwritten |= value.tensor is None
        compute([tensor for value in reading if (tensor := value.tensor) is not None])

    def _is_written(self, node: UOp) -> bool:
        return isinstance(node.arg, BufferArg) and node.arg.number in self.written
