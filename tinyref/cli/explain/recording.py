"""The schedules and kernels that a program ran, and their times."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from tinyref.algebra.symbolic import describe_shape
from tinyref.cli.explain.picture import Box, cut, picture, schedule_picture
from tinyref.cli.terminal import kept_streams
from tinyref.codegen.compile import kernel_name
from tinyref.config import Context
from tinyref.device import Buffer
from tinyref.dtype import dtypes
from tinyref.engine.report import watching
from tinyref.formats.text import to_text
from tinyref.lazy.shards import Place
from tinyref.runtimes.kernel import Kernel
from tinyref.schedule import CopyItem, KernelItem, Schedule
from tinyref.schedule.items import Item, written_by
from tinyref.tensor.naming import noting_lines
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

# The longest text that is shown whole: graphs of layers have some hundred lines.
MAX_LINES = 400


def shorten(text: str, most: int = MAX_LINES) -> str:
    """Return the text, with a note instead of its middle if it has more than `most` lines."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= most:
        return "\n".join(lines)
    half = most // 2
    note = f"... {len(lines) - 2 * half:,} of {len(lines):,} lines are left out here ..."
    return "\n".join([*lines[:half], note, *lines[-half:]])


@dataclass
class KernelRecord:
    """One kernel of one device and all of its launches; `kernel` is None if it never ran."""

    number: int
    device: str
    ast: UOp
    names: dict[str, None] = field(default_factory=dict)
    lines: dict[str, None] = field(default_factory=dict)
    kernel: Kernel | None = None
    bindings: Mapping[str, int] = field(default_factory=dict)
    launches: int = 0
    replays: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Return the entry point of the program."""
        return kernel_name(self.ast)


@dataclass
class ScheduleStep:
    """A kernel or a copy of a schedule. `memory` describes its buffers, the outputs first."""

    kernel: KernelRecord | None
    memory: tuple[str, ...]
    seconds: float = 0.0
    runs: int = 0


@dataclass
class RealizeRecord:
    """A schedule, and the number of times that the same kernels were scheduled in this order."""

    number: int
    outputs: tuple[str, ...]
    graph: str
    picture: Markup
    plan: Markup
    steps: list[ScheduleStep]
    times: int = 1

    @property
    def seconds(self) -> float:
        """Return the time of all its kernels and copies, all times together."""
        return sum(step.seconds for step in self.steps)


class Recording:
    """A watcher that keeps what the page needs, and no memory of tensors."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, UOp], KernelRecord] = {}
        self.realizes: dict[tuple[object, ...], RealizeRecord] = {}
        self.replayed_copies = 0
        self._waiting: deque[ScheduleStep] = deque()

    def scheduled(self, outputs: Sequence[tuple[UOp, Place]], planned: Schedule) -> None:
        steps: list[ScheduleStep] = []
        key: list[object] = []
        for item in planned.items:
            if isinstance(item, CopyItem):
                steps.append(ScheduleStep(None, (_memory(item.target), _memory(item.source))))
                key.append(steps[-1].memory)
                continue
            record = self._kernel(item.device, item.ast)
            record.names.update(dict.fromkeys(item.names))
            record.lines.update(dict.fromkeys(item.lines))
            steps.append(ScheduleStep(record, tuple(_memory(node) for node in item.buffers)))
            key.append((item.device, item.ast))
        if not steps:
            return
        known = self.realizes.get(tuple(key))
        if known is None:
            root = _root(outputs)
            known = RealizeRecord(
                len(self.realizes) + 1,
                _outputs(outputs),
                shorten(to_text(root)),
                picture(root),
                schedule_picture(_boxes(planned.items, steps)),
                steps,
            )
            self.realizes[tuple(key)] = known
        else:
            known.times += 1
        self._waiting = deque(known.steps)

    def _kernel(self, device: str, ast: UOp) -> KernelRecord:
        record = self.kernels.get((device, ast))
        if record is None:
            record = KernelRecord(len(self.kernels) + 1, device, ast)
            self.kernels[device, ast] = record
        return record

    def ran(
        self, ast: UOp, kernel: Kernel, bindings: Mapping[str, int], seconds: float | None
    ) -> None:
        record = self._kernel(kernel.device, ast)
        record.kernel = kernel
        record.bindings = dict(bindings)
        record.launches += 1
        record.seconds += seconds or 0.0
        if self._waiting and self._waiting[0].kernel is record:
            self._done(seconds or 0.0)
        else:
            record.replays += 1

    def copied(self, target: Buffer, source: Buffer, seconds: float) -> None:
        if self._waiting and self._waiting[0].kernel is None:
            self._done(seconds)
        else:
            self.replayed_copies += 1

    def _done(self, seconds: float) -> None:
        step = self._waiting.popleft()
        step.seconds += seconds
        step.runs += 1


