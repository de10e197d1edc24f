"""Kernels of a C-like language on this host: compiled by gcc, clang or tcc, run as fibers."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tinyref.errors import DeviceError, OrderError, UserError
from tinyref.runtimes.emulated.c_text.dialects import ENTRY_PREFIX, Dialect, text_of
from tinyref.runtimes.emulated.memory import (
    MAX_GROUP_SIZE,
    MAX_SHARED_BYTES,
    bytes_at,
    run_in_order,
)
from tinyref.runtimes.host.clang import (
    SharedObject,
    Toolchain,
    compile_shared,
    load_shared,
    toolchain,
)
from tinyref.runtimes.host.threads import run_groups, thread_count

Extents = tuple[int, int, int]

# Kernels of emulated devices are small and new each time: what compiles quickest is best.
_COMPILERS = ("tcc", "gcc", "clang")
# Of C++, for which they need a package of its own.
_CPP_COMPILERS = ("gcc", "clang")
_CPP = ("-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fsigned-char", "-w")
# A worker must be able to count them.
MAX_GROUPS = 2**32 - 1
# A launch is cut into more pieces than threads, for groups may take unlike times.
_PIECES_PER_THREAD = 4

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_WORKER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_ulong)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *[ctypes.c_void_p] * 5,
    *[ctypes.c_uint32] * 3,
    ctypes.c_void_p,
)
# What tinyref_run gives, as in scheduler.c; the first is that all went well.
_PROBLEMS = (
    "",
    "there is no memory for its work-items",
    "not all work-items of the group arrive at the barrier of line {}",
    "its shared memory is more than there is, with the array of number {}",
    "it writes behind the end of the shared array of number {}",
    "not all work-items of a warp arrive at the matrix tile of line {}",
    "the fragments of a warp are not those of the matrix tile of line {}: they are no whole "
    "matrices, or work-items differ in an element that several hold",
)


def _tools(order: Sequence[str] = _COMPILERS) -> Toolchain:
    """Without vectors that a compiler finds itself: gcc gets some wrong (docs/found.md#gcc-1)."""
    tools = toolchain(order)
    return replace(tools, command=(*tools.command, "-O1"))


@functools.cache
def _cpp_tools(tools: Toolchain) -> Toolchain:
    """The same compiler, for C++. Raises `DeviceError` where it has none."""
    command = (*tools.command, *_CPP)
    try:
        compile_shared(command, "template <class T> T same(T x) { return x; }\n")
    except DeviceError as error:
        words = error.message.splitlines()[0]
        raise DeviceError(
            "emulator", f"{tools.name} compiles no C++: apt-get install g++ ({words})"
        ) from error
    return replace(tools, command=command)


class CEmulator:
    """Compiles and runs kernels of `dialect`; errors are those of `device`.

    The flag EMU_ORDER says whether the first group and work-item come first, the last ones, or both
    one after the other: a kernel that lacks a barrier gives another result then.
    """

    def __init__(self, device: str, dialect: Dialect) -> None:
        self.device = device
        self.dialect = dialect

    @property
    def version(self) -> str:
        """What the compiler says of itself. Raises `DeviceError` where there is none."""
        return self.tools[-1].version

    @property
    def key(self) -> str:
        """All that decides what `compile` makes of a source."""
        tools = [(each.version, *each.command, each.target) for each in self.tools]
        return " ".join([*map(" ".join, tools), self.dialect.digest])

    def compile(self, source: str) -> bytes:
        """A shared object. Raises `DeviceError` with the compiler's words and the C source."""
        tools = self.tools[-1 if self.dialect.is_cpp(source) else 0]
        return compile_shared(tools.command, self.dialect.as_c(source))

    @property
    def tools(self) -> tuple[Toolchain, ...]:
        """The compiler of C, and where some texts are C++ the one of that."""
        tools = _tools()
        if not self.dialect.cpp_words:
            return (tools,)
        return tools, _cpp_tools(_tools(_CPP_COMPILERS))

    def load(self, entry: str, binary: bytes) -> CFunction:
        """The kernel of that name. Raises `DeviceError` where there is none."""
        return CFunction(self.device, entry, load_shared(self.device, binary))


class CFunction:
    """A kernel of this process; `library` is loaded as long as it may be called."""

    def __init__(self, device: str, entry: str, library: SharedObject) -> None:
        self.device = device
        self.entry = entry
        self._library = library
        self._function = _ENTRY(library.address(ENTRY_PREFIX + entry))

    def __call__(
        self,
        addresses: Sequence[int],
        variables: Sequence[int],
        grid: Extents,
        group: Extents,
        sizes: Sequence[int] = (),
    ) -> None:
        """Runs all groups to their end. Raises `DeviceError` for a kernel that breaks a rule.

        `sizes` are the bytes of the buffers, which a text does not say. Raises `UserError` for a
        group of more than `MAX_GROUP_SIZE` work-items.
        """
        if math.prod(group) > MAX_GROUP_SIZE or math.prod(grid) > MAX_GROUPS:
            raise UserError(
                f"{self.device}: grid {grid} and group {group}: accepted are up to "
                f"{MAX_GROUPS} groups of {MAX_GROUP_SIZE} work-items"
            )
        buffers = (ctypes.c_void_p * len(addresses))(*addresses)
        values = (ctypes.c_int32 * len(variables))(*variables)
        extents = (ctypes.c_uint32 * 6)(*group, *grid)
        launch = (self._function, buffers, values, extents)
        pieces = [bytes_at(*piece) for piece in zip(addresses, sizes, strict=bool(sizes))]
        run_in_order(
            pieces,
            lambda is_reverse: self._run(launch, math.prod(grid), is_reverse),
            self._differs,
        )

    def _differs(self, place: int, byte: int) -> DeviceError:
        return OrderError(
            self.device,
            f"{self.entry}: the order of work-items matters: byte {byte} of buffer {place} differs "
            "when they run in reverse",
        )

    def _run(self, launch: tuple[object, ...], count: int, is_reverse: bool) -> None:
        """Hands the groups to threads, some at a time."""
        scheduler = _scheduler(_tools())
        threads = thread_count()
        pieces = min(count, threads * _PIECES_PER_THREAD if threads > 1 else 1)

        def run_piece(index: int) -> None:
            index = pieces - 1 - index if is_reverse else index
            first, end = count * index // pieces, count * (index + 1) // pieces
            where = (ctypes.c_uint32 * 4)()
            with scheduler.worker() as worker:
                status = scheduler.run(worker, *launch, first, end - first, is_reverse, where)
            if status:
                problem = _PROBLEMS[status].format(where[3])
                raise DeviceError(self.device, f"{self.entry}: group {tuple(where[:3])}: {problem}")

        run_groups(run_piece, pieces)


class _Scheduler:
    """The compiled scheduler, and its workers, each of which runs groups of one thread at a time.

    A worker has the stacks of all work-items of a group: they are kept for later launches, as long
    as the scheduler.
    """

    def __init__(self, tools: Toolchain, options: Sequence[str] = ()) -> None:
        files = ("launch.h", "small_floats.h", "tiles.c", "scheduler.c")
        source = "".join(map(text_of, files))
        self._library = load_shared("emulator", compile_shared((*tools.command, *options), source))
        self._new = _WORKER(self._library.address("tinyref_worker"))
        self.run = _RUN(self._library.address("tinyref_run"))
        self._idle: list[int] = []
        free = _FREE(self._library.address("tinyref_free"))
        # At the end of the process all is given back anyway, and launches may still run.
        weakref.finalize(self, _free_workers, self._library, free, self._idle).atexit = False

    @contextlib.contextmanager
    def worker(self) -> Iterator[int]:
        """A worker that nobody else uses. Raises `DeviceError` where there is no memory for it."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._new(MAX_GROUP_SIZE, MAX_SHARED_BYTES)
        if not worker:
            raise DeviceError("emulator", "the host has no memory for the stacks of a group")
        try:
            yield worker
        finally:
            self._idle.append(worker)


def _free_workers(
    library: SharedObject, free: Callable[[int], object], workers: Sequence[int]
) -> None:
    """Gives back what workers hold; `library` has the function and is loaded until then."""
    del library
    for worker in workers:
        free(worker)


@functools.cache
def _scheduler(tools: Toolchain) -> _Scheduler:
    return _Scheduler(tools)
