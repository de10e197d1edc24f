"""GPUs of NVIDIA without one: what each declares, and the compilers for it, NVRTC and ptxas.

CUDA C++ Programming Guide, appendix "Compute Capabilities": limits of grids and groups, the types
and the matrix instructions of each. The parts of CUDA that come as wheels are imported where they
are wanted first: most machines have none of it.
"""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.contract import Compiler
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.cuda import CUDA_OPS, MAX_ACCESS_BYTES
from tinyref.runtimes.host.clang import compile_file, run_tool
from tinyref.uops.tiles import GROUPS

Capability = tuple[int, int]

# The oldest for which NVRTC 13 compiles, and that in which bfloat16 and more tiles came.
OLDEST: Capability = (7, 5)
_AMPERE: Capability = (8, 0)
# The first and last that have VIMNMX3.
LARGEST_OF_THREE: tuple[Capability, Capability] = ((9, 0), (10, 3))
# Those for which kernels are compiled where no device is.
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# Bytes of the shared memory that arrays of fixed sizes may take in all.
SHARED_BYTES = 48 * 1024
# Bytes of a kernel's parameters, those that buffers leave to variables, and what a buffer takes.
PARAMETER_BYTES = 4096
VARIABLE_BYTES = 128
BYTES_OF_BUFFER = 8


def target_name(capability: Capability) -> str:
    """The architecture as compilers are given it: "sm_90"."""
    major, minor = capability
    return f"sm_{major}{minor}"


def capability_of(target: str) -> Capability:
    """The compute capability of "sm_90". Raises `UserError` for another text."""
    found = re.fullmatch(r"sm_(\d+)(\d)", target)
    if found is None or target not in TARGETS:
        accepted = ", ".join(TARGETS)
        raise UserError(f"compile: got architecture {target!r}: accepted are {accepted}")
    return int(found[1]), int(found[2])


def capabilities_of(
    capability: Capability, shared_bytes: int = SHARED_BYTES, is_single: bool = False
) -> Capabilities:
    """What a device of that compute capability declares.

    fp8 is emulated also where there are instructions: those saturate what is too large, or give NaN
    where an infinity is meant (PTX ISA, "cvt").
    """
    has_bfloat16 = capability >= _AMPERE
    native = {*dtypes.ints, dtypes.bool, dtypes.float16, dtypes.float32, dtypes.float64}
    if has_bfloat16:
        native.add(dtypes.bfloat16)
    return Capabilities(
        dtypes=frozenset(native),
        emulated=frozenset({*dtypes.fp8s, dtypes.bfloat16} - native),
        ops=CUDA_OPS,
        vector_lanes=(1, *VECTOR_LANES),
        has_grid=True,
        has_groups=True,
        shared_bytes=min(shared_bytes, SHARED_BYTES),
        grid_limit=(2**31 - 1, 65535, 65535),
        group_limit=(1024, 1024, 64),
        group_size_limit=1024,
        buffer_limit=(PARAMETER_BYTES - VARIABLE_BYTES) // BYTES_OF_BUFFER,
        # For vectors of 16 bytes; memory of the driver begins at multiples of 256.
        view_alignment=MAX_ACCESS_BYTES,
        matrix_tiles=GROUPS["NVIDIA_SM80"] if has_bfloat16 else GROUPS["NVIDIA_SM75"],
        is_single=is_single,
    )


INSTALL = "pip install '.[cuda]' in a clone of tinyref"


def bindings(device: str, name: str) -> Any:
    """A module of cuda-bindings: "driver" or "nvrtc". Raises `DeviceError` where there is none."""
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise DeviceError(device, f"cuda-bindings does not import: {INSTALL} ({error})") from error


