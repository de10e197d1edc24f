"""What the rungs rest on: the rows without which a case of a higher rung says nothing."""

from __future__ import annotations

import functools

from tinyref_spec.case import Rung

# For each rung, the rows that show it in its plainest form; every one must be in the tables.
FOUNDATIONS: dict[Rung, tuple[str, ...]] = {
    Rung.OPEN: ("memory.open",),
    Rung.MEMORY: ("memory.copy.uint8",),
    Rung.STORE: ("kernel.store.constant.int32", "kernel.store.constant.float32"),
    Rung.ONE_ALU: ("kernel.one_alu.add.int32", "kernel.one_alu.add.float32"),
    Rung.INDEX: ("kernel.view.permute.float32", "kernel.view.flip.float32"),
    Rung.ALU: ("isa.binary.mul.int32", "isa.binary.mul.float32"),
    Rung.CAST: ("isa.cast.int32.to_float32", "isa.cast.float32.to_int32"),
    Rung.GATE: ("memory.gate.load.float32", "memory.gate.store.float32"),
    Rung.LOOP: ("kernel.reduce.add.float32",),
    Rung.MATMUL: ("kernel.matmul.float32",),
    Rung.TENSOR: ("tensor.add.float32.forward",),
}


@functools.cache
def foundations(rung: Rung) -> tuple[str, ...]:
    """The rows of the lower rungs that a case of `rung` depends on; the nearest three rungs."""
    lower = [FOUNDATIONS[item] for item in Rung if item < rung and item in FOUNDATIONS]
    # Vectors and groups are no condition: a device may have neither.
    return tuple(row for rows in lower[-4:] for row in rows)
