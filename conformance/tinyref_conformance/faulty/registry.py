"""Which broken devices there are, what is wrong with each, and on which rung it must show."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref_conformance.faulty import arithmetic, launches, memory, replay, tiles, waiting
from tinyref_conformance.faulty.broken import BrokenBackend
from tinyref_spec.case import Rung


@dataclass(frozen=True)
class FaultyDevice:
    """One broken device.

    rung: where the suite must say that it is broken first.
    """

    backend: type[BrokenBackend]
    sentence: str
    rung: Rung

    @property
    def name(self) -> str:
        return self.backend.__name__

    @property
    def device(self) -> str:
        """The name by which `--device` opens it."""
        return f"tinyref_conformance.faulty:{self.name}"


def _animal(backend: type[BrokenBackend], rung: Rung) -> FaultyDevice:
    return FaultyDevice(backend, (backend.__doc__ or "").strip(), rung)


FAULTY_DEVICES: dict[str, FaultyDevice] = {
    faulty.name: faulty
    for faulty in (
        _animal(memory.OffByOneTail, Rung.STORE),
        _animal(memory.StaleOutput, Rung.ONE_ALU),
        _animal(launches.WrongGroupIndex, Rung.INDEX),
        _animal(waiting.IdleSynchronize, Rung.INDEX),
        _animal(waiting.EarlyCopies, Rung.INDEX),
        _animal(waiting.NoSeconds, Rung.INDEX),
        _animal(waiting.ConstantSeconds, Rung.INDEX),
        _animal(waiting.NegativeSeconds, Rung.INDEX),
        _animal(arithmetic.Tf32Rounding, Rung.ALU),
        _animal(arithmetic.FlushedSubnormals, Rung.ALU),
        _animal(arithmetic.LostNegativeZero, Rung.ALU),
        _animal(arithmetic.FloorDivision, Rung.ALU),
        _animal(arithmetic.TruncatedBfloat16, Rung.CAST),
        _animal(memory.GatedStoreIgnored, Rung.GATE),
        _animal(launches.ReversedVectors, Rung.VECTOR),
        _animal(launches.EmptyLoop, Rung.LOOP),
        _animal(launches.WrongItemIndex, Rung.GROUP),
        _animal(launches.MissingBarrier, Rung.GROUP),
        _animal(tiles.SwappedTileLane, Rung.MATMUL),
        _animal(replay.StalePointers, Rung.JIT),
        _animal(replay.StaleVariables, Rung.JIT),
    )
}
