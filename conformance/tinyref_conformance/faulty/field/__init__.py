"""Field faults: faults of real stacks, from public reports, each as a faulty device.

A module has the faults of one kind of stack. `verdicts.json` has the first verdict of suite and
fuzzer on each fault, which never changes, and the present one: `python ci/field_faults.py` writes
it. No row was written for the faults of `fresh`: they stand for faults that nobody has seen.
"""

from __future__ import annotations

import zlib
from itertools import chain

from tinyref.contract import Backend
from tinyref_conformance.faulty.field import (
    amd,
    apple,
    code_generators,
    cpu_compilers,
    fresh,
    intel,
    layers,
    mobile,
    npu,
    numerics,
    nvidia,
    runtimes,
)
from tinyref_conformance.faulty.field.fault import FieldFault

__all__ = ["FIELD_FAULTS", "FieldFault", "is_fresh", "is_held_out"]

_MODULES = (
    amd,
    apple,
    code_generators,
    cpu_compilers,
    fresh,
    intel,
    layers,
    mobile,
    npu,
    numerics,
    nvidia,
    runtimes,
)
FIELD_FAULTS: dict[str, FieldFault] = {
    fault.name: fault for fault in chain.from_iterable(module.FAULTS for module in _MODULES)
}


def is_held_out(name: str) -> bool:
    """Return True for a third of the catalogue, drawn by a hash of the name: it never changes."""
    return zlib.crc32(name.encode()) % 3 == 0 and not is_fresh(name)


def is_fresh(name: str) -> bool:
    """Return True for a fault of the last batch, which was run once and has no rows of its own."""
    return any(fault.name == name for fault in fresh.FAULTS)


def __getattr__(name: str) -> type[Backend]:
    """Return the class of a device by its name, as the paths of devices need it."""
    fault = FIELD_FAULTS.get(name)
    if fault is None:
        raise AttributeError(name)
    return fault.device.backend
