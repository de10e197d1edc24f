"""Examine a case that does not agree: reduce it, blame a stage, name its bucket."""

from __future__ import annotations

from dataclasses import replace

from tinyref import reproduce
from tinyref.errors import explain_error
from tinyref.runtimes.identity import device_settings
from tinyref_fuzz.campaign.cases import case_at
from tinyref_fuzz.campaign.history import dependence
from tinyref_fuzz.campaign.task import Examination, Setup
from tinyref_fuzz.campaign.unexamined import without_case
from tinyref_fuzz.findings.examine import Finding, examine
from tinyref_fuzz.findings.isolated import HOPELESS, IsolatedJudge, examine_crash
from tinyref_fuzz.findings.one_line import fault_line
from tinyref_fuzz.findings.reproducer import terminal_lines
from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.reduce import node_count, opt_count
from tinyref_spec.kernel_case import CaseRecord, KernelCase, KernelVerdict, Symptom
from tinyref_spec.kernel_case.document import record_to_json
from tinyref_spec.kernels.family import CorpusKernel
from tinyref_spec.subjects.name import is_subject


def examine_case(
    setup: Setup,
    judge: Judge,
    kernels: tuple[CorpusKernel, ...],
    number: int,
    verdict: KernelVerdict,
    attempt: int,
) -> Examination:
    """Return the examination of a case; a second attempt leaves the case unreduced."""

    def make(number: int) -> KernelCase:
        return case_at(judge, setup.seed, number, setup.policy, kernels)

    try:
        case = make(number)
    except Exception as error:  # the finding may be that it cannot be generated
        problem = f"the case cannot be generated: {explain_error(error)}"
        return without_case(number, verdict, problem)
    if attempt > 1 or verdict.symptom in HOPELESS:
        problem = "the examination ended its process" if attempt > 1 else ""
        return _as_it_is(setup, number, case, verdict, problem)
    seconds = setup.examine_seconds
    try:
        if verdict.symptom is Symptom.CRASH:
            finding = examine_crash(case, verdict, setup.device, seconds, setup.timeout)
        else:
            finding = examine(case, verdict, setup.device, seconds)
            dependent = dependence(
                finding.case,
                number,
                make,
                lambda: IsolatedJudge(setup.device, setup.timeout),
                seconds,
            )
            finding = replace(finding, problem=dependent or finding.problem)
    except Exception as error:  # a bug of the reducer must not hide the finding
        problem = f"not reduced: {explain_error(error)}"
        return _as_it_is(setup, number, case, verdict, problem)
    return _examination_of(setup, number, finding)


def _examination_of(setup: Setup, number: int, finding: Finding) -> Examination:
    note = f"{fault_line(finding.verdict, finding.blame)}; {_note(setup, number)}"
    record = CaseRecord(finding.case, note, finding.verdict, finding.blame, setup.device)
    return Examination(
        number=number,
        bucket=finding.bucket,
        blame=finding.blame,
        detail=finding.verdict.detail,
        case=record_to_json(record),
        nodes=finding.nodes,
        opts=finding.opts,
        lines=terminal_lines(finding.case, finding.verdict, finding.blame),
        seconds=finding.seconds,
        problem=finding.problem,
    )


def _as_it_is(
    setup: Setup, number: int, case: KernelCase, verdict: KernelVerdict, problem: str
) -> Examination:
    """Return the finding with the unreduced case, in a bucket of similar findings."""
    note = f"{fault_line(verdict)}; {_note(setup, number)}"
    record = CaseRecord(case, note, verdict, device=setup.device)
    return replace(
        without_case(number, verdict, problem),
        case=record_to_json(record),
        nodes=node_count(case.ast),
        opts=opt_count(case),
        lines=terminal_lines(case, verdict),
    )


def note_of(setup: Setup, case: str) -> str:
    """Describe the origin of a case, with the flags of this process, which its kernels have."""
    words = f"tinyref fuzz {setup.code} on {setup.device}: seed {setup.seed}, {case}"
    settings = {} if is_subject(setup.device) else device_settings(setup.device)
    words = f"{words}, {reproduce.assignments(settings)}" if settings else words
    return reproduce.without_local_folders(words)


def _note(setup: Setup, number: int) -> str:
    return note_of(setup, f"policy {setup.policy}, case {number}")
