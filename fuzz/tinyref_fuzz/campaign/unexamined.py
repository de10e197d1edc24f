"""Describe a finding without its case."""

from __future__ import annotations

import re

from tinyref_fuzz.campaign.task import Examination
from tinyref_fuzz.findings.pair import blame_of_pair
from tinyref_spec.kernel_case import KernelVerdict, Symptom

MAX_WORDS = 12


def signature(verdict: KernelVerdict) -> str:
    """Describe a finding before its examination: pair, symptom, and the words of an error.

    Numbers, names of kernels and quoted names are replaced by *. Wrong values have no words.
    """
    pair = verdict.pair.name if verdict.pair else ""
    symptom = verdict.symptom.name if verdict.symptom else ""
    if verdict.symptom in (Symptom.VALUE, Symptom.UNSTABLE, Symptom.RED_ZONE):
        return f"{pair} {symptom}"
    line = verdict.detail.strip().partition("\n")[0]
    words = re.sub(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|\b[er](_\w+)*\b|\d+", "*", line).split()
    return " ".join([pair, symptom, *words[:MAX_WORDS]])


def without_case(number: int, verdict: KernelVerdict, problem: str) -> Examination:
    """Return the examination of a finding without its case."""
    blame = blame_of_pair(verdict)
    return Examination(number, signature(verdict), blame, verdict.detail, problem=problem)
