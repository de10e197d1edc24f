"""Costs of whole steps of training: what a replay takes, and memory at its peak."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tinyref import Tensor, TinyJit
from tinyref.cli.bench.alone import library, step_of
from tinyref.cli.bench.speed import Peer, torch_step
from tinyref.cli.bench.works import Layers, chained
from tinyref.config import Context
from tinyref.device import memory
from tinyref.nn import Linear
from tinyref.nn.optim import Adam
from tinyref.workers.machine import seconds_of_children

Step = Callable[[Tensor, Tensor], Tensor]

# Enough calls of a step for the clock, few enough to repeat the row.
REPLAYS = 200
PLAIN_CALLS = 3
# Microseconds a kernel of a step that is replayed, all that Python does for a call included.
GOAL_OF_A_KERNEL = 3.0
# The kernels of the two captures whose difference is the cost of a kernel alone.
FEW, MANY = 10, 310
# The least of so many measurements: a difference of two is small beside what one of them varies.
TURNS = 5


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


def chain_costs() -> tuple[float, float, float, float]:
    """Microseconds of a call of one kernel, replayed and plain, and of each further kernel.

    Of each further kernel in a list of its device, and launched for itself (the flag JIT=2).
    """
    one, plain = _chain_microseconds(1), _chain_microseconds(1, jit=0)
    in_a_list, singly = (
        (_chain_microseconds(MANY, jit) - _chain_microseconds(FEW, jit)) / (MANY - FEW)
        for jit in (1, 2)
    )
    return one, plain, in_a_list, singly


def _chain_microseconds(kernels: int, jit: int = 1) -> float:
    """Of a call of so many kernels of 16 elements, each on the result of the one before."""
    x = Tensor(np.zeros(16, np.float32)).realize()
    with Context(JIT=jit):
        jitted = TinyJit(functools.partial(chained, kernels=kernels))
        for _ in range(3):
            jitted(x)
        return min(_seconds_a_call(lambda: jitted(x), REPLAYS) for _ in range(TURNS)) * 1e6


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
        loss = ((layers[2](hidden) - y) ** 2).mean()
        with Tensor.train():
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return loss

    return step


# --- peaks beside torch ---------------------------------------------------------------------------


def peak_of_step(layers: Layers, device: str = "CPU") -> float:
    """MiB of all memory that a step of Adam holds at its peak, weights and inputs too."""
    before = memory.now.get(device, 0)
    with Context(DEVICE=device):
        step = step_of(layers, library("tinyref"), device)
        step()
        memory.peak[device] = memory.now[device]
        step()
    return (memory.peak[device] - before) / 2**20


def torch_peak_of_step(layers: Layers, peer: Peer) -> float:
    """The same of torch: the largest sum of storages that its operations were given or gave."""
    step, live = torch_step(layers, peer), LiveStorages()
    with live.watched(peer.module):
        step()
        live.peak = live.now
        step()
    return live.peak / 2**20


class LiveStorages:
    """Bytes of the storages of torch that are alive, of those that an operation has met."""

    def __init__(self) -> None:
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def add(self, tensor: Any) -> None:
        """Counts the storage of a tensor until it ends."""
        storage = tensor.untyped_storage()
        key, nbytes = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.now += nbytes
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._end, key, nbytes)

    def _end(self, key: int, nbytes: int) -> None:
        self._known.discard(key)
        self.now -= nbytes

    def watched(self, torch: Any) -> Any:
        """A context in which the storages of all operations are counted."""
        leaves = torch.utils._pytree.tree_leaves

        def dispatch(
            mode: object, function: Any, types: object, args: Any = (), kwargs: Any = None
        ) -> Any:
            del mode, types
            result = function(*args, **(kwargs or {}))
            for each in leaves((args, kwargs, result)):
                if isinstance(each, torch.Tensor):
                    self.add(each)
            return result

        base = torch.utils._python_dispatch.TorchDispatchMode
        return type("Watched", (base,), {"__torch_dispatch__": dispatch})()


# --- the start of a process -----------------------------------------------------------------------

IMPORT = "from tinyref import Tensor"
FIRST_RESULT = f"{IMPORT}; Tensor([1, 2]).sum().item()"


def milliseconds_of_process(code: str, device: str) -> float:
    """Return the processor time of a new Python that runs `code` with this default device."""
    environment = {**os.environ, "TINYREF_DEVICE": device}
    start = seconds_of_children()
    # -P: the folder where the command is started may hold modules with names of the library.
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
    return (seconds_of_children() - start) * 1e3
