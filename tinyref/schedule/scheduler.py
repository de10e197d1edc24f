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
    """Return the kernels and copies that compute `outputs`, each a node and its device.

    A node on several devices is computed for all of them. In `results`, every output and every
    stored node (ASSIGN, CONTIGUOUS, COPY) maps to a view of a BUFFER, and a constant to itself.
    Raises `UserError` for a graph that reads and assigns one buffer in ways that no order of
    kernels satisfies.

    Args:
        live: graphs that may be computed later. If the outputs overwrite contents that a graph
            reads, it becomes an output too.
        held: all graphs that still exist. A CONTIGUOUS or COPY in none of them is no result: its
            memory is temporary. None means that all are results.
    """
    outputs = list(outputs)
    _check_graph([node for node, _ in outputs])
    shards = Shards()
    planned = _ScheduleBuilder(shards.outputs(outputs), shards.live(live), held).run()
    shards.add_results(planned.results)
    return planned


def _check_graph(roots: Sequence[UOp]) -> None:
    """Dump and verify a tensor graph at the border to the scheduler."""
    dump_after("graph", f"{len(roots)} outputs", UOp(Ops.SINK, dtypes.void, tuple(roots)))
    if config.integer("VERIFY") > 1:
        verify(Dialect.TENSOR, toposort(roots))


