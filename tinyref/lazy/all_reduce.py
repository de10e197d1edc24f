"""The sum, product or maximum of one part per device, the same bits on every device.

Two ways. Naive: every device gets the parts of all others and combines them in the order of the
devices. Ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009): the parts are cut into as many chunks as there are devices; each chunk goes
once around, taking up the share of each device on its way, and once more around with the result,
so a device sends and receives twice the size of a part however many devices there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref import config
from tinyref.lazy import graph
from tinyref.lazy.shape import product, shape_of
from tinyref.lazy.shards import concatenate_parts, even_sizes, part_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

# From so many elements on, the flag RING at 1 takes the ring.
LONG = 1 << 18
# With two devices the ring has nothing to save.
FEWEST = 3


def all_reduce(op: Ops, parts: Sequence[UOp], devices: Sequence[str]) -> list[UOp]:
    """`parts`, the i-th on `devices[i]`, combined by ADD, MUL or MAX: the result on each device."""
    # Stored, so that all devices combine the same bits, whatever a part is fused with.
    parts = [graph.contiguous(part) for part in parts]
    return (_ring if _takes_ring(parts[0], len(devices)) else _naive)(op, parts, devices)


def _takes_ring(part: UOp, count: int) -> bool:
    size = product(shape_of(part))
    if not isinstance(size, int) or count < 2:
        return False
    ring = config.integer("RING")
    return ring == 2 or (ring == 1 and count >= FEWEST and size >= LONG)


def _naive(op: Ops, parts: Sequence[UOp], devices: Sequence[str]) -> list[UOp]:
    results = []
    for device in devices:
        first, *others = [graph.copy(part, device) for part in parts]
        for other in others:
            first = graph.alu(op, first, other)
        results.append(first)
    return results


def _ring(op: Ops, parts: Sequence[UOp], devices: Sequence[str]) -> list[UOp]:
    shape = shape_of(parts[0])
    size = product(shape)
    assert isinstance(size, int), "a symbolic size does not come here"
    flat = [graph.reshape(part, (size,)) for part in parts]
    chunks: list[list[UOp]] = [[] for _ in devices]
    begin = 0
    for number, length in enumerate(even_sizes(size, len(devices))):
        shares = [part_of(part, 0, begin, begin + length) for part in flat]
        begin += length
        for place, chunk in enumerate(_once_around(op, shares, devices, number)):
            chunks[place].append(chunk)
    return [graph.reshape(concatenate_parts(pieces, 0), shape) for pieces in chunks]


def _once_around(op: Ops, shares: Sequence[UOp], devices: Sequence[str], start: int) -> list[UOp]:
    """One chunk, combined on its way from device `start`, then passed on to all."""
    count = len(devices)
    chunk = shares[start]
    for step in range(1, count):
        place = (start + step) % count
        chunk = graph.alu(op, graph.copy(chunk, devices[place]), shares[place])
    # The device before the first one has the result.
    last = (start - 1) % count
    found = {last: graph.contiguous(chunk)}
    for step in range(1, count):
        place = (last + step) % count
        found[place] = graph.copy(found[(place - 1) % count], devices[place])
    return [found[place] for place in range(count)]
