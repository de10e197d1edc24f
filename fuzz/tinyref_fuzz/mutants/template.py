"""A process in which a lane is prepared once, and a fork of it for each mutant.

What costs most of a mutant that dies at once is to import the compiler, to collect tests and to
plan the suite. A fork has all that, and plants its mutant late (`swap.py`); a mutant that has an
effect before is refused, and gets a process of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import itertools
import math
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyref_fuzz.mutants.blocks import Block, find_block, record_children, record_into
from tinyref_fuzz.mutants.child_processes import switch_on_in_children
from tinyref_fuzz.mutants.lanes import LANES, Lane
from tinyref_fuzz.mutants.mechanical import MechanicalMutant, mechanical_mutant, source_of
from tinyref_fuzz.mutants.mutant import Reached
from tinyref_fuzz.mutants.reach import Table, in_turns, record
from tinyref_fuzz.mutants.swap import can_be_late, plant_late
from tinyref_fuzz.mutants.trial import Clock, Request, cache_variable

# A unit that takes so many seconds of the processor hangs, and one that waits for so long, which is
# more: a machine that does other work too makes no kill.
UNIT_SECONDS = 30.0
WALL_SECONDS = 240.0
# What a fork may hold.
MEMORY_BYTES = 4 << 30
_HUNG = (1, -signal.SIGPROF)
_PR_SET_PDEATHSIG = 1

Send = Callable[[Mapping[str, Any]], None]


class Template:
    """Serves the requests of one lane, each in a fork, which opens the device.

    receive: the next request. send: to the parent; forks send on the same pipe, while the template
    waits for them.
    """

    def __init__(
        self, common: Mapping[str, Any], request: Request, receive: Callable[[], Any], send: Send
    ) -> None:
        self.common = common
        self.request = request
        self.receive = receive
        self.send = send
        self.file = Path(request.folder) / "blocks"
        self.prepared: frozenset[int] = frozenset()

    def serve(self) -> None:
        """Prepares the lane, then answers requests until the process is ended."""
        self.marks = record_into(self.file)
        if self.request.lane in ("fuzz", "conformance"):
            # Binaries are found by all of their source: no mutant gets those of another one.
            os.environ[cache_variable(self.request.lane)] = f"{self.request.folder}/cache"
        LANES[self.request.lane](self.request, self._serve)

    def _serve(self, lane: Lane) -> None:
        self.prepared = frozenset(self.marks.take())
        while True:
            request = Request(**{**self.common, **self.receive()})
            self.send({"begun": True})
            self.answer(lane, request)

    def answer(self, lane: Lane, request: Request) -> None:
        """Does one request in a fork, and says how that ended."""
        mutant = mechanical_mutant(request.mutant) if request.mutant else None
        if mutant is not None and not can_be_late(mutant, self.prepared):
            self.send({"ended": True, "cold": True})
            return
        child = os.fork()
        if not child:
            self._be_child(lane, request, mutant)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(status)
        self.send({"ended": True, "code": code, "hung": code in _HUNG})

    def _be_child(self, lane: Lane, request: Request, mutant: MechanicalMutant | None) -> None:
        os.setpgid(0, 0)
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        if self.request.lane.endswith("tests"):
            os.environ[cache_variable(self.request.lane)] = request.folder
        code = 0
        try:
            if request.table and mutant is None:
                self._record(lane, request)
            else:
                self._find(lane, request, mutant)
        except BaseException as error:  # whatever a mutant raises ends its fork alone
            print(f"{type(error).__name__}: {error}", file=sys.__stderr__)
            code = 3
        finally:
            os._exit(code)

    def _record(self, lane: Lane, request: Request) -> None:
        record_children(self.file)
        table = Table(request.code, prepared=self.prepared)
        clock = Clock()
        limit = request.seconds if self.request.lane == "fuzz" else math.inf

        def beat(name: str, done: int) -> None:
            self.send({"at": done, "unit": name, **clock.read()})

        record(lane, request, self.marks, table, limit, beat)
        table.save(Path(request.table))
        left_out = [f"{name}: {detail}" for name, detail in table.failing.items()]
        count = len(table.names)
        self.send({"judged": count, "reached": 0, "left_out": left_out, **clock.read()})
        self.send({"done": True})

    def _find(self, lane: Lane, request: Request, mutant: MechanicalMutant | None) -> None:
        reached = Reached()
        if mutant is not None:
            late = plant_late(mutant)
            if late is None:
                self.send({"cold": True})
                return
            reached = late
            switch_on_in_children(mutant.name)
        run_units(lane, units_of(lane, request, mutant), request, reached, self.send)


def units_of(lane: Lane, request: Request, mutant: MechanicalMutant | None) -> Iterable[str]:
    """The units that a request is to run, in their order."""
    if request.units:
        return request.units
    if request.table and mutant is not None:
        return select(request, mutant)
    if request.lane == "fuzz":
        return lane.names()
    return in_turns(list(lane.names()))


def select(request: Request, mutant: MechanicalMutant) -> list[str]:
    """The units of a recorded lane that can find the mutant."""
    table = Table.load(Path(request.table))
    return table.select(block_of(mutant), mutant.room)


def block_of(mutant: MechanicalMutant) -> Block | None:
    """Where its edit stands."""
    return find_block(mutant, source_of(mutant.module))


def run_units(
    lane: Lane, names: Iterable[str], request: Request, reached: Reached, send: Send
) -> None:
    """Runs units until one fails, the time of the fuzzer or a probe is up, or all have passed."""
    lane.begin(request)
    clock = Clock()
    done = request.start
    is_limited = request.lane == "fuzz"
    for name in itertools.islice(names, request.start, None):
        if is_limited and clock.processor >= request.seconds:
            break
        if request.probe and clock.processor >= request.probe:
            send({"unfinished": done})
            break
        done += 1
        if name in request.skip:
            continue
        send({"at": done - 1, "unit": name, **clock.read()})
        faulthandler.dump_traceback_later(WALL_SECONDS, exit=True, file=2)
        # The signal that it sends ends the process.
        signal.setitimer(signal.ITIMER_PROF, UNIT_SECONDS)
        failure = lane.run(name)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.cancel_dump_traceback_later()
        if failure is not None:
            found = {"killed": done - 1, "unit": name, "detail": failure.detail[:400]}
            words = {"pair": failure.pair, "symptom": failure.symptom}
            send({**found, **words, **clock.read()})
            break
    send({"judged": done, "reached": reached.count, **clock.read()})
    send({"done": True})


def run_alone(request: Request, reached: Reached, send: Send) -> None:
    """Takes a lane in this process, in which the mutant was switched on before anything else."""
    mutant = mechanical_mutant(request.mutant)
    if request.table:
        request = replace(request, units=tuple(select(request, mutant)))
        if not request.units:
            send({"judged": 0, "reached": 0, "seconds": 0.0, "wall": 0.0})
            send({"done": True})
            return
    LANES[request.lane](
        request,
        lambda lane: run_units(lane, units_of(lane, request, mutant), request, reached, send),
    )
