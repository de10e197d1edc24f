"""TINYREF_EXPLAIN=page.html python FILE.py: record a program from its start, and write its page."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path

from tinyref.cli.explain.recording import Failure, Recording, failure_of
from tinyref.engine.report import watching
from tinyref.tensor.naming import noting_lines

VARIABLE = "TINYREF_EXPLAIN"


def start() -> None:
    """Record what this thread computes until the process ends.

    The variable is removed, so that processes that the program starts do not write the same page.
    """
    target = Path(os.environ.pop(VARIABLE)).absolute()
    record = Recording()
    recording = contextlib.ExitStack()
    recording.enter_context(watching(record))
    recording.enter_context(noting_lines())
    # The argument also keeps the contexts: a context that is collected ends.
    atexit.register(_write, target, record, recording)


def _write(target: Path, record: Recording, recording: contextlib.ExitStack) -> None:
    """End the recording and write the page. An error is printed: the program has ended."""
    from tinyref.cli.explain.page import page
    from tinyref.cli.options import check_target, write_output
    from tinyref.config import Context
    from tinyref.device import Device
    from tinyref.errors import TinyrefError

    recording.close()
    if not record.realizes:
        return
    error = getattr(sys, "last_value", None)
    failure: Failure | None = None
    if isinstance(error, BaseException):
        failure = failure_of(error, Path(sys.argv[0]))
    try:
        check_target(target, f"{VARIABLE}:")
        # A process that ends may not start the threads that a measurement needs.
        with Context(THREADS=1):
            text = page(sys.argv[0], Device.default, record, failure, is_measured=False)
        write_output(target, text, VARIABLE)
    except TinyrefError as problem:
        print(f"tinyref: error: {problem}", file=sys.stderr)
        return
    print(f"tinyref: wrote {target}", file=sys.stderr)
