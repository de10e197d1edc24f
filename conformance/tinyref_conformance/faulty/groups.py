"""GPUs, emulated by LLVM, that print groups, barriers or shared memory wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from tinyref.renderers.llvm import LlvmFunction
from tinyref.renderers.llvm_gpu import GpuFunction, LlvmGpuRenderer
from tinyref.renderers.payloads import payload_of
from tinyref.runtimes.emulated.gpu_emu import GpuEmuBackend
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg


class BrokenGpu(GpuEmuBackend):
    """GPU_EMU with a fault in what it prints: subclasses have `changes` of nodes' printers."""

    changes: ClassVar[Mapping[Ops, Callable[[Any, UOp], str | None]]] = {}

    @property
    def renderer(self) -> LlvmGpuRenderer:
        renderer = super().renderer
        renderer.printers = {**renderer.printers, **self.changes}
        return renderer


def _no_barrier(function: GpuFunction, node: UOp) -> None:
    return


class LostBarriers(BrokenGpu):
    """Prints a kernel without its barriers: work-items read what others have not yet written."""

    changes: ClassVar = {Ops.BARRIER: _no_barrier}


def _swapped_index(function: GpuFunction, node: UOp) -> str:
    special = payload_of(node, SpecialArg)
    if special.scope == "item" and special.dim < 2:
        node = UOp(node.op, node.dtype, node.src, SpecialArg("item", 1 - special.dim))
    return function.launch_index(node)


class SwappedItemIndices(BrokenGpu):
    """Prints the second index of a work-item for the first, and the first for the second."""

    changes: ClassVar = {Ops.SPECIAL: _swapped_index}


def _half_array(function: GpuFunction, node: UOp) -> str:
    name = function.shared_memory(node)
    info = function.memories[-1]
    function.memories[-1] = replace(info, elements=info.elements // 2)
    return name


class UndersizedArrays(BrokenGpu):
    """Gives shared arrays half of the elements that they need."""

    changes: ClassVar = {Ops.DEFINE_LOCAL: _half_array}


class PrivateArrays(BrokenGpu):
    """Prints shared arrays as memory of each work-item: nobody sees what the others write."""

    changes: ClassVar = {Ops.DEFINE_LOCAL: LlvmFunction.define_local}