def _boxes(items: Sequence[Item], steps: Sequence[ScheduleStep]) -> list[Box]:
    """Return a box for each step, below the steps whose results it reads or overwrites."""
    boxes: list[Box] = []
    writers: dict[UOp, int] = {}
    for number, (item, step) in enumerate(zip(items, steps, strict=True)):
        buffers = item.buffers if isinstance(item, KernelItem) else (item.target, item.source)
        sources = dict.fromkeys(writers[node] for node in buffers if node in writers)
        kernel = step.kernel
        if kernel is None:
            lines, link = [f"{number + 1}: copy"], ""
        else:
            lines, link = [f"{number + 1}: {kernel.name}"], f"#kernel-{kernel.number}"
        lines += [cut(", ".join(kernel.names))] if kernel is not None and kernel.names else []
        lines += [cut(step.memory[0])] if step.memory else []
        boxes.append(Box(tuple(lines), tuple(sources), "; ".join(step.memory), link))
        writers.update(dict.fromkeys(written_by(item), number))
    return boxes


def _memory(node: UOp) -> str:
    argument = node.arg
    if not isinstance(argument, BufferArg):
        return node.op.name
    nbytes = argument.size * node.dtype.itemsize
    return f"{node.dtype.name} x {argument.size:,} ({nbytes:,} bytes) on {argument.device}"


def _outputs(outputs: Sequence[tuple[UOp, Place]]) -> tuple[str, ...]:
    from tinyref.lazy.shape import shape_of

    return tuple(
        f"{node.dtype.name} {describe_shape(shape_of(node))} on "
        f"{devices if isinstance(devices, str) else ', '.join(devices)}"
        for node, devices in outputs
    )


def _root(outputs: Sequence[tuple[UOp, Place]]) -> UOp:
    nodes = tuple(dict.fromkeys(node for node, _ in outputs))
    return nodes[0] if len(nodes) == 1 else UOp(Ops.SINK, dtypes.void, nodes)


@dataclass(frozen=True)
class Failure:
    """The error that ended a program: its last line, and its traceback."""

    line: str
    trace: str


def run_program(
    path: Path, arguments: Sequence[str], device: str, record: Recording
) -> Failure | None:
    """Run the file as a program, watched, and return its failure; None if it ended well.

    It runs in this process with all rights of its user, as `python FILE.py` would. An interrupt
    ends it, and is a failure too. Its changes of the streams, the folder, the arguments and the
    limits of this process are undone.
    """
    outer, paths = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.append(str(path.resolve().parent))
    depth = sys.getrecursionlimit()
    try:
        with (
            kept_streams(),
            _kept_folder(),
            Context(DEVICE=device),
            watching(record),
            noting_lines(),
        ):
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            return Failure(f"SystemExit: {error.code}", "")
    except BaseException as error:
        return failure_of(error, path)
    finally:
        sys.argv = outer
        sys.path[:] = paths
        sys.setrecursionlimit(depth)
    return None


@contextlib.contextmanager
def _kept_folder() -> Iterator[None]:
    """Come back to the working folder, if it is still there."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.chdir(folder)


def run_expression(text: str, device: str, record: Recording) -> None:
    """Compute a tensor expression, watched. Raise `UserError` for anything else."""
    from tinyref.cli.expression import evaluate
    from tinyref.runtimes.data_only import read_only_files

    with Context(DEVICE=device), watching(record), read_only_files():
        evaluate(text).realize()


def failure_of(error: BaseException, path: Path) -> Failure:
    """Return the failure, with the traceback from the first line of the program on."""
    lines = traceback.format_exception_only(error)
    frames = traceback.extract_tb(error.__traceback__)
    own = str(path)
    start = next((at for at, frame in enumerate(frames) if frame.filename == own), 0)
    trace = "".join([*traceback.format_list(frames[start:]), *lines])
    return Failure(lines[-1].strip() or type(error).__name__, trace)
