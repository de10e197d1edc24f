"""What steps mean that are about what surrounds tensors: files, pickles, threads.

A file is a place of its own, whose number is that of the tensor which was made in it, negative.
Elements of 8-bit floats are rounded here, by their definition (OCP, "8-bit Floating Point
Specification", 2023), and only kept in the types of ml_dtypes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from tinyref_fuzz.programs.arrays import Array, Store
from tinyref_fuzz.programs.exact import Elements, InexactError, UndefinedError
from tinyref_fuzz.programs.reverse import Record, scatter
from tinyref_fuzz.programs.steps import Step, numbers_read, rename

WRITES = frozenset({"assign", "assign_number", "iadd", "setitem", "setitem_number", "set_part"})
# The second call of a function is captured, and all later ones replay that.
CAPTURE = 2
# What gives results of a function.
CALLING = frozenset({"call", "call_twice", "call_elsewhere"})
# And that put one into a pickle.
SAVING = frozenset({"reload", "call_elsewhere"})
# What makes a call differ from another one of the same arguments.
_EFFECTS = WRITES | {"rand", "randint", "seed", "backward", "zero_grad"}


@dataclass(frozen=True)
class SmallFloat:
    """An 8-bit float. mantissa: bits behind the point. lowest: exponent of its smallest normal.

    largest: finite; what rounds to more is `beyond`.
    """

    storage: np.dtype[np.generic]
    mantissa: int
    lowest: int
    largest: float
    beyond: float


SMALL_FLOATS: Mapping[str, SmallFloat] = {
    "fp8e4m3": SmallFloat(np.dtype(ml_dtypes.float8_e4m3fn), 3, -6, 448.0, np.nan),
    "fp8e5m2": SmallFloat(np.dtype(ml_dtypes.float8_e5m2), 2, -14, 57344.0, np.inf),
}
STORED_AS: Mapping[str, str] = {each.storage.name: name for name, each in SMALL_FLOATS.items()}


def round_to(elements: Elements, small: SmallFloat) -> Elements:
    """Rounded once, to nearest even; nothing saturates."""
    wide = elements.astype(np.float64)
    _, exponents = np.frexp(wide)
    quantum = np.exp2(np.maximum(exponents - 1, small.lowest) - small.mantissa)
    found = np.rint(wide / quantum) * quantum
    return np.where(np.abs(found) > small.largest, np.copysign(small.beyond, wide), found)


def calls_of(step: Step) -> tuple[Step, ...]:
    """Return the calls that a step makes."""
    if step.op not in CALLING:
        return ()
    function, *given = step.args
    if step.op != "call_twice":
        return (Step("call", step.args, step.targets),)
    half, results = len(given) // 2, len(step.targets) // 2
    return (
        Step("call", (function, *given[:half]), step.targets[:results]),
        Step("call", (function, *given[half:]), step.targets[results:]),
    )


def has_effects(function: Step) -> bool:
    """Whether a call of it changes or draws something."""
    return any(each.op in _EFFECTS for each in function.body)


class Surroundings(ABC):
    """The part of an environment that has these steps.

    hidden: what pickled functions read and write that nothing else shows, by number. calls: of each
    function, how many there were.
    """

    arrays: dict[int, Array]
    sizes: dict[int, tuple[str, int]]
    functions: dict[int, Step]
    hidden: dict[int, Array]
    calls: Counter[int]

    @abstractmethod
    def _call(self, step: Step) -> None:
        """One call of a function."""

    # Files

    def _file(self, step: Step) -> None:
        dtype, shape, elements, *_ = step.values
        found = np.array(elements, dtype).reshape(shape)
        array = self.arrays[step.target] = Array.of(found, -step.target)
        # The tensor of all bytes, of which this is a part.
        array.store.is_lost = True

    def _save(self, step: Step) -> None:
        source = self.arrays[step.args[0]]
        if source.is_symbolic or source.requires_grad or source.bound:
            raise UndefinedError("a file of a symbolic size, or with gradients")
        self._keep(step, source.elements, -step.target, source)

    def _file_bytes(self, step: Step) -> None:
        source = self.arrays[step.args[0]]
        if source.place != -step.args[0]:
            raise UndefinedError("the file of what is no file")
        self._keep(step, source.elements, step.values[0], source)

    def _keep(self, step: Step, elements: Elements, place: int, source: Array) -> None:
        array = self.arrays[step.target] = Array.of(elements, place)
        array.basis |= source.basis

    # 8-bit floats

    def _to_fp8(self, step: Step) -> None:
        source, small = self.arrays[step.args[0]], SMALL_FLOATS[step.values[0]]
        if source.requires_grad or source.bound or source.is_symbolic or source.place < 0:
            raise UndefinedError("fp8: of what has gradients, a bound or a symbolic size")
        wide = source.elements.astype(np.float64)
        if np.any(np.abs(wide) > 2.0**24):
            raise InexactError("fp8: of what float32 rounds")
        self._keep(step, round_to(wide, small).astype(small.storage), source.place, source)

    def _from_fp8(self, step: Step) -> None:
        source = self.arrays[step.args[0]]
        wide = source.elements.astype(np.float64)
        if not np.all(np.isfinite(wide)):
            raise InexactError("fp8: what is no number")
        self._keep(step, wide.astype(step.values[0]), source.place, source)

    # Pickles

    def _reload(self, step: Step) -> None:
        """A function, and tensors that it may use, as they are now, in memory of their own."""
        function = self.functions[step.args[0]]
        self._check_is_captured(step)
        self.calls[step.target] = CAPTURE
        along = dict(zip(step.args[1:], step.targets[1:], strict=True))
        if any(self.arrays[number].store.base is not self.arrays[number] for number in along):
            raise UndefinedError("a pickle of a view, which is one no more")
        names: dict[int, int] = {}
        stores: dict[Store, Store] = {}
        read = {number for number in numbers_read(function) if self._outside(number) is not None}
        for number in sorted(read | along.keys()):
            array = self._outside(number)
            assert array is not None, "it was found before"
            copied = _copied(array, stores)
            if number in along:
                self.arrays[along[number]] = copied
            else:
                # No other number is so small.
                self.hidden[-(step.target << 16) - number] = copied
            names[number] = along.get(number, -(step.target << 16) - number)
        self.functions[step.target] = replace(rename(function, names), targets=(step.target,))

    def _check_is_captured(self, step: Step) -> None:
        if self.calls[step.args[0]] < CAPTURE:
            raise UndefinedError("a pickle of a function that may not be captured")

    def _outside(self, number: int) -> Array | None:
        return self.arrays.get(number, self.hidden.get(number))

    def _call_elsewhere(self, step: Step) -> None:
        function = self.functions[step.args[0]]
        if has_effects(function):
            raise UndefinedError("a call in another process has effects there alone")
        self._check_is_captured(step)
        self._call(step)

    # Threads

    def _call_twice(self, step: Step) -> None:
        if has_effects(self.functions[step.args[0]]):
            raise UndefinedError("two threads call what has effects")
        for call in calls_of(step):
            self._call(call)

    def _realize_twice(self, step: Step) -> None:
        if any(number not in self.arrays for number in step.args):
            raise UndefinedError("realize: a tensor that is gone")


SURROUNDINGS = (
    *("file", "save", "file_bytes", "to_fp8", "from_fp8", "reload", "call_elsewhere"),
    *("call_twice", "realize_twice"),
)


def _copied(array: Array, stores: dict[Store, Store]) -> Array:
    """The array over a copy of its store, which it shares with those that were copied before."""
    store = array.store
    whole = store.whole
    if whole.requires_grad and not whole.is_leaf:
        raise UndefinedError("a pickle of what was computed with gradients")
    if array.bound or array.place < 0:
        raise UndefinedError("a pickle of what is rounded, or in a file")
    found = stores.get(store)
    if found is None:
        found = stores[store] = Store(store.elements.copy())
        made = Record(whole.shape, whole.dtype, is_marked=whole.requires_grad)
        base = store.base
        found.base = Array(found, base.places, base.dtype, base.place, base.sizes, made)
        found.computed_by(made)
        found.is_repeated, found.is_lost = store.is_repeated, store.is_lost
    if array is store.base:
        return found.base

    def back(g: Elements) -> tuple[Elements]:
        return (scatter(g, array.places, whole.shape),)

    made = Record(array.shape, array.dtype)
    if not array.is_detached:
        made = Record(array.shape, array.dtype, (found.whole,), back)
    return Array(
        *(found, array.places, array.dtype, array.place, array.sizes, made),
        is_repeated=array.is_repeated,
        is_detached=array.is_detached,
    )
