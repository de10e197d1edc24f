"""GPUs of AMD without one: what each architecture declares, and clang, which compiles for it.

No header and no library of ROCm is needed. Sizes of waves, of shared memory and of groups: LLVM,
"User Guide for AMDGPU Backend", and ROCm, "Accelerator and GPU hardware specifications".
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
# The work-items of each dimension of a launch are counted in 32 bits.
_MOST_GROUPS = (2**32 - 1) // GROUP_SIZE


@dataclass(frozen=True)
class Architecture:
    """name: such as "gfx942". wave: work-items that run in step, and hold a tile together."""

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
            # The processor gives any value, and LLVM may take it that nobody divides so.
            division_traps=True,
        )


# gfx90a has the tiles of gfx942 and flushes subnormal elements to zero in them, which nobody asked
# for (PyTorch, "Numerical accuracy", on MI200): it declares none.
ARCHITECTURES = {
    each.name: each
    for each in (
        Architecture("gfx90a", 64),
        Architecture("gfx942", 64, AMD_CDNA3),
        *(Architecture(name, 32, AMD_RDNA3) for name in ("gfx1100", "gfx1101", "gfx1102")),
        *(Architecture(name, 32, AMD_RDNA4) for name in ("gfx1200", "gfx1201")),
    )
}


def architecture(name: str) -> Architecture:
    """The architecture of that name; features behind a colon, as "gfx90a:xnack-", change nothing.

    Raises `UserError` for one that is not known.
    """
    found = ARCHITECTURES.get(name.partition(":")[0])
    if found is None:
        accepted = ", ".join(ARCHITECTURES)
        raise UserError(f"HIP: the architecture {name} is not known: accepted are {accepted}")
    return found


DEVICE = "HIP"
INSTALL = "apt-get install clang-19 lld-19, or ROCm, or let HIP_CLANG_PATH name the folder of one"
# The folder of the compiler, as for hipcc, and that of ROCm.
ENVIRONMENT = ("HIP_CLANG_PATH", "ROCM_PATH")
# Kernels of one module: each that is loaded has all of them.
MODULE_KERNELS = 16

# One code object of the device's code alone. Divisions and roots of float32 are correctly rounded
# and subnormals kept by default: it is said all the same. No name depends on where a file lies.
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
    """The path of the clang that is used. Raises `DeviceError` where none makes code for AMD."""
    return _found_clang(os.environ.get("PATH", ""), *map(os.environ.get, ENVIRONMENT))


@functools.cache
def _found_clang(path: str, chosen: str | None, rocm: str | None) -> str:
    """The one that the environment names, else that of ROCm, else the newest on the path."""
    reasons = []
    for candidate in _candidates(path, chosen, rocm):
        reason = _problem_of(candidate)
        if not reason:
            return candidate
        reasons.append(f"{candidate} {reason}")
    what = "; ".join(reasons[:3]) or "no clang is found"
    raise DeviceError(DEVICE, f"no compiler for GPUs of AMD: {what}: {INSTALL}")


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
            found = _NUMBERED.fullmatch(file.name)
            if found:
                numbered.setdefault(str(file), int(found[1]))
    yield from sorted(numbered, key=lambda name: -numbered[name])
    plain = shutil.which("clang", path=path)
    if plain:
        yield plain


def _problem_of(command: str) -> str:
    """Why a clang does not serve; nothing where it does."""
    folder = Path(tempfile.gettempdir())
    try:
        targets = run_tool([command, "--print-targets"], folder, device=DEVICE)
        linker = run_tool([command, "-print-prog-name=lld"], folder, device=DEVICE).strip()
    except DeviceError as error:
        return f"does not start ({error.message})"
    if "amdgcn" not in targets:
        return "makes no code for them"
    return "" if shutil.which(linker) else "has no linker lld beside it"


class HipCompiler:
    """HIP C++ to a code object for one architecture."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    @property
    def command(self) -> tuple[str, ...]:
        """The command line without files. Raises `DeviceError` where there is no compiler."""
        contraction = "off" if config.integer("STRICT_FLOAT") else "fast"
        target = f"--offload-arch={self.architecture}"
        return (clang(), *OPTIONS, f"-ffp-contract={contraction}", target)

    @property
    def key(self) -> str:
        return f"{version(clang())} {' '.join(self.command)}"

    def compile(self, source: str) -> bytes:
        """A module. Raises `DeviceError` with the compiler's words and the source."""
        return make_module("", self._code_object(source))

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        """Modules of some kernels each: half of the time goes into starting clang and its linker.

        Kernels are told apart by a namespace and by what their names end in. Where one of a module
        does not compile, each of them is compiled alone.
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
    """What a compiler says of itself: the first line."""
    return tool_version([command], DEVICE)


def make_module(suffix: str, code: bytes) -> bytes:
    """What is kept of a source: a line with what the name of its kernel ends in, and the code."""
    return suffix.encode() + b"\n" + code


def parts_of(module: bytes) -> tuple[str, bytes]:
    """The suffix and the code object of a module."""
    suffix, _, code = module.partition(b"\n")
    return suffix.decode(), code
