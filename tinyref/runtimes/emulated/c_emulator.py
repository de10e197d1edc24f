"""A GPU emulated on the host: kernels of C-like languages, run through gcc, clang or tcc.

A dialect turns the text of a kernel into C or C++ of this host. The words of its language are in a
header of the folder `c_text`. float16 and bfloat16 are emulated on their bits (`small_floats.h`,
with operators in `operators.h`), matrix tiles by a table (`tiles.c`).

The emulator compiles the text and gives groups to threads. `scheduler.c` runs the work-items of a
group as fibers that switch at barriers and meet at tiles. Shared memory is poisoned for each group.
It is an error to write behind the end of a shared array, and if only some work-items reach a
barrier or a tile.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import math
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tinyref.errors import DeviceError, OrderError, UserError
from tinyref.renderers.c_language import EMULATED, TILE_PREFIX
from tinyref.runtimes.emulated.driver import (
    MAX_GROUP_SIZE,
    MAX_SHARED_BYTES,
    bytes_at,
    run_in_order,
    share_groups,
)
from tinyref.runtimes.host.clang import (
    SharedObject,
    Toolchain,
    compile_shared,
    load_shared,
    toolchain,
)

Extents = tuple[int, int, int]

_FOLDER = Path(__file__).parent / "c_text"
# Every kernel is called as `void emulated_NAME(void **buffers, const int *variables)`.
ENTRY_PREFIX = "emulated_"


@dataclass(frozen=True)
class Dialect:
    """A C-like language: its words, defined as C in `header` by TINYREF_ITEM and launch.h.

    kernel: the word before the function of a kernel.
    shared: the word before a shared array.
    vectors: maps the prefix of vector names, such as `float` of `float4`, to the type of a lane.
    lanes: the names of the lanes, a letter each after `lane_prefix`.
    left_out: words for its own compiler only, which are removed together with its includes.
    cpp_words: a text with one of these words is C++, which compiles more slowly than C: words of
    the language, or types whose operators only C++ has.
    arguments: the values of parameters with certain attributes. `[[buffer(3)]]` means buffer 3.
    """

    name: str
    header: str
    kernel: str
    shared: str
    vectors: Mapping[str, str] = field(default_factory=dict)
    lanes: str = "0123456789abcdef"
    lane_prefix: str = "s"
    left_out: tuple[str, ...] = ()
    cpp_words: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def prelude(self) -> str:
        """Return the text in front of the text of a kernel."""
        vectors = "".join(self._vector_types())
        words = f"#define {EMULATED}\n{text_of('launch.h')}{text_of('small_floats.h')}"
        return f"{words}{_tile_functions()}{self.header}{vectors}#line 1\n"

    def is_cpp(self, source: str) -> bool:
        """Return True if a text is compiled as C++."""
        return any(re.search(rf"\b{word}\b", source) for word in self.cpp_words)

    def _vector_types(self) -> Iterator[str]:
        """Yield vector types as structures, which every compiler has and no operator takes."""
        for name, element in self.vectors.items():
            for width in (2, 4, 8, 16):
                if width <= len(self.lanes):
                    lanes = ", ".join(self.lane_prefix + lane for lane in self.lanes[:width])
                    kind = f"{name}{width}"
                    yield f"typedef struct {{ {element} {lanes}; }} {kind};\n"
                    yield f"#define make_{kind}(...) (({kind}){{__VA_ARGS__}})\n"

    @functools.cached_property
    def digest(self) -> str:
        """Return a digest of the headers: they decide what a text means."""
        return hashlib.sha256(self.prelude.encode()).hexdigest()[:16]

    def as_c(self, source: str) -> str:
        """Return `source` as C of this host, with an entry for each kernel.

        Raises `DeviceError` if it has no kernel, or shared memory that is not an array.
        """
        # Lines must not move: errors name barriers by their line.
        source = re.sub(r"^[ \t]*#include.*$", "", source, flags=re.MULTILINE)
        for words in self.left_out:
            source = source.replace(words, "")
        # OpenCL C writes a vector as a cast of its lanes.
        if self.vectors:
            source = re.sub(rf"\((({'|'.join(self.vectors)})(2|4|8|16))\)\(", r"make_\1(", source)
        entries = [self._entry(name, text) for name, text in self._kernels(source)]
        if not entries:
            raise DeviceError(self.name, f"the source has no function marked {self.kernel}", source)
        return "".join([self.prelude, self._with_arrays(source), "\n", *entries])

    def _kernels(self, source: str) -> list[tuple[str, str]]:
        """Return name and parameters of each kernel."""
        parameters = r"(?:[^()]|\(\d+\))*"
        pattern = rf"\b{self.kernel}\b[^;{{}}]*?\b(\w+)\s*\(({parameters})\)\s*\{{"
        return re.findall(pattern, source)

    def _entry(self, name: str, parameters: str) -> str:
        """Return the function that passes buffers and variables to a kernel, in order."""
        parts = [text for text in parameters.split(",") if text.strip() not in ("", "void")]
        buffers = [text for text in parts if "*" in text]
        variables = [text for text in parts if "*" not in text]
        arguments = []
        for text in parts:
            attribute, number = _attribute_of(text)
            if attribute in self.arguments:
                arguments.append(self.arguments[attribute])
            elif "*" in text:
                position = buffers.index(text) if number is None else number
                arguments.append(f"({text.partition('*')[0]}*)buffers[{position}]")
            else:
                position = variables.index(text) if number is None else number - len(buffers)
                arguments.append(f"variables[{position}]")
        return (
            f"TINYREF_LINKAGE void {ENTRY_PREFIX}{name}(void **buffers, const int *variables) {{\n"
            f"  {name}({', '.join(arguments)});\n}}\n"
        )

    def _with_arrays(self, source: str) -> str:
        """Replace shared arrays by pointers to memory of the worker that runs the group."""
        words = rf"\b{self.shared}\b\s+(?:__align__\(\d+\)\s+)?"
        pattern = rf"{words}([\w ]+?)\s*\b(\w+)\s*\[([^\]]+)\][^;,=]*;"
        numbers = iter(range(source.count(self.shared)))

        def pointer(match: re.Match[str]) -> str:
            element, name, size = match.groups()
            memory = f"TINYREF_SHARED({next(numbers)}, sizeof({element}) * ({size}))"
            return f"{element} *{name} = ({element} *){memory};"

        changed = re.sub(pattern, pointer, source)
        left = re.search(rf"\b{self.shared}\b[^;*(){{}}]*;", changed)
        if left:
            raise DeviceError(
                self.name,
                f"{left[0]!r} is not shared memory that the emulator supports: accepted are "
                f"{self.shared} TYPE NAME[SIZE];",
                source,
            )
        return changed


def _attribute_of(parameter: str) -> tuple[str, int | None]:
    """Return the attribute of a parameter and its number; "" and None if there is none."""
    match = re.search(r"\[\[(\w+)(?:\((\d+)\))?\]\]", parameter)
    if not match:
        return "", None
    return match[1], int(match[2]) if match[2] else None


def text_of(file: str) -> str:
    """Return the text of a file of this folder."""
    return (_FOLDER / file).read_text(encoding="utf-8")


@functools.cache
def _tile_functions() -> str:
    """Return the functions of matrix tiles, numbered as in tiles.c."""
    names = re.findall(r"^TILE\((\w+)", text_of("tiles.c"), flags=re.MULTILINE)
    return "".join(
        f"#define {TILE_PREFIX}{name}(a, b, c) TINYREF_TILE({number}, a, b, c)\n"
        for number, name in enumerate(names)
    )


_OVERLOADS = text_of("overloads.h")
_WIDTHS = ("8", "16", "32", "64")

PLAIN = Dialect(
    "C",
    text_of("plain.h"),
    kernel="KERNEL",
    shared="SHARED",
    vectors={name: name for name in ("float", "double")}
    | {f"{sign}int{width}_t": f"{sign}int{width}_t" for sign in ("", "u") for width in _WIDTHS},
)
OPENCL = Dialect(
    "OpenCL C",
    text_of("opencl.h") + _OVERLOADS,
    kernel="__kernel",
    shared="__local",
    vectors={name: name for kind in ("char", "short", "int", "long") for name in (kind, f"u{kind}")}
    | {name: name for name in ("float", "double")},
)
CUDA = Dialect(
    "CUDA C++",
    text_of("cuda.h") + _OVERLOADS,
    kernel="__global__",
    shared="__shared__",
    vectors={
        "char": "signed char",
        "uchar": "unsigned char",
        "short": "short",
        "ushort": "unsigned short",
        "int": "int",
        "uint": "unsigned int",
        "longlong": "long long",
        "ulonglong": "unsigned long long",
        "float": "float",
        "double": "double",
    },
    lanes="xyzw",
    lane_prefix="",
    left_out=('extern "C"',),
)
# The index of a work-item in the grid, three numbers.
_INDEX_IN_GRID = ", ".join(
    f"TINYREF_ITEM->group_id[{number}] * TINYREF_ITEM->local_size[{number}] "
    f"+ TINYREF_ITEM->local_id[{number}]"
    for number in range(3)
)
METAL = Dialect(
    "MSL",
    text_of("operators.h") + text_of("metal.h"),
    kernel="kernel",
    shared="threadgroup",
    cpp_words=("kernel",),
    arguments={
        "threadgroup_position_in_grid": "metal::position(TINYREF_ITEM->group_id)",
        "thread_position_in_grid": f"metal::uint3{{{_INDEX_IN_GRID}}}",
        "thread_position_in_threadgroup": "metal::position(TINYREF_ITEM->local_id)",
    },
)
HIP = Dialect(
    "HIP C++",
    text_of("operators.h") + text_of("hip.h"),
    kernel="__global__",
    shared="__shared__",
    left_out=('extern "C"',),
    cpp_words=("_Float16",),
    vectors={
        "char_v": "signed char",
        "uchar_v": "unsigned char",
        "short_v": "short",
        "ushort_v": "unsigned short",
        "int_v": "int",
        "uint_v": "unsigned int",
        "longlong_v": "long long",
        "ulonglong_v": "unsigned long long",
        "half_v": "_Float16",
        "bfloat16_v": "bfloat16",
        "float_v": "float",
        "double_v": "double",
    },
)

# --- the emulator ---------------------------------------------------------------------------------

# Kernels of emulated devices are small and always new: the compiler that compiles fastest is best.
_COMPILERS = ("tcc", "gcc", "clang")
# Compilers of C++, which need an extra package for it.
_CPP_COMPILERS = ("gcc", "clang")
_CPP = ("-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fsigned-char", "-w")
# A worker counts groups in 32 bits.
MAX_GROUPS = 2**32 - 1

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_WORKER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_ulong)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *[ctypes.c_void_p] * 5,
    *[ctypes.c_uint32] * 3,
    ctypes.c_void_p,
)
# The results of tinyref_run, as in scheduler.c; the first one means success.
_PROBLEMS = (
    "",
    "there is not enough memory for its work-items",
    "not all work-items of the group arrive at the barrier of line {}",
    "its shared memory is larger than the limit, with the array of number {}",
    "it writes behind the end of the shared array of number {}",
    "not all work-items of a warp arrive at the matrix tile of line {}",
    "the fragments of a warp do not fit the matrix tile of line {}: they are no whole "
    "matrices, or work-items differ in an element that several hold",
)


def _tools(order: Sequence[str] = _COMPILERS) -> Toolchain:
    """Return a C toolchain without auto-vectorisation: gcc has bugs there (docs/found.md#gcc-1)."""
    tools = toolchain(order)
    return replace(tools, command=(*tools.command, "-O1"))


@functools.cache
def _cpp_tools(tools: Toolchain) -> Toolchain:
    """Return the same compiler, for C++. Raises `DeviceError` if it has none."""
    command = (*tools.command, *_CPP)
    try:
        compile_shared(command, "template <class T> T same(T x) { return x; }\n")
    except DeviceError as error:
        words = error.message.splitlines()[0]
        raise DeviceError(
            "emulator", f"{tools.name} cannot compile C++: apt-get install g++ ({words})"
        ) from error
    return replace(tools, command=command)


class CEmulator:
    """Compiles and runs kernels of `dialect`; errors name `device`.

    The flag EMU_ORDER decides if groups and work-items run forward, in reverse, or in both orders
    one after the other. A kernel that lacks a barrier then gives different results.
    """

    def __init__(self, device: str, dialect: Dialect) -> None:
        self.device = device
        self.dialect = dialect

    @property
    def version(self) -> str:
        """Return the version of the compiler. Raises `DeviceError` if there is none."""
        return self.tools[-1].version

    @property
    def key(self) -> str:
        """Return everything but the source that decides the result of `compile`."""
        tools = [(tool.version, *tool.command, tool.target) for tool in self.tools]
        return " ".join([*map(" ".join, tools), self.dialect.digest])

    def compile(self, source: str) -> bytes:
        """Return a shared object. Raises `DeviceError` with the compiler's errors and C source."""
        tools = self.tools[-1 if self.dialect.is_cpp(source) else 0]
        return compile_shared(tools.command, self.dialect.as_c(source))

    @property
    def tools(self) -> tuple[Toolchain, ...]:
        """Return the compiler of C and, if some texts are C++, the compiler of C++."""
        tools = _tools()
        if not self.dialect.cpp_words:
            return (tools,)
        return tools, _cpp_tools(_tools(_CPP_COMPILERS))

    def load(self, entry: str, binary: bytes) -> CFunction:
        """Load the kernel of that name. Raises `DeviceError` if there is none."""
        return CFunction(self.device, entry, load_shared(self.device, binary))


class CFunction:
    """A kernel of this process; `library` stays loaded as long as it may be called."""

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
        """Run all groups to their end. Raises `DeviceError` for a kernel that breaks a rule.

        sizes: the bytes of the buffers, which a text does not contain. Raises `UserError` for a
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
            math.prod(grid) * math.prod(group),
            lambda is_reverse: self._run(launch, math.prod(grid), is_reverse),
            self._differs,
        )

    def _differs(self, buffer: int, byte: int) -> DeviceError:
        return OrderError(
            self.device,
            f"{self.entry}: the order of work-items matters: byte {byte} of buffer {buffer} "
            "differs when they run in reverse",
        )

    def _run(self, launch: tuple[object, ...], count: int, is_reverse: bool) -> None:
        """Give the groups to threads, some at a time."""
        scheduler = _scheduler(_tools())

        def run(first: int, end: int) -> None:
            where = (ctypes.c_uint32 * 4)()
            with scheduler.worker() as worker:
                status = scheduler.run(worker, *launch, first, end - first, is_reverse, where)
            if status:
                problem = _PROBLEMS[status].format(where[3])
                raise DeviceError(self.device, f"{self.entry}: group {tuple(where[:3])}: {problem}")

        share_groups(count, run, is_reverse)


class _FiberScheduler:
    """The compiled scheduler and its workers; a worker runs groups of one thread at a time.

    A worker has the stacks of all work-items of a group, which live as long as the scheduler, for
    later launches.
    """

    def __init__(self, tools: Toolchain, options: Sequence[str] = ()) -> None:
        files = ("launch.h", "small_floats.h", "tiles.c", "scheduler.c")
        source = "".join(map(text_of, files))
        self._library = load_shared("emulator", compile_shared((*tools.command, *options), source))
        self._new = _WORKER(self._library.address("tinyref_worker"))
        self.run = _RUN(self._library.address("tinyref_run"))
        self._idle: list[int] = []
        free = _FREE(self._library.address("tinyref_free"))
        # Everything is freed at the end of the process anyway, and launches may still run.
        weakref.finalize(self, _free_workers, self._library, free, self._idle).atexit = False

    @contextlib.contextmanager
    def worker(self) -> Iterator[int]:
        """Yield an unused worker. Raises `DeviceError` if there is no memory for it."""
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
    """Free the memory of workers; `library` contains the function and must be loaded for it."""
    del library
    for worker in workers:
        free(worker)


_scheduler = functools.cache(_FiberScheduler)
