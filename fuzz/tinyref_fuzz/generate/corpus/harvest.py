"""Takes the kernels out of a program: it is run, watched, and what it computes is kept.

The program runs in a process of its own with all rights of its user, as `python FILE.py` would, but
for the folder of FILE, which comes last: a queue.py that lies there hides no module of Python's.
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

# Kernels of more elements take the interpreter long, and those of more nodes the compiler.
MAX_WORK = 1 << 16
MAX_NODES = 200


class Recorder:
    """A watcher that keeps each kernel, what it is for, and the sizes of its first run."""

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
        """What ran, in order."""
        return [
            Harvested(ast, bindings, self.computes.get(ast, ()))
            for ast, bindings in self.bindings.items()
        ]


@dataclass(frozen=True)
class Harvest:
    """What a program computed.

    kernels: what was kept. ran: how many different ones there were. large: how many structures
    were left out, as all of them are too large to judge. failure: how the program ended, if not
    well.
    """

    kernels: tuple[CorpusKernel, ...]
    ran: int
    large: int
    failure: str = ""


def choose_kernels(
    kernels: Iterable[Harvested], every_size: bool = False, max_nodes: int = MAX_NODES
) -> list[Harvested]:
    """The kernels that can be judged; of one structure the smallest, or each with `every_size`."""
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
    """Whether a kernel is small enough to be judged."""
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
    """Runs a program with arguments in a process of its own; writes its kernels to `target`.

    Raises `UserError` for a file that is not there, a program that ended before it could say what
    it computed, and one that computed nothing.
    """
    if not program.is_file():
        raise UserError(f"harvest: {program}: no such file")
    config = {"program": str(program), "device": device, "arguments": list(arguments)}
    choice = {"every_size": every_size, "max_nodes": max_nodes}
    done = run_attached("tinyref_fuzz.generate.corpus.harvest", {**config, **choice})
    if done.answer is None:
        raise UserError(f"harvest: {program} sent no result: {done.ending}")
    found = done.answer
    kernels = kernels_from_json(found["collection"])
    ran, large, failure = int(found["ran"]), int(found["large"]), str(found["failure"])
    if not kernels:
        why = f"it ended with {failure}" if failure else "it must ask for elements, as by realize()"
        raise UserError(f"harvest: {program} computed nothing that can be kept: {why}")
    write_text(target, stable_text(found["collection"]))
    return Harvest(kernels, ran, large, failure)


def main() -> None:
    """The process that runs the program."""
    channel = Channel(attached=True)
    asked = channel.receive()
    program, recorder = Path(asked["program"]), Recorder()
    failure = _run(program, asked["arguments"], asked["device"], recorder)
    ran = recorder.kernels()
    kept = choose_kernels(ran, asked["every_size"], asked["max_nodes"])
    structures = {structure_of(kernel.ast) for kernel in kept}
    channel.send(
        {
            "collection": kernels_to_json(program.stem, kept),
            "ran": len(ran),
            "large": len({structure_of(kernel.ast) for kernel in ran} - structures),
            "failure": failure,
        }
    )


def _run(program: Path, arguments: Sequence[str], device: str, recorder: Recorder) -> str:
    """How the program ended, "" for well."""
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
