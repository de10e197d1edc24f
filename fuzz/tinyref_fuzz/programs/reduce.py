"""Makes a failing program small: fewer steps, inputs in the place of results, smaller shapes.

A candidate is a program that is smaller, that the oracle still defines, and that fails by
the same fault.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.steps import Program, Step, Value, numbers_read, rename, step_to_json
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_spec.kernel_case import Verdict

JudgeFunction = Callable[[Program], Verdict]
Steps = tuple[Step, ...]
Size = tuple[int, int, int]


def measure(program: Program) -> Size:
    """How large a program is: steps, elements of data, letters."""
    elements = sum(len(step.values[2]) for step in program.all_steps() if step.op == "data")
    text = json.dumps([step_to_json(step) for step in program.steps])
    return program.size, elements, len(text)


def reduce_program(
    program: Program, verdict: Verdict, judge: JudgeFunction, seconds: float = 10.0
) -> tuple[Program, Verdict]:
    """The smallest program found in so many seconds that fails as `verdict` says, and its own."""
    search = _Search(program, verdict, judge, time.monotonic() + seconds)
    search.run()
    return search.program, search.verdict


class _Search:
    def __init__(
        self, program: Program, verdict: Verdict, judge: JudgeFunction, deadline: float
    ) -> None:
        self.program = program
        self.verdict = verdict
        self.judge = judge
        self.deadline = deadline
        self.seen = {program.content_hash}

    def run(self) -> None:
        """Goes through all changes until none helps, or there is no time."""
        is_smaller = True
        while is_smaller and self._has_time():
            before = measure(self.program)
            for candidates in _CHANGES:
                self._all_of(candidates)
            is_smaller = measure(self.program) < before

    def _all_of(self, candidates: Callable[[Steps], Iterator[Steps]]) -> None:
        """Takes what helps of one kind of change, beginning anew after each."""
        helped = True
        while helped and self._has_time():
            helped = False
            for steps in candidates(self.program.steps):
                if not self._has_time():
                    return
                if self._accepts(self.program.with_steps(steps)):
                    helped = True
                    break

    def _has_time(self) -> bool:
        return time.monotonic() < self.deadline

    def _accepts(self, candidate: Program) -> bool:
        key = candidate.content_hash
        if key in self.seen or not measure(candidate) < measure(self.program):
            return False
        self.seen.add(key)
        found = self.judge(candidate)
        if not is_same_fault(self.verdict, found):
            return False
        self.program, self.verdict = candidate, found
        return True


# --- fewer steps ---------------------------------------------------------------------------------


def _without(steps: Steps, dropped: set[int]) -> Steps:
    """The steps but for some, by place, and for those that need what these make."""
    gone: set[int] = set()
    kept = []
    for place, step in enumerate(steps):
        if place in dropped or (numbers_read(step) & gone and not _survives(step, gone)):
            gone.update(step.targets)
            continue
        kept.append(_thinned(step, gone))
    return tuple(kept)


def _survives(step: Step, gone: set[int]) -> bool:
    return step.op == "realize" and not gone.issuperset(step.args)


def _thinned(step: Step, gone: set[int]) -> Step:
    if step.op != "realize":
        return step
    return replace(step, args=tuple(number for number in step.args if number not in gone))


def _fewer_steps(steps: Steps) -> Iterator[Steps]:
    """Without half of them, a quarter, and so on; the last ones first."""
    length = len(steps)
    size = length // 2
    while size:
        for start in range(length - size, -1, -size):
            yield _without(steps, set(range(start, start + size)))
        size //= 2


def _fewer_in_functions(steps: Steps) -> Iterator[Steps]:
    """Without a step of a function, or one of its results or parameters."""
    for place, step in enumerate(steps):
        if step.op != "function":
            continue
        for inner in range(len(step.body) - 1, -1, -1):
            body = _without(step.body, {inner})
            made = {number for each in body for number in each.targets}
            old = {number for each in step.body for number in each.targets}
            results = [n for n in step.values[0] if n in made or n not in old]
            yield from _with_results(steps, place, body, results)
        if len(step.values[0]) > 1:
            for result in step.values[0]:
                yield from _with_results(steps, place, step.body, [result])
        for parameter in range(len(step.args)):
            yield _without_parameter(steps, place, parameter)


def _with_results(steps: Steps, place: int, body: Steps, results: Sequence[int]) -> Iterator[Steps]:
    """The program with another body of a function, whose calls give only some results."""
    function = steps[place]
    if not results:
        return
    chosen = [function.values[0].index(number) for number in results]
    changed = replace(function, body=body, values=(tuple(results),))
    gone: set[int] = set()
    found = []
    for step in steps:
        if step is function:
            found.append(changed)
        elif step.op == "call" and step.args[0] == function.target:
            kept = tuple(step.targets[number] for number in chosen)
            gone.update(set(step.targets) - set(kept))
            found.append(replace(step, targets=kept))
        else:
            found.append(step)
    lost = {at for at, step in enumerate(found) if numbers_read(step) & gone}
    yield _without(tuple(found), {at for at in lost if not _survives(found[at], gone)})


def _without_parameter(steps: Steps, place: int, parameter: int) -> Steps:
    function = steps[place]
    found = []
    for step in steps:
        if step is function:
            args = (*step.args[:parameter], *step.args[parameter + 1 :])
            found.append(replace(step, args=args))
        elif step.op == "call" and step.args[0] == function.target:
            args = (*step.args[: parameter + 1], *step.args[parameter + 2 :])
            found.append(replace(step, args=args))
        else:
            found.append(step)
    return tuple(found)


def _fewer_targets(steps: Steps) -> Iterator[Steps]:
    """The gradient to one tensor alone, where it was to several."""
    for place, step in enumerate(steps):
        if step.op not in ("gradient", "gradient_weighted") or len(step.targets) < 2:
            continue
        first = len(step.args) - len(step.targets)
        for at, target in enumerate(step.targets):
            args = (*step.args[:first], step.args[first + at])
            changed = (*steps[:place], replace(step, args=args, targets=(target,)))
            gone = set(step.targets) - {target}
            rest = steps[place + 1 :]
            lost = {n for n, each in enumerate(rest) if numbers_read(each) & gone}
            kept = {n for n in lost if _survives(rest[n], gone)}
            yield (*changed, *_thinned_all(_without(rest, lost - kept), gone))


def _thinned_all(steps: Steps, gone: set[int]) -> Steps:
    return tuple(_thinned(step, gone) for step in steps)


def _inlined(steps: Steps) -> Iterator[Steps]:
    """A function that is not captured: its steps in the place of each call."""
    for place, function in enumerate(steps):
        if function.op != "function":
            continue
        found: list[Step] = []
        fresh = 1 + max(number for step in steps for each in step.all_steps()
                        for number in (*each.targets, *each.args, 0))  # fmt: skip
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
                inner = rename(each, names)
                found.append(replace(inner, targets=tuple(names[n] for n in each.targets)))
        yield tuple(found)


# --- inputs in the place of results --------------------------------------------------------------


def _arrays_after(steps: Steps) -> list[dict[int, tuple[Array, list[Value]]]]:
    """After each step what was made, with its elements then."""
    environment = Environment()
    found = []
    for step in steps:
        environment.run(step)
        made = {}
        for number in step.targets:
            array = environment.arrays.get(number)
            if array is not None:
                made[number] = (array, array.elements.reshape(-1).tolist())
        found.append(made)
    return found


def _inputs_for_results(steps: Steps) -> Iterator[Steps]:
    """A result given as data, so that what it was computed from may go."""
    try:
        made = _arrays_after(steps)
    except Exception:  # there is nothing to take the elements from
        return
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        if step.op == "data" or len(step.targets) != 1 or step.target not in made[place]:
            continue
        array, elements = made[place][step.target]
        values = (array.dtype, array.shape, tuple(elements), array.place, array.requires_grad)
        data = Step("data", (), step.targets, values)
        yield (*steps[:place], data, *steps[place + 1 :])


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


# --- smaller shapes and plainer values -----------------------------------------------------------


def _smaller_shapes(steps: Steps) -> Iterator[Steps]:
    """All data with the same size of an axis get a smaller one, whatever else has that size too."""
    sizes = {size for step in steps if step.op in _SHAPED for size in _shape(step)}
    for size in sorted(sizes, reverse=True):
        for smaller in dict.fromkeys((1, 2, size - 1)):
            if smaller >= size:
                continue
            yield tuple(_resized(step, size, smaller) for step in steps)
    for place, step in enumerate(steps):
        if step.op in _SHAPED and _shape(step):
            yield (*steps[:place], _with_shape(step, ()), *steps[place + 1 :])


_SHAPED = {"data": 1, "full": 1, "rand": 0, "randint": 0}


def _shape(step: Step) -> tuple[int, ...]:
    shape: tuple[int, ...] = step.values[_SHAPED[step.op]]
    return shape


def _with_shape(step: Step, shape: tuple[int, ...]) -> Step:
    place = _SHAPED[step.op]
    values = (*step.values[:place], shape, *step.values[place + 1 :])
    if step.op == "data":
        elements = step.values[2][: math.prod(shape)]
        if len(elements) < math.prod(shape):
            return step
        values = (*values[:2], elements, *values[3:])
    return replace(step, values=values)


def _resized(step: Step, size: int, smaller: int) -> Step:
    """The step with another number wherever a size is `size`."""
    body = tuple(_resized(each, size, smaller) for each in step.body)
    if step.op in _SHAPED:
        shape = tuple(smaller if each == size else each for each in _shape(step))
        return _with_shape(step, shape)
    if step.op in ("reshape", "expand", "shrink", "index", "setitem", "setitem_number", "bind"):
        values = (_renumbered(step.values[0], size, smaller), *step.values[1:])
        if step.op == "bind":
            name, low, high, value = step.values
            values = (name, low, smaller if high == size else high, min(value, smaller))
        return replace(step, values=values)
    return replace(step, body=body)


def _renumbered(value: Value, size: int, smaller: int) -> Value:
    if isinstance(value, tuple):
        return tuple(_renumbered(item, size, smaller) for item in value)
    return smaller if value == size and not isinstance(value, bool | str) else value


def _plainer_values(steps: Steps) -> Iterator[Steps]:
    """Data of 1, 2, 3 ..., of int32 on the first device, with fewer digits; whole slices."""
    for place, step in enumerate(steps):
        for values in _plainer(step):
            yield (*steps[:place], replace(step, values=values), *steps[place + 1 :])
    if any(step.op == "data" and step.values[3] for step in steps):
        yield tuple(
            replace(s, values=(*s.values[:3], 0, *s.values[4:])) if s.op == "data" else s
            for s in steps
        )
    for dtype in {step.values[0] for step in steps if step.op == "data"} - {"int32"}:
        yield tuple(_retyped(step, dtype) for step in steps)


def _plainer(step: Step) -> Iterator[tuple[Value, ...]]:
    if step.op == "data":
        dtype, shape, elements, place, requires_grad = step.values
        if dtype != "bool":
            yield dtype, shape, tuple(range(1, len(elements) + 1)), place, requires_grad
            yield dtype, shape, (1,) * len(elements), place, requires_grad
        yield dtype, shape, elements, place, False
    elif step.op in ("index", "setitem", "setitem_number"):
        for at, item in enumerate(step.values[0]):
            if isinstance(item, tuple):
                key = (*step.values[0][:at], (None, None, None), *step.values[0][at + 1 :])
                yield (key, *step.values[1:])
    elif step.op in ("assign_number", "add_number", "mul_number", "seed"):
        yield (1,)


def _retyped(step: Step, dtype: str) -> Step:
    if step.op != "data" or step.values[0] != dtype:
        return step
    elements = tuple(int(np.clip(each, -128, 127)) for each in step.values[2])
    return replace(step, values=("int32", step.values[1], elements, step.values[3], False))


_CHANGES: tuple[Callable[[Steps], Iterator[Steps]], ...] = (
    _fewer_steps,
    _inlined,
    _fewer_in_functions,
    _inputs_for_results,
    _other_operands,
    _fewer_steps,
    _smaller_shapes,
    _plainer_values,
    _fewer_targets,
)
