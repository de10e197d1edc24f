"""Arrays of the oracle: positions in a flat store of elements, and the effects of writes."""

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
    """Elements that several arrays may share."""

    elements: Elements
    base: Array = field(init=False)
    """The array that the elements were created with."""
    whole: GradientRecord = field(init=False)
    """How all elements were computed."""
    leaves: list[GradientRecord] = field(default_factory=list)
    """The records at which `backward` ended."""
    arrays: list[Array] = field(default_factory=list)
    """The arrays that share the elements, or did."""
    overwritten: int = 0
    """How often old elements were lost."""
    is_repeated: bool = False
    """True if an array has an element several times."""
    is_lost: bool = False
    """True if a tensor that shared the elements was dropped."""
    number: int = 0
    """The number of the first tensor of a program that has the elements."""

    def computed_by(self, record: GradientRecord) -> None:
        """Let `record` describe all elements from now on."""
        self.whole = record
        if record.is_leaf:
            self.leaves.append(record)


Basis = dict[Store, int]


@dataclass(eq=False)
class Array:
    """A tensor: its positions in a store."""

    store: Store
    positions: Elements
    dtype: str
    device: int
    sizes: tuple[Size, ...]
    """The sizes of the axes; a text for a symbolic one."""
    record: GradientRecord
    """How the elements were computed."""
    is_repeated: bool = False
    """True if an element occurs several times."""
    is_detached: bool = False
    """True for a view through which no gradient flows."""
    basis: Basis = field(default_factory=dict)
    """The stores that it was computed from, and how often each had been overwritten."""
    is_known: bool = True
    """False after a write that may have joined it with a tensor that only tinyref knows."""
    grad: Array | None = None
    """The sum of the gradients from `backward`."""
    has_open_grad: bool = False
    """True if `grad` depends on whether a call was a replay."""

    def __post_init__(self) -> None:
        self.store.arrays.append(self)
        self.basis = {**self.basis, self.store: self.store.overwritten}

    @classmethod
    def of(
        cls,
        elements: Elements,
        device: int,
        sizes: tuple[Size, ...] | None = None,
        record: GradientRecord | None = None,
    ) -> Array:
        """Return an array with its own elements. Raises `InexactError` if one may have rounded."""
        check_exact(elements)
        return cls.unchecked(elements, device, sizes, record)

    @classmethod
    def unchecked(
        cls,
        elements: Elements,
        device: int,
        sizes: tuple[Size, ...] | None = None,
        record: GradientRecord | None = None,
    ) -> Array:
        """Return an array with its own elements, which may have rounded."""
        positions = np.arange(elements.size).reshape(elements.shape)
        name = elements.dtype.name
        own_record = GradientRecord(elements.shape, name) if record is None else record
        store = Store(np.array(elements).reshape(-1))
        array = cls(
            store, positions, name, device, elements.shape if sizes is None else sizes, own_record
        )
        store.base = array
        store.computed_by(own_record)
        return array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.positions.shape

    @property
    def requires_grad(self) -> bool:
        """Return True if gradients flow to its sources, or end in it."""
        return self.record.requires_grad

    @property
    def is_lost(self) -> bool:
        """Return True if elements that it was computed from have been overwritten."""
        return any(store.overwritten != before for store, before in self.basis.items())

    @property
    def is_symbolic(self) -> bool:
        return any(isinstance(size, str) for size in self.sizes)

    @property
    def elements(self) -> Elements:
        """Return a copy of its current elements."""
        return self.store.elements[self.positions].view(self.dtype)

    @property
    def is_writable(self) -> bool:
        """Return True if tinyref can write to it: no element is visible twice."""
        return not (self.is_repeated or (self.store.is_repeated and self.store.is_lost))

    def write(
        self,
        positions: Elements,
        elements: Elements,
        value: GradientRecord | None = None,
        basis: Basis | None = None,
        keeps_leaf: bool = False,
    ) -> None:
        """Write elements at positions of the store; `value` and `basis` say how they were computed.

        With `keeps_leaf`, a leaf may be written and stays a leaf. Raises `UndefinedError` if the
        write is not allowed, or if gradients would be lost.
        """
        store, whole = self.store, self.store.whole
        gives = value is not None and value.requires_grad
        if not self.is_writable:
            raise UndefinedError("a write to a tensor with repeated elements")
        if whole.is_leaf and not keeps_leaf and (gives or not self.is_detached):
            raise UndefinedError("a write to a leaf")
        # If a leaf has been dropped, its views count as computed from it.
        is_computed = not whole.is_leaf or store.is_lost
        if whole.requires_grad and is_computed and (self.is_detached or whole.is_blocked):
            raise UndefinedError("a write to a detached view of a tensor with gradients")
        is_merged = (whole.requires_grad or gives) and not whole.is_leaf
        if is_merged and keeps_leaf and np.unique(positions).size == store.elements.size:
            raise UndefinedError("a result that becomes a leaf, or of which the leaf is a part")
        wide = np.broadcast_to(elements, positions.shape).astype(self.dtype)
        store.elements[positions] = wide.view(store.elements.dtype)
        if is_merged:
            store.computed_by(_merged(store, positions, value))
        else:
            store.overwritten += 1
            store.computed_by(
                GradientRecord(whole.shape, whole.dtype, is_marked=whole.requires_grad)
            )
        for array in store.arrays:
            array.record = _record_of(array)
            array.is_known = array.record.is_leaf
            array.basis = joined([array.basis, basis or {}])
            array.basis[store] = store.overwritten


def _merged(store: Store, positions: Elements, value: GradientRecord | None) -> GradientRecord:
    """Return the record of a store after the elements at `positions` became those of `value`."""
    whole = store.whole
    remaining = np.ones(store.elements.size)
    remaining[positions] = 0
    if value is None:
        return GradientRecord(whole.shape, whole.dtype, (whole,), lambda: [np.diag(remaining)])
    numbers = np.arange(math.prod(value.shape)).reshape(value.shape)
    written = np.zeros((store.elements.size, numbers.size))
    written[positions, np.broadcast_to(numbers, positions.shape)] = 1
    slopes = [np.diag(remaining), written]
    return GradientRecord(whole.shape, whole.dtype, (whole, value), lambda: slopes)


def _record_of(array: Array) -> GradientRecord:
    """Return the record of an array, as computed from its whole store."""
    store = array.store
    if array is store.base:
        return store.whole
    if array.is_detached:
        return GradientRecord(array.shape, array.dtype)
    size = store.elements.size
    return GradientRecord(
        array.shape, array.dtype, (store.whole,), lambda: [one_hot(array.positions, size)]
    )


def joined(bases: Iterable[Basis]) -> Basis:
    """Join bases: for each store the earliest version."""
    joined_basis: Basis = {}
    for basis in bases:
        for store, version in basis.items():
            joined_basis[store] = min(joined_basis.get(store, version), version)
    return joined_basis
