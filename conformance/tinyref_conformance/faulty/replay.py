"""Devices that launch rightly once, and wrongly when a launch is repeated with other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tinyref.device import Handle
from tinyref.runtimes.launch import RepeatedCall
from tinyref.runtimes.python import Extents
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel


class _KeepsPointers(RepeatedCall):
    def rebind(self, place: int, handle: Handle) -> None:
        return


class _KeepsVariables(RepeatedCall):
    def vary(self, grid: Extents, variables: Sequence[int]) -> None:
        return


class _PreparingKernel(BrokenKernel):
    """A kernel that prepares its own launches."""

    launch: ClassVar[type[RepeatedCall]]

    def prepare(self, *arguments: Any) -> RepeatedCall:
        return self.launch(self, *arguments)


class _StalePointerKernel(_PreparingKernel):
    launch = _KeepsPointers


class _StaleVariableKernel(_PreparingKernel):
    launch = _KeepsVariables


class StalePointers(BrokenBackend):
    """Repeats a prepared launch on the buffers that it had first, whatever it is given since."""

    kernel = _StalePointerKernel


class StaleVariables(BrokenBackend):
    """Repeats a prepared launch with the values of variables that it had first."""

    kernel = _StaleVariableKernel
