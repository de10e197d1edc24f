"""Kernels that can be called or bound to arguments for a replay, made from programs.

A program is rendered, compiled or fetched from the cache, and loaded.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from tinyref import config
from tinyref.algebra.evaluate import bound_value, launch_grid
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel, kernel_name
from tinyref.codegen.decompose import elements_in
from tinyref.codegen.decompose.check import check_program
from tinyref.contract import (
    Backend,
    BatchCompiler,
    CommandList,
    Handle,
    Launch,
    Launchable,
    PreparableKernel,
    PreparedLaunch,
    entry_point,
)
from tinyref.device import Buffer, Device
from tinyref.dtype import DType
from tinyref.errors import DeviceError, UserError
from tinyref.optimise.opt import Opt, checked_opts
from tinyref.profile import span
from tinyref.runtimes.cache import cached_binary, compile_together, recompile
from tinyref.runtimes.stored_programs import stored_program
from tinyref.uops.node import UOp
from tinyref.uops.payload import VarArg
from tinyref.uops.program import WORD, Parameter, Program, offset_name, slots_in_words, word_count

# Loaded kernels are cached in the process; the oldest are dropped beyond this number. Each takes 60
# to 100 KB and a few memory maps, and a process may have only 65,530 maps.
MAX_KERNELS = 1024

# Flags that change the compiled code; flags of the compiler are part of its key.
COMPILE_FLAGS = (
    "STRICT_FLOAT",
    "NOOPT",
    "BISECT",
    "TC",
    "TC_LEVEL",
    "TRANSCENDENTAL",
    "THREADS",
    "MACHINE",
)

T = TypeVar("T")
Extents = tuple[int, int, int]


class Kernel:
    """A loaded program of one device.

    program, source: what was compiled, for reports. A source of None is rendered on demand.
    name: the entry point.
    """

    def __init__(
        self, device: str, program: Program, source: str | None, launch: Launchable
    ) -> None:
        self.device = device
        self.program = program
        self._source = source
        self.launchable = launch
        self._variables = [node.arg for node in program.variables if isinstance(node.arg, VarArg)]
        in_words = slots_in_words(program)
        slots = [parameter.slot for parameter in program.parameters]
        self._words = {slots.index(slot): dtype for slot, dtype in in_words.items()}
        self._offsets = {offset_name(slots[position]): position for position in self._words}

    @property
    def name(self) -> str:
        """Return the entry point of the program."""
        return self.program.name

    @property
    def source(self) -> str:
        """Return the text of the program in the language of the device."""
        if self._source is None:
            self._source = Device[self.device].renderer.render(self.program)
        return self._source

    def __repr__(self) -> str:
        return f"Kernel({self.name!r} on {self.device})"

    def __call__(
        self,
        buffers: Sequence[Buffer],
        bindings: Mapping[str, int] | None = None,
        wait: bool = False,
    ) -> float | None:
        """Launch the kernel on `buffers`, one for each parameter in the order of the slots.

        `bindings` gives each variable its value. With `wait`, returns the seconds taken. Raises
        `UserError` if a buffer does not fit its parameter, or a value its variable.
        """
        values = bindings or {}
        self.check_buffers(buffers)
        variables = self.values(values, buffers)
        grid = self.grid(values)
        if 0 in grid:
            return 0.0 if wait else None
        handles = [self.handle(position, buffer) for position, buffer in enumerate(buffers)]
        return self.launchable(handles, grid, self.program.group, variables, wait)

    def grid(self, bindings: Mapping[str, int]) -> tuple[int, int, int]:
        """Return the groups of a launch for these values of the variables."""
        if self.program.grid == (1, 1, 1):
            return (1, 1, 1)
        return launch_grid(self.program, bindings)

    @property
    def has_words(self) -> bool:
        """Return True if variables of a launch include the offsets of buffers in words."""
        return bool(self._words)

    def misfit(self, position: int, buffer: Buffer) -> str | None:
        """Return why `buffer` cannot be the one of this parameter, or None if it can."""
        return _misfit(self.program.parameters[position], buffer, self.device)

    def check_buffers(self, buffers: Sequence[Buffer]) -> None:
        """Raise `UserError` unless there is one buffer that fits for each parameter."""
        parameters = self.program.parameters
        if len(buffers) != len(parameters):
            raise UserError(
                f"{self.name}: got {len(buffers)} buffers, the kernel takes {len(parameters)}"
            )
        for parameter, buffer in zip(parameters, buffers, strict=True):
            problem = _misfit(parameter, buffer, self.device)
            if problem:
                raise UserError(f"{self.name}: buffer {parameter.slot}: {problem}")

    def values(self, bindings: Mapping[str, int], buffers: Sequence[Buffer]) -> list[int]:
        """Return the values of the variables in order. Raises `UserError` for a wrong one.

        `bindings` does not contain the variables for offsets of buffers in words.
        """
        return [
            bound_value(variable, bindings, self.name)
            if variable.name not in self._offsets
            else self._offset(self._offsets[variable.name], buffers)
            for variable in self._variables
        ]

    def _offset(self, position: int, buffers: Sequence[Buffer]) -> int:
        return buffers[position].offset % WORD.itemsize // self._words[position].itemsize

    def handle(self, position: int, buffer: Buffer) -> Handle:
        """Return the handle of a buffer for a launch; for some parameters, of whole words."""
        dtype = self._words.get(position)
        if dtype is None:
            return buffer.handle
        base = buffer.allocate() if buffer.base is None else buffer.base
        first = buffer.offset - buffer.offset % WORD.itemsize
        words = word_count(dtype, self.program.parameters[position].size, is_shifted=True)
        allocator = Device[self.device].allocator
        return allocator.view(base.handle, first, words * WORD.itemsize)


def _misfit(parameter: Parameter, buffer: Buffer, device: str) -> str | None:
    """Return why `buffer` does not fit `parameter`, or None if it does."""
    want: DType = parameter.dtype
    if not isinstance(buffer, Buffer):
        return f"got {type(buffer).__name__}, accepted is a Buffer"
    if Device.canonical(buffer.device) != device:
        return f"is on {buffer.device}, the kernel runs on {device}"
    elements = elements_in(buffer.dtype, want)
    if not elements:
        return f"holds {buffer.dtype.name}, accepted is {want.name}"
    if buffer.size * elements < parameter.size:
        return f"has {buffer.size} elements, the kernel reaches {parameter.size // elements}"
    # Most buffers begin where their memory does, and need no question to the device.
    if buffer.offset:
        # Both are powers of two.
        alignment = max(want.itemsize, Device[device].capabilities.view_alignment)
        if buffer.offset % alignment:
            return f"starts {buffer.offset} bytes in, accepted are multiples of {alignment}"
    return None


class Recent(Generic[T]):
    """A dictionary that drops the least recently used entries; threads may share it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)
        self._entries: OrderedDict[Hashable, T] = OrderedDict()

    def _renew_lock(self) -> None:
        """Replace the lock in a forked child: a thread that held it cannot release it there."""
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: Hashable, value: T) -> T:
        dropped = []
        with self._lock:
            self._entries[key] = value
            while len(self._entries) > self.limit:
                dropped.append(self._entries.popitem(last=False))
        # Outside of the lock, because unloading takes time.
        dropped.clear()
        return value

    def clear(self) -> None:
        with self._lock:
            entries, self._entries = self._entries, OrderedDict()
        entries.clear()


