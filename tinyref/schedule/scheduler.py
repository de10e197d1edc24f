"""From requested outputs to an ordered schedule: prepare, fuse, build kernels, order them."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace

from tinyref import config
from tinyref.device import Device
from tinyref.dtype import as_const, dtypes
from tinyref.errors import UserError
from tinyref.formats.text import dump_after
from tinyref.garbage import collection_paused
from tinyref.lazy import graph
from tinyref.lazy.buffers import assigned_buffer, new_buffer_node
from tinyref.lazy.folding import full, uniform_value
from tinyref.lazy.multi import bound
from tinyref.lazy.shape import (
    device_of,
    is_empty,
    largest_size,
    line_of,
    name_of,
    product,
    shape_of,
)
from tinyref.lazy.shards import Place, layout_of, on_place
from tinyref.schedule.fusion import ALWAYS_STORED, Fusion
from tinyref.schedule.images import with_images
from tinyref.schedule.items import Item, KernelItem, Schedule
from tinyref.schedule.join import KernelDraft
from tinyref.schedule.kernel_ast import KernelBuilder, Location, TooLarge, movement_tracker
from tinyref.schedule.ordering import (
    Ordering,
    PendingItem,
    Versions,
    copy_task,
    needing_old_contents,
    reads_of,
)
from tinyref.schedule.prepare import Prepared, peel
from tinyref.schedule.variables import ConflictError, bound_values
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import MOVEMENT, Dialect, Ops
from tinyref.uops.payload import BufferArg, CopyArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import ShapeTracker


@collection_paused()
def schedule(
    outputs: Sequence[Placed],
    live: Iterable[Placed] = (),
    held: Iterable[UOp] | None = None,
) -> Schedule:
    """The kernels and copies that compute `outputs`, each a node and the device it goes to.

    What lies on several devices goes to all of them.
    `live` are graphs that may be computed later: those that read contents which an ASSIGN in the
    outputs overwrites become outputs too. In `results`, every output and every stored node (ASSIGN,
    CONTIGUOUS, COPY) maps to a view of a BUFFER, a constant to itself. `held` are all graphs that
    are kept: a CONTIGUOUS or COPY in none of them is no result, and its memory that of an
    intermediate one; None keeps all. Raises `UserError` for a graph that reads and assigns one
    buffer in ways that no order of kernels satisfies.
    """
    outputs = list(outputs)
    _check_graph([node for node, _ in outputs])
    shards = Shards()
    planned = _ScheduleBuilder(shards.outputs(outputs), shards.live(live), held).run()
    shards.add_results(planned.results)
    return planned


def _check_graph(roots: Sequence[UOp]) -> None:
    """Dumps and verifies a tensor graph at the border to the scheduler."""
    dump_after("graph", f"{len(roots)} outputs", UOp(Ops.SINK, dtypes.void, tuple(roots)))
    if config.integer("VERIFY"):
        verify(Dialect.TENSOR, toposort(roots))


@dataclass(frozen=True)
class _Target:
    """What an ASSIGN writes to: a plain view of a BUFFER, and where its elements lie there."""

    view: UOp
    tracker: ShapeTracker


class _ScheduleBuilder:
    def __init__(
        self,
        outputs: Sequence[tuple[UOp, str]],
        live: Iterable[tuple[UOp, str]],
        held: Iterable[UOp] | None,
    ) -> None:
        self.held = held
        self.prepared = Prepared()
        self.devices: dict[UOp, str] = {}
        requested = self._on_devices(outputs)
        roots = list(requested.values())
        # Only what is overwritten here can matter to graphs that are computed later.
        overwrites = bool(Versions(roots).assigns)
        constraints = len(self.prepared.variables.constraints)
        waiting = self._on_devices(live) if overwrites else {}
        if len(self.prepared.variables.constraints) > constraints:
            requested = self._on_devices(outputs)
            roots = list(requested.values())
        added, self.versions = needing_old_contents(roots, waiting)
        self.bindings = _common_bindings(list(requested), added)
        self.constraints = self.prepared.variables.asked_by((*requested, *added))
        requested.update((owner, waiting[owner]) for owner in added)
        self.requested = {owner: self._in_own_memory(node) for owner, node in requested.items()}
        computed = [node for node in self.requested.values() if _needs_memory(node)]
        self.fusion = Fusion(computed)
        self.places = self._place(computed)
        self.least_sizes = self._least_sizes() if self.prepared.variables.constraints else {}
        self.locations: dict[UOp, Location] = {}
        self.targets: dict[UOp, _Target] = {}
        self.tasks: dict[UOp, PendingItem] = {}
        self.results: dict[UOp, UOp] = {}
        self.owners: dict[UOp, list[UOp]] = {}
        self._transfers: dict[tuple[UOp, str], UOp] = {}

    def _on_devices(self, outputs: Iterable[tuple[UOp, str]]) -> dict[UOp, UOp]:
        """Each output, prepared, on the device that it was requested on."""
        pairs = [(node, Device.canonical(name)) for node, name in outputs]
        moved = [
            node if device_of(node) is None else graph.copy(node, device) for node, device in pairs
        ]
        self.prepared.add(moved)
        found: dict[UOp, UOp] = {}
        for (node, device), there in zip(pairs, moved, strict=True):
            found[node] = self.prepared.new[there]
            self.devices.setdefault(peel(found[node]), device)
        return found

    def _in_own_memory(self, node: UOp) -> UOp:
        """An output that is a view of memory which will be overwritten gets memory of its own."""
        if not self.versions.outlives(node):
            return node
        kept = UOp(Ops.CONTIGUOUS, node.dtype, (node,))
        self.devices[kept] = self.devices[peel(node)]
        return kept

    def _place(self, outputs: Sequence[UOp]) -> dict[UOp, str]:
        """The device of every node; what is made of constants alone goes where it is used."""
        places = {base: self.devices[base] for base in map(peel, outputs)}
        for node in reversed(self.fusion.order):
            device = places[node] = device_of(node) or places[node]
            if not Device.runs_kernels(device):
                device = Device.default
            for source in node.src:
                places.setdefault(source, device)
        return places

    # --- memory ---------------------------------------------------------------------------------

    def locate(self, node: UOp) -> Location | None:
        """Where `node` is stored; None where it is computed in place."""
        if node.op is Ops.BUFFER:
            return Location(node, ShapeTracker.from_shape(shape_of(node)))
        if node not in self.fusion.stored:
            return None
        if node not in self.locations:
            self.locations[node] = self._new_location(node)
        return self.locations[node]

    def _new_location(self, node: UOp) -> Location:
        if node.op is Ops.ASSIGN:
            return Location(assigned_buffer(node), self._target_of(node).tracker, node)
        same = self._stored_already(node)
        if same is not None:
            return Location(same.buffer, same.tracker.reshape(shape_of(node)), same.version)
        tracker = ShapeTracker.from_shape(shape_of(node))
        if node.op is Ops.COPY:
            source = self.locate(node.src[0])
            capacity = shape_of(source.buffer) if source else ()
        else:
            capacity = shape_of(node)
        size = max(largest_size(capacity), self.least_sizes.get(node, 0))
        return Location(new_buffer_node(self.places[node], size, node.dtype), tracker)

    def _least_sizes(self) -> dict[UOp, int]:
        """The memory of results, with room for values of variables that other graphs exclude."""
        found: dict[UOp, int] = {}
        stored = ((o, n) for o, n in self.prepared.new.items() if o.op in ALWAYS_STORED)
        for owner, node in (*stored, *self.requested.items()):
            base = peel(node)
            size = largest_size(shape_of(owner))
            while found.get(base, -1) < size:
                found[base] = size
                if base.op not in (Ops.CONTIGUOUS, Ops.COPY):
                    break
                base = peel(base.src[0])
        return found

    def _target_of(self, assign: UOp) -> _Target:
        """What an ASSIGN writes to; the ASSIGNs under its target are looked at only once."""
        waiting: list[tuple[UOp, list[UOp]]] = []
        node = assign
        while node.op is Ops.ASSIGN and node not in self.targets:
            steps, below = _target_steps(node)
            waiting.append((node, steps))
            node = below
        if node.op is Ops.BUFFER:
            found = _Target(node, ShapeTracker.from_shape(shape_of(node)))
        else:
            found = self.targets[node]
        for user, steps in reversed(waiting):
            for step in reversed(steps):
                tracker = found.tracker.followed_by(movement_tracker(step))
                found = _Target(step.replace(src=(found.view,)), tracker)
            self.targets[user] = found
        return found

    def _stored_already(self, node: UOp) -> Location | None:
        """The memory of what a CONTIGUOUS would copy, if that has fresh memory in order."""
        if node.op is not Ops.CONTIGUOUS:
            return None
        base = peel(node.src[0])
        if base.op in (Ops.ASSIGN, Ops.BUFFER) or base not in self.fusion.stored:
            return None
        return self.locate(base)

    # --- kernels --------------------------------------------------------------------------------

    def run(self) -> Schedule:
        waiting = deque(node for node in self.fusion.order if node in self.fusion.stored)
        while waiting:
            node = waiting.popleft()
            if node in self.tasks or self._stored_already(node) is not None:
                continue
            cuts = self._add_task(node)
            if cuts:
                self.fusion.stored.update(cuts)
                waiting.extendleft((node, *reversed(cuts)))
        self._find_results()
        self._drop_overwritten()
        ordering = Ordering(self.tasks.values(), self.versions, self.owners)
        items = [_by_images(item) for item in ordering.items()]
        for item in items:
            if isinstance(item, KernelItem):
                dump_after("schedule", item.device, item.ast)
        return Schedule(items, self.results, self.bindings, self.constraints)

    def _add_task(self, node: UOp) -> Sequence[UOp]:
        """Makes the item that stores `node`, or names nodes to be stored first."""
        target = self.locate(node)
        if target is None:
            return ()
        if isinstance(node.arg, CopyArg):
            source = self.locate(node.src[0])
            if source is not None:
                self.tasks[node] = copy_task(target.buffer, source)
            return ()
        builder = KernelBuilder(node, target, self.locate)
        limit = Device[self.places[node]].capabilities.buffer_limit
        if builder.count_buffers() > limit:
            return self._nodes_to_store(builder, limit)
        try:
            ast = builder.build()
        except TooLarge as error:
            return (error.node,)
        if node.op is Ops.ASSIGN and not _is_in_place(builder):
            return (node.src[1],)
        device = self.places[node]
        buffers = tuple(self._on_device(buffer, device) for buffer in builder.buffers)
        reads = tuple(builder.reads)
        named = self._named_nodes(builder)
        names = tuple(dict.fromkeys(map(name_of, named)))
        lines = tuple(dict.fromkeys(filter(None, map(line_of, named))))
        axes = (builder.outer, builder.inner)
        draft = KernelDraft(ast, buffers, reads, *axes, names, lines, builder.folded)
        assigns = (node,) if node.op is Ops.ASSIGN else ()
        # The last one before is enough: it waits for those before it.
        before = _target_steps(node)[1] if assigns else None
        after = () if before is None or before.op is Ops.BUFFER else (before,)
        self.tasks[node] = PendingItem(device, draft, buffers, reads_of(draft), after, assigns)
        return ()

    def _drop_overwritten(self) -> None:
        """Drops each ASSIGN whose elements the next one overwrites before anything reads them.

        With it goes what only its value needs.
        """
        read = {where.version for task in self.tasks.values() for where in task.reads}
        count = len(self.tasks)
        for assigns in list(self.versions.assigns.values()):
            for assign, later in list(itertools.pairwise(assigns)):
                if assign in read or not _is_whole(later):
                    continue
                dropped = self.tasks.pop(assign)
                self.versions.remove(assign)
                for node, task in self.tasks.items():
                    if assign in task.after:
                        self.tasks[node] = replace(task, after=dropped.after)
        if len(self.tasks) < count:
            self._drop_unread()

    def _drop_unread(self) -> None:
        """Drop the tasks whose results no task reads and no output shows, users before sources."""
        reads = Counter(buffer for task in self.tasks.values() for buffer in task.buffers[1:])
        for node, task in reversed(list(self.tasks.items())):
            written = task.buffers[0]
            if not task.assigns and written not in self.owners and not reads[written]:
                del self.tasks[node]
                reads.subtract(task.buffers[1:])

    def _named_nodes(self, builder: KernelBuilder) -> list[UOp]:
        """The nodes that say what a kernel computes, in order; what only moves is left out."""
        root = [] if builder.root in builder.members else [builder.root]
        named = [node for node in builder.members if name_of(node)]
        computing = [node for node in named if node.op not in MOVEMENT]
        named = [*(computing or named), *(node for node in root if name_of(node))]
        if computing and builder.root.op is Ops.CONTIGUOUS:
            named = computing
        return sorted(named, key=self.fusion.position.__getitem__)

    def _nodes_to_store(self, builder: KernelBuilder, limit: int) -> Sequence[UOp]:
        """Nodes to store so that no kernel reads more buffers than `limit`, with what it writes."""
        members = sorted(builder.members, key=self.fusion.position.__getitem__)
        read: dict[UOp, frozenset[UOp]] = {}
        cuts: list[UOp] = []
        for node in members:
            sources = dict.fromkeys(source for source in node.src)
            for source in sources:
                if source not in read:
                    location = self.locate(source)
                    read[source] = frozenset((location.buffer,) if location else ())
            found = _union(read[source] for source in sources)
            while len(found) >= limit:
                source = max(sources, key=lambda source: len(read[source]))
                cut = _computed_below(source)
                if len(read[source]) < 2 or cut is builder.value:
                    raise UserError(
                        f"schedule: a kernel needs {len(found) + 1} buffers and "
                        f"{self.places[builder.root]} accepts {limit}"
                    )
                cuts.append(cut)
                read[source] = frozenset((cut,))
                found = _union(read[source] for source in sources)
            read[node] = found
        return cuts

    def _on_device(self, buffer: UOp, device: str) -> UOp:
        """A buffer of constants that was computed for another device is copied over."""
        argument = buffer.arg
        if not isinstance(argument, BufferArg) or argument.device == device:
            return buffer
        key = (buffer, device)
        if key not in self._transfers:
            moved = new_buffer_node(device, argument.size, buffer.dtype)
            self._transfers[key] = moved
            source = Location(buffer, ShapeTracker.from_shape((argument.size,)))
            self.tasks[moved] = copy_task(moved, source)
        return self._transfers[key]

    # --- results --------------------------------------------------------------------------------

    def _find_results(self) -> None:
        stored = [
            (owner, node)
            for owner, node in self.prepared.new.items()
            if owner.op in ALWAYS_STORED and device_of(owner) is not None
        ]
        unheld = self._nodes_that_nobody_holds([owner for owner, _ in stored])
        for owner, node in stored:
            if owner in unheld:
                continue
            if graph.backing(node) is not None or peel(node) in self.locations:
                self._add_result(owner, node)
        for owner, node in self.requested.items():
            self._add_result(owner, node)

    def _nodes_that_nobody_holds(self, owners: Sequence[UOp]) -> set[UOp]:
        """Those of `owners` that no graph which is held reads when the outputs are computed."""
        found = {owner for owner in owners if owner.op is not Ops.ASSIGN}
        if not found or self.held is None:
            return set()
        outputs = self.requested

        def below(node: UOp) -> tuple[UOp, ...]:
            return () if node in outputs else node.src

        read: list[UOp] = toposort(self.held, below)
        return found.difference(read)

    def _add_result(self, owner: UOp, node: UOp) -> None:
        """Says where `owner`, prepared as `node`, will be, and who will complete it."""
        buffer = graph.backing(node)
        location = self.locate(peel(node)) if buffer is None else None
        if buffer is not None:
            self.results[owner] = graph.window(buffer, shape_of(owner))
        elif location is None:
            value = uniform_value(node)
            constant = as_const(0 if value is None else value, owner.dtype)
            self.results[owner] = full(shape_of(owner), constant, owner.dtype)
        elif location.version is None:
            self.results[owner] = graph.window(location.buffer, shape_of(owner))
            self.owners.setdefault(location.buffer, []).append(owner)
        else:
            # A choice between the same elements, say, is those once it is prepared.
            assign = _shown_assign(owner)
            if assign is None:
                assign = _shown_assign(node)
            assert assign is not None, "what is at an assignment's place shows one"
            view = self._target_of(assign).view
            self.results[owner] = graph.reshape(view, shape_of(owner))
            self.owners.setdefault(location.version, []).append(owner)


# Ops that show elements of their source.
_SHOWING = MOVEMENT | {Ops.DETACH, Ops.BITCAST, Ops.CONTIGUOUS}


def _shown_assign(node: UOp) -> UOp | None:
    """The ASSIGN of which `node` shows elements; None where it computes."""
    while node.op is not Ops.ASSIGN:
        if node.op not in _SHOWING:
            return None
        node = node.src[0]
    return node


def _by_images(item: Item) -> Item:
    """The item with images in place of buffers, where the flag IMAGE asks for them."""
    if isinstance(item, KernelItem):
        return replace(item, ast=with_images(item.ast, item.device))
    return item


def _common_bindings(outputs: Sequence[UOp], added: Sequence[UOp]) -> dict[str, int]:
    """The values of all variables. Raises `ConflictError` for `added` that need others."""
    try:
        return bound_values((*outputs, *added))
    except ConflictError as conflict:
        if not _agree(outputs):
            raise
        apart = [owner for owner in added if not _agree((*outputs, owner))]
        raise ConflictError(conflict.name, conflict.values, apart or added) from None


def _agree(roots: Sequence[UOp]) -> bool:
    """Whether each variable has one value in all of `roots`."""
    try:
        bound_values(roots)
    except ConflictError:
        return False
    return True


def _needs_memory(node: UOp) -> bool:
    """Whether a requested node is computed: constants, and what has no elements, are not."""
    return not is_empty(shape_of(node)) and uniform_value(node) is None


def _union(sets: Iterable[frozenset[UOp]]) -> frozenset[UOp]:
    return frozenset[UOp]().union(*sets)


def _computed_below(node: UOp) -> UOp:
    """The node under movement, which is computed and not just looked at another way."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


