"""Beam search: time plans on the real device, and optimise the best of them further.

Every candidate is compiled and run in a separate process, so a crash or hang costs only itself.
Measurements are stored in the cache of compiled programs: an interrupted search continues, and a
finished one costs one lookup. Only kernels of schedules are searched: not those of conformance,
fuzzing, or `compile_ast` without `opts`.

    python -m tinyref.engine.search

is that process. It receives the kernel, then one list of optimisations at a time, and answers each
with the seconds of the kernel or with an error. It ends when its parent is gone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from tinyref import config
from tinyref.arrays import np
from tinyref.codegen.compile import compile_kernel, kernel_name, plan_for
from tinyref.device import Buffer, Device, Health
from tinyref.dtype import DType, PtrDType, numpy_dtype
from tinyref.errors import DeviceError, UserError, describe_error
from tinyref.formats.text import from_text, to_text
from tinyref.optimise.choices import actions, identity
from tinyref.optimise.opt import KernelOptError, Opt, opts_text, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.runtimes.cache import default_cache
from tinyref.runtimes.kernel import Kernel, Recent, compile_program
from tinyref.uops.node import UOp
from tinyref.uops.payload import SlotArg, VarArg
from tinyref.workers.processes import Death, Limits, Message, WorkerProcess
from tinyref.workers.service import Answer, OpeningError, Send, Service, leave_device, serve

# Entries with another layout are ignored.
SCHEMA = 2
# The search ends after a round that makes the best plan faster by less than this part.
LEAST_GAIN = 0.01
MAX_ROUNDS = 16
# Flags that change how fast a kernel runs, besides those in the compiler's key.
FLAGS = ("STRICT_FLOAT", "TRANSCENDENTAL", "THREADS", "TC", "TC_LEVEL")
# Number of turns in which the best plan of the search and the heuristic plan are timed again.
FINAL_TURNS = 3
# Results in this process, for when the cache cannot be used; the oldest are dropped.
MAX_RESULTS = 2048

# A candidate is launched this many times or for this long; the fastest launch counts.
LAUNCHES = 10
LAUNCH_SECONDS = 0.2
# Flags of the process that times: it neither searches nor prints. The programs of hundreds of
# candidates must not push programs in use out of the cache.
OWN_FLAGS = {"BEAM": "0", "CACHE": "0", "DEBUG": "0", "DUMP": ""}

_results: Recent[tuple[Opt, ...]] = Recent(MAX_RESULTS)

# Returns the seconds of the kernel with these optimisations; None if it cannot be measured.
Measure = Callable[[tuple[Opt, ...]], float | None]


@dataclass(frozen=True)
class Timed:
    """A plan and the seconds that its kernel took."""

    seconds: float
    plan: Plan


def best_opts(device: str, ast: UOp) -> tuple[Opt, ...]:
    """Return the optimisations for the kernel `ast` on `device` from a search with width BEAM.

    If the search finds nothing faster, they are those of the heuristics; if nothing could be timed
    too, with a warning. With DEBUG >= 1 a search prints its result. Raises `UserError` as
    `Plan.of` does.
    """
    memory = _Memory(device, ast)
    known = _results.get(memory.memory_key)
    if known is not None:
        return known
    capabilities = Device[device].capabilities
    plain = Plan.of(ast, capabilities)
    opts = memory.result(plain)
    if opts is None:
        chosen = plan_for(ast, capabilities)
        if not chosen.opts and not actions(plain):
            # There is only one plan, and a worker takes seconds to start.
            return _results.put(memory.memory_key, ())
        try:
            opts = _search_plans(device, ast, (plain, chosen), memory)
        except DeviceError as error:
            warnings.warn(f"the heuristics choose, not a search: {error}", stacklevel=2)
            opts = None
        if opts is None:
            # Not stored on disk: another process may succeed, or give candidates more time.
            return _results.put(memory.memory_key, chosen.opts)
        memory.keep_result(opts)
    return _results.put(memory.memory_key, opts)


def _search_plans(
    device: str, ast: UOp, starts: tuple[Plan, Plan], memory: _Memory
) -> tuple[Opt, ...] | None:
    """Search from the plain and the heuristic plan; None if nothing runs in time."""
    _, chosen = starts
    begin = time.monotonic()
    with closing(Worker(device, ast, memory.limit)) as worker:
        measure = _Counted(worker.seconds)
        result = search(starts, memory.width, memory.remember(measure))
        best = chosen if result is None else _duel(chosen, result.plan, worker.seconds)
    if config.integer("DEBUG") >= 1:
        sys.stderr.write(
            f"search {kernel_name(ast)} on {device}: {measure.count} plans timed, "
            f"{measure.failed} of them failed, {time.monotonic() - begin:.1f} s: "
            f"{opts_text(best.opts) or 'no optimisation'}"
            f"{', as the heuristics' if best.opts == chosen.opts else ''}\n"
        )
    return None if result is None else best.opts


def _duel(chosen: Plan, fastest: Plan, measure: Measure) -> Plan:
    """Return the faster of the two, timed again: the least of many times may be luck."""
    if identity(chosen) == identity(fastest):
        return chosen
    ours: list[float | None] = []
    theirs: list[float | None] = []
    for _ in range(FINAL_TURNS):
        ours.append(measure(chosen.opts))
        theirs.append(measure(fastest.opts))
    return fastest if _least(theirs) < _least(ours) else chosen


def _least(times: list[float | None]) -> float:
    return min((seconds for seconds in times if seconds is not None), default=math.inf)


def forget_searches() -> None:
    """Drop the results of searches in this process; the cache on disk still has them."""
    _results.clear()


def search(starts: Iterable[Plan], width: int, measure: Measure) -> Timed | None:
    """Return the fastest plan reached from `starts`; None if none could be measured.

    In every round each of the best `width` plans is optimised in every legal way; the search ends
    after a round without gain. Raises `UserError` for a width below 1.
    """
    if width < 1:
        raise UserError(f"search: a beam of {width} plans: accepted are at least 1")
    seen: set[object] = set()
    beam = _measure_plans(starts, measure, seen)[:width]
    for _ in range(MAX_ROUNDS):
        if not beam:
            return None
        reached = (plan for timed in beam for plan in actions(timed.plan))
        ranking = sorted((*beam, *_measure_plans(reached, measure, seen)), key=_by_time)
        gain = beam[0].seconds - ranking[0].seconds
        is_over = gain < LEAST_GAIN * beam[0].seconds
        beam = ranking[:width]
        if is_over:
            break
    return beam[0] if beam else None


def _by_time(timed: Timed) -> tuple[float, int]:
    # Of equally fast plans, prefer the one that is easier to read.
    return timed.seconds, len(timed.plan.opts)


def _measure_plans(plans: Iterable[Plan], measure: Measure, seen: set[object]) -> list[Timed]:
    """Measure those of `plans` that are new; return the ones that run, fastest first."""
    timed = []
    for plan in plans:
        if identity(plan) in seen:
            continue
        seen.add(identity(plan))
        seconds = measure(plan.opts)
        if seconds is not None:
            timed.append(Timed(seconds, plan))
    return sorted(timed, key=_by_time)


class _Counted:
    """A measure that counts its calls and its failures."""

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
    """The cache of the searches for one kernel on one device and its versions."""

    def __init__(self, device: str, ast: UOp) -> None:
        backend = Device[device]
        flags = tuple(config.get(name) for name in FLAGS)
        self.width = config.integer("BEAM")
        self.limit = config.integer("BEAM_SECONDS")
        self.is_used = config.integer("CACHE") != 0
        self.ast = ast
        self.facts = (backend.title, backend.compiler.key, flags)
        # The key of a result in this process.
        self.memory_key = (Device.canonical(device), *self.facts, self.width, self.limit, ast)
        self.versions = backend.versions

    @functools.cached_property
    def _parts(self) -> list[object]:
        return [SCHEMA, *self.facts, sorted(self.versions().items()), to_text(self.ast)]

    def _key(self, *what: object) -> str:
        text = json.dumps([*self._parts, *what])
        return "search " + hashlib.sha256(text.encode()).hexdigest()

    def _read(self, key: str) -> Mapping[str, object]:
        data = default_cache().get(key) if self.is_used else None
        try:
            value = json.loads(data) if data is not None else {}
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self, key: str, value: Mapping[str, object]) -> None:
        if self.is_used:
            default_cache().put(key, json.dumps(value).encode())

    def result(self, plain: Plan) -> tuple[Opt, ...] | None:
        """Return the result of an earlier search of this width, if it is still legal."""
        text = self._read(self._key("result", self.width)).get("opts")
        if not isinstance(text, str):
            return None
        try:
            return plain.apply_all(parse_opts(text)).opts
        except (KernelOptError, UserError):
            return None

    def keep_result(self, opts: tuple[Opt, ...]) -> None:
        """Store the result of a search."""
        self._write(self._key("result", self.width), {"opts": opts_text(opts)})

    def remember(self, measure: Measure) -> Measure:
        """Return `measure` with a cache: it is called only for plans never measured before."""

        def seconds(opts: tuple[Opt, ...]) -> float | None:
            key = self._key("seconds", opts_text(opts))
            entry = self._read(key)
            measured = entry.get("seconds")
            if isinstance(measured, int | float) and measured >= 0:
                return float(measured)
            failed_within = entry.get("failed_within")
            if isinstance(failed_within, int | float) and failed_within >= self.limit:
                return None
            result = measure(opts)
            # It might succeed with more time.
            failed = {"failed_within": self.limit}
            self._write(key, failed if result is None else {"seconds": result})
            return result

        return seconds


# --- the process that times -----------------------------------------------------------------------


class Worker:
    """Times candidates of one kernel; a process that dies or hangs is replaced by the next.

    seconds_limit: the limit for a candidate, compilation included.
    """

    def __init__(self, device: str, ast: UOp, seconds_limit: float) -> None:
        self.seconds_limit = seconds_limit
        self.device = device
        self._config = {"device": device, "kernel": to_text(ast), "limit": seconds_limit}
        self._service: Service | None = None

    @property
    def process(self) -> WorkerProcess | None:
        """Return the current process, if any."""
        return self._service.process if self._service is not None else None

    def seconds(self, opts: tuple[Opt, ...]) -> float | None:
        """Return the seconds of one launch; None for a candidate that fails, crashes or hangs.

        Raises `DeviceError` if no process starts or the device does not open in it.
        """
        self.start()
        assert self._service is not None, "the process is started"
        answer = self._service.ask({"opts": opts_text(opts)}, Limits(self.seconds_limit))
        seconds = None if isinstance(answer, Death) else answer.get("seconds")
        return float(seconds) if isinstance(seconds, int | float) else None

    def close(self) -> None:
        """End the process and all that it started; the next candidate starts another."""
        if self._service is not None:
            self._service.close()
            self._service = None

    def start(self) -> WorkerProcess:
        """Return a process with an open device. Raises `DeviceError` if there is none."""
        flags = {flag.name: str(value) for flag, value, _ in config.describe()} | OWN_FLAGS
        own = {f"TINYREF_{name}": value for name, value in flags.items()}
        try:
            if self._service is None:
                self._service = Service(
                    "tinyref.engine.search", self._config, {**os.environ, **own}
                )
            return self._service.open()
        except OSError as error:
            raise DeviceError(self.device, f"search: cannot start a process: {error}") from error
        except OpeningError as error:
            raise DeviceError(
                self.device, f"search: the process that times is not ready: {error}"
            ) from error


# --- in the process -------------------------------------------------------------------------------


class _Bench:
    """One kernel and its buffers, to time it with any optimisations."""

    def __init__(self, device: str, ast: UOp) -> None:
        self.device = device
        self.ast = ast
        self.capabilities = Device[device].capabilities
        self.buffers: dict[int, Buffer] = {}

    def seconds(self, opts: tuple[Opt, ...]) -> float:
        program = compile_kernel(self.ast, self.capabilities, opts=opts)
        kernel = compile_program(self.device, program)
        if not self.buffers:
            self.buffers = {
                parameter.slot: Buffer(self.device, parameter.size, parameter.dtype).allocate()
                for parameter in program.parameters
            }
            self._fill(set(self.buffers))
        # Contents changed by the last candidate could compute slower: subnormal floats.
        self._fill({p.slot for p in program.parameters if p.is_read and p.is_written})
        return _fastest(kernel, list(self.buffers.values()))

    def _fill(self, slots: set[int]) -> None:
        """Fill the buffers of these slots with 1, 2 and 3 in the kernel's own types."""
        for node in self.ast.toposort():
            if not isinstance(node.arg, SlotArg) or not isinstance(node.dtype, PtrDType):
                continue
            if node.arg.slot in slots:
                buffer = self.buffers[node.arg.slot]
                buffer.copy_in(memoryview(_pattern(node.dtype.base, buffer.nbytes)))


