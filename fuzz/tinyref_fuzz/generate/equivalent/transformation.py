"""Define a transformation: its equation, the types it is valid for, and how it is applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinyref.algebra.shapes import kernel_shape
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.tape import Tape

_COMPARISONS = (Ops.CMPLT, Ops.CMPNE)


@dataclass(frozen=True)
class TransformationChoices:
    """The choices of a transformation."""

    tape: Tape
    dtypes: frozenset[DType]
    """The types that the kernel may use."""
    written: frozenset[int]
    """The slots that the kernel writes, whose loads must keep their view."""
    capabilities: Capabilities | None = None
    """The capabilities of the device that will run the kernel, if known."""


Rewrite = Callable[[UOp, TransformationChoices], UOp | None]
Admits = Callable[[DType], bool]


def every_type(dtype: DType) -> bool:
    """Return True: floats that are small integers give the same result in any order."""
    return True


def integers(dtype: DType) -> bool:
    """Return True for integers, which wrap."""
    return dtype.is_int


def bits(dtype: DType) -> bool:
    """Return True for integers and bools."""
    return not dtype.is_float


@dataclass(frozen=True)
class Transformation:
    """Rewrite of a node of one of `ops`, for the types that `admits` accepts.

    Whole kernels are matched by SINK.
    """

    ops: tuple[Ops, ...]
    admits: Admits
    rewrite: Rewrite
    moves: bool
    """True if all views must have the same number of axes. Computed positions break that."""

    def sites(self, sink: UOp) -> list[UOp]:
        """List the nodes of a kernel that the equation may apply to."""
        return [node for node in sink.toposort() if node.op in self.ops and self._fits(node)]

    def _fits(self, node: UOp) -> bool:
        dtype = node.src[0].dtype if node.op in _COMPARISONS else node.dtype
        if dtype is dtypes.index or dtype.lanes != 1 or dtype in dtypes.storage_only:
            return False
        return self.admits(dtype)


TRANSFORMATIONS: dict[str, Transformation] = {}


def equation(
    name: str, admits: Admits, *ops: Ops, moves: bool = False
) -> Callable[[Rewrite], Rewrite]:
    """Declare a transformation of nodes that are computed by one of `ops`.

    `admits` tests the type of the result, or of the operands of a comparison. The decorated
    function returns the new value of a node, or None if the equation does not fit. Its docstring is
    the equation.
    """

    def declare(rewrite: Rewrite) -> Rewrite:
        TRANSFORMATIONS[name] = Transformation(ops, admits, rewrite, moves)
        return rewrite

    return declare


def rewrite_one(
    sink: UOp, sites: Sequence[UOp], tape: Tape, rewrite: Callable[[UOp], UOp | None]
) -> UOp | None:
    """Return the kernel with one of `sites` rewritten: the first that fits, from a random start."""
    if not sites:
        return None
    start = tape.below(len(sites))
    for site in (*sites[start:], *sites[:start]):
        new = rewrite(site)
        if new is None or new is site:
            continue
        # An equation may drop the operand that a value had its shape from: a reduce would differ.
        if site is sink or kernel_shape(new) == kernel_shape(site):
            return substitute(sink, {site: new})
    return None


def written_slots(sink: UOp) -> frozenset[int]:
    """Return the slots of the buffers that a kernel writes."""
    return frozenset(slot_of(store) for store in sink.src)
