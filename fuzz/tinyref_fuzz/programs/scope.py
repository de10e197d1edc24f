"""Where the generator adds steps, and how it takes back those that the oracle refuses."""

from __future__ import annotations

from dataclasses import dataclass, field

from tinyref_fuzz.programs.arrays import Array, Store
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.reverse import Record
from tinyref_fuzz.programs.steps import Step


@dataclass
class Captured:
    """A function of the program: what its calls are given, and how many there are.

    examples: the arrays of the first call; None for a bound size. size: name and bounds of that.
    """

    step: Step
    examples: tuple[Array | None, ...]
    size: tuple[str, int, int] | None
    calls: int = 0


@dataclass
class Scope:
    """Where steps are added: the program, or the body of a function."""

    environment: Environment
    steps: list[Step] = field(default_factory=list)
    is_function: bool = False
    writable: set[int] = field(default_factory=set)


class Saved:
    """The elements of an environment, and its random numbers, as they were."""

    def __init__(self, environment: Environment) -> None:
        self.arrays = dict(environment.arrays)
        self.shown = [
            (array, array.record, array.basis, array.is_known, array.grad, array.has_open_grad)
            for array in environment.arrays.values()
        ]
        stores: dict[int, Store] = {
            id(array.store): array.store
            for array in (*environment.arrays.values(), *environment.hidden.values())
        }
        self.stores = [
            (store, store.elements.copy(), store.whole, store.overwritten, store.is_repeated)
            for store in stores.values()
        ]
        self.seed = environment.streams.seed
        self.drawn = dict(environment.streams.drawn)

    def restore(self, environment: Environment) -> None:
        """Everything is as it was."""
        environment.arrays = dict(self.arrays)
        for array, record, basis, is_known, grad, has_open_grad in self.shown:
            array.record, array.basis, array.is_known = record, basis, is_known
            array.grad, array.has_open_grad = grad, has_open_grad
        for store, elements, whole, overwritten, is_repeated in self.stores:
            store.elements[...] = elements
            store.whole, store.overwritten, store.is_repeated = whole, overwritten, is_repeated
        environment.streams.seed = self.seed
        environment.streams.drawn.clear()
        environment.streams.drawn.update(self.drawn)


def as_parameter(array: Array) -> Array:
    """What a function sees of an argument: the same elements, of which it knows no past."""
    made = Record(array.shape, array.dtype)
    return Array(array.store, array.places, array.dtype, array.place, array.sizes, made)
