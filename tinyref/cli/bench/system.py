"""Rows of `tinyref bench` on whole steps of training: what a replay costs, what a plan saves."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tinyref import Tensor, TinyJit
from tinyref.config import Context
from tinyref.device import memory
from tinyref.nn import BatchNorm, Conv2d, Linear
from tinyref.nn.optim import SGD, Adam

Step = Callable[[Tensor, Tensor], Tensor]

# Enough calls of a step for the clock, few enough to repeat the row.
REPLAYS = 200
PLAIN_CALLS = 3


def replay_costs() -> tuple[float, float, int]:
    """Microseconds a kernel of a training step, replayed and called plainly, and its kernels.

    The step is one of Adam on a perceptron of three layers, so small that its kernels take no time
    to speak of: what is measured is the Python around them.
    """
    step = _perceptron_step()
    x = Tensor(np.ones((4, 4), np.float32)).realize()
    y = Tensor(np.zeros((4, 2), np.float32)).realize()
    jitted = TinyJit(step)
    for _ in range(3):
        jitted(x, y)
    captured = jitted.captured
    kernels = 0 if captured is None else captured.kernels
    replayed = _seconds_a_call(lambda: jitted(x, y), REPLAYS)
    plain = _seconds_a_call(lambda: step(x, y).realize(), PLAIN_CALLS)
    return replayed * 1e6 / kernels, plain * 1e6 / kernels, kernels


def _seconds_a_call(call: Callable[[], object], count: int) -> float:
    # The time of this thread: what else the machine does is no part of it.
    start = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - start) / count


def _perceptron_step() -> Step:
    layers = [Linear(4, 8), Linear(8, 8), Linear(8, 2)]
    weights = [weight for layer in layers for weight in (layer.weight, layer.bias)]
    optimiser = Adam([weight for weight in weights if weight is not None])

    def step(x: Tensor, y: Tensor) -> Tensor:
        hidden = layers[1](layers[0](x).relu()).relu()
        return _descent(((layers[2](hidden) - y) ** 2).mean(), optimiser)

    return step


def _descent(loss: Tensor, optimiser: Adam | SGD) -> Tensor:
    with Tensor.train():
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss


def peak_bytes(plan: int, jit: int) -> float:
    """MiB at the peak of a training step of a convolutional network, beyond what it keeps.

    plan: the flag MEMORY_PLAN. jit: 1 measures a replay, which holds its memory all the time.
    """
    with Context(MEMORY_PLAN=plan, JIT=jit):
        step = _convolutional_step()
        x = Tensor(np.ones((16, 3, 16, 16), np.float32)).realize()
        y = Tensor(np.zeros((16, 10), np.float32)).realize()
        step(x, y).realize()
        device = x.device
        before = memory.now[str(device)]
        run = TinyJit(step)
        for _ in range(3):
            memory.peak[str(device)] = memory.now[str(device)]
            run(x, y).realize()
        return (memory.peak[str(device)] - before) / 2**20


def _convolutional_step() -> Step:
    first, second = Conv2d(3, 16, 3, padding=1), Conv2d(16, 32, 3, padding=1)
    norms = [BatchNorm(16), BatchNorm(32)]
    last = Linear(32 * 16, 10)
    layers: tuple[Conv2d | BatchNorm | Linear, ...] = (first, second, *norms, last)
    weights = [weight for layer in layers for weight in (layer.weight, layer.bias)]
    optimiser = SGD([weight for weight in weights if weight is not None], lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        with Tensor.train():
            hidden = norms[0](first(x)).relu().max_pool2d()
            hidden = norms[1](second(hidden)).relu().max_pool2d()
            loss = ((last(hidden.flatten(1)) - y) ** 2).mean()
        return _descent(loss, optimiser)

    return step
