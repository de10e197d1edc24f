"""The case of `tinyref_spec.kernel_case`."""

from tinyref_spec.kernel_case import (
    Array,
    Blame,
    Case,
    Equivalent,
    Mode,
    Opts,
    Pair,
    Symptom,
    Verdict,
)

__all__ = [
    "Array",
    "Blame",
    "Case",
    "Equivalent",
    "Mode",
    "Opts",
    "Pair",
    "Symptom",
    "Verdict",
]
