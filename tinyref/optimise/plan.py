"""Plans: how the iteration space of a kernel is cut into axes, and what each axis becomes.

A plan is a kernel in normal form and a list of axes. The position on an axis of the AST is the sum
of counter * stride over the plan's axes with that target, so that cutting an axis changes no view.
Plans are immutable: `apply` gives another plan or raises `KernelOptError`.
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

# The order of the axes of a plan, which is that of the loops from the outside in.
KIND_ORDER = (
    AxisKind.THREAD,
    AxisKind.GLOBAL,
    AxisKind.LOCAL,
    AxisKind.GROUP_REDUCE,
    AxisKind.REDUCE,
    AxisKind.UNROLL,
    AxisKind.UPCAST,
)
# Unrolled ones: their counter is a constant in every copy of what depends on it.
LANE_KINDS = frozenset({AxisKind.UNROLL, AxisKind.UPCAST})
# Of `tile.TileMode`: fragments in local memory.
MEMORY_MODE = 3
ITEM_KINDS = frozenset({AxisKind.LOCAL, AxisKind.GROUP_REDUCE})


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: `extent` iterations, each of which moves `stride` positions on AST axis `target`.

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
        """Whether the extent is known and a multiple of `amount`."""
        return isinstance(self.extent, int) and self.extent % amount == 0


@dataclass(frozen=True)
class TileUse:
    """A matrix tile at work: on the sum of products `reduce`, of `a` and `b`.

    mode: a `tile.TileMode`. targets: the AST axes of m, n and k.
    """

    tile: MatrixTile
    mode: int
    reduce: UOp
    a: UOp
    b: UOp
    targets: tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """A kernel and its axes, in `KIND_ORDER`.

    opts: what was applied. uses_groups: False after NOLOCALS. packed: the slots of the buffers
    whose elements are copied into scratch memory before they are used again and again, and
    `REUSED`. tile: the matrix tile, if there is one.
    """

    form: NormalForm
    capabilities: Capabilities
    axes: tuple[Axis, ...]
    opts: tuple[Opt, ...] = ()
    uses_groups: bool = True
    packed: tuple[int, ...] = ()
    tile: TileUse | None = None

    @classmethod
    def of(cls, ast: UOp, capabilities: Capabilities) -> Plan:
        """The plan without optimisations: every output axis is global, every other one a loop."""
        form = normal_form(ast)
        axes = [
            Axis(AxisKind.GLOBAL if owner == OUTPUT else AxisKind.REDUCE, size, target)
            for target, (owner, size) in enumerate(zip(form.owners, form.shape, strict=True))
        ]
        return cls(form, capabilities, tuple(axes))

    def apply(self, opt: Opt) -> Plan:
        """The plan with one more optimisation.

        Raises `KernelOptError` with the reason where it is not legal; this plan never changes.
        """
        from tinyref.optimise.moves import apply_opt

        return apply_opt(self, opt)

    def apply_all(self, opts: Iterable[Opt]) -> Plan:
        """The plan with the optimisations applied from left to right.

        Errors as of `apply` and `checked_opts`.
        """
        return functools.reduce(Plan.apply, checked_opts(opts), self)

    def legal(self, opt: Opt) -> Plan | None:
        """The plan with `opt`, or None where that is refused."""
        from tinyref.optimise.moves import try_opt

        found = try_opt(self, opt)
        return found if isinstance(found, Plan) else None

    def apply_if_legal(self, opt: Opt) -> Plan:
        """The plan with `opt`, or this plan where that is refused."""
        return self.legal(opt) or self

    def cut_lanes(self, number: int, amount: int) -> Plan:
        """The plan with `amount` lanes cut off a global or reduce axis, or itself if refused."""
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

    @functools.cached_property
    def shape(self) -> Shape:
        """The size of each axis of the AST."""
        return self.form.shape

    @functools.cached_property
    def nodes(self) -> list[UOp]:
        """The nodes of the AST, sources first."""
        return self.form.ast.toposort()

    def of_kind(self, *kinds: AxisKind) -> list[int]:
        """The numbers of the axes of these kinds, in order."""
        return [number for number, axis in enumerate(self.axes) if axis.kind in kinds]

    def extents(self, *kinds: AxisKind) -> list[sint]:
        """The extents of the axes of these kinds, in order."""
        return [self.axes[number].extent for number in self.of_kind(*kinds)]

    def number_along(self, target: int, kind: AxisKind = AxisKind.GLOBAL) -> int | None:
        """The number of the first axis of a kind that moves along AST axis `target`."""
        numbers = self.of_kind(kind)
        return next((number for number in numbers if self.axes[number].target == target), None)

    def covered(self, target: int) -> sint:
        """How many positions the plan has on AST axis `target`: its size, or more if padded."""
        return product(axis.extent for axis in self.axes if axis.target == target)

    def is_padded(self, target: int) -> bool:
        """True where PADTO has added positions to AST axis `target`."""
        return self.covered(target) != self.shape[target]

    def reduces_over(self, target: int) -> list[UOp]:
        """The REDUCE nodes that go over AST axis `target`."""
        return [node for node in self.nodes if target in reduced_axes(node)]

    def loads_of(self, slot: int) -> list[UOp]:
        """The LOADs of the buffer in `slot`."""
        return [node for node in self.nodes if node.op is Ops.LOAD and slot_of(node) == slot]

    def axes_of(self, node: UOp, *kinds: AxisKind) -> list[Axis]:
        """The axes of these kinds along which the value of an AST node changes.

        A value that is repeated along an axis changes there too if the axis is padded: it is
        gated off at the positions that padding has added.
        """
        padded = frozenset(target for target in axes_of(node) if self.is_padded(target))
        targets = changes(node) | padded
        return [axis for axis in self.axes if axis.kind in kinds and axis.target in targets]

    @property
    def lanes(self) -> int:
        """Lanes and copies in all."""
        return number_of(self.extents(*LANE_KINDS))

    @property
    def group_size(self) -> int:
        """Work-items of a group."""
        return number_of(axis.extent for axis in self.item_axes)

    @property
    def item_axes(self) -> list[Axis]:
        """The axes whose counters are the indices of a work-item in its group."""
        twins = self.item_twins
        return [axis for axis in self.axes if axis.kind in ITEM_KINDS and axis not in twins]

    @functools.cached_property
    def item_twins(self) -> dict[Axis, Axis]:
        """Axes whose counter is that of another one, which they are mapped to.

        Reduces of which none is a part of another come one after the other, so that the same
        work-items share out the terms of all that are cut into as many parts.
        """
        users: dict[Axis, list[tuple[UOp, Axis]]] = {}
        twins: dict[Axis, Axis] = {}
        for node in self.grouped_reduces():
            shared = [axis for axis in self._axes_over(node) if axis.kind is AxisKind.GROUP_REDUCE]
            if len(shared) != 1:
                continue
            (axis,) = shared
            for first, others in users.items():
                are_apart = all(self._are_apart(node, axis, *other) for other in others)
                if first.extent == axis.extent and are_apart:
                    twins[axis] = first
                    break
            users.setdefault(twins.get(axis, axis), []).append((node, axis))
        return twins

    def _are_apart(self, one: UOp, its_axis: Axis, other: UOp, other_axis: Axis) -> bool:
        """Whether of two reduces neither changes along an axis of the other."""
        kind = AxisKind.GROUP_REDUCE
        return other_axis not in self.axes_of(one, kind) and its_axis not in self.axes_of(
            other, kind
        )

    def _axes_over(self, node: UOp) -> list[Axis]:
        """The axes that a REDUCE goes over."""
        return [axis for axis in self.axes if axis.target in reduced_axes(node)]

    def grouped_reduces(self) -> list[UOp]:
        """The REDUCEs whose terms are shared out among the work-items of a group."""
        targets = {axis.target for axis in self.axes if axis.kind is AxisKind.GROUP_REDUCE}
        return [node for node in self.nodes if targets.intersection(reduced_axes(node))]

    def shared_bytes(self) -> int:
        """The local memory that the kernel takes, for grouped reduces and for packed buffers."""
        total = 0
        for node in self.grouped_reduces():
            lanes = number_of(axis.extent for axis in self.axes_of(node, *LANE_KINDS))
            total += self.group_size * lanes * node.dtype.itemsize
        for slot in self.packed:
            if slot == REUSED:
                total += sum(map(self._bytes_reused, reused_values(self.form)))
                continue
            (load,) = self.loads_of(slot)
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
        """The lanes in each of which a value that is reused is another one."""
        lanes = self.axes_of(value.inner, *LANE_KINDS)
        return [axis for axis in lanes if axis.target != value.reduced]

    def _bytes_reused(self, value: Reused) -> int:
        lanes = self.lanes_of_reused(value)
        elements = number_of((self.shape[value.reduced], *(axis.extent for axis in lanes)))
        return elements * value.inner.dtype.itemsize

    def _fragment_bytes(self) -> int:
        """The local memory for the fragments of a tile that is computed from there."""
        use = self.tile
        if use is None or use.mode != MEMORY_MODE:
            return 0
        elements = sum(self.fragment_elements(use, each) for each in (Operand.A, Operand.B))
        return elements * use.tile.dtype_in.itemsize

    def fragment_axes(self, use: TileUse, operand: Operand) -> list[Axis]:
        """The axes outside of the tile for each iteration of which A or B is another matrix.

        Of the loops one iteration is there at a time.
        """
        value = use.a if operand is Operand.A else use.b
        lanes = self.axes_of(value, *LANE_KINDS)
        items = [axis for axis in self.axes if axis.kind in ITEM_KINDS]
        return [axis for axis in (*items, *lanes) if not axis.is_fixed]

    def fragment_elements(self, use: TileUse, operand: Operand) -> int:
        """How many elements of A or B a group holds at a time."""
        rows, columns = use.tile.shape(operand)
        return rows * columns * number_of(a.extent for a in self.fragment_axes(use, operand))

    def with_axes(self, axes: Iterable[Axis]) -> Plan:
        """The plan with other axes, sorted by kind; axes of one iteration are left out."""
        kept = [axis for axis in axes if not is_one(axis.extent)]
        # The threads of a tile are neighbours, so they count fastest.
        kept.sort(key=lambda axis: (KIND_ORDER.index(axis.kind), axis.is_fixed))
        return replace(self, axes=tuple(kept))


def number_of(extents: Iterable[sint]) -> int:
    """The product of extents that are known, as those of items and lanes are."""
    return math.prod(extent for extent in extents if isinstance(extent, int))


def axes_of(node: UOp) -> frozenset[int]:
    """The axes of the AST along which a node has more than one position."""
    sizes: Sequence[sint] = kernel_shape(node)
    return frozenset(axis for axis, size in enumerate(sizes) if not is_one(size))


@node_fact
def changes(node: UOp) -> frozenset[int]:
    """The axes of the AST along which the value of a node may change: a repeated one does not."""
    if isinstance(node.arg, ViewArg):
        if node.op is Ops.VALID:
            return axes_of(node)
        # The last of several views takes the axes: where it repeats, all of them do.
        view = tracker_of(node).views[-1]
        repeated = [
            stride == 0 and (view.mask is None or view.mask[axis] == (0, view.shape[axis]))
            for axis, stride in enumerate(view.strides)
        ]
        placed = _places_change(node)
        return frozenset(axis for axis in axes_of(node) if axis in placed or not repeated[axis])
    found: frozenset[int] = frozenset().union(*map(changes, node.src))
    return found.difference(reduced_axes(node))


def _places_change(view: UOp) -> frozenset[int]:
    """The axes along which the positions change that a view takes from values."""
    return frozenset().union(*map(changes, positions_of(view)))


def element_strides(access: UOp) -> tuple[sint | None, ...]:
    """By how many elements of its buffer a LOAD or STORE moves with each AST axis; None: varies."""
    view = access.src[0]
    if not isinstance(view.arg, ViewArg) or not isinstance(view.dtype, PtrDType):
        raise TypeError(f"{view.op.name} is no view of a buffer")
    strides = tracker_of(view).real_strides()
    placed = _places_change(view)
    own = strides[: len(strides) - len(positions_of(view))]
    return tuple(None if axis in placed else stride for axis, stride in enumerate(own))


# --- how accesses move along the axes -------------------------------------------------------------


@dataclass(frozen=True)
class AxisAccess:
    """A LOAD or STORE, the AST axes along which it changes, and its strides in elements there.

    A stride is None where it varies. `is_masked`: a view that skips some positions.
    """

    node: UOp
    moves: frozenset[int]
    strides: tuple[int | None, ...]
    is_masked: bool

    @property
    def is_store(self) -> bool:
        """Whether it writes."""
        return self.node.op is Ops.STORE

    @property
    def slot(self) -> int:
        """The slot of its buffer."""
        return slot_of(self.node)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.node.src[1].dtype.itemsize if self.is_store else self.node.dtype.itemsize

    def step(self, axis: Axis) -> int | None:
        """By how many elements it moves with one iteration of `axis`; None where that varies."""
        if axis.target not in self.moves:
            return 0
        stride = self.strides[axis.target]
        return None if stride is None else stride * axis.stride

    def is_unit(self, axis: Axis) -> bool:
        """Whether neighbours along `axis` are neighbours in memory, in rising order."""
        return self.step(axis) == 1


def accesses(plan: Plan) -> list[AxisAccess]:
    """Every LOAD and STORE of the kernel, loads first."""
    # Plans of one kernel have them in common, so they are kept with it.
    facts = plan.form.ast.facts
    found: list[AxisAccess] | None = facts.get(accesses)
    if found is None:
        loads = [node for node in plan.nodes if node.op is Ops.LOAD]
        found = [_access(node) for node in (*loads, *plan.form.ast.src)]
        facts[accesses] = found
    return list(found)


def _access(node: UOp) -> AxisAccess:
    view = node.src[0]
    strides = tuple(s if isinstance(s, int) else None for s in element_strides(node))
    return AxisAccess(node, changes(view), strides, tracker_of(view).is_masked)


def reduce_axes(plan: Plan) -> Iterator[tuple[UOp, list[Axis]]]:
    """Every REDUCE with the axes of the plan that are its loops, outermost first."""
    for node in plan.nodes:
        if node.op is Ops.REDUCE:
            over = (axis for axis in plan.axes if axis.target in reduced_axes(node))
            yield node, [axis for axis in over if axis.kind is AxisKind.REDUCE]


# --- plans for people -----------------------------------------------------------------------------


# The parallel kinds are cold, the sequential ones warm, the unrolled ones bright.
STYLES: dict[AxisKind, str] = {
    AxisKind.THREAD: "magenta",
    AxisKind.GLOBAL: "blue",
    AxisKind.LOCAL: "cyan",
    AxisKind.GROUP_REDUCE: "green",
    AxisKind.REDUCE: "red",
    AxisKind.UNROLL: "bright_magenta",
    AxisKind.UPCAST: "bright_yellow",
}


def print_plan(plan: Plan, stream: TextIO, indent: str = "") -> None:
    """Writes the axes of `plan` on one line, and what was applied on another.

    In colours where `stream` is a terminal that has them and NO_COLOR is not set.
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
    # Only a terminal waits for the library that knows terminals.
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True)
    text = Text(", ").join(Text(str(axis), style=STYLES[axis.kind]) for axis in plan.axes)
    with console.capture() as written:
        console.print(text, end="")
    return written.get()