_by_program: Recent[Kernel] = Recent(MAX_KERNELS)
_by_ast: Recent[Kernel] = Recent(MAX_KERNELS)
_programs: Recent[Program] = Recent(MAX_KERNELS)


def forget_kernels() -> None:
    """Drop every loaded kernel of this process, so that the next call compiles again."""
    _by_program.clear()
    _by_ast.clear()
    _programs.clear()


# Called with each program before its device loads it, by harnesses that record requests.
load_watchers: list[Callable[[str, Program], None]] = []

# Maps a device and a kernel AST to the kernel that runs there.
KernelMaker = Callable[[str, UOp], Kernel]
_maker: ContextVar[KernelMaker | None] = ContextVar("tinyref_kernel_maker", default=None)


@contextlib.contextmanager
def making_kernels(maker: KernelMaker) -> Iterator[None]:
    """Let `maker` make the kernels of this thread within the block, also those of pickles.

    Harnesses use it to run a schedule by other means than the ones that they judge.
    """
    token = _maker.set(maker)
    try:
        yield
    finally:
        _maker.reset(token)


def restored_kernel(device: str, ast: UOp, program: Program) -> Kernel:
    """Return the kernel of `ast`, saved as `program`. Raises as `compile_program` does."""
    maker = _maker.get()
    return compile_program(device, program) if maker is None else maker(device, ast)


def _flags() -> tuple[config.FlagValue, ...]:
    return tuple(config.get(name) for name in COMPILE_FLAGS)


