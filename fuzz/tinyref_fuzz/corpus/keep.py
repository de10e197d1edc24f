"""Cases that found real bugs in this repository, kept to be run again."""

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

# Tensor programs that found real bugs; those of kernels are rows of the spec suite.
PROGRAMS = Path(__file__).parent / "programs"
_Found = TypeVar("_Found", KernelVerdict, KernelVerdict | None, Blame | None)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


def keep_regression(case: Path, name: str, note: str, folder: Path | None = None) -> Path:
    """Writes a kernel's case as `name`.json beside the other regressions, or into `folder`.

    Gives its path. `note` is a line on the bug that it found. Raises `UserError` for a name or a
    note that will not do, data whose results the spec suite cannot tell, a case that still fails on
    the interpreter, and a name that is taken.
    """
    target = _target(folder or regressions.FOLDER, name)
    # The tape is of a larger case, and of a generator that changes.
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
    """As `keep_regression`, of a tensor program, which must have an exact result and read it."""
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
        raise UserError(f"keep: {file}: accepted is a program that reads what is defined")
    judged = judge_program(record, "PYTHON", MAX_SECONDS)
    _check_agrees(file, judged.verdict or KernelVerdict())
    _check_free(target)
    return save_program(target, record)


def _in_one_line(found: _Found) -> _Found:
    """Without the trace of a crash, whose paths are those of the machine that it was found on."""
    if found is None:
        return found
    return dataclasses.replace(found, detail=found.detail.partition("\n")[0])


def _target(folder: Path, name: str) -> Path:
    """The file of a regression. Raises `UserError` for a name that will not do or is taken."""
    if not _NAME.fullmatch(name) or len(name) > 60:
        raise UserError(
            f"keep: name {name!r}, accepted are words in lower case, with - between them"
        )
    target = folder / f"{name}.json"
    _check_free(target)
    return target


def _check_free(target: Path) -> None:
    """Asked before judging and after it: meanwhile somebody else may have taken the name."""
    if os.path.lexists(target):
        raise UserError(f"keep: {target} is there: give another name")


def _check_agrees(file: Path, verdict: KernelVerdict) -> None:
    if verdict.pair is not None:
        detail = _in_one_line(verdict).detail
        raise UserError(f"keep: {file} still fails, between {verdict.pair.value}: {detail}")
