"""Standard output and error of commands: safe for terminals, and styled lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from tinyref.errors import printable


class PlainStream:
    """A text stream that replaces control characters by escapes.

    Names of devices and tensors, messages of compilers and contents of files come from others.
    The colours of rich are kept: rich writes to `rich_proxied_file`.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        # A lone carriage return is ours: it ends a line of progress.
        return self.rich_proxied_file.write(text if text == "\r" else printable(text))

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


class MessageStream(PlainStream):
    """Standard error: a message that cannot be written is lost, and the run goes on.

    Otherwise a full disk behind `2> log` would end a run of hours, with the code of a failure.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError:
            discard_output(2)
            return len(text)

    def flush(self) -> None:
        try:
            self.rich_proxied_file.flush()
        except BrokenPipeError:
            raise
        except OSError:
            discard_output(2)


def discard_output(descriptor: int) -> None:
    """Send everything that is written to this descriptor from now on nowhere, also at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def open_closed_streams() -> None:
    """Discard the output to standard streams that the caller closed, as in `tinyref config >&-`.

    Otherwise the next open file would get the number of one, and the output of a driver.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest that is free, so this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


@contextlib.contextmanager
def kept_streams() -> Iterator[None]:
    """Undo what a program inside does to standard output and error: replace, close, redirect."""
    streams = sys.stdout, sys.stderr
    copies = os.dup(1), os.dup(2)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for number, (stream, copy) in enumerate(zip(streams, copies, strict=True), start=1):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
            os.dup2(copy, number)
            os.close(copy)
            if stream.closed and isinstance(stream, PlainStream):
                opened = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                stream.rich_proxied_file = opened


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Make standard output and error plain within the block."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = PlainStream(sys.stdout), MessageStream(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def print_styled(text: str, style: str) -> None:
    """Print a line in a style of rich, if standard output is a terminal that has colours."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(printable(text), style=style, markup=False)
