"""Decide whether two verdicts are about the same fault: a smaller case must fail alike."""

from __future__ import annotations

import re

from tinyref_spec.kernel_case import KernelVerdict, Symptom

# Labels of rules of the verifier, such as program.range.2.
_RULE = re.compile(r"\b(?:tensor|ast|indexed|program)\.[a-z_]+\.\d+\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# Words without digits and underscores: sizes, types and names of kernels change in a reduction.
_WORD = re.compile(r"(?<![\w.%$])[A-Za-z]{3,}(?![\w])")
_WORDS = 5


def error_words(detail: str) -> str:
    """Return what identifies an error while its kernel shrinks: a rule's label, or first words."""
    rule = _RULE.search(detail)
    if rule is not None:
        return rule[0]
    words = _WORD.findall(_QUOTED.sub(" ", detail))
    return " ".join(words[:_WORDS]).lower()


def is_same_fault(first: KernelVerdict, second: KernelVerdict) -> bool:
    """Return True if both differ in one pair by one symptom; errors also by their words.

    A wrong value is never accepted for a race or an access: a kernel without that fault may still
    have a wrong value, for another reason.
    """
    if first.agrees or second.agrees:
        return False
    if (first.pair, first.symptom) != (second.pair, second.symptom):
        return False
    if first.symptom is not Symptom.ERROR:
        return True
    return error_words(first.detail) == error_words(second.detail)
