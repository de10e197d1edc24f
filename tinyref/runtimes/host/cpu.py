"""The CPU device: LLVM from the llvmlite wheel, so a fresh machine needs no compiler."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.contract import Availability, Launch
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.machine import Machine
from tinyref.renderers.llvm import LLVM_DTYPES, LLVM_OPS, LlvmRenderer
from tinyref.runtimes.driver_checks import NamedBackend
from tinyref.runtimes.host.description import host_machine
from tinyref.runtimes.host.memory import SCRATCH_BYTES, HostAllocator
from tinyref.runtimes.host.native import ENTRY, SOURCE, HostCommandList, HostFunction
from tinyref.runtimes.host.threads import thread_count

_library_numbers = itertools.count()
_module_numbers = itertools.count()

# Loading slows down with every kernel that an LLJIT has ever loaded.
KERNELS_PER_LINKER = 256
# llvmlite leaks 5 KB for each pair of passes and builder, which adds up in a long process. A
# builder also slows down with every module that it processes.
MODULES_PER_BUILDER = 64

# Loop strength reduction rewrites addresses that the renderer already made simple, and takes up to
# three quarters of the emission of a long unrolled loop. The scheduler took a sixth of LLVM's time
# without making kernels faster: the renderer already orders instructions for few live values, and
# processors reorder them. Level 0 uses neither.
_SLOW_PASSES = ("-disable-lsr=true", "-enable-misched=false")
_OPPOSITE = {"true": "false", "false": "true"}
_options_lock = threading.RLock()

# Names that compiled code may call: those of the op table, and those that LLVM makes of loops.
_SYMBOLS = (
    "exp2",
    "exp2f",
    "log2",
    "log2f",
    "sin",
    "sinf",
    "pow",
    "powf",
    "trunc",
    "truncf",
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
)
_MATH_LIBRARIES = {
    "linux": ("libm.so.6", "libm.so"),
    "darwin": ("libSystem.B.dylib",),
    "win32": ("ucrtbase.dll", "msvcrt.dll"),
}


class LlvmCompiler:
    """Compiles LLVM IR text to an object file of this host, at the level of the flag CPU_LEVEL."""

    # Functions that a kernel may call in addition to those of the C library.
    functions: frozenset[str] = frozenset()

    def __init__(self, device: str) -> None:
        self.device = device

    @property
    def key(self) -> str:
        level = config.integer("CPU_LEVEL")
        without = " ".join(faulty_passes()) if level > 1 else ""
        return f"{_host_key()} level {level} {without}".rstrip()

    def compile(self, source: str) -> bytes:
        level = config.integer("CPU_LEVEL")
        try:
            module = llvm.parse_assembly(source)
            module.verify()
            self._check_symbols(module, source)
            machine = _target_machine(level)
            module.triple, module.data_layout = _target(level)
            self.optimise(module, machine, level)
            with _options(*(_SLOW_PASSES if level == 1 else ())):
                binary: bytes = machine.emit_object(module)
        except RuntimeError as error:
            raise DeviceError(self.device, f"LLVM refused the source: {error}", source) from error
        return binary

    def optimise(self, module: Any, machine: Any, level: int) -> None:
        """Run three cheap passes at level 1 (2 ms a kernel), all passes at 2 and 3 (12 ms)."""
        if level == 1:
            run_cheap_passes(module, machine)
        elif level > 1:
            run_all_passes(module, machine, level)

    def _check_symbols(self, module: Any, source: str) -> None:
        """Raise `DeviceError` with a missing function; the linker would not name it."""
        known = {*_symbols(), *self.functions}
        for function in module.functions:
            name = function.name
            if function.is_declaration and not name.startswith("llvm.") and name not in known:
                message = f"the C library here has no function {name}"
                raise DeviceError(self.device, message, source)


class CpuBackend(NamedBackend):
    """Kernels as functions of this process, compiled by LLVM for the host's own processor."""

    title = "host processor, LLVM through llvmlite"
    base = "CPU"
    survives_fork = True

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = HostAllocator(self.name)
        self._compiler = LlvmCompiler(self.name)
        self._declared: Capabilities | None = None

    @classmethod
    def availability(cls) -> Availability:
        return llvm_availability()

    @property
    def capabilities(self) -> Capabilities:
        threads, machine, last = thread_count(), host_machine(), self._declared
        # Every launch asks, and hashing a machine takes as long as the rest.
        if last is None or last.machine is not machine or last.threads != threads:
            last = self._declared = _capabilities(threads, machine)
        return last

    @functools.cached_property
    def renderer(self) -> LlvmRenderer:
        return LlvmRenderer()

    @property
    def compiler(self) -> LlvmCompiler:
        return self._compiler

    def load(self, entry: str, binary: bytes) -> HostFunction:
        tracker = link_object(self.name, binary, [entry])
        return HostFunction(self.name, tracker[entry], tracker)

    def record(self, launches: Sequence[Launch]) -> HostCommandList | None:
        if not all(isinstance(launch.kernel, HostFunction) for launch in launches):
            return None
        return HostCommandList(self.launch_in_order, launches)

    @functools.cached_property
    def launch_in_order(self) -> HostFunction:
        """Return the function that executes command lists, compiled at its first use."""
        return self.load(ENTRY, self._compiler.compile(SOURCE))

    def versions(self) -> dict[str, str]:
        return llvm_versions()


