"""The rows `op.*` and `model.*`: operations and training on one device, compared with torch.

Every program is first checked on small inputs. It has no time if its results differ from torch.
"""

from __future__ import annotations

import functools
import importlib
import math
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref import Tensor, TinyJit
from tinyref.cli.bench import BenchRow, Measured
from tinyref.cli.bench.works import (
    MODELS,
    SMALL_MODELS,
    WORKS,
    Array,
    Clock,
    Layers,
    Shapes,
    Work,
    batch_of,
    chained,
    clock_of,
    seconds_of_call,
    step_of,
    torch_ops,
)
from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import UserError

# The names in torch of devices that have the sizes of GPUs.
TORCH_DEVICES = {"CUDA": "cuda", "PTX": "cuda", "HIP": "cuda", "METAL": "mps"}
LAUNCHES = 100
MEAN = "op.mean"


@dataclass(frozen=True)
class Variant:
    """A way to compute a program: the end of its row's name, its flags and its element type."""

    suffix: str
    strict: int = 1
    threads: int = 0
    dtype: str = "float32"


ON_HOST = (
    Variant("", threads=1),
    Variant(".contracted", strict=0, threads=1),
    Variant(".threads"),
    Variant(".threads.contracted", strict=0),
)
ON_GPU = (Variant(""), Variant(".contracted", strict=0))
WITH_TILES = Variant(".float16", dtype="float16")


@dataclass(frozen=True)
class Peer:
    """torch on the hardware that is measured; `module` is None where it is not installed."""

    module: Any
    device: str

    @property
    def name(self) -> str:
        """Return torch with its version, as a row shows it; empty if it is not installed."""
        return "" if self.module is None else f"torch {self.module.__version__}"

    def tensor(self, data: Array) -> Any:
        return self.module.from_numpy(data).to(self.device)

    def synchronize(self) -> None:
        if self.device != "cpu":
            getattr(self.module, self.device).synchronize()

    def use_threads(self, count: int) -> None:
        """Use this many threads; 0 means one a core."""
        from tinyref.workers.machine import usable_cores

        self.module.set_num_threads(count or usable_cores())


def _base(device: str) -> str:
    return device.partition(":")[0]


def peer_of(device: str) -> Peer:
    """Return torch on the hardware of `device`. Raise `UserError` if torch does not reach it."""
    name = TORCH_DEVICES.get(_base(device), "cpu")
    try:
        module: types.ModuleType | None = importlib.import_module("torch")
    except ImportError:
        return Peer(None, name)
    torch: Any = module
    available = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if name != "cpu" and not available[name]():
        raise UserError(f"bench: torch {torch.__version__} does not reach the hardware of {device}")
    return Peer(module, name)


def _problem(work: Work, variant: Variant, device: str, peer: Peer) -> str:
    """Return what is wrong with the results on small inputs; empty if nothing is."""
    data = work.inputs(work.small, variant.dtype)
    ours = _each(work.ours(*(Tensor(values, device=device) for values in data)))
    with peer.module.no_grad():
        theirs = _each(work.torch(peer.module, *(peer.tensor(values) for values in data)))
    tolerance = 1e-2 if variant.dtype == "float16" else 1e-4
    problems = (
        difference(tensor.numpy(), other.cpu().numpy(), tolerance)
        for tensor, other in zip(ours, theirs, strict=True)
    )
    return next(filter(None, problems), "")


def _each(result: Any) -> Sequence[Any]:
    """Return the results of a work as a sequence."""
    return result if isinstance(result, list | tuple) else (result,)


def difference(ours: Array, theirs: Array, tolerance: float) -> str:
    """Return how a result differs from torch's; empty within `tolerance` of its largest number."""
    if ours.shape != theirs.shape:
        return f"its shape is {ours.shape}, that of torch {theirs.shape}"
    far = float(np.max(np.abs(ours.astype(np.float64) - theirs), initial=0))
    limit = tolerance * max(1.0, float(np.max(np.abs(theirs), initial=0)))
    return "" if far <= limit else f"it is {far:.3g} off the result of torch"