def _pattern(dtype: DType, nbytes: int) -> bytes:
    """Return bytes of values that every type has and whose sums of products stay normal."""
    values = np.random.default_rng(0).integers(1, 4, 4093).astype(numpy_dtype(dtype)).tobytes()
    return (values * (nbytes // len(values) + 1))[:nbytes]


def _fastest(kernel: Kernel, buffers: list[Buffer]) -> float:
    variables = [node.arg for node in kernel.program.variables]
    bindings = {arg.name: arg.maximum for arg in variables if isinstance(arg, VarArg)}
    times: list[float] = []
    end = time.monotonic() + LAUNCH_SECONDS
    while len(times) < LAUNCHES and (len(times) < 2 or time.monotonic() < end):
        times.append(kernel(buffers, bindings, wait=True) or 0.0)
    return min(times)


def main() -> None:
    """Answer requests until there are no more."""
    serve(_open_service)


def _open_service(configuration: Message, send: Send) -> tuple[object, Answer]:
    ast = from_text(configuration["kernel"])
    if not isinstance(ast, UOp):
        raise UserError("search: the first message holds no kernel")
    bench = _Bench(configuration["device"], ast)
    health = Health(configuration["device"])

    def answer(request: Message) -> Mapping[str, object]:
        opts = parse_opts(request["opts"])
        _end_after(configuration["limit"])
        try:
            return {"seconds": bench.seconds(opts)}
        except Exception as error:
            # A driver may raise anything. It must not affect the next candidate, and a device that
            # has failed since answers with nothing but errors.
            if health.problem_since():
                leave_device()
            return {"error": describe_error(error)}
        finally:
            _end_after(0)

    return None, answer


def _end_after(limit: float) -> None:
    """Let the system end this process in twice `limit` seconds; 0 cancels it.

    A candidate that hangs in a driver would otherwise outlive a parent that was killed.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 2 * limit)


if __name__ == "__main__":
    main()
