"""Plans: how the iteration space of a kernel is split into axes, and the role of each axis.

A plan is a kernel in normal form and a list of axes. The position on an axis of the AST is the sum
of counter * stride over the plan's axes with this target. So splitting an axis changes no view.
Plans are immutable: `apply` returns another plan or raises `KernelOptError`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from tinyref.algebra.shapes import Shape, is_one, kernel_shape, positions_of, reduced_axes
from tinyref.algebra.symbolic import describe, product
from tinyref.capabilities import Capabilities
from tinyref.dtype import PtrDType
from tinyref.optimise.normal_form import OUTPUT, NormalForm, Reused, normal_form, reused_values
from tinyref.optimise.opt import REUSED, Opt, OptOp, checked_opts, opts_text
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ViewArg
from tinyref.uops.tiles import MatrixTile, Operand
from tinyref.views.shape_tracker import tracker_of

# The order of the axes of a plan, which is the order of the loops from the outside to the inside.
KIND_ORDER = (
    AxisKind.THREAD,
    AxisKind.LOOP,
    AxisKind.GLOBAL,
    AxisKind.LOCAL,
    AxisKind.GROUP_REDUCE,
    AxisKind.REDUCE,
    AxisKind.UNROLL,
    AxisKind.UPCAST,
)
# The unrolled kinds: their counter is a constant in every copy of a node.
LANE_KINDS = frozenset({AxisKind.UNROLL, AxisKind.UPCAST})
# The `tile.TileMode` with fragments in shared memory.
MEMORY_MODE = 3
ITEM_KINDS = frozenset({AxisKind.LOCAL, AxisKind.GROUP_REDUCE})


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of `extent` iterations, which move `stride` positions each on AST axis `target`.

    `is_fixed` is true for the lanes of a matrix tile, which no other optimisation may cut.
    """

    kind: AxisKind
    extent: sint
    target: int
    stride: int = 1
    is_fixed: bool = False

    def __str__(self) -> str:
        return f"{self.kind.value} {describe(self.extent)}"

    def is_divisible(self, amount: int) -> bool:
        """Return True if the extent is known and a multiple of `amount`."""
        return isinstance(self.extent, int) and self.extent % amount == 0


@dataclass(frozen=True)
class TileUse:
    """The use of a matrix tile for the sum of products `reduce`, of `a` and `b`.

    mode: a `tile.TileMode`.
    targets: the AST axes of m, n and k.
    """

    tile: MatrixTile
    mode: int
    reduce: UOp
    a: UOp
    b: UOp
    targets: tuple[int, int, int]


@dataclass(frozen=True)
class Scatter:
    """A kernel that sends each term of a reduce to one output.

    ast: the kernel in normal form, which stores the reduce.
    op: the operation of the reduce, which combines a term with its output.
    target: the AST axis of the outputs on which an index gives the position of a term.
    """

    ast: UOp
    op: Ops
    target: int

    @property
    def view(self) -> UOp:
        """Return the VIEW of all outputs, which get the identity of the reduce first."""
        return self.ast.src[0].src[0]


