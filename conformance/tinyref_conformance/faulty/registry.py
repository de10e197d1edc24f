"""Which broken devices there are, what is wrong with each, and on which rung it must show."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.contract import Backend
from tinyref.sources import docstring
from tinyref_conformance.faulty import (
    arithmetic,
    compilers,
    forms,
    groups,
    history,
    launches,
    memory,
    rearranged,
    renderings,
    replay,
    tiles,
    transfers,
    waiting,
)
from tinyref_conformance.faulty.cuda_edits import CUDA_EDITS
from tinyref_conformance.faulty.edits import OPENCL_EDITS, WGSL_EDITS, Edit
from tinyref_conformance.faulty.hip_edits import HIP_EDITS
from tinyref_conformance.faulty.metal_edits import METAL_EDITS
from tinyref_conformance.faulty.tile_edits import (
    CUDA_TILE_EDITS,
    HIP_TILE_EDITS,
    METAL_TILE_EDITS,
)
from tinyref_spec.case import Rung

# Without the tensor level: every fault shows elsewhere, and it takes most of the time.
QUERY = "memory,kernel,isa,system"
# Each case is compiled by a slow compiler: a few of every rung are enough.
RENDERING_QUERY = ",".join(
    (
        *("memory.open", "memory.launch.float32", "memory.gate", "kernel.store.constant.*int32"),
        *("kernel.store.constant.*8", "kernel.store.constant.float32", "kernel.one_alu.add"),
        *("kernel.view.permute.float32", "kernel.offset.int32", "kernel.variable"),
        *("isa.binary.idiv.int32", "isa.binary.shr.int32", "isa.binary.cmpne.float32"),
        "isa.unary.sqrt.float32",
        *("isa.constant.float32", "isa.constant.int64", "isa.constant.uint8"),
        *("isa.binary.cmplt.int8", "isa.ternary.where.int32", "isa.cast.float32"),
        *("kernel.program.grid", "kernel.program.gate", "kernel.program.vector*"),
        *("kernel.program.loop.nested", "kernel.program.item", "kernel.program.group"),
        "kernel.program.limit.buffers",
    )
)
# The types that one language has and others emulate.
NATIVE_QUERY = ",".join(
    (
        *(RENDERING_QUERY, "isa.binary.add.bfloat16", "isa.binary.fdiv.float16"),
        *("isa.cast.float64.to_bfloat16", "kernel.program.vector16"),
        *("isa.binary.cmpne.float16", "isa.binary.fdiv.float32", "isa.cast.float64.to_float16"),
    )
)
# What is wrong about tiles alone shows nowhere else.
TILE_QUERY = "memory.open,memory.launch.float32,kernel.program.item,kernel.program.wmma"
EMULATED_OPENCL = "tinyref_conformance.faulty.emulated:EmulatedOpencl"


@dataclass(frozen=True)
class FaultyDevice:
    """One broken device.

    rung: where the suite must say that it is broken first; None where what ran before decides.
    healthy: the device that it would be without the fault. query: the cases that are enough to
    tell. module: where `--device` finds it.
    """

    backend: type[Backend]
    sentence: str
    rung: Rung | None
    healthy: str = "PYTHON"
    query: str = QUERY
    module: str = "tinyref_conformance.faulty"

    @property
    def name(self) -> str:
        return self.backend.__name__

    @property
    def device(self) -> str:
        """The name by which `--device` opens it."""
        return f"{self.module}:{self.name}"


# What a faulty device would be without its fault, where it is not PYTHON.
HEALTHY: dict[type[Backend], str] = {
    groups.BrokenGpu: "GPU_EMU",
    waiting.Queueing: "tinyref_conformance.faulty.waiting:Queueing",
}


def _faulty(backend: type[Backend], rung: Rung | None) -> FaultyDevice:
    healthy = next((name for base, name in HEALTHY.items() if issubclass(backend, base)), "PYTHON")
    return FaultyDevice(backend, docstring(backend), rung, healthy)


def _rendering(edit: Edit, healthy: str, query: str = RENDERING_QUERY) -> FaultyDevice:
    backend = renderings.DEVICES[edit.name]
    module = renderings.__name__
    return FaultyDevice(backend, edit.sentence, edit.rung, healthy, query, module)


FAULTY_DEVICES: dict[str, FaultyDevice] = {
    faulty.name: faulty
    for faulty in (
        _faulty(memory.CopiesOfWords, Rung.MEMORY),
        _faulty(memory.ShortOffsets, Rung.MEMORY),
        _faulty(memory.OffByOneTail, Rung.STORE),
        _faulty(compilers.SwappedResults, Rung.STORE),
        _faulty(memory.StaleOutput, Rung.ONE_ALU),
        _faulty(launches.WrongGroupIndex, Rung.INDEX),
        _faulty(memory.WrappedAddresses, Rung.INDEX),
        _faulty(waiting.EarlyReads, Rung.STORE),
        _faulty(waiting.IdleSynchronize, Rung.LOOP),
        _faulty(waiting.EarlyEvents, Rung.LOOP),
        _faulty(waiting.EarlyCopies, Rung.LOOP),
        _faulty(waiting.LateSources, Rung.LOOP),
        _faulty(waiting.EarlyFrees, Rung.LOOP),
        _faulty(waiting.EarlyFreesBehind, Rung.LOOP),
        _faulty(waiting.EarlyReuse, Rung.LOOP),
        _faulty(waiting.TwoQueues, Rung.LOOP),
        _faulty(waiting.KernelQueues, Rung.LOOP),
        _faulty(waiting.LostReaders, Rung.LOOP),
        _faulty(waiting.SharedArguments, Rung.LOOP),
        _faulty(waiting.NoSeconds, Rung.LOOP),
        _faulty(waiting.ConstantSeconds, Rung.LOOP),
        _faulty(waiting.NegativeSeconds, Rung.LOOP),
        _faulty(arithmetic.Tf32Rounding, Rung.ALU),
        _faulty(arithmetic.FlushedSubnormals, Rung.ALU),
        _faulty(arithmetic.LostNegativeZero, Rung.ALU),
        _faulty(arithmetic.FloorDivision, Rung.ALU),
        _faulty(memory.LowBitBools, Rung.ALU),
        _faulty(rearranged.ContractedProducts, Rung.ALU),
        _faulty(rearranged.ReassociatedSums, Rung.ALU),
        _faulty(arithmetic.TruncatedBfloat16, Rung.CAST),
        _faulty(memory.GatedStoreIgnored, Rung.GATE),
        _faulty(memory.UnsignedGatedLoads, Rung.GATE),
        _faulty(launches.ReversedVectors, Rung.VECTOR),
        _faulty(launches.EmptyLoop, Rung.LOOP),
        _faulty(launches.WrongItemIndex, Rung.GROUP),
        _faulty(launches.MissingBarrier, Rung.GROUP),
        _faulty(groups.LostBarriers, Rung.GROUP),
        _faulty(groups.SwappedItemIndices, Rung.GROUP),
        _faulty(groups.UndersizedArrays, Rung.GROUP),
        _faulty(groups.PrivateArrays, Rung.GROUP),
        _faulty(forms.BuiltInNames, Rung.ONE_ALU),
        _faulty(forms.DroppedParameters, Rung.INDEX),
        _faulty(forms.FirstGridAgain, Rung.INDEX),
        _faulty(forms.SpilledValues, Rung.ALU),
        _faulty(forms.NestedBarriersLost, Rung.GROUP),
        _faulty(forms.SharedArraysOverlap, Rung.GROUP),
        _faulty(tiles.SwappedTileLane, Rung.MATMUL),
        _faulty(replay.StalePointers, Rung.JIT),
        _faulty(replay.StaleVariables, Rung.JIT),
        _faulty(replay.StaleListPointers, Rung.JIT),
        _faulty(replay.StaleListVariables, Rung.JIT),
        _faulty(replay.SingleUpdate, Rung.JIT),
        _faulty(replay.UnorderedList, Rung.JIT),
        _faulty(replay.TruncatedList, Rung.JIT),
        _faulty(replay.HastyList, Rung.JIT),
        _faulty(replay.LateArguments, Rung.JIT),
        _faulty(replay.LostEvents, Rung.JIT),
        _faulty(transfers.LostTransferOffset, Rung.JIT),
        _faulty(transfers.RoundedTransferOffset, Rung.JIT),
        _faulty(transfers.NeighbourTransfer, Rung.JIT),
        _faulty(transfers.TruncatedTransfer, Rung.JIT),
        _faulty(transfers.RoundedTransferSize, Rung.JIT),
        _faulty(transfers.SwappedTransfer, Rung.JIT),
        _faulty(transfers.EarlyTransfer, Rung.JIT),
        _faulty(transfers.HastyTransfer, Rung.JIT),
        _faulty(transfers.LateTransfer, Rung.JIT),
        _faulty(history.StaleKernels, None),
        _faulty(history.OverlappingMemory, None),
        _faulty(history.LeakingLaunches, None),
        _faulty(history.LeftMode, None),
    )
}

FAULTY_RENDERINGS: dict[str, FaultyDevice] = {
    **{edit.name: _rendering(edit, EMULATED_OPENCL) for edit in OPENCL_EDITS},
    **{edit.name: _rendering(edit, "WEBGPU") for edit in WGSL_EDITS},
    **{edit.name: _rendering(edit, "HIP_EMU", NATIVE_QUERY) for edit in HIP_EDITS},
    **{edit.name: _rendering(edit, "METAL_EMU") for edit in METAL_EDITS},
    **{edit.name: _rendering(edit, "CUDA_EMU", NATIVE_QUERY) for edit in CUDA_EDITS},
    **{edit.name: _rendering(edit, "CUDA_EMU", TILE_QUERY) for edit in CUDA_TILE_EDITS},
    **{edit.name: _rendering(edit, "HIP_EMU", TILE_QUERY) for edit in HIP_TILE_EDITS},
    **{edit.name: _rendering(edit, "METAL_EMU", TILE_QUERY) for edit in METAL_TILE_EDITS},
}

ALL_FAULTY = {**FAULTY_DEVICES, **FAULTY_RENDERINGS}
