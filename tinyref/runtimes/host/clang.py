"""The CLANG device: C through whichever of gcc, clang and tcc is installed.

Its toolchain identifies the compiler, probes which types it supports, and calls it safely.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.contract import Availability
from tinyref.dtype import DType, dtypes
from tinyref.errors import DeviceError
from tinyref.machine import Machine
from tinyref.renderers.c import C_DTYPES, C_OPS, CRenderer
from tinyref.runtimes.driver_checks import NamedBackend
from tinyref.runtimes.host.description import host_machine
from tinyref.runtimes.host.memory import SCRATCH_BYTES, HostAllocator
from tinyref.runtimes.host.native import HostFunction
from tinyref.runtimes.host.threads import thread_count

# A compiler that takes longer than this hangs.
COMPILE_SECONDS = 120.0

COMPILERS = ("gcc", "clang", "tcc")

# Strict floats: no excess precision, and no contraction unless it is requested. A compiler may know
# only some of these options.
_PLAIN = ("-O2", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno")
_NATIVE = (*_PLAIN, "-march=native")
# For clang only: its instructions for sums over bytes drop lanes that this pass has combined
# (docs/found.md#llvm-1).
_CLANG = (*_NATIVE, "-mllvm", "-disable-vector-combine")
# For gcc only: version 12.2 uses wrong lanes for some loops (docs/found.md#gcc-1), and kernels have
# vectors of their own.
_GCC = (*_NATIVE, "-fexcess-precision=16", "-fno-tree-loop-vectorize")
_FLAG_SETS: tuple[tuple[str, ...], ...] = (
    # If gcc knows instructions for float16, its assembler refuses some of them (gcc-2).
    (*_GCC, "-mno-avx512fp16"),
    _GCC,
    (*_CLANG, "-Xclang", "-ffloat16-excess-precision=none"),
    _CLANG,
    _NATIVE,
    _PLAIN,
    (),
)
_PROBE_TYPE = ctypes.CFUNCTYPE(ctypes.c_int)
_PROBE = "int probe(void) { return 42; }\n"
# 1 + 2^-11 is a tie that rounds to 1 in float16, twice: 1 + 2^-10 shows excess precision.
_PROBE_HALF = """
static _Float16 sum(_Float16 a, _Float16 b) { return a + b + b; }
_Float16 narrow(double from) { return (_Float16)from; }
int probe(void) {
  volatile float one = 1.0f, tie = 0x1p-11f;
  volatile double wide = 1.0009765625000001;
  return sum((_Float16)one, (_Float16)tie) == (_Float16)1.0f && narrow(wide) > 1.0f ? 42 : 0;
}
"""
# Every form in which the renderer uses vectors. A compiler that does not know the attribute may
# ignore it, and the sizes are then wrong.
_PROBE_VECTORS = """
typedef float f4 __attribute__((vector_size(16)));
typedef int i4 __attribute__((vector_size(16)));
typedef unsigned char b4 __attribute__((vector_size(4)));
typedef double d16 __attribute__((vector_size(128)));
int probe(void) {
  float memory[5] = {0.0f, 1.0f, -2.0f, 3.0f, -4.0f};
  f4 x;
  __builtin_memcpy(&x, &memory[1], sizeof x);
  b4 flags = __builtin_convertvector(x < (f4){0}, b4) & 1;
  i4 mask = -__builtin_convertvector(flags, i4);
  f4 y = (f4)((mask & (i4)(-x)) | (~mask & (i4)x));
  f4 z = {y[3], y[2], y[1], y[0]};
  i4 shifted = (i4)((i4)__builtin_convertvector(z, i4) << mask * -1);
  return sizeof(f4) == 16 && sizeof(d16) == 128 && z[0] == 4.0f && shifted[1] == 6 ? 42 : 0;
}
"""
_VECTOR_LANES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Toolchain:
    """A compiler that works: its command line without files, its version, and its features.

    accepted: its types.
    vector_lanes: the widths of its vectors.
    target: distinguishes processors for which the same command produces different code.
    """

    command: tuple[str, ...]
    version: str
    accepted: frozenset[DType]
    vector_lanes: tuple[int, ...] = (1,)
    target: str = ""

    @property
    def name(self) -> str:
        """Return the program's name, without its folder."""
        return Path(self.command[0]).name


