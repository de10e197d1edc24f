"""Put items in an order that respects every dependency, and join kernels.

An ASSIGN gives its buffer a new version. Readers of an older version run before the ASSIGN, unless
the ASSIGN is among their own sources and so has run before.
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

# --- versions of the contents of an assigned buffer -----------------------------------------------


class CycleError(UserError):
    """The error for graphs without an order: assigned memory is read before and after."""


def parts_to_read_first(roots: Sequence[UOp]) -> list[UOp]:
    """Return the largest parts of `roots` that read memory before an ASSIGN and meet later readers.

    If they are computed first, by themselves, no kernel depends on them. Parts that only show such
    memory, and parts of assigned values, are left out.
    """
    versions = Versions(roots)
    # The newest version of each buffer that each node reads; the old contents are version 0.
    read: dict[UOp, dict[UOp, int]] = {}
    early: dict[UOp, None] = {}
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
        early.update(
            (part, None)
            for part in parts
            if not any(read[part].values()) or any(n < newest[b] for b, n in read[part].items())
        )
    return list(early)


def _shows_memory(node: UOp) -> bool:
    return node.op is Ops.BUFFER or shown_buffer(node) is not None


class Versions:
    """The ASSIGNs below `roots`, by the BUFFER that they write, sources first."""

    def __init__(self, roots: Iterable[UOp]) -> None:
        self.assigns: dict[UOp, list[UOp]] = {}
        self._numbers: dict[UOp, int] = {}
        for node in toposort(roots):
            if node.op is Ops.ASSIGN:
                assigns = self.assigns.setdefault(assigned_buffer(node), [])
                self._numbers[node] = len(assigns)
                assigns.append(node)

    def __contains__(self, assign: UOp) -> bool:
        return assign in self._numbers

    def number(self, assign: UOp) -> int:
        """Return the number of ASSIGNs that wrote the buffer before this one."""
        return self._numbers[assign]

    def next(self, buffer: UOp, version: UOp | None) -> UOp | None:
        """Return the first ASSIGN that replaces `version` of `buffer`; None if there is none.

        Assigns to one buffer run in the order of the graph, so any others follow that one.
        """
        assigns = self.assigns.get(buffer, [])
        number = 0 if version is None else self._numbers[version] + 1
        return assigns[number] if number < len(assigns) else None

    def remove(self, assign: UOp) -> None:
        """Remove an ASSIGN that need not run: the next one overwrites it before it is read."""
        assigns = self.assigns[assigned_buffer(assign)]
        assigns.remove(assign)
        del self._numbers[assign]
        self._numbers.update((later, number) for number, later in enumerate(assigns))

    def outlives(self, node: UOp) -> bool:
        """Return True if the memory of `node`, a plain view, will be overwritten."""
        base = peel(node)
        if base.op is Ops.ASSIGN:
            return self.next(assigned_buffer(base), base) is not None
        buffer = backing(node)
        return buffer is not None and self.next(buffer, None) is not None

    def reading_old(self, roots: Iterable[UOp]) -> set[UOp]:
        """Return the nodes of graphs, also of other tensors, that need overwritten contents."""
        old: set[UOp] = set()
        for node in toposort(roots, self._looked_at):
            if self._is_old(node) or not old.isdisjoint(self._looked_at(node)):
                old.add(node)
        return old

    def _looked_at(self, node: UOp) -> tuple[UOp, ...]:
        # The sources of an ASSIGN that runs here exist when it runs.
        return () if node in self else node.src

    def _is_old(self, node: UOp) -> bool:
        if node in self:
            return self.next(assigned_buffer(node), node) is not None
        return node.op is Ops.BUFFER and node in self.assigns


def needing_old_contents(
    roots: Sequence[UOp], live: Mapping[UOp, UOp]
) -> tuple[list[UOp], Versions]:
    """Return the keys of `live` to compute together with `roots`, and the versions of all.

    `live` maps each graph of an owner to the prepared graph. Computing one may run more ASSIGNs, so
    this repeats until nothing is added.
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

# Kernels that only share sources are joined up to this number of outputs: each output is a
# separate stream of stores.
MAX_OUTPUTS = 8
# The launch dominates the cost of a kernel with at most this number of elements.
FEW_ELEMENTS = 32


