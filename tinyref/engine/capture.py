"""Capture: record the kernels and copies that the engine runs, replay them on other memory.

A `Recorder` holds no intermediate result. A BUFFER whose node is gone when the function returns
belongs to the capture alone; the `Replay` puts it into its arena.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tinyref import config
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.sizes import Constraint
from tinyref.algebra.symbolic import lift, lower
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes, to_dtype
from tinyref.engine.accounting import GlobalCounters, estimate
from tinyref.engine.report import copy_buffer, is_timed, report, report_kernel
from tinyref.errors import DeviceError, UserStateError
from tinyref.formats.text import from_text, program_from_text, program_to_text, to_text
from tinyref.lazy.buffers import buffer_of, has_memory
from tinyref.runtimes.kernel import BoundKernel, Kernel, record, restored_kernel
from tinyref.schedule import Item, KernelItem
from tinyref.schedule.items import Lifetime, buffers_of, plan_arena, spans, written_by
from tinyref.uops.node import UOp, sint
from tinyref.uops.payload import BufferArg

Bindings = Mapping[str, int]


class RecordedBuffer:
    """A BUFFER that a capture uses; a pickle contains its device, size and type.

    memory: its memory now; None until a replay gives it some.
    existed: it had contents before the first step that uses it.
    """

    def __init__(self, node: UOp, existed: bool) -> None:
        argument = node.arg
        if not isinstance(argument, BufferArg):
            raise RuntimeError(f"capture: an item has a {node.op.name} among its buffers")
        self.argument = argument
        self.dtype = node.dtype
        self.node: Callable[[], UOp | None] = weakref.ref(node)
        self.memory = buffer_of(node) if existed else None
        self.existed = existed

    def __getstate__(self) -> tuple[str, int, str, bool]:
        return self.argument.device, self.argument.size, self.dtype.name, self.existed

    def __setstate__(self, state: tuple[str, int, str, bool]) -> None:
        device, size, name, self.existed = state
        self.argument, self.dtype = BufferArg(device, size, -1), to_dtype(name)
        self.node = _gone
        self.memory = None

    @property
    def nbytes(self) -> int:
        """Return the bytes of all elements."""
        return self.argument.size * self.dtype.itemsize

    @property
    def is_temporary(self) -> bool:
        """Return True if only the steps themselves can read it."""
        return not self.existed and self.node() is None

    def allocated(self) -> Buffer:
        """Return its memory, which is new for a temporary."""
        if self.memory is None:
            node = self.node()
            fresh = Buffer(self.argument.device, self.argument.size, self.dtype)
            self.memory = fresh if node is None else buffer_of(node)
        return self.memory


def _gone() -> None:
    """Stand for the reference to a node of another process."""


@dataclass(frozen=True)
class RecordedStep:
    """A kernel of a capture or, if `kernel` is None, a copy of a whole BUFFER to another.

    buffers: first the written ones; a kernel's are in the order of its parameters.
    names: the user's functions that the kernel computes. lines: the lines of their calls.
    """

    buffers: tuple[RecordedBuffer, ...]
    written: tuple[RecordedBuffer, ...]
    bindings: Bindings
    kernel: Kernel | None = None
    ast: UOp | None = None
    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        texts: tuple[str, ...] = ()
        if self.kernel is not None and self.ast is not None:
            program_text = program_to_text(self.kernel.program)
            texts = (self.kernel.device, program_text, to_text(self.ast))
        about = (self.buffers, self.written, dict(self.bindings), self.names, self.lines)
        return _restored_step, (*about, *texts)

    def run_aloud(self, buffers: Sequence[Buffer], bindings: Bindings) -> None:
        """Run it alone, so that it can be timed and reported."""
        if self.kernel is None or self.ast is None:
            copy_buffer(*buffers)
            if config.integer("DEBUG"):
                report(f"copy {buffers[0].nbytes:,} bytes, replayed")
        else:
            seconds = self.kernel(buffers, bindings, is_timed())
            report_kernel(self.ast, self.kernel, bindings, seconds, self.names, self.lines)


def _restored_step(
    buffers: tuple[RecordedBuffer, ...],
    written: tuple[RecordedBuffer, ...],
    bindings: Bindings,
    names: tuple[str, ...],
    lines: tuple[str, ...],
    device: str | None = None,
    program_text: str = "",
    ast_text: str = "",
) -> RecordedStep:
    if device is None:
        return RecordedStep(buffers, written, bindings)
    program, ast = program_from_text(program_text), from_text(ast_text)
    if not isinstance(ast, UOp):
        raise TypeError("a kernel is no sequence")
    kernel = restored_kernel(device, ast, program)
    return RecordedStep(buffers, written, bindings, kernel, ast, names, lines)


@dataclass
class Recorder:
    """The steps that ran while it was active, and the BUFFERs that they use, by number.

    constraints: conditions of the computed graphs on the values of variables.
    """

    steps: list[RecordedStep] = field(default_factory=list)
    constraints: dict[Constraint, None] = field(default_factory=dict)
    buffers: dict[int, RecordedBuffer] = field(default_factory=dict)

    def step(self, item: Item, kernel: Kernel | None, bindings: Bindings) -> RecordedStep:
        """Return the step of an item that is about to run; the caller adds it to `steps`."""
        outputs = written_by(item)
        buffers = tuple(self._meet(node, node in outputs) for node in buffers_of(item))
        written = buffers[: len(outputs)]
        if not isinstance(item, KernelItem):
            return RecordedStep(buffers, written, dict(bindings))
        about = (item.ast, item.names, item.lines)
        return RecordedStep(buffers, written, dict(bindings), kernel, *about)

    def written(self) -> set[RecordedBuffer]:
        """Return the BUFFERs that steps write."""
        return {buffer for step in self.steps for buffer in step.written}

    def makes(self, number: int) -> bool:
        """Return True if the steps fill BUFFER `number`, which was empty before."""
        buffer = self.buffers.get(number)
        return buffer is not None and not buffer.existed and buffer in self.written()

    def _meet(self, node: UOp, is_written: bool) -> RecordedBuffer:
        number = node.arg.number if isinstance(node.arg, BufferArg) else -1
        if number not in self.buffers:
            existed = not is_written or (has_memory(node) and buffer_of(node).is_allocated)
            self.buffers[number] = RecordedBuffer(node, existed)
        return self.buffers[number]


_active: ContextVar[Recorder | None] = ContextVar("tinyref_capture", default=None)


def active_recorder() -> Recorder | None:
    """Return the recorder that is active now, if any."""
    return _active.get()


@contextlib.contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Record everything that the engine runs within the block, in this thread; None disables it."""
    token = _active.set(recorder)
    try:
        yield
    finally:
        _active.reset(token)