def chosen_compiler(order: Sequence[str] = COMPILERS) -> tuple[str, ...]:
    """Return the command of the C compiler: the flag CC, the variable CC, or the first of `order`.

    Raises `DeviceError` if there is none, and names what to install.
    """
    for origin, text in (("flag CC", config.text("CC")), ("CC", os.environ.get("CC", ""))):
        if not text:
            continue
        command = tuple(shlex.split(text))
        if not command or shutil.which(command[0]) is None:
            raise DeviceError(
                "CLANG", f"{origin} names the compiler {text!r}, which is not installed"
            )
        return command
    for name in order:
        if shutil.which(name):
            return (name,)
    raise DeviceError(
        "CLANG",
        f"no C compiler is installed: install one of {', '.join(COMPILERS)} or name one by CC",
    )


def toolchain(order: Sequence[str] = COMPILERS) -> Toolchain:
    """Return the compiler of `chosen_compiler`, probed once.

    It contracts products and sums only if the flag STRICT_FLOAT is 0. Raises `DeviceError` if no
    compiler works.
    """
    command = chosen_compiler(order)
    contraction = "off" if config.integer("STRICT_FLOAT") else "fast"
    return _probe((shutil.which(command[0]) or command[0], *command[1:]), contraction)


@functools.cache
def _probe(command: tuple[str, ...], contraction: str) -> Toolchain:
    plain = C_DTYPES - {dtypes.float16}
    failure: DeviceError | None = None
    for flags in _FLAG_SETS:
        full = (*command, *flags, f"-ffp-contract={contraction}") if flags else command
        try:
            if not _answers(full, _PROBE):
                continue
        except DeviceError as error:
            failure = error
            continue
        has_half = _passes(full, _PROBE_HALF)
        # A later set, except the last ones, may have float16 if this one does not.
        if has_half or flags in _FLAG_SETS[3:]:
            accepted = C_DTYPES if has_half else plain
            lanes = _VECTOR_LANES if _passes(full, _PROBE_VECTORS) else (1,)
            return Toolchain(full, tool_version(command), accepted, lanes, _target(full))
    reason = failure.message if failure else "it produces wrong code"
    raise DeviceError("CLANG", f"the compiler {command[0]} does not work: {reason}")


def _passes(command: Sequence[str], source: str) -> bool:
    """Return True if the compiler accepts `source` and the result is right."""
    with contextlib.suppress(DeviceError):
        return _answers(command, source)
    return False


def _target(command: Sequence[str]) -> str:
    """Return a digest of the compiler's macros: many depend on the processor."""
    with contextlib.suppress(DeviceError):
        defined = run_tool(
            [*command, "-dM", "-E", "-x", "c", os.devnull], Path(tempfile.gettempdir())
        )
        return hashlib.sha256(defined.encode()).hexdigest()[:16]
    return platform.machine()


def _answers(command: Sequence[str], source: str) -> bool:
    """Return True if `source`, compiled and loaded, gives the right answer."""
    binary = compile_shared(command, source)
    with load_shared("CLANG", binary) as library:
        answer: int = _PROBE_TYPE(library.address("probe"))()
    return answer == 42


def compile_shared(command: Sequence[str], source: str) -> bytes:
    """Compile `source` to a shared object; raises as `compile_file` does."""
    return compile_file((*command, "-shared"), "kernel.c", "kernel.so", source, "CLANG", ("-lm",))


def compile_file(
    command: Sequence[str],
    read: str,
    made: str,
    source: str,
    device: str,
    libraries: Sequence[str] = (),
) -> bytes:
    """Run a command on `source` as the file `read`, and return the file `made` that it writes.

    Raises `DeviceError` of `device` with the output of the command and the source. It leaves no
    file behind.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="tinyref-") as folder:
            path = Path(folder)
            (path / read).write_text(source)
            run_tool([*command, "-o", made, read, *libraries], path, source, device)
            return (path / made).read_bytes()
    except OSError as error:
        raise DeviceError(device, f"cannot compile: {error}", source) from error


def tool_version(command: Sequence[str], device: str = "CLANG") -> str:
    """Return the first line of a compiler's version text."""
    output = run_tool([*command, "--version"], Path(tempfile.gettempdir()), device=device)
    return output.strip().splitlines()[0] if output.strip() else "unknown"


