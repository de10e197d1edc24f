"""Cases of fuzzing and of regressions: a kernel with its data, and what was found with it.

In: JSON that may come from anywhere (the format `tinyref.case` of docs/fuzzing.md): nothing of it
is evaluated, and all that the writer does not write is refused. Out: a `CaseRecord`, which is a
`KernelCase` with its `KernelVerdict` and its `Blame`.

`case.py` has these; `document.py` their JSON; `files.py` reads and writes files; `members.py`,
`limits.py` and `buffers.py` check what is read.
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
