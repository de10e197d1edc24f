"""Which tensors show the same elements, and through which views.

A view shows elements of another tensor, its base: what is written to one of them is seen by all.
That holds wherever the elements lie: in memory, in a graph that is not computed yet, on several
devices. `tensor/assignment.py` writes.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Generic, TypeVar

from tinyref.dtype import DType
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload

# A tensor: what shows the elements.
T = TypeVar("T")

# PAD is not among them: padding makes elements of its own.
VIEW_OPS = frozenset(
    {Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.SHRINK, Ops.FLIP, Ops.BITCAST, Ops.DETACH}
)
# They do nothing where the shape stays what it was.
_RESIZING = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.SHRINK, Ops.PAD})
_CUTTING = frozenset({Ops.SHRINK, Ops.PAD})


@dataclass(frozen=True, slots=True)
class Step:
    """One op of a view: applied to elements of `shape` and `dtype`, it gives those of `result`."""

    op: Ops
    arg: Payload
    shape: tuple[sint, ...]
    dtype: DType
    result: DType


Steps = tuple[Step, ...]


class Storage(Generic[T]):
    """The elements that several tensors show; it knows those of them that are alive."""

    __slots__ = ("_tensors",)

    def __init__(self) -> None:
        self._tensors: weakref.WeakValueDictionary[int, T] = weakref.WeakValueDictionary()

    def add(self, tensor: T) -> None:
        """From now on `tensor` shows these elements."""
        self._tensors[id(tensor)] = tensor

    def remove(self, tensor: T) -> None:
        """`tensor` shows other elements by now."""
        self._tensors.pop(id(tensor), None)

    def tensors(self) -> list[T]:
        """All that show them, oldest first."""
        return list(self._tensors.values())


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """What a tensor shows of a storage: the whole, the base, seen through `steps`."""

    storage: Storage[T]
    steps: Steps = ()

    def through(self, step: Step, shape: tuple[sint, ...]) -> View[T]:
        """The view of a view, of `shape`."""
        if step.op in _RESIZING and shape == step.shape:
            return self
        return View(self.storage, (*self.steps, step))


def has_expand(steps: Steps) -> bool:
    """Whether one element may be shown at several places."""
    return any(step.op is Ops.EXPAND for step in steps)


def is_cut_after_expand(steps: Steps) -> bool:
    """Whether a part of elements that are repeated is shown."""
    ops = [step.op for step in steps]
    return Ops.EXPAND in ops and not set(ops[ops.index(Ops.EXPAND) :]).isdisjoint(_CUTTING)


def is_whole(steps: Steps) -> bool:
    """Whether every element of the base is shown."""
    return not any(step.op in _CUTTING for step in steps)


def is_detached(steps: Steps) -> bool:
    """Whether no gradient flows through the view."""
    return any(step.op is Ops.DETACH for step in steps)
