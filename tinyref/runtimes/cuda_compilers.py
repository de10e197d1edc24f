"""NVIDIA GPUs without a device: their capabilities, and their compilers NVRTC and ptxas.

Source of the limits of grids and groups, the types and the matrix instructions: CUDA C++
Programming Guide, appendix "Compute Capabilities". Parts of CUDA that come as wheels are imported
at their first use: most machines have none of them.
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

# The oldest one that NVRTC 13 supports, and the first one with bfloat16 and more tiles.
OLDEST: Capability = (7, 5)
_AMPERE: Capability = (8, 0)
# The first and last one with the instruction VIMNMX3.
LARGEST_OF_THREE: tuple[Capability, Capability] = ((9, 0), (10, 3))
# Architectures for which kernels are compiled without a device.
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# Total bytes of shared memory for arrays of fixed sizes.
SHARED_BYTES = 48 * 1024
# Parameter bytes of a kernel, the part reserved for variables, and the bytes of a buffer.
PARAMETER_BYTES = 4096
VARIABLE_BYTES = 128
BYTES_OF_BUFFER = 8


def target_name(capability: Capability) -> str:
    """Return the architecture as compilers expect it: "sm_90"."""
    major, minor = capability
    return f"sm_{major}{minor}"


def capability_of(target: str) -> Capability:
    """Return the compute capability of "sm_90". Raises `UserError` for another text."""
    match = re.fullmatch(r"sm_(\d+)(\d)", target)
    if match is None or target not in TARGETS:
        accepted = ", ".join(TARGETS)
        raise UserError(f"compile: got architecture {target!r}: accepted are {accepted}")
    return int(match[1]), int(match[2])


def capabilities_of(
    capability: Capability, shared_bytes: int = SHARED_BYTES, is_single: bool = False
) -> Capabilities:
    """Return the capabilities of a device with this compute capability.

    fp8 is always emulated: the hardware's instructions saturate large values, or give NaN instead
    of an infinity (PTX ISA, "cvt").
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
        # For vectors of 16 bytes; the driver's memory begins at multiples of 256.
        view_alignment=MAX_ACCESS_BYTES,
        matrix_tiles=GROUPS["NVIDIA_SM80"] if has_bfloat16 else GROUPS["NVIDIA_SM75"],
        is_single=is_single,
    )


INSTALL = "pip install '.[cuda]' in a clone of tinyref"


def bindings(device: str, name: str) -> Any:
    """Import the module "driver" or "nvrtc" of cuda-bindings. Raises `DeviceError` if missing."""
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise DeviceError(device, f"cuda-bindings does not import: {INSTALL} ({error})") from error


