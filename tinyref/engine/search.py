"""Beam search: plans timed on the real device, the best ones kept and optimised further.

Every candidate is compiled and run in a process of its own kind, so that one that crashes or hangs
costs only itself. What was measured is kept in the cache of compiled programs: a search that was
interrupted goes on where it was, and one that was finished costs one look.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from tinyref import config
from tinyref.device import Device
from tinyref.engine.search_process import Worker
from tinyref.errors import UserError
from tinyref.runtimes.cache import default_cache
from tinyref.uops.compile import planned
from tinyref.uops.node import UOp
from tinyref.uops.optimise.actions import actions, identity
from tinyref.uops.optimise.opt import KernelOptError, Opt, opts_text, parse_opts
from tinyref.uops.optimise.plan import Plan
from tinyref.uops.text import to_text

# Entries of another layout are not read.
SCHEMA = 1
# A round that makes the best plan faster by less than this part is the last one.
LEAST_GAIN = 0.01
MOST_ROUNDS = 16
# Flags that change how fast a kernel runs, besides those in the compiler's key.
FLAGS = ("STRICT_FLOAT", "TRANSCENDENTAL", "THREADS")

# Seconds that the kernel takes with these optimisations; None where it cannot be told.
Measure = Callable[[tuple[Opt, ...]], float | None]


@dataclass(frozen=True)
class Timed:
    """A plan and the seconds that its kernel took."""

    seconds: float
    plan: Plan


def best_opts(device: str, ast: UOp) -> tuple[Opt, ...]:
    """The optimisations for the kernel `ast` on `device` that a search with width BEAM found.

    The heuristics' where no candidate could be measured. Raises `UserError` as `Plan.of` does.
    """
    capabilities = Device[device].capabilities
    memory = _Memory(device, ast)
    plain = Plan.of(ast, capabilities)
    chosen = planned(ast, capabilities)
    width = config.integer("BEAM")
    known = memory.result(plain, width)
    if known is not None:
        return known
    with closing(Worker(device, ast, config.integer("BEAM_SECONDS"))) as worker:
        found = search((plain, chosen), width, memory.remembered(worker.seconds))
    opts = chosen.opts if found is None else found.plan.opts
    memory.keep_result(width, opts)
    return opts


def search(starts: Iterable[Plan], width: int, measure: Measure) -> Timed | None:
    """The fastest plan that is reached from `starts`; None where none could be measured.

    In every round each of the best `width` plans is optimised in every legal way; the search ends
    when a round gains nothing. Raises `UserError` for a width below 1.
    """
    if width < 1:
        raise UserError(f"search: a beam of {width} plans: accepted are at least 1")
    seen: set[object] = set()
    beam = _measured(starts, measure, seen)[:width]
    for _ in range(MOST_ROUNDS):
        if not beam:
            return None
        reached = (plan for timed in beam for plan in actions(timed.plan))
        found = sorted((*beam, *_measured(reached, measure, seen)), key=_by_time)
        gain = beam[0].seconds - found[0].seconds
        is_over = gain < LEAST_GAIN * beam[0].seconds
        beam = found[:width]
        if is_over:
            break
    return beam[0] if beam else None


def _by_time(timed: Timed) -> tuple[float, int]:
    # Of equally fast plans the one that is easier to read.
    return timed.seconds, len(timed.plan.opts)


def _measured(plans: Iterable[Plan], measure: Measure, seen: set[object]) -> list[Timed]:
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


class _Memory:
    """What the cache knows of the searches for one kernel on one device and its versions."""

    def __init__(self, device: str, ast: UOp) -> None:
        backend = Device[device]
        flags = {name: config.get(name) for name in FLAGS}
        versions = sorted(backend.versions().items())
        self.parts = [SCHEMA, backend.title, backend.compiler.key, versions, flags, to_text(ast)]
        self.is_used = config.integer("CACHE") != 0

    def _key(self, *what: object) -> str:
        text = json.dumps([*self.parts, *what])
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

    def result(self, plain: Plan, width: int) -> tuple[Opt, ...] | None:
        """What an earlier search of that width has found, if it is still legal."""
        text = self._read(self._key("result", width)).get("opts")
        if not isinstance(text, str):
            return None
        try:
            return plain.apply_all(parse_opts(text)).opts
        except (KernelOptError, UserError):
            return None

    def keep_result(self, width: int, opts: tuple[Opt, ...]) -> None:
        """Keeps what a search has found."""
        self._write(self._key("result", width), {"opts": opts_text(opts)})

    def remembered(self, measure: Measure) -> Measure:
        """`measure`, asked only for what no search has measured before."""

        def seconds(opts: tuple[Opt, ...]) -> float | None:
            key = self._key("seconds", opts_text(opts))
            found = self._read(key).get("seconds")
            if isinstance(found, int | float) and found >= 0:
                return float(found)
            if found == "none":
                return None
            measured = measure(opts)
            self._write(key, {"seconds": "none" if measured is None else measured})
            return measured

        return seconds
