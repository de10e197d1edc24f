"""Items in an order that honours every dependency; those that can be one kernel are joined.

An ASSIGN gives its buffer a new version. What reads an older one must run before the ASSIGN, unless
the ASSIGN is among its own sources and so has run long before.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tinyref.algebra.symbolic import product
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.lazy.buffers import assigned_buffer, shown_buffer
from tinyref.lazy.graph import backing
from tinyref.lazy.shape import describe_shape, shape_of
from tinyref.optimise.normal_form import merge_axes
from tinyref.schedule.items import CopyItem, Item, KernelItem, nbytes_of
from tinyref.schedule.join import KernelDraft, join, join_rows
from tinyref.schedule.kernel_ast import Location
from tinyref.schedule.prepare import peel
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

# --- who may see which contents of a buffer that is assigned to -----------------------------------


class CycleError(UserError):
    """No order of kernels computes the graphs: what is assigned is read before and after."""


def parts_to_read_first(roots: Sequence[UOp]) -> list[UOp]:
    """The largest parts of `roots` that read memory before it is assigned to, and that are used
    with what reads it afterwards: computed by themselves, and first, they are in no kernel's way.

    None that only shows such memory; none of what is assigned.
    """
    versions = Versions(roots)
    # Of each node the newest version of each buffer that it reads, the old contents being 0.
    read: dict[UOp, dict[UOp, int]] = {}
    found: dict[UOp, None] = {}
    for node in toposort(roots):
        if node.op is Ops.ASSIGN:
            read[node] = {assigned_buffer(node): versions.number(node) + 1}
            continue
        newest = {node: 0} if node in versions.assigns else {}
        for source in node.src:
            for buffer, number in read.get(source, {}).items():
                newest[buffer] = max(number, newest.get(buffer, 0))
        if newest:
            read[node] = newest
        is_after = any(newest.values())
        parts = (
            source
            for source in node.src
            if is_after and source in read and not _shows_memory(source)
        )
        found.update(
            (part, None)
            for part in parts
            if not any(read[part].values()) or any(n < newest[b] for b, n in read[part].items())
        )
    return list(found)


def _shows_memory(node: UOp) -> bool:
    return node.op is Ops.BUFFER or shown_buffer(node) is not None


class Versions:
    """The ASSIGNs below `roots`, by the BUFFER that they write, sources first."""

    def __init__(self, roots: Iterable[UOp]) -> None:
        self.assigns: dict[UOp, list[UOp]] = {}
        self._numbers: dict[UOp, int] = {}
        for node in toposort(roots):
            if node.op is Ops.ASSIGN:
                found = self.assigns.setdefault(assigned_buffer(node), [])
                self._numbers[node] = len(found)
                found.append(node)

    def __contains__(self, assign: UOp) -> bool:
        return assign in self._numbers

    def number(self, assign: UOp) -> int:
        """How many ASSIGNs wrote its buffer before this one."""
        return self._numbers[assign]

    def next(self, buffer: UOp, version: UOp | None) -> UOp | None:
        """The first ASSIGN that replaces what `version` of `buffer` holds; None if none does.

        Assigns to one buffer run in the order of the graph, so any others follow that one.
        """
        found = self.assigns.get(buffer, [])
        number = 0 if version is None else self._numbers[version] + 1
        return found[number] if number < len(found) else None

    def remove(self, assign: UOp) -> None:
        """Forgets an ASSIGN that need not run: the next one overwrites what nobody reads."""
        found = self.assigns[assigned_buffer(assign)]
        found.remove(assign)
        del self._numbers[assign]
        self._numbers.update((later, number) for number, later in enumerate(found))

    def outlives(self, node: UOp) -> bool:
        """Whether the memory that `node` is a plain view of will be overwritten."""
        base = peel(node)
        if base.op is Ops.ASSIGN:
            return self.next(assigned_buffer(base), base) is not None
        buffer = backing(node)
        return buffer is not None and self.next(buffer, None) is not None

    def reading_old(self, roots: Iterable[UOp]) -> set[UOp]:
        """The nodes of graphs, perhaps of other tensors, that need what will be overwritten."""
        old: set[UOp] = set()
        for node in toposort(roots, self._looked_at):
            if self._is_old(node) or not old.isdisjoint(self._looked_at(node)):
                old.add(node)
        return old

    def _looked_at(self, node: UOp) -> tuple[UOp, ...]:
        # What an ASSIGN that runs here needs is there when it runs.
        return () if node in self else node.src

    def _is_old(self, node: UOp) -> bool:
        if node in self:
            return self.next(assigned_buffer(node), node) is not None
        return node.op is Ops.BUFFER and node in self.assigns


def needing_old_contents(
    roots: Sequence[UOp], live: Mapping[UOp, UOp]
) -> tuple[list[UOp], Versions]:
    """The keys of `live` that must be computed together with `roots`, and the versions of all.

    `live` maps each graph as its owner knows it to the same graph prepared. Computing one may run
    further ASSIGNs, so this goes on until nothing is added.
    """
    added: list[UOp] = []
    everything = dict.fromkeys(roots)
    while True:
        versions = Versions(everything)
        old = versions.reading_old(live.values())
        more = [
            owner
            for owner, prepared in live.items()
            if prepared in old and prepared not in everything
        ]
        if not more:
            return added, versions
        added.extend(more)
        everything.update(dict.fromkeys(live[owner] for owner in more))


# --- items and their order ------------------------------------------------------------------------


Joining = Callable[[KernelDraft, KernelDraft, set[UOp]], KernelDraft | None]

# Kernels that only share what they read are joined up to so many outputs: each output is a stream
# of stores of its own.
MAX_OUTPUTS = 8
# A kernel of so few elements costs little but its launch.
FEW_ELEMENTS = 32


@dataclass(frozen=True)
class PendingItem:
    """An item before it has its place.

    draft: the kernel, None for a copy. buffers: BUFFER nodes, the written ones first. assigns: the
    ASSIGNs that the task runs. Looked at before kernels are joined, reads: what must hold its
    version when the task runs; after: ASSIGNs that must have run.
    """

    device: str
    draft: KernelDraft | None
    buffers: tuple[UOp, ...]
    reads: tuple[Location, ...]
    after: tuple[UOp, ...] = ()
    assigns: tuple[UOp, ...] = ()

    @property
    def written_buffers(self) -> tuple[UOp, ...]:
        """The BUFFER nodes that the task fills."""
        return self.buffers[:1] if self.draft is None else self.draft.written_buffers

    def item(self, owners: Mapping[UOp, Sequence[UOp]]) -> Item:
        """The task as a schedule has it; `owners` are those of each BUFFER or ASSIGN."""
        stored = self.assigns + self.written_buffers
        completes = tuple(owner for node in stored for owner in owners.get(node, ()))
        if self.draft is None:
            return CopyItem(self.buffers[0], self.buffers[1], completes)
        ast = merge_axes(self.draft.root)
        about = (self.draft.names, self.draft.lines)
        return KernelItem(ast, self.buffers, self.device, completes, *about)


def copy_task(target: UOp, source: Location) -> PendingItem:
    """A copy of the whole buffer at `source`."""
    return PendingItem("", None, (target, source.buffer), (source,))


def reads_of(draft: KernelDraft) -> tuple[Location, ...]:
    """Where a kernel reads."""
    return tuple(read.location for read in draft.reads)


class Ordering:
    """The dependencies between tasks, by their numbers.

    `owners` are the nodes whose result lies in a fresh BUFFER or was written by an ASSIGN: those
    buffers are looked at later, so they are stored even if all reads of them are joined away.
    """

    def __init__(
        self, tasks: Iterable[PendingItem], versions: Versions, owners: Mapping[UOp, Sequence[UOp]]
    ) -> None:
        self.tasks = dict(enumerate(tasks))
        self.versions = versions
        self.owners = owners
        self.waits: dict[int, set[int]] = {number: set() for number in self.tasks}
        self.users: dict[int, set[int]] = {number: set() for number in self.tasks}
        self._find_dependencies()
        self.readers: dict[UOp, set[int]] = {}
        self.levels: dict[int, int] = {}

    def items(self) -> list[Item]:
        """All items in order. Raises `UserError` for a cycle of assigns."""
        order = self._topological()
        for number in order:
            self._add_readers(number)
        self._find_levels(order)
        for number in order:
            while self._join_one_into(number):
                pass
        order = self._topological()
        self._find_levels(order)
        self._join_side_by_side(order)
        self._join_rows(self._topological())
        return [self.tasks[number].item(self.owners) for number in self._by_memory()]

    # --- dependencies ---------------------------------------------------------------------------

    def _find_dependencies(self) -> None:
        writer: dict[UOp, int] = {}
        assigner: dict[UOp, int] = {}
        for number, task in self.tasks.items():
            assigner.update(dict.fromkeys(task.assigns, number))
            if not task.assigns:
                writer.update(dict.fromkeys(task.written_buffers, number))
        for number, task in self.tasks.items():
            for buffer in task.buffers:
                if buffer in writer:
                    self._add(number, writer[buffer])
            for version in [*task.after, *(read.version for read in task.reads)]:
                if version is not None:
                    self._add(number, assigner[version])
            for read in task.reads:
                # The first one is enough: those after it wait for it.
                assign = self.versions.next(read.buffer, read.version)
                if assign is not None:
                    self._add(assigner[assign], number)
        for assigns in self.versions.assigns.values():
            for first, second in itertools.pairwise(assigns):
                self._add(assigner[second], assigner[first])

    def _add(self, user: int, needed: int) -> None:
        if user != needed:
            self.waits[user].add(needed)
            self.users[needed].add(user)

    def _topological(self) -> list[int]:
        """Numbers in an order in which nothing waits; of several the smallest goes first."""
        return self._sorted(lambda number: number)

    def _by_memory(self) -> list[int]:
        """The topological order, but that what takes no memory does not wait."""
        policy = _LeastMemory(self, self._topological())
        return self._sorted(policy.rank, policy.fallen)

    def _sorted(
        self,
        rank: Callable[[int], Any],
        fallen: Callable[[int], Iterable[int]] = lambda number: (),
    ) -> list[int]:
        """Numbers in an order in which nothing waits; of several the lowest rank goes first.

        fallen: of which numbers the rank is another one once a number has gone. Raises `UserError`
        for a cycle of assigns.
        """
        left = {number: len(needed) for number, needed in self.waits.items()}
        ready = [(rank(number), number) for number, count in left.items() if count == 0]
        heapq.heapify(ready)
        order: dict[int, None] = {}
        while ready:
            number = heapq.heappop(ready)[1]
            # What was entered again when its rank fell stands there twice.
            if number in order:
                continue
            order[number] = None
            entering = [other for other in fallen(number) if left[other] == 0]
            for user in self.users[number]:
                left[user] -= 1
                if left[user] == 0:
                    entering.append(user)
            for other in entering:
                heapq.heappush(ready, (rank(other), other))
        if len(order) < len(self.tasks):
            raise CycleError(_cycle_message([self.tasks[n] for n in left if n not in order]))
        return list(order)

    # --- joining --------------------------------------------------------------------------------

    def _join_rows(self, order: Sequence[int]) -> None:
        """Joins what reduces rows with what computes along them, where kernels run as loops.

        Last, so that such a kernel takes in nothing that each of its loops would compute anew.
        """
        self._find_levels(order)
        for number in order:
            task = self.tasks.get(number)
            if task is None or not task.device or Device[task.device].capabilities.has_grid:
                continue
            while self._join_one_into(number, join_rows):
                pass

    def _join_one_into(self, number: int, join: Joining = join) -> bool:
        """Joins `number` with one task that it reads from; False if there is none."""
        second = self.tasks.get(number)
        if second is None:
            return False
        for needed in sorted(self.waits[number], reverse=True):
            written = self.tasks[needed].written_buffers
            if set(written).isdisjoint(second.buffers) or self._is_between(needed, number):
                continue
            dropped = {buffer for buffer in written if self._is_private(buffer, number)}
            if self._join_pair(needed, number, dropped, join):
                return True
        return False

    def _join_pair(self, first: int, second: int, dropped: set[UOp], join: Joining = join) -> bool:
        """Joins two tasks into the second one; False if they are no kernels or stay two."""
        one, other = self.tasks[first], self.tasks[second]
        if one.draft is None or other.draft is None:
            return False
        joined = join(one.draft, other.draft, dropped)
        limit = Device[other.device].capabilities.buffer_limit
        if joined is None or len(joined.buffers) > limit:
            return False
        self._replace(first, second, joined)
        return True

    def _find_levels(self, order: Sequence[int]) -> None:
        """A task's level is higher than that of all it waits for."""
        for number in order:
            needed = self.waits[number]
            self.levels[number] = 1 + max((self.levels[other] for other in needed), default=0)

    def _join_side_by_side(self, order: Sequence[int]) -> None:
        """Joins kernels of one level, so that neither waits for the other.

        They have one shape, and read some buffer alike, or are too small to be worth a launch each.
        Products of matrices, which read each element many times, are left alone.
        """
        latest: dict[object, int] = {}
        for number in order:
            others = {latest.get(meeting) for meeting in self._meetings(number)}
            room = MAX_OUTPUTS - len(self.tasks[number].written_buffers)
            for first in sorted(other for other in others if other is not None):
                outputs = len(self.tasks[first].written_buffers)
                if outputs <= room and self._join_pair(first, number, set()):
                    break
            # A joined kernel meets whatever the first one did, and is the latest there.
            latest.update(dict.fromkeys(self._meetings(number), number))

    def _meetings(self, number: int) -> list[object]:
        """What a task must have in common with another to be joined with it."""
        task = self.tasks[number]
        if task.draft is None:
            return []
        together = (task.device, task.draft.outer, task.draft.inner, self.levels[number])
        count = product((*task.draft.outer, *task.draft.inner))
        if not isinstance(count, int):
            return []
        # To share what is read for every element saves memory traffic; one number does not.
        found: list[object] = [
            (*together, read.location.buffer, read.tracker)
            for read in task.draft.reads
            if isinstance(read.location.buffer.arg, BufferArg)
            and read.location.buffer.arg.size >= count
        ]
        if count <= FEW_ELEMENTS:
            found.append(together)
        return found

    def _is_between(self, first: int, second: int) -> bool:
        """Whether `second` also waits for `first` through some other task."""
        level = self.levels[first]
        stack = [number for number in self.waits[second] if number != first]
        seen = set(stack)
        while stack:
            number = stack.pop()
            # Whatever waits for `first` has a higher level.
            if self.levels[number] <= level:
                continue
            for needed in self.waits[number]:
                if needed == first:
                    return True
                if needed not in seen:
                    seen.add(needed)
                    stack.append(needed)
        return False

    def _is_private(self, buffer: UOp, reader: int) -> bool:
        """Whether nobody but task `reader` will look at `buffer`."""
        return self.is_temporary(buffer) and self.readers.get(buffer, set()) <= {reader}

    def is_temporary(self, buffer: UOp) -> bool:
        """Whether nobody looks at `buffer` once all tasks have run."""
        return buffer not in self.owners and buffer not in self.versions.assigns

    def _add_readers(self, number: int) -> None:
        """Notes what task `number` reads without writing it."""
        task = self.tasks[number]
        for buffer in set(task.buffers).difference(task.written_buffers):
            self.readers.setdefault(buffer, set()).add(number)

    def _raise(self, start: int) -> None:
        """Lifts the levels of what waits for `start` above its own."""
        stack = [start]
        while stack:
            number = stack.pop()
            for user in self.users[number]:
                if self.levels[user] <= self.levels[number]:
                    self.levels[user] = self.levels[number] + 1
                    stack.append(user)

    def _replace(self, first: int, second: int, joined: KernelDraft) -> None:
        """PendingItem `second` becomes the joined kernel, task `first` goes."""
        before, after = self.tasks.pop(first), self.tasks[second]
        for buffer in before.buffers:
            self.readers.get(buffer, set()).discard(first)
        for buffer in after.buffers:
            self.readers.get(buffer, set()).discard(second)
        assigns = before.assigns + after.assigns
        self.tasks[second] = replace(after, draft=joined, buffers=joined.buffers, assigns=assigns)
        for needed in self.waits.pop(first):
            self.users[needed].discard(first)
            self._add(second, needed)
        for user in self.users.pop(first):
            self.waits[user].discard(first)
            self._add(user, second)
        self._add_readers(second)
        self._raise(second)


