"""Reduce the nodes of a kernel: outputs, parts of it, and simple values instead of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinyref.algebra.shapes import kernel_shape
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.equivalent.moving import rank_of
from tinyref_fuzz.reduce.kernel import (
    LEAVES,
    VALUES,
    NewBuffer,
    concrete_shape,
    values_of,
)
from tinyref_fuzz.reduce.measure import node_count
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.kernel_case import KernelCase
from tinyref_spec.kernels.notation import shaped, store


def fewer_outputs(search: Search) -> None:
    """Keep one output, else remove outputs one by one."""
    stores = search.case.ast.src
    if len(stores) < 2:
        return
    for output in stores:
        if search.offer(_storing, (output,)):
            return
    for at in reversed(range(len(stores))):
        stores = search.case.ast.src
        rest = (*stores[:at], *stores[at + 1 :])
        search.offer(_storing, rest)


def _storing(case: KernelCase, stores: tuple[UOp, ...]) -> KernelCase:
    """Keep some of the outputs; the kernel only reads what the others wrote."""
    return replace(case, ast=build.sink(*stores))


def parts(search: Search) -> None:
    """Make one value of the kernel its only output, the smallest first."""
    whole = search.case
    nodes = [
        node for node in whole.ast.toposort() if node.op in VALUES and node.op is not Ops.CONST
    ]
    nodes = [node for node in nodes if node.dtype is not dtypes.index]
    for node in sorted(nodes, key=node_count):
        if search.offer(_only, node):
            return


def _only(case: KernelCase, node: UOp) -> KernelCase:
    """Return the kernel that stores only `node`, row-major."""
    shape = kernel_shape(node)
    new = NewBuffer(case)
    size = max(1, int(np.prod(concrete_shape(case, node, rank_of(case.ast)))))
    content = np.full(size, 0x5A, np.uint8).astype(numpy_dtype(node.dtype))
    size = max(size, shaped(*shape).real_size())
    ast = build.sink(store(new.slot, node, shape, size))
    return new.with_kernel(ast, np.resize(content, size))


def simpler_nodes(search: Search) -> None:
    """Simplify each node from the outputs on: load its value, or use a source instead."""
    at = 0
    while at < len(_inner(search.case.ast)):
        # After a change the nodes before this one are the same, over other sources.
        if not _simplify(search, _inner(search.case.ast)[at]):
            at += 1


def _inner(ast: UOp) -> list[UOp]:
    """Return the values that are computed from others, users before their sources."""
    nodes = reversed(ast.toposort())
    return [node for node in nodes if node.op in VALUES and node.op not in LEAVES]


def _simplify(search: Search, node: UOp) -> bool:
    if search.offer(_as_buffer, node):
        return True
    return any(search.offer(_with, node, new) for new in _substitutes(node))


def _with(case: KernelCase, node: UOp, new: UOp) -> KernelCase:
    """Return the kernel with `new` instead of `node`."""
    return replace(case, ast=substitute(case.ast, {node: new}))


def _as_buffer(case: KernelCase, node: UOp) -> KernelCase:
    """Return the kernel that loads the value of `node` instead of computing it."""
    new = NewBuffer(case)
    load, content = new.holding(node, values_of(case, (node,))[node])
    return new.with_kernel(substitute(case.ast, {node: load}), content)


def _substitutes(node: UOp) -> Iterator[UOp]:
    """Yield replacements of a node: constants, its sources, and their sources."""
    yield from (source for source in node.src if source.dtype is node.dtype)
    yield build.const(node.dtype, 0)
    yield build.const(node.dtype, 1)
    yield from (below for source in node.src for below in source.src if below.dtype is node.dtype)
    yield from (build.cast(source, node.dtype) for source in node.src if source.op is not Ops.CAST)
    if node.op is Ops.MULACC:
        first, second, third = node.src
        yield build.mul(first, second)
        yield build.add(second, third)


def simpler_leaves(search: Search) -> None:
    """Replace each load, validity and number by a constant, or by another existing load."""
    at = 0
    while at < len(_leaves(search.case.ast)):
        leaves = _leaves(search.case.ast)
        leaf = leaves[at]
        others = [other for other in leaves if _fits(other, leaf)]
        constants = [build.const(leaf.dtype, number) for number in (1, 0, 2)]
        for new in (*others, *constants):
            if search.offer(_with, leaf, new):
                break
        else:
            if leaf.op is Ops.LOAD or not search.offer(_as_buffer, leaf):
                at += 1


def _leaves(ast: UOp) -> list[UOp]:
    leaves = (node for node in ast.toposort() if node.op in LEAVES and node.op is not Ops.CONST)
    return [node for node in leaves if node.dtype is not dtypes.index]


def _fits(other: UOp, leaf: UOp) -> bool:
    if other is leaf or other.dtype is not leaf.dtype:
        return False
    return kernel_shape(other) == kernel_shape(leaf) and leaf not in other.toposort()
