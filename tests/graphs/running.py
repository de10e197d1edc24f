"""Helpers for results of programs, and for processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.uops.program import Program


def outcome(
    program: Program, count: int, *inputs: np.ndarray, dtype: DType = dtypes.int32, **options: Any
) -> list[Any]:
    """Return what the interpreter writes to a buffer of zeros, slot 0 of the program."""
    result = np.zeros(count, numpy_dtype(dtype))
    run_program(program, [result, *inputs], **options)
    return result.tolist()


def is_running(pid: int) -> bool:
    """Return True if the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