class _LeastMemory:
    """Of the tasks that wait for nothing those first that take no memory.

    A task that ends the use of as many bytes as it begins goes as soon as it is ready: it can only
    make room for those after it. So a weight is updated before the next gradient is made.
    """

    def __init__(self, ordering: Ordering, order: Sequence[int]) -> None:
        self.tasks = ordering.tasks
        self.place = {number: place for place, number in enumerate(order)}
        # Who still has to read each buffer that is written here and not looked at later.
        self.readers = {
            buffer: set(ordering.readers.get(buffer, ()))
            for task in self.tasks.values()
            for buffer in task.written_buffers
            if ordering.is_temporary(buffer)
        }

    def rank(self, number: int) -> tuple[bool, int, int]:
        """Of those that take no memory the ones that begin least go first, as their inputs end."""
        begun, ended = self._begun(number), self._ended(number)
        is_free = begun <= ended
        return not is_free, begun if is_free else 0, self.place[number]

    def fallen(self, number: int) -> list[int]:
        """After `number`: those that alone still read one of its buffers, and end its use."""
        found: list[int] = []
        for buffer in self.tasks[number].buffers:
            others = self.readers.get(buffer, set())
            others.discard(number)
            if len(others) == 1:
                found += others
        return found

    def _begun(self, number: int) -> int:
        """The bytes that a task takes.

        What is assigned to has its memory already, and what is written beside it, such as the
        gradient of a weight, is a result that has its size.
        """
        task = self.tasks[number]
        return 0 if task.assigns else sum(map(nbytes_of, task.written_buffers))

    def _ended(self, number: int) -> int:
        """The bytes that only this task still reads."""
        buffers = set(self.tasks[number].buffers)
        return sum(nbytes_of(buffer) for buffer in buffers if self.readers.get(buffer) == {number})


def _cycle_message(stuck: Sequence[PendingItem]) -> str:
    assigns = [assign for task in stuck for assign in task.assigns]
    shapes = ", ".join(
        f"{assign.dtype.name}{describe_shape(shape_of(assign))}" for assign in assigns
    )
    return (
        f"assign: the assigned tensors ({shapes}) read each other's old contents, so none can be "
        "written first: call contiguous() on the value of one of them before assigning it"
    )
