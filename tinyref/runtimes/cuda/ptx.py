"""The PTX device: GPUs of NVIDIA by our own assembly, which ptxas makes code of."""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.contract import Compiler, Renderer
from tinyref.errors import DeviceError
from tinyref.renderers.ptx import PtxRenderer
from tinyref.runtimes.cuda.backend import CudaBackend
from tinyref.runtimes.cuda.bindings import INSTALL
from tinyref.runtimes.cuda.compilers import ToolkitCompiler
from tinyref.runtimes.host.clang import run_tool

_VERSION = re.compile(r"release (\d+\.\d+)")
_ENTRY = ".visible .entry "


class PtxasCompiler:
    """Compiles for one architecture, such as "sm_90"; errors are those of `device`.

    Raises `DeviceError` where ptxas is missing.
    """

    def __init__(self, device: str, architecture: str) -> None:
        self.device = device
        self.architecture = architecture
        self._path = ptxas(device)
        output = run_tool([self._path, "--version"], Path(tempfile.gettempdir()), device=device)
        found = _VERSION.search(output)
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
        try:
            with tempfile.TemporaryDirectory(prefix="tinyref-") as folder:
                path = Path(folder)
                (path / "kernel.ptx").write_text(source)
                command = [self._path, *self.options, "-o", "kernel.cubin", "kernel.ptx"]
                run_tool(command, path, source, self.device)
                return (path / "kernel.cubin").read_bytes()
        except OSError as error:
            raise DeviceError(self.device, f"cannot compile: {error}", source) from error


class PtxasChecker(PtxasCompiler):
    """Compiles many sources in one call, of which nothing is loaded."""

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """The code of all, for each. Raises `DeviceError` where one of them does not compile."""
        heads, _, _ = sources[0].partition(_ENTRY)
        kernels = [source.partition(_ENTRY)[2] for source in sources]
        # Names of kernels alone could be the same.
        texts = [f"{_ENTRY}n{number}_{kernel}" for number, kernel in enumerate(kernels)]
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


class PtxBackend(CudaBackend):
    """One NVIDIA GPU of those that the driver has, by its number."""

    title = "PTX through ptxas, on NVIDIA GPUs"
    base = "PTX"

    @classmethod
    def make_compiler(cls, name: str, architecture: str) -> ToolkitCompiler:
        return PtxasCompiler(name, architecture)

    @classmethod
    def make_checker(cls, name: str, architecture: str) -> Compiler:
        return PtxasChecker(name, architecture)

    @classmethod
    def make_renderer(cls, declared: Capabilities, architecture: str) -> Renderer:
        return PtxRenderer(int(architecture.removeprefix("sm_")))