def forbid_while_capturing(what: str) -> None:
    """Raise `UserError` during a capture; `what` is the action that a replay cannot repeat."""
    if _active.get() is not None:
        raise UserStateError(
            f"TinyJit: {what} within the function: a replay runs no Python and would give the old "
            f"value again: return the tensor, and read it outside"
        )


class Replay:
    """The steps of a capture, ready to run again on other inputs.

    exchanged: inputs and outputs, which get other memory for each run.
    varying: BUFFERs whose contents differ in each run, or None if not known. Steps that do not
    depend on them and write nothing exchanged run once, now.
    """

    def __init__(
        self,
        steps: Sequence[RecordedStep],
        constraints: Sequence[Constraint],
        exchanged: Collection[RecordedBuffer],
        varying: Collection[RecordedBuffer] | None = None,
    ) -> None:
        self.steps = list(steps)
        self.constraints = tuple(constraints)
        self.exchanged = frozenset(exchanged)
        self.bindings: dict[str, int] = {}
        for step in steps:
            self.bindings.update(step.bindings)
            for buffer in step.buffers:
                buffer.allocated()
        if varying is not None:
            self.steps, once = _partition(steps, {*varying, *exchanged})
            for launch in _launches([_bound(step) for step in once]):
                launch()
        self.written = frozenset(buffer for step in self.steps for buffer in step.written)
        others = self.written - self.exchanged
        self.temporaries = {buffer for buffer in others if buffer.is_temporary}
        self.unplanned_bytes = sum(buffer.nbytes for buffer in self.temporaries)
        self.arena_bytes = self._plan_memory()
        self._bound = [_bound(step) for step in self.steps]
        self._uses: dict[RecordedBuffer, list[tuple[BoundKernel | _Copy, int]]] = {}
        for step, bound in zip(self.steps, self._bound, strict=True):
            for position, buffer in enumerate(step.buffers):
                self._uses.setdefault(buffer, []).append((bound, position))
        kernels = [step.ast for step in self.steps if step.ast is not None]
        self.kernels = len(kernels)
        amounts = list(map(estimate, kernels))
        self._operations = _sum([amount.operations for amount in amounts])
        self._nbytes = _sum([amount.nbytes for amount in amounts])
        self._launches = _launches(self._bound)

    def _plan_memory(self) -> int:
        """Put the intermediate results into one arena for each device; return its bytes."""
        if not config.integer("MEMORY_PLAN"):
            return 0
        used = spans(step.buffers for step in self.steps)
        by_device: dict[str, list[RecordedBuffer]] = {}
        for buffer in used:
            device = buffer.argument.device
            if buffer in self.temporaries and buffer.nbytes and Device.runs_kernels(device):
                by_device.setdefault(device, []).append(buffer)
        arena_bytes = 0
        for device, buffers in by_device.items():
            lifetimes = [Lifetime(buffer.nbytes, *used[buffer]) for buffer in buffers]
            arena = plan_arena(lifetimes, Device[device].capabilities.view_alignment)
            arena_bytes += arena.nbytes
            whole = Buffer(device, arena.nbytes, dtypes.uint8)
            for buffer, offset in zip(buffers, arena.offsets, strict=True):
                buffer.memory = whole.view(offset, buffer.argument.size, buffer.dtype)
        return arena_bytes

    def bind(self, exchanged: Mapping[RecordedBuffer, Buffer], bindings: Bindings) -> None:
        """Give the exchanged BUFFERs other memory, and variables other values.

        Raises `UserError` for memory that a kernel does not accept, `DeviceError` if there is no
        memory.
        """
        for recorded, memory in exchanged.items():
            if recorded.memory is not memory:
                # It counts as bound only when all uses have it: one may refuse it.
                recorded.memory = None
                for bound, position in self._uses.get(recorded, ()):
                    bound.rebind(position, memory)
                recorded.memory = memory
        if bindings and any(self.bindings.get(k) != value for k, value in bindings.items()):
            self._vary(bindings)

    def run(self, told: bool) -> None:
        """Run all steps with the values of `bind`. Raises `DeviceError` as a launch does.

        told: launch and report each kernel alone; see `is_told`.
        """
        if told:
            for step, bound in zip(self.steps, self._bound, strict=True):
                step.run_aloud(bound.buffers, self.bindings)
            return
        try:
            for launch in self._launches:
                launch()
        except DeviceError as error:
            raise DeviceError(error.device, f"replay: {error.message}", error.source) from error
        GlobalCounters.kernel_count += self.kernels
        GlobalCounters.global_ops += value_of(self._operations, self.bindings)
        GlobalCounters.global_mem += value_of(self._nbytes, self.bindings)

    @property
    def is_one_call(self) -> bool:
        """Return True if an interrupt can only come before or after all kernels, untold."""
        launches = self._launches
        return len(launches) == 1 and getattr(launches[0], "is_one_call", False)

    def check(self, bindings: Bindings) -> None:
        """Raise `UserError` for values of variables that the captured graphs exclude."""
        if self.constraints and any(self.bindings.get(k) != v for k, v in bindings.items()):
            values = {**self.bindings, **bindings}
            for constraint in self.constraints:
                constraint.check(values)

    def _vary(self, bindings: Bindings) -> None:
        values = {**self.bindings, **bindings}
        # They count as bound only when all kernels have them: one may refuse them.
        for name in bindings:
            self.bindings.pop(name, None)
        is_changed = False
        for bound in self._bound:
            if isinstance(bound, BoundKernel) and bound.has_variables:
                was_empty = bound.is_empty
                bound.vary(values)
                is_changed |= bound.is_empty != was_empty
        if is_changed:
            self._launches = _launches(self._bound)
        self.bindings.update(values)


