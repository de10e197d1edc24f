"""Cases of fuzzing and of regressions: a kernel with its data, and what was found with it.

Input is JSON from any source, in the format `tinyref.case` of docs/fuzzing.md. Nothing of it is
evaluated, and everything that the writer would not write is refused. Output is a `CaseRecord`: a
`KernelCase` with its `KernelVerdict` and its `Blame`.

`case.py` has these; `document.py` their JSON; `files.py` reads and writes files; `members.py`,
`limits.py` and `buffers.py` check the input.
"""

from __future__ import annotations

from tinyref_spec.kernel_case.case import (
    Array,
    Blame,
    CaseRecord,
    Equivalent,
    KernelCase,
    KernelVerdict,
    Mode,
    Opts,
    Pair,
    Symptom,
)

__all__ = [
    "Array",
    "Blame",
    "CaseRecord",
    "Equivalent",
    "KernelCase",
    "KernelVerdict",
    "Mode",
    "Opts",
    "Pair",
    "Symptom",
]