@dataclass(frozen=True)
class Plan:
    """A kernel and its axes, in `KIND_ORDER`.

    opts: the optimisations that were applied.
    uses_groups: False after NOLOCALS.
    packed: the slots of buffers whose elements are copied to scratch memory to be reused, and
    `REUSED`.
    copied: the loads of these buffers that read the copy.
    tile: the matrix tile, if there is one.
    scatter: the outputs of a scatter, whose terms are the iterations of loop axes.
    """

    form: NormalForm
    capabilities: Capabilities
    axes: tuple[Axis, ...]
    opts: tuple[Opt, ...] = ()
    uses_groups: bool = True
    packed: tuple[int, ...] = ()
    copied: tuple[UOp, ...] = ()
    tile: TileUse | None = None
    scatter: Scatter | None = None

    @classmethod
    def of(cls, ast: UOp, capabilities: Capabilities) -> Plan:
        """Return the plan without optimisations: output axes are global, all others are loops."""
        form = normal_form(ast)
        axes = [
            Axis(AxisKind.GLOBAL if owner == OUTPUT else AxisKind.REDUCE, size, target)
            for target, (owner, size) in enumerate(zip(form.owners, form.shape, strict=True))
        ]
        return cls(form, capabilities, tuple(axes))

    def apply(self, opt: Opt) -> Plan:
        """Return the plan with one more optimisation.

        Raises `KernelOptError` with the reason if it is illegal; this plan never changes.
        """
        from tinyref.optimise.moves import apply_opt

        return apply_opt(self, opt)

    def apply_all(self, opts: Iterable[Opt]) -> Plan:
        """Return the plan after these optimisations, from left to right.

        Raises the errors of `apply` and `checked_opts`.
        """
        return functools.reduce(Plan.apply, checked_opts(opts), self)

    def legal(self, opt: Opt) -> Plan | None:
        """Return the plan with `opt`, or None if it is refused."""
        from tinyref.optimise.moves import try_opt

        result = try_opt(self, opt)
        return result if isinstance(result, Plan) else None

    def apply_if_legal(self, opt: Opt) -> Plan:
        """Return the plan with `opt`, or this plan if it is refused."""
        return self.legal(opt) or self

    def cut_lanes(self, number: int, amount: int) -> Plan:
        """Return the plan with `amount` lanes split off an axis, or itself if refused."""
        is_output = self.axes[number].kind is AxisKind.GLOBAL
        return self.apply_if_legal(Opt(OptOp.UPCAST if is_output else OptOp.UNROLL, number, amount))

    def cut_padded_lanes(self, number: int, amount: int) -> Plan:
        """Return the plan with `amount` lanes cut off an output axis, padded if it must be.

        The plan itself if that is refused.
        """
        if self.axes[number].is_divisible(amount):
            return self.cut_lanes(number, amount)
        padded = self.legal(Opt(OptOp.PADTO, number, amount))
        return self if padded is None else padded.cut_lanes(number, amount)

    def __str__(self) -> str:
        axes = ", ".join(map(str, self.axes)) or "no axes"
        return f"{axes} after {opts_text(self.opts)}" if self.opts else axes

    # Facts

    @property
    def normal_ast(self) -> UOp:
        """Return the kernel in normal form; in a scatter, `form` has its terms instead."""
        return self.form.ast if self.scatter is None else self.scatter.ast

    @functools.cached_property
    def shape(self) -> Shape:
        """Return the size of each axis of the AST."""
        return self.form.shape

    @functools.cached_property
    def nodes(self) -> list[UOp]:
        """Return the nodes of the AST, sources first."""
        return self.form.ast.toposort()

    def of_kind(self, *kinds: AxisKind) -> list[int]:
        """Return the numbers of the axes of these kinds, in order."""
        return [number for number, axis in enumerate(self.axes) if axis.kind in kinds]

    def extents(self, *kinds: AxisKind) -> list[sint]:
        """Return the extents of the axes of these kinds, in order."""
        return [self.axes[number].extent for number in self.of_kind(*kinds)]

    def number_along(self, target: int, kind: AxisKind = AxisKind.GLOBAL) -> int | None:
        """Return the number of the first axis of a kind that moves along AST axis `target`."""
        numbers = self.of_kind(kind)
        return next((number for number in numbers if self.axes[number].target == target), None)

    def covered(self, target: int) -> sint:
        """Return the number of positions on AST axis `target`: its size, or more if padded."""
        return product(axis.extent for axis in self.axes if axis.target == target)

    def is_padded(self, target: int) -> bool:
        """Return True if PADTO has added positions to AST axis `target`."""
        return self.covered(target) != self.shape[target]

    def reduces_over(self, target: int) -> list[UOp]:
        """Return the REDUCE nodes that loop over AST axis `target`."""
        return [node for node in self.nodes if target in reduced_axes(node)]

    def loads_of(self, slot: int) -> list[UOp]:
        """Return the LOADs of the buffer in `slot`."""
        return [node for node in self.nodes if node.op is Ops.LOAD and slot_of(node) == slot]

    def axes_of(self, node: UOp, *kinds: AxisKind) -> list[Axis]:
        """Return the axes of these kinds along which the value of an AST node changes.

        A value that is repeated along a padded axis changes there too: its gate is closed at the
        positions that padding has added.
        """
        padded = frozenset(target for target in axes_of(node) if self.is_padded(target))
        targets = changes(node) | padded
        return [axis for axis in self.axes if axis.kind in kinds and axis.target in targets]

    def repeated_loads(self, slot: int, target: int) -> list[UOp]:
        """Return the loads of a buffer that read the same elements all along an AST axis."""
        return [load for load in self.loads_of(slot) if target not in changes(load)]

    @property
    def lanes(self) -> int:
        """Return the number of lanes and copies."""
        return number_of(self.extents(*LANE_KINDS))

    @property
    def group_size(self) -> int:
        """Return the number of work-items of a group."""
        return number_of(axis.extent for axis in self.item_axes)

    @property
    def item_axes(self) -> list[Axis]:
        """Return the axes whose counters are the indices of a work-item in its group."""
        twins = self.item_twins
        return [axis for axis in self.axes if axis.kind in ITEM_KINDS and axis not in twins]

    @functools.cached_property
    def item_twins(self) -> dict[Axis, Axis]:
        """Return a map from axes to the axes whose counters they share.

        Independent reduces run one after the other. So the same work-items share the terms of all
        reduces that are split into equally many parts.
        """
        users: dict[Axis, list[tuple[UOp, Axis]]] = {}
        twins: dict[Axis, Axis] = {}
        for node in self.grouped_reduces():
            shared = [axis for axis in self._axes_over(node) if axis.kind is AxisKind.GROUP_REDUCE]
            if len(shared) != 1:
                continue
            (axis,) = shared
            for first, others in users.items():
                are_independent = all(self._are_independent(node, axis, *other) for other in others)
                if first.extent == axis.extent and are_independent:
                    twins[axis] = first
                    break
            users.setdefault(twins.get(axis, axis), []).append((node, axis))
        return twins

    def _are_independent(self, one: UOp, its_axis: Axis, other: UOp, other_axis: Axis) -> bool:
        """Return True if neither of two reduces changes along an axis of the other."""
        kind = AxisKind.GROUP_REDUCE
        return other_axis not in self.axes_of(one, kind) and its_axis not in self.axes_of(
            other, kind
        )

    def _axes_over(self, node: UOp) -> list[Axis]:
        """Return the axes that a REDUCE loops over."""
        return [axis for axis in self.axes if axis.target in reduced_axes(node)]

    def grouped_reduces(self) -> list[UOp]:
        """Return the REDUCEs whose terms are distributed over the work-items of a group."""
        targets = {axis.target for axis in self.axes if axis.kind is AxisKind.GROUP_REDUCE}
        return [node for node in self.nodes if targets.intersection(reduced_axes(node))]

    def shared_bytes(self) -> int:
        """Return the bytes of shared memory, for grouped reduces and for packed buffers."""
        total = 0
        for node in self.grouped_reduces():
            lanes = number_of(axis.extent for axis in self.axes_of(node, *LANE_KINDS))
            total += self.group_size * lanes * node.dtype.itemsize
        if REUSED in self.packed:
            total += sum(map(self._bytes_reused, reused_values(self.form)))
        for load in self.copied:
            inside = self.axes_of_copy(load, AxisKind.REDUCE, *LANE_KINDS)
            total += number_of(axis.extent for axis in inside) * load.dtype.itemsize
        return total + self._fragment_bytes()

    def axes_of_copy(self, load: UOp, *kinds: AxisKind) -> list[Axis]:
        """Return the axes of these kinds along which the copy of a packed buffer has elements.

        A repeated axis has none, padded or not: what is added to it is gated where it is used.
        """
        targets = changes(load)
        return [axis for axis in self.axes if axis.kind in kinds and axis.target in targets]

    def lanes_of_reused(self, value: Reused) -> list[Axis]:
        """Return the lanes in which a reused value differs."""
        lanes = self.axes_of(value.inner, *LANE_KINDS)
        return [axis for axis in lanes if axis.target != value.reduced]

    def _bytes_reused(self, value: Reused) -> int:
        lanes = self.lanes_of_reused(value)
        elements = number_of((self.covered(value.reduced), *(axis.extent for axis in lanes)))
        return elements * value.inner.dtype.itemsize

    def _fragment_bytes(self) -> int:
        """Return the bytes of shared memory for the fragments of a tile in `MEMORY_MODE`."""
        use = self.tile
        if use is None or use.mode != MEMORY_MODE:
            return 0
        elements = sum(self.fragment_elements(use, one) for one in (Operand.A, Operand.B))
        return elements * use.tile.dtype_in.itemsize

    def fragment_axes(self, use: TileUse, operand: Operand) -> list[Axis]:
        """Return the axes outside the tile whose iterations have different matrices A or B.

        Loops do not count: only one of their iterations exists at a time.
        """
        value = use.a if operand is Operand.A else use.b
        lanes = self.axes_of(value, *LANE_KINDS)
        items = [axis for axis in self.axes if axis.kind in ITEM_KINDS]
        return [axis for axis in (*items, *lanes) if not axis.is_fixed]

    def fragment_elements(self, use: TileUse, operand: Operand) -> int:
        """Return the number of elements of A or B that a group stores at a time."""
        rows, columns = use.tile.shape(operand)
        return rows * columns * number_of(a.extent for a in self.fragment_axes(use, operand))

    def with_axes(self, axes: Iterable[Axis]) -> Plan:
        """Return the plan with other axes, sorted by kind, without axes of one iteration."""
        longer = [axis for axis in axes if not is_one(axis.extent)]
        # The threads of a tile are neighbours, so their axes count fastest.
        longer.sort(key=lambda axis: (KIND_ORDER.index(axis.kind), axis.is_fixed))
        return replace(self, axes=tuple(longer))


