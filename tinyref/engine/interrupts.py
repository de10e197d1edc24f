"""Interrupts that wait until memory holds what was asked for."""

from __future__ import annotations

# What `signal` wraps: its enumerations take ten times as long, which a replay would notice.
import _signal as signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType


class InterruptsHeld:
    """Within the block an interrupt waits for its end: `with InterruptsHeld(): ...`.

    For what assigns in place: nobody knows how far a launch ran that was cut off. The second
    interrupt does not wait. In other threads than the main one there are none; a handler that a
    program has set for itself is left alone.
    """

    __slots__ = ("_holds", "_is_pending")

    def __enter__(self) -> None:
        self._is_pending = False
        self._holds = (
            threading.get_ident() == threading.main_thread().ident
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._holds:
            signal.signal(signal.SIGINT, self._hold)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._is_pending:
            # It may come where the block is entered or left, and `__exit__` is not reached.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.default_int_handler(number, frame)
        self._is_pending = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._holds:
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._is_pending and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error
