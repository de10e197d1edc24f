"""Faulty devices: broken on purpose, which the suite must catch, each on the right rung.

Each is a healthy device with one edit, a row of a table: `registry.py` has them all. They are
named by their path: `tinyref conform --device tinyref_conformance.faulty:Tf32Rounding`. They
declare what the healthy device declares, so that nothing but their answers gives them away.
"""

from tinyref.contract import Backend
from tinyref_conformance.faulty.device import FaultyDevice
from tinyref_conformance.faulty.registry import ALL_FAULTY, FAULTY_DEVICES, HEALTHY

__all__ = ["ALL_FAULTY", "FAULTY_DEVICES", "FaultyDevice"]


def __getattr__(name: str) -> type[Backend]:
    """Return the class of a device by its name, as the paths of devices need it."""
    row = ALL_FAULTY.get(name) or HEALTHY.get(name)
    if row is None:
        raise AttributeError(name)
    return row.backend