def number_of(extents: Iterable[sint]) -> int:
    """Return the product of the known extents; the extents of items and lanes are known."""
    return math.prod(extent for extent in extents if isinstance(extent, int))


def axes_of(node: UOp) -> frozenset[int]:
    """Return the axes of the AST along which a node has more than one position."""
    sizes: Sequence[sint] = kernel_shape(node)
    return frozenset(axis for axis, size in enumerate(sizes) if not is_one(size))


@node_fact
def changes(node: UOp) -> frozenset[int]:
    """Return the axes of the AST along which the value of a node may change."""
    if isinstance(node.arg, ViewArg):
        if node.op is Ops.VALID:
            return axes_of(node)
        # The last of several views takes the axes: where it repeats, all of them do.
        view = tracker_of(node).views[-1]
        repeated = [
            stride == 0 and (view.mask is None or view.mask[axis] == (0, view.shape[axis]))
            for axis, stride in enumerate(view.strides)
        ]
        placed = _positions_change(node)
        return frozenset(axis for axis in axes_of(node) if axis in placed or not repeated[axis])
    axes: frozenset[int] = frozenset().union(*map(changes, node.src))
    return axes.difference(reduced_axes(node))


def _positions_change(view: UOp) -> frozenset[int]:
    """Return the axes along which positions change that a view takes from values."""
    return frozenset().union(*map(changes, positions_of(view)))


