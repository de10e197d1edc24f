"""Capturing what a function runs, and running it again without building a graph.

While a `Recorder` is active, every kernel and copy that the engine runs is noted. What it notes
does not keep intermediate results alive: a buffer whose node is gone when the function has returned
is nobody's but the capture's own, and gets a place in the arena of the `Replay`.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from tinyref import config
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.sizes import Constraint
from tinyref.algebra.symbolic import lift, lower
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes
from tinyref.engine.counters import GlobalCounters
from tinyref.engine.estimate import estimate
from tinyref.engine.report import is_timed, is_told, report, report_kernel
from tinyref.engine.watch import active_watcher
from tinyref.errors import DeviceError, UserStateError
from tinyref.lazy.buffers import buffer_of, has_memory
from tinyref.profile import active_trace
from tinyref.runtimes.kernel import BoundKernel, Kernel, record
from tinyref.schedule import CopyItem, KernelItem
from tinyref.schedule.items import Lifetime, plan_arena, spans, written_by
from tinyref.uops.node import UOp, sint
from tinyref.uops.payload import BufferArg

Bindings = Mapping[str, int]


def copy_buffer(target: Buffer, source: Buffer) -> None:
    """All bytes of `source` to `target`, which has as many. Errors name the copy."""
    what = f"copy of {source.nbytes} bytes from {source.device}"
    start = time.perf_counter()
    try:
        target.copy_from(source)
    except DeviceError as error:
        raise DeviceError(error.device, f"{what}: {error.message}", error.source) from error
    except MemoryError as error:
        raise DeviceError(target.device, f"{what}: out of memory: {error}") from error
    end = time.perf_counter()
    trace = active_trace()
    if trace is not None:
        name = f"copy from {source.device} to {target.device}"
        trace.add(target.device, "copy", name, end, end - start, bytes=source.nbytes)
    watcher = active_watcher()
    if watcher is not None:
        watcher.copied(target, source, end - start)


@dataclass(frozen=True)
class KernelStep:
    """A kernel of a capture; `buffers` are the numbers of its BUFFERs by slot."""

    kernel: Kernel
    ast: UOp
    buffers: tuple[int, ...]
    bindings: Bindings
    written_numbers: tuple[int, ...]


@dataclass(frozen=True)
class CopyStep:
    """A copy of a whole BUFFER to another, by their numbers."""

    target: int
    source: int

    @property
    def buffers(self) -> tuple[int, ...]:
        return (self.target, self.source)

    @property
    def written_numbers(self) -> tuple[int, ...]:
        return (self.target,)


Step = KernelStep | CopyStep


@dataclass
class Known:
    """A BUFFER that a capture has met; `memory` is held only of what held something before.

    existed: its contents were there before the first step that touches it. is_written: by a step.
    """

    argument: BufferArg
    dtype: DType
    node: weakref.ref[UOp]
    memory: Buffer | None
    existed: bool
    is_written: bool = False

    @property
    def nbytes(self) -> int:
        return self.argument.size * self.dtype.itemsize

    @property
    def is_temporary(self) -> bool:
        """Whether nobody can look at it any more but the steps themselves."""
        return self.memory is None and self.node() is None

    def buffer(self) -> Buffer:
        """Its memory, fresh for a temporary."""
        node = self.node()
        if self.memory is not None:
            return self.memory
        if node is not None:
            return buffer_of(node)
        return Buffer(self.argument.device, self.argument.size, self.dtype)


@dataclass
class Recorder:
    """The steps that ran while it was active, and the BUFFERs they touch by number.

    constraints: what the graphs that they compute ask of the values of variables.
    """

    steps: list[Step] = field(default_factory=list)
    constraints: dict[Constraint, None] = field(default_factory=dict)
    known: dict[int, Known] = field(default_factory=dict)

    def kernel_step(self, item: KernelItem, kernel: Kernel, bindings: Bindings) -> Step:
        """The step of a kernel that is about to run; it is among the `steps` when it has run."""
        outputs = written_by(item)
        numbers = self._meet(item.buffers, outputs)
        written = tuple(
            number for number, node in zip(numbers, item.buffers, strict=True) if node in outputs
        )
        return KernelStep(kernel, item.ast, numbers, dict(bindings), written)

    def copy_step(self, item: CopyItem) -> Step:
        """The step of a copy that is about to be made, as `kernel_step`."""
        return CopyStep(*self._meet((item.target, item.source), (item.target,)))

    def makes(self, number: int) -> bool:
        """Whether the steps fill BUFFER `number`, which held nothing before."""
        known = self.known.get(number)
        return known is not None and known.is_written and not known.existed

    def _meet(self, nodes: Sequence[UOp], written: Sequence[UOp]) -> tuple[int, ...]:
        numbers = []
        for node in nodes:
            argument = node.arg
            if not isinstance(argument, BufferArg):
                raise RuntimeError(f"capture: an item has a {node.op.name} among its buffers")
            numbers.append(argument.number)
            if argument.number not in self.known:
                self.known[argument.number] = _first_met(node, argument, node in written)
            if node in written:
                self.known[argument.number].is_written = True
        return tuple(numbers)


def _first_met(node: UOp, argument: BufferArg, is_written: bool) -> Known:
    existed = not is_written or (has_memory(node) and buffer_of(node).is_allocated)
    memory = buffer_of(node) if existed else None
    return Known(argument, node.dtype, weakref.ref(node), memory, existed)


_active: ContextVar[Recorder | None] = ContextVar("tinyref_capture", default=None)


def active_recorder() -> Recorder | None:
    """The recorder that notes what runs now, if any."""
    return _active.get()


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """Notes all that the engine runs within the block, in this thread."""
    recorder = Recorder()
    token = _active.set(recorder)
    try:
        yield recorder
    finally:
        _active.reset(token)


@contextlib.contextmanager
def not_recording() -> Iterator[None]:
    """What the engine runs within the block belongs to no capture."""
    token = _active.set(None)
    try:
        yield
    finally:
        _active.reset(token)


def forbid_while_capturing(what: str) -> None:
    """Raises `UserError` during a capture: `what` says what a replay could not repeat."""
    if _active.get() is not None:
        raise UserStateError(
            f"TinyJit: {what} within the function: a replay runs no Python and would give the old "
            f"value again: return the tensor, and read it outside"
        )


class Replay:
    """The steps of a capture, ready to run again on other inputs.

    `exchanged` are the numbers of BUFFERs that get other memory for each run: inputs and outputs.
    `varying`, where it is given, are those whose contents are others in each run: steps that
    depend on none of them, and write nothing that is exchanged, run now and never again.
    """

    def __init__(
        self,
        recorder: Recorder,
        exchanged: Sequence[int],
        varying: Collection[int] | None = None,
    ) -> None:
        self.steps = recorder.steps
        self.exchanged = frozenset(exchanged)
        self.arena_bytes = 0
        self.bindings: dict[str, int] = {}
        self.memory = _memory_of(recorder)
        if varying is not None:
            self.steps, once = _partition(recorder.steps, {*varying, *exchanged})
            for step in once:
                self._run_once(step)
            needed = {number for step in self.steps for number in step.buffers}
            self.memory = {n: memory for n, memory in self.memory.items() if n in needed}
        written = {number for step in self.steps for number in step.written_numbers}
        self.temporaries = {
            number: known
            for number, known in recorder.known.items()
            if known.is_temporary and number in written
        }
        self.unplanned_bytes = sum(known.nbytes for known in self.temporaries.values())
        for number, buffer in self._plan_memory(recorder).items():
            self.memory[number] = buffer
        self.constraints = tuple(recorder.constraints)
        self._bound: list[BoundKernel | _Copy] = [self._bind(step) for step in self.steps]
        self._find_uses = _find_uses(self.steps, exchanged)
        self._work = _Work([step for step in self.steps if isinstance(step, KernelStep)])
        self._launches = self._to_launch()
        # Whether the last run broke off when it may have written something.
        self.is_begun = False

    @property
    def kernels(self) -> int:
        """How many kernels a run has."""
        return sum(isinstance(step, KernelStep) for step in self.steps)

    def _run_once(self, step: Step) -> None:
        bound = self._bind(step)
        if isinstance(bound, _Copy):
            bound()
        elif not bound.is_empty:
            bound.prepare()()

    def _plan_memory(self, recorder: Recorder) -> dict[int, Buffer]:
        """The places of the intermediate results: one arena for each device."""
        if not config.integer("MEMORY_PLAN"):
            return {}
        written = {number for step in self.steps for number in step.written_numbers}
        by_device: dict[str, dict[int, Lifetime]] = {}
        for number, span in spans(step.buffers for step in self.steps).items():
            known = recorder.known[number]
            is_written = known.is_temporary and known.nbytes and number in written
            if is_written and Device.runs_kernels(known.argument.device):
                lifetimes = by_device.setdefault(known.argument.device, {})
                lifetimes[number] = Lifetime(known.nbytes, *span)
        found: dict[int, Buffer] = {}
        for device, lifetimes in by_device.items():
            alignment = Device[device].capabilities.view_alignment
            arena = plan_arena(list(lifetimes.values()), alignment)
            self.arena_bytes += arena.nbytes
            whole = Buffer(device, arena.nbytes, dtypes.uint8)
            for number, offset in zip(lifetimes, arena.offsets, strict=True):
                known = recorder.known[number]
                found[number] = whole.view(offset, known.argument.size, known.dtype)
        return found

    def _bind(self, step: Step) -> BoundKernel | _Copy:
        buffers = [self.memory[number] for number in step.buffers]
        if isinstance(step, CopyStep):
            return _Copy(buffers)
        self.bindings.update(step.bindings)
        return BoundKernel(step.kernel, buffers, step.bindings)

    def _to_launch(self) -> list[Callable[[], None]]:
        """The calls of a run: copies, and between them the kernels of each device, in order.

        Devices have no order between each other but that of the copies.
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

    def run(self, exchanged: Mapping[int, Buffer], bindings: Bindings) -> None:
        """Runs all steps, with other memory for the exchanged BUFFERs and values for variables.

        Raises `UserError` for memory that a kernel does not take, `DeviceError` as a launch does;
        `is_begun` says whether anything was launched before that, and not all.
        """
        self.is_begun = False
        for number, buffer in exchanged.items():
            if self.memory.get(number) is not buffer:
                # Until all uses have it none counts as bound: one may be refused.
                self.memory.pop(number, None)
                for place, slot in self._find_uses[number]:
                    self._bound[place].rebind(slot, buffer)
                self.memory[number] = buffer
        if any(self.bindings.get(name) != value for name, value in bindings.items()):
            self._vary(bindings)
        self.is_begun = True
        if is_told():
            self._run_aloud()
            self.is_begun = False
            return
        try:
            for launch in self._launches:
                launch()
        except DeviceError as error:
            raise DeviceError(error.device, f"replay: {error.message}", error.source) from error
        self.is_begun = False
        self._work.count(self.bindings)

    def check(self, bindings: Bindings) -> None:
        """Raises `UserError` for values of variables that the captured graphs exclude."""
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
        """The same, each kernel called for itself, so that it can be timed and reported."""
        for step, bound in zip(self.steps, self._bound, strict=True):
            if isinstance(bound, _Copy):
                bound()
                if config.integer("DEBUG"):
                    report(f"copy {bound.source.nbytes:,} bytes, replayed")
            elif isinstance(step, KernelStep):
                seconds = step.kernel(bound.buffers, self.bindings, is_timed())
                report_kernel(step.ast, step.kernel, self.bindings, seconds)


