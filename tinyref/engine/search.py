"""Beam search: plans timed on the real device, the best ones kept and optimised further.

Every candidate is compiled and run in a process of its own kind, so that one that crashes or hangs
costs only itself. What was measured is kept in the cache of compiled programs: a search that was
interrupted goes on where it was, and one that was finished costs one look. Kernels that are not
compiled for a schedule (conformance, fuzzing, `compile_ast` without `opts`) are never searched.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from tinyref import config
from tinyref.codegen.compile import kernel_name, plan_for
from tinyref.device import Device
from tinyref.engine.search_process import Worker
from tinyref.errors import DeviceError, UserError
from tinyref.formats.text import to_text
from tinyref.optimise.choices import actions, identity
from tinyref.optimise.opt import KernelOptError, Opt, opts_text, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.runtimes.cache import default_cache
from tinyref.runtimes.kernel import Recent
from tinyref.uops.node import UOp

# Entries of another layout are not read.
SCHEMA = 2
# A round that makes the best plan faster by less than this part is the last one.
LEAST_GAIN = 0.01
MAX_ROUNDS = 16
# Flags that change how fast a kernel runs, besides those in the compiler's key.
FLAGS = ("STRICT_FLOAT", "TRANSCENDENTAL", "THREADS", "TC", "TC_LEVEL")
# How often the plan that was found and that of the heuristics are timed again, in turns.
FINAL_TURNS = 3
# Results of this process, for caches that cannot be used; the oldest go when there are more.
KEPT_RESULTS = 2048

# Seconds that the kernel takes with these optimisations; None where it cannot be measured.
Measure = Callable[[tuple[Opt, ...]], float | None]


@dataclass(frozen=True)
class Timed:
    """A plan and the seconds that its kernel took."""

    seconds: float
    plan: Plan


def best_opts(device: str, ast: UOp) -> tuple[Opt, ...]:
    """The optimisations for the kernel `ast` on `device` that a search with width BEAM found.

    Those of the heuristics where nothing was found that is faster, and, with a warning, where
    nothing could be timed. With DEBUG >= 1 a search says what it found. Raises `UserError` as
    `Plan.of` does.
    """
    memory = _Memory(device, ast)
    known = _results.get(memory.place)
    if known is not None:
        return known
    capabilities = Device[device].capabilities
    plain = Plan.of(ast, capabilities)
    found = memory.result(plain)
    if found is None:
        chosen = plan_for(ast, capabilities)
        try:
            found = _search_plans(device, ast, (plain, chosen), memory)
        except DeviceError as error:
            warnings.warn(f"the heuristics choose, not a search: {error}", stacklevel=2)
            found = None
        if found is None:
            # Not kept on disk: another process may be luckier, or give candidates more time.
            return _results.put(memory.place, chosen.opts)
        memory.keep_result(found)
    return _results.put(memory.place, found)


def _search_plans(
    device: str, ast: UOp, starts: tuple[Plan, Plan], memory: _Memory
) -> tuple[Opt, ...] | None:
    """Searches from the plain plan and that of the heuristics; None where nothing runs in time."""
    _, chosen = starts
    begin = time.monotonic()
    with closing(Worker(device, ast, memory.limit)) as worker:
        measure = _Counted(worker.seconds)
        found = search(starts, memory.width, memory.remember(measure))
        best = chosen if found is None else _duel(chosen, found.plan, worker.seconds)
    if config.integer("DEBUG") >= 1:
        sys.stderr.write(
            f"search {kernel_name(ast)} on {device}: {measure.count} plans timed, "
            f"{measure.failed} of them failed, {time.monotonic() - begin:.1f} s: "
            f"{opts_text(best.opts) or 'no optimisation'}"
            f"{', as the heuristics' if best.opts == chosen.opts else ''}\n"
        )
    return None if found is None else best.opts


def _duel(chosen: Plan, found: Plan, measure: Measure) -> Plan:
    """The faster of the two, timed anew: the least of many times may be luck."""
    if identity(chosen) == identity(found):
        return chosen
    ours: list[float | None] = []
    theirs: list[float | None] = []
    for _ in range(FINAL_TURNS):
        ours.append(measure(chosen.opts))
        theirs.append(measure(found.opts))
    return found if _least(theirs) < _least(ours) else chosen


def _least(times: list[float | None]) -> float:
    return min((seconds for seconds in times if seconds is not None), default=math.inf)


def forget_searches() -> None:
    """Drops what searches have found in this process; the cache on disk keeps it."""
    _results.clear()


def search(starts: Iterable[Plan], width: int, measure: Measure) -> Timed | None:
    """The fastest plan that is reached from `starts`; None where none could be measured.

    In every round each of the best `width` plans is optimised in every legal way; the search ends
    when a round gains nothing. Raises `UserError` for a width below 1.
    """
    if width < 1:
        raise UserError(f"search: a beam of {width} plans: accepted are at least 1")
    seen: set[object] = set()
    beam = _measure_plans(starts, measure, seen)[:width]
    for _ in range(MAX_ROUNDS):
        if not beam:
            return None
        reached = (plan for timed in beam for plan in actions(timed.plan))
        found = sorted((*beam, *_measure_plans(reached, measure, seen)), key=_by_time)
        gain = beam[0].seconds - found[0].seconds
        is_over = gain < LEAST_GAIN * beam[0].seconds
        beam = found[:width]
        if is_over:
            break
    return beam[0] if beam else None


def _by_time(timed: Timed) -> tuple[float, int]:
    # Of equally fast plans the one that is easier to read.
    return timed.seconds, len(timed.plan.opts)


def _measure_plans(plans: Iterable[Plan], measure: Measure, seen: set[object]) -> list[Timed]:
    """Those of `plans` that are new and run, fastest first."""
    found = []
    for plan in plans:
        if identity(plan) in seen:
            continue
        seen.add(identity(plan))
        seconds = measure(plan.opts)
        if seconds is not None:
            found.append(Timed(seconds, plan))
    return sorted(found, key=_by_time)


class _Counted:
    """A measure that counts how often it was asked, and how often in vain."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        self.count = 0
        self.failed = 0

    def __call__(self, opts: tuple[Opt, ...]) -> float | None:
        seconds = self.measure(opts)
        self.count += 1
        self.failed += seconds is None
        return seconds


