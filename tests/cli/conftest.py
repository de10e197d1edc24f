"""Run the command `tinyref` in the process of a test, as a terminal would start it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tinyref.cli import main


@dataclass(frozen=True)
class Ended:
    """The end of a command: its exit code, and the output of the command and its children."""

    code: int
    out: str
    err: str


RunTinyref = Callable[..., Ended]


@pytest.fixture
def run_tinyref(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> RunTinyref:
    """Run `tinyref` with these arguments, in a folder and with environment variables.

    A Python process for each run would cost more than most commands. Backends still run in the
    processes that the command starts.
    """

    def run(*arguments: str, folder: Path = tmp_path, **environment: str) -> Ended:
        handler = signal.getsignal(signal.SIGINT)
        capfdbinary.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(sys, "path", list(sys.path))
            patch.setattr(sys, "argv", ["tinyref", *arguments])
            for name, value in environment.items():
                patch.setenv(name, value)
            try:
                with pytest.raises(SystemExit) as left:
                    main()
            finally:
                signal.signal(signal.SIGINT, handler)
        streams = capfdbinary.readouterr()
        code = left.value.code
        assert isinstance(code, int), code
        return Ended(code, streams.out.decode(), streams.err.decode())

    return run
