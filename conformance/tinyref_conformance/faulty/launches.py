"""Devices with a grid, groups and vectors that do one of these wrongly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tinyref.interpret import Access, Hooks
from tinyref.runtimes.python import TextRenderer
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.broken import Array, BrokenBackend, UncheckedKernel


def _special(
    wrong_scope: str, change: Callable[[Array], Array], scope: str, dim: int, values: Array
) -> Array:
    return change(values) if scope == wrong_scope and dim == 0 else values


def _round_to_even(values: Array) -> Array:
    return np.asarray(values - values % 2)


class WrongGroupIndex(BrokenBackend):
    """Gives two neighbouring groups the same launch index."""

    kernel = UncheckedKernel
    hooks = Hooks(special=functools.partial(_special, "group", _round_to_even))


class WrongItemIndex(BrokenBackend):
    """Prints 0 for the index of a work-item in its group."""

    kernel = UncheckedKernel
    hooks = Hooks(special=functools.partial(_special, "item", np.zeros_like))


def _reversed_lanes(access: Access) -> Array:
    return access.value[..., ::-1] if access.node.dtype.lanes > 1 else access.value


class ReversedVectors(BrokenBackend):
    """Loads vectors with their lanes in reverse."""

    kernel = UncheckedKernel
    hooks = Hooks(load=_reversed_lanes)


def _at_least_once(extent: int) -> int:
    return max(extent, 1)


class EmptyLoop(BrokenBackend):
    """Runs a loop of no iterations once, and all other loops as often as it should."""

    kernel = UncheckedKernel
    hooks = Hooks(loop=_at_least_once)


class _WithoutBarriers(TextRenderer):
    def render(self, program: Program) -> str:
        kept = tuple(node for node in program.uops if node.op is not Ops.BARRIER)
        return super().render(replace(program, uops=kept))


class MissingBarrier(BrokenBackend):
    """Prints no barriers; it has a sanitizer, which reports the races."""

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _WithoutBarriers()
