"""An emulated GPU that reports no races, like real devices: for lost barriers."""

from __future__ import annotations

from typing import Any

from tinyref import config
from tinyref.runtimes.emulated.driver import EmulatedKernel
from tinyref.runtimes.emulated.gpu_emu import GpuEmuBackend
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec.kernel.programs import INT, at, item_index, program


class OneOrderGpu(GpuEmuBackend):
    """GPU_EMU whose launches run once, forward, instead of in both orders of work-items."""

    def load(self, entry: str, binary: bytes) -> EmulatedKernel:
        return _OneOrderKernel(self._memory, self._emulator.load(entry, binary))


class _OneOrderKernel(EmulatedKernel):
    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        with config.Context(EMU_ORDER="forward"):
            return super().__call__(*arguments, **named)


HEALTHY = f"{__name__}:{OneOrderGpu.__name__}"


def broadcast_last(size: int) -> Program:
    """Return a program whose last work-item writes a number that all others add."""
    out, data = build.define_global(0, INT, size), build.define_global(1, INT, size)
    shared, item = build.define_local("shared", INT, 1), item_index(size)
    number = build.load(at(data, item))
    is_last = build.less(build.const(INT, size - 2), item)
    put = build.store(at(shared, 0), number, is_last)
    result = build.add(build.load(at(shared, 0)), number)
    return program(
        "broadcast_last",
        put,
        build.barrier(),
        build.store(at(out, item), result),
        group=(size, 1, 1),
    )
