"""Fuzz with one fault under one seed, in a separate process, until it shows; then blame.

python -m tinyref_fuzz.faults.trial

It sends the known fields of a `FaultRun`, again whenever it knows more.
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

# Interval of messages to the parent, which tell work from a hang.
BEAT_SECONDS = 0.5
# Number of findings to examine; their buckets are counted.
MAX_FINDINGS = 5

Send = Callable[[Mapping[str, Any]], None]
# Returns blame and bucket of a finding, and the size of its reduced case, in limited time.
Examine = Callable[[float], tuple[Blame, str, int]]


def run_trial(name: str, seed: int, settings: ScoreSettings, send: Send) -> None:
    """Plant the fault, fuzz until it shows or the time is over, and examine the findings."""
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
    """Judge cases, and return functions that examine those that disagree."""
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
                send({"is_found": True, **known, "detail": verdict.detail[:300]})
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
        # No earlier program may influence what this one draws.
        streams.forget()
        program = program_at(judge, seed, number)
        verdict = judge.verdict(program, number % PLAIN_EVERY == 0)
        yield number, verdict, partial(examined, program, verdict)


def main() -> None:
    """Do the task of the parent, and end."""
    channel = Channel()
    settings, task = ScoreSettings(**channel.receive()), channel.receive()
    os.environ["TINYREF_CACHE_DIR"] = task["folder"]
    assert Device[FAULTS[task["fault"]].device].capabilities.ops, "the device runs kernels"
    channel.send({"cases": 0})
    try:
        run_trial(task["fault"], task["seed"], settings, channel.send)
    except Exception as error:  # a broken generator or judge reveals the fault too
        channel.send({"is_found": True, "detail": explain_error(error)[:300]})
    channel.send({"is_complete": True})
    # Threads of a device must not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