def _partition(steps: Sequence[Step], varying: set[int]) -> tuple[list[Step], list[Step]]:
    """The steps that depend on BUFFERs in `varying` or write them, and all others."""
    varying = set(varying)
    while True:
        again = [step for step in steps if _step_varies(step, varying)]
        written = {number for step in again for number in step.written_numbers}
        if written <= varying:
            return again, [step for step in steps if not _step_varies(step, varying)]
        varying |= written


def _step_varies(step: Step, varying: set[int]) -> bool:
    is_bound = isinstance(step, KernelStep) and bool(step.bindings)
    return is_bound or not varying.isdisjoint(step.buffers)


def _memory_of(recorder: Recorder) -> dict[int, Buffer]:
    return {number: known.buffer() for number, known in recorder.known.items()}


def _find_uses(steps: Sequence[Step], numbers: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """For each number the places where it occurs: the step, and the slot within."""
    found: dict[int, list[tuple[int, int]]] = {number: [] for number in numbers}
    for place, step in enumerate(steps):
        for slot, number in enumerate(step.buffers):
            if number in found:
                found[number].append((place, slot))
    return found


def _launches(kernels: Sequence[BoundKernel]) -> Sequence[Callable[[], None]]:
    """The calls that launch kernels of one device: one where the device records launches."""
    commands = record(kernels) if config.integer("JIT") == 1 else None
    return [bound.prepare() for bound in kernels] if commands is None else [commands]


class _Copy:
    """A copy between two buffers, which can be exchanged."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.target, self.source = buffers

    def __call__(self) -> None:
        copy_buffer(self.target, self.source)

    def rebind(self, slot: int, buffer: Buffer) -> None:
        if slot:
            self.source = buffer
        else:
            self.target = buffer


class _Work:
    """The totals of all kernels of a capture, summed once."""

    def __init__(self, steps: Sequence[KernelStep]) -> None:
        self.kernels = len(steps)
        amounts = [estimate(step.ast) for step in steps]
        self.operations = _sum([amount.operations for amount in amounts])
        self.nbytes = _sum([amount.nbytes for amount in amounts])

    def count(self, bindings: Bindings) -> None:
        """Adds one run to the global counters."""
        GlobalCounters.kernel_count += self.kernels
        GlobalCounters.global_ops += value_of(self.operations, bindings)
        GlobalCounters.global_mem += value_of(self.nbytes, bindings)


def _sum(amounts: Sequence[sint]) -> sint:
    total = lift(0)
    for amount in amounts:
        total = total + lift(amount)
    return lower(total)
