"""The loop heuristics choose plans that a small search hardly improves, by processor time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from tinyref import Tensor
from tinyref.cli.bench.host import nanoseconds_of, operations_of
from tinyref.config import Context
from tinyref.device import Device
from tinyref.optimise import heuristics_loops
from tinyref.optimise.choices import actions, heuristic_plan
from tinyref.optimise.opt import Opt
from tinyref.optimise.plan import Plan
from tinyref.schedule import schedule
from tinyref.uops.node import UOp

KERNELS = 40
# Plans of a search: one optimisation more than the chosen plan, or two than the plain plan.
CANDIDATES = 24
LIMIT = 1.3
# The goal is 0.9, and 37 of 40 were within the limit. A machine that others use has noise.
SHARE = 0.8

Draw = random.Random
SIZES = (7, 10, 17, 31, 32, 64, 100, 128, 200)


def data(*shape: int) -> Tensor:
    return Tensor.ones(*shape, device="CPU").contiguous().realize()


def product(draw: Draw) -> Tensor:
    rows, terms, columns = (draw.choice(SIZES) for _ in range(3))
    right = data(columns, terms).transpose() if draw.random() < 0.3 else data(terms, columns)
    return data(rows, terms) @ right


def convolution(draw: Draw) -> Tensor:
    channels, outputs, width = draw.choice((3, 16, 32)), draw.choice((16, 32)), draw.choice((1, 3))
    size, stride = draw.choice((7, 14, 28)), draw.choice((1, 1, 2))
    weight = data(outputs, channels, width, width)
    return data(1, channels, size, size).conv2d(weight, stride=stride, padding=width // 2)


def total(draw: Draw) -> Tensor:
    x = data(draw.choice(SIZES) * 4, draw.choice(SIZES) * 4)
    return (x * x).sum(draw.choice((0, 1)))


def chain(draw: Draw) -> Tensor:
    x = data(draw.choice(SIZES) * 4, draw.choice(SIZES) * 4)
    return (x * 0.5 + 1).exp() * x if draw.random() < 0.5 else x.transpose() + 1


def kernels(count: int) -> list[UOp]:
    """Return the kernel of most operations of each drawn work."""
    draw = random.Random(40)
    families: Sequence[Callable[[Draw], Tensor]] = (product, convolution, total, chain)
    drawn = []
    for number in range(count):
        result = families[number % len(families)](draw)
        asts = [item.ast for item in schedule([(result.node, "CPU")]).kernels]
        capabilities = Device["CPU"].capabilities
        drawn.append(max(asts, key=lambda ast: operations_of(Plan.of(ast, capabilities))))
    return drawn


def times_best(ast: UOp, seed: int) -> float:
    """Return the time of the chosen plan over the best of a small search; both in turns."""
    plain = Plan.of(ast, Device["CPU"].capabilities)
    chosen = heuristic_plan(plain)
    draw = random.Random(seed)
    reached = [*actions(chosen), *(after for plan in actions(plain)[:8] for after in actions(plan))]
    plans = draw.sample(reached, min(CANDIDATES, len(reached)))

    def nanoseconds(opts: Sequence[Opt]) -> float:
        return nanoseconds_of(ast, 1, opts)

    best = min((plan.opts for plan in (*plans, chosen)), key=nanoseconds)
    turns = [(nanoseconds(chosen.opts), nanoseconds(best)) for _ in range(4)]
    return min(turn[0] for turn in turns) / min(turn[1] for turn in turns)


def share_within(asts: Sequence[UOp]) -> float:
    ratios = [times_best(ast, seed) for seed, ast in enumerate(asts)]
    return sum(ratio <= LIMIT for ratio in ratios) / len(ratios)


@pytest.mark.slow
def test_the_choice_is_near_the_best_of_a_search() -> None:
    with Context(THREADS=1):
        assert share_within(kernels(KERNELS)) >= SHARE


@pytest.mark.slow
def test_a_model_that_sees_no_use_of_vectors_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristics_loops, "_worth", lambda axis, accessed: 0)
    monkeypatch.setattr(heuristics_loops, "computing_ns", lambda plan: 0.0)
    with Context(THREADS=1):
        assert share_within(kernels(8)) < SHARE
