"""Devices whose renderer prints one thing wrong: an edit of each text.

OpenCL C, CUDA C++, HIP C++ and MSL run on GPUs made of the host, so that every machine with a
compiler can run them, and OpenCL C, as the devices whose names begin with "Driver", on the first
OpenCL device that is there.
"""

from __future__ import annotations

from tinyref.contract import Backend
from tinyref.renderers.c_style import CStyleRenderer
from tinyref.runtimes.emulated.cuda_emu import CudaEmuBackend
from tinyref.runtimes.emulated.hip_emu import HipEmuBackend
from tinyref.runtimes.emulated.metal_emu import MetalEmuBackend
from tinyref.runtimes.opencl.backend import OpenCLBackend
from tinyref.runtimes.webgpu import WebgpuBackend
from tinyref.uops.program import Program
from tinyref_conformance.faulty.cuda_edits import CUDA_EDITS
from tinyref_conformance.faulty.edits import OPENCL_EDITS, WGSL_EDITS, Edit
from tinyref_conformance.faulty.emulated import EmulatedOpencl
from tinyref_conformance.faulty.hip_edits import HIP_EDITS
from tinyref_conformance.faulty.metal_edits import METAL_EDITS
from tinyref_conformance.faulty.tile_edits import (
    CUDA_TILE_EDITS,
    HIP_TILE_EDITS,
    METAL_TILE_EDITS,
)


class EditedRenderer:
    """A renderer with an edit."""

    def __init__(self, inner: CStyleRenderer, edit: Edit) -> None:
        self._inner = inner
        self._edit = edit

    def entry_name(self, program: Program) -> str:
        return self._inner.entry_name(program)

    def render(self, program: Program) -> str:
        return self._edit.apply(self._inner.render(program))


def edited(base: type[Backend], edit: Edit, name: str = "") -> type[Backend]:
    """The device `base` with an edit of the texts that it prints; `name` is that of the class."""

    def renderer(self: Backend) -> EditedRenderer:
        return EditedRenderer(base.renderer.__get__(self), edit)

    members = {"__doc__": edit.sentence, "__module__": __name__, "renderer": property(renderer)}
    return type(name or edit.name, (base,), members)


DEVICES: dict[str, type[Backend]] = {
    **{edit.name: edited(EmulatedOpencl, edit) for edit in OPENCL_EDITS},
    **{edit.name: edited(WebgpuBackend, edit) for edit in WGSL_EDITS},
    **{edit.name: edited(HipEmuBackend, edit) for edit in HIP_EDITS},
    **{edit.name: edited(MetalEmuBackend, edit) for edit in METAL_EDITS},
    **{edit.name: edited(CudaEmuBackend, edit) for edit in CUDA_EDITS},
    **{edit.name: edited(CudaEmuBackend, edit) for edit in CUDA_TILE_EDITS},
    **{edit.name: edited(HipEmuBackend, edit) for edit in HIP_TILE_EDITS},
    **{edit.name: edited(MetalEmuBackend, edit) for edit in METAL_TILE_EDITS},
    **{
        f"Driver{edit.name}": edited(OpenCLBackend, edit, f"Driver{edit.name}")
        for edit in OPENCL_EDITS
    },
}


def __getattr__(name: str) -> type[Backend]:
    """The classes by their names, as the paths of devices need them."""
    try:
        return DEVICES[name]
    except KeyError:
        raise AttributeError(name) from None