def compile_program(device: str, program: Program) -> Kernel:
    """Return the kernel of `program` on `device`: rendered, compiled (or cached) and loaded.

    Raises `UserError` for a program that the device cannot express, `DeviceError` if its compiler
    or driver fails.
    """
    canonical = Device.canonical(device)
    backend = Device[canonical]
    key = (canonical, backend.compiler.key, _flags(), program)
    known = _by_program.get(key)
    if known is not None:
        return known
    check_program(program, backend.capabilities)
    for watch in load_watchers:
        watch(canonical, program)
    launch = backend.interpret(program)
    source = None
    if launch is None:
        source = backend.renderer.render(program)
        launch = _load(backend, entry_point(backend.renderer, program), source)
    return _by_program.put(key, Kernel(canonical, program, source, launch))


def _load(backend: Backend, entry: str, source: str) -> Launchable:
    cached = cached_binary(backend, source)
    if cached is not None:
        # Another machine or person may have made it, and a backend may reject it with any error.
        with contextlib.suppress(Exception):
            return backend.load(entry, cached)
    return backend.load(entry, recompile(backend, source))


def compile_ahead(device: str, programs: Sequence[Program]) -> int:
    """Compile those of `programs` that are not compiled yet in one call, for later use.

    Returns their number: 0 if the compiler takes one source at a time. A program that does not
    render is left out. Raises what `compile_many` raises.
    """
    canonical = Device.canonical(device)
    backend = Device[canonical]
    sources = []
    for program in programs:
        if _by_program.get((canonical, backend.compiler.key, _flags(), program)) is None:
            with contextlib.suppress(Exception):  # it comes again when the program is requested
                check_program(program, backend.capabilities)
                sources.append(backend.renderer.render(program))
    return compile_together(backend, sources)


def compile_kernels_together(device: str, programs: Sequence[Program]) -> list[Kernel]:
    """Compile programs without a cache, in one call if the compiler offers that.

    Raises as `compile_program` does.
    """
    canonical = Device.canonical(device)
    backend, compiler = Device[canonical], Device[canonical].compiler
    for program in programs:
        check_program(program, backend.capabilities)
    if any(backend.interpret(program) for program in programs):
        return [compile_program(canonical, program) for program in programs]
    sources = [backend.renderer.render(program) for program in programs]
    if isinstance(compiler, BatchCompiler):
        results = compiler.compile_many(sources)
    else:
        results = [compiler.compile(source) for source in sources]
    kernels = []
    for program, source, result in zip(programs, sources, results, strict=True):
        if isinstance(result, DeviceError):
            raise result
        launch = backend.load(entry_point(backend.renderer, program), result)
        kernels.append(Kernel(canonical, program, source, launch))
    return kernels


def compile_ast(device: str, ast: UOp, opts: Sequence[Opt] | None = None) -> Kernel:
    """Return the kernel of a kernel AST on `device`; `opts` and errors as for `compile_kernel`.

    Raises what `compile_program` raises, too.
    """
    canonical = Device.canonical(device)
    maker = _maker.get()
    if maker is not None:
        return maker(canonical, ast)
    backend = Device[canonical]
    chosen = None if opts is None else checked_opts(opts)
    key = (canonical, backend.compiler.key, _flags(), chosen, ast)
    known = _by_ast.get(key)
    if known is not None:
        return known
    if not backend.capabilities.ops:
        other = Device.default if Device.default != canonical else "CPU"
        raise UserError(
            f"kernel: {canonical} holds data but runs no kernels: copy the elements with "
            f".to({other!r}), and compute there; .to({canonical!r}) copies a result back"
        )
    with span("compile", kernel_name(ast), device=canonical):
        kernel = compile_program(canonical, lowered_program(ast, backend.capabilities, chosen))
    return _by_ast.put(key, kernel)


def lowered_program(
    ast: UOp, capabilities: Capabilities, opts: tuple[Opt, ...] | None = None
) -> Program:
    """Return the program of a kernel AST, shared by devices with equal declarations.

    Raises as `compile_kernel`.
    """
    flags = _flags()
    key = (capabilities, flags, opts, ast)
    known = _programs.get(key)
    if known is not None:
        return known
    lower = functools.partial(compile_kernel, ast, capabilities, opts=opts)
    return _programs.put(key, stored_program(ast, capabilities, opts, flags, lower))


# --- launches with bound arguments ----------------------------------------------------------------


class RepeatedCall:
    """A prepared launch for backends without one: it stores the arguments."""

    def __init__(
        self,
        kernel: Launchable,
        buffers: Sequence[Handle],
        grid: Extents,
        group: Extents,
        variables: Sequence[int],
    ) -> None:
        self._kernel = kernel
        self._handles = list(buffers)
        self._grid, self._group = grid, group
        self._variables = list(variables)

    def __call__(self) -> None:
        self._kernel(self._handles, self._grid, self._group, self._variables)

    def rebind(self, place: int, handle: Handle) -> None:
        self._handles[place] = handle

    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        self._grid = grid
        self._variables = list(variables)


