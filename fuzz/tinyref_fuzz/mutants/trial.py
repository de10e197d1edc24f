"""One mutant and one seed in a process of its own: fuzzes, or takes another lane, until it shows.

    python -m tinyref_fuzz.mutants.trial

The request comes as two lines of JSON, answers go out as such; see `Request`. The compiler is only
imported once the mutant is switched on.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinyref.workers.processes import Channel
from tinyref_fuzz.mutants.catalogue import mutant_named
from tinyref_fuzz.mutants.child_processes import switch_on_in_children
from tinyref_fuzz.mutants.lanes import LaneError
from tinyref_fuzz.mutants.mutant import MutantError, Reached, switch_on

if TYPE_CHECKING:
    from tinyref_fuzz.judge.judge import Judge
    from tinyref_fuzz.programs.judge import ProgramJudge
    from tinyref_spec.kernel_case import Case, Verdict

# The parent gets a heartbeat this often, so that a hang differs from work.
BEAT_SECONDS = 0.5
# A process that rather waits than works ends after so many times the seconds it may work.
MAX_WAITING = 20
# Findings after the first, each of which is examined: their buckets are counted.
MAX_FINDINGS = 5


@dataclass(frozen=True)
class Request:
    """What a process is to do.

    mutant: its name, empty for the healthy compiler. device: what is fuzzed. seconds: how long a
    mutant may live. further: for how long cases are judged after the first finding. Both are
    seconds of the processor, as of `Clock`. examine: the seconds that the reduction of a finding
    may take, 0 for none. trace: the number of cases whose programs are reported, instead of any
    judging. lane: what is to find the mutant, one of `lanes.LANES`. folder: what the process may
    write to, its cache of compiled programs too; empty is the user's cache. program_every: which
    cases are tensor programs instead of kernels, one in so many; 0 for none. start, count, skip:
    the number of the first case, how many there are (0 for as many as fit), those left out.

    serves: prepare the lane, and do each further request in a fork (`Template`). units: of the
    lane, where not all. table: where its `reach.Table` is, or is to be recorded by the healthy
    compiler; empty for none. by_units: the fuzzer's cases are units of a lane, none of which is
    examined. probe: the seconds after which a lane without a table is left unfinished; 0 for never.
    code: the sources, as the table says.
    """

    mutant: str
    device: str
    seed: int
    seconds: float = 60.0
    further: float = 5.0
    examine: float = 10.0
    trace: int = 0
    lane: str = "fuzz"
    folder: str = ""
    program_every: int = 0
    start: int = 0
    count: int = 0
    skip: tuple[int | str, ...] = ()
    serves: bool = False
    units: tuple[str, ...] = ()
    table: str = ""
    by_units: bool = False
    probe: float = 0.0
    code: str = ""


def turn_of(number: int, every: int) -> tuple[bool, int]:
    """Whether case `number` is a tensor program, and the how many-th of its kind it is.

    The last of each `every` cases is; none for 0.
    """
    if not every:
        return False, number
    programs = number // every
    return (True, programs) if number % every == every - 1 else (False, number - programs)


class Trial:
    """Judges the cases of one seed, and sends what becomes of them."""

    def __init__(
        self,
        request: Request,
        reached: Reached,
        send: Callable[[Mapping[str, Any]], None],
    ):
        self.request = request
        self.reached = reached
        self.send = send
        self.beaten = 0.0
        self._programs: ProgramJudge | None = None

    def run(self) -> None:
        """Until the mutant is killed and its further findings are examined, or time is up."""
        from tinyref_fuzz.judge.judge import Judge

        judge = Judge(self.request.device)
        findings: list[tuple[Case, Verdict]] = []
        clock = Clock()
        until = self.request.seconds
        at_most = MAX_WAITING * (self.request.seconds + self.request.further)
        is_killed = False
        judged = 0
        for number in self.numbers():
            if clock.processor >= until or clock.wall >= at_most or len(findings) >= MAX_FINDINGS:
                break
            self.beat(number, clock)
            case, verdict = self.judge_case(judge, number)
            judged += 1
            if verdict.agrees:
                continue
            if not is_killed:
                is_killed = True
                until = clock.processor + self.request.further
                self.send(kill_message(number, verdict, clock))
            if case is not None:
                findings.append((case, verdict))
        self.send({"judged": judged, "reached": self.reached.count, **clock.read()})
        for case, verdict in findings:
            self.examine_finding(case, verdict)
        self.send({"done": True})

    def numbers(self) -> Iterator[int]:
        """The numbers of the cases to judge."""
        start, count = self.request.start, self.request.count
        numbers = range(start, start + count) if count else itertools.count(start)
        return (number for number in numbers if number not in self.request.skip)

    def judge_case(self, judge: Judge, number: int) -> tuple[Case | None, Verdict]:
        """A case and its verdict; no case of a program, and where nothing can draw its plans."""
        is_program, rank = turn_of(number, self.request.program_every)
        if is_program:
            return None, self.judge_program(rank)
        from tinyref_fuzz.campaign.cases import case_at
        from tinyref_fuzz.judge.judge import verdict_of
        from tinyref_spec.kernel_case import Pair, Symptom, Verdict

        try:
            case = case_at(judge, self.request.seed, rank)
        except Exception as error:  # what the generator raises gives a mutant away as well
            return None, Verdict(Pair.PLAIN, Symptom.ERROR, f"{type(error).__name__}: {error}")
        return case, verdict_of(judge, case)

    def judge_program(self, number: int) -> Verdict:
        """The verdict on a tensor program, which goes through the scheduler too."""
        from tinyref_fuzz.campaign.programs import program_at
        from tinyref_fuzz.programs.judge import ProgramJudge

        if self._programs is None:
            self._programs = ProgramJudge(self.request.device)
        return self._programs.verdict(program_at(self._programs, self.request.seed, number))

    def beat(self, number: int, clock: Clock) -> None:
        """Sends that it lives, now and then."""
        now = time.perf_counter()
        if now - self.beaten > BEAT_SECONDS:
            self.beaten = now
            self.send({"at": number, **clock.read()})

    def examine_finding(self, case: Case, verdict: Verdict) -> None:
        """Reduces, blames and buckets one finding."""
        if not self.request.examine:
            return
        from tinyref_fuzz.findings.examine import examine

        found = examine(case, verdict, self.request.device, self.request.examine)
        self.send(
            {
                "stage": found.blame.stage,
                "cause": found.blame.cause,
                "bucket": found.bucket.key,
                "nodes": found.nodes,
                "opts": found.opts,
                "seconds": found.seconds,
            }
        )

    def trace(self) -> None:
        """Sends for each case what its programs are, so that two compilers can be compared."""
        from tinyref_fuzz.judge.judge import Judge

        judge = Judge(self.request.device)
        for number in range(self.request.trace):
            self.send({"at": number, "digest": program_digest(judge, self.request, number)})
        self.send({"judged": self.request.trace, "reached": self.reached.count})
        self.send({"done": True})


def program_digest(judge: Judge, request: Request, number: int) -> str:
    """A hash of what is rendered of a case, without optimisations and with each of its lists."""
    from tinyref.codegen.compile import compile_kernel
    from tinyref.device import Device
    from tinyref_fuzz.campaign.cases import case_at

    renderer = Device[request.device].renderer
    digest = hashlib.blake2b(digest_size=8)
    try:
        case = case_at(judge, request.seed, number)
        for opts in ((), *case.opts):
            program = compile_kernel(case.ast, judge.capabilities, opts=opts)
            digest.update(renderer.render(program).encode())
    except Exception as error:  # a crash is a difference too
        digest.update(f"{type(error).__name__}: {error}".encode())
    return digest.hexdigest()


class Clock:
    """Seconds since it was made, of the processor and of the wall.

    The processor is that of this process and of the children that have ended, so that it makes no
    difference what else runs on the machine.
    """

    def __init__(self) -> None:
        self._start = _processor(), time.perf_counter()

    @property
    def processor(self) -> float:
        return _processor() - self._start[0]

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._start[1]

    def read(self) -> dict[str, float]:
        return {"seconds": self.processor, "wall": self.wall}


def _processor() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def kill_message(number: int, verdict: Verdict, clock: Clock) -> dict[str, Any]:
    """The message of the first case that does not agree."""
    return {
        "killed": number,
        "pair": verdict.pair.name if verdict.pair else "",
        "symptom": verdict.symptom.name if verdict.symptom else "",
        "detail": verdict.detail[:400],
        **clock.read(),
    }


def _start(request: Request) -> Reached:
    """Switches the mutant on and opens the device. Raises `MutantError` for an edit that is none.

    Whatever else it raises, the mutant is to blame for.
    """
    mutant = mutant_named(request.mutant) if request.mutant else None
    reached = switch_on(mutant) if mutant else Reached()
    if request.folder:
        os.environ[cache_variable(request.lane)] = request.folder
    if mutant:
        # An edit that does not fit shows here, and never in a case, where it would be a kill.
        importlib.import_module(mutant.module)
    if runs_units(request):
        switch_on_in_children(request.mutant)
    else:
        from tinyref.device import Device

        assert Device[request.device].capabilities.ops, "the device runs kernels"
    return reached


def cache_variable(lane: str) -> str:
    """The name of the variable that says where a lane's processes keep binaries.

    Tests look at the flags that are set: one more of them would be a kill that is none.
    """
    return "XDG_CACHE_HOME" if lane.endswith("tests") else "TINYREF_CACHE_DIR"


def runs_units(request: Request) -> bool:
    """Whether the units of a lane are run, each by name; the fuzzer may also count its cases."""
    return bool(request.mutant) and (request.lane != "fuzz" or request.by_units)


def main() -> None:
    """Does what the parent asks, and ends."""
    channel = Channel()
    # What is the same for all processes, then what this one is to do.
    common = channel.receive()
    request = Request(**{**common, **channel.receive()})
    if request.serves:
        from tinyref_fuzz.mutants.template import Template

        Template(common, request, channel.receive, channel.send).serve()
        # That no test can be read is no answer: the parent sees that it ended.
        os._exit(1)
    channel.send({"begun": True})
    try:
        reached = _start(request)
    except MutantError as error:
        channel.send({"refused": str(error)})
        os._exit(1)
    except Exception as error:  # the mutant may be so bad that nothing starts
        channel.send({"broken": f"{type(error).__name__}: {error}"})
        os._exit(1)
    channel.send({"ready": True})
    if runs_units(request):
        _run_lane(request, reached, channel)
    elif request.trace:
        Trial(request, reached, channel.send).trace()
    else:
        Trial(request, reached, channel.send).run()
    # Threads of a device must not keep the process.
    os._exit(0)


def _run_lane(request: Request, reached: Reached, channel: Channel) -> None:
    from tinyref_fuzz.mutants.template import run_alone

    try:
        run_alone(request, reached, channel.send)
    except LaneError as error:
        channel.send({"refused": str(error)})
        os._exit(1)
    except Exception as error:  # what is so bad that nothing can be collected is found
        channel.send({"broken": f"{type(error).__name__}: {error}"})
        os._exit(1)


if __name__ == "__main__":
    main()
