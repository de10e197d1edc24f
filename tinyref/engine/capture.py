"""Recording the kernels and copies that the engine runs, and replaying them on other memory.

A `Recorder` keeps no intermediate result alive: a BUFFER whose node is gone when the function has
returned belongs to the capture alone, and gets a place in the arena of the `Replay`.
"""

from __future__ import annotations

import contextlib
import json
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
from tinyref.engine.report import copy_buffer, is_timed, is_told, report, report_kernel
from tinyref.errors import DeviceError, UserStateError
from tinyref.formats.json_format import from_json_text, program_to_json, to_json
from tinyref.lazy.buffers import buffer_of, has_memory
from tinyref.runtimes.kernel import BoundKernel, Kernel, record, restored_kernel
from tinyref.schedule import CopyItem, KernelItem
from tinyref.schedule.items import Lifetime, plan_arena, spans, written_by
from tinyref.uops.node import UOp, sint
from tinyref.uops.payload import BufferArg
from tinyref.uops.program import Program

Bindings = Mapping[str, int]


class RecordedBuffer:
    """A BUFFER that a capture has met; in a pickle it is its device, size and type.

    memory: what it stands for now; None until a replay gives it memory.
    existed: its contents were there before the first step that touches it.
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
        """Bytes of all elements."""
        return self.argument.size * self.dtype.itemsize

    @property
    def is_temporary(self) -> bool:
        """True where only the steps themselves can look at it."""
        return not self.existed and self.node() is None

    def allocated(self) -> Buffer:
        """Return its memory, fresh for a temporary."""
        if self.memory is None:
            node = self.node()
            fresh = Buffer(self.argument.device, self.argument.size, self.dtype)
            self.memory = fresh if node is None else buffer_of(node)
        return self.memory


def _gone() -> None:
    """The reference to a node that another process had."""


@dataclass(frozen=True)
class KernelStep:
    """A kernel of a capture; `buffers` are in the order of its parameters."""

    kernel: Kernel
    ast: UOp
    buffers: tuple[RecordedBuffer, ...]
    bindings: Bindings
    written: tuple[RecordedBuffer, ...]

    def __getstate__(self) -> tuple[Any, ...]:
        texts = json.dumps(program_to_json(self.kernel.program)), json.dumps(to_json(self.ast))
        return (self.kernel.device, *texts, self.buffers, dict(self.bindings), self.written)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        device, program_text, ast_text, buffers, bindings, written = state
        program, ast = from_json_text(program_text), from_json_text(ast_text)
        if not isinstance(program, Program) or not isinstance(ast, UOp):
            raise TypeError("a kernel is no program")
        fields = (restored_kernel(device, ast, program), ast, buffers, bindings, written)
        for name, value in zip(self.__dataclass_fields__, fields, strict=True):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class CopyStep:
    """A copy of a whole BUFFER to another."""

    target: RecordedBuffer
    source: RecordedBuffer

    @property
    def buffers(self) -> tuple[RecordedBuffer, ...]:
        """Both, the one that is written first."""
        return self.target, self.source

    @property
    def written(self) -> tuple[RecordedBuffer, ...]:
        """The one that is written."""
        return (self.target,)


Step = KernelStep | CopyStep


@dataclass
class Recorder:
    """The steps that ran while it was active, and the BUFFERs that they touch, by number.

    constraints: what the graphs that they compute ask of the values of variables.
    """

    steps: list[Step] = field(default_factory=list)
    constraints: dict[Constraint, None] = field(default_factory=dict)
    buffers: dict[int, RecordedBuffer] = field(default_factory=dict)

    def kernel_step(self, item: KernelItem, kernel: Kernel, bindings: Bindings) -> Step:
        """Return the step of a kernel that is about to run; the caller adds it to `steps`."""
        outputs = written_by(item)
        buffers = self._meet(item.buffers, outputs)
        pairs = zip(buffers, item.buffers, strict=True)
        written = tuple(buffer for buffer, node in pairs if node in outputs)
        return KernelStep(kernel, item.ast, buffers, dict(bindings), written)

    def copy_step(self, item: CopyItem) -> Step:
        """Return the step of a copy that is about to be made, as `kernel_step` does."""
        return CopyStep(*self._meet((item.target, item.source), (item.target,)))

    def written(self) -> set[RecordedBuffer]:
        """Return the BUFFERs that steps write."""
        return {buffer for step in self.steps for buffer in step.written}

    def makes(self, number: int) -> bool:
        """Return True if the steps fill BUFFER `number`, which held nothing before."""
        buffer = self.buffers.get(number)
        return buffer is not None and not buffer.existed and buffer in self.written()

    def _meet(self, nodes: Sequence[UOp], written: Sequence[UOp]) -> tuple[RecordedBuffer, ...]:
        return tuple(self._meet_one(node, node in written) for node in nodes)

    def _meet_one(self, node: UOp, is_written: bool) -> RecordedBuffer:
        number = node.arg.number if isinstance(node.arg, BufferArg) else -1
        if number not in self.buffers:
            existed = not is_written or (has_memory(node) and buffer_of(node).is_allocated)
            self.buffers[number] = RecordedBuffer(node, existed)
        return self.buffers[number]


_active: ContextVar[Recorder | None] = ContextVar("tinyref_capture", default=None)


def active_recorder() -> Recorder | None:
    """Return the recorder that notes what runs now, if any."""
    return _active.get()


@contextlib.contextmanager
def recording(recorder: Recorder | None) -> Iterator[None]:
    """Note all that the engine runs within the block, in this thread; nothing with None."""
    token = _active.set(recorder)
    try:
        yield
    finally:
        _active.reset(token)


def forbid_while_capturing(what: str) -> None:
    """Raise `UserError` during a capture: `what` says what a replay could not repeat."""
    if _active.get() is not None:
        raise UserStateError(
            f"TinyJit: {what} within the function: a replay runs no Python and would give the old "
            f"value again: return the tensor, and read it outside"
        )


class Replay:
    """The steps of a capture, ready to run again on other inputs.

    exchanged: BUFFERs that get other memory for each run, inputs and outputs. varying: if given,
    those whose contents differ in each run. Steps that depend on none of them, and write nothing
    that is exchanged, run now and never again.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        constraints: Sequence[Constraint],
        exchanged: Collection[RecordedBuffer],
        varying: Collection[RecordedBuffer] | None = None,
    ) -> None:
        self.steps = list(steps)
        self.constraints = tuple(constraints)
        self.exchanged = frozenset(exchanged)
        self.bindings: dict[str, int] = {}
        for step in steps:
            for buffer in step.buffers:
                buffer.allocated()
        if varying is not None:
            self.steps, once = _partition(steps, {*varying, *exchanged})
            for step in once:
                bound = self._bind(step)
                if isinstance(bound, _Copy):
                    bound()
                elif not bound.is_empty:
                    bound.prepare()()
        self.written = frozenset(buffer for step in self.steps for buffer in step.written)
        others = self.written - self.exchanged
        self.temporaries = {buffer for buffer in others if buffer.is_temporary}
        self.unplanned_bytes = sum(buffer.nbytes for buffer in self.temporaries)
        self.arena_bytes = self._plan_memory()
        self._bound: list[BoundKernel | _Copy] = [self._bind(step) for step in self.steps]
        self._uses: dict[RecordedBuffer, list[tuple[BoundKernel | _Copy, int]]] = {}
        for step, bound in zip(self.steps, self._bound, strict=True):
            for place, buffer in enumerate(step.buffers):
                self._uses.setdefault(buffer, []).append((bound, place))
        self.kernels = sum(isinstance(step, KernelStep) for step in self.steps)
        amounts = [estimate(step.ast) for step in self.steps if isinstance(step, KernelStep)]
        self._operations = _sum([amount.operations for amount in amounts])
        self._nbytes = _sum([amount.nbytes for amount in amounts])
        self._launches = self._to_launch()

    def _plan_memory(self) -> int:
        """Give the intermediate results their places in one arena for each device; its bytes."""
        if not config.integer("MEMORY_PLAN"):
            return 0
        used = spans(step.buffers for step in self.steps)
        by_device: dict[str, list[RecordedBuffer]] = {}
        for buffer in used:
            if buffer in self.temporaries and buffer.nbytes:
                by_device.setdefault(buffer.argument.device, []).append(buffer)
        arena_bytes = 0
        for device, buffers in by_device.items():
            if not Device.runs_kernels(device):
                continue
            lifetimes = [Lifetime(buffer.nbytes, *used[buffer]) for buffer in buffers]
            arena = plan_arena(lifetimes, Device[device].capabilities.view_alignment)
            arena_bytes += arena.nbytes
            whole = Buffer(device, arena.nbytes, dtypes.uint8)
            for buffer, offset in zip(buffers, arena.offsets, strict=True):
                buffer.memory = whole.view(offset, buffer.argument.size, buffer.dtype)
        return arena_bytes

    def _bind(self, step: Step) -> BoundKernel | _Copy:
        buffers = [buffer.allocated() for buffer in step.buffers]
        if isinstance(step, CopyStep):
            return _Copy(*buffers)
        self.bindings.update(step.bindings)
        return BoundKernel(step.kernel, buffers, step.bindings)

    def _to_launch(self) -> list[Callable[[], None]]:
        """Return the calls of a run: copies, and between them the kernels of each device, in order.

        Copies alone order the devices among each other.
        """
        calls: list[Callable[[], None]] = []
        waiting: dict[str, list[BoundKernel]] = {}
        for bound in self._bound:
            if isinstance(bound, BoundKernel):
                if not bound.is_empty:
                    waiting.setdefault(bound.kernel.device, []).append(bound)
                continue
            for buffer in (bound.target, bound.source):
                calls += _launches(waiting.pop(Device.canonical(buffer.device), []))
            calls.append(bound)
        for kernels in waiting.values():
            calls += _launches(kernels)
        return calls

    def bind(self, exchanged: Mapping[RecordedBuffer, Buffer], bindings: Bindings) -> None:
        """Give the exchanged BUFFERs other memory, and variables other values.

        Raises `UserError` for memory that a kernel does not take, `DeviceError` where there is
        none.
        """
        for recorded, memory in exchanged.items():
            if recorded.memory is not memory:
                # Until all uses have it none counts as bound: one may be refused.
                recorded.memory = None
                for bound, place in self._uses.get(recorded, ()):
                    bound.rebind(place, memory)
                recorded.memory = memory
        if any(self.bindings.get(name) != value for name, value in bindings.items()):
            self._vary(bindings)

    def run(self) -> None:
        """Run all steps with what `bind` gave. Raises `DeviceError` as a launch does."""
        if is_told():
            self._run_aloud()
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
        """True if an interrupt comes before or after all kernels, and never between two."""
        launches = self._launches
        return len(launches) == 1 and getattr(launches[0], "is_one_call", False) and not is_told()

    def check(self, bindings: Bindings) -> None:
        """Raise `UserError` for values of variables that the captured graphs exclude."""
        if self.constraints and any(self.bindings.get(k) != v for k, v in bindings.items()):
            values = {**self.bindings, **bindings}
            for constraint in self.constraints:
                constraint.check(values)

    def _vary(self, bindings: Bindings) -> None:
        values = {**self.bindings, **bindings}
        # Until all kernels have them none counts as bound: one may be refused.
        for name in bindings:
            self.bindings.pop(name, None)
        is_other = False
        for bound in self._bound:
            if isinstance(bound, BoundKernel) and bound.has_variables:
                was_empty = bound.is_empty
                bound.vary(values)
                is_other |= bound.is_empty != was_empty
        if is_other:
            self._launches = self._to_launch()
        self.bindings.update(values)

    def _run_aloud(self) -> None:
        """Call each kernel for itself, so that it can be timed and reported."""
        for step, bound in zip(self.steps, self._bound, strict=True):
            if isinstance(bound, _Copy):
                bound()
                if config.integer("DEBUG"):
                    report(f"copy {bound.source.nbytes:,} bytes, replayed")
            elif isinstance(step, KernelStep):
                seconds = step.kernel(bound.buffers, self.bindings, is_timed())
                report_kernel(step.ast, step.kernel, self.bindings, seconds)


