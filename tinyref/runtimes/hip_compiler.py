"""AMD GPUs without a device: capabilities of each architecture, and clang as their compiler.

No header and no library of ROCm is needed. Sources of the sizes of waves, shared memory and groups:
LLVM, "User Guide for AMDGPU Backend", and ROCm, "Accelerator and GPU hardware specifications".
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.hip import HIP_OPS, HipRenderer
from tinyref.runtimes.host.clang import compile_file, run_tool, tool_version
from tinyref.uops.tiles import AMD_CDNA3, AMD_RDNA3, AMD_RDNA4, MatrixTile

SHARED_BYTES = 64 * 2**10
GROUP_SIZE = 1024
# A launch counts the work-items of each dimension in 32 bits.
_MOST_GROUPS = (2**32 - 1) // GROUP_SIZE


@dataclass(frozen=True)
class Architecture:
    """An architecture of AMD GPUs, such as "gfx942".

    wave: the number of work-items that run in step and hold a tile together.
    """

    name: str
    wave: int
    tiles: tuple[MatrixTile, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        native = frozenset(HipRenderer.type_names)
        return Capabilities(
            dtypes=native,
            emulated=frozenset(dtypes.fp8s) - native,
            ops=HIP_OPS,
            vector_lanes=(1, *VECTOR_LANES),
            has_grid=True,
            has_groups=True,
            shared_bytes=SHARED_BYTES,
            grid_limit=(_MOST_GROUPS, _MOST_GROUPS, _MOST_GROUPS),
            group_limit=(GROUP_SIZE, GROUP_SIZE, GROUP_SIZE),
            group_size_limit=GROUP_SIZE,
            matrix_tiles=self.tiles,
            # The processor gives any value, and LLVM may assume that it never happens.
            division_traps=True,
        )


# gfx90a has the tiles of gfx942 but flushes subnormal elements to zero in them (PyTorch, "Numerical
# accuracy", on MI200), so it declares none.
ARCHITECTURES = {
    item.name: item
    for item in (
        Architecture("gfx90a", 64),
        Architecture("gfx942", 64, AMD_CDNA3),
        *(Architecture(name, 32, AMD_RDNA3) for name in ("gfx1100", "gfx1101", "gfx1102")),
        *(Architecture(name, 32, AMD_RDNA4) for name in ("gfx1200", "gfx1201")),
    )
}


def architecture(name: str) -> Architecture:
    """Return the architecture of that name; features after a colon ("gfx90a:xnack-") are ignored.

    Raises `UserError` for an unknown one.
    """
    known = ARCHITECTURES.get(name.partition(":")[0])
    if known is None:
        accepted = ", ".join(ARCHITECTURES)
        raise UserError(f"HIP: unknown architecture {name}: accepted are {accepted}")
    return known


DEVICE = "HIP"
INSTALL = "apt-get install clang-19 lld-19, or ROCm, or let HIP_CLANG_PATH name the folder of one"
# The folder of the compiler, as for hipcc, and the folder of ROCm.
ENVIRONMENT = ("HIP_CLANG_PATH", "ROCM_PATH")
# Number of kernels in one module; loading any of them loads the whole module.
MODULE_KERNELS = 16

# One code object with only the device's code. Correct rounding of float32 divisions and roots, and
# subnormals, are defaults, but stated anyway. No name depends on the path of a file.
OPTIONS = (
    "-x",
    "hip",
    "-std=c++17",
    "--offload-device-only",
    "--no-gpu-bundle-output",
    "-nogpuinc",
    "-nogpulib",
    "-O3",
    "-w",
    "-fuse-cuid=none",
    "-fno-gpu-flush-denormals-to-zero",
    "-fhip-fp32-correctly-rounded-divide-sqrt",
    "-Wno-c++11-narrowing",
)
_NUMBERED = re.compile(r"clang-(\d+)")
# The kernel of a source, up to its name.
_ENTRY = re.compile(r"^extern \"C\" __global__ void __launch_bounds__\(\d+\) \w+", re.MULTILINE)


def clang() -> str:
    """Return the path of clang. Raises `DeviceError` if none compiles for AMD."""
    return _found_clang(os.environ.get("PATH", ""), *map(os.environ.get, ENVIRONMENT))


@functools.cache
def _found_clang(path: str, chosen: str | None, rocm: str | None) -> str:
    """Return the clang that the environment names, or ROCm's, or the newest on the path."""
    reasons = []
    for candidate in _candidates(path, chosen, rocm):
        reason = _problem_of(candidate)
        if not reason:
            return candidate
        reasons.append(f"{candidate} {reason}")
    what = "; ".join(reasons[:3]) or "no clang is installed"
    raise DeviceError(DEVICE, f"no compiler for AMD GPUs: {what}: {INSTALL}")


