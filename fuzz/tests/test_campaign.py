"""Campaigns on healthy and faulty devices: each fault costs one case, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.campaign.campaign import CampaignRequest, Summary, run
from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.campaign.report import exit_code, text
from tinyref_fuzz.findings.reproducer import reproducer
from tinyref_spec.kernel_case import Symptom
from tinyref_spec.kernel_case.files import load_record

HERE = Path(__file__).parent
SEED = 11
KERNELS = 20
# Number of kernels if the cases do not matter.
FEW = 4
pytestmark = pytest.mark.usefixtures("workers_import_test_devices")


def request(folder: Path, device: str, **members: Any) -> CampaignRequest:
    options = {
        "seed": SEED,
        "policy": "small",
        "kernels": KERNELS,
        # Each worker imports all of the fuzzer.
        "jobs": 1,
        # Other tests cover reduction and its time.
        "examine_seconds": 0.1,
        **members,
    }
    return CampaignRequest(f"campaign_devices:{device}", folder, **options)


def campaign(folder: Path, device: str, **members: Any) -> Summary:
    return run(request(folder, device, **members))


def findings(folder: Path) -> dict[int, Symptom | None]:
    database = Database.open(folder)
    try:
        return {finding.number: finding.verdict.symptom for finding in database.findings()}
    finally:
        database.close()


def totals(folder: Path) -> tuple[int, int]:
    """Return the numbers of cases and of compared optimised programs."""
    database = Database.open(folder)
    try:
        return database.totals()[:2]
    finally:
        database.close()


@pytest.fixture(scope="module")
def faulty_numbers() -> list[int]:
    """Return the cases with a chosen program, by an exception that the judge catches."""
    sys.path.insert(0, str(HERE))
    try:
        stream = islice(judge_cases("campaign_devices:Raising", SEED, "small"), KERNELS)
        return [number for number, _, verdict, _ in stream if not verdict.agrees]
    finally:
        sys.path.remove(str(HERE))


@pytest.mark.long
def test_a_healthy_device_agrees_and_only_the_same_campaign_is_resumed(tmp_path: Path):
    summary = campaign(tmp_path, "Healthy")
    assert (summary.cases, summary.findings, summary.incomplete) == (KERNELS, 0, "")
    assert summary.judged > KERNELS
    assert exit_code(summary) == 0
    assert "campaign_devices:Healthy: 20 kernels judged, all agree" in text(summary)
    check_that_no_other_is_resumed(tmp_path)


def check_that_no_other_is_resumed(folder: Path) -> None:
    with pytest.raises(UserError, match=r"seed: 11 -> 12: use --resume --restart"):
        campaign(folder, "Healthy", seed=12, resume=True)
    with pytest.raises(UserError, match="policy: small -> all"):
        campaign(folder, "Healthy", policy="all", resume=True)
    with pytest.raises(
        UserError, match="device: campaign_devices:Healthy -> campaign_devices:Wrong"
    ):
        campaign(folder, "Wrong", resume=True)
    connection = Database.open(folder)._connection
    connection.execute("update config set value = '\"0.0.1-abc\"' where key = 'code'")
    connection.close()
    with pytest.raises(UserError, match=r"code: 0\.0\.1-abc -> 0"):
        campaign(folder, "Healthy", resume=True)
    with pytest.raises(UserError, match="policy: 'odd'"):
        campaign(folder, "Healthy", policy="odd")


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernels", [FEW, FEW + 5])
def test_a_campaign_is_not_resumed_on_a_device_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: int
):
    """Check that neither an unfinished nor a finished campaign is resumed."""
    folder = tmp_path / "campaign"
    campaign(folder, "Healthy", kernels=FEW)
    with monkeypatch.context() as patch:
        patch.setenv("TINYREF_TRANSCENDENTAL", "1")
        with pytest.raises(
            UserError, match=r"flag TRANSCENDENTAL: \(none\) -> 1: use --resume --re"
        ):
            campaign(folder, "Healthy", resume=True, kernels=kernels)
        again = run(CampaignRequest("campaign_devices:Healthy", folder, resume=True, restart=True))
    assert (again.seed, again.policy, again.cases) == (SEED, "small", FEW)
    assert (folder / "campaign.previous.sqlite").exists()
    with pytest.raises(UserError, match=r"flag TRANSCENDENTAL: 1 -> \(none\)"):
        campaign(folder, "Healthy", resume=True)


@pytest.mark.long
def test_flags_belong_to_what_a_campaign_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faulty_numbers: list[int]
):
    monkeypatch.setenv("TINYREF_STRICT_FLOAT", "0")
    monkeypatch.setenv("TINYREF_CPU_LEVEL", "2")
    # Only up to the first case that shows the fault.
    summary = campaign(tmp_path, "Wrong", kernels=faulty_numbers[0] + 1)
    flags = "TINYREF_STRICT_FLOAT=0 TINYREF_CPU_LEVEL=2"
    lines = text(summary).splitlines()
    assert f"under {flags}" in lines
    assert "not a conformance run: TINYREF_STRICT_FLOAT=0 changes numbers" in lines
    replays = [line for line in lines if line.strip().startswith("replay")]
    assert replays
    assert all(line.startswith(f"   replay  {flags} tinyref fuzz replay ") for line in replays)
    record = load_record(summary.buckets[0].file)
    assert record.note.endswith(f", {flags}")
    script = reproducer(record.case, record.verdict, "campaign_devices:Wrong")
    assert "os.environ.update({'TINYREF_STRICT_FLOAT': '0', 'TINYREF_CPU_LEVEL': '2'" in script


@pytest.mark.long
def test_options_that_are_not_set_are_resumed(tmp_path: Path):
    campaign(
        tmp_path / "folder",
        "Healthy",
        kernels=5,
        seconds=900.0,
        timeout=7.0,
        memory=900 << 20,
        corpus=tmp_path / "corpus",
    )
    before = resumed(tmp_path / "folder")
    assert (before.seed, before.policy, before.kernels) == (SEED, "small", 5)
    assert (before.seconds, before.timeout, before.memory) == (900.0, 7.0, 900 << 20)
    assert before.corpus == tmp_path / "corpus"
    # The time limit continues where it stopped.
    assert 0.0 < before.used < 900.0
    changed = resumed(tmp_path / "folder", timeout=8.0)
    assert (changed.timeout, changed.memory, changed.seconds) == (8.0, 900 << 20, 900.0)
    assert changed.used >= before.used
    # An option that is set replaces the stored one; a new time limit starts from 0.
    options = {"kernels": 4, "seconds": 700.0, "memory": 800 << 20, "corpus": tmp_path / "other"}
    assert resumed(tmp_path / "folder", **options).used == 0.0
    again = resumed(tmp_path / "folder")
    assert (again.kernels, again.seconds, again.timeout) == (4, 700.0, 8.0)
    assert (again.memory, again.corpus) == (800 << 20, tmp_path / "other")


def resumed(folder: Path, **members: Any) -> CampaignRequest:
    """Return the complete request of a resumed campaign."""
    requests: list[CampaignRequest] = []
    request = CampaignRequest("campaign_devices:Healthy", folder, resume=True, **members)
    run(request, started=requests.append)
    return requests[0]


@pytest.mark.long
def test_a_wrong_result_is_stored_as_a_case(tmp_path: Path):
    summary = campaign(tmp_path, "Wrong", jobs=2)
    assert summary.cases == KERNELS
    assert summary.findings >= 2
    assert set(findings(tmp_path).values()) == {Symptom.VALUE}
    assert exit_code(summary) == 1
    bucket = summary.buckets[0]
    assert load_record(bucket.file).case.ast.src
    # A module that is not installed is only imported if the command names it.
    assert f"replay {bucket.file} --device campaign_devices:Wrong\n" in text(summary)
    assert f"seed {SEED}" in text(summary)
    # It also fails in a new process.
    assert bucket.examination.problem == ""


@pytest.mark.slow
def test_a_finding_says_that_it_depends_on_what_was_judged_before(tmp_path: Path):
    summary = campaign(tmp_path, "LeavingAState")
    assert summary.findings >= 1
    words = "alone in a fresh process it agrees: it depends on what was judged before it"
    assert all(bucket.examination.problem.startswith(words) for bucket in summary.buckets)
    assert "note    alone in a fresh process it agrees" in text(summary)


@pytest.mark.long
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("device", "symptom", "message", "members"),
    [
        ("Raising", Symptom.ERROR, "the queue is broken", {}),
        ("Crashing", Symptom.CRASH, "killed by SIGSEGV", {"jobs": 2}),
        ("Hanging", Symptom.HANG, "no end within 4 s", {"timeout": 4.0, "jobs": 2}),
        ("Eating", Symptom.MEMORY, "held over 600 MiB", {"memory": 600 << 20, "jobs": 2}),
    ],
)
def test_a_fault_costs_one_case_and_the_rest_goes_on(
    tmp_path: Path,
    faulty_numbers: list[int],
    device: str,
    symptom: Symptom,
    message: str,
    members: dict[str, Any],
):
    assert 2 <= len(faulty_numbers) < KERNELS
    summary = campaign(tmp_path, device, **members)
    assert (summary.cases, summary.incomplete) == (KERNELS, "")
    assert findings(tmp_path) == dict.fromkeys(faulty_numbers, symptom)
    assert all(message in bucket.examination.detail for bucket in summary.buckets)
    assert all(load_record(bucket.file).case.buffers for bucket in summary.buckets)
    assert exit_code(summary) == 1


@pytest.mark.long
def test_a_device_that_does_not_open_is_an_error_with_the_reason(tmp_path: Path):
    with pytest.raises(UserError, match="no driver: install faulty-driver"):
        campaign(tmp_path, "Missing")
    with pytest.raises(UserError, match="exit code 9\nfirmware mismatch"):
        campaign(tmp_path, "DyingAtOpen")


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_the_result(tmp_path: Path):
    for jobs in (1, 3):
        campaign(tmp_path / str(jobs), "Wrong", jobs=jobs, kernels=70)
    assert findings(tmp_path / "1") == findings(tmp_path / "3")
    assert totals(tmp_path / "1") == totals(tmp_path / "3")


def started(folder: Path, device: str, kernels: int) -> subprocess.Popen[bytes]:
    """Start a campaign in its own process, from the command line."""
    words = ["--device", f"campaign_devices:{device}", "--out", str(folder), "--seed", str(SEED)]
    words += ["--policy", "small", "--kernels", str(kernels), "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "tinyref.cli", "fuzz", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "nothing happened"
        time.sleep(0.05)


def has_cases(folder: Path) -> bool:
    try:
        database = Database.open(folder)
    except UserError:
        return False
    try:
        return database.has_results()
    finally:
        database.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_a_killed_campaign_goes_on_where_it_stopped(tmp_path: Path):
    whole = campaign(tmp_path / "whole", "Wrong", kernels=120)
    folder = tmp_path / "killed"
    process = started(folder, "Wrong", 120)
    wait_for(lambda: has_cases(folder))
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Its workers end too.
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    database = Database.open(folder)
    assert 0 < database.totals()[0] < 120
    database.close()
    # Resume with another number of workers.
    resumed = campaign(folder, "Wrong", seed=None, policy=None, kernels=None, resume=True, jobs=3)
    assert (resumed.cases, resumed.seed, resumed.policy) == (120, SEED, "small")
    assert resumed.judged == whole.judged
    assert findings(folder) == findings(tmp_path / "whole")
    assert totals(folder) == totals(tmp_path / "whole")