def _partition(
    steps: Sequence[Step], varying: set[RecordedBuffer]
) -> tuple[list[Step], list[Step]]:
    """Return the steps that depend on BUFFERs in `varying` or write them, and all others."""
    while True:
        again = [step for step in steps if _step_varies(step, varying)]
        written = {buffer for step in again for buffer in step.written}
        if written <= varying:
            return again, [step for step in steps if not _step_varies(step, varying)]
        varying |= written


def _step_varies(step: Step, varying: set[RecordedBuffer]) -> bool:
    is_bound = isinstance(step, KernelStep) and bool(step.bindings)
    return is_bound or not varying.isdisjoint(step.buffers)


def _launches(kernels: Sequence[BoundKernel]) -> Sequence[Callable[[], None]]:
    """Return the calls that launch kernels of one device: one where it records launches."""
    commands = record(kernels) if config.integer("JIT") == 1 else None
    return [bound.prepare() for bound in kernels] if commands is None else [commands]


@dataclass
class _Copy:
    """A copy between two buffers, which can be exchanged."""

    target: Buffer
    source: Buffer

    def __call__(self) -> None:
        copy_buffer(self.target, self.source)

    def rebind(self, place: int, buffer: Buffer) -> None:
        if place:
            self.source = buffer
        else:
            self.target = buffer


def _sum(amounts: Sequence[sint]) -> sint:
    total = lift(0)
    for amount in amounts:
        total = total + lift(amount)
    return lower(total)