def _candidates(path: str, chosen: str | None, rocm: str | None) -> Iterator[str]:
    if chosen:
        yield str(Path(chosen, "clang"))
        return
    own = Path(rocm or "/opt/rocm", "llvm", "bin", "clang")
    if own.exists():
        yield str(own)
    numbered: dict[str, int] = {}
    for folder in path.split(os.pathsep):
        for file in Path(folder or ".").glob("clang-*"):
            match = _NUMBERED.fullmatch(file.name)
            if match:
                numbered.setdefault(str(file), int(match[1]))
    yield from sorted(numbered, key=lambda name: -numbered[name])
    plain = shutil.which("clang", path=path)
    if plain:
        yield plain


def _problem_of(command: str) -> str:
    """Return why a clang is not usable; empty if it is."""
    folder = Path(tempfile.gettempdir())
    try:
        targets = run_tool([command, "--print-targets"], folder, device=DEVICE)
        linker = run_tool([command, "-print-prog-name=lld"], folder, device=DEVICE).strip()
    except DeviceError as error:
        return f"does not start ({error.message})"
    if "amdgcn" not in targets:
        return "does not compile for them"
    return "" if shutil.which(linker) else "has no linker lld"


class HipCompiler:
    """Compiles HIP C++ to a code object for one architecture."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command line without files. Raises `DeviceError` without a compiler."""
        contraction = "off" if config.integer("STRICT_FLOAT") else "fast"
        target = f"--offload-arch={self.architecture}"
        return (clang(), *OPTIONS, f"-ffp-contract={contraction}", target)

    @property
    def key(self) -> str:
        return f"{version(clang())} {' '.join(self.command)}"

    def compile(self, source: str) -> bytes:
        """Return a module. Raises `DeviceError` with the compiler's message and the source."""
        return make_module("", self._code_object(source))

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """Return modules with some kernels each: starting clang and linker is half of the time.

        A namespace and a suffix of their names distinguish kernels. If one of a module does not
        compile, each of them is compiled alone.
        """
        return [
            result
            for first in range(0, len(sources), MODULE_KERNELS)
            for result in self._compile_together(sources[first : first + MODULE_KERNELS])
        ]

    def _compile_together(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        texts = [_in_namespace(number, source) for number, source in enumerate(sources)]
        try:
            code = self._code_object("".join(texts))
        except DeviceError:
            return [self._result_of(source) for source in sources]
        return [make_module(f"_{number}", code) for number in range(len(sources))]

    def _result_of(self, source: str) -> bytes | DeviceError:
        try:
            return self.compile(source)
        except DeviceError as error:
            return error

    def _code_object(self, source: str) -> bytes:
        return compile_file(self.command, "kernel.hip", "kernel.co", source, DEVICE)


def _in_namespace(number: int, source: str) -> str:
    text = _ENTRY.sub(rf"\g<0>_{number}", source, count=1)
    return f"namespace n{number} {{\n{text}}}\n"


@functools.cache
def version(command: str) -> str:
    """Return the first line of a compiler's version text."""
    return tool_version([command], DEVICE)


def make_module(suffix: str, code: bytes) -> bytes:
    """Return a module: a line with the suffix of the kernel's name, and the code."""
    return suffix.encode() + b"\n" + code


def parts_of(module: bytes) -> tuple[str, bytes]:
    """Return the suffix and the code object of a module."""
    suffix, _, code = module.partition(b"\n")
    return suffix.decode(), code
