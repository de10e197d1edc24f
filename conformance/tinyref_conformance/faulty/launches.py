"""Devices with a grid, groups and vectors that do one of these wrongly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tinyref.interpret import Access, Hooks
from tinyref.runtimes.python import InterpretedKernel, TextRenderer
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.broken import Array, BrokenBackend
from tinyref_conformance.faulty.memory import UncheckedKernel


class _Unchecked(BrokenBackend):
    """Runs without the sanitizer, which would report the fault before the suite could."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        healthy = super().load(entry, binary)
        return UncheckedKernel(self.name, healthy.program, self.wrong, self.hooks)


def _special(
    wrong_scope: str, change: Callable[[Array], Array], scope: str, dim: int, values: Array
) -> Array:
    return change(values) if scope == wrong_scope and dim == 0 else values


def _round_to_even(values: Array) -> Array:
    return np.asarray(values - values % 2)


class WrongGroupIndex(_Unchecked):
    """Gives two neighbouring groups the same launch index."""

    @property
    def hooks(self) -> Hooks:
        return Hooks(special=functools.partial(_special, "group", _round_to_even))


class WrongItemIndex(_Unchecked):
    """Prints 0 for the index of a work-item in its group."""

    @property
    def hooks(self) -> Hooks:
        return Hooks(special=functools.partial(_special, "item", np.zeros_like))


def _reversed_lanes(access: Access) -> Array:
    return access.value[..., ::-1] if access.node.dtype.lanes > 1 else access.value


class ReversedVectors(_Unchecked):
    """Loads vectors with their lanes in reverse."""

    @property
    def hooks(self) -> Hooks:
        return Hooks(load=_reversed_lanes)


def _at_least_once(extent: int) -> int:
    return max(extent, 1)


class EmptyLoop(_Unchecked):
    """Runs a loop of no iterations once, and all other loops as often as it should."""

    @property
    def hooks(self) -> Hooks:
        return Hooks(loop=_at_least_once)


class _WithoutBarriers(TextRenderer):
    def render(self, program: Program) -> str:
        kept = tuple(node for node in program.uops if node.op is not Ops.BARRIER)
        return super().render(replace(program, uops=kept))


class MissingBarrier(BrokenBackend):
    """Prints no barriers; it has a sanitizer, which reports the races."""

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _WithoutBarriers()
