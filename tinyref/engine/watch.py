"""Who is called with what the engine does: each schedule, each kernel, each copy, with its time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Protocol

from tinyref.device import Buffer
from tinyref.lazy.shards import Place
from tinyref.runtimes.kernel import Kernel
from tinyref.schedule import Schedule
from tinyref.uops.node import UOp


class Watcher(Protocol):
    """Told in the order of events; while one watches, each kernel is waited for and timed."""

    def scheduled(self, outputs: Sequence[tuple[UOp, Place]], planned: Schedule) -> None:
        """What will run for `outputs`, before it does; `planned` is emptied as it runs."""
        ...

    def ran(
        self, ast: UOp, kernel: Kernel, bindings: Mapping[str, int], seconds: float | None
    ) -> None:
        """A kernel ran, of the last schedule or of a captured function."""
        ...

    def copied(self, target: Buffer, source: Buffer, seconds: float) -> None:
        """A copy was made, as `ran` says."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("tinyref_watcher", default=None)


def active_watcher() -> Watcher | None:
    """Who watches this thread now."""
    return _watcher.get()


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tells `watcher` all that the engine does within the block, in this thread."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)
