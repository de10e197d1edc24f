"""One work of `works.py` in a process of its own, by tinyref or by tinygrad: cold, then replayed.

    python -m tinyref.cli.bench.alone LIBRARY NAME STRICT THREADS REPEATS

prints JSON: `cold`, the milliseconds of processor time of the first call, and `steady`, those of
replayed calls; or `missing` and why. TINYGRAD_PYTHON may name a Python that has tinygrad.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyref.cli.bench.clock import clock_of, seconds_of_call
from tinyref.cli.bench.works import MODELS, OURS, WORKS, Layers, Shapes, Work, batch_of
from tinyref.config import Context
from tinyref.errors import UserError
from tinyref.workers.machine import seconds_of_children
from tinyref.workers.processes import python_command

TINYGRAD, TINYGRAD_VERSION = "tinygrad", "0.10.3"
TINYGRAD_PYTHON = "TINYGRAD_PYTHON"
DEVICE = "CPU"


@dataclass(frozen=True)
class Library:
    """tinyref, or another library whose tensors have the same methods."""

    tensor: Any
    jit: Any
    adam: Any
    synchronize: Callable[[], object]


@dataclass(frozen=True)
class Alone:
    """Milliseconds of one work in a process of its own; `missing` says why there are none."""

    cold: float = 0.0
    steady: tuple[float, ...] = ()
    missing: str = ""


def library(name: str) -> Library:
    """A library with the methods of `tinyref.Tensor`, on the processor.

    Raises `UserError` for one that is not installed.
    """
    if name != "tinyref":
        _reach_tinygrad()
        _check_tinygrad()
    module: Any = importlib.import_module(name)
    device: Any = importlib.import_module(f"{name}.device").Device
    adam: Any = importlib.import_module(f"{name}.nn.optim").Adam
    return Library(module.Tensor, module.TinyJit, adam, device[DEVICE].synchronize)


def _reach_tinygrad() -> None:
    """Appends the packages of the Python that is named: tinygrad is text, and fits any of them."""
    python = os.environ.get(TINYGRAD_PYTHON)
    if not python:
        return
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    try:
        done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"{TINYGRAD_PYTHON} is {python}, which does not run: {error}") from error
    sys.path.append(done.stdout.strip())


def _check_tinygrad() -> None:
    """Raise `UserError` if the version of tinygrad that is compared with is not installed."""
    try:
        version = importlib.metadata.version(TINYGRAD)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"{TINYGRAD} {TINYGRAD_VERSION} is not installed") from None
    if version != TINYGRAD_VERSION:
        raise UserError(f"{TINYGRAD} {TINYGRAD_VERSION} is not installed, but {version}")


def call_of(work: Work, shapes: Shapes, found: Library) -> Callable[[], Any]:
    """What computes a work on tensors of `found`, without a capture."""
    inputs = [
        found.tensor(data, device=DEVICE).realize() for data in work.inputs(shapes, "float32")
    ]
    return lambda: work.ours(*inputs).realize()


def step_of(layers: Layers, found: Library, device: str) -> Callable[[], Any]:
    """What trains a network for one step of Adam and gives the loss."""
    batch = batch_of(layers)
    weights = [found.tensor(each, device=device, requires_grad=True) for each in batch.weights]
    optimiser = found.adam(weights)
    images = found.tensor(batch.images, device=device).realize()
    labels = found.tensor(batch.labels, device=device).realize()

    def step() -> Any:
        with found.tensor.train():
            optimiser.zero_grad()
            logits = layers.forward(images, weights, OURS)
            loss = logits.sparse_categorical_crossentropy(labels)
            loss.backward()
            optimiser.step()
        return loss.realize()

    return step


def _processor_seconds() -> float:
    """Of this process, and of compilers that it ran and awaited."""
    return time.process_time() + seconds_of_children()


def measure(found: Library, name: str, threads: int, repeats: int) -> Alone:
    """Cold and replayed, of the work or network `name`. Raises `UserError` for an unknown one."""
    models = {layers.name: layers for layers in MODELS}
    works = {work.name: (work, work.host) for work in WORKS if work.host is not None}
    if name in models:
        call = step_of(models[name], found, DEVICE)
    elif name in works:
        call = call_of(*works[name], found)
    else:
        raise UserError(f"no work {name}: accepted are {', '.join([*models, *works])}")
    start = _processor_seconds()
    call()
    found.synchronize()
    cold = (_processor_seconds() - start) * 1e3
    jitted = found.jit(call)
    for _ in range(3 if repeats else 0):
        jitted()

    def run() -> None:
        jitted()
        found.synchronize()

    clock = clock_of(threads)
    steady = tuple(seconds_of_call(run, clock) * 1e3 for _ in range(repeats))
    return Alone(cold, steady)


def measured_alone(name: str, work: str, strict: int, threads: int, repeats: int) -> Alone:
    """`measure` in a fresh process without caches on disk; a failure is what is missing."""
    words = (name, work, str(strict), str(threads), str(repeats))
    done = subprocess.run(
        python_command("tinyref.cli.bench.alone", *words),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "TINYREF_CACHE": "0", "CACHELEVEL": "0", "CPU": "1"},
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        return Alone(missing=f"{name}: {' '.join(last)}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return Alone(**measured)


def main() -> None:
    """Measures what the arguments name and prints it as JSON."""
    name, work, strict, threads, repeats = sys.argv[1:]
    with Context(DEVICE=DEVICE, STRICT_FLOAT=int(strict), THREADS=int(threads)):
        try:
            measured = measure(library(name), work, int(threads), int(repeats))
        except UserError as error:
            measured = Alone(missing=str(error))
    json.dump(vars(measured), sys.stdout)


if __name__ == "__main__":
    main()
