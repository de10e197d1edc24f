"""`tinyref fuzz replay|reduce|show|keep|corpus|harvest`: exit codes and output."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyref.cli.entry import run
from tinyref.dtype import dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.corpus import folder as folders
from tinyref_fuzz.corpus.folder import SHIPPED
from tinyref_fuzz.programs.record import ProgramRecord, save_program
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import CaseRecord, Pair
from tinyref_spec.kernel_case.document import record_text
from tinyref_spec.kernel_case.files import load_record, save_record

HERE = Path(__file__).parent
GOOD = regressions.FOLDER / "group-of-a-sum-in-place.json"


def tinyref(*words: object) -> int:
    return run(["fuzz", *map(str, words)])


def no_end_for_sum(node: UOp) -> None:
    if node.op is Ops.ADD and node.dtype is dtypes.int32:
        time.sleep(1000)


def difference_for_sum(node: UOp) -> UOp | None:
    if node.op is Ops.ADD and node.dtype is dtypes.int32:
        return UOp(Ops.SUB, node.dtype, node.src)
    return None


# Python runs a module of this name when it starts.
SITE = """
import pytest
from faults import in_stage
from test_fuzz_case_cli import {change}

in_stage("lower", {change})(pytest.MonkeyPatch())
"""


@pytest.fixture
def inject(monkeypatch, tmp_path_factory):
    """Make every process that starts from now on lower wrongly."""

    def inject_change(change: Callable[[UOp], UOp | None]) -> None:
        folder = tmp_path_factory.mktemp("site")
        (folder / "sitecustomize.py").write_text(SITE.format(change=change.__name__))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(HERE)]))

    return inject_change


@pytest.fixture
def wrong(inject):
    """Inject a compiler that subtracts where it should add."""
    inject(difference_for_sum)


# --- replay, show, reduce -----------------------------------------------------------------------


@pytest.mark.long
def test_replay_of_a_case_that_fails(capsys, wrong):
    assert tinyref("replay", GOOD, "--device", "PYTHON") == 1
    output = capsys.readouterr().out
    assert "PYTHON: between the evaluator and the plain program: another value" in output
    assert "without optimisations" in output
    assert "stage: lower" in output


@pytest.mark.long
def test_show_has_both_sides(capsys, wrong):
    assert tinyref("show", GOOD, "--device", "PYTHON") == 0
    output = capsys.readouterr().out
    assert "note: GROUP of a kernel that adds" in output
    assert "REDUCE" in output


@pytest.mark.long
def test_the_script_shows_the_fault_by_itself(capsys, wrong, tmp_path):
    assert tinyref("show", GOOD, "--device", "PYTHON", "--script") == 0
    script = capsys.readouterr().out
    assert len(script.splitlines()) <= 40
    file = tmp_path / "script.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, file], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("wrong: element ")


@pytest.mark.long
def test_there_is_no_script_of_a_healthy_case(capsys):
    assert tinyref("show", GOOD, "--device", "PYTHON", "--script") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert f"show: {GOOD} does not fail on PYTHON: there is no fault to show" in output.err


@pytest.mark.long
def test_reduce_writes_a_smaller_case(capsys, tmp_path, wrong):
    path = tmp_path / "it.json"
    shutil.copy(GOOD, path)
    assert tinyref("reduce", path, "--device", "PYTHON", "--budget", "3s") == 0
    output = capsys.readouterr().out
    assert f"wrote {tmp_path / 'it-reduced.json'}" in output
    small = load_record(tmp_path / "it-reduced.json")
    assert small.verdict is not None
    assert small.verdict.pair is Pair.PLAIN
    assert small.blame is not None
    assert len(small.case.ast.toposort()) < len(load_record(GOOD).case.ast.toposort())


@pytest.mark.long
def test_reduce_of_a_healthy_case_is_refused(capsys):
    assert tinyref("reduce", GOOD, "--device", "PYTHON") == 2
    assert "does not fail on PYTHON: there is nothing to reduce" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("command", ["replay", "reduce", "show"])
def test_bad_files_and_devices_are_refused_in_one_line(command, capsys, tmp_path):
    assert tinyref(command, tmp_path / "none.json") == 2
    (tmp_path / "bad.json").write_text("{")
    assert tinyref(command, tmp_path / "bad.json") == 2
    assert tinyref(command, GOOD, "--device", "GPU9") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("tinyref: error: ") for line in lines)
    assert "none.json: no such file" in lines[0]
    assert "bad.json: is no JSON" in lines[1]
    assert "unknown device 'GPU9'" in lines[2]


@pytest.mark.parametrize("command", ["replay", "reduce", "show"])
@pytest.mark.parametrize("device", ["evil:X", "evil:", "evil:X:1", "DISK:/tmp/x", "CPU:\u00b2"])
def test_what_a_file_names_is_not_imported(command, device, capsys, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("open('was-here', 'w')\n")
    monkeypatch.chdir(tmp_path)
    case = save_record("a case.json", CaseRecord(load_record(GOOD).case, device=device))
    assert tinyref(command, case) == 2
    assert capsys.readouterr().err == (
        f"tinyref: error: device: a case.json names {device!r}, which is not the name of an "
        "installed device: a file may not choose what code runs; if you trust it: "
        f"tinyref fuzz {command} 'a case.json' --device {shlex.quote(device)}\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a case.json", "evil.py"]


@pytest.mark.long
@pytest.mark.usefixtures("workers_import_test_devices")
def test_a_class_that_the_user_names_is_imported(capsys, tmp_path):
    case = save_record(
        tmp_path / "it.json", CaseRecord(load_record(GOOD).case, device="campaign_devices:Healthy")
    )
    assert tinyref("replay", case, "--device", "campaign_devices:Healthy") == 0
    assert capsys.readouterr().out.startswith("campaign_devices:Healthy: all agree")


@pytest.mark.long
@pytest.mark.parametrize("device", ["PYTHON", "python:0"])
def test_the_name_of_an_installed_device_is_taken_from_a_file(device, capsys, tmp_path):
    case = save_record(tmp_path / "it.json", CaseRecord(load_record(GOOD).case, device=device))
    assert tinyref("replay", case) == 0
    assert capsys.readouterr().out.startswith("PYTHON: all agree")


@pytest.mark.long
def test_a_case_without_an_end_on_the_interpreter(capsys, inject):
    inject(no_end_for_sum)
    assert tinyref("replay", GOOD, "--device", "PYTHON", "--timeout", "1s") == 1
    output = capsys.readouterr().out
    assert "PYTHON: between the evaluator and the plain program: no end in sight" in output
    assert "no end within 1 s" in output


# --- keep ---------------------------------------------------------------------------------------


def test_keep_writes_a_regression(capsys, tmp_path):
    case = save_record(tmp_path / "found.json", CaseRecord(load_record(GOOD).case, device="CPU"))
    words = ["--name", "a-new-one", "--note", "It was wrong once.", "--out", tmp_path]
    assert tinyref("keep", case, *words) == 0
    assert "run it: tinyref conform --query kernel.regression.a-new-one" in capsys.readouterr().out
    record = load_record(tmp_path / "a-new-one.json")
    assert (record.note, record.device) == ("It was wrong once.", "CPU")
    assert record.case.ast is load_record(GOOD).case.ast
    assert tinyref("keep", case, *words) == 2
    assert "already exists: choose another name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "note", "message"),
    [
        ("Bad", "It was.", "keep: name 'Bad', accepted are words in lower case"),
        ("../up", "It was.", "keep: name '../up', accepted are words"),
        ("good", "no dot", "note: expected a line on what it found"),
    ],
)
def test_bad_names_and_notes_are_refused(name, note, message, capsys, tmp_path):
    assert tinyref("keep", GOOD, "--name", name, "--note", note, "--out", tmp_path) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_case_that_still_fails_is_not_kept(capsys, tmp_path, wrong):
    assert tinyref("keep", GOOD, "--note", "It was wrong once.", "--out", tmp_path) == 2
    assert "still fails, between the evaluator and the plain program" in capsys.readouterr().err


# --- corpus -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_shipped_files_have_no_problems(capsys):
    assert tinyref("corpus", "check") == 0
    files = sum(len(folders.files_of(folder)) for folder in SHIPPED)
    assert f"{files} files, 0 with a problem, on CPU" in capsys.readouterr().out


@pytest.mark.long
def test_check_lists_problems(capsys, tmp_path):
    good = load_record(GOOD).case
    save_record(tmp_path, CaseRecord(good))
    renamed = tmp_path / "case-000000000000.json"
    renamed.write_text(record_text(CaseRecord(good)))
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "note.txt").write_text("not looked at")
    assert tinyref("corpus", "check", tmp_path, "--device", "PYTHON") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "broken.json: case, schema: expected 'tinyref.case', got None" in lines[0]
    assert "case-000000000000.json: its name says 000000000000, its content is" in lines[1]
    assert lines[2] == "3 files, 2 with a problem, on PYTHON"


@pytest.mark.usefixtures("workers_import_test_devices")
def test_a_device_that_does_not_work_ends_the_check(capsys, tmp_path):
    save_record(tmp_path, load_record(GOOD))
    assert tinyref("corpus", "check", tmp_path, "--device", "campaign_devices:Missing") == 2
    assert "is not available here: no driver" in capsys.readouterr().err


def test_a_missing_folder_is_refused(capsys, tmp_path):
    assert tinyref("corpus", "check", tmp_path / "none") == 2
    assert "none: cannot be read: No such file or directory" in capsys.readouterr().err


# --- harvest ------------------------------------------------------------------------------------


@pytest.mark.long
def test_harvest_writes_a_file(capsys, tmp_path, monkeypatch):
    (tmp_path / "user.py").write_text(
        "from tinyref import Tensor\n(Tensor.ones(3).contiguous().realize() + 1).realize()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert tinyref("harvest", "user.py", "--device", "PYTHON") == 0
    assert capsys.readouterr().out.startswith("wrote user-kernels.json: 2 of 2 kernels")
    assert tinyref("corpus", "check", tmp_path) == 0


@pytest.mark.long
def test_harvest_gives_a_program_its_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "works.py").write_text(
        "import sys\nfrom tinyref import Tensor\n"
        "(Tensor.ones(4).contiguous() * len(sys.argv[1:])).sum().realize()\n"
        "assert sys.argv[1:] == ['--epochs', '3']\n"
    )
    assert run(["fuzz", "harvest", "works.py", "--", "--epochs", "3"]) == 0


def test_harvest_of_a_missing_file_is_refused_in_one_line(capsys):
    assert tinyref("harvest", "none.py") == 2
    assert capsys.readouterr().err == "tinyref: error: harvest: none.py: no such file\n"


# --- tensor programs ------------------------------------------------------------------------------


def program_file(folder: Path, *steps: ProgramStep) -> Path:
    return save_program(folder / "program.json", ProgramRecord(TensorProgram(steps)))


def test_a_program_of_which_a_read_is_too_large_is_no_bug(tmp_path, capsys):
    huge = ProgramStep("full", (), (1,), ("int32", (10**6, 10**9), 3, 0))
    file = program_file(tmp_path, huge, ProgramStep("read", (1,)))
    assert tinyref("show", file, "--device", "CUDA", "--script") == 2
    assert capsys.readouterr().err.startswith("tinyref: error: MemoryError")


def test_no_code_of_a_program_file_runs(tmp_path, capsys):
    mark = tmp_path / "mark"
    code = f"1,)\nopen({str(mark)!r}, 'w').close()\n(1"
    steps = (
        ProgramStep("data", (), (1,), ("int32", (1,), (5,), 0, False)),
        ProgramStep("function", (2,), (3,), ((code,),), (ProgramStep("neg", (2,), (4,)),)),
        ProgramStep("read", (1,)),
    )
    file = program_file(tmp_path, *steps)
    for command in ("replay", "show", "reduce"):
        assert tinyref(command, file, "--device", "PYTHON") == 2
        assert "steps[1].values[0]: expected an integer" in capsys.readouterr().err
    assert tinyref("corpus", "check", tmp_path, "--device", "PYTHON") == 1
    assert not mark.exists()
