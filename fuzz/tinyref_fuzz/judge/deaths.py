"""The verdict on a case at which a worker process ended."""

from __future__ import annotations

import re
from pathlib import Path

import tinyref
from tinyref.workers.processes import Cause, Death
from tinyref_spec.kernel_case import KernelVerdict, Pair, Symptom

# What an examination may take beyond its own limit, which it checks between its steps.
EXAMINATION_GRACE = 30.0
SYMPTOMS = {Cause.TIMEOUT: Symptom.HANG, Cause.MEMORY: Symptom.MEMORY}
# What runs a program; all other stages make it.
_DEVICE_ROOMS = ("runtimes", "renderers")
_COMPILER_ROOMS = (
    "uops",
    "algebra",
    "views",
    "formats",
    "verify",
    "optimise",
    "codegen",
    "interpret",
)


def verdict_of_death(death: Death) -> KernelVerdict:
    """A death as the verdict on the case that the process was at."""
    symptom = SYMPTOMS.get(death.cause, Symptom.CRASH)
    return KernelVerdict(pair_of_death(death.log), symptom, death.detail)


def pair_of_death(log: str) -> Pair:
    """Where a process died, by the stack that it left: in our own stages, or on the device."""
    folder = Path(str(tinyref.__file__)).parent
    for name in re.findall(r'File "([^"]+)"', log):
        path = Path(name)
        room = path.relative_to(folder).parts[0] if path.is_relative_to(folder) else ""
        if room in _DEVICE_ROOMS:
            return Pair.DEVICE
        if room in _COMPILER_ROOMS:
            return Pair.PLAIN
    return Pair.DEVICE
