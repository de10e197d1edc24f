"""Store cases that revealed real bugs, to run them again."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import TypeVar

from tinyref.errors import UserError
from tinyref_fuzz.findings.isolated import MAX_SECONDS
from tinyref_fuzz.findings.isolated import judge_isolated as judge_kernel
from tinyref_fuzz.programs.isolated import judge_isolated as judge_program
from tinyref_fuzz.programs.judge import expected_reads
from tinyref_fuzz.programs.record import load_program, save_program
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import Blame, KernelVerdict
from tinyref_spec.kernel_case.files import load_record, save_record

# Tensor programs that revealed real bugs; the kernels are rows of the spec suite.
PROGRAMS = Path(__file__).parent / "programs"
_Detailed = TypeVar("_Detailed", KernelVerdict, KernelVerdict | None, Blame | None)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


def keep_regression(case: Path, name: str, note: str, folder: Path | None = None) -> Path:
    """Write a kernel's case as `name`.json to the regressions, or to `folder`; return its path.

    `note` is a line about the bug. Raises `UserError` for a bad name or note, for a name that
    exists, and for a case that still fails on the interpreter. The spec suite must be able to
    determine the results of the data.
    """
    target = _target(folder or regressions.FOLDER, name)
    # The tape belongs to a larger case, and to a generator that changes.
    record = load_record(case)
    record = dataclasses.replace(
        record,
        case=dataclasses.replace(record.case, choices=()),
        note=note.strip(),
        verdict=_in_one_line(record.verdict),
        blame=_in_one_line(record.blame),
    )
    if problem := regressions.problem_of(record):
        raise UserError(f"keep: {case}: {problem}")
    _check_agrees(case, judge_kernel(record.case, "PYTHON", MAX_SECONDS))
    _check_free(target)
    return save_record(target, record)


def keep_program(file: Path, name: str, note: str, folder: Path | None = None) -> Path:
    """Store a tensor program, like `keep_regression`; it must have an exact result and read it."""
    target = _target(folder or PROGRAMS, name)
    record = load_program(file)
    program = record.program.with_steps(record.program.steps)
    record = dataclasses.replace(
        record,
        program=program,
        note=note.strip(),
        verdict=_in_one_line(record.verdict),
        blame=_in_one_line(record.blame),
    )
    if problem := regressions.problem_of_note(record.note):
        raise UserError(f"keep: {file}: {problem}")
    if not expected_reads(program):
        raise UserError(f"keep: {file}: the program must read a result that is defined")
    judged = judge_program(record, "PYTHON", MAX_SECONDS)
    _check_agrees(file, judged.verdict or KernelVerdict())
    _check_free(target)
    return save_program(target, record)


def _in_one_line(value: _Detailed) -> _Detailed:
    """Drop the trace of a crash, which has paths of another machine."""
    if value is None:
        return value
    return dataclasses.replace(value, detail=value.detail.partition("\n")[0])


def _target(folder: Path, name: str) -> Path:
    """Return the file of a regression. Raises `UserError` for a bad name or one that exists."""
    if not _NAME.fullmatch(name) or len(name) > 60:
        raise UserError(
            f"keep: name {name!r}, accepted are words in lower case, with - between them"
        )
    target = folder / f"{name}.json"
    _check_free(target)
    return target


def _check_free(target: Path) -> None:
    """Check that the name is free, before and after judging: it may be used meanwhile."""
    if os.path.lexists(target):
        raise UserError(f"keep: {target} already exists: choose another name")


def _check_agrees(file: Path, verdict: KernelVerdict) -> None:
    if verdict.pair is not None:
        detail = _in_one_line(verdict).detail
        raise UserError(f"keep: {file} still fails, between {verdict.pair.value}: {detail}")