class LaunchesInARow:
    """A command list of prepared launches, for devices whose launches are done on return."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches: list[Any] = [prepared(launch) for launch in launches]

    def __call__(self) -> None:
        for launch in self._launches:
            launch()

    def rebind(self, launch: int, place: int, handle: Handle) -> None:
        self._launches[launch].rebind(place, handle)

    def vary(self, launch: int, grid: Extents, variables: Sequence[int]) -> None:
        self._launches[launch].vary(grid, variables)


def prepared(launch: Launch) -> PreparedLaunch:
    """Return the launch with its arguments bound, by the kernel itself if it offers that."""
    kernel = launch.kernel
    arguments = (launch.buffers, launch.grid, launch.group, launch.variables)
    if isinstance(kernel, PreparableKernel):
        return kernel.prepare(*arguments)
    return RepeatedCall(kernel, *arguments)


class BoundKernel:
    """A kernel bound to buffers and to values of its variables; both can be exchanged.

    `prepare` returns its launch alone, and `record` its launch among others. An exchange affects
    the last one that was made.
    is_empty: there is nothing to launch.
    """

    def __init__(
        self, kernel: Kernel, buffers: Sequence[Buffer], bindings: Mapping[str, int]
    ) -> None:
        """Raise `UserError` as calling the kernel does."""
        self.kernel = kernel
        self.buffers = list(buffers)
        kernel.check_buffers(buffers)
        self.bindings = bindings
        self.is_empty = 0 in kernel.grid(bindings)
        # They exchange a buffer and the variables of the launch that was made last.
        self._rebind: Callable[[int, Handle], object] | None = None
        self._vary: Callable[[Extents, Sequence[int]], object] | None = None

    def launch(self) -> Launch:
        """Return the launch with all its arguments as they are now."""
        kernel, bindings = self.kernel, self.bindings
        handles = [kernel.handle(number, buffer) for number, buffer in enumerate(self.buffers)]
        return Launch(
            kernel.launchable,
            tuple(handles),
            kernel.grid(bindings),
            kernel.program.group,
            tuple(kernel.values(bindings, self.buffers)),
        )

    def prepare(self) -> PreparedLaunch:
        """Return a launch of this kernel alone."""
        launch = prepared(self.launch())
        self._rebind, self._vary = launch.rebind, launch.vary
        return launch

    @property
    def has_variables(self) -> bool:
        """Return True if the values of variables change anything."""
        return bool(self.kernel.program.variables)

    def rebind(self, position: int, buffer: Buffer) -> None:
        """Bind `buffer` to the parameter number `position` from now on."""
        if not _is_alike(buffer, self.buffers[position]):
            problem = self.kernel.misfit(position, buffer)
            if problem:
                raise UserError(f"{self.kernel.name}: buffer {position}: {problem}")
        # Missing memory is allocated here: if that fails, nothing has changed.
        handle = None if self._rebind is None else self.kernel.handle(position, buffer)
        is_shifted = buffer.offset != self.buffers[position].offset
        self.buffers[position] = buffer
        if self._rebind is not None:
            self._rebind(position, handle)
        if is_shifted and self.kernel.has_words:
            self.vary(self.bindings)

    def vary(self, bindings: Mapping[str, int]) -> None:
        """Set the variables to the values of `bindings` from now on."""
        self.bindings = bindings
        grid = self.kernel.grid(bindings)
        self.is_empty = 0 in grid
        if self._vary is not None and not self.is_empty:
            self._vary(grid, self.kernel.values(bindings, self.buffers))


def record(kernels: Sequence[BoundKernel]) -> CommandList | None:
    """Record the launches of kernels of one device, none of them empty, as one list.

    Return None if there are fewer than two, or if the device offers no lists.
    """
    if len(kernels) < 2:
        return None
    backend = Device[kernels[0].kernel.device]
    commands = backend.record([bound.launch() for bound in kernels])
    if commands is not None:
        for number, bound in enumerate(kernels):
            bound._rebind = functools.partial(commands.rebind, number)
            bound._vary = functools.partial(commands.vary, number)
    return commands


def _is_alike(one: Buffer, other: Buffer) -> bool:
    """Return True if a kernel that accepts one of two buffers certainly accepts the other."""
    return (
        one.size == other.size
        and one.offset == other.offset
        and one.dtype is other.dtype
        and one.device == other.device
    )