def _replayed(call: Callable[[], object], device: str) -> Callable[[], None]:
    """Return a function that replays `call` and waits for its end."""
    jitted = TinyJit(call)
    for _ in range(3):
        jitted()

    def run() -> None:
        jitted()
        Device[device].synchronize()

    return run


def in_turns(
    name: str,
    ours: Callable[[], None],
    theirs: Callable[[], None] | None,
    peer: Peer,
    repeats: int,
    clock: Clock = time.perf_counter,
) -> Measured:
    """Measure both in turns, in milliseconds, so that other work of the machine slows both."""
    note = "" if theirs else "no peer: torch is not installed"
    result = Measured(name, "ms, replayed", note=note)
    for _ in range(repeats):
        result.values.append(seconds_of_call(ours, clock) * 1e3)
        if theirs is not None:
            result.peer_name = peer.name
            result.peer_values.append(seconds_of_call(theirs, clock) * 1e3)
    return result


def _compare(
    name: str,
    variant: Variant,
    device: str,
    repeats: int,
    problem: Callable[[Peer], str],
    calls: Callable[[Peer], tuple[Callable[[], object], Callable[[], object] | None]],
) -> Measured:
    """Measure a program and torch. If its results are wrong, the line says so.

    problem: returns the difference, empty if there is none. calls: returns our call and the one of
    torch, if there is one.
    """
    peer = peer_of(device)
    with Context(STRICT_FLOAT=variant.strict, THREADS=variant.threads, DEVICE=device):
        if peer.module and (words := problem(peer)):
            return Measured(name, "", missing=f"it is wrong: {words}")
        ours, other = calls(peer)
        theirs = None
        if peer.module and other is not None:
            peer.use_threads(variant.threads)
            theirs = functools.partial(_awaited, other, peer)
        clock = clock_of(variant.threads) if device == "CPU" else time.perf_counter
        return in_turns(name, _replayed(ours, device), theirs, peer, repeats, clock)


def _awaited(call: Callable[[], object], peer: Peer) -> None:
    call()
    peer.synchronize()


def measure_work(
    work: Work, shapes: Shapes, variant: Variant, device: str, repeats: int
) -> Measured:
    """Return the milliseconds of an operation and of torch, or the reason for none."""

    def calls(peer: Peer) -> tuple[Callable[[], object], Callable[[], object] | None]:
        data = work.inputs(shapes, variant.dtype)
        inputs = [Tensor(values, device=device).realize() for values in data]
        theirs = peer.module and [peer.tensor(values) for values in data]

        def torch_call() -> None:
            with peer.module.no_grad():
                work.torch(peer.module, *theirs)

        def own_call() -> list[Tensor]:
            results = list(_each(work.ours(*inputs)))
            Tensor.realize(*results)
            return results

        return own_call, torch_call if peer.module else None

    return _compare(
        work.name + variant.suffix,
        variant,
        device,
        repeats,
        lambda peer: _problem(work, variant, device, peer),
        calls,
    )


# --- steps of training ----------------------------------------------------------------------------


def torch_step(layers: Layers, peer: Peer) -> Callable[[], Any]:
    """Return a step of torch, compiled by torch.compile on a GPU, as its users run it."""
    torch, batch = peer.module, batch_of(layers)
    weights = [peer.tensor(values).requires_grad_() for values in batch.weights]
    optimiser = torch.optim.Adam(weights)
    images, labels = peer.tensor(batch.images), peer.tensor(batch.labels).long()
    ops = torch_ops(torch)

    def step() -> Any:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(layers.forward(images, weights, ops), labels)
        loss.backward()
        optimiser.step()
        return loss

    return step if peer.device == "cpu" else torch.compile(step)