def _target_steps(assign: UOp) -> tuple[list[UOp], UOp]:
    """The movement under the target of an ASSIGN, outermost first, and what is below it.

    That is the BUFFER, or the ASSIGN that wrote to it before.
    """
    steps: list[UOp] = []
    node = assign.src[0]
    while node.op in MOVEMENT:
        steps.append(node)
        node = node.src[0]
    return steps, node


def _is_whole(assign: UOp) -> bool:
    """Whether an ASSIGN writes every element of its BUFFER."""
    return product(shape_of(assign)) == product(shape_of(assigned_buffer(assign)))


def _is_in_place(builder: KernelBuilder) -> bool:
    """Return True if a kernel reads the buffer that it writes only at the element it writes."""
    written = builder.target.buffer
    reads = (read for read in builder.reads if read.location.buffer is written)
    return all(read.tracker is builder.store_view for read in reads)


# --- outputs on several devices -------------------------------------------------------------------


Placed = tuple[UOp, Place]


class Shards:
    """The outputs that are MULTIs, and the parts that are computed for each."""

    def __init__(self) -> None:
        self._parts: dict[UOp, tuple[UOp, ...]] = {}

    def outputs(self, outputs: Iterable[Placed]) -> list[tuple[UOp, str]]:
        """What is computed on each device; a part that could be on any gets memory on its own."""
        apart: list[tuple[UOp, str]] = []
        for node, place in outputs:
            whole = on_place(node, place)
            if whole.op is not Ops.MULTI:
                assert isinstance(place, str), "what lies on several devices is a MULTI"
                apart.append((node, place))
                continue
            devices = layout_of(whole).devices
            pairs = zip(whole.src, devices, strict=True)
            parts = [part if _is_constant(part) else bound(part, name) for part, name in pairs]
            self._parts[node] = tuple(parts)
            apart.extend(zip(parts, devices, strict=True))
        return apart

    def live(self, graphs: Iterable[Placed]) -> Iterator[tuple[UOp, str]]:
        """What may be computed later on each device."""
        for node, place in graphs:
            if isinstance(place, str):
                yield node, place
                continue
            whole = on_place(node, place)
            self._parts.setdefault(node, whole.src)
            yield from zip(whole.src, place, strict=True)

    def add_results(self, results: MutableMapping[UOp, UOp]) -> None:
        """Says of each MULTI whose parts are all there where it is."""
        for node, parts in self._parts.items():
            found = [part if _is_constant(part) else results.get(part) for part in parts]
            there = tuple(part for part in found if part is not None)
            if node.op is Ops.MULTI and len(there) == len(parts):
                results[node] = node.replace(src=there)


def _is_constant(part: UOp) -> bool:
    return is_empty(shape_of(part)) or uniform_value(part) is not None