@dataclass(frozen=True)
class PendingItem:
    """An item before it is ordered.

    draft: the kernel, None for a copy.
    buffers: BUFFER nodes, the written ones first.
    assigns: the ASSIGNs that the task runs.
    reads: before kernels are joined, the locations that must have their version when the task runs.
    after: before kernels are joined, the ASSIGNs that must have run.
    """

    device: str
    draft: KernelDraft | None
    buffers: tuple[UOp, ...]
    reads: tuple[Location, ...]
    after: tuple[UOp, ...] = ()
    assigns: tuple[UOp, ...] = ()

    @property
    def written_buffers(self) -> tuple[UOp, ...]:
        """Return the BUFFER nodes that the task writes."""
        return self.buffers[:1] if self.draft is None else self.draft.written_buffers

    def item(self, owners: Mapping[UOp, Sequence[UOp]]) -> Item:
        """Return the item of a schedule; `owners` are the owners of each BUFFER or ASSIGN."""
        stored = self.assigns + self.written_buffers
        completes = tuple(owner for node in stored for owner in owners.get(node, ()))
        if self.draft is None:
            return CopyItem(self.buffers[0], self.buffers[1], completes)
        ast = merge_axes(self.draft.root)
        about = (self.draft.names, self.draft.lines)
        return KernelItem(ast, self.buffers, self.device, completes, *about)


def copy_task(target: UOp, source: Location) -> PendingItem:
    """Return a copy of the whole buffer at `source`."""
    return PendingItem("", None, (target, source.buffer), (source,))


def reads_of(draft: KernelDraft) -> tuple[Location, ...]:
    """Return the locations that a kernel reads."""
    return tuple(read.location for read in draft.reads)


