"""Makes a failing program small: fewer steps, inputs in the place of results.

A candidate is a program that is smaller, that the oracle still defines, and that fails by
the same fault.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.steps import (
    ProgramStep,
    TensorProgram,
    Value,
    numbers_read,
    program_to_json,
)
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_spec.kernel_case import KernelVerdict

JudgeFunction = Callable[[TensorProgram], KernelVerdict]
Steps = tuple[ProgramStep, ...]


def measure(program: TensorProgram) -> tuple[int, int]:
    """How large a program is: steps, letters."""
    return program.size, len(json.dumps(program_to_json(program)["steps"]))


def reduce_program(
    program: TensorProgram, verdict: KernelVerdict, judge: JudgeFunction, seconds: float = 10.0
) -> tuple[TensorProgram, KernelVerdict]:
    """The smallest program found in so many seconds that fails as `verdict` says, and its own."""
    deadline = time.monotonic() + seconds
    seen = {program.content_hash}
    is_smaller = True
    while is_smaller:
        before = measure(program)
        for change in _CHANGES:
            candidates = change(program.steps)
            while (steps := next(candidates, None)) is not None:
                if time.monotonic() >= deadline:
                    return program, verdict
                candidate = program.with_steps(steps)
                if candidate.content_hash in seen or measure(candidate) >= measure(program):
                    continue
                seen.add(candidate.content_hash)
                found = judge(candidate)
                if is_same_fault(verdict, found):
                    program, verdict = candidate, found
                    candidates = change(steps)
        is_smaller = measure(program) < before
    return program, verdict


# --- fewer steps ---------------------------------------------------------------------------------


def _without(steps: Steps, dropped: set[int]) -> Steps:
    """The steps but for some, by place, and for those that need what these make."""
    gone: set[int] = set()
    kept = []
    for place, step in enumerate(steps):
        is_gone = place in dropped
        if step.op == "realize":
            step = replace(step, args=tuple(number for number in step.args if number not in gone))
            is_gone |= not step.args
        if is_gone or numbers_read(step) & gone:
            gone.update(step.targets)
        else:
            kept.append(step)
    return tuple(kept)


def _fewer_steps(steps: Steps) -> Iterator[Steps]:
    """Without half of them, a quarter, and so on; the last ones first."""
    length = len(steps)
    size = length // 2
    while size:
        for start in range(length - size, -1, -size):
            yield _without(steps, set(range(start, start + size)))
        size //= 2


def _fewer_in_functions(steps: Steps) -> Iterator[Steps]:
    """Without a step of a function; for a result that is lost it gives another one twice."""
    for place, step in enumerate(steps):
        for inner in range(len(step.body) - 1, -1, -1):
            body = _without(step.body, {inner})
            lost = _made_by(step.body) - _made_by(body)
            left = [number for number in step.values[0] if number not in lost]
            if left:
                results = tuple(left[0] if number in lost else number for number in step.values[0])
                changed = replace(step, body=body, values=(results,))
                yield (*steps[:place], changed, *steps[place + 1 :])


def _made_by(steps: Steps) -> set[int]:
    return {number for step in steps for number in step.targets}


def _inlined(steps: Steps) -> Iterator[Steps]:
    """A function that is not captured: its steps in the place of each call."""
    for place, function in enumerate(steps):
        if function.op != "function":
            continue
        found: list[ProgramStep] = []
        inner_steps = [each for step in steps for each in step.all_steps()]
        fresh = 1 + max(number for each in inner_steps for number in (*each.targets, *each.args, 0))
        for at, step in enumerate(steps):
            if at == place:
                continue
            if step.op != "call" or step.args[0] != function.target:
                found.append(step)
                continue
            names = dict(zip(function.args, step.args[1:], strict=True))
            results = dict(zip(function.values[0], step.targets, strict=True))
            for each in function.body:
                for number in each.targets:
                    names[number] = results.get(number, fresh)
                    fresh += 1
                args = tuple(names.get(number, number) for number in each.args)
                targets = tuple(names[number] for number in each.targets)
                found.append(replace(each, args=args, targets=targets))
        yield tuple(found)


# --- inputs in the place of results --------------------------------------------------------------


def _inputs_for_results(steps: Steps) -> Iterator[Steps]:
    """A result given as data, so that what it was computed from may go."""
    environment = Environment()
    made: dict[int, ProgramStep] = {}
    for place, step in enumerate(steps):
        environment.run(step)
        array = environment.arrays.get(step.target) if len(step.targets) == 1 else None
        if array is not None and step.op != "data":
            elements = tuple(array.elements.reshape(-1).tolist())
            values = (array.dtype, array.shape, elements, array.place, array.requires_grad)
            made[place] = ProgramStep("data", (), step.targets, values)
    for place, data in reversed(made.items()):
        yield _used((*steps[:place], data, *steps[place + 1 :]))


def _used(steps: Steps) -> Steps:
    """The steps without those that only make what no other one computes with."""
    needed: set[int] = set()
    unused = set()
    for place, step in reversed(list(enumerate(steps))):
        if step.targets and needed.isdisjoint(step.targets):
            unused.add(place)
        elif step.op not in ("realize", "drop"):
            needed |= numbers_read(step)
    return _without(steps, unused)


def _shorter_ranges(steps: Steps) -> Iterator[Steps]:
    """Ranges of fewer elements, in shapes of no size above a number."""
    for shape in [step.values[0] for step in steps if step.op == "reshape"]:
        for most in (2, 3, 4, 8, 16, 64):
            small = tuple(min(size, most) for size in shape)
            sizes = {**dict(zip(shape, small, strict=True)), math.prod(shape): math.prod(small)}
            yield tuple(replace(step, values=_resized(step.values, sizes)) for step in steps)


def _resized(value: Value, sizes: Mapping[int, int]) -> Value:
    if isinstance(value, tuple):
        return tuple(_resized(item, sizes) for item in value)
    return sizes.get(value, value)


def _other_operands(steps: Steps) -> Iterator[Steps]:
    """A step that reads what one of its operands was made of."""
    made_of = {number: step.args[:1] for step in steps for number in step.targets if step.args}
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        for number in step.args if step.op != "function" else ():
            for other in made_of.get(number, ()):
                changed = replace(step, args=tuple(other if n == number else n for n in step.args))
                rest = (*steps[:place], changed, *steps[place + 1 :])
                lost = {at for at, each in enumerate(rest) if number in each.targets}
                yield _without(rest, lost)


_CHANGES: tuple[Callable[[Steps], Iterator[Steps]], ...] = (
    _fewer_steps,
    _inlined,
    _fewer_in_functions,
    _shorter_ranges,
    _inputs_for_results,
    _other_operands,
)