def _partition(
    steps: Sequence[RecordedStep], varying: set[RecordedBuffer]
) -> tuple[list[RecordedStep], list[RecordedStep]]:
    """Split the steps into those with variables or BUFFERs in `varying`, and all others.

    The BUFFERs that those steps write vary too.
    """
    while True:
        again = [step for step in steps if step.bindings or not varying.isdisjoint(step.buffers)]
        written = {buffer for step in again for buffer in step.written}
        if written <= varying:
            others = [s for s in steps if not s.bindings and varying.isdisjoint(s.buffers)]
            return again, others
        varying |= written


@dataclass
class _Copy:
    """A copy between two buffers, the target and the source, which can be exchanged."""

    buffers: list[Buffer]

    def __call__(self) -> None:
        copy_buffer(*self.buffers)

    def rebind(self, position: int, buffer: Buffer) -> None:
        self.buffers[position] = buffer


def _bound(step: RecordedStep) -> BoundKernel | _Copy:
    buffers = [buffer.allocated() for buffer in step.buffers]
    if step.kernel is None:
        return _Copy(buffers)
    return BoundKernel(step.kernel, buffers, step.bindings)


def _launches(steps: Sequence[BoundKernel | _Copy]) -> list[Callable[[], None]]:
    """Return the calls of a run: copies, and between them the kernels of each device, in order.

    Only copies order the devices relative to each other.
    """
    calls: list[Callable[[], None]] = []
    waiting: dict[str, list[BoundKernel]] = {}
    for bound in steps:
        if isinstance(bound, BoundKernel):
            if not bound.is_empty:
                waiting.setdefault(bound.kernel.device, []).append(bound)
            continue
        for buffer in bound.buffers:
            calls += _together(waiting.pop(Device.canonical(buffer.device), []))
        calls.append(bound)
    for kernels in waiting.values():
        calls += _together(kernels)
    return calls


def _together(kernels: Sequence[BoundKernel]) -> Sequence[Callable[[], None]]:
    """Return the calls that launch kernels of one device: one call if it records launches."""
    commands = record(kernels) if config.integer("JIT") == 1 else None
    return [bound.prepare() for bound in kernels] if commands is None else [commands]


def _sum(amounts: Sequence[sint]) -> sint:
    return lower(sum(map(lift, amounts), lift(0)))
