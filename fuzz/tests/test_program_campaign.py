"""Campaigns of tensor programs, and the commands on their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tinyref.cli.entry import run as command
from tinyref.errors import UserError
from tinyref_fuzz.campaign import report
from tinyref_fuzz.campaign.campaign import CampaignRequest, run
from tinyref_fuzz.campaign.programs import program_result_of
from tinyref_fuzz.campaign.task import KERNELS, PROGRAMS
from tinyref_fuzz.corpus import folder, keep
from tinyref_fuzz.corpus.folder import files_of
from tinyref_fuzz.programs.judge import ProgramJudge, default_compiled_every
from tinyref_fuzz.programs.record import (
    ProgramRecord,
    is_program,
    load_program,
    record_from_json,
    record_to_json,
    save_program,
)
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom

ADDED = TensorProgram(
    (
        ProgramStep("data", (), (1,), ("int32", (2,), (1, 2), 0, False)),
        ProgramStep("add_number", (1,), (2,), (3,)),
        ProgramStep("read", (2,)),
    )
)
# A device that flips a bit of every first output.
WRONG = "campaign_devices:SlowAndWrong"
pytestmark = pytest.mark.usefixtures("workers_import_test_devices")


def tinyref(*words: object) -> int:
    return command(["fuzz", *map(str, words)])


def request(folder: Path, **changes: object) -> CampaignRequest:
    options = {"seed": 1, "kernels": 3, "jobs": 1, "subject": PROGRAMS, **changes}
    return CampaignRequest("PYTHON", folder, **options)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_campaign_of_programs_continues_where_it_stopped(tmp_path):
    first = run(request(tmp_path))
    assert (first.cases, first.findings, first.subject) == (3, 0, PROGRAMS)
    assert first.judged >= 3
    assert report.text(first).startswith("PYTHON: 3 programs judged, all agree")
    assert "runs compared" in report.text(first)
    with pytest.raises(UserError, match="differs"):
        run(request(tmp_path, seed=2, resume=True))
    with pytest.raises(UserError, match="compiled every: default -> 3"):
        run(request(tmp_path, compiled_every=3, resume=True))
    again = run(CampaignRequest("PYTHON", tmp_path, kernels=5, jobs=1, resume=True))
    assert (again.cases, again.subject, again.seed) == (5, PROGRAMS, 1)


@pytest.mark.slow
def test_a_wrong_device_is_found_reduced_and_kept(tmp_path):
    summary = run(
        CampaignRequest(
            WRONG, tmp_path, seed=2, kernels=2, jobs=1, subject=PROGRAMS, examine_seconds=20
        )
    )
    assert summary.findings == 2
    bucket = summary.buckets[0]
    assert bucket.examination.blame.stage == "kernel"
    assert bucket.examination.nodes <= 5
    record = load_program(Path(bucket.file))
    assert Path(bucket.file).parent == tmp_path / PROGRAMS
    assert record.blame == bucket.examination.blame
    assert "tinyref fuzz replay" in report.text(summary)


@pytest.mark.slow
def test_a_program_says_that_it_depends_on_what_was_judged_before(tmp_path):
    device = "campaign_devices:LeavingAStateSoon"
    summary = run(CampaignRequest(device, tmp_path, seed=1, kernels=8, jobs=1, subject=PROGRAMS))
    assert summary.findings >= 1
    words = "alone in a fresh process it agrees: it depends on what was judged before it"
    assert {bucket.examination.problem[: len(words)] for bucket in summary.buckets} == {words}


@pytest.mark.slow
def test_a_program_at_which_the_device_dies_costs_one_program(tmp_path):
    device = "campaign_devices:Crashing"
    summary = run(CampaignRequest(device, tmp_path, seed=1, kernels=12, jobs=1, subject=PROGRAMS))
    assert (summary.cases, summary.incomplete) == (12, "")
    assert 1 <= summary.findings <= 12
    examination = summary.buckets[0].examination
    assert (examination.blame.stage, examination.case is not None) == ("kernel", True)
    assert summary.buckets[0].key.startswith("DEVICE CRASH")
    # Data, the crashing operation, its reader, and a captured function that is not reduced.
    assert examination.nodes <= 6
    assert not examination.problem


@pytest.mark.parametrize(
    ("name", "programs"),
    [("OffByOneTail", 1), ("SwappedItemIndices", 3), ("WrongGroupIndex", 4), ("StaleOutput", 8)],
)
def test_a_wrong_device_is_found_by_its_first_programs(name, programs):
    """Check interpreters, and a GPU: SwappedItemIndices."""
    device = f"tinyref_conformance.faulty:{name}"
    judge = ProgramJudge(device)
    every = default_compiled_every(device)
    verdicts = [program_result_of(judge, 3, number, every).verdict for number in range(programs)]
    assert any(verdict is not None and verdict.pair is Pair.DEVICE for verdict in verdicts)


def test_programs_run_on_a_gpu_and_its_copies():
    judge = ProgramJudge("GPU_EMU")
    assert judge.devices.names == ("GPU_EMU", "GPU_EMU:1", "PYTHON")
    results = [program_result_of(judge, 1, number) for number in range(8)]
    assert [result.verdict for result in results] == [None] * 8
    assert sum(result.judged for result in results) >= 8


def test_a_record_reads_back_and_others_are_refused(tmp_path):
    verdict = KernelVerdict(Pair.PLAIN, Symptom.VALUE, "step 2", judged=1)
    record = ProgramRecord(ADDED, "a note", verdict, Blame("graph", "pad"), "CPU")
    data = json.loads(json.dumps(record_to_json(record)))
    assert is_program(data)
    assert record_from_json(data) == record
    with pytest.raises(UserError, match="version 2"):
        record_from_json({**data, "version": 2})
    file = save_program(tmp_path, record)
    assert file.name == f"program-{ADDED.content_hash}.json"
    assert load_program(file) == record
    assert files_of(tmp_path) == [file]


@pytest.mark.long
def test_the_commands_on_a_file(tmp_path, capsys):
    file = save_program(tmp_path, ProgramRecord(ADDED, "a note", device="PYTHON"))
    assert tinyref("replay", file) == 0
    assert "all runs of the program agree" in capsys.readouterr().out
    assert tinyref("show", file, "--script") == 0
    script = capsys.readouterr().out
    assert "check(t2)" in script
    assert tinyref("reduce", file) == 2
    assert "there is nothing to reduce" in capsys.readouterr().err


@pytest.mark.long
def test_replay_of_a_program_that_fails_names_the_fault(tmp_path, capsys):
    file = save_program(tmp_path, ProgramRecord(ADDED, "a note"))
    assert tinyref("replay", file, "--device", WRONG) == 1
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.splitlines() == [
        "note: a note",
        f"{WRONG}: between the interpreter and the device: another value",
        "  step 2: t2: element 0: expected 4 (0x00000004), got 5 (0x00000005)",
        "  blame: kernel",
    ]


def test_a_file_chooses_no_code(tmp_path, capsys):
    file = save_program(tmp_path, ProgramRecord(ADDED, device="os.path:join"))
    assert tinyref("replay", file) == 2
    assert "a file may not choose what code runs" in capsys.readouterr().err


def test_options_of_kernels_are_refused_for_programs(capsys):
    assert tinyref("--device", "PYTHON", "--programs", 3, "--policy", "small") == 2
    assert "programs: does not go with" in capsys.readouterr().err
    assert KERNELS != PROGRAMS


# --- regressions --------------------------------------------------------------------------------


def options_of_keep(
    folder: Path, name: str = "a-new-one", note: str = "It was wrong once."
) -> list:
    return ["--name", name, "--note", note, "--out", folder]


@pytest.mark.long
def test_a_program_is_kept_and_checked_as_a_kernel_is(tmp_path, capsys):
    program = replace(ADDED, choices=(1, 2))
    file = save_program(tmp_path / "found.json", ProgramRecord(program, "seed 7", device="CPU"))
    target = tmp_path / "kept"
    target.mkdir()
    assert tinyref("keep", file, *options_of_keep(target)) == 0
    assert f"run it: tinyref fuzz corpus check {target}" in capsys.readouterr().out
    record = load_program(target / "a-new-one.json")
    assert (record.program, record.note, record.device) == (ADDED, "It was wrong once.", "CPU")
    assert tinyref("keep", file, *options_of_keep(target)) == 2
    assert "already exists: choose another name" in capsys.readouterr().err
    assert tinyref("corpus", "check", target, "--device", "PYTHON") == 0
    assert capsys.readouterr().out == "1 file, 0 with a problem, on PYTHON\n"


@pytest.mark.parametrize(
    ("steps", "words", "message"),
    [
        (ADDED.steps, {"name": "../up"}, "keep: name '../up', accepted are words"),
        (ADDED.steps, {"note": "No dot"}, "note: expected a line on what it found"),
        (ADDED.steps[:2], {}, "the program must read a result that is defined"),
        (ADDED.steps[1:], {}, "the program must read a result that is defined"),
    ],
)
def test_bad_regressions_are_refused(tmp_path, capsys, steps, words, message):
    file = save_program(tmp_path / "found.json", ProgramRecord(TensorProgram(tuple(steps))))
    assert tinyref("keep", file, *options_of_keep(tmp_path, **words)) == 2
    assert message in capsys.readouterr().err


def test_programs_that_revealed_bugs_are_right_now():
    judge = ProgramJudge("CPU")
    files = files_of(keep.PROGRAMS)
    assert len(files) >= 2
    assert keep.PROGRAMS in folder.SHIPPED
    for file in files:
        record = load_program(file)
        verdict = judge.verdict(record.program, thorough=True)
        assert (verdict.detail, verdict.judged, bool(record.note)) == ("", 2, True)