@functools.cache
def _capabilities(threads: int, machine: Machine) -> Capabilities:
    return Capabilities(
        dtypes=LLVM_DTYPES,
        # Decomposed to vectors they are two to twenty times as fast as calls of the C library.
        # Their bits are equal on every device that decomposes them.
        ops=LLVM_OPS - ELEMENTARY_OPS,
        # LLVM would call helpers that some C libraries lack: decomposition is exact everywhere.
        emulated=frozenset({*dtypes.fp8s, dtypes.float16, dtypes.bfloat16}),
        vector_lanes=(1, 2, 4, 8, 16),
        shared_bytes=SCRATCH_BYTES,
        threads=threads,
        machine=machine,
        division_traps=True,
    )


def link_object(
    device: str, binary: bytes, exports: Sequence[str], imports: Mapping[str, int] | None = None
) -> Any:
    """Load an object file; return a mapping of the `exports` to addresses, which owns the code.

    imports: addresses of functions that it calls, in addition to the C library. Raises
    `DeviceError`.
    """
    number = next(_library_numbers)
    builder = llvm.JITLibraryBuilder().add_object_img(binary)
    for symbol in exports:
        builder.export_symbol(symbol)
    for symbol, address in {**_symbols(), **(imports or {})}.items():
        # Each symbol takes a kilobyte as long as the kernel exists, and most kernels call none.
        if symbol.encode() in binary:
            builder.import_symbol(symbol, address)
    try:
        return builder.link(_linker(number // KERNELS_PER_LINKER), f"kernel{number}")
    except RuntimeError as error:
        raise DeviceError(device, f"cannot link {exports[0]}: {error}") from error


def llvm_availability() -> Availability:
    """Return whether LLVM starts here."""
    try:
        _initialise()
        reason = f"LLVM {_llvm_version()} for {llvm.get_host_cpu_name()}"
    except (RuntimeError, OSError) as error:
        return Availability(False, f"llvmlite does not start: {error}")
    return Availability(True, reason)


def llvm_versions() -> dict[str, str]:
    """Return what decides how kernels are compiled, for reports."""
    return {
        "llvm": _llvm_version(),
        "llvmlite": llvmlite.__version__,
        "processor": llvm.get_host_cpu_name(),
        "target": llvm.get_process_triple(),
    }


def _llvm_version() -> str:
    return ".".join(str(part) for part in llvm.llvm_version_info)


@functools.cache
def _initialise() -> None:
    # Newer wheels initialise LLVM themselves and raise an error here.
    with contextlib.suppress(RuntimeError):
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _host_key() -> str:
    features = llvm.get_host_cpu_features().flatten()
    parts = (_llvm_version(), llvm.get_process_triple(), llvm.get_host_cpu_name(), features)
    return " ".join(parts)


@functools.cache
def _target_machine(level: int) -> Any:
    _initialise()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        jit=True,
    )


@functools.cache
def _target(level: int) -> tuple[str, str]:
    """Return triple and data layout of the machine; printing them takes as long as small passes."""
    machine = _target_machine(level)
    return machine.triple, str(machine.target_data)


@contextlib.contextmanager
def _options(*options: str) -> Iterator[None]:
    """Set boolean options of LLVM within the block, each to the opposite of its default.

    The options belong to the process. A lock admits one thread at a time, and the defaults are
    restored for other users of LLVM.
    """
    with _options_lock:
        for option in options:
            llvm.set_option("", option)
        try:
            yield
        finally:
            for option in options:
                name, _, value = option.partition("=")
                llvm.set_option("", f"{name}={_OPPOSITE[value]}")


@functools.lru_cache(maxsize=1)
def _linker(number: int) -> Any:
    """Return the current LLJIT; kernels keep earlier ones alive themselves."""
    return llvm.create_lljit_compiler(_target_machine(0), suppress_errors=True)


def run_all_passes(module: Any, machine: Any, level: int, vectorises: bool = True) -> None:
    """Run LLVM's pipeline for `level`; level 0 runs only required passes, such as coroutines.

    vectorises: LLVM may turn iterations of a loop into lanes.
    """
    builder = _pass_builder(machine, level, vectorises)
    # A pass manager does not run twice, so each module gets a new one.
    with _options(*faulty_passes()):
        builder.getModulePassManager().run(module, builder)


@functools.cache
def faulty_passes() -> tuple[str, ...]:
    """Return options against passes that produced wrong code or hung: llvm-1 to 3, docs/found.md.

    An option that this LLVM does not know would end the process.
    """
    if llvm.llvm_version_info[0] < 22:
        return ("-disable-vector-combine=true",)
    return ("-disable-vector-combine=true", "-disable-loop-idiom-hashrecognize=true")


def run_cheap_passes(module: Any, machine: Any) -> None:
    """Move memory of functions to registers, and simplify blocks and instructions."""
    passes, builder = _cheap_passes(machine, next(_module_numbers) // MODULES_PER_BUILDER)
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


@functools.lru_cache(maxsize=1)
def _cheap_passes(machine: Any, number: int) -> tuple[Any, Any]:
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    return passes, _pass_builder(machine, 1)


def _pass_builder(machine: Any, level: int, vectorises: bool = True) -> Any:
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    if not vectorises:
        tuning.loop_vectorization = False
    return llvm.create_pass_builder(machine, tuning)


@functools.cache
def _symbols() -> dict[str, int]:
    """Return the addresses of the C library's functions, as far as they exist."""
    libraries = []
    platform = "linux" if sys.platform.startswith("linux") else sys.platform
    for name in (*_MATH_LIBRARIES.get(platform, ()), None):
        with contextlib.suppress(OSError, TypeError):
            libraries.append(ctypes.CDLL(name))
    addresses: dict[str, int] = {}
    for symbol in _SYMBOLS:
        for library in libraries:
            function = getattr(library, symbol, None)
            if function is not None:
                addresses[symbol] = ctypes.cast(function, ctypes.c_void_p).value or 0
                break
    return addresses
