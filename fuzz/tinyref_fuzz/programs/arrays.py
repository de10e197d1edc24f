"""Tensors of the oracle: arrays of places in a flat store of elements, and what a write changes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tinyref_fuzz.programs.arithmetic import Elements, UndefinedError, check_exact
from tinyref_fuzz.programs.reverse import GradientRecord, one_hot

Size = int | str


@dataclass(eq=False)
class Store:
    """Elements that several arrays may show.

    base: the array that they were made with. whole: how all of them were computed. leaves: what
    that was where `backward` ended. arrays: what shows them, or did. overwritten: how often old
    elements were lost. is_repeated: one is shown several times. is_lost: a tensor that showed them
    is gone. number: of the first tensor of a program that shows them.
    """

    elements: Elements
    base: Array = field(init=False)
    whole: GradientRecord = field(init=False)
    leaves: list[GradientRecord] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    overwritten: int = 0
    is_repeated: bool = False
    is_lost: bool = False
    number: int = 0

    def computed_by(self, record: GradientRecord) -> None:
        """From now on all elements are what `record` says."""
        self.whole = record
        if record.is_leaf:
            self.leaves.append(record)


Basis = dict[Store, int]


@dataclass(eq=False)
class Array:
    """A tensor: `places` of a store. sizes: of the axes, a text where one is symbolic.

    record: how it was computed. is_repeated: shows an element several times. is_detached: a view
    through which no gradient flows. basis: the stores that it was computed from, and how often each
    had been overwritten. is_known: gradients may be asked for it; after a write it may show
    elements of a tensor that only tinyref knows.
    grad: what `backward` added up here; has_open_grad: it depends on whether a call was a replay.
    """

    store: Store
    places: Elements
    dtype: str
    place: int
    sizes: tuple[Size, ...]
    record: GradientRecord
    is_repeated: bool = False
    is_detached: bool = False
    basis: Basis = field(default_factory=dict)
    is_known: bool = True
    grad: Array | None = None
    has_open_grad: bool = False

    def __post_init__(self) -> None:
        self.store.arrays.append(self)
        self.basis = {**self.basis, self.store: self.store.overwritten}

    @classmethod
    def of(
        cls,
        elements: Elements,
        place: int,
        sizes: tuple[Size, ...] | None = None,
        record: GradientRecord | None = None,
    ) -> Array:
        """An array with elements of its own. Raises `InexactError` where one may have rounded."""
        check_exact(elements)
        places = np.arange(elements.size).reshape(elements.shape)
        name = elements.dtype.name
        made = GradientRecord(elements.shape, name) if record is None else record
        store = Store(np.array(elements).reshape(-1))
        array = cls(store, places, name, place, elements.shape if sizes is None else sizes, made)
        store.base = array
        store.computed_by(made)
        return array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.places.shape

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to what it was computed from, or end in it."""
        return self.record.requires_grad

    @property
    def is_lost(self) -> bool:
        """Whether elements that it was computed from are overwritten by now."""
        return any(store.overwritten != before for store, before in self.basis.items())

    @property
    def is_symbolic(self) -> bool:
        return any(isinstance(size, str) for size in self.sizes)

    @property
    def elements(self) -> Elements:
        """A copy of what it shows now."""
        return self.store.elements[self.places].view(self.dtype)

    @property
    def is_writable(self) -> bool:
        """Whether tinyref writes to it at all: not where an element is seen twice."""
        return not (self.is_repeated or (self.store.is_repeated and self.store.is_lost))

    def write(
        self,
        places: Elements,
        elements: Elements,
        value: GradientRecord | None = None,
        basis: Basis | None = None,
        keeps_leaf: bool = False,
    ) -> None:
        """Gives places of the store other elements, computed as `value` says from `basis`.

        keeps_leaf: a leaf may be written, and stays one.
        Raises `UndefinedError` where nothing may be written, or gradients would be lost.
        """
        store, whole = self.store, self.store.whole
        gives = value is not None and value.requires_grad
        if not self.is_writable:
            raise UndefinedError("a write to what is repeated")
        if whole.is_leaf and not keeps_leaf and (gives or not self.is_detached):
            raise UndefinedError("a write to a leaf")
        # Views of a leaf that nobody holds any more are what was computed from it.
        is_computed = not whole.is_leaf or store.is_lost
        if whole.requires_grad and is_computed and (self.is_detached or whole.is_blocked):
            raise UndefinedError("a write to what is detached of what has gradients")
        is_merged = (whole.requires_grad or gives) and not whole.is_leaf
        if is_merged and keeps_leaf and np.unique(places).size == store.elements.size:
            raise UndefinedError("a result that becomes a leaf, or of which that is a part")
        wide = np.broadcast_to(elements, places.shape).astype(self.dtype)
        store.elements[places] = wide.view(store.elements.dtype)
        if is_merged:
            store.computed_by(_merged(store, places, value))
        else:
            store.overwritten += 1
            store.computed_by(
                GradientRecord(whole.shape, whole.dtype, is_marked=whole.requires_grad)
            )
        for array in store.arrays:
            array.record = _seen(array)
            array.is_known = array.record.is_leaf
            array.basis = joined([array.basis, basis or {}])
            array.basis[store] = store.overwritten


def _merged(store: Store, places: Elements, value: GradientRecord | None) -> GradientRecord:
    """All elements of a store of which those at `places` are now those of `value`."""
    whole = store.whole
    remaining = np.ones(store.elements.size)
    remaining[places] = 0
    if value is None:
        return GradientRecord(whole.shape, whole.dtype, (whole,), lambda: [np.diag(remaining)])
    numbers = np.arange(math.prod(value.shape)).reshape(value.shape)
    written = np.zeros((store.elements.size, numbers.size))
    written[places, np.broadcast_to(numbers, places.shape)] = 1
    slopes = [np.diag(remaining), written]
    return GradientRecord(whole.shape, whole.dtype, (whole, value), lambda: slopes)


def _seen(array: Array) -> GradientRecord:
    """What an array shows of its store, as computed from all that is there."""
    store = array.store
    if array is store.base:
        return store.whole
    if array.is_detached:
        return GradientRecord(array.shape, array.dtype)
    size = store.elements.size
    return GradientRecord(
        array.shape, array.dtype, (store.whole,), lambda: [one_hot(array.places, size)]
    )


def joined(bases: Iterable[Basis]) -> Basis:
    """Return what is computed from all of them, of each store as it was first."""
    made: Basis = {}
    for basis in bases:
        for store, version in basis.items():
            made[store] = min(made.get(store, version), version)
    return made
