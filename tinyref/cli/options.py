"""What several commands ask of their options, and how a long one stops.

Ctrl-C, a terminal that closes and a system that goes down end it, with the command that goes on.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import typer

from tinyref.errors import DeviceError, UserError, printable_json

MAX_JOBS = 1024
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALLED = 128  # with the number of the signal, as shells report it


def path(value: str | Path) -> Path:
    """A path of a file or folder; an empty text, as of an unset variable, is none."""
    if not str(value):
        raise typer.BadParameter("the path is empty: accepted is that of a file or a folder")
    if is_too_long(value):
        raise typer.BadParameter("the path is too long: no file can have it")
    return Path(value)


def is_too_long(value: str | Path) -> bool:
    """Whether no file can have this path, or a part of it, as a name."""
    try:
        os.lstat(value)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def check_target(target: Path, name: str, program: Path | None = None) -> None:
    """Raises `UserError` where a file cannot be written: asked before what may take long.

    name: of the command and the option. program: what the command runs, which is not to be lost.
    A file is replaced, so that its folder counts; what is no file, such as /dev/stdout, is opened.
    """
    is_replaced = target.is_file() or not target.exists()
    place = target.absolute().parent if is_replaced else target
    if target.is_dir() or not os.access(place, os.W_OK):
        raise UserError(f"{name} {target} cannot be written: its folder must be there")
    if program is not None and target.resolve() == program.resolve():
        raise UserError(f"{name} {target} is the program itself")


def write_output(target: Path, text: str, name: str) -> None:
    """Writes what a command prints to a file, whole or not at all. Raises `UserError`.

    What is no regular file, such as /dev/stdout, is written as it is.
    """
    from tinyref.runtimes.data_only import replace_file

    # Names of devices and words of drivers may hold what UTF-8 does not have.
    text = printable_json(text)
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            target.write_text(text, encoding="utf-8")
        else:
            replace_file(str(target), [text.encode()])
    except OSError as error:
        raise UserError(f"{name}: cannot write {target}: {error.strerror or error}") from error
    except DeviceError as error:
        raise UserError(f"{name}: {target}: {error.message}") from error


def check_finite(**options: float | None) -> None:
    """Raises `UserError` for infinite seconds, and for NaN, which a range admits."""
    for option, value in options.items():
        if value is not None and not math.isfinite(value):
            raise UserError(f"{option}: expected a number of seconds, got {value}")


def say_bounded(asked: int, workers: int) -> None:
    """Says on standard error that fewer workers run than were asked for."""
    if workers < asked:
        print(f"tinyref: {workers} workers instead of {asked}: memory is short", file=sys.stderr)


def device_name(name: str | None) -> str:
    """The canonical name of a device, the default one if empty; its package is not imported here.

    Raises `UserError` for one that nothing declares.
    """
    from tinyref import config
    from tinyref.device import Device
    from tinyref.probe import probe

    name = name or config.text("DEVICE")
    if not Device.asks_package(name):
        return Device.canonical(name)
    (found,) = probe([name])
    if found.is_misnamed:
        raise UserError(found.reason)
    return found.name


def check_gives_values(device: str) -> None:
    """Raises `UserError` for a device of which there is nothing to measure: it computes nothing.

    And for a name that no backend has. What else does not open passes: it is reported later.
    """
    from tinyref.capabilities import reason_without_values
    from tinyref.probe import probe

    (found,) = probe([device])
    if found.is_misnamed:
        raise UserError(found.reason)
    declared = found.capabilities
    if declared is None:
        return
    if reason := reason_without_values(declared["ops"], declared["keeps_values"]):
        raise UserError(f"device: {device} {reason}: this command looks at what is computed")


def opening_device(name: str | None) -> str:
    """The canonical name of a device that this process may open, the default one if empty.

    A vendor's has been opened before in another process, which it may end, hang or confuse. Raises
    `UserError` where no backend has the name, `DeviceError` where the device does not open.
    """
    from tinyref.device import Device
    from tinyref.probe import probe

    found = device_name(name)
    if Device.is_ours(found):
        return found
    (probed,) = probe([found])
    if probed.is_misnamed:
        raise UserError(probed.reason)
    if not probed.works:
        raise DeviceError(found, f"does not open: {probed.reason}")
    return found


class Stopped(KeyboardInterrupt):
    """Somebody asked for an end by the signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def until_stopped(work: Callable[[], int], kept: str, resuming: Callable[[], str]) -> int:
    """The exit code of `work`, or that of the signal that ended it.

    Then it prints what is `kept`, and the command `resuming` that goes on. A signal that the
    process was started to ignore, as under `nohup`, stays ignored.
    """
    with _raising(SIGNALS):
        try:
            return work()
        except KeyboardInterrupt as stop:
            # Whoever presses the keys twice is to read the message too.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            print(f"\ntinyref: stopped; what was {kept} is kept. Go on with:", file=sys.stderr)
            print(f"  {resuming()}", file=sys.stderr)
            return _SIGNALLED + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)


@contextlib.contextmanager
def _raising(numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Within the block these signals raise `Stopped`."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    taken = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
