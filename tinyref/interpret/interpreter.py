"""Launch of a program: memories, variables, and the grid in chunks that fit in memory."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from tinyref.algebra.evaluate import launch_grid, value_of
from tinyref.dtype import from_numpy_dtype, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret.lanes import (
    Extents,
    Hooks,
    LaneMachine,
    LaneMemory,
    OrderMattersError,
    SanitizerError,
)
from tinyref.interpret.loops import MACHINE
from tinyref.interpret.shadow import Shadow
from tinyref.interpret.translate import Override, Translation
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SpecialArg
from tinyref.uops.program import WORD, Program, elements_in, offset_name, slots_in_words

# Work-items that run together: enough to hide Python's overhead, few enough for the cache.
CHUNK = 1 << 15
# The approximate number of parts of a launch that runs backward.
PARTS = 4

_translations: WeakKeyDictionary[Program, Translation] = WeakKeyDictionary()


class Interpreter:
    """A program that is translated once and can run many times.

    overrides: functions that replace the semantics of an op. Their arguments are the result type,
    the operands and the operands' types. hooks: see `Hooks`. Both simulate broken devices.
    """

    def __init__(
        self,
        program: Program,
        overrides: Mapping[Ops, Override] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self.program = program
        self.hooks = hooks or Hooks()
        self.translation = _translate(program, overrides)
        self._in_words = slots_in_words(program)
        # Buffers begin at a word, unless the bindings of a launch have another offset.
        self._offsets = {offset_name(slot): 0 for slot in self._in_words}

    def run(
        self,
        buffers: Sequence[npt.NDArray[Any]],
        bindings: Mapping[str, int] | None = None,
        grid: Extents | None = None,
        group: Extents | None = None,
        sanitize: bool = True,
        backward: bool = False,
    ) -> None:
        """Run the program on `buffers`: flat arrays by slot, changed in place.

        grid and group default to the program's own. `backward` runs groups and work-items from the
        last to the first, and few groups together; the result is the same. Raises `SanitizerError`
        for undefined behaviour, `UserError` for wrong buffers or bindings.
        """
        bindings = {**self._offsets, **(bindings or {})}
        grid = launch_grid(self.program, bindings) if grid is None else grid
        group = self.program.group if group is None else group
        if self.hooks.grid is not None:
            grid = self.hooks.grid(grid)
        if 0 in grid or 0 in group:
            return
        by_slot, copies = self._words_of(buffers)
        self._run(self._arrays(by_slot), bindings, grid, group, sanitize, backward)
        for slot, words in copies.items():
            whole = buffers[slot].view(np.uint8)
            whole[:] = words.view(np.uint8)[: whole.size]

    def _words_of(
        self, buffers: Sequence[npt.NDArray[Any]]
    ) -> tuple[list[npt.NDArray[Any]], dict[int, npt.NDArray[np.uint32]]]:
        """Return the buffers as words, and padded copies of buffers that end inside a word."""
        by_slot, copies = list(buffers), {}
        for plan in self.translation.memories:
            if plan.slot not in self._in_words or plan.slot >= len(buffers):
                continue
            raw = np.ascontiguousarray(buffers[plan.slot]).view(np.uint8)
            needed = plan.size * WORD.itemsize
            if raw.size < needed:
                copies[plan.slot] = np.zeros(plan.size, np.uint32)
                copies[plan.slot].view(np.uint8)[: raw.size] = raw
                by_slot[plan.slot] = copies[plan.slot]
            else:
                by_slot[plan.slot] = raw[: raw.size - raw.size % WORD.itemsize].view(np.uint32)
        return by_slot, copies

    def _run(
        self,
        arrays: dict[int, npt.NDArray[Any]],
        bindings: Mapping[str, int],
        grid: Extents,
        group: Extents,
        sanitize: bool,
        backward: bool,
    ) -> None:
        start = functools.partial(
            LaneMachine,
            grid,
            group,
            sanitize,
            self.hooks,
            backward,
            self.translation.has_tiles,
        )
        machine = start()
        machine.may_widen = machine.may_widen and self._may_widen(machine)
        if not machine.may_widen:
            self._launch(machine, arrays, bindings)
            return
        written = [number for number in arrays if self.translation.memories[number].is_written]
        before = {number: arrays[number].copy() for number in written}
        try:
            self._launch(machine, arrays, bindings)
        except (OrderMattersError, SanitizerError) as reason:
            # Running iterations together may cause a fault, so a run one by one decides.
            for number, array in before.items():
                arrays[number][:] = array
            if isinstance(reason, OrderMattersError):
                self.translation.may_widen = False
        else:
            return
        machine = start()
        machine.may_widen = False
        self._launch(machine, arrays, bindings)

    def _may_widen(self, machine: LaneMachine) -> bool:
        # A barrier would order the iterations of one thread, but not of another one.
        orders_all = machine.is_alone or not self.translation.has_barriers
        return self.translation.may_widen and orders_all

    def _launch(
        self,
        machine: LaneMachine,
        arrays: Mapping[int, npt.NDArray[Any]],
        bindings: Mapping[str, int],
    ) -> None:
        globals_ = {number: self._global(machine, number, arrays[number]) for number in arrays}
        values = list(self.translation.initial)
        values[MACHINE] = machine
        for register, node in self.translation.variables:
            values[register] = np.full((), value_of(node, bindings), numpy_dtype(node.dtype))
        with np.errstate(all="ignore"):
            for start, extent in _boxes(machine):
                machine.enter(start, extent)
                self._run_chunk(machine, list(values), globals_)

    def _run_chunk(
        self, machine: LaneMachine, values: list[Any], globals_: Mapping[int, LaneMemory]
    ) -> None:
        translation = self.translation
        machine.memories = [
            globals_[number] if number in globals_ else self._local(machine, number)
            for number in range(len(translation.memories))
        ]
        for register, node in translation.specials:
            if not isinstance(node.arg, SpecialArg):
                raise UserError("interpreter: a SPECIAL without scope and dimension")
            launch_index = machine.specials[node.arg.scope, node.arg.dim]
            if self.hooks.special is not None:
                launch_index = self.hooks.special(node.arg.scope, node.arg.dim, launch_index)
            values[register] = launch_index.astype(numpy_dtype(node.dtype))
        for step in translation.steps:
            step(values)

    def _arrays(self, buffers: Sequence[npt.NDArray[Any]]) -> dict[int, npt.NDArray[Any]]:
        """Return the array of each global memory, by the memory's number."""
        arrays = {}
        for number, plan in enumerate(self.translation.memories):
            if plan.is_local:
                continue
            if plan.slot >= len(buffers):
                raise UserError(f"buffers: slot {plan.slot} is missing, got {len(buffers)} buffers")
            array = buffers[plan.slot]
            expected = numpy_dtype(plan.dtype)
            if array.dtype != expected and elements_in(from_numpy_dtype(array.dtype), plan.dtype):
                # The program stores this type as integers.
                array = array.view(expected)
            if array.ndim != 1 or array.dtype != expected or array.size < plan.size:
                raise UserError(
                    f"buffers: slot {plan.slot} is {array.dtype}{list(array.shape)}, "
                    f"accepted is one axis of at least {plan.size} {expected}"
                )
            arrays[number] = array
        return arrays

    def _global(self, machine: LaneMachine, number: int, array: npt.NDArray[Any]) -> LaneMemory:
        plan = self.translation.memories[number]
        memory = LaneMemory(plan.name, array, plan.size, is_local=False, texels=plan.texels)
        checks_races = machine.sanitize and not machine.is_alone
        # Stores with a bit mask are atomic, so they never race.
        if plan.is_written and not plan.is_atomic and (machine.may_widen or checks_races):
            memory.shadow = self._shadow(machine, plan.size)
        return memory

    def _local(self, machine: LaneMachine, number: int) -> LaneMemory:
        plan = self.translation.memories[number]
        size = plan.size * machine.local_groups
        # A device would return what was there before; zeros make runs without sanitizer repeatable.
        memory = LaneMemory(plan.name, np.zeros(size, numpy_dtype(plan.dtype)), plan.size, True)
        if machine.may_widen:
            return memory.private(machine)
        if machine.sanitize:
            memory.is_set = np.zeros(size, np.bool_)
        if machine.sanitize and machine.group_size > 1 and not plan.is_atomic:
            memory.shadow = self._shadow(machine, size)
        return memory

    def _shadow(self, machine: LaneMachine, size: int) -> Shadow:
        if machine.may_widen:
            return Shadow.of_iterations(size)
        return Shadow(size, machine.group_size, self.translation.has_barriers)


