"""Runs that judge a library: commands, expectations, and who may skip."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports_of import report_of

from tinyref.cli.entry import run
from tinyref_conformance import expectations_file
from tinyref_conformance import report as reports
from tinyref_conformance.conform import conform
from tinyref_conformance.report import CaseResult
from tinyref_conformance.reports import terminal
from tinyref_conformance.reports.html import html
from tinyref_conformance.reports.markdown import markdown
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import SUBJECTS, Suite
from tinyref_conformance.worker import ConformWorker
from tinyref_spec.case import Measurement, NotOfferedError, Profile, Rung
from tinyref_spec.catalogue import find
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.reproducer import case_script
from tinyref_spec.subjects import catalogue
from tinyref_spec.subjects.catalogue import open_device

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_scripts_name_the_library() -> None:
    script = case_script("tensor.sum.float32.forward:0", "numpy on cpu", "quick")
    assert "run(open_device('numpy on cpu'))" in script
    assert "DeviceUnderTest" not in script


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(Path(catalogue.__file__).parent.glob("*.toml")))
def test_each_difference_names_cases(path: Path) -> None:
    expectations = expectations_file.load(path, path.stem)
    ids = [
        case.id
        for profile in Profile
        for row in Suite(SUBJECTS).rows(profile)
        for case in row.cases(profile)
    ]
    assert expectations.entries
    assert expectations.unmatched(ids) == []


def modules(folder: Path) -> None:
    """Return two array modules: numpy, and numpy whose round takes ties away from zero."""
    (folder / "right_arrays.py").write_text("from numpy import *\n" + _INFO)
    (folder / "wrong_arrays.py").write_text(
        "from numpy import *\n" + _INFO + "round = lambda x: trunc(x + copysign(0.5, x))\n"
    )


@pytest.mark.slow
def test_a_backend_outside_of_torch_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass the documented example. With a wrong kernel its rows fail, and their script says so."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES), str(tmp_path), *sys.path]))
    (tmp_path / "torch_wrong.py").write_text(
        "import torch_mine\n"
        "wrong = lambda x: torch_mine.on_device(torch_mine.on_host(x).abs())\n"
        'torch_mine.KERNELS.impl("relu", wrong, "PrivateUse1", allow_override=True)\n'
    )
    query = ["--query", "tensor.relu.float32,tensor.softmax.float32"]
    for package, failed in (("torch_mine", set()), ("torch_wrong", {"tensor.relu.float32"})):
        words = ["--subject", "torch", "--on", "mine", "--import", package, *query]
        code = run(["conform", *words, "--out", str(tmp_path / package)])
        assert code == (1 if failed else 0)
        cases = reports.load(tmp_path / package / "report.json").cases
        assert len(cases) > 4
        assert {case.row.rpartition(".")[0] for case in cases if case.status is Status.FAIL} == (
            failed
        )
    script = [sys.executable, str(tmp_path / "torch_wrong" / "reproduce.py")]
    right = "import torch_mine"
    for package, code in ((None, 1), (right, 0), ("import torch", 2), ("import no_package", 2)):
        if package:
            (tmp_path / "torch_wrong.py").write_text(package)
        done = subprocess.run(script, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("install: pip install numpy torch torch_wrong" in done.stdout) is (code == 2)


_INFO = """
import numpy
from numpy import __array_namespace_info__
from numpy import abs, all, any, max, min, pow, round, sum, bool
"""


@pytest.mark.slow
def test_a_run_passes_and_fails_where_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the command, its workers and its report."""
    modules(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.chdir(tmp_path)
    query = "tensor.special.literal.round_ties,tensor.softmax.float32.forward"
    for name, code in (("right", 0), ("wrong", 1)):
        command = ["conform", "--subject", f"array-api:{name}_arrays", "--query", query]
        assert run([*command, "--out", name]) == code
    report = reports.load(tmp_path / "wrong" / "report.json")
    cases = {case.id: case for case in report.cases}
    failed = cases["tensor.special.literal.round_ties"]
    assert failed.status is Status.FAIL
    assert failed.message.endswith(
        "expected [0.0, 2.0, 2.0, -0.0, -2.0], got [1.0, 2.0, 3.0, -1.0, -3.0]"
    )
    assert "--subject array-api:wrong_arrays --on default" in failed.repro
    skipped = cases["tensor.softmax.float32.forward:0"]
    assert (skipped.status, skipped.message) == (
        Status.SKIP,
        "wrong_arrays: the array API has no softmax",
    )
    versions = {"wrong_arrays": np.__version__, "numpy": np.__version__}
    assert report.certificate["device_versions"] == versions


@pytest.mark.long
def test_an_update_leaves_the_differences_of_a_library_out(tmp_path: Path) -> None:
    """Known differences of numpy fail in `gather`; `abs` passes, so its entry goes."""
    why = 'phase = "accuracy"\nreason = "it is new"\nlink = "https://example.org/1"\n'
    remaining = (
        f'schema = 1\ndevice = "numpy on cpu"\n# ours\n[[expected]]\nquery = "tensor.exp"\n{why}'
    )
    file = tmp_path / "known.toml"
    new = ["--update-expectations", "--reason", "new", "--link", "https://example.org/2"]
    query = ["--query", "tensor.gather.float32.forward,tensor.abs.float32.forward"]
    words = ["conform", "--subject", "numpy", *query, "--expectations", str(file)]
    file.write_text(f'{remaining}\n[[expected]]\nquery = "tensor.abs"\n{why}')
    assert run([*words, *new, "--out", str(tmp_path / "report")]) == 0
    assert reports.load(tmp_path / "report" / "report.json").counts[Status.EXPECTED_FAIL] == 1
    assert file.read_text() == f"{remaining}\n"
    file.unlink()
    assert run([*words, *new, "--out", str(tmp_path / "report")]) == 0
    assert "[[expected]]" not in file.read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["array-api:no_such_library"],
        ["array-api:numpy.no_such_module"],
        ["array-api:math"],
        ["numpy", "--import", "no_such_package"],
        ["numpy", "--on", "nowhere"],
    ],
)
def test_a_library_that_does_not_open_is_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    query = ["--query", "tensor.abs.float32.forward"]
    assert run(["conform", "--subject", *words, *query, "--out", str(tmp_path)]) == 1
    assert reports.load(tmp_path / "report.json").cases[0].status is Status.FAIL
    printed = capsys.readouterr().out
    assert "the device does not open: device.open" in printed
    assert "not run: 1 case" in printed
    # Neither helps: there is nothing that could run.
    assert "--keep-going" not in printed
    assert "--rerun-failures" not in printed


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--subject", "torch", "--device", "CPU"], "leave out --device"),
        (["--on", "cpu"], "they go with --subject"),
        (["--subject", "tensorflow"], "accepted are torch, torch-compile, numpy, jax"),
    ],
)
def test_options_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert run(["conform", *words]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.long
def test_a_library_that_ends_none_of_its_first_cases_is_too_slow(fake: Any) -> None:
    """Three time-outs at the start judge no library; a device that does so hangs."""
    asked = fake.scenario("slow_start").request(timeout=0.5)
    library = replace(asked, settings=replace(asked.settings, device="numpy on cpu"))
    report = conform(library).report
    words = (
        "too slow here: none of the first 3 cases ended within 0.5 s of processor time; "
        "--timeout gives them more"
    )
    assert report.problems == report.reductions == [words]
    assert report.counts == {Status.NOT_RUN: 4}
    assert "does not show that it conforms" in report.verdict
    assert report.exit_code == 1
    device = replace(asked, settings=replace(asked.settings, restart=True))
    assert conform(device).report.counts == {Status.TIMEOUT: 3, Status.PASS: 1}


def _library_report(*skipped: CaseResult) -> reports.Report:
    passed = ("tensor.add.float32.0", Status.PASS)
    return report_of(passed, *skipped, rung=Rung.TENSOR, device="jax on cpu")


def test_the_report_of_a_library_says_how_much_was_asked() -> None:
    """Check the verdict, terminal, page, summary and file; a device has no such count."""
    reasons = (
        "jax.numpy: the array API has no gather",
        "the device does not declare the dtype uint16",
        "mlx: has no gradients",
        "it is about how tinyref words its errors",
        "left open by the array API: the largest of no elements",
    )
    skipped = [
        CaseResult(f"tensor.b.float32.{number}", "tensor.b.float32", Status.SKIP, message=reason)
        for number, reason in enumerate(reasons)
    ]
    report = _library_report(*skipped)
    assert report.verdict == (
        "jax on cpu conforms to the quick profile of the tensor rows: 1 of 6 cases asked"
    )
    sentence = (
        "not asked: 2 functions, arguments or types that the library lacks; "
        "2 about tinyref, or left open by the standards; 1 gradients"
    )
    printed = " ".join(" ".join(terminal.summary(report)).split())
    assert sentence in printed
    assert sentence.capitalize() in markdown(report)
    assert sentence.capitalize() in html(report)
    assert report.to_json()["scope"] == {
        "cases": 6,
        "asked": 1,
        "not_asked": {
            "functions, arguments or types that the library lacks": 2,
            "about tinyref, or left open by the standards": 2,
            "gradients": 1,
        },
    }
    device = report_of(("isa.add.int32.0", Status.PASS))
    assert device.scope is None
    assert "scope" not in device.to_json()
    assert "cases asked" not in device.verdict


def test_the_report_of_a_library_has_the_rungs_of_libraries() -> None:
    report = _library_report()
    titles = {rung["rung"] for rung in report.to_json()["ladder"]}
    assert titles == {"OPEN", "TENSOR"}
    assert Rung.ALU.title not in markdown(report)
    device = report_of(("isa.add.int32.0", Status.PASS))
    assert len(device.to_json()["ladder"]) == len(Rung)


def test_a_device_may_not_leave_out_a_case(tmp_path: Path) -> None:
    """Let only libraries say that they lack something; a device declares what it has."""
    options = {
        **{"catalogue": "tinyref_spec.catalogue", "profile": "quick", "suite_hash": ""},
        **{"device": "PYTHON", "second": "", "journal": str(tmp_path / "journal.jsonl")},
    }
    worker = ConformWorker(options, lambda message: None)
    worker._device = DeviceUnderTest("PYTHON")

    def leave_out(device: object) -> Measurement:
        raise NotOfferedError("none of my business")

    case = dataclasses.replace(find("tensor.sum.float32.forward:0"), run=leave_out)
    record = worker._run(case)
    assert (record.status, record.phase) == (Status.FAIL, "run")
    assert record.message == (
        "a device cannot leave out a case as a library does: none of my business"
    )
    worker._device = open_device("numpy on cpu")
    assert worker._run(case).status is Status.SKIP
