"""Prints one hash over the cases of COUNT tapes, each replayed and read back on the way.

`python fuzz/tests/tapes_digest.py COUNT`; a process of its own shows that nothing depends on it.
"""

from __future__ import annotations

import hashlib
import json
import sys

from tinyref.device import Device
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Case, CaseRecord
from tinyref_spec.kernel_case.document import record_from_json, record_text


def generated(tape: Tape) -> Case:
    return generate(tape, Device["PYTHON"].capabilities)


def digest(count: int) -> str:
    """SHA-256 over the texts of the cases of the seeds below `count`."""
    total = hashlib.sha256()
    for seed in range(count):
        case = generated(Tape(seed=seed))
        text = record_text(CaseRecord(case))
        assert record_text(CaseRecord(generated(Tape(choices=case.choices)))) == text, seed
        assert record_text(record_from_json(json.loads(text))) == text, seed
        total.update(text.encode())
    return total.hexdigest()


if __name__ == "__main__":
    print(digest(int(sys.argv[1])))  # noqa: T201
