"""Devices that go wrong on forms which are seldom met: long kernels, nested barriers, odd names."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinyref.errors import DeviceError
from tinyref.runtimes.host.memory import HostHandle
from tinyref.runtimes.python import Extents, InterpretedKernel, TextRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.broken import BrokenBackend, BrokenKernel, UncheckedKernel

BUILT_INS = frozenset({"rotate", "dot", "select", "half", "kernel", "sample"})
LONG = 500


class BuiltInNames(BrokenBackend):
    """Takes kernels by their bare names, of which some are built-ins of its language."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        if entry in BUILT_INS:
            raise DeviceError(self.name, f"redefinition of {entry!r}", binary.decode())
        return super().load(entry, binary)


class _CompactKernel(BrokenKernel):
    def __call__(self, buffers: Sequence[HostHandle], *more: Any, **named: Any) -> float | None:
        users = [node for node in self.program.uops if node.op is not Ops.DEFINE_GLOBAL]
        used = {build.slot_of(node) for user in users for node in user.src if _is_buffer(node)}
        kept = [
            buffer
            for buffer, parameter in zip(buffers, self.program.parameters, strict=True)
            if parameter.slot in used
        ]
        missing = len(buffers) - len(kept)
        return super().__call__([*kept, *buffers[:missing]], *more, **named)


def _is_buffer(node: UOp) -> bool:
    return node.op is Ops.DEFINE_GLOBAL


class DroppedParameters(BrokenBackend):
    """Gives a kernel the buffers without those that it does not use, so that others move up."""

    kernel = _CompactKernel


class _FirstGridKernel(UncheckedKernel):
    first: Extents | None = None

    def __call__(
        self, buffers: Sequence[HostHandle], grid: Extents = (1, 1, 1), *more: Any, **named: Any
    ) -> float | None:
        self.first = self.first or grid
        return super().__call__(buffers, self.first, *more, **named)


class FirstGridAgain(BrokenBackend):
    """Launches a kernel each time with the grid that it was launched with first."""

    kernel = _FirstGridKernel


class _Rewriting(TextRenderer):
    """Prints another program than it is given."""

    def rewritten(self, program: Program) -> tuple[UOp, ...]:
        return program.uops

    def render(self, program: Program) -> str:
        return super().render(replace(program, uops=self.rewritten(program)))


def _substituted(uops: Sequence[UOp], changes: Mapping[UOp, UOp]) -> tuple[UOp, ...]:
    """The program with other nodes, once each."""
    made: dict[UOp, UOp] = {}
    for node in uops:
        sources = tuple(made.get(source, source) for source in node.src)
        made[node] = changes.get(node, UOp(node.op, node.dtype, sources, node.arg))
    found = [made[node] for node in uops]
    return tuple(
        node
        for place, node in enumerate(found)
        if node.op is Ops.BARRIER or node not in found[:place]
    )


class _SpillsWrongly(_Rewriting):
    def rewritten(self, program: Program) -> tuple[UOp, ...]:
        if len(program.uops) <= LONG:
            return program.uops
        middle = program.uops[LONG // 2 :]
        xor = next(node for node in middle if node.op in (Ops.XOR, Ops.ADD, Ops.MUL))
        return _substituted(program.uops, {xor: UOp(Ops.OR, xor.dtype, xor.src)})


class SpilledValues(BrokenBackend):
    """Gets one value wrong in kernels of more than five hundred operations."""

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _SpillsWrongly()


class _WithoutNestedBarriers(_Rewriting):
    def rewritten(self, program: Program) -> tuple[UOp, ...]:
        kept, depth = [], 0
        for node in program.uops:
            depth += (node.op in (Ops.IF, Ops.RANGE)) - (node.op in (Ops.ENDIF, Ops.END))
            if node.op is not Ops.BARRIER or not depth:
                kept.append(node)
        return tuple(kept)


class NestedBarriersLost(BrokenBackend):
    """Prints no barriers in branches and loops; its sanitizer reports the races."""

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _WithoutNestedBarriers()


class _OverlappingArrays(_Rewriting):
    def rewritten(self, program: Program) -> tuple[UOp, ...]:
        largest: dict[Any, UOp] = {}
        arrays = [node for node in program.uops if node.op is Ops.DEFINE_LOCAL]
        for node in arrays:
            other = largest.get(node.dtype.base, node)  # type: ignore[attr-defined] # a pointer
            if node.dtype.size >= other.dtype.size:  # type: ignore[attr-defined]
                largest[node.dtype.base] = node  # type: ignore[attr-defined]
        changes = {node: largest[node.dtype.base] for node in arrays}  # type: ignore[attr-defined]
        return _substituted(program.uops, changes)


class SharedArraysOverlap(BrokenBackend):
    """Lays shared arrays of one type over each other."""

    kernel = UncheckedKernel

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _OverlappingArrays()
