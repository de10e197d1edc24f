"""One fault under one seed, in a process of its own: fuzzes until the fault shows, then blames.

    python -m tinyref_fuzz.faults.trial

It sends what is known of the fields of a `Run`, again whenever it knows more.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from tinyref.device import Device
from tinyref.errors import explain_error
from tinyref.tensor.creation import streams
from tinyref.workers.processes import Channel
from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.faults import FAULTS
from tinyref_fuzz.faults.fault import NamedFault
from tinyref_fuzz.faults.score import ScoreSettings
from tinyref_fuzz.findings.examine import examine
from tinyref_fuzz.programs.examine import examine_program
from tinyref_fuzz.programs.judge import PLAIN_EVERY, ProgramJudge
from tinyref_spec.kernel_case import Blame, KernelVerdict

# The parent hears of the process this often, so that a hang differs from work.
BEAT_SECONDS = 0.5
# This many findings are examined: their buckets are counted.
MAX_FINDINGS = 5

Send = Callable[[Mapping[str, Any]], None]
# Gives blame and bucket of a finding, and the size of its reduced case, within some seconds.
Examine = Callable[[float], tuple[Blame, str, int]]


def run_trial(name: str, seed: int, settings: ScoreSettings, send: Send) -> None:
    """Plant the fault, fuzz until it shows or the time is over, and examine what was found."""
    fault = FAULTS[name]
    with fault.seam.plant():
        findings = _find(fault, seed, settings, send)
        buckets: list[str] = []
        for examine_finding in findings if settings.examine else ():
            blame, bucket, nodes = examine_finding(settings.examine)
            if not buckets:
                send({"stage": blame.stage, "cause": blame.cause, "nodes": nodes})
            buckets.append(bucket)
            send({"buckets": buckets})


def _find(fault: NamedFault, seed: int, settings: ScoreSettings, send: Send) -> list[Examine]:
    """Judge cases, and return how to examine those that disagree."""
    cases = _programs if fault.is_of_programs else _kernels
    start, until, heard = _processor_seconds(), settings.seconds, 0.0
    findings: list[Examine] = []
    for number, verdict, examine_finding in cases(fault.device, seed):
        known = {"cases": number + 1, "seconds": _processor_seconds() - start}
        if not findings and time.monotonic() - heard > BEAT_SECONDS:
            heard = time.monotonic()
            send(known)
        if not verdict.agrees:
            if not findings:
                until = known["seconds"] + settings.further
                send({"found": True, **known, "detail": verdict.detail[:300]})
            findings.append(examine_finding)
        if known["seconds"] >= until or len(findings) >= MAX_FINDINGS:
            break
    return findings


def _processor_seconds() -> float:
    """Return the seconds that this process and its ended children have computed."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _kernels(device: str, seed: int) -> Iterator[tuple[int, KernelVerdict, Examine]]:
    def examined(case: Any, verdict: KernelVerdict, seconds: float) -> tuple[Blame, str, int]:
        finding = examine(case, verdict, device, seconds)
        return finding.blame, finding.bucket, finding.nodes

    for number, case, verdict, _ in judge_cases(device, seed):
        yield number, verdict, partial(examined, case, verdict)


def _programs(device: str, seed: int) -> Iterator[tuple[int, KernelVerdict, Examine]]:
    judge = ProgramJudge(device)

    def examined(program: Any, verdict: KernelVerdict, seconds: float) -> tuple[Blame, str, int]:
        finding = examine_program(judge, program, verdict, seconds)
        return finding.blame, finding.bucket, finding.program.size

    for number in itertools.count():
        # No program before it sways what this one draws.
        streams.forget()
        program = program_at(judge, seed, number)
        verdict = judge.verdict(program, number % PLAIN_EVERY == 0)
        yield number, verdict, partial(examined, program, verdict)


def main() -> None:
    """Do what the parent asks, and end."""
    channel = Channel()
    settings, task = ScoreSettings(**channel.receive()), channel.receive()
    os.environ["TINYREF_CACHE_DIR"] = task["folder"]
    assert Device[FAULTS[task["fault"]].device].capabilities.ops, "the device runs kernels"
    channel.send({"cases": 0})
    try:
        run_trial(task["fault"], task["seed"], settings, channel.send)
    except Exception as error:  # what breaks generator or judge gives the fault away as well
        channel.send({"found": True, "detail": explain_error(error)[:300]})
    channel.send({"is_complete": True})
    # Threads of a device must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