class Ordering:
    """The dependencies between tasks, by their numbers.

    `owners` are the nodes whose result is in a fresh BUFFER or was written by an ASSIGN. These
    buffers are read later, so they are stored even if joins remove all reads in the schedule.
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
        """Return all items in order. Raises `UserError` for a cycle of assigns."""
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
                # The first one is enough: later ones wait for it.
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
        """Return numbers in an order in which nothing waits, the smallest ready one first."""
        return self._sorted(lambda number: number)

    def _by_memory(self) -> list[int]:
        """Return a topological order in which tasks that take no memory do not wait."""
        policy = _LeastMemory(self, self._topological())
        return self._sorted(policy.rank, policy.fallen)

    def _sorted(
        self,
        rank: Callable[[int], Any],
        fallen: Callable[[int], Iterable[int]] = lambda number: (),
    ) -> list[int]:
        """Return numbers in an order in which nothing waits, the lowest ready rank first.

        fallen: returns numbers whose rank changes after a number. Raises `UserError` for a cycle.
        """
        left = {number: len(needed) for number, needed in self.waits.items()}
        ready = [(rank(number), number) for number, count in left.items() if count == 0]
        heapq.heapify(ready)
        order: dict[int, None] = {}
        while ready:
            number = heapq.heappop(ready)[1]
            # A number that was added again when its rank fell occurs twice.
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
        """Join kernels that reduce rows with kernels along the rows, if kernels run as loops.

        This comes last, so such a kernel contains nothing that its loops would compute again.
        """
        self._find_levels(order)
        for number in order:
            task = self.tasks.get(number)
            if task is None or not task.device or not Device.runs_loops(task.device):
                continue
            while self._join_one_into(number, join_rows):
                pass

    def _join_one_into(self, number: int, join: Joining = join) -> bool:
        """Join `number` with one task that it reads from; return False if there is none."""
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
        """Join two tasks into the second one; return False if they are no kernels or stay two."""
        one, other = self.tasks[first], self.tasks[second]
        if one.draft is None or other.draft is None:
            return False
        if one.draft.is_alone or other.draft.is_alone:
            return False
        if one.draft.has_product and other.draft.has_product:
            return False
        joined = join(one.draft, other.draft, dropped)
        limit = Device[other.device].capabilities.buffer_limit
        if joined is None or len(joined.buffers) > limit:
            return False
        self._replace(first, second, joined)
        return True

    def _find_levels(self, order: Sequence[int]) -> None:
        """Set the levels: a task has a higher level than all tasks that it waits for."""
        for number in order:
            needed = self.waits[number]
            self.levels[number] = 1 + max((self.levels[other] for other in needed), default=0)

    def _join_side_by_side(self, order: Sequence[int]) -> None:
        """Join kernels of one level: neither waits for the other.

        They have one shape, and read a buffer in the same way, or are too small for a launch each.
        Products of matrices, which read each element many times, are not joined.
        """
        latest: dict[object, int] = {}
        for number in order:
            others = {latest.get(meeting) for meeting in self._keys_of(number)}
            room = MAX_OUTPUTS - len(self.tasks[number].written_buffers)
            for first in sorted(other for other in others if other is not None):
                outputs = len(self.tasks[first].written_buffers)
                if outputs <= room and self._join_pair(first, number, set()):
                    break
            # A joined kernel also has the keys of the first one, and is the latest for them.
            latest.update(dict.fromkeys(self._keys_of(number), number))

    def _keys_of(self, number: int) -> list[object]:
        """Return the keys of a task: tasks with a common key can be joined."""
        task = self.tasks[number]
        if task.draft is None:
            return []
        together = (task.device, task.draft.outer, task.draft.inner, self.levels[number])
        count = product((*task.draft.outer, *task.draft.inner))
        if not isinstance(count, int):
            return []
        # Sharing reads of every element saves memory traffic; sharing one number does not.
        keys: list[object] = [
            (*together, read.location.buffer, read.tracker)
            for read in task.draft.reads
            if isinstance(read.location.buffer.arg, BufferArg)
            and read.location.buffer.arg.size >= count
        ]
        if count <= FEW_ELEMENTS:
            keys.append(together)
        return keys

    def _is_between(self, first: int, second: int) -> bool:
        """Return True if `second` also waits for `first` through another task."""
        level = self.levels[first]
        stack = [number for number in self.waits[second] if number != first]
        seen = set(stack)
        while stack:
            number = stack.pop()
            # Tasks that wait for `first` have a higher level.
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
        """Return True if only the task `reader` reads `buffer`."""
        return self.is_temporary(buffer) and self.readers.get(buffer, set()) <= {reader}

    def is_temporary(self, buffer: UOp) -> bool:
        """Return True if nothing reads `buffer` after all tasks have run."""
        return buffer not in self.owners and buffer not in self.versions.assigns

    def _add_readers(self, number: int) -> None:
        """Note the buffers that task `number` reads and does not write."""
        task = self.tasks[number]
        for buffer in set(task.buffers).difference(task.written_buffers):
            self.readers.setdefault(buffer, set()).add(number)

    def _raise(self, start: int) -> None:
        """Raise the levels of tasks that wait for `start` above its level."""
        stack = [start]
        while stack:
            number = stack.pop()
            for user in self.users[number]:
                if self.levels[user] <= self.levels[number]:
                    self.levels[user] = self.levels[number] + 1
                    stack.append(user)

    def _replace(self, first: int, second: int, joined: KernelDraft) -> None:
        """Replace task `second` by the joined kernel, and remove task `first`."""
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
    """A ranking of ready tasks: tasks that take no memory come first.

    Such a task ends the use of at least the bytes that it begins to use. It runs as soon as it is
    ready, because it makes room for later tasks. So a weight is updated before the next gradient is
    computed.
    """

    def __init__(self, ordering: Ordering, order: Sequence[int]) -> None:
        self.tasks = ordering.tasks
        self.positions = {number: position for position, number in enumerate(order)}
        # The remaining readers of each buffer that is written here and not read later.
        self.readers = {
            buffer: set(ordering.readers.get(buffer, ()))
            for task in self.tasks.values()
            for buffer in task.written_buffers
            if ordering.is_temporary(buffer)
        }

    def rank(self, number: int) -> tuple[bool, int, int]:
        """Return the rank: among tasks that take no memory, the ones that begin least go first."""
        begun, ended = self._begun(number), self._ended(number)
        is_free = begun <= ended
        return not is_free, begun if is_free else 0, self.positions[number]

    def fallen(self, number: int) -> list[int]:
        """Return tasks that become the only reader of a buffer after `number`, and end its use."""
        readers: list[int] = []
        for buffer in self.tasks[number].buffers:
            others = self.readers.get(buffer, set())
            others.discard(number)
            if len(others) == 1:
                readers += others
        return readers

    def _begun(self, number: int) -> int:
        """Return the number of bytes that a task takes.

        An assigned buffer has its memory already. A buffer that the task writes in addition, such
        as the gradient of a weight, is a result of the same size.
        """
        task = self.tasks[number]
        return 0 if task.assigns else sum(map(nbytes_of, task.written_buffers))

    def _ended(self, number: int) -> int:
        """Return the number of bytes that only this task still reads."""
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