@dataclass(frozen=True)
class _Target:
    """The target of an ASSIGN: a plain view of a BUFFER, and the tracker of its elements."""

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
        # Only overwritten contents can matter to graphs that are computed later.
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
        self.placement = self._placement(computed)
        self.least_sizes = self._least_sizes() if self.prepared.variables.constraints else {}
        self.locations: dict[UOp, Location] = {}
        self.targets: dict[UOp, _Target] = {}
        self.tasks: dict[UOp, PendingItem] = {}
        self.results: dict[UOp, UOp] = {}
        self.owners: dict[UOp, list[UOp]] = {}
        self._transfers: dict[tuple[UOp, str], UOp] = {}

    def _on_devices(self, outputs: Iterable[tuple[UOp, str]]) -> dict[UOp, UOp]:
        """Map each output to its prepared node, on the device of the request."""
        pairs = [(node, Device.canonical(name)) for node, name in outputs]
        moved = [
            node if device_of(node) is None else graph.copy(node, device) for node, device in pairs
        ]
        self.prepared.add(moved)
        result: dict[UOp, UOp] = {}
        for (node, device), moved_node in zip(pairs, moved, strict=True):
            result[node] = self.prepared.new[moved_node]
            self.devices.setdefault(peel(result[node]), device)
        return result

    def _in_own_memory(self, node: UOp) -> UOp:
        """Return a copy of an output that is a view of memory which will be overwritten."""
        if not self.versions.outlives(node):
            return node
        copy = UOp(Ops.CONTIGUOUS, node.dtype, (node,))
        self.devices[copy] = self.devices[peel(node)]
        return copy

    def _placement(self, outputs: Sequence[UOp]) -> dict[UOp, str]:
        """Return the device of every node; constants are computed where they are used."""
        device_of_node = {base: self.devices[base] for base in map(peel, outputs)}
        for node in reversed(self.fusion.order):
            device = device_of_node[node] = device_of(node) or device_of_node[node]
            if not Device.runs_kernels(device):
                device = Device.default
            for source in node.src:
                device_of_node.setdefault(source, device)
        return device_of_node

    # --- memory ---------------------------------------------------------------------------------

    def locate(self, node: UOp) -> Location | None:
        """Return the location of `node`; None if it is computed in place."""
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
        return Location(new_buffer_node(self.placement[node], size, node.dtype), tracker)

    def _least_sizes(self) -> dict[UOp, int]:
        """Return the sizes of results, with room for values that other graphs exclude."""
        sizes: dict[UOp, int] = {}
        stored = ((o, n) for o, n in self.prepared.new.items() if o.op in ALWAYS_STORED)
        for owner, node in (*stored, *self.requested.items()):
            base = peel(node)
            size = largest_size(shape_of(owner))
            while sizes.get(base, -1) < size:
                sizes[base] = size
                if base.op not in (Ops.CONTIGUOUS, Ops.COPY):
                    break
                base = peel(base.src[0])
        return sizes

    def _target_of(self, assign: UOp) -> _Target:
        """Return the target of an ASSIGN; each ASSIGN under it is visited only once."""
        waiting: list[tuple[UOp, list[UOp]]] = []
        node = assign
        while node.op is Ops.ASSIGN and node not in self.targets:
            steps, below = _target_steps(node)
            waiting.append((node, steps))
            node = below
        if node.op is Ops.BUFFER:
            target = _Target(node, ShapeTracker.from_shape(shape_of(node)))
        else:
            target = self.targets[node]
        for user, steps in reversed(waiting):
            for step in reversed(steps):
                tracker = target.tracker.followed_by(movement_tracker(step))
                target = _Target(step.replace(src=(target.view,)), tracker)
            self.targets[user] = target
        return target

    def _stored_already(self, node: UOp) -> Location | None:
        """Return the memory of the source of a CONTIGUOUS, if it is fresh memory in order."""
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
        """Add the task that stores `node`, or return nodes to be stored first."""
        target = self.locate(node)
        if target is None:
            return ()
        if isinstance(node.arg, CopyArg):
            source = self.locate(node.src[0])
            if source is not None:
                self.tasks[node] = copy_task(target.buffer, source)
            return ()
        builder = KernelBuilder(node, target, self.locate)
        limit = Device[self.placement[node]].capabilities.buffer_limit
        if builder.count_buffers() > limit:
            return self._nodes_to_store(builder, limit)
        try:
            ast = builder.build()
        except TooLarge as error:
            return (error.node,)
        if node.op is Ops.ASSIGN and not _is_in_place(builder):
            return (node.src[1],)
        device = self.placement[node]
        buffers = tuple(self._on_device(buffer, device) for buffer in builder.buffers)
        reads = tuple(builder.reads)
        named = self._named_nodes(builder)
        names = tuple(dict.fromkeys(map(name_of, named)))
        lines = tuple(dict.fromkeys(filter(None, map(line_of, named))))
        axes = (builder.outer, builder.inner)
        kinds = (node in self.fusion.alone, node in self.fusion.products)
        draft = KernelDraft(ast, buffers, reads, *axes, names, lines, builder.folded, *kinds)
        assigns = (node,) if node.op is Ops.ASSIGN else ()
        # The last one before is enough: it waits for earlier ones.
        before = _target_steps(node)[1] if assigns else None
        after = () if before is None or before.op is Ops.BUFFER else (before,)
        self.tasks[node] = PendingItem(device, draft, buffers, reads_of(draft), after, assigns)
        return ()

    def _drop_overwritten(self) -> None:
        """Drop each ASSIGN whose elements the next one overwrites before anything reads them.

        Tasks that only its value needs are dropped too.
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
        """Return the nodes that name what a kernel computes, in order, without movement."""
        root = [] if builder.root in builder.members else [builder.root]
        named = [node for node in builder.members if name_of(node)]
        computing = [node for node in named if node.op not in MOVEMENT]
        named = [*(computing or named), *(node for node in root if name_of(node))]
        if computing and builder.root.op is Ops.CONTIGUOUS:
            named = computing
        return sorted(named, key=self.fusion.position.__getitem__)

    def _nodes_to_store(self, builder: KernelBuilder, limit: int) -> Sequence[UOp]:
        """Return nodes to store, so that no kernel accesses more buffers than `limit`."""
        members = sorted(builder.members, key=self.fusion.position.__getitem__)
        read: dict[UOp, frozenset[UOp]] = {}
        cuts: list[UOp] = []
        for node in members:
            sources = dict.fromkeys(source for source in node.src)
            for source in sources:
                if source not in read:
                    location = self.locate(source)
                    read[source] = frozenset((location.buffer,) if location else ())
            buffers = _union(read[source] for source in sources)
            while len(buffers) >= limit:
                source = max(sources, key=lambda source: len(read[source]))
                cut = _computed_below(source)
                if len(read[source]) < 2 or cut is builder.value:
                    raise UserError(
                        f"schedule: a kernel needs {len(buffers) + 1} buffers and "
                        f"{self.placement[builder.root]} accepts {limit}"
                    )
                cuts.append(cut)
                read[source] = frozenset((cut,))
                buffers = _union(read[source] for source in sources)
            read[node] = buffers
        return cuts

    def _on_device(self, buffer: UOp, device: str) -> UOp:
        """Return `buffer` on `device`: constants that were computed for another one are copied."""
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
        """Return the `owners` that no held graph reads after the outputs are computed."""
        unread = {owner for owner in owners if owner.op is not Ops.ASSIGN}
        if not unread or self.held is None:
            return set()
        outputs = self.requested

        def below(node: UOp) -> tuple[UOp, ...]:
            return () if node in outputs else node.src

        read: list[UOp] = toposort(self.held, below)
        return unread.difference(read)

    def _add_result(self, owner: UOp, node: UOp) -> None:
        """Set the location of `owner`, prepared as `node`, and the item that completes it."""
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
            # A choice between equal values, for example, shows an ASSIGN only once it is prepared.
            assign = _shown_assign(owner)
            if assign is None:
                assign = _shown_assign(node)
            assert assign is not None, "a value in the location of an ASSIGN shows one"
            view = self._target_of(assign).view
            self.results[owner] = graph.reshape(view, shape_of(owner))
            self.owners.setdefault(location.version, []).append(owner)


# Ops that show elements of their source.
_SHOWING = MOVEMENT | {Ops.DETACH, Ops.BITCAST, Ops.CONTIGUOUS}


def _shown_assign(node: UOp) -> UOp | None:
    """Return the ASSIGN whose elements `node` shows; None if it computes."""
    while node.op is not Ops.ASSIGN:
        if node.op not in _SHOWING:
            return None
        node = node.src[0]
    return node


def _by_images(item: Item) -> Item:
    """Return the item with images instead of buffers, if the flag IMAGE is set."""
    if isinstance(item, KernelItem):
        return replace(item, ast=with_images(item.ast, item.device))
    return item


def _common_bindings(outputs: Sequence[UOp], added: Sequence[UOp]) -> dict[str, int]:
    """Return the values of all variables. Raises `ConflictError` if `added` needs others."""
    try:
        return bound_values((*outputs, *added))
    except ConflictError as conflict:
        if not _agree(outputs):
            raise
        others = [owner for owner in added if not _agree((*outputs, owner))]
        raise ConflictError(conflict.name, conflict.values, others or added) from None


def _agree(roots: Sequence[UOp]) -> bool:
    """Return True if each variable has one value in all of `roots`."""
    try:
        bound_values(roots)
    except ConflictError:
        return False
    return True


def _needs_memory(node: UOp) -> bool:
    """Return True if a requested node is computed; constants and empty nodes are not."""
    return not is_empty(shape_of(node)) and uniform_value(node) is None


def _union(sets: Iterable[frozenset[UOp]]) -> frozenset[UOp]:
    return frozenset[UOp]().union(*sets)


def _computed_below(node: UOp) -> UOp:
    """Return the node under movement."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


