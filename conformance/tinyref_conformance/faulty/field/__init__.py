"""Field faults: faults of real stacks, from public reports, each as a faulty device.

A module has the faults of one kind of stack. `verdicts.json` has the first verdict of suite and
fuzzer on each fault, which never changes, and the present one: `python ci/field_faults.py` writes
it. A third of the faults is held out: no row is written for them.
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
    intel,
    layers,
    mobile,
    npu,
    numerics,
    nvidia,
    runtimes,
)
from tinyref_conformance.faulty.field.fault import FieldFault

__all__ = ["FIELD_FAULTS", "FieldFault", "is_held_out"]

_MODULES = (
    amd,
    apple,
    code_generators,
    cpu_compilers,
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
    """Return True for a third of all names, drawn by a hash: it never changes."""
    return zlib.crc32(name.encode()) % 3 == 0


def __getattr__(name: str) -> type[Backend]:
    """Return the class of a device by its name, as the paths of devices need it."""
    fault = FIELD_FAULTS.get(name)
    if fault is None:
        raise AttributeError(name)
    return fault.device.backend
