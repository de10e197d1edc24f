"""The options that several commands share, their values, and the end of a long command.

Every option is declared by one of the functions here or has a name of its own; `SHORT` lists the
options that have a letter. `tests/cli/test_vocabulary.py` walks all commands.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from tinyref.durations import SHORTEST, parse_duration
from tinyref.errors import DeviceError, UserError, printable_json

MAX_JOBS = 1024
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALLED = 128  # with the number of the signal, as shells report it
SHORT = {"--device": "-d", "--query": "-q", "--jobs": "-j", "--out": "-o", "--verbose": "-v"}
JSON = "--json"
DURATIONS, SHOWN_DURATIONS = "--durations", "10"
# The file that stands for standard output.
STDOUT = Path("-")
_SIZE = re.compile(r"(\d+)(M|G)", re.ASCII)
_BYTES = {"M": 1 << 20, "G": 1 << 30}


# --- declarations ---------------------------------------------------------------------------------


def named(name: str, metavar: str, description: str, **settings: Any) -> Any:
    """Return an option with its name, the name of its value, its help, and its letter if any."""
    letters = [SHORT[name]] if name in SHORT else []
    return typer.Option(name, *letters, metavar=metavar, help=description, **settings)


def flag(name: str, description: str) -> Any:
    """Return an option without a value."""
    letters = [SHORT[name]] if name in SHORT else []
    return typer.Option(name, *letters, help=description)


def device_option(description: str = "The device to use (default: see `tinyref devices`).") -> Any:
    """Return the option that names a device."""
    return named("--device", "NAME", description)


def query_option(description: str) -> Any:
    """Return the option that chooses a part: of cases, rows, works, rules or faults."""
    return named("--query", "QUERY", description, show_default=False)


def out_option(description: str) -> Any:
    """Return the option that names the file or folder that the command writes."""
    return named("--out", "PATH", description, parser=path)


def jobs_option(
    description: str = "Number of worker processes (default: one a core).", least: int = 0
) -> Any:
    """Return the option of the number of processes; 0 stands for the default."""
    return named("--jobs", "N", description, min=least, max=MAX_JOBS, show_default=False)


def json_option(description: str = "Print JSON, or write it to FILE.") -> Any:
    """Return the option of output for programs; without a value it is `STDOUT`."""
    return typer.Option(JSON, metavar="[FILE]", parser=path, help=description)


def duration_option(name: str, description: str) -> Any:
    """Return an option whose value is a time greater than 0."""
    return named(name, "TIME", description, parser=duration, show_default=False)


def file_option(name: str, description: str) -> Any:
    """Return an option that names a file to read."""
    return named(name, "FILE", description, parser=path)


def fill_values(arguments: Sequence[str]) -> list[str]:
    """Give `--json` and `--durations` their default values where they have none.

    The next word is the file of `--json` if it ends in .json or contains a slash; `--json=FILE`
    takes any name. The next word is the number of `--durations` if it has only digits.
    """
    filled: list[str] = []
    for number, word in enumerate(arguments):
        filled.append(word)
        if word == "--":
            return [*filled, *arguments[number + 1 :]]
        following = arguments[number + 1] if number + 1 < len(arguments) else "--"
        is_file = following in ("", "-") or following.endswith(".json") or "/" in following
        if word == JSON and not is_file:
            filled.append(str(STDOUT))
        if word == DURATIONS and not following.isdecimal():
            filled.append(SHOWN_DURATIONS)
    return filled


# --- values ---------------------------------------------------------------------------------------


def duration(value: str | float) -> float:
    """Return the seconds of "90s", "5m" or "1.5h"."""
    return _seconds(value, SHORTEST)


def duration_or_zero(value: str | float) -> float:
    """Return the seconds of "90s", "5m" or "1.5h", or 0 of "0s"."""
    return _seconds(value, 0.0)


def _seconds(value: str | float, shortest: float) -> float:
    if isinstance(value, float):
        return value  # a default
    try:
        return parse_duration(value, shortest)
    except UserError as error:
        raise typer.BadParameter(str(error)) from error


def memory_size(value: str | int) -> int:
    """Return the bytes of "512M" or "4G"; at least 64 MiB, which a worker needs."""
    match = _SIZE.fullmatch(str(value))
    size = int(match[1]) * _BYTES[match[2]] if match else 0
    if size < 64 << 20:
        raise typer.BadParameter(f"got {value!r}: accepted are sizes from 64M on: 512M, 4G")
    return size


def path(value: str | Path) -> Path:
    """Return the path of a file or folder; an empty text, such as an unset variable, is refused."""
    if not str(value):
        raise typer.BadParameter("the path is empty: accepted is that of a file or a folder")
    if is_too_long(value):
        raise typer.BadParameter("the path is too long: no file can have it")
    return Path(value)


def is_too_long(value: str | Path) -> bool:
    """Return True if no file can have this path: it or one of its names is too long."""
    try:
        os.lstat(value)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def check_target(target: Path, name: str, program: Path | None = None) -> None:
    """Raise `UserError` if a file cannot be written, before work that may take long.

    A regular file is replaced, so its folder must be writable. Other files, such as /dev/stdout,
    are opened.

    Args:
        target: the file to write.
        name: the command and its option, for the message.
        program: the file of the program that the command runs, which must not be replaced.
    """
    is_replaced = target.is_file() or not target.exists()
    written = target.absolute().parent if is_replaced else target
    if target.is_dir() or not os.access(written, os.W_OK):
        raise UserError(f"{name} {target} cannot be written: its folder must exist")
    if program is not None and target.resolve() == program.resolve():
        raise UserError(f"{name} {target} is the program itself: accepted is another file")


def write_output(target: Path, text: str, name: str) -> None:
    """Write the output of a command to a file, whole or not at all. Raises `UserError`.

    A file that is not regular, such as /dev/stdout, is written in place. `STDOUT` is printed.
    """
    from tinyref.runtimes.data_only import replace_file

    if target == STDOUT:
        print(text, end="")
        return
    # Names of devices and messages of drivers may hold characters that UTF-8 cannot encode.
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


def write_json(target: Path, data: object, name: str) -> None:
    """Write data as JSON to a file, or to standard output for `STDOUT`."""
    write_output(target, json.dumps(data, indent=1) + "\n", name)


def report_fewer_workers(requested: int, workers: int) -> None:
    """Print a line on standard error if fewer workers run than the user requested."""
    if workers < requested:
        print(
            f"tinyref: {workers} workers instead of {requested}: memory is short", file=sys.stderr
        )


# --- devices --------------------------------------------------------------------------------------


def device_name(name: str | None) -> str:
    """Return the canonical name of a device, the default one if empty.

    The package of the device is not imported here. Raises `UserError` for a name that nothing
    declares.
    """
    from tinyref import config
    from tinyref.device import Device
    from tinyref.probe import probe

    name = name or config.text("DEVICE")
    if not Device.asks_package(name):
        return Device.canonical(name)
    (probed,) = probe([name])
    if probed.is_misnamed:
        raise UserError(probed.reason)
    return probed.name


def check_gives_values(device: str) -> None:
    """Raise `UserError` for a device that computes no values, or a name that no backend has.

    A device that does not open for another reason passes: it is reported later.
    """
    from tinyref.capabilities import reason_without_values
    from tinyref.probe import probe

    (probed,) = probe([device])
    if probed.is_misnamed:
        raise UserError(probed.reason)
    declared = probed.capabilities
    if declared is None:
        return
    if reason := reason_without_values(declared["ops"], declared["keeps_values"]):
        raise UserError(f"device: {device} {reason}: this command needs computed values")


def opening_device(name: str | None) -> str:
    """Return the canonical name of a device that this process may open, the default one if empty.

    The device of a vendor is first opened in another process, which it may end, hang or confuse.
    Raises `UserError` if no backend has the name, `DeviceError` if the device does not open.
    """
    from tinyref.device import Device
    from tinyref.probe import probe

    canonical = device_name(name)
    if Device.is_ours(canonical):
        return canonical
    (probed,) = probe([canonical])
    if probed.is_misnamed:
        raise UserError(probed.reason)
    if not probed.works:
        raise DeviceError(canonical, f"does not open: {probed.reason}")
    return canonical


# --- the end of a long command --------------------------------------------------------------------


class Stopped(KeyboardInterrupt):
    """The user or the system asked for an end, with the signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def until_stopped(work: Callable[[], int], what: str, resuming: Callable[[], str]) -> int:
    """Return the exit code of `work`, or of the signal that ended it.

    Ctrl-C, a closed terminal and a shutdown end the work. Then the command that continues is
    printed. A signal that the process was started to ignore, as under `nohup`, stays ignored.

    Args:
        work: the work to do.
        what: the results that are kept, such as "measured", for the message.
        resuming: returns the command that continues.
    """
    with _raising(SIGNALS):
        try:
            return work()
        except KeyboardInterrupt as stop:
            # A user who presses the keys twice must be able to read the message.
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            print(f"\ntinyref: stopped; what was {what} is kept. Go on with:", file=sys.stderr)
            print(f"  {resuming()}", file=sys.stderr)
            return _SIGNALLED + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)


@contextlib.contextmanager
def _raising(numbers: tuple[signal.Signals, ...]) -> Iterator[None]:
    """Raise `Stopped` for these signals within the block."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
