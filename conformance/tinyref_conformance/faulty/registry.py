"""Which broken devices there are, what is wrong with each, and on which rung it must show."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.device import Backend
from tinyref_conformance.faulty import (
    arithmetic,
    compilers,
    forms,
    groups,
    launches,
    memory,
    rearranged,
    replay,
    tiles,
    transfers,
    waiting,
)
from tinyref_spec.case import Rung


@dataclass(frozen=True)
class FaultyDevice:
    """One broken device.

    rung: where the suite must say that it is broken first.
    """

    backend: type[Backend]
    sentence: str
    rung: Rung

    @property
    def name(self) -> str:
        return self.backend.__name__

    @property
    def healthy(self) -> str:
        """The device that it would be without the fault."""
        return "GPU_EMU" if issubclass(self.backend, groups.BrokenGpu) else "PYTHON"

    @property
    def device(self) -> str:
        """The name by which `--device` opens it."""
        return f"tinyref_conformance.faulty:{self.name}"


def _faulty(backend: type[Backend], rung: Rung) -> FaultyDevice:
    return FaultyDevice(backend, (backend.__doc__ or "").strip(), rung)


FAULTY_DEVICES: dict[str, FaultyDevice] = {
    faulty.name: faulty
    for faulty in (
        _faulty(memory.OffByOneTail, Rung.STORE),
        _faulty(compilers.SwappedResults, Rung.STORE),
        _faulty(memory.StaleOutput, Rung.ONE_ALU),
        _faulty(launches.WrongGroupIndex, Rung.INDEX),
        _faulty(waiting.IdleSynchronize, Rung.INDEX),
        _faulty(waiting.EarlyCopies, Rung.INDEX),
        _faulty(waiting.NoSeconds, Rung.INDEX),
        _faulty(waiting.ConstantSeconds, Rung.INDEX),
        _faulty(waiting.NegativeSeconds, Rung.INDEX),
        _faulty(arithmetic.Tf32Rounding, Rung.ALU),
        _faulty(arithmetic.FlushedSubnormals, Rung.ALU),
        _faulty(arithmetic.LostNegativeZero, Rung.ALU),
        _faulty(arithmetic.FloorDivision, Rung.ALU),
        _faulty(rearranged.ContractedProducts, Rung.ALU),
        _faulty(rearranged.ReassociatedSums, Rung.ALU),
        _faulty(arithmetic.TruncatedBfloat16, Rung.CAST),
        _faulty(memory.GatedStoreIgnored, Rung.GATE),
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
        _faulty(transfers.LostTransferOffset, Rung.JIT),
        _faulty(transfers.RoundedTransferOffset, Rung.JIT),
        _faulty(transfers.NeighbourTransfer, Rung.JIT),
        _faulty(transfers.TruncatedTransfer, Rung.JIT),
        _faulty(transfers.RoundedTransferSize, Rung.JIT),
        _faulty(transfers.SwappedTransfer, Rung.JIT),
        _faulty(transfers.EarlyTransfer, Rung.JIT),
        _faulty(transfers.HastyTransfer, Rung.JIT),
        _faulty(transfers.LateTransfer, Rung.JIT),
    )
}
