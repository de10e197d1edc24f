"""A faulty device: one edit of a healthy one, as data.

One or two of these are edited: the printed text (`text`), the program before it is printed
(`program`), the semantics of ops (`ops`), or accesses, loops and indices (`hooks`). Runtime calls
can be edited too (`memory`, `launch`, `prepared`, `commands`, `queue`, `methods`). Edits of texts
and programs work on every healthy device, the others on `Simulated`.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy.typing as npt

from tinyref import config
from tinyref.contract import Backend, Launch
from tinyref.interpret import Hooks, Interpreter
from tinyref.interpret.translate import Override
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.kernel import LaunchesInARow, RepeatedCall
from tinyref.runtimes.python import Extents, InterpretedKernel, TextBackend
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.programs import Change, rewritten
from tinyref_conformance.faulty.queues import AtOnce, Queue
from tinyref_spec.case import Rung

Array = npt.NDArray[Any]
Call = Callable[..., Any]

# Rows of every rung up to the last fault, in few enough cases that a device takes seconds. No row
# of the level tensor: every fault shows below.
QUERY = (
    "memory.open,memory.copy.uint8,memory.many,memory.view.uint8,memory.launch,memory.gate,"
    "memory.bytes,memory.order,memory.wait,memory.capability.float16,"
    "kernel.together,kernel.store.constant.*int32,kernel.store.constant.float32,"
    "kernel.one_alu.add,kernel.view.permute.float32,kernel.view.flip.float32,kernel.size.int32,"
    "isa.binary.mul.float32,isa.binary.mul.int32,isa.binary.idiv.int32,isa.sequence,"
    "isa.unary.neg.float32,isa.unary.sqrt.float32,isa.binary.add.float32,"
    "isa.cast.float32,isa.cast.int32.to_float32,isa.cast.int32.to_int8,"
    "kernel.elements.float32,kernel.elements.int32,kernel.program,kernel.image.float32,"
    "kernel.program.wmma.apple_*,kernel.program.wmma.intel_m8n8*,"
    "kernel.reduce.add.float32,kernel.reduce.add.int32,"
    "system.jit,system.symbolic,system.transfer.bytes.uint8,system.transfer.view.uint8,"
    "system.transfer.order"
)


class SimulatedKernel(InterpretedKernel):
    """A program that the queue of its device runs; `run` is the launch when its turn comes."""

    run: Call

    def __init__(self, device: Simulated, program: Program) -> None:
        super().__init__(device.name, program)
        faulty = device.faulty
        self.owner = device
        self.interpreter = Interpreter(program, faulty.ops, faulty.hooks)
        self.run = self._run
        if faulty.launch is not None:
            self.run = faulty.launch(self)
        if faulty.prepared is not None:
            self.prepare = functools.partial(faulty.prepared, self)

    def _run(self, *arguments: Any) -> float | None:
        if self.owner.faulty.sanitize:
            return super().__call__(*arguments)
        with config.Context(SANITIZE=0):
            return super().__call__(*arguments)

    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Extents = (1, 1, 1),
        group: Extents = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        work = QueuedLaunch(self, (list(buffers), grid, group, tuple(variables), wait))
        return self.owner.queue.submit(work, wait)


@dataclass(frozen=True, eq=False)
class QueuedLaunch:
    """A launch that waits for its turn; the buffers are the first of its arguments."""

    kernel: SimulatedKernel
    arguments: tuple[Any, ...]

    def __call__(self) -> float | None:
        seconds: float | None = self.kernel.run(*self.arguments)
        return seconds


class SimulatedMemory(HostAllocator):
    """Memory whose copies wait for the launches that were called before them."""

    def __init__(self, device: Simulated) -> None:
        super().__init__(device.name)
        self.queue = device.queue

    def copy_in(self, handle: HostHandle, source: memoryview) -> None:
        self.queue.wait()
        super().copy_in(handle, source)

    def copy_out(self, destination: memoryview, handle: HostHandle) -> None:
        self.queue.wait()
        super().copy_out(destination, handle)

    def transfer(self, target: HostHandle, source: HostHandle, origin: HostAllocator) -> None:
        self.queue.wait()
        if isinstance(origin, SimulatedMemory):
            origin.queue.wait()
        super().transfer(target, source, origin)


@dataclass(frozen=True, kw_only=True, eq=False)
class FaultyDevice:
    """One broken device, or a healthy one where `clause` is empty.

    rung: where the suite must say that it is broken first; None if earlier cases decide.
    healthy: the device that it would be without the fault, and `base` is the class of that.
    query: the cases that are enough to tell.
    """

    name: str
    sentence: str
    clause: str = ""
    rung: Rung | None = None
    base: type[Backend] = field(default_factory=lambda: Simulated)
    healthy: str = "PYTHON"
    query: str = QUERY
    text: tuple[str, str] | None = None
    """A regular expression, and what stands for each match of it."""
    program: Callable[[Program], Change] | None = None
    """Returns the change of each node of a program, in its order."""
    ops: Mapping[Ops, Override] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)
    sanitize: bool = True
    """False where the sanitizer would report the fault before the suite could."""
    queue: type[Queue] = AtOnce
    memory: Callable[[Simulated], Mapping[str, Call]] | None = None
    """Returns calls of the allocator by their names; `device.memory` has the healthy ones."""
    launch: Callable[[SimulatedKernel], Call] | None = None
    """Returns what launches a kernel; `kernel.run` is the healthy one."""
    prepared: type[RepeatedCall] | None = None
    commands: type[LaunchesInARow] | None = None
    methods: Mapping[str, Any] = field(default_factory=dict)
    """Members of the class of the device."""
    module: str = __package__ or ""
    """The module that has the class."""

    @functools.cached_property
    def backend(self) -> type[Backend]:
        """Return the class of the device."""
        members = {"__doc__": self.sentence, "__module__": self.module, "faulty": self}
        if self.text is not None or self.program is not None:
            members["renderer"] = property(functools.partial(_EditedRenderer, self))
        return type(self.name, (self.base,), {**members, **self.methods})

    def edited(self, text: str) -> str:
        """Return a text as the broken renderer prints it."""
        return text if self.text is None else re.sub(*self.text, text, flags=re.MULTILINE)

    @property
    def device(self) -> str:
        """Return the name by which `--device` opens it."""
        return f"{self.module}:{self.name}"


class _EditedRenderer:
    """The renderer of a device, with its edits of programs and texts."""

    def __init__(self, faulty: FaultyDevice, device: Backend) -> None:
        self._faulty = faulty
        self._inner: Any = faulty.base.renderer.__get__(device)
        if hasattr(self._inner, "entry_name"):
            self.entry_name = self._inner.entry_name

    def render(self, program: Program) -> str:
        if self._faulty.program is not None:
            program = rewritten(program, self._faulty.program(program))
        return self._faulty.edited(self._inner.render(program))


class Simulated(TextBackend):
    """The PYTHON device as the one healthy base of faults.

    It has queue and memory of its own. `memory` are the calls of a healthy allocator, which wait
    for nothing. `counts` is what edits remember for the whole device.
    """

    faulty: ClassVar[FaultyDevice]

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.queue = self.faulty.queue()
        self.memory = HostAllocator(self.name)
        self.counts: Counter[str] = Counter()
        self._allocator = SimulatedMemory(self)
        if self.faulty.memory is not None:
            for name, call in self.faulty.memory(self).items():
                setattr(self._allocator, name, call)

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return SimulatedKernel(self, super().load(entry, binary).program)

    def record(self, launches: Sequence[Launch]) -> LaunchesInARow | None:
        return None if self.faulty.commands is None else self.faulty.commands(launches)

    def synchronize(self) -> None:
        self.queue.wait()
