"""Which refusals of tinyref a program lets one expect, from its steps alone.

What tinyref says that it does not do hides faults where it says so of a program that it ought to
run. So a refusal counts where the steps have its reason; elsewhere it is a finding. Reasons are
wider than those of tinyref, which knows what is in memory, and where: of stores that had equal
elements once this takes it that they may be in one memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref_fuzz.programs.arithmetic import COMPUTE
from tinyref_fuzz.programs.arrays import Array, Store
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.script import VIEWS
from tinyref_fuzz.programs.steps import Program, Step
from tinyref_fuzz.programs.surroundings import CAPTURE, SAVING, WRITES, calls_of

# Sources that are computed, as data are not.
_COMPUTED_SOURCES = frozenset({"full", "arange", "rand", "randint"})
Stores = set[Store]


@dataclass
class Uses:
    """What a call reads and writes of what is there without it.

    takes_own: what is given elements computed from it, or from what may be in its memory.
    """

    reads: Stores = field(default_factory=set)
    writes: Stores = field(default_factory=set)
    takes_own: Stores = field(default_factory=set)


class History:
    """A program up to a step, and what of it may be a reason.

    calls: of each function. changed: for each captured function, the stores that were written
    since, or of which a tensor went. takes_own: as in `Uses`, of all steps so far.
    writes: how many. computed: stores of results, of which views may be computed by themselves.
    """

    def __init__(self) -> None:
        self.environment = Environment()
        self.calls: dict[int, int] = {}
        self.changed: dict[int, Stores] = {}
        self.takes_own: Stores = set()
        self.computed: Stores = set()
        self.writes = 0
        self._shared: dict[Store, Stores] = {}

    def run(self, step: Step) -> None:
        """Goes on by one step. Raises what the environment raises."""
        before = self.note(step)
        # A replay of another function computes views anew, which had memory of their own.
        seen = {store for store in before.reads if len(store.arrays) > 1}
        changed = before.writes | seen if step.op != "drop" else self._stores(step.args)
        self.environment.run(step)
        called = {call.args[0] for call in calls_of(step)}
        for function, stores in self.changed.items():
            if function not in called:
                stores |= changed
        if step.op == "reload":
            self.calls[step.target] = CAPTURE
            self.changed[step.target] = set()
        if step.op in COMPUTE or step.op in _COMPUTED_SOURCES:
            self.computed |= self._stores(step.targets)
        self._share()

    def note(self, step: Step) -> Uses:
        """Counts what a step is about to do."""
        for call in calls_of(step):
            function = call.args[0]
            self.calls[function] = self.calls.get(function, 0) + 1
            if self.calls[function] == CAPTURE:
                self.changed[function] = set()
        found = self.uses(step)
        self.takes_own |= found.takes_own
        functions = self.environment.functions
        bodies = [functions[call.args[0]].body for call in calls_of(step)] or [(step,)]
        self.writes += sum(each.op in WRITES for body in bodies for each in body)
        return found

    def uses(self, step: Step) -> Uses:
        """What a step reads and writes, where it is a call or a write."""
        found = Uses()
        if step.op in WRITES:
            shown = {number: self._stores([number]) for number in step.args}
            made_of = {number: self._basis(number) for number in step.args}
            self._note_write(step, shown, made_of, found)
        for call in calls_of(step):
            self._note_body(call.args[0], call.args[1:], found)
        return found

    def kept(self, function: int) -> Stores:
        """What a function uses of what is there without its arguments."""
        found = Uses()
        self._note_body(function, (), found)
        return found.reads | found.writes

    def _note_body(self, number: int, args: Sequence[int], found: Uses) -> None:
        function = self.environment.functions[number]
        given = dict(zip(function.args, args, strict=False))
        shown: dict[int, Stores] = {}
        made_of: dict[int, Stores] = {}

        def meet(number: int) -> None:
            if number not in shown:
                outside = given.get(number, number)
                shown[number] = self._stores([outside])
                made_of[number] = self._basis(outside)

        for step in function.body:
            for number in step.args:
                meet(number)
                found.reads |= shown[number]
            if step.op in WRITES:
                self._note_write(step, shown, made_of, found)
            for target in step.targets:
                is_view = step.op in VIEWS
                shown[target] = set(shown[step.args[0]]) if is_view else set()
                made_of[target] = set().union(*(made_of[number] for number in step.args))
        for number in function.values[0]:
            meet(number)
            found.reads |= shown[number]

    def _note_write(
        self,
        step: Step,
        shown: Mapping[int, Stores],
        made_of: Mapping[int, Stores],
        found: Uses,
    ) -> None:
        target = step.args[0]
        found.writes |= shown[target]
        mine = self.alike(made_of[target])
        if any(not mine.isdisjoint(made_of[number]) for number in step.args[1:]):
            found.takes_own |= shown[target]

    def _stores(self, numbers: Iterable[int]) -> Stores:
        arrays = self.environment.arrays
        return {arrays[number].store for number in numbers if number in arrays}

    def _basis(self, number: int) -> Stores:
        array = self.environment.arrays.get(number)
        return set() if array is None else {store for store, _ in array.basis}

    # What may be in one memory

    def _share(self) -> None:
        groups: dict[object, Stores] = {}
        for array in self.environment.arrays.values():
            for shown in (array, array.store.base):
                groups.setdefault(_content(shown), set()).add(array.store)
        for group in groups.values():
            for store in group if len(group) > 1 else ():
                self._shared.setdefault(store, set()).update(group)

    def alike(self, stores: Iterable[Store]) -> Stores:
        """These stores, and those that may be in their memory."""
        return {each for store in stores for each in (store, *self._shared.get(store, ()))}

    def may_move(self, stores: Iterable[Store]) -> bool:
        """Whether a write may give one of them other memory.

        It is shared, or a tensor of it is gone, or it was given what was computed from itself, as a
        copy; what was computed with gradients goes on so; views are in memory of their own where
        they were computed before what they are views of.
        """
        return any(
            store.is_lost
            or store.whole.requires_grad
            or store in self.takes_own
            or (store in self.computed and len(store.arrays) > 1)
            or len(self.alike([store])) > 1
            for store in stores
        )


def _content(array: Array) -> object:
    """Equal for arrays that show equal elements, in any order and however often."""
    elements = array.elements
    return array.place, elements.itemsize, np.unique(elements).tobytes()


def is_foreseen(program: Program, number: int, refusal: str) -> bool:
    """Whether the steps of a program have a reason for the refusal of one of them.

    number: of the step. refusal: a text of `REASONS`.
    """
    history = History()
    for each in program.steps[:number]:
        history.run(each)
    return REASONS[refusal](history, program.steps[number])


def _writes_twice(history: History, step: Step) -> bool:
    history.note(step)
    return history.writes > 1


def _is_captured(history: History, step: Step) -> bool:
    """A function is captured that writes what may get other memory by that.

    Or what a part of symbolic size shows: the part gets memory of its own before that is written.
    """
    for call in calls_of(step):
        is_capture = history.calls.get(call.args[0]) == CAPTURE - 1
        writes = history.note(call).writes
        is_part = any(array.is_symbolic for store in writes for array in store.arrays)
        if is_capture and (is_part or history.may_move(writes)):
            return True
    return False


def _goes_on_with_gradients(history: History, step: Step) -> bool:
    """A function is captured that writes what was computed with gradients, which goes on so."""
    captured = [c for c in calls_of(step) if history.calls.get(c.args[0]) == CAPTURE - 1]
    written = {store for call in captured for store in history.note(call).writes}
    return any(store.whole.requires_grad for store in written)


def _is_changed(history: History, step: Step) -> bool:
    """What a captured function uses was written since, and may have other memory.

    What it writes of a tensor that is gone may have it by the capture already.
    """
    is_used = bool(calls_of(step)) or step.op == "reload"
    if not is_used or step.args[0] not in history.changed:
        return False
    uses = history.uses(step)
    used = history.kept(step.args[0]) | uses.reads | uses.writes
    changed = history.changed[step.args[0]] & used
    return history.may_move(changed) or any(store.is_lost for store in uses.writes)


def _is_saved_in_part(history: History, step: Step) -> bool:
    """A function is saved that uses what only views show, or may show alone: a part is in memory
    of its own.
    """
    return step.op in SAVING and any(
        store.is_lost or len(store.arrays) > 1
        for store in history.alike(history.kept(step.args[0]))
    )


def _is_saved_with_gradients(history: History, step: Step) -> bool:
    """A function is saved that uses what was computed with gradients, or shows a part of it."""
    return step.op in SAVING and any(
        array.requires_grad for store in history.kept(step.args[0]) for array in store.arrays
    )


def _reads_copies(history: History, step: Step) -> bool:
    """A function is saved that uses what may be in one memory with something else."""
    return step.op in SAVING and any(
        len(store.arrays) > 1 or len(history.alike([store])) > 1
        for store in history.kept(step.args[0])
    )


def _is_argument_of_state(history: History, step: Step) -> bool:
    """A function writes an argument, or state, that may be in the memory of another argument."""
    if not calls_of(step):
        return False
    writes, arrays = history.alike(history.uses(step).writes), history.environment.arrays
    given = [{arrays[number].store} for number in step.args[1:] if number in arrays]
    return any(not writes.isdisjoint(stores) for stores in given)


# A part of what tinyref says, and what a program has of which it may say so.
REASONS: Mapping[str, Callable[[History, Step], bool]] = {
    "call realize() on the tensors that it is computed from": _writes_twice,
    "replays would read the old one": _is_captured,
    "replays would read that memory": _is_captured,
    "from outside other memory": _goes_on_with_gradients,
    "in the same memory, as after clone()": _is_captured,
    "is gone, or has other memory by now": _is_changed,
    "is a tensor that the function assigns to as well": _is_argument_of_state,
    "shares memory with": _is_argument_of_state,
    "cannot be saved: only views show the memory": _is_saved_in_part,
    "pickle: this tensor was computed from tensors that require grad": _is_saved_with_gradients,
    "cannot be saved: the function reads copies": _reads_copies,
}
