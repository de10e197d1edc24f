"""Reduce a failing program: fewer steps, and inputs instead of results.

A candidate is smaller, has exact values according to the oracle, and fails by the same fault.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

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
Change = Callable[[Steps], Iterator[Steps]]


def measure(program: TensorProgram) -> tuple[int, int]:
    """Return the size of a program: steps, and letters."""
    return program.size, len(json.dumps(program_to_json(program)["steps"]))


def reduce_program(
    program: TensorProgram,
    verdict: KernelVerdict,
    judge: JudgeFunction,
    seconds: float = 10.0,
    begin: Callable[[], Environment] = Environment,
) -> tuple[TensorProgram, KernelVerdict]:
    """Return the smallest program that fails as `verdict` says, and its verdict.

    The search ends after `seconds`. `begin` returns the oracle that evaluates the steps.
    """
    changes: tuple[Change, ...] = (*_FEWER, partial(_inputs_for_results, begin), _other_operands)
    deadline = time.monotonic() + seconds
    tried = {program.content_hash}
    is_smaller = True
    while is_smaller:
        before = measure(program)
        for change in changes:
            candidates = change(program.steps)
            while (steps := next(candidates, None)) is not None:
                if time.monotonic() >= deadline:
                    return program, verdict
                candidate = program.with_steps(steps)
                if candidate.content_hash in tried or measure(candidate) >= measure(program):
                    continue
                tried.add(candidate.content_hash)
                own_verdict = judge(candidate)
                if is_same_fault(verdict, own_verdict):
                    program, verdict = candidate, own_verdict
                    candidates = change(steps)
        is_smaller = measure(program) < before
    return program, verdict


# --- fewer steps ---------------------------------------------------------------------------------


def _without(steps: Steps, dropped: set[int]) -> Steps:
    """Return the steps without those at `dropped`, and without the steps that need them."""
    gone: set[int] = set()
    remaining = []
    for index, step in enumerate(steps):
        is_gone = index in dropped
        if step.op == "realize":
            step = replace(step, args=tuple(number for number in step.args if number not in gone))
            is_gone |= not step.args
        if is_gone or numbers_read(step) & gone:
            gone.update(step.targets)
        else:
            remaining.append(step)
    return tuple(remaining)


def _fewer_steps(steps: Steps) -> Iterator[Steps]:
    """Remove half of the steps, a quarter, and so on; the last ones first."""
    length = len(steps)
    size = length // 2
    while size:
        for start in range(length - size, -1, -size):
            yield _without(steps, set(range(start, start + size)))
        size //= 2


def _fewer_in_functions(steps: Steps) -> Iterator[Steps]:
    """Remove a step of a function; a result that is lost is replaced by another one."""
    for index, step in enumerate(steps):
        for inner in range(len(step.body) - 1, -1, -1):
            body = _without(step.body, {inner})
            missing = _made_by(step.body) - _made_by(body)
            others = [number for number in step.values[0] if number not in missing]
            if others:
                results = tuple(
                    others[0] if number in missing else number for number in step.values[0]
                )
                changed = replace(step, body=body, values=(results,))
                yield (*steps[:index], changed, *steps[index + 1 :])


def _made_by(steps: Steps) -> set[int]:
    return {number for step in steps for number in step.targets}


def _inlined(steps: Steps) -> Iterator[Steps]:
    """Replace a function by its steps, at the place of each call."""
    for index, function in enumerate(steps):
        if function.op != "function":
            continue
        inlined: list[ProgramStep] = []
        inner_steps = [inner for step in steps for inner in step.all_steps()]
        fresh = 1 + max(number for step in inner_steps for number in (*step.targets, *step.args, 0))
        for at, step in enumerate(steps):
            if at == index:
                continue
            if step.op != "call" or step.args[0] != function.target:
                inlined.append(step)
                continue
            names = dict(zip(function.args, step.args[1:], strict=True))
            results = dict(zip(function.values[0], step.targets, strict=True))
            for inner in function.body:
                for number in inner.targets:
                    names[number] = results.get(number, fresh)
                    fresh += 1
                args = tuple(names.get(number, number) for number in inner.args)
                targets = tuple(names[number] for number in inner.targets)
                inlined.append(replace(inner, args=args, targets=targets))
        yield tuple(inlined)


# --- inputs instead of results -------------------------------------------------------------------


def _inputs_for_results(begin: Callable[[], Environment], steps: Steps) -> Iterator[Steps]:
    """Replace a result by data, so that the steps that computed it may go."""
    environment = begin()
    inputs: dict[int, ProgramStep] = {}
    for index, step in enumerate(steps):
        environment.run(step)
        array = environment.arrays.get(step.target) if len(step.targets) == 1 else None
        if array is not None and step.op != "data":
            elements = tuple(array.elements.reshape(-1).tolist())
            values = (array.dtype, array.shape, elements, array.device, array.requires_grad)
            inputs[index] = ProgramStep("data", (), step.targets, values)
    for index, data in reversed(inputs.items()):
        yield _used((*steps[:index], data, *steps[index + 1 :]))


def _used(steps: Steps) -> Steps:
    """Remove the steps whose results no other step uses."""
    needed: set[int] = set()
    unused = set()
    for index, step in reversed(list(enumerate(steps))):
        if step.targets and needed.isdisjoint(step.targets):
            unused.add(index)
        elif step.op not in ("realize", "drop"):
            needed |= numbers_read(step)
    return _without(steps, unused)


def _shorter_ranges(steps: Steps) -> Iterator[Steps]:
    """Shorten ranges: no size of their shapes exceeds a number."""
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
    """Replace an operand of a step by what that operand was computed from."""
    sources = {number: step.args[:1] for step in steps for number in step.targets if step.args}
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        for number in step.args if step.op != "function" else ():
            for other in sources.get(number, ()):
                changed = replace(step, args=tuple(other if n == number else n for n in step.args))
                rest = (*steps[:index], changed, *steps[index + 1 :])
                lost = {at for at, other_step in enumerate(rest) if number in other_step.targets}
                yield _without(rest, lost)


_FEWER: tuple[Change, ...] = (
    _fewer_steps,
    _inlined,
    _fewer_in_functions,
    _shorter_ranges,
)
