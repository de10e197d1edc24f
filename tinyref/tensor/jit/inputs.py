"""The tensors that a captured function is called with: in memory, and in others' places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from tinyref.engine.capture import Recorder
from tinyref.errors import UserError, UserStateError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of, new_buffer_like
from tinyref.lazy.multi import assign
from tinyref.lazy.shape import is_empty
from tinyref.tensor.core import TensorCore, from_node, from_value, registry, same_node
from tinyref.tensor.data import compute
from tinyref.tensor.jit.session import description_of
from tinyref.tensor.registry import graph_lock, parts_of, shown_numbers
from tinyref.tensor.tensor import Tensor
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg


@dataclass
class Input:
    """A tensor argument during a capture: another tensor, in memory of its own, stands for it.

    So the function's uses of its argument are distinguished from uses of a tensor that it keeps.
    is_written: the function assigns to it.
    """

    path: str
    stand_in: TensorCore
    numbers: tuple[int, ...]
    node: UOp
    given: tuple[int, ...]
    is_written: bool = False

    @classmethod
    def of(cls, tensor: TensorCore, path: str) -> Input:
        """Copies the elements of `tensor`, computed if need be."""
        node = copy_in_memory(in_memory(tensor, path))
        value = replace(tensor._value, node=node, record=None, owner=None)
        stand_in = from_value(type(tensor), value)
        return cls(path, stand_in, numbers_behind(node), node, shown_numbers(tensor._node))

    def written_back(self) -> list[TensorCore]:
        """Where the function gave the argument other memory: an assignment to its own memory.

        Raises `UserError` where the elements do not fit there.
        """
        found = self.stand_in
        if found._node is self.node or _is_assignment_to(found._node, self.node):
            return []
        memory = from_node(Tensor, self.node, found._device)
        if (memory.shape, memory.dtype) != (found.shape, found.dtype) or not self.numbers:
            raise UserError(
                f"TinyJit: argument {self.path} becomes {description_of(found)} within the "
                f"function, it was {description_of(memory)}: return the new tensor"
            )
        with graph_lock:
            node = assign(self.node, same_node(found)._node)
            return [from_node(Tensor, node, found._device)]

    def find_written(self, recorder: Recorder) -> None:
        """Sees whether a step has written to it."""
        known = [recorder.known[number] for number in self.numbers if number in recorder.known]
        self.is_written = any(found.is_written for found in known)

    def check(self, recorder: Recorder) -> None:
        """Raises `UserError` where the function did to it what a replay could not do."""
        self.find_written(recorder)
        for number in self.given:
            found = recorder.known.get(number)
            if found is not None and (found.is_written or self.is_written):
                raise also_state(self.path)
        if self.stand_in._grad is not None:
            raise UserStateError(
                f"TinyJit: argument {self.path} gets a grad within the function, which a replay "
                f"could not hand out: use gradient() and return it"
            )


def _is_assignment_to(node: UOp, memory: UOp) -> bool:
    """Whether all that `node` still has to do is to write its elements to `memory`."""
    targets = []
    for part in parts_of(node):
        while part.op is Ops.ASSIGN:
            part = part.src[0]
        targets.append(part)
    return tuple(targets) == parts_of(memory)


def check_unshared(
    paths: Sequence[str], shown: Sequence[tuple[int, ...]], written: Sequence[int]
) -> None:
    """Raises `UserError` where an argument that is assigned to shares memory with another one.

    paths: where each argument was found. shown: the BUFFERs that it shows. written: those assigned
    to, by their places.
    """
    for place in written:
        for other, numbers in enumerate(shown):
            if other != place and set(shown[place]) & set(numbers):
                raise UserError(
                    f"TinyJit: argument {paths[place]}, which the function assigns to, shares "
                    f"memory with argument {paths[other]}: pass a copy, "
                    f"{paths[other]}.clone().realize()"
                )


def also_state(path: str) -> UserError:
    """The error for an argument that is state of the function as well."""
    return UserError(
        f"TinyJit: argument {path} is a tensor that the function assigns to as well: "
        f"pass another tensor, and let the function use the one that it keeps"
    )


def buffers_behind(node: UOp) -> list[UOp]:
    """The BUFFERs behind a computed tensor, one for each part; none for what has no elements."""
    found = [graph.backing(part) for part in parts_of(node)]
    return [buffer for buffer in found if buffer is not None]


def number_of(buffer: UOp) -> int:
    """The number of a BUFFER."""
    assert isinstance(buffer.arg, BufferArg), "a BUFFER has a number"
    return buffer.arg.number


def numbers_behind(node: UOp) -> tuple[int, ...]:
    """The numbers of the BUFFERs behind a computed tensor."""
    return tuple(map(number_of, buffers_behind(node)))


def copy_in_memory(node: UOp) -> UOp:
    """A computed tensor with the same elements in memory of its own."""
    return substitute(node, {buffer: _copy_buffer(buffer) for buffer in buffers_behind(node)})


def hand_over(tensor: TensorCore, node: UOp) -> None:
    """Assigns the elements of `node`, which is computed, to an argument, as a plain call does."""
    assert isinstance(tensor, Tensor), "arguments are Tensors"
    with Tensor.no_grad():
        tensor.assign(from_node(Tensor, node, tensor._device))
    compute([tensor])


def _copy_buffer(buffer: UOp) -> UOp:
    """A BUFFER of its own with the same contents."""
    assert isinstance(buffer.arg, BufferArg), "a BUFFER has a size"
    node, memory = new_buffer_like(buffer.arg, buffer.dtype)
    memory.copy_from(buffer_of(buffer))
    return node


def in_memory(tensor: TensorCore, path: str) -> UOp:
    """A node of the elements of `tensor` in memory, in order: computes and copies if need be."""
    if tensor._value.requires_grad and tensor._value.record is not None:
        raise UserStateError(
            f"TinyJit: argument {path} was computed from tensors that require grad, and no "
            f"gradient flows through a replay: pass {path}.detach()"
        )
    node = tensor._node
    if is_backed(node) or is_empty(graph.shape_of(node)):
        return node
    compute([tensor])
    if is_backed(tensor._node):
        return tensor._node
    copy = cast(Tensor, same_node(tensor)).contiguous()
    compute([copy])
    return copy._node


def is_alone(tensor: TensorCore, node: UOp) -> bool:
    """Whether `tensor` is in memory as `node`, and no other tensor shows its elements.

    A view that was computed for itself is in memory of its own, and still shows those of its base.
    """
    if tensor._node is not node:
        return False
    if tensor._view is not None and len(tensor._view.storage.tensors()) > 1:
        return False
    return all(registry.count_showing(number) == 1 for number in numbers_behind(node))


def is_backed(node: UOp) -> bool:
    """Whether the elements are in memory, in order, on each device."""
    if node.op is not Ops.MULTI:
        return graph.backing(node) is not None
    return all(graph.backing(part) is not None for part in node.src)
