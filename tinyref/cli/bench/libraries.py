"""What compiles and trains the networks of `net.*`: tinyref, tinygrad and torch, on one thread."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import signal
import statistics
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Protocol

import numpy as np

from tinyref import Tensor, TinyJit
from tinyref.cli.bench import BenchRow, Measured
from tinyref.cli.bench.networks import (
    NETWORKS,
    SMALL_NETWORKS,
    Network,
    Ops,
    Parameters,
    TorchOps,
)
from tinyref.cli.bench.speed import ON_HOST, Peer, Variant, difference, in_turns, peer_of
from tinyref.cli.bench.works import AnyModule, AnyTensor, Array, clock_of, seconds_of_call
from tinyref.config import Context
from tinyref.nn.optim import SGD

LEARNING_RATE = 0.01
TOLERANCE = 1e-4
# tinygrad compiles some steps of training for much longer.
TINYGRAD_SECONDS = 120
Call = Callable[[], AnyTensor]


class Library(Protocol):
    """Functions of a library that a network needs in addition to methods of tensors."""

    ops: Ops

    def constant(self, data: Array) -> AnyTensor:
        """Return a tensor that holds `data`."""

    def weight(self, data: Array) -> AnyTensor:
        """Return a tensor that holds `data` and is trained."""

    def inference(self, forward: Call) -> Call:
        """Return a call that computes the result of `forward`; replayed where there is a JIT."""

    def training(self, forward: Call, labels: Array, weights: Sequence[AnyTensor]) -> Call:
        """Return a call that makes a step of gradient descent and returns the loss before it."""


class Tinyref:
    """Compute on the device CPU, as the flags in force say."""

    ops = Ops()

    def constant(self, data: Array) -> AnyTensor:
        return Tensor(data, device="CPU").realize()

    def weight(self, data: Array) -> AnyTensor:
        return Tensor(data, device="CPU", requires_grad=True).realize()

    def inference(self, forward: Call) -> Call:
        return TinyJit(lambda: forward().realize())

    def training(self, forward: Call, labels: Array, weights: Sequence[AnyTensor]) -> Call:
        optimiser = SGD(list(weights), lr=LEARNING_RATE)
        targets = self.constant(labels)

        def step() -> AnyTensor:
            with Tensor.train():
                optimiser.zero_grad()
                loss = forward().sparse_categorical_crossentropy(targets)
                loss.backward()
                optimiser.step()
            return loss.realize()

        return TinyJit(step)


class Tinygrad:
    """Compute on tinygrad's device CPU, whose compiler is the one of its settings."""

    ops = Ops()

    def __init__(self) -> None:
        self.module: AnyModule = importlib.import_module("tinygrad")
        self.optim: AnyModule = importlib.import_module("tinygrad.nn.optim")
        self.helpers: AnyModule = importlib.import_module("tinygrad.helpers")

    def constant(self, data: Array) -> AnyTensor:
        return self.module.Tensor(data, device="CPU").realize()

    def weight(self, data: Array) -> AnyTensor:
        return self.constant(data)

    def inference(self, forward: Call) -> Call:
        return self._awaited(self.module.TinyJit(lambda: forward().realize()))

    def training(self, forward: Call, labels: Array, weights: Sequence[AnyTensor]) -> Call:
        optimiser = self.optim.SGD(list(weights), lr=LEARNING_RATE)
        targets = self.constant(labels)

        def step() -> AnyTensor:
            with self.helpers.Context(TRAINING=1):
                optimiser.zero_grad()
                loss = forward().sparse_categorical_crossentropy(targets)
                loss.backward()
                return loss.realize(*optimiser.schedule_step())

        return self._awaited(self.module.TinyJit(step))

    def _awaited(self, call: Call) -> Call:
        def run() -> AnyTensor:
            result = call()
            self.module.Device["CPU"].synchronize()
            return result

        return run


class Torch:
    """Compute eagerly, as torch does where nothing is compiled."""

    def __init__(self, module: AnyModule) -> None:
        self.module = module
        self.ops: Ops = TorchOps(module)

    def constant(self, data: Array) -> AnyTensor:
        return self.module.from_numpy(data)

    def weight(self, data: Array) -> AnyTensor:
        return self.module.from_numpy(data).requires_grad_()

    def inference(self, forward: Call) -> Call:
        def run() -> AnyTensor:
            with self.module.no_grad():
                return forward()

        return run

    def training(self, forward: Call, labels: Array, weights: Sequence[AnyTensor]) -> Call:
        optimiser = self.module.optim.SGD(list(weights), lr=LEARNING_RATE)
        targets = self.constant(labels).long()

        def step() -> AnyTensor:
            optimiser.zero_grad()
            loss = self.module.nn.functional.cross_entropy(forward(), targets)
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step


