"""Launches that nobody waits for, while what they use is overwritten and freed.

A device may launch as late as it likes, as long as nobody can tell. So a launch of another kernel
of the same case, a copy, or memory that is freed and given out again comes right behind a launch,
which must give what it gave when it was waited for. What comes later must find it done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tinyref.device import Buffer
from tinyref.dtype import from_numpy_dtype
from tinyref.runtimes.kernel import Kernel
from tinyref_fuzz.judge.guard import Guarded, Outputs
from tinyref_fuzz.judge.runs import TroubleError, checked_results, errors_from
from tinyref_spec.kernel_case import Array, Symptom

Results = Mapping[int, Array]


@dataclass(frozen=True)
class Measured:
    """A kernel, and what it gives of a case's data and, where that may be, of reversed inputs."""

    kernel: Kernel
    results: Results
    of_reversed: Results | None


class MakeMemory(Protocol):
    """New memory with the data of the case; `outputs` instead of those that its kernel writes."""

    def __call__(self, *, reverses: bool = False, outputs: Outputs | None = None) -> Guarded: ...


@dataclass(frozen=True)
class Seen:
    """What an act found: the results, those that are due, and after which slot each is judged."""

    actual: Results
    wanted: Results
    judged_as: Mapping[int, int]


class Unwaited:
    """The acts on one kernel; `other` is a kernel of the same case that comes between.

    Each gives None where the kernel has no buffers for it. Raises `TroubleError` where something
    changed that had to stay.
    """

    def __init__(
        self, one: Measured, other: Measured, make: MakeMemory, bindings: Mapping[str, int]
    ) -> None:
        self.one = one
        self.other = other
        self.make = make
        self.bindings = bindings

    def acts(self, number: int | None = None) -> Iterator[tuple[str, Seen]]:
        """The act of some number, or all, and what each found."""
        chosen = list(ACTS.items())
        if number is not None:
            chosen = [chosen[number % len(chosen)]]
        for how, act in chosen:
            found = act(self)
            if found is not None:
                yield how, found

    def overwrite(self) -> Seen | None:
        """A copy comes over each input of a launch."""
        memory = self.make()
        buffers, others = self._on_device(memory), self._on_device(self.make())
        self._launch(self.other, others)
        self._launch(self.one, buffers)
        for slot in _inputs(memory):
            content = memory.contents[slot][::-1].copy()
            buffers[slot].copy_in(content.view(np.uint8).data)
            memory.expect(slot, content)
            # The host may use its own memory again.
            content.view(np.uint8)[:] = memory.pattern
        return self._seen(memory, self.one.results)

    def launch_over_input(self) -> Seen | None:
        """A launch of the other kernel writes over an input."""
        plain = self.make()
        pair = _alike(plain)
        if pair is None:
            return None
        written, read = pair
        extended = replace(plain.outputs, masks={**plain.outputs.masks, read: None})
        memory = self.make(outputs=extended)
        # A copy may wait for launches: all are made before the first.
        buffers, others = self._on_device(memory), self._on_device(plain)
        self._launch(self.one, buffers)
        self._launch(self.other, others, {written: buffers[read]})
        due = {**self.one.results, read: self.other.results[written]}
        return self._seen(memory, due, {read: written})

    def launch_over_output(self) -> Seen | None:
        """A launch of the other kernel, with reversed inputs, writes over the output."""
        memory = self.make()
        written = next(iter(_whole_outputs(memory)), None)
        if written is None or self.other.of_reversed is None:
            return None
        buffers, others = self._on_device(memory), self._on_device(self.make(reverses=True))
        self._launch(self.one, buffers)
        self._launch(self.other, others, {written: buffers[written]})
        due = {**self.one.results, written: self.other.of_reversed[written]}
        return self._seen(memory, due)

    def free(self) -> Seen | None:
        """An input of a launch is freed, and its memory given out again."""
        memory = self.make()
        slot = next(iter(_inputs(memory)), None)
        if slot is None:
            return None
        content = memory.contents[slot]
        buffers, others = self._on_device(memory), self._on_device(self.make())
        instead = {slot: self._holding(content)}
        self._launch(self.one, buffers, instead)
        self._launch(self.other, others)
        instead.clear()
        # Pieces of that size, of which one may be the one that was freed.
        pieces = [self._holding(content[::-1].copy()) for _ in range(2)]
        found = self._seen(memory, self.one.results)
        del pieces
        return found

    def _on_device(self, memory: Guarded) -> list[Buffer]:
        with errors_from(lambda: "copies for a launch without a wait"):
            return memory.on_device(self.one.kernel.device)
        raise AssertionError("unreachable")

    def _launch(
        self,
        measured: Measured,
        buffers: list[Buffer],
        instead: Mapping[int, Buffer] | None = None,
    ) -> None:
        """A launch on buffers by slot; `instead` has others for some of them."""
        with errors_from(lambda: "launch without a wait"):
            taken = {**dict(enumerate(buffers)), **(instead or {})}
            program = measured.kernel.program
            measured.kernel(
                [taken[parameter.slot] for parameter in program.parameters], self.bindings
            )

    def _holding(self, content: Array) -> Buffer:
        buffer = Buffer(self.one.kernel.device, content.size, from_numpy_dtype(content.dtype))
        return buffer.copy_in(np.ascontiguousarray(content).view(np.uint8).data)

    def _seen(
        self, memory: Guarded, wanted: Results, judged_as: Mapping[int, int] | None = None
    ) -> Seen:
        with errors_from(lambda: "launch without a wait"):
            memory.fetch()
        try:
            return Seen(checked_results(memory), wanted, judged_as or {})
        except TroubleError as trouble:
            raise TroubleError(Symptom.UNSTABLE, trouble.detail) from trouble


# In words, what comes behind a launch.
ACTS: Mapping[str, Callable[[Unwaited], Seen | None]] = {
    "with its inputs overwritten by copies": Unwaited.overwrite,
    "with an input overwritten by another launch": Unwaited.launch_over_input,
    "with an output overwritten by another launch": Unwaited.launch_over_output,
    "with an input freed": Unwaited.free,
}


def _inputs(memory: Guarded) -> list[int]:
    """The slots that are only read, and not empty."""
    contents = enumerate(memory.contents)
    return [slot for slot, data in contents if slot not in memory.outputs.masks and data.size]


def _whole_outputs(memory: Guarded) -> list[int]:
    """The slots that are written whole and never read."""
    outputs = memory.outputs
    return [slot for slot in sorted(outputs.poisoned) if outputs.masks[slot] is None]


def _alike(memory: Guarded) -> tuple[int, int] | None:
    """A slot that is written whole and never read, and an input of its type and size."""
    contents = memory.contents
    for written in _whole_outputs(memory):
        for read in _inputs(memory):
            same = contents[read].size == contents[written].size
            if same and contents[read].dtype == contents[written].dtype:
                return written, read
    return None
