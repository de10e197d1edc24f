"""The languages of scripts without tinyref: which device has which, and a program as a launch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref import config
from tinyref.algebra.evaluate import bound_value, launch_grid
from tinyref.contract import Renderer, entry_point
from tinyref.device import Device
from tinyref.dtype import ImageDType, PtrDType, numpy_dtype
from tinyref.errors import UserError
from tinyref.runtimes.red_zones import POISONS
from tinyref.runtimes.reproducer import Wanted
from tinyref.uops.payload import SlotArg, VarArg
from tinyref.uops.program import Program, offset_name, slots_in_words
from tinyref_spec.bits import Array
from tinyref_spec.tool_scripts.launch import ToolLaunch, tool_script


@dataclass(frozen=True)
class Language:
    """device: the device whose kernels have it. emulated: the one that has it on every host."""

    device: str
    emulated: str = ""
    suffix: str = ".py"


LANGUAGES: Mapping[str, Language] = {
    "opencl": Language("OPENCL", "OCLGRIND"),
    "wgsl": Language("WEBGPU"),
    "cuda": Language("CUDA", "CUDA_EMU"),
    "ptx": Language("PTX", "CUDA_EMU"),
    "hip": Language("HIP", "HIP_EMU"),
    "metal": Language("METAL", "METAL_EMU"),
    "llvm": Language("CPU"),
    "c": Language("CLANG", suffix=".c"),
}
# Other names of a language: tools that compile it.
_TOOLS = {"gcc": "c", "clang": "c", "tcc": "c", "ptxas": "ptx", "nvrtc": "cuda", "wgpu": "wgsl"}
# The architecture of PTX where there is no GPU.
_PTX_ARCHITECTURE = 90


def language_named(name: str) -> str:
    """Return the language of this name. Raise `UserError` for another text."""
    language = _TOOLS.get(name, name)
    if language not in LANGUAGES:
        accepted = ", ".join([*LANGUAGES, *_TOOLS])
        raise UserError(f"for: got {name!r}, accepted are {accepted}, and libraries")
    return language


def language_of(device: str) -> str:
    """Return the language of the kernels of a device, by its name; empty if no tool has it."""
    base = device.partition(":")[0]
    own = {language.device: name for name, language in LANGUAGES.items()}
    return "opencl" if base == "OCLGRIND" else own.get(base, "")


def device_for(language: str, device: str = "") -> str:
    """Return the device that has kernels of a language here; `device` itself if that has them.

    Raise `UserError` where none opens.
    """
    entry = LANGUAGES[language]
    if device and (language_of(device) == language or device.partition(":")[0] == entry.emulated):
        return device
    for name in filter(None, (entry.device, entry.emulated)):
        if Device.availability(name).works:
            return name
    reason = Device.availability(entry.device).reason
    raise UserError(f"for: no kernels of {language} are made here: {entry.device}: {reason}")


@dataclass(frozen=True)
class LaunchOfProgram:
    """A launch of a program, as scripts of tinyref have it.

    inputs: by slot, None for an output. unaligned: the slots of buffers that begin at the second
    element of their memory. earlier: how many launches were made in the same buffers before.
    """

    about: str
    program: Program
    inputs: Sequence[Array | None]
    wanted: Sequence[Wanted]
    bindings: Mapping[str, int]
    unaligned: Collection[int] = ()
    earlier: int = 0


def script_of(device: str, launch: LaunchOfProgram, language: str = "") -> str:
    """Return the script of a launch in a language, by default that of the device.

    Raise `UserError` where there is none, or the language cannot say it.
    """
    named = language or language_of(device)
    if not named:
        raise UserError(f"export: no tool compiles the kernels of {device}: name one by --for")
    if launch.earlier:
        raise UserError("export: the kernel is wrong after other launches: a script has one alone")
    return tool_script(named, _tool_launch(device, launch, named))


def _tool_launch(device: str, launch: LaunchOfProgram, language: str) -> ToolLaunch:
    program, backend = launch.program, Device[device]
    renderer = _renderer(backend, device, language)
    for node in program.uops:
        if isinstance(node.dtype, ImageDType):
            raise UserError("export: scripts have no images")
    grid = launch_grid(program, launch.bindings)
    if 0 in grid:
        raise UserError("export: the kernel launches no groups")
    slots = [parameter.slot for parameter in program.parameters]
    sizes = {
        node.arg.slot: node.dtype.size
        for node in program.uops
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType)
    }
    in_words = slots_in_words(program)
    offsets = {offset_name(slot) for slot in in_words}
    variables = [node.arg for node in program.variables if isinstance(node.arg, VarArg)]
    arrays = []
    for parameter in program.parameters:
        data = launch.inputs[parameter.slot]
        if data is None:
            dtype = numpy_dtype(parameter.dtype)
            size = sizes.get(parameter.slot, parameter.size) * dtype.itemsize
            data = np.full(size, POISONS[0], np.uint8).view(dtype)
        arrays.append(np.ascontiguousarray(data).reshape(-1))
    begins = [
        array.itemsize if slot in launch.unaligned and slot not in in_words else 0
        for slot, array in zip(slots, arrays, strict=True)
    ]
    settings = _SETTINGS[language](backend)
    return ToolLaunch(
        about=launch.about,
        source=renderer.render(program),
        entry=entry_point(renderer, program),
        arrays=arrays,
        wanted=[_numbered(item, slots) for item in launch.wanted],
        begins=begins,
        grid=grid,
        group=program.group,
        variables=[
            0 if variable.name in offsets else bound_value(variable, launch.bindings, program.name)
            for variable in variables
        ],
        **settings,
    )


def _renderer(backend: Any, device: str, language: str) -> Renderer:
    if language == "ptx" and device.partition(":")[0] != LANGUAGES["ptx"].device:
        from tinyref.renderers.ptx import PtxRenderer

        return PtxRenderer(_PTX_ARCHITECTURE)
    renderer: Renderer = backend.renderer
    return renderer


def _numbered(item: Wanted, slots: Sequence[int]) -> Wanted:
    return Wanted(**{**vars(item), "slot": slots.index(item.slot)})


# What the tool is told, by the backend that is open.


def _opencl(backend: Any) -> dict[str, Any]:
    session = backend.session
    return {"options": session.options, "seen": session.device.platform.name}


def _wgsl(backend: Any) -> dict[str, Any]:
    return {"seen": backend.adapter.summary.split()[0]}


def _cuda(backend: Any) -> dict[str, Any]:
    from tinyref.runtimes.cuda_compilers import OPTIONS

    return {"options": (*OPTIONS, f"--fmad={_contracts('false', 'true')}")}


def _ptx(backend: Any) -> dict[str, Any]:
    known = getattr(backend.compiler, "options", (f"--gpu-name=sm_{_PTX_ARCHITECTURE}",))
    return {"options": known}


def _hip(backend: Any) -> dict[str, Any]:
    from tinyref.runtimes.hip_compiler import OPTIONS

    return {"options": (*OPTIONS, f"-ffp-contract={_contracts('off', 'fast')}")}


def _llvm(backend: Any) -> dict[str, Any]:
    from tinyref.runtimes.host.cpu import faulty_passes

    level = config.integer("CPU_LEVEL")
    return {"level": level, "options": faulty_passes() if level > 1 else ()}


def _c(backend: Any) -> dict[str, Any]:
    command = backend.versions()["command"].split()
    return {"options": [command[0].rpartition("/")[2], *command[1:]]}


def _contracts(strict: str, contracted: str) -> str:
    return strict if config.integer("STRICT_FLOAT") else contracted


_SETTINGS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "opencl": _opencl,
    "wgsl": _wgsl,
    "cuda": _cuda,
    "ptx": _ptx,
    "hip": _hip,
    "metal": lambda backend: {},
    "llvm": _llvm,
    "c": _c,
}