def call_of(network: Network, library: Library) -> Call:
    """Return a call that computes the network, or makes a step of its training."""
    inputs = [library.constant(data) for data in network.data()]
    weights = Parameters(library.weight if network.trains else library.constant, network.trains)

    def forward() -> AnyTensor:
        weights.restart()
        return network.forward(inputs, weights, library.ops)

    # The weights are made by the first forward pass.
    result = forward()
    if not network.trains:
        return library.inference(forward)
    labels = np.arange(result.shape[0]) % result.shape[1]
    return library.training(forward, labels.astype(np.int32), weights.tensors)


# --- rows -----------------------------------------------------------------------------------------


def network_rows(variants: Sequence[Variant] = ON_HOST) -> list[BenchRow]:
    """Return a row for each network and each variant of the processor."""
    return [
        BenchRow(network.name + variant.suffix, functools.partial(_measure, network, variant))
        for network in NETWORKS
        for variant in variants
    ]


def _measure(network: Network, variant: Variant, repeats: int) -> Iterator[Measured]:
    """Yield the milliseconds of a network and of torch; tinygrad and first calls in the note."""
    peer = peer_of("CPU")
    with Context(STRICT_FLOAT=variant.strict, THREADS=variant.threads, DEVICE="CPU"):
        if peer.module and (problem := problem_of(network, peer)):
            yield Measured(network.name + variant.suffix, "", missing=f"it is wrong: {problem}")
            return
        ours = call_of(network, Tinyref())
        with Context(CACHE=0):
            notes = [f"first call {_first_seconds(ours):.2g} s"]
        _call_again(ours)
        theirs = None
        if peer.module:
            peer.use_threads(variant.threads)
            theirs = call_of(network, Torch(peer.module))
        clock = clock_of(variant.threads)
        result = in_turns(network.name + variant.suffix, ours, theirs, peer, repeats, clock)
    # It has no contracted floats of its own, and one row is enough.
    if variant == ON_HOST[0]:
        notes.append(_tinygrad_text(network, repeats))
    result.note = "; ".join(filter(None, [result.note, *notes]))
    yield result


def problem_of(network: Network, peer: Peer) -> str:
    """Return how small networks of the same kind differ from torch; empty if they do not."""
    kind = network.name.split(".")[1]
    for small in SMALL_NETWORKS:
        if small.name.split(".")[1] != kind or small.trains != network.trains:
            continue
        ours, theirs = call_of(small, Tinyref()), call_of(small, Torch(peer.module))
        # The loss of the second and third step depends on the gradients.
        for _ in range(3):
            problem = difference(ours().numpy(), theirs().numpy(), TOLERANCE)
            if problem:
                return problem
    return ""


def _tinygrad_text(network: Network, repeats: int) -> str:
    """Return the milliseconds of tinygrad, and the seconds of its first call."""
    try:
        call = call_of(network, Tinygrad())
    except ImportError:
        return ""
    helpers = importlib.import_module("tinygrad.helpers")
    try:
        with helpers.Context(CACHELEVEL=0, NUM_CPU_THREADS=1), time_limit(TINYGRAD_SECONDS):
            first = _first_seconds(call)
            _call_again(call)
            values = [seconds_of_call(call, clock_of(1)) * 1e3 for _ in range(repeats)]
    except TimeoutError:
        return f"tinygrad cut off after {TINYGRAD_SECONDS} s"
    except Exception as error:
        return f"tinygrad failed: {str(error).partition(chr(10))[0]}"
    return f"tinygrad {statistics.median(values):.3g} ms, first call {first:.2g} s"


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the block after this time, where the system has such a signal."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _call_again(call: Call) -> None:
    """Call until a JIT has captured the function."""
    for _ in range(2):
        call()


def _first_seconds(call: Call) -> float:
    """Return the processor seconds of a call, of this process and of the compilers it starts."""
    start = sum(os.times()[:4])
    call()
    return sum(os.times()[:4]) - start
