"""The languages of scripts without tinyref, and the launch of a program in each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinyref import config
from tinyref.algebra.evaluate import bound_value, launch_grid
from tinyref.contract import Renderer, entry_point
from tinyref.device import Device
from tinyref.dtype import ImageDType, numpy_dtype
from tinyref.errors import UserError
from tinyref.runtimes.red_zones import POISONS
from tinyref.runtimes.reproducer import ReproducedLaunch, Wanted
from tinyref.uops.payload import VarArg
from tinyref.uops.program import offset_name, slots_in_words
from tinyref_spec.bits import Array
from tinyref_spec.tool_scripts.launch import ToolLaunch, tool_script

# The architecture of PTX where there is no GPU.
_PTX_ARCHITECTURE = 90


# The options of the tool for the open backend, as fields of a `ToolLaunch`.


def _opencl(backend: Any) -> dict[str, Any]:
    session = backend.session
    return {"options": session.options, "seen": session.device.platform.name}


def _wgsl(backend: Any) -> dict[str, Any]:
    return {"seen": backend.adapter.summary.split()[0]}


def _cuda(backend: Any) -> dict[str, Any]:
    from tinyref.runtimes.cuda_compilers import OPTIONS

    return {"options": [*OPTIONS, f"--fmad={_contracts('false', 'true')}"]}


def _ptx(backend: Any) -> dict[str, Any]:
    default = [f"--gpu-name=sm_{_PTX_ARCHITECTURE}"]
    return {"options": getattr(backend.compiler, "options", default)}


def _hip(backend: Any) -> dict[str, Any]:
    from tinyref.runtimes.hip_compiler import OPTIONS

    return {"options": [*OPTIONS, f"-ffp-contract={_contracts('off', 'fast')}"]}


def _llvm(backend: Any) -> dict[str, Any]:
    from tinyref.runtimes.host.cpu import faulty_passes

    level = config.integer("CPU_LEVEL")
    return {"level": level, "options": faulty_passes() if level > 1 else ()}


def _c(backend: Any) -> dict[str, Any]:
    compiler, *options = backend.versions()["command"].split()
    return {"options": [compiler.rpartition("/")[2], *options]}


def _contracts(strict: str, contracted: str) -> str:
    return strict if config.integer("STRICT_FLOAT") else contracted


@dataclass(frozen=True)
class Language:
    """A language that tools compile."""

    devices: tuple[str, ...]
    """The devices whose kernels a tool of the language compiles."""
    settings: Callable[[Any], dict[str, Any]] = lambda backend: {}
    """The options of the tool for an open backend."""
    emulator: str = ""
    """The device that has kernels of the language on every host."""


LANGUAGES: Mapping[str, Language] = {
    "opencl": Language(("OPENCL", "OCLGRIND"), _opencl),
    "wgsl": Language(("WEBGPU",), _wgsl),
    "cuda": Language(("CUDA",), _cuda, "CUDA_EMU"),
    "ptx": Language(("PTX",), _ptx, "CUDA_EMU"),
    "hip": Language(("HIP",), _hip, "HIP_EMU"),
    "metal": Language(("METAL",), emulator="METAL_EMU"),
    "llvm": Language(("CPU",), _llvm),
    "c": Language(("CLANG",), _c),
}
# Other names of a language: tools that compile it.
_TOOLS = {"gcc": "c", "clang": "c", "tcc": "c", "ptxas": "ptx", "nvrtc": "cuda", "wgpu": "wgsl"}


def language_for(name: str, device: str) -> str:
    """Return the language of this name, by default the language of the device.

    Raise `UserError` for another name, and if no tool compiles the kernels of the device.
    """
    language = _TOOLS.get(name, name) or _language_of(device)
    if not language:
        raise UserError(f"export: no tool compiles the kernels of {device}: name one by --for")
    if language not in LANGUAGES:
        accepted = ", ".join([*LANGUAGES, *_TOOLS])
        raise UserError(f"for: got {name!r}, accepted are {accepted}, and libraries")
    return language


def _language_of(device: str) -> str:
    base = _base(device)
    return next((name for name, entry in LANGUAGES.items() if base in entry.devices), "")


def _base(device: str) -> str:
    return device.partition(":")[0]


def device_for(language: str, device: str = "") -> str:
    """Return `device` if its kernels are of the language, or a device here if it is empty.

    Raise `UserError` for another device, and if none opens.
    """
    entry = LANGUAGES[language]
    names = [name for name in (*entry.devices, entry.emulator) if name]
    if _base(device) in names:
        return device
    if device:
        # The text of another device would lack a fault of this one's renderer.
        raise UserError(
            f"for: no tool of {language} takes the kernels of {device} as they are: accepted are "
            f"those of {', '.join(names)}, which have other texts"
        )
    for name in names:
        if Device.availability(name).works:
            return name
    reason = Device.availability(names[0]).reason
    raise UserError(f"for: no device here has kernels of {language}: {names[0]}: {reason}")


def script_of(
    about: str, launch: ReproducedLaunch, expected: Sequence[Wanted], language: str = ""
) -> str:
    """Return the script of a launch in a language, by default the language of its device.

    Raise `UserError` if there is no language, or if the language cannot express the launch.
    """
    name = language_for(language, launch.device)
    if launch.before:
        raise UserError("export: the kernel is wrong after other launches: a script has only one")
    return tool_script(name, _tool_launch(about, launch, expected, name))


def _tool_launch(
    about: str, launch: ReproducedLaunch, expected: Sequence[Wanted], language: str
) -> ToolLaunch:
    program, bindings, backend = launch.program, launch.bindings, Device[launch.device]
    grid = launch_grid(program, bindings)
    if 0 in grid:
        raise UserError("export: the kernel launches no groups")
    if any(isinstance(node.dtype, ImageDType) for node in program.uops):
        raise UserError("export: scripts have no images")
    renderer = _renderer(backend, launch.device, language)
    slots = [parameter.slot for parameter in program.parameters]
    in_words = slots_in_words(program)
    offsets = {offset_name(slot) for slot in in_words}
    variables = [node.arg for node in program.variables if isinstance(node.arg, VarArg)]
    arrays = _arrays(launch)
    unaligned = [slot in launch.unaligned and slot not in in_words for slot in slots]
    return ToolLaunch(
        about=about,
        source=renderer.render(program),
        entry=entry_point(renderer, program),
        arrays=arrays,
        expected=[replace(item, slot=slots.index(item.slot)) for item in expected],
        begins=[array.itemsize * far for array, far in zip(arrays, unaligned, strict=True)],
        grid=grid,
        group=program.group,
        variables=[
            0 if variable.name in offsets else bound_value(variable, bindings, program.name)
            for variable in variables
        ],
        **LANGUAGES[language].settings(backend),
    )


def _arrays(launch: ReproducedLaunch) -> list[Array]:
    """Return the flat contents of each parameter; an output holds a poison."""
    arrays = []
    for parameter in launch.program.parameters:
        data = launch.inputs[parameter.slot]
        if data is None:
            nbytes = parameter.size * parameter.dtype.itemsize
            data = np.full(nbytes, POISONS[0], np.uint8).view(numpy_dtype(parameter.dtype))
        arrays.append(np.ascontiguousarray(data).reshape(-1))
    return arrays


def _renderer(backend: Any, device: str, language: str) -> Renderer:
    if language == "ptx" and _base(device) not in LANGUAGES["ptx"].devices:
        from tinyref.renderers.ptx import PtxRenderer

        return PtxRenderer(_PTX_ARCHITECTURE)
    renderer: Renderer = backend.renderer
    return renderer
