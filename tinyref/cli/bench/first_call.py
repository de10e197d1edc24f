"""The first call of one work in a new process, by whatever tinyref the Python that runs this has.

    PYTHON -P tinyref/cli/bench/first_call.py WORK STRICT THREADS

prints milliseconds of processor time, or the line `missing` and why. The works are those of the
file beside it, and of the library it takes only what users do, so that an earlier version can be
measured beside this one, in turns.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

WORKS = "tinyref_bench_works"
DEVICE = "CPU"
# What this version imports when it first computes, and an earlier one at once: no part of a call.
LATE = (
    "tinyref.codegen.compile",
    "tinyref.engine.runner",
    "tinyref.optimise.moves",
    "tinyref.tensor.realisation",
)


def _works() -> ModuleType:
    """The works of this folder; the library of the process may have others, or none."""
    spec = importlib.util.spec_from_file_location(WORKS, Path(__file__).with_name("works.py"))
    assert spec is not None, "works.py stands beside this file"
    assert spec.loader is not None, "and is Python"
    module = importlib.util.module_from_spec(spec)
    sys.modules[WORKS] = module
    spec.loader.exec_module(module)
    return module


def _call_of(works: Any, name: str) -> Callable[[], object]:
    """What computes a work, or trains a network for a step; the device is open, data are there."""
    tensor = importlib.import_module("tinyref").Tensor
    importlib.import_module("tinyref.device").Device[DEVICE].synchronize()
    models = {layers.name: layers for layers in works.MODELS}
    if name not in models:
        (work,) = [each for each in works.WORKS if each.name == name]
        inputs = [
            tensor(data, device=DEVICE).realize() for data in work.inputs(work.host, "float32")
        ]
        return lambda: work.ours(*inputs).realize()
    batch = works.batch_of(models[name])
    weights = [tensor(each, device=DEVICE, requires_grad=True) for each in batch.weights]
    optimiser = importlib.import_module("tinyref.nn.optim").Adam(weights)
    images, labels = (
        tensor(each, device=DEVICE).realize() for each in (batch.images, batch.labels)
    )

    def step() -> object:
        with tensor.train():
            optimiser.zero_grad()
            logits = models[name].forward(images, weights, works.OURS)
            loss = logits.sparse_categorical_crossentropy(labels)
            loss.backward()
            optimiser.step()
        return loss.realize()

    return step


def main() -> None:
    """Measures what the arguments name and prints it."""
    name, strict, threads = sys.argv[1:]
    flags = {"DEVICE": DEVICE, "STRICT_FLOAT": int(strict), "THREADS": int(threads), "CACHE": 0}
    with importlib.import_module("tinyref.config").Context(**flags):
        call = _call_of(_works(), name)
        for module in LATE:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        start = time.process_time()
        call()
        importlib.import_module("tinyref.device").Device[DEVICE].synchronize()
        sys.stdout.write(f"{(time.process_time() - start) * 1e3}\n")


def first_call(python: str, work: str, strict: int, threads: int) -> float | str:
    """Milliseconds that the tinyref of `python` takes for its first call, or why it has none."""
    command = [python, "-P", __file__, work, str(strict), str(threads)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        return f"{python} does not run: {error.strerror or error}"
    try:
        return float(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = done.stderr.strip().splitlines()[-1:]
        return f"{python}: {' '.join(last) or 'it printed no time'}"


if __name__ == "__main__":
    main()
