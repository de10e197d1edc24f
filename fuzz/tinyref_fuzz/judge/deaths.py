"""Turn the death of a worker process into a verdict on its case."""

from __future__ import annotations

import re
from pathlib import Path

import tinyref
from tinyref.workers.processes import Cause, Death
from tinyref_spec.kernel_case import KernelVerdict, Pair, Symptom

# Seconds that an examination may exceed its own limit, which it checks between steps.
EXAMINATION_GRACE = 30.0
SYMPTOMS = {Cause.TIMEOUT: Symptom.HANG, Cause.MEMORY: Symptom.MEMORY}
# Folders that run programs; the others build them.
_DEVICE_FOLDERS = ("runtimes", "renderers")
_COMPILER_FOLDERS = (
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
    """Return a death as the verdict on the case that the process was judging."""
    symptom = SYMPTOMS.get(death.cause, Symptom.CRASH)
    return KernelVerdict(pair_of_death(death.log), symptom, death.detail)


def pair_of_death(log: str) -> Pair:
    """Return where a process died, by its stack: in a stage of the compiler, or on the device."""
    root = Path(str(tinyref.__file__)).parent
    for name in re.findall(r'File "([^"]+)"', log):
        path = Path(name)
        folder = path.relative_to(root).parts[0] if path.is_relative_to(root) else ""
        if folder in _DEVICE_FOLDERS:
            return Pair.DEVICE
        if folder in _COMPILER_FOLDERS:
            return Pair.PLAIN
    return Pair.DEVICE