class _Memory:
    """What the cache knows of the searches for one kernel on one device and its versions."""

    def __init__(self, device: str, ast: UOp) -> None:
        backend = Device[device]
        flags = tuple(config.get(name) for name in FLAGS)
        self.width = config.integer("BEAM")
        self.limit = config.integer("BEAM_SECONDS")
        self.is_used = config.integer("CACHE") != 0
        self.ast = ast
        self.facts = (backend.title, backend.compiler.key, flags)
        # What finds a result in this process.
        self.place = (Device.canonical(device), *self.facts, self.width, self.limit, ast)
        self.versions = backend.versions

    @functools.cached_property
    def _parts(self) -> list[object]:
        return [SCHEMA, *self.facts, sorted(self.versions().items()), to_text(self.ast)]

    def _key(self, *what: object) -> str:
        text = json.dumps([*self._parts, *what])
        return "search " + hashlib.sha256(text.encode()).hexdigest()

    def _read(self, key: str) -> Mapping[str, object]:
        found = default_cache().get(key) if self.is_used else None
        try:
            value = json.loads(found) if found is not None else {}
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self, key: str, value: Mapping[str, object]) -> None:
        if self.is_used:
            default_cache().put(key, json.dumps(value).encode())

    def result(self, plain: Plan) -> tuple[Opt, ...] | None:
        """What an earlier search of this width has found, if it is still legal."""
        text = self._read(self._key("result", self.width)).get("opts")
        if not isinstance(text, str):
            return None
        try:
            return plain.apply_all(parse_opts(text)).opts
        except (KernelOptError, UserError):
            return None

    def keep_result(self, opts: tuple[Opt, ...]) -> None:
        """Keeps what a search has found."""
        self._write(self._key("result", self.width), {"opts": opts_text(opts)})

    def remember(self, measure: Measure) -> Measure:
        """`measure`, asked only for what no search has measured before."""

        def seconds(opts: tuple[Opt, ...]) -> float | None:
            key = self._key("seconds", opts_text(opts))
            entry = self._read(key)
            found = entry.get("seconds")
            if isinstance(found, int | float) and found >= 0:
                return float(found)
            failed_within = entry.get("failed_within")
            if isinstance(failed_within, int | float) and failed_within >= self.limit:
                return None
            measured = measure(opts)
            # More time might be enough for it.
            failed = {"failed_within": self.limit}
            self._write(key, failed if measured is None else {"seconds": measured})
            return measured

        return seconds


_results: Recent[tuple[Opt, ...]] = Recent(KEPT_RESULTS)
