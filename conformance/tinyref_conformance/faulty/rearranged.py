"""Devices whose compiler rearranges float arithmetic, and that declare nothing of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref.interpret.translate import Override
from tinyref.runtimes.python import TextRenderer
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.broken import Array, BrokenBackend

# What stands for a node instead: the nodes to compute, and the one with its value.
Change = Callable[[UOp], tuple[tuple[UOp, ...], UOp]]


def rearranged(program: Program, change: Change) -> Program:
    """The program with float arithmetic changed, in the same order."""
    known: dict[UOp, UOp] = {}
    nodes: list[UOp] = []
    for node in program.uops:
        new = node.with_sources(tuple(known[source] for source in node.src))
        made, value = change(new) if node.dtype.is_float else ((new,), new)
        nodes += made
        known[node] = value
    return replace(program, uops=tuple(nodes))


class _Rearranging(TextRenderer):
    def __init__(self, change: Change) -> None:
        self.change = change

    def render(self, program: Program) -> str:
        return super().render(rearranged(program, self.change))


def contract(node: UOp) -> tuple[tuple[UOp, ...], UOp]:
    """x * y + z as one operation."""
    new = node
    if node.op is Ops.ADD and node.src[0].op is Ops.MUL:
        product, addend = node.src
        new = UOp(Ops.MULACC, node.dtype, (*product.src, addend))
    return (new,), new


def reassociate(node: UOp) -> tuple[tuple[UOp, ...], UOp]:
    """(x + y) - y as x, (x + y) + z as x + (y + z), x * 0 as 0."""
    if len(node.src) == 2:
        first, second = node.src
        if node.op is Ops.SUB and first.op is Ops.ADD and first.src[1] is second:
            return (), first.src[0]
        if node.op is Ops.ADD and first.op is Ops.ADD:
            inner = UOp(Ops.ADD, node.dtype, (first.src[1], second))
            outer = UOp(Ops.ADD, node.dtype, (first.src[0], inner))
            return (inner, outer), outer
        if node.op is Ops.MUL and isinstance(second.arg, ConstArg) and second.arg.value == 0:
            return (), second
    return (node,), node


def _fused(dtype: DType, operands: Sequence[Array], sources: Sequence[DType]) -> Array:
    wide = np.longdouble if dtype.scalar is dtypes.float64 else np.float64
    with np.errstate(all="ignore"):
        product = np.multiply(operands[0], operands[1], dtype=wide)
        return np.asarray(np.add(product, operands[2], dtype=wide).astype(operands[0].dtype))


class ContractedProducts(BrokenBackend):
    """Computes a product and a sum with one rounding, and declares to round twice."""

    wrong: ClassVar[Mapping[Ops, Override]] = {Ops.MULACC: _fused}

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _Rearranging(contract)


class ReassociatedSums(BrokenBackend):
    """Transforms float arithmetic as if it were exact, and declares to keep its order."""

    @functools.cached_property
    def renderer(self) -> TextRenderer:
        return _Rearranging(reassociate)