@functools.cache
def header_folder() -> str | None:
    """Return the folder of cuda_fp16.h: of the wheel, or of an installed toolkit."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return None
    folder = pathfinder.find_nvidia_header_directory("cudart")
    return None if folder is None else str(folder)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().partition("\n")[0]


# Floats as in IEEE 754; the option for contraction is separate.
OPTIONS = ("--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
_INCLUDE = "#include"
_PTXAS_VERSION = re.compile(r"release (\d+\.\d+)")
_PTX_ENTRY = ".visible .entry "


class ToolkitCompiler(Compiler, Protocol):
    """A compiler of a CUDA toolkit, whose version decides which drivers load its output."""

    @property
    def version(self) -> str:
        """Return the version, such as "13.0"."""
        ...


class NvrtcCompiler:
    """Compiles for one architecture, such as "sm_90"; errors name `device`.

    Raises `DeviceError` if NVRTC is missing.
    """

    def __init__(self, device: str, architecture: str) -> None:
        self.device = device
        self.architecture = architecture
        self._nvrtc = bindings(device, "nvrtc")
        try:
            major, minor = self._checked(self._nvrtc.nvrtcVersion(), "has no version")
        except RuntimeError as error:
            # The module exists, but the library that it loads at the first call does not.
            raise DeviceError(
                device, f"NVRTC is not installed: {INSTALL} ({first_line(error)})"
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
        """Return NVRTC's options, except for the folder of its headers."""
        contracts = "false" if config.integer("STRICT_FLOAT") else "true"
        return (f"--gpu-architecture={self.architecture}", *OPTIONS, f"--fmad={contracts}")

    @property
    def key(self) -> str:
        return " ".join(("NVRTC", self.version, *self.options))

    def compile(self, source: str) -> bytes:
        """Return a cubin. Raises `DeviceError` with the log of the compiler and the source."""
        folder = header_folder()
        if folder is None and _INCLUDE in source:
            raise DeviceError(self.device, f"the headers of CUDA are missing: {INSTALL}", source)
        nvrtc = self._nvrtc
        options = [*self.options, *([] if folder is None else [f"--include-path={folder}"])]
        created = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
        (program,) = self._checked(created, "takes no source")
        try:
            arguments = [option.encode() for option in options]
            (result,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
            if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                raise DeviceError(self.device, self._refusal(program, result), source)
            (size,) = self._checked(nvrtc.nvrtcGetCUBINSize(program), "gives no code")
            code = bytearray(size)
            self._checked(nvrtc.nvrtcGetCUBIN(program, code), "gives no code")
            return bytes(code)
        finally:
            nvrtc.nvrtcDestroyProgram(program)

    def _refusal(self, program: Any, result: Any) -> str:
        """Return why a source does not compile: the log, or else the name of the error."""
        nvrtc = self._nvrtc
        (size,) = self._checked(nvrtc.nvrtcGetProgramLogSize(program), "has no log")
        text = bytearray(size)
        self._checked(nvrtc.nvrtcGetProgramLog(program, text), "has no log")
        words = text.rstrip(b"\0").decode(errors="replace").strip() or self._words(result)
        return f"NVRTC does not compile the kernel for {self.architecture}: {words}"

    def _checked(self, answer: Sequence[Any], what: str) -> tuple[Any, ...]:
        """Return the values of a call. Raises `DeviceError` if its result is an error."""
        result, *values = answer
        if result != self._nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise DeviceError(self.device, f"NVRTC {what}: {self._words(result)}")
        return tuple(values)

    def _words(self, result: Any) -> str:
        _, name = self._nvrtc.nvrtcGetErrorString(result)
        return name.decode() if isinstance(name, bytes) else str(name)


class NvrtcChecker(NvrtcCompiler):
    """Compiles many sources in one call, each in a namespace; nothing is loaded.

    NVRTC's work once for a text, such as reading headers, takes six times as long as a kernel.
    """

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """Return the common code for each. Raises `DeviceError` if one does not compile."""
        return [self.compile(_joined(sources))] * len(sources)


def _joined(sources: Sequence[str]) -> str:
    """Join sources to one text; their kernels may have the same names."""
    includes: dict[str, None] = {}
    spaces = []
    for number, source in enumerate(sources):
        lines = source.replace('extern "C" ', "").splitlines()
        includes |= dict.fromkeys(line for line in lines if line.startswith(_INCLUDE))
        body = [line for line in lines if not line.startswith(_INCLUDE)]
        spaces += [f"namespace kernel{number} {{", *body, "}"]
    return "\n".join([*includes, *spaces, ""])


class PtxasCompiler:
    """Compiles for one architecture, such as "sm_90"; errors name `device`.

    Raises `DeviceError` if ptxas is missing.
    """

    def __init__(self, device: str, architecture: str) -> None:
        self.device = device
        self.architecture = architecture
        self._path = ptxas(device)
        output = run_tool([self._path, "--version"], Path(tempfile.gettempdir()), device=device)
        match = _PTXAS_VERSION.search(output)
        if match is None:
            raise DeviceError(device, f"{self._path} prints no version: {output.strip()}")
        self.version = match[1]

    @property
    def options(self) -> tuple[str, ...]:
        """Return ptxas's options; they allow contraction only if the flag asks for it."""
        contracts = "false" if config.integer("STRICT_FLOAT") else "true"
        return (f"--gpu-name={self.architecture}", f"--fmad={contracts}")

    @property
    def key(self) -> str:
        return " ".join(("ptxas", self.version, *self.options))

    def compile(self, source: str) -> bytes:
        """Return a cubin. Raises `DeviceError` with the output of ptxas and the source."""
        command = (self._path, *self.options)
        return compile_file(command, "kernel.ptx", "kernel.cubin", source, self.device)


class PtxasChecker(PtxasCompiler):
    """Compiles many sources in one call; nothing is loaded."""

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """Return the common code for each. Raises `DeviceError` if one does not compile."""
        heads, _, _ = sources[0].partition(_PTX_ENTRY)
        kernels = [source.partition(_PTX_ENTRY)[2] for source in sources]
        # A number is added because kernels may have the same names.
        texts = [f"{_PTX_ENTRY}n{number}_{kernel}" for number, kernel in enumerate(kernels)]
        return [self.compile("".join([heads, *texts]))] * len(sources)


@functools.cache
def ptxas(device: str) -> str:
    """Return the path of ptxas, of the wheel or of a toolkit. Raises `DeviceError` if missing."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        path = pathfinder.find_nvidia_binary_utility("ptxas")
    except ImportError:
        path = shutil.which("ptxas")
    if path is None:
        raise DeviceError(device, f"ptxas is not installed: {INSTALL}")
    return str(path)
