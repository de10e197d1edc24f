"""Captured functions between random uses of their state: equal to the same program run plainly."""

import random

import pytest

from tinyref import Context, Tensor, TinyJit

VIEWS = [
    lambda x: x[1],
    lambda x: x[:, 1:],
    lambda x: x.T,
    lambda x: x.flip(0),
    lambda x: x.reshape(3, 2),
    lambda x: x.detach(),
]


def _add(state, x):
    state.assign(state + x)
    return state.sum()


def _write_row(state, x):
    state[1].assign(x.reshape(1).expand(3))
    return (state * 2).sum(1)


def _read(state, x):
    return state.T + x, x


def _count_and_read(state, x):
    old = state * 10
    state += 1
    return old + x


def _set_part(state, x):
    state[0, 1:] = state[1, :2] + x
    return state.clone()


FUNCTIONS = [_add, _write_row, _read, _count_and_read, _set_part]


class Program:
    """Random steps on one state, its views and what was computed from them."""

    def __init__(self, seed, device):
        self.random = random.Random(seed)
        self.device = device
        self.state = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)
        if self.random.random() < 0.7:
            self.state.realize()
        self.views = [self.state]
        self.results = []
        self.functions = []
        for function in self.random.sample(FUNCTIONS, 2):
            is_argument, prune = self.random.random() < 0.5, self.random.random() < 0.3
            self.functions.append(self.captured(function, is_argument, prune and _prunes(function)))

    def captured(self, function, is_argument, prune):
        if is_argument:
            jitted = TinyJit(function, prune=prune)
            return lambda x: jitted(self.state, x)
        return TinyJit(lambda x: function(self.state, x), prune=prune)

    def number(self):
        found = Tensor([float(self.random.randint(-3, 3))], device=self.device)
        return found.realize() if self.random.random() < 0.5 else found + 1

    def step(self):
        kind = self.random.choice(["call"] * 6 + ["assign", "view", "compute", "keep", "forget"])
        if kind == "call":
            found = self.random.choice(self.functions)(self.number())
            self.results += found if isinstance(found, tuple) else [found]
        elif kind == "assign":
            view = self.random.choice(self.views)
            view.assign(view * 2 - 1)
        elif kind == "view":
            self.views.append(self.random.choice(VIEWS)(self.state))
        elif kind == "compute":
            self.random.choice(self.views).realize()
        elif kind == "keep":
            self.results.append(self.random.choice(self.views) * 3)
        elif len(self.views) > 1:
            self.views.pop(self.random.randrange(1, len(self.views)))
        self.results = self.results[-6:]

    def elements(self):
        return [x.tolist() for x in (*self.views, *self.results)]


def _prunes(function):
    # What else such a function reads changes from call to call.
    return function is not _read


def run(seed, device, steps):
    """The elements after every few steps, captured and plain."""
    found = []
    for jit in (1, 0):
        with Context(JIT=jit):
            program = Program(seed, device)
            looks = random.Random(seed)
            elements = []
            for _ in range(steps):
                program.step()
                if looks.random() < 0.3:
                    elements.append(program.elements())
            elements.append(program.elements())
            found.append(elements)
    return found


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 12])
def test_captured_functions_do_what_plain_ones_do(seed, device):
    captured, plain = run(seed, device, 25)
    assert captured == plain


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_captured_functions_do_what_plain_ones_do_more_often(seed):
    captured, plain = run(seed, "CPU", 60)
    assert captured == plain
