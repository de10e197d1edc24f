"""One fault under one seed, in a process of its own: fuzzes until the fault shows, then blames.

    python -m tinyref_fuzz.faults.trial

It gets a `Request` from `score.py` and sends what is known of the fields of a `Run`, again whenever
it knows more.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tinyref.device import Device
from tinyref.errors import explain_error
from tinyref.tensor import Tensor
from tinyref.workers.processes import Channel
from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.faults import FAULTS
from tinyref_fuzz.faults.fault import Fault
from tinyref_fuzz.findings.examine import examine
from tinyref_fuzz.programs.examine import examine_program
from tinyref_fuzz.programs.judge import PLAIN_EVERY, ProgramJudge
from tinyref_spec.kernel_case import Blame, Verdict

# The parent hears of the process this often, so that a hang differs from work.
BEAT_SECONDS = 0.5
# This many findings are examined: their buckets are counted.
MAX_FINDINGS = 5

Send = Callable[[Mapping[str, Any]], None]
# Gives blame and bucket of a finding, and the size of its reduced case, within some seconds.
Examine = Callable[[float], tuple[Blame, str, int]]


@dataclass(frozen=True)
class Request:
    """What to do.

    fault: its name. seconds: of the processor, how long it may stay unfound. further: seconds for
    more findings after the first. examine: seconds to reduce each finding; 0 examines none.
    folder: where the process keeps compiled programs; empty is the user's cache.
    """

    fault: str
    seed: int
    seconds: float = 60.0
    further: float = 5.0
    examine: float = 10.0
    folder: str = ""


def run_trial(request: Request, send: Send) -> None:
    """Plant the fault, fuzz until it shows or the time is over, and examine what was found."""
    fault = FAULTS[request.fault]
    with fault.seam.plant():
        findings = _find(request, fault, send)
        buckets: list[str] = []
        for examine_finding in findings if request.examine else ():
            blame, bucket, nodes = examine_finding(request.examine)
            if not buckets:
                send({"stage": blame.stage, "cause": blame.cause, "nodes": nodes})
            buckets.append(bucket)
            send({"buckets": buckets})


def _find(request: Request, fault: Fault, send: Send) -> list[Examine]:
    """Judge cases, and return how to examine those that disagree."""
    cases = _programs if fault.is_of_programs else _kernels
    start, until, heard = _processor_seconds(), request.seconds, 0.0
    findings: list[Examine] = []
    for number, verdict, examine_finding in cases(fault.device, request.seed):
        seconds = _processor_seconds() - start
        if not findings and time.monotonic() - heard > BEAT_SECONDS:
            heard = time.monotonic()
            send({"cases": number + 1, "seconds": seconds})
        if not verdict.agrees:
            if not findings:
                until = seconds + request.further
                about = {"cases": number + 1, "seconds": seconds, "detail": verdict.detail[:300]}
                send({"found": True, **about})
            findings.append(examine_finding)
        if seconds >= until or len(findings) >= MAX_FINDINGS:
            break
    return findings


def _processor_seconds() -> float:
    """Return the seconds that this process and its ended children have computed."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _kernels(device: str, seed: int) -> Iterator[tuple[int, Verdict, Examine]]:
    def examined(case: Any, verdict: Verdict, seconds: float) -> tuple[Blame, str, int]:
        finding = examine(case, verdict, device, seconds)
        return finding.blame, finding.bucket, finding.nodes

    for number, case, verdict, _ in judge_cases(device, seed):
        yield number, verdict, partial(examined, case, verdict)


def _programs(device: str, seed: int) -> Iterator[tuple[int, Verdict, Examine]]:
    judge = ProgramJudge(device)

    def examined(program: Any, verdict: Verdict, seconds: float) -> tuple[Blame, str, int]:
        finding = examine_program(judge, program, verdict, seconds)
        return finding.blame, finding.bucket, finding.program.size

    for number in itertools.count():
        # No program before it sways what this one draws.
        Tensor._streams.forget()
        program = program_at(judge, seed, number)
        verdict = judge.verdict(program, number % PLAIN_EVERY == 0)
        yield number, verdict, partial(examined, program, verdict)


def main() -> None:
    """Do what the parent asks, and end."""
    channel = Channel()
    request = Request(**{**channel.receive(), **channel.receive()})
    if request.folder:
        os.environ["TINYREF_CACHE_DIR"] = request.folder
    assert Device[FAULTS[request.fault].device].capabilities.ops, "the device runs kernels"
    channel.send({"cases": 0})
    try:
        run_trial(request, channel.send)
    except Exception as error:  # what breaks generator or judge gives the fault away as well
        channel.send({"found": True, "detail": explain_error(error)[:300]})
    channel.send({"is_complete": True})
    # Threads of a device must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
