"""Harvest the kernels of a program: run it, observe it, and collect what it computes.

The program runs in its own process with all rights of its user, as `python FILE.py` would. Only the
folder of FILE comes last on the import path: a queue.py there hides no standard module.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinyref.config import Context
from tinyref.device import Buffer
from tinyref.engine.report import watching
from tinyref.errors import TinyrefError, UserError
from tinyref.lazy.shards import Place
from tinyref.runtimes.kernel import Kernel
from tinyref.schedule import CopyItem, Schedule
from tinyref.uops.node import UOp
from tinyref.workers.processes import Channel, run_attached
from tinyref_fuzz.generate.corpus.collection import (
    Harvested,
    check,
    kernels_from_json,
    kernels_to_json,
    structure_of,
    work_of,
)
from tinyref_spec.kernel_case.files import write_text
from tinyref_spec.kernel_case.stable_text import stable_text
from tinyref_spec.kernels.family import CorpusKernel

# Larger kernels take the interpreter (elements) or the compiler (nodes) long.
MAX_WORK = 1 << 16
MAX_NODES = 200


class KernelRecorder:
    """Observer that records each kernel, what it is for, and the sizes of its first run."""

    def __init__(self) -> None:
        self.bindings: dict[UOp, dict[str, int]] = {}
        self.computes: dict[UOp, tuple[str, ...]] = {}

    def scheduled(self, outputs: Sequence[tuple[UOp, Place]], planned: Schedule) -> None:
        for item in planned.items:
            if not isinstance(item, CopyItem):
                self.computes.setdefault(item.ast, tuple(item.names))

    def ran(
        self, ast: UOp, kernel: Kernel, bindings: Mapping[str, int], seconds: float | None
    ) -> None:
        self.bindings.setdefault(ast, dict(bindings))

    def copied(self, target: Buffer, source: Buffer, seconds: float) -> None:
        return

    def kernels(self) -> list[Harvested]:
        """Return the kernels that ran, in order."""
        return [
            Harvested(ast, bindings, self.computes.get(ast, ()))
            for ast, bindings in self.bindings.items()
        ]


@dataclass(frozen=True)
class Harvest:
    """The kernels that a program computed."""

    kernels: tuple[CorpusKernel, ...]
    """The kernels that were collected."""
    ran: int
    """The number of different kernels that ran."""
    large: int
    """The number of structures whose every kernel is too large to judge."""
    failure: str = ""
    """The error that ended the program, if any."""


def choose_kernels(
    kernels: Iterable[Harvested], every_size: bool = False, max_nodes: int = MAX_NODES
) -> list[Harvested]:
    """Return the kernels that can be judged: the smallest of each structure, or all of them."""
    fitting = [kernel for kernel in kernels if fits(kernel, max_nodes)]
    if every_size:
        return fitting
    smallest: dict[str, Harvested] = {}
    for kernel in fitting:
        key = structure_of(kernel.ast)
        known = smallest.get(key)
        if known is None or work_of(kernel.ast) < work_of(known.ast):
            smallest[key] = kernel
    return list(smallest.values())


def fits(kernel: Harvested, max_nodes: int) -> bool:
    """Return True if a kernel is small enough to be judged."""
    try:
        check(kernel.ast, kernel.bindings)
    except TinyrefError:
        return False
    return work_of(kernel.ast) <= MAX_WORK and len(kernel.ast.toposort()) <= max_nodes


def harvest(
    program: Path,
    device: str,
    target: Path,
    every_size: bool = False,
    max_nodes: int = MAX_NODES,
    arguments: Sequence[str] = (),
) -> Harvest:
    """Run a program with arguments in its own process, and write its kernels to `target`.

    Raises `UserError` if the file does not exist, if the program ended without a result, or if it
    computed nothing.
    """
    if not program.is_file():
        raise UserError(f"harvest: {program}: no such file")
    config = {"program": str(program), "device": device, "arguments": list(arguments)}
    choice = {"every_size": every_size, "max_nodes": max_nodes}
    done = run_attached("tinyref_fuzz.generate.corpus.harvest", {**config, **choice})
    if done.answer is None:
        raise UserError(f"harvest: {program} returned no result: {done.ending}")
    answer = done.answer
    kernels = kernels_from_json(answer["collection"])
    ran, large, failure = int(answer["ran"]), int(answer["large"]), str(answer["failure"])
    if not kernels:
        why = f"it ended with {failure}" if failure else "it must ask for elements, as by realize()"
        raise UserError(f"harvest: {program} computed no kernel that can be judged: {why}")
    write_text(target, stable_text(answer["collection"]))
    return Harvest(kernels, ran, large, failure)


def main() -> None:
    """Run the program in this process, and send its kernels."""
    channel = Channel(attached=True)
    request = channel.receive()
    program, recorder = Path(request["program"]), KernelRecorder()
    failure = _run(program, request["arguments"], request["device"], recorder)
    ran = recorder.kernels()
    chosen = choose_kernels(ran, request["every_size"], request["max_nodes"])
    structures = {structure_of(kernel.ast) for kernel in chosen}
    channel.send(
        {
            "collection": kernels_to_json(program.stem, chosen),
            "ran": len(ran),
            "large": len({structure_of(kernel.ast) for kernel in ran} - structures),
            "failure": failure,
        }
    )


def _run(program: Path, arguments: Sequence[str], device: str, recorder: KernelRecorder) -> str:
    """Run the program and return the error that ended it, or ""."""
    sys.argv = [str(program), *arguments]
    sys.path.append(str(program.resolve().parent))
    try:
        with Context(DEVICE=device), watching(recorder):
            runpy.run_path(str(program), run_name="__main__")
    except SystemExit as error:
        return "" if error.code in (None, 0) else f"SystemExit: {error.code}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


if __name__ == "__main__":
    main()
