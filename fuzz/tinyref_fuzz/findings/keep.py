"""Cases that found real bugs in this repository, kept for the spec suite to run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from tinyref.errors import UserError
from tinyref_fuzz.findings.isolated import MAX_SECONDS, judge_isolated
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case.files import load_record, save_record

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


def keep_regression(case: Path, name: str, note: str, folder: Path | None = None) -> Path:
    """Writes a case as `name`.json beside the other regressions, or into `folder`; gives its path.

    `note` is a line on the bug that it found. Raises `UserError` for a name or a note that will not
    do, data whose results the spec suite cannot tell, a case that still fails on the interpreter,
    and a name that is taken.
    """
    if not _NAME.fullmatch(name) or len(name) > 60:
        raise UserError(
            f"keep: name {name!r}, accepted are words in lower case, with - between them"
        )
    # The tape is of a larger case, and of a generator that changes.
    record = load_record(case)
    record = dataclasses.replace(
        record, case=dataclasses.replace(record.case, choices=()), note=note.strip()
    )
    problem = regressions.problem_of(record)
    if problem:
        raise UserError(f"keep: {case}: {problem}")
    verdict = judge_isolated(record.case, "PYTHON", MAX_SECONDS)
    if verdict.pair is not None:
        detail = verdict.detail.partition("\n")[0]
        raise UserError(f"keep: {case} still fails, between {verdict.pair.value}: {detail}")
    target = (folder or regressions.FOLDER) / f"{name}.json"
    if target.exists():
        raise UserError(f"keep: {target} is there: give another name")
    return save_record(target, record)