def run_tool(command: Sequence[str], folder: Path, source: str = "", device: str = "CLANG") -> str:
    """Return the output of `command`, run in its own process group to kill it as a whole.

    Raises `DeviceError` of `device` with the tool's output and its source.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise DeviceError(device, f"cannot start {command[0]}: {error}", source) from error
    try:
        output, _ = process.communicate(timeout=COMPILE_SECONDS)
    except BaseException as error:
        _kill_group(process)
        if isinstance(error, subprocess.TimeoutExpired):
            message = f"{command[0]} did not end within {COMPILE_SECONDS:g} seconds"
            raise DeviceError(device, message, source) from error
        raise
    if process.returncode:
        message = f"{command[0]} failed with code {process.returncode}: {output.strip()}"
        raise DeviceError(device, message, source)
    return output


def _kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class SharedObject(contextlib.AbstractContextManager["SharedObject"]):
    """A loaded shared object, which is unloaded when it is closed or no longer referenced."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        # dlclose unloads it: ctypes does not, and a process may map only 65,530 areas on Linux.
        # Nothing is unloaded at exit: a kernel might still be reachable.
        unload = ctypes.CDLL(None).dlclose
        self._unload = weakref.finalize(self, unload, ctypes.c_void_p(self._library._handle))
        self._unload.atexit = False

    def __exit__(self, *exc: object) -> None:
        self.close()

    def address(self, name: str) -> int:
        """Return the address of the function `name`. Raises `DeviceError` if it is missing."""
        function = getattr(self._library, name, None)
        if function is None:
            raise DeviceError("CLANG", f"the compiled source has no function {name}")
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def close(self) -> None:
        """Unload the object; none of its functions may be called after this."""
        self._unload()


def load_shared(device: str, binary: bytes) -> SharedObject:
    """Load a shared object from its bytes; its file is removed at once.

    Raises `DeviceError` with the loader's message.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="tinyref-") as folder:
            path = Path(folder) / "kernel.so"
            path.write_bytes(binary)
            return SharedObject(path)
    except OSError as error:
        raise DeviceError(device, f"cannot load a compiled kernel: {error}") from error


# --- the device -----------------------------------------------------------------------------------


class CCompiler:
    """Compiles C source to a shared object, with one toolchain."""

    def __init__(self, tools: Toolchain) -> None:
        self.tools = tools

    @property
    def key(self) -> str:
        return f"{self.tools.version} {' '.join(self.tools.command)} {self.tools.target}"

    def compile(self, source: str) -> bytes:
        return compile_shared(self.tools.command, source)


class ClangBackend(NamedBackend):
    """Kernels as C, compiled to shared objects of this process.

    The compiler is the one that the CC flag names at each compile, so one device can use several.
    """

    title = "host processor, C through gcc, clang or tcc"
    base = "CLANG"
    survives_fork = True
    environment = ("CC",)

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = HostAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        try:
            tools = toolchain()
        except DeviceError as error:
            return Availability(False, error.message)
        return Availability(True, tools.version)

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities(toolchain(), thread_count(), host_machine())

    @property
    def renderer(self) -> CRenderer:
        return CRenderer(self.capabilities)

    @property
    def compiler(self) -> CCompiler:
        return CCompiler(toolchain())

    def load(self, entry: str, binary: bytes) -> HostFunction:
        library = load_shared(self.name, binary)
        return HostFunction(self.name, library.address(entry), library)

    def versions(self) -> dict[str, str]:
        tools = toolchain()
        return {"compiler": tools.version, "command": " ".join(tools.command)}


@functools.cache
def _capabilities(tools: Toolchain, threads: int, machine: Machine) -> Capabilities:
    return Capabilities(
        dtypes=tools.accepted,
        # Decomposed to vectors they are faster than the C library, and their bits those of CPU.
        ops=C_OPS - ELEMENTARY_OPS,
        vector_lanes=tools.vector_lanes,
        shared_bytes=SCRATCH_BYTES,
        threads=threads,
        machine=machine,
        division_traps=True,
    )
