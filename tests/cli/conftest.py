"""The command `tinyref`, run by the process of a test as a terminal would start it."""

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
    """How a command ended: its exit code, and what reached the terminal, of its children too."""

    code: int
    out: str
    err: str


RunTinyref = Callable[..., Ended]


@pytest.fixture
def run_tinyref(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> RunTinyref:
    """Runs `tinyref` with these arguments, in a folder and with variables of the environment.

    An interpreter for each would cost more than most commands. What a backend does it does in the
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
        shown = capfdbinary.readouterr()
        code = left.value.code
        assert isinstance(code, int), code
        # As a terminal gets it.
        return Ended(code, shown.out.decode(), shown.err.decode())

    return run