@functools.cache
def header_folder() -> str | None:
    """Where cuda_fp16.h and its kin are: those of the wheel, or of a toolkit that is installed."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    found = pathfinder.find_nvidia_header_directory("cudart")
    return None if found is None else str(found)


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return str(error).strip().partition("\n")[0]


# Floats as IEEE 754 has them; what may be contracted is said beside these.
OPTIONS = ("--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
_INCLUDE = "#include"
_PTXAS_VERSION = re.compile(r"release (\d+\.\d+)")
_PTX_ENTRY = ".visible .entry "


class ToolkitCompiler(Compiler, Protocol):
    """A compiler of a CUDA toolkit, whose version says which drivers load what it makes."""

    @property
    def version(self) -> str:
        """As "13.0"."""
        ...


class NvrtcCompiler:
    """Compiles for one architecture, such as "sm_90"; errors are those of `device`.

    Raises `DeviceError` where NVRTC is missing.
    """

    def __init__(self, device: str, architecture: str) -> None:
        self.device = device
        self.architecture = architecture
        self._nvrtc = bindings(device, "nvrtc")
        try:
            major, minor = self._checked(self._nvrtc.nvrtcVersion(), "has no version")
        except RuntimeError as error:
            # The module is there and the library that it loads at the first call is not.
            raise DeviceError(
                device, f"NVRTC is not found: {INSTALL} ({first_line(error)})"
            ) from error
        self.version = f"{major}.{minor}"
        (known,) = self._checked(self._nvrtc.nvrtcGetSupportedArchs(), "knows no architectures")
        if architecture not in {f"sm_{number}" for number in known}:
            raise DeviceError(
                device,
                f"NVRTC {self.version} does not compile for {architecture}: accepted are sm_"
                f"{min(known)} to sm_{max(known)}; pip install --upgrade nvidia-cuda-nvrtc",
            )

    @property
    def options(self) -> tuple[str, ...]:
        """What NVRTC is told, but for where its headers are."""
        contracts = "false" if config.integer("STRICT_FLOAT") else "true"
        return (f"--gpu-architecture={self.architecture}", *OPTIONS, f"--fmad={contracts}")

    @property
    def key(self) -> str:
        return " ".join(("NVRTC", self.version, *self.options))

    def compile(self, source: str) -> bytes:
        """A cubin. Raises `DeviceError` with the log of the compiler and the source."""
        folder = header_folder()
        if folder is None and _INCLUDE in source:
            raise DeviceError(self.device, f"the headers of CUDA are not found: {INSTALL}", source)
        nvrtc = self._nvrtc
        options = [*self.options, *([] if folder is None else [f"--include-path={folder}"])]
        created = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
        (program,) = self._checked(created, "takes no source")
        try:
            given = [option.encode() for option in options]
            (result,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
            if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                raise DeviceError(self.device, self._refusal(program, result), source)
            (size,) = self._checked(nvrtc.nvrtcGetCUBINSize(program), "gives no code")
            code = bytearray(size)
            self._checked(nvrtc.nvrtcGetCUBIN(program, code), "gives no code")
            return bytes(code)
        finally:
            nvrtc.nvrtcDestroyProgram(program)

    def _refusal(self, program: Any, result: Any) -> str:
        """Why a source does not compile: the log, or the name of the error where there is none."""
        nvrtc = self._nvrtc
        (size,) = self._checked(nvrtc.nvrtcGetProgramLogSize(program), "has no log")
        text = bytearray(size)
        self._checked(nvrtc.nvrtcGetProgramLog(program, text), "has no log")
        words = text.rstrip(b"\0").decode(errors="replace").strip() or self._words(result)
        return f"NVRTC does not compile the kernel for {self.architecture}: {words}"

    def _checked(self, answer: Sequence[Any], what: str) -> tuple[Any, ...]:
        """What a call gave beside its result. Raises `DeviceError` where that is an error."""
        result, *values = answer
        if result != self._nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise DeviceError(self.device, f"NVRTC {what}: {self._words(result)}")
        return tuple(values)

    def _words(self, result: Any) -> str:
        _, name = self._nvrtc.nvrtcGetErrorString(result)
        return name.decode() if isinstance(name, bytes) else str(name)


class NvrtcChecker(NvrtcCompiler):
    """Compiles many sources in one call, of which nothing is loaded: a namespace for each.

    What NVRTC does once for a text, such as reading headers, takes six times as long as a kernel.
    """

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """The code of all, for each. Raises `DeviceError` where one of them does not compile."""
        return [self.compile(_joined(sources))] * len(sources)


def _joined(sources: Sequence[str]) -> str:
    """One text of many, whose kernels may have the same names."""
    includes: dict[str, None] = {}
    spaces = []
    for number, source in enumerate(sources):
        lines = source.replace('extern "C" ', "").splitlines()
        includes |= dict.fromkeys(line for line in lines if line.startswith(_INCLUDE))
        body = [line for line in lines if not line.startswith(_INCLUDE)]
        spaces += [f"namespace kernel{number} {{", *body, "}"]
    return "\n".join([*includes, *spaces, ""])


class PtxasCompiler:
    """Compiles for one architecture, such as "sm_90"; errors are those of `device`.

    Raises `DeviceError` where ptxas is missing.
    """

    def __init__(self, device: str, architecture: str) -> None:
        self.device = device
        self.architecture = architecture
        self._path = ptxas(device)
        output = run_tool([self._path, "--version"], Path(tempfile.gettempdir()), device=device)
        found = _PTXAS_VERSION.search(output)
        if found is None:
            raise DeviceError(device, f"{self._path} says no version: {output.strip()}")
        self.version = found[1]

    @property
    def options(self) -> tuple[str, ...]:
        """What ptxas is told: only where it is asked for may a product and a sum be one."""
        contracts = "false" if config.integer("STRICT_FLOAT") else "true"
        return (f"--gpu-name={self.architecture}", f"--fmad={contracts}")

    @property
    def key(self) -> str:
        return " ".join(("ptxas", self.version, *self.options))

    def compile(self, source: str) -> bytes:
        """A cubin. Raises `DeviceError` with the words of ptxas and the source."""
        command = (self._path, *self.options)
        return compile_file(command, "kernel.ptx", "kernel.cubin", source, self.device)


class PtxasChecker(PtxasCompiler):
    """Compiles many sources in one call, of which nothing is loaded."""

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """The code of all, for each. Raises `DeviceError` where one of them does not compile."""
        heads, _, _ = sources[0].partition(_PTX_ENTRY)
        kernels = [source.partition(_PTX_ENTRY)[2] for source in sources]
        # Names of kernels alone could be the same.
        texts = [f"{_PTX_ENTRY}n{number}_{kernel}" for number, kernel in enumerate(kernels)]
        return [self.compile("".join([heads, *texts]))] * len(sources)


@functools.cache
def ptxas(device: str) -> str:
    """The path of ptxas: that of the wheel, or of a toolkit. Raises `DeviceError` for none."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        found = pathfinder.find_nvidia_binary_utility("ptxas")
    except ImportError:
        found = shutil.which("ptxas")
    if found is None:
        raise DeviceError(device, f"ptxas is not found: {INSTALL}")
    return str(found)