def _translate(program: Program, overrides: Mapping[Ops, Override] | None) -> Translation:
    if overrides:
        return Translation(program.uops, overrides)
    translation = _translations.get(program)
    if translation is None:
        translation = Translation(program.uops)
        _translations[program] = translation
    return translation


def forget_translations() -> None:
    """Drop all translations, and what launches found out about them: if they may be widened."""
    _translations.clear()


def _boxes(machine: LaneMachine) -> Iterable[tuple[Extents, Extents]]:
    """Return the boxes of groups that run one after the other."""
    if not machine.backward["group"]:
        return _chunks(machine.grid, machine.group, CHUNK)
    items = math.prod(machine.grid) * machine.group_size
    return reversed(list(_chunks(machine.grid, machine.group, min(CHUNK, -(-items // PARTS)))))


def _chunks(grid: Extents, group: Extents, chunk: int) -> Iterator[tuple[Extents, Extents]]:
    """Yield boxes of groups (first group, extents) of about `chunk` work-items."""
    room = max(1, chunk // (group[0] * group[1] * group[2]))
    step = []
    for extent in grid:
        step.append(min(extent, room))
        room //= step[-1]
    starts = [range(0, extent, size) for extent, size in zip(grid, step, strict=True)]
    for z, y, x in itertools.product(starts[2], starts[1], starts[0]):
        yield (
            (x, y, z),
            (min(step[0], grid[0] - x), min(step[1], grid[1] - y), min(step[2], grid[2] - z)),
        )


def run_program(
    program: Program,
    buffers: Sequence[npt.NDArray[Any]],
    bindings: Mapping[str, int] | None = None,
    grid: Extents | None = None,
    group: Extents | None = None,
    sanitize: bool = True,
    overrides: Mapping[Ops, Override] | None = None,
    hooks: Hooks | None = None,
) -> None:
    """Run `program` on `buffers`, flat arrays by slot, changed in place; see `Interpreter`."""
    Interpreter(program, overrides, hooks).run(buffers, bindings, grid, group, sanitize)
