"""Optimisers move as torch's do, or as their papers say in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from refusals import check_refusal

from tinyref import Tensor, TinyJit
from tinyref.nn import optim

STEPS = 6
START = np.linspace(-1.5, 2.0, 12).reshape(3, 4)
OTHER = np.array([0.5, -0.25, 0.0])


def gradient(values: np.ndarray, step: int) -> np.ndarray:
    """A slope that changes sign and size from step to step."""
    return np.cos(3 * values + step) * (1 + 0.3 * step)


def moved_by(make: Callable[[list[Tensor]], optim.Optimizer], dtype: str) -> list[np.ndarray]:
    params = [Tensor(START, dtype=dtype), Tensor(OTHER, dtype=dtype)]
    optimiser = make(params)
    for step in range(STEPS):
        for param in params:
            param.grad = Tensor(gradient(param.numpy(), step), dtype=dtype)
        optimiser.step()
    return [param.numpy() for param in params]


def moved_by_torch(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]) -> list[np.ndarray]:
    params = [torch.tensor(START, requires_grad=True), torch.tensor(OTHER, requires_grad=True)]
    optimiser = make(params)
    for step in range(STEPS):
        for param in params:
            param.grad = torch.tensor(gradient(param.detach().numpy(), step))
        optimiser.step()
    return [param.detach().numpy() for param in params]


@pytest.mark.parametrize(
    "make", [lambda p: optim.SGD(p, lr=0.1), lambda p: optim.Adam(p, lr=0.1, eps=0)]
)
def test_float64_parameters_move_by_a_rate_of_float64(
    make: Callable[[list[Tensor]], optim.Optimizer],
) -> None:
    """Guards a rate and corrections in float32: a step of 0.1 was 0.10000000149."""
    param = Tensor([1.0], dtype="float64")
    optimiser = make([param])
    param.grad = Tensor([1.0], dtype="float64")
    with Tensor.train():
        optimiser.step()
    assert param.item() == 0.9


SAME_AS_TORCH = {
    "sgd": (lambda p: optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (
        lambda p: optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    ),
    "nesterov": (
        lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.05, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.05, nesterov=True),
    ),
    "adam": (
        lambda p: optim.Adam(p, 0.05, 0.8, 0.95),
        lambda p: torch.optim.Adam(p, 0.05, (0.8, 0.95)),
    ),
    "adamw": (
        lambda p: optim.AdamW(p, 0.05, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, 0.05, weight_decay=0.1),
    ),
}


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SAME_AS_TORCH)
@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-12), ("float32", 5e-6)])
def test_moves_as_torch_does(name: str, dtype: str, near: float) -> None:
    ours, theirs = SAME_AS_TORCH[name]
    for found, wanted in zip(moved_by(ours, dtype), moved_by_torch(theirs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near)


def lars(values: np.ndarray, classic: bool, nesterov: bool) -> np.ndarray:
    rate, decay, momentum, trust = 0.1, 0.01, 0.9, 0.02
    velocity = np.zeros_like(values)
    for step in range(STEPS):
        slope = gradient(values, step)
        weight, length = np.linalg.norm(values), np.linalg.norm(slope)
        local = rate * trust * weight / (length + decay * weight) if weight and length else rate
        slope = slope + decay * values
        if classic:
            velocity = momentum * velocity + local * slope
            values = values - (local * slope + momentum * velocity if nesterov else velocity)
        else:
            velocity = momentum * velocity + slope
            values = values - local * (slope + momentum * velocity if nesterov else velocity)
    return values


@pytest.mark.sampled(2)
@pytest.mark.parametrize("classic", [True, False])
@pytest.mark.parametrize("nesterov", [True, False])
def test_lars_follows_its_paper(classic: bool, nesterov: bool) -> None:
    found = moved_by(
        lambda p: optim.LARS(p, 0.1, 0.9, 0.01, nesterov, classic, tcoef=0.02), "float64"
    )
    np.testing.assert_allclose(found[0], lars(START, classic, nesterov), rtol=1e-6)
    np.testing.assert_allclose(found[1], lars(OTHER, classic, nesterov), rtol=1e-6)


def lamb(values: np.ndarray) -> np.ndarray:
    rate, first, second, eps, decay = 0.05, 0.9, 0.99, 1e-6, 0.1
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for step in range(STEPS):
        slope = gradient(values, step)
        mean = first * mean + (1 - first) * slope
        square = second * square + (1 - second) * slope**2
        corrected = mean / (1 - first ** (step + 1))
        spread = np.sqrt(square / (1 - second ** (step + 1)))
        move = corrected / (spread + eps) + decay * values
        values = values - rate * np.linalg.norm(values) / np.linalg.norm(move) * move
    return values


@pytest.mark.long
def test_lamb_follows_its_paper() -> None:
    found = moved_by(lambda p: optim.LAMB(p, 0.05, 0.9, 0.99, weight_decay=0.1), "float64")
    np.testing.assert_allclose(found[0], lamb(START), rtol=2e-6)
    np.testing.assert_allclose(found[1], lamb(OTHER), rtol=2e-6)


def test_a_norm_of_zero_does_not_make_nan() -> None:
    weight = Tensor([0.0, 0.0], requires_grad=True)
    weight.grad = Tensor([1.0, 2.0])
    optim.LARS([weight], 0.5, momentum=0.0, weight_decay=0.0).step()
    assert weight.tolist() == [-0.5, -1.0]


def test_a_rate_can_be_assigned() -> None:
    weight = Tensor([1.0], requires_grad=True)
    optimiser = optim.SGD([weight], 0.5)
    optimiser.lr.assign([0.25])
    weight.grad = Tensor([1.0])
    optimiser.step()
    assert weight.tolist() == [0.75]


def test_narrow_parameters_are_rounded_once() -> None:
    weight = Tensor([1.0], dtype="float16", requires_grad=True)
    optimiser = optim.SGD([weight], 2.0**-12)
    for _ in range(4):
        weight.grad = Tensor([1.0], dtype="float16")
        optimiser.step()
    # Each step is a quarter of a unit in the last place of 1 - 2^-11: none of them shows.
    assert weight.dtype.name == "float16"
    assert weight.tolist() == [1.0]


def test_training_makes_parameters_of_what_nobody_decided_on() -> None:
    undecided, frozen, number = Tensor([1.0]), Tensor([1.0], requires_grad=False), Tensor([1])
    optimiser = optim.SGD([undecided, frozen, number, undecided])
    assert optimiser.params == [undecided]
    assert undecided.requires_grad
    assert not frozen.requires_grad


def test_what_has_no_gradient_stays() -> None:
    moved, still = Tensor([1.0]), Tensor([1.0])
    optimiser = optim.Adam([moved, still], 0.5)
    (moved * 2).sum().backward()
    optimiser.step()
    assert moved.tolist() == [pytest.approx(0.5)]
    assert still.tolist() == [1.0]
    optimiser.zero_grad()
    assert moved.grad is None


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_a_parameter_that_moves_in_some_steps_moves_as_torch_moves_it(name: str, jit: bool) -> None:
    ours = [Tensor([1.0, -2.0], requires_grad=True), Tensor([3.0], requires_grad=True)]
    theirs = [torch.tensor(x.tolist(), requires_grad=True) for x in ours]
    optimiser = getattr(optim, name)(ours, lr=0.1)
    other = getattr(torch.optim, name)(theirs, lr=0.1)

    def step_of(first: int) -> Callable[[], Tensor]:
        def step() -> Tensor:
            optimiser.zero_grad()
            loss = sum((x * x).sum() for x in ours[first:])
            loss.backward()
            optimiser.step()
            return loss.detach().realize()

        return TinyJit(step) if jit else step

    steps = [step_of(1), step_of(0)]
    with Tensor.train():
        for first in [1, 1, 1, 1, 0, 1, 0, 0, 0]:
            steps[1 - first]()
            other.zero_grad()
            sum((x * x).sum() for x in theirs[first:]).backward()
            other.step()
    for mine, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted.detach().numpy(), rtol=1e-5)


def test_a_group_moves_all() -> None:
    first, second = Tensor([1.0]), Tensor([1.0])
    group = optim.OptimizerGroup(optim.SGD([first], 0.5), optim.SGD([second], 0.25))
    (first + second).sum().backward()
    group.step()
    group.zero_grad()
    assert first.tolist() == [0.5]
    assert second.tolist() == [0.75]
    assert first.grad is None


WRONG = {
    "no_params": (lambda: optim.SGD([]), "params: none is a float tensor"),
    "frozen": (lambda: optim.SGD([Tensor([1])]), "params: none is a float tensor"),
    "one_tensor": (lambda: optim.SGD(Tensor([1.0])), "params: got a Tensor, accepted is a list"),
    "none": (lambda: optim.SGD(None), "params: got a NoneType, accepted is a list"),
    "no_tensor": (lambda: optim.SGD([1.0]), "params: number 0 is a float"),
    "computed": (
        lambda: optim.SGD([Tensor([1.0]), Tensor.zeros(1, requires_grad=True).contiguous()]),
        "params: number 1 is computed from others, so no gradient is kept for it: "
        "accepted are leaves",
    ),
    "rate": (lambda: optim.Adam([Tensor([1.0])], -1), "lr: got -1"),
    "beta": (lambda: optim.Adam([Tensor([1.0])], b1=1.0), "b1: got 1.0, accepted are 0 to below 1"),
    "nesterov": (lambda: optim.SGD([Tensor([1.0])], nesterov=True), "nesterov: needs a momentum"),
    "no_gradient": (lambda: optim.SGD([Tensor([1.0])]).step(), "step: no parameter has a gradient"),
    "empty_group": (optim.OptimizerGroup, "OptimizerGroup: got no optimizers"),
}


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_wrong_calls_say_what_is_accepted(call: Callable[[], object], words: str) -> None:
    check_refusal([words], call)
