"""The table of faulty devices, and the healthy ones that are as late."""

from __future__ import annotations

from itertools import chain

from tinyref_conformance.faulty import (
    arithmetic,
    launches,
    matching,
    memory,
    order,
    replay,
    rewrites,
    texts,
    transfers,
)
from tinyref_conformance.faulty.device import FaultyDevice

_GROUPS = (memory, arithmetic, rewrites, launches, matching, order, replay, transfers)
FAULTY_DEVICES: dict[str, FaultyDevice] = {
    faulty.name: faulty for faulty in chain.from_iterable(group.FAULTS for group in _GROUPS)
}
FAULTY_RENDERINGS: dict[str, FaultyDevice] = {faulty.name: faulty for faulty in texts.FAULTS}
ALL_FAULTY = {**FAULTY_DEVICES, **FAULTY_RENDERINGS}
HEALTHY: dict[str, FaultyDevice] = {healthy.name: healthy for healthy in order.HEALTHY}
