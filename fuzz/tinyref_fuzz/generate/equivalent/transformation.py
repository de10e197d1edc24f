"""What a transformation is: a label, an equation, the types it is exact for, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.sources import docstring
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref_fuzz.generate.tape import Tape


class Domain(Enum):
    """The types for which an equation holds bit for bit (but for which NaN a NaN is)."""

    __hash__ = object.__hash__

    EVERY = "every type that computes, all data"
    NUMBER = "integers and floats, all data"
    INTEGER = "integers, which wrap, all data"
    BITS = "integers and bools, all data"
    BOOL = "bools"
    EXACT = (
        "integers and bools, all data; floats that are integers small enough that every partial "
        "result is exact, zeros of either sign being equal"
    )

    def admits(self, dtype: DType, exact_floats: bool) -> bool:
        """Whether the equation may be used on values of `dtype`."""
        if dtype is dtypes.index or dtype.lanes != 1 or dtype in dtypes.storage_only:
            return False
        if self is Domain.EVERY:
            return True
        if self is Domain.EXACT:
            return exact_floats or not dtype.is_float
        if self is Domain.NUMBER:
            return not dtype.is_bool
        if self is Domain.BITS:
            return not dtype.is_float
        return dtype.is_int if self is Domain.INTEGER else dtype.is_bool


@dataclass(frozen=True)
class Draw:
    """What a transformation may choose from.

    dtypes: the types that the kernel may use. written: the slots that it writes, whose loads must
    keep their view. exact_floats: whether all float data are integers without rounding.
    capabilities: of the device that will run the kernel, where that is known.
    """

    tape: Tape
    dtypes: frozenset[DType]
    written: frozenset[int]
    exact_floats: bool = True
    capabilities: Capabilities | None = None


Rewrite = Callable[[UOp, Draw], UOp | None]


@dataclass(frozen=True)
class Transformation:
    """One way to write a kernel differently: `equation` holds for the types in `domain`.

    `rewrite` gives the new kernel of a kernel's SINK, or None where the equation fits nowhere.
    `family` is the module that declares it.
    """

    name: str
    equation: str
    domain: Domain
    rewrite: Rewrite
    family: str = ""


TRANSFORMATIONS: dict[str, Transformation] = {}

_VALUES = ALU | {Ops.CONST, Ops.LOAD, Ops.VALID, Ops.IOTA, Ops.REDUCE}
_COMPARISONS = (Ops.CMPLT, Ops.CMPNE)


def of_kernel(name: str, domain: Domain) -> Callable[[Rewrite], Rewrite]:
    """Declares a transformation of a whole kernel: EVERY, or EXACT where it reorders reduces.

    The docstring of the decorated function is the equation.
    """

    def declare(rewrite: Rewrite) -> Rewrite:
        def in_kernel(sink: UOp, draw: Draw) -> UOp | None:
            if domain is Domain.EXACT and not draw.exact_floats and _sums_floats(sink):
                return None
            return rewrite(sink, draw)

        TRANSFORMATIONS[name] = _declare(name, domain, rewrite, in_kernel)
        return rewrite

    return declare


def of_node(name: str, domain: Domain, *ops: Ops) -> Callable[[Rewrite], Rewrite]:
    """Declares a transformation of one value that is computed by one of `ops`; none is any.

    `domain` is about the result, or where `ops` are given, about what a comparison compares. The
    decorated function gives the new value of a node, or None where the equation does not fit; its
    docstring is the equation.
    """

    def fits(node: UOp, draw: Draw) -> bool:
        if not ops:
            return node.op in _VALUES and domain.admits(node.dtype, draw.exact_floats)
        return node.op in ops and domain.admits(data_type(node), draw.exact_floats)

    def declare(rewrite: Rewrite) -> Rewrite:
        def in_kernel(sink: UOp, draw: Draw) -> UOp | None:
            return rewrite_one(
                sink, [node for node in sink.toposort() if fits(node, draw)], draw, rewrite
            )

        TRANSFORMATIONS[name] = _declare(name, domain, rewrite, in_kernel)
        return rewrite

    return declare


def _declare(name: str, domain: Domain, rewrite: Rewrite, in_kernel: Rewrite) -> Transformation:
    family = rewrite.__module__.rpartition(".")[2]
    return Transformation(name, _equation(rewrite), domain, in_kernel, family)


def _sums_floats(sink: UOp) -> bool:
    """Whether the kernel has a reduce whose result depends on its order."""
    return any(node.op is Ops.REDUCE and node.dtype.is_float for node in sink.toposort())


def _equation(rewrite: Rewrite) -> str:
    return docstring(rewrite).split("\n")[0].removesuffix(".")


def rewrite_one(sink: UOp, sites: list[UOp], draw: Draw, rewrite: Rewrite) -> UOp | None:
    """The kernel with one of `sites` rewritten: the first that fits from a drawn place on."""
    if not sites:
        return None
    start = draw.tape.below(len(sites))
    for site in (*sites[start:], *sites[:start]):
        new = rewrite(site, draw)
        # An equation may lose an operand that a value had its shape from: a reduce would notice.
        if new is not None and new is not site and kernel_shape(new) == kernel_shape(site):
            return substitute(sink, {site: new})
    return None


def data_type(node: UOp) -> DType:
    """The type that an equation about `node` is about: of a comparison, that of its operands."""
    return node.src[0].dtype if node.op in _COMPARISONS else node.dtype


def written_slots(sink: UOp) -> frozenset[int]:
    """The slots of the buffers that a kernel writes."""
    return frozenset(slot_of(store) for store in sink.src)