def _target_steps(assign: UOp) -> tuple[list[UOp], UOp]:
    """Return the movement under the target of an ASSIGN, outermost first, and the node below.

    This node is the BUFFER, or the ASSIGN that wrote to it before.
    """
    steps: list[UOp] = []
    node = assign.src[0]
    while node.op in MOVEMENT:
        steps.append(node)
        node = node.src[0]
    return steps, node


def _is_whole(assign: UOp) -> bool:
    """Return True if an ASSIGN writes every element of its BUFFER."""
    return product(shape_of(assign)) == product(shape_of(assigned_buffer(assign)))


def _is_in_place(builder: KernelBuilder) -> bool:
    """Return True if a kernel reads the buffer that it writes only at the element it writes."""
    written = builder.target.buffer
    reads = (read for read in builder.reads if read.location.buffer is written)
    return all(read.tracker is builder.store_view for read in reads)


# --- outputs on several devices -------------------------------------------------------------------


Placed = tuple[UOp, Place]


class Shards:
    """The outputs that are MULTIs, and the parts that are computed for each one."""

    def __init__(self) -> None:
        self._parts: dict[UOp, tuple[UOp, ...]] = {}

    def outputs(self, outputs: Iterable[Placed]) -> list[tuple[UOp, str]]:
        """Return the outputs of each device; a part without a device gets memory on its own."""
        placed: list[tuple[UOp, str]] = []
        for node, target in outputs:
            whole = on_place(node, target)
            if whole.op is not Ops.MULTI:
                assert isinstance(target, str), "what lies on several devices is a MULTI"
                placed.append((node, target))
                continue
            devices = layout_of(whole).devices
            shards = zip(whole.src, devices, strict=True)
            parts = [part if _is_constant(part) else bound(part, name) for part, name in shards]
            self._parts[node] = tuple(parts)
            placed.extend(zip(parts, devices, strict=True))
        return placed

    def live(self, graphs: Iterable[Placed]) -> Iterator[tuple[UOp, str]]:
        """Yield the graphs that may be computed later on each device."""
        for node, target in graphs:
            if isinstance(target, str):
                yield node, target
                continue
            whole = on_place(node, target)
            self._parts.setdefault(node, whole.src)
            yield from zip(whole.src, target, strict=True)

    def add_results(self, results: MutableMapping[UOp, UOp]) -> None:
        """Add the location of each MULTI that has all its parts."""
        for node, parts in self._parts.items():
            locations = [part if _is_constant(part) else results.get(part) for part in parts]
            complete = tuple(part for part in locations if part is not None)
            if node.op is Ops.MULTI and len(complete) == len(parts):
                results[node] = node.replace(src=complete)


def _is_constant(part: UOp) -> bool:
    return is_empty(shape_of(part)) or uniform_value(part) is not None
