"""The order of launches, copies and frees, what synchronize waits for, and reported seconds.

The kernel is a long chain of multiplications, so that a launch takes a while. A device that does
not wait for it gives wrong numbers, or gives them late.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tinyref.device import Buffer
from tinyref.dtype import dtypes
from tinyref.runtimes.kernel import Kernel, compile_program
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref.workers.machine import seconds_without_processor
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs

WORD = dtypes.uint32
# From the linear congruential generator of Numerical Recipes, whose later numbers are known.
FACTOR, STEP = 1664525, 1013904223
# A launch of this duration differs measurably from one that takes no time.
LONG_SECONDS = 0.01
FIRST_ITERATIONS = 256
MAX_ITERATIONS = 1 << 28
ATTEMPTS = 5
# Seconds within which such a launch ends.
PATIENCE = 2.0
LAUNCHES = 20
# More launches than drivers queue before they recycle memory.
QUEUED = 110
GROUPS = 8
# For calls without a wait in between: words, steps, and random seeds.
WORDS = 6
STEPS = 24
SEEDS = (1, 2, 3)
# The host needs longer to copy 1 MiB than to change it.
LARGE = 1 << 18


def clock() -> float:
    """Return seconds of this thread, without those in which others used its processor."""
    return time.perf_counter() - seconds_without_processor()


def after_iterations(start: int, iterations: int) -> int:
    """Return the number that `iterations` steps of the generator make from `start`, directly."""
    factor, step, total_factor, total_step = FACTOR, STEP, 1, 0
    while iterations:
        if iterations & 1:
            total_factor, total_step = total_factor * factor, total_step * factor + step
        factor, step = factor * factor, step * factor + step
        factor, step = factor % 2**32, step % 2**32
        total_factor, total_step = total_factor % 2**32, total_step % 2**32
        iterations >>= 1
    return (total_factor * start + total_step) % 2**32


def chain(iterations: int) -> Program:
    """Return out[0] = the number after `iterations` steps from in[0], one after another."""
    out, start = build.define_global(0, WORD, 1), build.define_global(1, WORD, 1)
    iteration = programs.loop(iterations, 0)
    number = build.accumulator("number", build.load(programs.at(start, 0)))
    new = build.update(number, build.add(build.mul(number, FACTOR), STEP))
    final = build.store(programs.at(out, 0), number)
    return programs.program(
        f"chain{iterations}", number, iteration, new, build.close(iteration), final
    )


def _chains(groups: int, iterations: int) -> Program:
    """Return `chain` in each of some groups, for an element of its own."""
    if groups == 1:
        # A device without a grid and threads has no launch indices.
        return chain(iterations)
    out, start = build.define_global(0, WORD, groups), build.define_global(1, WORD, groups)
    group, iteration = programs.group_index(groups), programs.loop(iterations, 0)
    number = build.accumulator("number", build.load(programs.at(start, group)))
    new = build.update(number, build.add(build.mul(number, FACTOR), STEP))
    final = build.store(programs.at(out, group), number)
    steps = (group, number, iteration, new, build.close(iteration), final)
    return programs.program(f"chains{iterations}", *steps, grid=(groups, 1, 1))


def word(device: str, value: int) -> Buffer:
    """Return a buffer of one number."""
    return Buffer(device, 1, WORD).copy_in(np.array([value], np.uint32).data)


def number_in(buffer: Buffer) -> int:
    """Return the number in a buffer of one."""
    return int(np.frombuffer(buffer.copy_out(), np.uint32)[0])


@dataclass
class Work:
    """A kernel whose iterations take about `LONG_SECONDS`, without the cost of a launch."""

    kernel: Kernel
    iterations: int
    seconds: float


@functools.cache
def long_work(name: str) -> Work:
    """Return the work of a device, which is measured once in a process.

    Doubles the iterations until they take `LONG_SECONDS`. The time of a launch with one iteration
    is not counted, because simulators need that much for each launch. Stops earlier if a long loop
    gives a wrong number; other rows test the length of loops.
    """
    device, iterations, work = DeviceUnderTest(name), FIRST_ITERATIONS, None
    single = _least_seconds(device, compile_program(device.name, chain(1)))
    while True:
        kernel = compile_program(device.name, chain(iterations))
        if work is not None and not _becomes_right(device, kernel, iterations):
            return work
        work = Work(kernel, iterations, _least_seconds(device, kernel) - single)
        if work.seconds >= LONG_SECONDS or iterations >= MAX_ITERATIONS:
            return work
        grown = 2.0 * LONG_SECONDS / max(work.seconds, LONG_SECONDS / 64)
        iterations = min(MAX_ITERATIONS, iterations * max(2, int(grown)))


def _becomes_right(device: DeviceUnderTest, kernel: Kernel, iterations: int) -> bool:
    """Return True if the result of a launch is right, now or later: a copy may come too early."""
    out, start = word(device.name, 0), word(device.name, 1)
    kernel([out, start])
    expected, end = after_iterations(1, iterations), time.monotonic() + PATIENCE
    while number_in(out) != expected:
        if time.monotonic() > end:
            return False
        time.sleep(LONG_SECONDS)
    return True


def _least_seconds(device: DeviceUnderTest, kernel: Kernel) -> float:
    """Return the time of a launch and the copy of its result: the smaller of two."""
    taken = []
    for _ in range(2):
        out, start = word(device.name, 0), word(device.name, 1)
        begin = clock()
        kernel([out, start])
        out.copy_out()
        taken.append(clock() - begin)
    return min(taken)


def _judge_order(actual: int, expected: int, what: str) -> Measurement:
    if actual == expected:
        return Measurement(True, compared=1)
    return Measurement(False, f"{what}: got {actual}, expected {expected}", compared=1)


Act = Callable[[DeviceUnderTest, Work], Measurement]


def _copy_after_launch(device: DeviceUnderTest, work: Work) -> Measurement:
    out, start = word(device.name, 0), word(device.name, 5)
    work.kernel([out, start])
    return _judge_order(
        number_in(out), after_iterations(5, work.iterations), "copied out after a launch"
    )


def _copy_after_groups(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that every group, or thread of a host, has ended when results are copied out.

    All of them take long, so a group that a launch does not wait for has not written by then.
    """
    declared = device.capabilities
    groups = GROUPS if declared.has_grid else declared.threads
    share = max(4 * FIRST_ITERATIONS, work.iterations // 16)
    kernel = compile_program(device.name, _chains(groups, share))
    out, start = (Buffer(device.name, groups, WORD) for _ in range(2))
    for attempt in range(2):
        numbers = np.arange(groups, dtype=np.uint32) + attempt
        out.copy_in(np.zeros_like(numbers).data)
        start.copy_in(numbers.data)
        kernel([out, start])
        results = np.frombuffer(out.copy_out(), np.uint32)
        for group, number in enumerate(numbers.tolist()):
            what = f"group {group} of {groups}, launch {attempt + 1}"
            judged = _judge_order(int(results[group]), after_iterations(number, share), what)
            if not judged.passed:
                return judged
    return Measurement(True, compared=2 * groups)


def _launch_after_launch(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that each launch reads what the launch before it wrote."""
    one, other = word(device.name, 3), word(device.name, 0)
    short = compile_program(device.name, chain(FIRST_ITERATIONS))
    work.kernel([other, one])
    for _ in range(LAUNCHES):
        short([one, other])
        one, other = other, one
    expected = after_iterations(3, work.iterations + LAUNCHES * FIRST_ITERATIONS)
    return _judge_order(number_in(other), expected, f"after {LAUNCHES + 1} launches in a row")


def _launch_over_input(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that a launch that overwrites what an earlier one reads runs after it."""
    out, middle, start = word(device.name, 0), word(device.name, 0), word(device.name, 7)
    other = word(device.name, 8)
    short = compile_program(device.name, chain(FIRST_ITERATIONS))
    work.kernel([middle, start])
    work.kernel([out, middle])
    short([start, other])
    short([middle, other])
    expected = after_iterations(7, 2 * work.iterations)
    judged = _judge_order(number_in(out), expected, "overwritten by a launch after the reader")
    expected = after_iterations(8, FIRST_ITERATIONS)
    return judged if not judged.passed else _judge_order(number_in(start), expected, "overwritten")


def _copy_in_after_launch(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that a copy to the device waits for the launches that read the old contents."""
    out, middle, start = word(device.name, 0), word(device.name, 0), word(device.name, 9)
    work.kernel([middle, start])
    work.kernel([out, middle])
    middle.copy_in(np.array([1], np.uint32).data)
    start.copy_in(np.array([1], np.uint32).data)
    expected = after_iterations(9, 2 * work.iterations)
    judged = _judge_order(
        number_in(out), expected, "copied in after a launch that read the old value"
    )
    return judged if not judged.passed else _judge_order(number_in(middle), 1, "the copied value")


def _free_after_launch(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that memory of running launches is not given to others.

    There are two launches: on an idle device the first one begins at once and may have read its
    input.
    """
    first, second = word(device.name, 3), word(device.name, 11)
    other, out = word(device.name, 0), word(device.name, 0)
    # Queued copies have arrived before anything is freed.
    second.copy_out()
    work.kernel([other, first])
    work.kernel([out, second])
    del first, second
    others = [word(device.name, 1) for _ in range(64)]
    expected = after_iterations(11, work.iterations)
    judged = _judge_order(number_in(out), expected, "freed after a launch")
    spoiled = [other for other in others if number_in(other) != 1]
    return judged if not spoiled else Measurement(False, "a launch wrote to new memory", compared=1)


def _free_in_long_queue(device: DeviceUnderTest, work: Work) -> Measurement:
    """Free memory as soon as the launch that reads it is queued, behind a long launch."""
    words = deque(word(device.name, 3 if number == 0 else 0) for number in range(QUEUED + 2))
    short = compile_program(device.name, chain(FIRST_ITERATIONS))
    kernel = work.kernel
    while len(words) > 1:
        kernel([words[1], words[0]])
        words.popleft()
        kernel = short
    expected = after_iterations(3, work.iterations + QUEUED * FIRST_ITERATIONS)
    return _judge_order(number_in(words[0]), expected, f"freed behind {QUEUED} launches that wait")


def _source_changed_after_copy_in(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that a copy to the device takes what the host had at the time of the call."""
    out, start = word(device.name, 0), word(device.name, 3)
    numbers = np.arange(LARGE, dtype=np.uint32)
    large, source = Buffer(device.name, LARGE, WORD).allocate(), np.array([21], np.uint32)
    work.kernel([out, start])
    start.copy_in(source.data)
    large.copy_in(numbers.data)
    source[:], numbers[:] = 1, 1
    judged = _judge_order(number_in(start), 21, "copied in before its source was changed")
    arrived = np.frombuffer(large.copy_out(), np.uint32)
    changed = int(np.count_nonzero(arrived != np.arange(LARGE, dtype=np.uint32)))
    if judged.passed and changed:
        message = f"{changed} of {LARGE} numbers were copied after their source was changed"
        return Measurement(False, message, compared=LARGE)
    return judged


def _interleaved(seed: int, device: DeviceUnderTest, work: Work) -> Measurement:
    """Queue launches of two kernels, copies and new buffers behind a long launch, without a wait.

    The words that each step reads and writes are random, so that buffers are read, overwritten and
    freed while launches use them. At the end, results are compared with the same steps on the host.
    """
    draw = random.Random(seed)
    counts = (FIRST_ITERATIONS, FIRST_ITERATIONS // 2)
    kernels = [compile_program(device.name, chain(count)) for count in counts]
    numbers = [draw.randrange(1 << 32) for _ in range(WORDS)]
    words = {index: word(device.name, number) for index, number in enumerate(numbers)}
    work.kernel([words[0], words[1]])
    numbers[0] = after_iterations(numbers[1], work.iterations)
    for _ in range(STEPS):
        target, origin = draw.sample(range(WORDS), 2)
        step = draw.randrange(16)
        if step < len(counts) * 7:
            which = step % len(counts)
            kernels[which]([words[target], words[origin]])
            numbers[target] = after_iterations(numbers[origin], counts[which])
            continue
        numbers[target] = draw.randrange(1 << 32)
        if step == 14:
            # Freed first, so that the new buffer may get its memory.
            del words[target]
            words[target] = word(device.name, numbers[target])
        else:
            words[target].copy_in(np.array([numbers[target]], np.uint32).data)
    for index in draw.sample(range(WORDS), WORDS):
        judged = _judge_order(number_in(words[index]), numbers[index], f"buffer {index} at the end")
        if not judged.passed:
            return judged
    return Measurement(True, compared=WORDS)


def _synchronize(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that after synchronize nothing is left to wait for: a copy is fast."""
    return _finishes(device, work, _launched_and_synchronised)


def _launched_and_synchronised(device: DeviceUnderTest, kernel: Kernel, taken: list[Buffer]) -> str:
    kernel(taken)
    device.backend.synchronize()
    return "synchronize returned before the launch had ended"


def _problem_of_wait(device: DeviceUnderTest, kernel: Kernel, taken: list[Buffer]) -> str:
    kernel(taken, wait=True)
    return "a launch with wait returned before it had ended"


def _finishes(
    device: DeviceUnderTest,
    work: Work,
    launch: Callable[[DeviceUnderTest, Kernel, list[Buffer]], str],
) -> Measurement:
    """Check that the copy after a launch that has ended takes a small part of the whole time.

    Both are measured in one attempt, so that load on the host does not matter; the best attempt
    counts.
    """
    shares = []
    for _ in range(ATTEMPTS):
        out, start = word(device.name, 0), word(device.name, 13)
        begin = clock()
        problem = launch(device, work.kernel, [out, start])
        done = clock()
        judged = _judge_order(
            number_in(out), after_iterations(13, work.iterations), "after it had ended"
        )
        end = clock()
        shares.append((end - done) / max(end - begin, 1e-9))
        if not judged.passed:
            return judged
        if shares[-1] < 0.5:
            return Measurement(True, compared=1, observed=f"{shares[-1]:.0%} of the time later")
    if work.seconds < LONG_SECONDS:
        return Measurement(True, compared=1, observed="too quick to tell from a copy")
    message = f"{problem}: a copy after it took {min(shares):.0%} of the time of both"
    return Measurement(False, message, compared=1)


def _wait(device: DeviceUnderTest, work: Work) -> Measurement:
    return _finishes(device, work, _problem_of_wait)


def _seconds(device: DeviceUnderTest, work: Work) -> Measurement:
    """Check that the reported seconds of a launch are never more than all, and grow with the work.

    They may leave parts out, or include the cost before each launch. So 16 times the work is
    compared with the work. The least of a few attempts counts.
    """
    short = compile_program(device.name, chain(max(1, work.iterations // 16)))
    reported, taken = _reported_and_measured(device, work.kernel)
    brief, least = _reported_and_measured(device, short)
    for seconds in (reported, brief):
        if not isinstance(seconds, float) or not math.isfinite(seconds) or seconds <= 0:
            return Measurement(False, f"a launch took {seconds!r} seconds", compared=1)
    if reported > taken * 1.05 + 1e-4:
        return Measurement(False, f"reported {reported:.3g} s, all took {taken:.3g} s", compared=1)
    if work.seconds < LONG_SECONDS:
        return Measurement(True, compared=3, observed="too quick to compare two launches")
    figures = (
        f"reported {reported:.3g} s, and {brief:.3g} s of a sixteenth of the work; "
        f"all took {taken:.3g} s, and {least:.3g} s"
    )
    if reported - brief < 0.25 * (taken - least):
        return Measurement(False, figures, compared=3)
    return Measurement(True, compared=3, observed=figures)


def _reported_and_measured(device: DeviceUnderTest, kernel: Kernel) -> tuple[float, float]:
    """Return the seconds that a launch reports, and those that pass: the least of each."""
    reported, taken = [], []
    for _ in range(ATTEMPTS):
        out, start = word(device.name, 0), word(device.name, 1)
        out.copy_out()
        begin = time.perf_counter()
        seconds = kernel([out, start], wait=True)
        out.copy_out()
        taken.append(time.perf_counter() - begin)
        if not isinstance(seconds, float):
            return seconds, taken[0]  # type: ignore[return-value] # what the caller is to name
        reported.append(seconds)
    return min(reported), min(taken)


ORDERS: dict[str, Act] = {
    "copy_out_after_launch": _copy_after_launch,
    "copy_out_after_groups": _copy_after_groups,
    "launch_after_launch": _launch_after_launch,
    "launch_over_input": _launch_over_input,
    "copy_in_after_launch": _copy_in_after_launch,
    "free_after_launch": _free_after_launch,
    "free_in_long_queue": _free_in_long_queue,
    "source_changed_after_copy_in": _source_changed_after_copy_in,
    **{f"interleaved:{seed}": functools.partial(_interleaved, seed) for seed in SEEDS},
}
WAITS: dict[str, Act] = {"synchronize": _synchronize, "wait": _wait, "seconds": _seconds}


def _with_work(act: Act, case_id: str, device: DeviceUnderTest) -> Measurement:
    return act(device, long_work(device.name))


def _checks(acts: dict[str, Act]) -> list[Check]:
    return [Check(name, functools.partial(_with_work, act)) for name, act in acts.items()]


def rows() -> Iterator[Row]:
    """Yield one row of orders, and one of waits."""
    for name, sentence, clause, acts, advice in (
        (
            "order",
            "Launches, copies and frees of one device act as if they ran one after another.",
            "device.order",
            ORDERS,
            "look at what each launch and copy waits for",
        ),
        (
            "wait",
            "synchronize and a launch with wait return after all work; reported seconds are true.",
            "device.wait",
            WAITS,
            "look at what synchronize waits for, and at where seconds are measured",
        ),
    ):
        yield make_row(
            f"memory.{name}",
            sentence,
            clauses=(clause,),
            rung=Rung.LOOP,
            op="LAUNCH",
            dtype="uint32",
            uses=(WORD, dtypes.int32),
            checks=functools.partial(_checks, acts),
            advice=advice,
        )
