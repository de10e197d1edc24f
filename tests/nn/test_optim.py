"""Test optimisers against torch, or against their papers in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from refusals import check_refusal

from tinyref import Tensor, TinyJit
from tinyref.nn import optim


def gradient(values: np.ndarray, step: int) -> np.ndarray:
    """Return a slope that changes sign and size from step to step."""
    return np.cos(3 * values + step) * (1 + 0.3 * step)


@pytest.mark.parametrize(
    "make", [lambda p: optim.SGD(p, lr=0.1), lambda p: optim.Adam(p, lr=0.1, eps=0)]
)
def test_float64_parameters_move_by_a_rate_of_float64(
    make: Callable[[list[Tensor]], optim.Optimizer],
) -> None:
    """Guard against a rate and corrections in float32: a step of 0.1 was 0.10000000149."""
    param = Tensor([1.0], dtype="float64")
    optimiser = make([param])
    param.grad = Tensor([1.0], dtype="float64")
    with Tensor.train():
        optimiser.step()
    assert param.item() == 0.9


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
    # Each step is a quarter of an ULP of 1 - 2^-11, so no step alone changes the value.
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
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), expected.detach().numpy(), rtol=1e-5)


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
        "params: number 1 is computed from others, so it gets no gradient: accepted are leaves",
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