def element_strides(access: UOp) -> tuple[sint | None, ...]:
    """Return the step of a LOAD or STORE in its buffer for each AST axis; None: it varies."""
    view = access.src[0]
    if not isinstance(view.arg, ViewArg) or not isinstance(view.dtype, PtrDType):
        raise TypeError(f"{view.op.name} is no view of a buffer")
    strides = tracker_of(view).real_strides()
    placed = _positions_change(view)
    own = strides[: len(strides) - len(positions_of(view))]
    return tuple(None if axis in placed else stride for axis, stride in enumerate(own))


# --- strides of accesses --------------------------------------------------------------------------


@dataclass(frozen=True)
class AxisAccess:
    """A LOAD or STORE, the AST axes along which it changes, and its strides in elements there.

    strides: None if the stride varies.
    is_masked: the view skips some positions.
    """

    node: UOp
    moves: frozenset[int]
    strides: tuple[int | None, ...]
    is_masked: bool

    @property
    def is_store(self) -> bool:
        """Return True if it writes."""
        return self.node.op is Ops.STORE

    @property
    def slot(self) -> int:
        """Return the slot of its buffer."""
        return slot_of(self.node)

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return self.node.src[1].dtype.itemsize if self.is_store else self.node.dtype.itemsize

    def step(self, axis: Axis) -> int | None:
        """Return the step in elements for one iteration of `axis`; None if it varies."""
        if axis.target not in self.moves:
            return 0
        stride = self.strides[axis.target]
        return None if stride is None else stride * axis.stride

    def is_unit(self, axis: Axis) -> bool:
        """Return True if neighbours along `axis` are neighbours in memory, in rising order."""
        return self.step(axis) == 1


