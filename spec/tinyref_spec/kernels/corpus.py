"""Kernels for tests of the optimiser: diverse, valid, and exact whatever the order of a reduce.

They are written as code, so that they move with the dialect; `corpus_kernels` says what stays
true of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.uops.payload import VarArg, ViewArg
from tinyref.verify import verify
from tinyref.views.build import tracker_of
from tinyref_spec.kernels import contractions, elementwise, reduces
from tinyref_spec.kernels.family import TAGS, CorpusKernel

FAMILIES = (elementwise.FAMILY, reduces.FAMILY, contractions.FAMILY)


@functools.cache
def corpus_kernels() -> Mapping[str, CorpusKernel]:
    """Every kernel of the corpus by its name, in a fixed order.

    Raises `UserError` for two kernels of one name, tags that are not in `TAGS` and variables
    without a value, `VerifyError` for a kernel that breaks a rule of its dialect.
    """
    kernels = tuple(kernel for family in FAMILIES for kernel in family.kernels)
    check(kernels)
    return MappingProxyType({kernel.name: kernel for kernel in kernels})


def check(kernels: Iterable[CorpusKernel]) -> None:
    """Raises what `corpus_kernels` raises."""
    names: set[str] = set()
    for kernel in kernels:
        if kernel.name in names:
            raise UserError(f"corpus: two kernels have the name {kernel.name}")
        names.add(kernel.name)
        unknown = kernel.tags - TAGS
        if unknown or not kernel.tags:
            raise UserError(
                f"corpus: {kernel.name} has the tags {sorted(kernel.tags)}: add to TAGS"
            )
        verify(Dialect.AST, kernel.ast)
        for variable in variables(kernel.ast):
            value = kernel.bindings.get(variable.name, variable.minimum - 1)
            if not variable.minimum <= value <= variable.maximum:
                raise UserError(
                    f"corpus: {kernel.name} gives {variable.name} no value in its range"
                )


def variables(ast: UOp) -> set[VarArg]:
    """The variables in the sizes of a kernel AST."""
    found = (
        variable.arg
        for node in ast.toposort()
        if isinstance(node.arg, ViewArg)
        for variable in tracker_of(node).variables()
    )
    return {variable for variable in found if isinstance(variable, VarArg)}
