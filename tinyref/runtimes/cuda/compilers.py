"""NVRTC: CUDA C++ to the code of one architecture, in this process and without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tinyref import config
from tinyref.contract import Compiler
from tinyref.errors import DeviceError
from tinyref.runtimes.cuda.bindings import INSTALL, bindings, first_line, header_folder

# Floats as IEEE 754 has them; what may be contracted is said beside these.
OPTIONS = ("--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
_INCLUDE = "#include"


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
