"""Storages: elements that several tensors share, each tensor through its own view.

A view shows elements of another tensor, its base. A write to one of them changes all of them. This
holds for elements in memory, in a graph that is not computed yet, and on several devices.
`tensor/assignment.py` does the writing.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Generic, TypeVar

from tinyref.dtype import DType
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload

# The type of a tensor.
T = TypeVar("T")

# PAD is not among them: padding adds elements that the base does not have.
VIEW_OPS = frozenset(
    {Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.SHRINK, Ops.FLIP, Ops.BITCAST, Ops.DETACH}
)
# Ops that do nothing if the shape does not change.
_RESIZING = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.SHRINK, Ops.PAD})
_CUTTING = frozenset({Ops.SHRINK, Ops.PAD})


@dataclass(frozen=True, slots=True)
class Step:
    """One op of a view."""

    op: Ops
    arg: Payload
    shape: tuple[sint, ...]  # The shape before the op.
    dtype: DType  # The type before the op.
    result: DType  # The type after the op.


Steps = tuple[Step, ...]


class Storage(Generic[T]):
    """Elements that several tensors show, with weak references to these tensors."""

    __slots__ = ("_tensors",)

    def __init__(self) -> None:
        self._tensors: weakref.WeakValueDictionary[int, T] = weakref.WeakValueDictionary()

    def add(self, tensor: T) -> None:
        """Add a tensor that shows these elements from now on."""
        self._tensors[id(tensor)] = tensor

    def remove(self, tensor: T) -> None:
        """Remove a tensor that shows other elements from now on."""
        self._tensors.pop(id(tensor), None)

    def tensors(self) -> list[T]:
        """Return the living tensors that show these elements, oldest first."""
        return list(self._tensors.values())


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """The view that one tensor has of a storage: the base, seen through `steps`."""

    storage: Storage[T]
    steps: Steps = ()

    def through(self, step: Step, shape: tuple[sint, ...]) -> View[T]:
        """Return this view with one more step, whose result has `shape`."""
        if step.op in _RESIZING and shape == step.shape:
            return self
        return View(self.storage, (*self.steps, step))


def has_expand(steps: Steps) -> bool:
    """Return True if one element of the base may be at several positions of the view."""
    return any(step.op is Ops.EXPAND for step in steps)


def is_cut_after_expand(steps: Steps) -> bool:
    """Return True if the view shows only a part of repeated elements."""
    ops = [step.op for step in steps]
    return Ops.EXPAND in ops and not set(ops[ops.index(Ops.EXPAND) :]).isdisjoint(_CUTTING)


def is_whole(steps: Steps) -> bool:
    """Return True if the view shows every element of the base."""
    return not any(step.op in _CUTTING for step in steps)


def is_detached(steps: Steps) -> bool:
    """Return True if no gradient flows through the view."""
    return any(step.op is Ops.DETACH for step in steps)
