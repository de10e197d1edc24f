"""A device that is not asked for anything."""

from __future__ import annotations


class NoDevice:
    """What a row of the compiler or the scheduler asks of a device: nothing."""

    def on_rung(self, *given: object) -> NoDevice:
        return self
