"""What asks a long command to stop: Ctrl-C, a terminal that closes, a system that goes down."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALLED = 128  # with the number of the signal, as shells report it


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