def accesses(plan: Plan) -> list[AxisAccess]:
    """Return every LOAD and STORE of the kernel, loads first."""
    # The plans of a kernel share these, so they are cached with the kernel.
    facts = plan.form.ast.facts
    result: list[AxisAccess] | None = facts.get(accesses)
    if result is None:
        loads = [node for node in plan.nodes if node.op is Ops.LOAD]
        result = [_access(node) for node in (*loads, *plan.form.ast.src)]
        facts[accesses] = result
    return list(result)


def _access(node: UOp) -> AxisAccess:
    view = node.src[0]
    strides = tuple(s if isinstance(s, int) else None for s in element_strides(node))
    return AxisAccess(node, changes(view), strides, tracker_of(view).is_masked)


def reduce_axes(plan: Plan) -> Iterator[tuple[UOp, list[Axis]]]:
    """Yield every REDUCE with the axes of the plan that are its loops, outermost first."""
    for node in plan.nodes:
        if node.op is Ops.REDUCE:
            over = (axis for axis in plan.axes if axis.target in reduced_axes(node))
            yield node, [axis for axis in over if axis.kind is AxisKind.REDUCE]


# --- plans for people -----------------------------------------------------------------------------


# Parallel kinds are cold, sequential kinds warm, unrolled kinds bright.
STYLES: dict[AxisKind, str] = {
    AxisKind.THREAD: "magenta",
    AxisKind.LOOP: "yellow",
    AxisKind.GLOBAL: "blue",
    AxisKind.LOCAL: "cyan",
    AxisKind.GROUP_REDUCE: "green",
    AxisKind.REDUCE: "red",
    AxisKind.UNROLL: "bright_magenta",
    AxisKind.UPCAST: "bright_yellow",
}


def print_plan(plan: Plan, stream: TextIO, indent: str = "") -> None:
    """Write the axes of `plan` on one line, and its optimisations on another.

    Use colours if `stream` is a terminal with colours and NO_COLOR is not set.
    """
    lines = [f"{indent}plan  {{axes}}"]
    if plan.opts:
        lines.append(f"{indent}opts  {opts_text(plan.opts)}")
    stream.write("\n".join(lines).replace("{axes}", _axes(plan, stream)) + "\n")


def _axes(plan: Plan, stream: TextIO) -> str:
    if not plan.axes:
        return "no axes"
    if not stream.isatty():
        return ", ".join(map(str, plan.axes))
    # Only a terminal needs the library for terminals.
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True)
    text = Text(", ").join(Text(str(axis), style=STYLES[axis.kind]) for axis in plan.axes)
    with console.capture() as written:
        console.print(text, end="")
    return written.get()
