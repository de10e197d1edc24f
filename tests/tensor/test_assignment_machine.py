"""Tensors, views and assignments in any order, compared with numpy arrays that share memory."""

import contextlib
from dataclasses import dataclass

import numpy as np
import pytest
from failing_devices import DEVICES, FAULTS, KINDS
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from state_machines import run_machine

from tinyref import Tensor
from tinyref.errors import DeviceError, UserError, UserStateError

SHAPES = [(6,), (2, 3), (12,), (3, 4)]
NUMBER = st.integers(-9, 9)
PLACE = st.integers(0, 1000)
STEPS = 40
# Views of all elements of a tensor, as they lie.
LOOKS = (lambda x: x.detach(), lambda x: x.bitcast("uint32").bitcast("int32"))


def fresh(shape):
    """Return the positions of elements in order."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


@dataclass(eq=False)
class Pair:
    """A tensor, and what it must hold: the elements `positions` of `memory`, shared among views."""

    tensor: Tensor
    memory: np.ndarray
    positions: np.ndarray
    repeats: bool = False

    @classmethod
    def of(cls, tensor, elements):
        """Return a tensor with elements of its own."""
        elements = np.asarray(elements, np.int32)
        return cls(tensor, elements.flatten(), fresh(elements.shape))

    @property
    def elements(self):
        return self.memory[self.positions]

    def view(self, show):
        """Return a view of tensor and array alike."""
        return Pair(show(self.tensor), self.memory, show(self.positions), self.repeats)

    def check(self):
        np.testing.assert_array_equal(self.tensor.numpy(), self.elements)


def parts(pair):
    """Return views of some or all elements, for tensors and arrays."""
    x = pair.positions
    actual = {
        "whole": lambda x: x[...],
        "reversed": lambda x: x[::-1],
        "rest": lambda x: x[1:],
        "most": lambda x: x[:-1],
        "second": lambda x: x[1::2],
        "backwards": lambda x: x[::-2],
        "first": lambda x: x[0],
        "new": lambda x: x[None],
        "flat": lambda x: x.reshape(-1),
    }
    if x.ndim == 2:
        actual["transposed"] = lambda x: x.T
        actual["column"] = lambda x: x[:, 1:2]
        actual["corner"] = lambda x: x[:2, ::-2]
    return list(actual.values()) if x.ndim and x.size else []


class Assignments(RuleBasedStateMachine):
    """Each rule does one thing to a tensor and to its array; now and then they are compared."""

    device = "CPU"

    def __init__(self):
        super().__init__()
        self.pairs = []

    def pick(self, number):
        return self.pairs[number % len(self.pairs)]

    def add(self, pair):
        self.pairs.append(pair)
        if len(self.pairs) > 12:
            self.pairs.pop(0)

    def value(self, shape, number, by):
        """Something to write: a number, an array, or what is computed from a tensor."""
        fitting = [pair for pair in self.sources() if pair.positions.shape == shape]
        if fitting and number % 3:
            pair = fitting[number % len(fitting)]
            axes = tuple(range(len(shape))) if number % 2 else ()
            turned, elements = pair.tensor.flip(axes), np.flip(pair.elements, axes)
            if number % 3 == 1:
                return turned * 2 + by, elements * 2 + by
            return turned, elements
        if number % 2:
            return by, np.full(shape, by)
        array = (fresh(shape) * by).astype(np.int32)
        return Tensor(array, device=self.device), array

    def sources(self):
        """Return the pairs from which a value may be computed."""
        return self.pairs

    @rule(shape=st.sampled_from(SHAPES), kind=st.integers(0, 3), by=NUMBER)
    def make(self, shape, kind, by):
        numbers = (fresh(shape) + by).astype(np.int32)
        if kind == 0:
            full = Tensor.full(shape, by, dtype="int32", device=self.device)
            self.add(Pair.of(full, np.full(shape, by)))
            return
        tensor = Tensor(numbers, device=self.device)
        if kind == 1:
            tensor.realize()
        elif kind == 2:
            tensor, numbers = tensor * 3, numbers * 3
        self.add(Pair.of(tensor, numbers))

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, which=PLACE)
    def view(self, number, which):
        pair = self.pick(number)
        visible = parts(pair)
        if visible:
            self.add(pair.view(visible[which % len(visible)]))

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, look=st.sampled_from(LOOKS))
    def look_at_the_same(self, number, look):
        pair = self.pick(number)
        self.add(Pair(look(pair.tensor), pair.memory, pair.positions, pair.repeats))

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE)
    def expand(self, number):
        pair = self.pick(number)
        if pair.positions.ndim < 3:
            indices = np.broadcast_to(pair.positions, (2, *pair.positions.shape))
            tensor = pair.tensor.unsqueeze(0).expand(indices.shape)
            self.add(Pair(tensor, pair.memory, indices, True))

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, kind=st.integers(0, 4), by=NUMBER)
    def compute(self, number, kind, by):
        pair = self.pick(number)
        tensor, elements = pair.tensor, pair.elements
        if kind == 0:
            self.add(Pair.of(tensor.clone(), elements))
        elif kind == 1:
            self.add(Pair.of(tensor * 1, elements))
        elif kind == 2:
            self.add(Pair.of(tensor * by - 1, elements * by - 1))
        elif kind == 3:
            self.add(Pair.of(tensor.sum(), elements.sum()))
        elif elements.ndim:
            padding = [(1, 0)] * elements.ndim
            self.add(Pair.of(tensor.pad(tuple(padding)), np.pad(elements, padding)))

    def write(self, pair, run, elements):
        """Let `run` assign the elements to `pair`, or refuse and change nothing."""
        if not elements.size:
            run()  # Nothing is written, which nobody could see.
            return
        if self.is_refused(pair):
            try:
                run()
            except UserError:
                return
        else:
            run()
        if pair.repeats:
            assert self.sharing(pair) == [], "an assignment that others should have seen"
            pair.memory, pair.positions = np.zeros(elements.size, np.int32), fresh(elements.shape)
            pair.repeats = False
        pair.memory[pair.positions] = elements

    def is_refused(self, pair):
        """Return True if an assignment may be refused."""
        return pair.repeats or any(other.repeats for other in self.sharing(pair))

    def sharing(self, pair):
        """Return the other pairs that view the same memory."""
        return [other for other in self.pairs if other.memory is pair.memory and other is not pair]

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, other=PLACE, by=NUMBER)
    def assign(self, number, other, by):
        pair = self.pick(number)
        value, elements = self.value(pair.positions.shape, other, by)
        self.write(pair, lambda: pair.tensor.assign(value), elements)

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, by=NUMBER)
    def update(self, number, by):
        pair = self.pick(number)

        def run():
            tensor = pair.tensor
            tensor += by

        self.write(pair, run, pair.elements + by)

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, which=PLACE, other=PLACE, by=NUMBER, is_kept=st.booleans())
    def assign_to_view(self, number, which, other, by, is_kept):
        pair = self.pick(number)
        view = parts(pair)
        if not view:
            return
        part = pair.view(view[which % len(view)])
        value, elements = self.value(part.positions.shape, other, by)
        if is_kept:
            self.add(part)
        elif self.is_refused(pair):
            return
        self.write(part, lambda: part.tensor.assign(value), elements)

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, key=st.integers(0, 3), by=NUMBER)
    def assign_by_index(self, number, key, by):
        pair = self.pick(number)
        if self.is_refused(pair) or pair.positions.ndim == 0 or pair.positions.shape[0] < 2:
            return
        keys = [0, slice(1, None), slice(None, None, -2), [1, 0]]
        pair.tensor[keys[key]] = by
        pair.memory[pair.positions[keys[key]]] = by

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE)
    def move_within(self, number):
        pair = self.pick(number)
        if self.is_refused(pair) or pair.positions.ndim == 0 or pair.positions.shape[0] < 2:
            return
        elements = pair.elements
        pair.tensor[1:] = pair.tensor[:-1]
        pair.memory[pair.positions[1:]] = elements[:-1]

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, other=PLACE)
    def realize(self, number, other):
        self.pick(number).tensor.realize(self.pick(other).tensor)

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE)
    def check(self, number):
        self.pick(number).check()

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE)
    def drop(self, number):
        self.pairs.pop(number % len(self.pairs))

    def teardown(self):
        for pair in self.pairs:
            pair.check()


class Failures(Assignments):
    """Each tensor has its elements, or refuses them as they are lost."""

    device = DEVICES[0]

    def sources(self):
        """Leave out lost tensors: an assignment of what is computed from one is undone."""
        return [pair for pair in self.pairs if self.is_readable(pair)]

    def is_readable(self, pair):
        try:
            pair.tensor.realize()
        except UserStateError:
            return False
        return True

    def read(self, pair):
        """Allow a refusal only for lost elements."""
        try:
            elements = pair.tensor.numpy()
        except UserStateError as refusal:
            if "are lost: they were" not in str(refusal):
                raise
            return
        np.testing.assert_array_equal(elements, pair.elements)

    @precondition(lambda self: self.pairs)
    @rule(
        numbers=st.lists(PLACE, min_size=1, max_size=4),
        by=NUMBER,
        kind=st.sampled_from(KINDS),
        event=st.integers(0, 4),
        is_interrupt=st.booleans(),
    )
    def fail(self, numbers, by, kind, event, is_interrupt):
        """Write one of them after two pending kernels that read it; then compute all."""
        pair = self.pick(numbers[0])
        for other in self.pairs:
            with contextlib.suppress(UserStateError):
                other.tensor.realize()
        before = pair.memory.copy()
        if pair.positions.ndim and pair.positions.size and not self.is_refused(pair):
            elements = pair.elements
            below = pair.tensor.max().expand(3) * 2
            self.add(Pair.of(below, np.full(3, elements.max() * 2)))
            tensor = pair.tensor
            tensor += by
            pair.memory[pair.positions] = elements + by
        pairs = [pair, *self.pairs[-1:], *map(self.pick, numbers)]
        error = KeyboardInterrupt() if is_interrupt else None
        refused = (DeviceError, KeyboardInterrupt, UserStateError)
        with contextlib.suppress(*refused), FAULTS.at(kind, event, error):
            pairs[0].tensor.realize(*(other.tensor for other in pairs[1:]))
        with contextlib.suppress(UserStateError):
            if not np.array_equal(pair.tensor.numpy(), pair.elements):
                pair.memory[:] = before  # The assignment failed, and is undone.

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE, other=PLACE)
    def realize(self, number, other):
        with contextlib.suppress(UserStateError):
            self.pick(number).tensor.realize(self.pick(other).tensor)

    @precondition(lambda self: self.pairs)
    @rule(number=PLACE)
    def check(self, number):
        self.read(self.pick(number))

    def teardown(self):
        for pair in self.pairs:
            self.read(pair)


def run(device, examples, *phases, base=Assignments):
    machine = type(f"{base.__name__}On{device}", (base,), {"device": device})
    others = {"suppress_health_check": list(HealthCheck)}
    run_machine(machine, examples, STEPS, *phases, **others)


@pytest.mark.hypothesis
@pytest.mark.long
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_views_and_assignments_are_those_of_numpy(device):
    run(device, 12)


@pytest.mark.hypothesis
@pytest.mark.slow
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_twenty_thousand_steps(device):
    run(device, 20_000 // STEPS)


@pytest.mark.long
def test_a_lost_assignment_is_found(monkeypatch):
    """Give a view elements of its own."""
    monkeypatch.setattr(Tensor, "detach", lambda self: self.clone())
    with pytest.raises(AssertionError):
        run("CPU", 30, Phase.generate)


@pytest.mark.hypothesis
@pytest.mark.long
def test_no_tensor_is_wrong_after_failures():
    run(DEVICES[0], 8, base=Failures)


@pytest.mark.hypothesis
@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_no_tensor_is_wrong_in_many_steps_with_failures(device):
    run(device, 200, base=Failures)