def _model_problem(layers: Layers, device: str, peer: Peer) -> str:
    """Return how the losses of the first steps of a small network differ; empty if not."""
    ours, theirs = step_of(layers, device), torch_step(layers, peer)
    for number in range(3):
        loss, expected = float(ours().item()), float(theirs().item())
        if abs(loss - expected) > 1e-4 * max(1.0, abs(expected)):
            return f"the loss of step {number} is {loss:.6g}, that of torch {expected:.6g}"
    return ""


def measure_model(
    layers: Layers, small: Layers, variant: Variant, device: str, repeats: int
) -> Measured:
    """Return the milliseconds of a step of training and of torch, or the reason for none."""
    return _compare(
        layers.name + variant.suffix,
        variant,
        device,
        repeats,
        lambda peer: _model_problem(small, device, peer),
        lambda peer: (
            step_of(layers, device),
            torch_step(layers, peer) if peer.module else None,
        ),
    )


def _measure_launches(device: str, repeats: int) -> Measured:
    """Measure kernels of 16 elements in one replay, each on the result of the one before."""
    peer = peer_of(device)

    data = np.zeros(16, np.float32)
    with Context(DEVICE=device):
        tensor = Tensor(data, device=device).realize()
        ours = _replayed(lambda: chained(tensor, LAUNCHES), device)
        theirs = None
        if peer.module:
            other = peer.tensor(data)

            def theirs() -> None:
                x = other
                for _ in range(LAUNCHES):
                    x = x + 1
                peer.synchronize()

        result = in_turns("op.launches", ours, theirs, peer, repeats)
    result.unit = f"ms for {LAUNCHES} kernels of 16 elements, replayed"
    return result


# --- rows -----------------------------------------------------------------------------------------


def _variants(work: Work, is_gpu: bool) -> tuple[Variant, ...]:
    if not is_gpu:
        return ON_HOST
    return (*ON_GPU, WITH_TILES) if work.has_tiles else ON_GPU


def speed_rows(device: str) -> list[BenchRow]:
    """Return all of these rows for a device, and the geometric mean of the measured ones."""
    is_gpu = _base(device) in TORCH_DEVICES
    done: list[Measured] = []

    def row(name: str, measure: Callable[[int], Measured]) -> BenchRow:
        def run(repeats: int) -> Iterator[Measured]:
            result = measure(repeats)
            done.append(result)
            yield result

        return BenchRow(name, run)

    rows = []
    for work in WORKS:
        shapes = work.gpu if is_gpu else work.host
        if shapes is None:
            continue
        for variant in _variants(work, is_gpu):
            act = functools.partial(measure_work, work, shapes, variant, device)
            rows.append(row(work.name + variant.suffix, act))
    for layers, small in zip(MODELS, SMALL_MODELS, strict=True):
        for variant in ON_GPU if is_gpu else ON_HOST:
            act = functools.partial(measure_model, layers, small, variant, device)
            rows.append(row(layers.name + variant.suffix, act))
    rows.append(row("op.launches", functools.partial(_measure_launches, device)))
    return [*rows, BenchRow(MEAN, functools.partial(_mean, done))]


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _mean(done: Sequence[Measured], repeats: int) -> Iterator[Measured]:
    """Yield the geometric mean of the ratios of earlier rows, for each kind of variant."""
    del repeats
    endings = sorted({variant.suffix for variant in (*ON_HOST, *ON_GPU, WITH_TILES)} - {""})

    def ending(name: str) -> str:
        return max((end for end in endings if name.endswith(end)), key=len, default="")

    for suffix in ("", *endings):
        ratios = [row.ratio for row in done if row.peer_name and ending(row.name) == suffix]
        if ratios:
            value = geometric_mean(ratios)
            note = f"{len(ratios)} rows, the slowest {max(ratios):.3g}"
            yield Measured(MEAN + suffix, "times torch, geometric mean", [value], note=note)
