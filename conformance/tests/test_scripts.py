"""The script of a failure: exit code 1 while it is wrong, 0 when it is right, and it says where."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import TinyrefError
from tinyref.runtimes.host.memory import HostAllocator
from tinyref.runtimes.kernel import forget_kernels
from tinyref_conformance.faulty import FAULTY_DEVICES, FaultyDevice
from tinyref_conformance.faulty.registry import ALL_FAULTY
from tinyref_conformance.report import CaseResult, Report
from tinyref_conformance.statuses import Status
from tinyref_spec import catalogue, samples
from tinyref_spec.case import Case, Failure, Profile, Row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.memory.order import long_work
from tinyref_spec.reproducer import MAX_LINES, case_script, open_script


def script_of(device: str, case_id: str) -> str:
    measured = catalogue.find(case_id).run(DeviceUnderTest(device))
    assert not measured.passed
    assert measured.details is not None
    assert measured.details.ir
    return measured.details.script


def run(script: str, folder: Path, fails: bool = False) -> tuple[int, str]:
    """Exit code and output; `fails` says that an error of the device is to be shown."""
    file = folder / "script.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, file], check=False, capture_output=True, text=True)
    assert ("Traceback" in done.stderr) is fails, done.stderr
    return done.returncode, done.stdout + (done.stderr if fails else "")


WRONG = [
    ("FloorDivision", "isa.binary.idiv.int32.edge:0", "the first node that differs is IDIV int32"),
    ("Tf32Rounding", "isa.binary.mul.float32.edge:0", "the first node that differs is MUL float32"),
    (
        "WrongItemIndex",
        "kernel.program.item.4x1x1",
        'SPECIAL int32 (CONST) Special{scope="item" dim=0} at item x 1: nothing, 1 by the',
    ),
    (
        "ReversedVectors",
        "kernel.program.vector4.float32.add",
        "LOAD float32x4 (INDEX) at iteration 0",
    ),
    ("OffByOneTail", "kernel.store.constant.float32.size:7", "element 6: expected 1.0 "),
    ("StaleOutput", "memory.launch.float32.again", "wrong after a launch with other inputs"),
    ("WrongGroupIndex", "tensor.add.float32.forward:0", "element "),
    ("Tf32Rounding", "tensor.mul.float32.backward:0", "element "),
]


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "case_id", "says"), WRONG)
def test_a_script_fails_on_the_broken_device_and_passes_on_the_healthy_one(
    name: str, case_id: str, says: str, tmp_path: Path
) -> None:
    device = FAULTY_DEVICES[name].device
    script = script_of(device, case_id)
    assert len(script.splitlines()) < MAX_LINES
    assert not re.search(r"tinyref_(spec|conformance)\b", script.replace(device, ""))
    code, out = run(script, tmp_path)
    assert code == 1, out
    assert says in out
    assert run(script.replace(device, "PYTHON"), tmp_path) == (0, "right\n")


class _DescribedError(BaseException):
    """Ends a case at its first launch, which it describes."""

    def __init__(self, describe: Callable[[], Failure]) -> None:
        super().__init__()
        self.describe = describe


def _stop_at_launch(describe: Callable[[], Failure]) -> None:
    raise _DescribedError(describe)


def run_here(script: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """Return the exit code of a script that runs in this process."""
    monkeypatch.setattr(sys, "argv", ["script.py", "--in-this-process"])
    with pytest.raises(SystemExit) as ended:
        exec(compile(script, "script.py", "exec"), {"__name__": "__main__"})
    return ended.value.code


# Each part takes seconds.
PARTS = 24


@pytest.mark.long
@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_script_of_every_expression_runs_and_is_right_on_a_right_device(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = DeviceUnderTest("PYTHON")
    device.announce = _stop_at_launch
    scripts = {}
    for case in catalogue.cases(query="tensor,model")[part::PARTS]:
        try:
            case.run(device)
        except _DescribedError as launch:
            scripts[case.id] = launch.describe().script
    assert len(scripts) > 50
    for name, script in scripts.items():
        assert run_here(script, monkeypatch) == 0, name


def script_of_failure(case: Case, name: str) -> str | None:
    """Return the script of a case that fails on a device; None if it passes."""
    described: list[Callable[[], Failure]] = []
    device = DeviceUnderTest(name)
    device.announce = described.append
    forget_kernels()
    generic = case_script(case.id, name, "quick")
    try:
        measured = case.run(device)
    except TinyrefError:
        return (described[-1]().script if described else "") or generic
    if measured.passed:
        return None
    return (measured.details.script if measured.details else "") or generic


def close(name: str) -> None:
    """Close the devices whose names begin with `name`, so that the next case opens them again.

    The kernel of `long_work` goes with it: it would be launched on the queue of the closed device.
    """
    for key in [key for key in Device._open if key.startswith(name)]:
        del Device._open[key]
    long_work.cache_clear()


def failing_case(row: Row, name: str) -> tuple[Case, str] | None:
    """Return the first case of a row that fails on a newly opened device, and its script.

    A case that fails only after others has the script of a sequence: test_history.py runs those.
    """
    for case in row.cases(Profile.QUICK):
        if case.needs.unmet(DeviceUnderTest(name).capabilities):
            continue
        if script_of_failure(case, name) is None:
            continue
        close(name)
        script = script_of_failure(case, name)
        if script is not None:
            return case, script
    return None


# Each case of these is right alone: test_history.py runs their scripts, which are of sequences.
OF_HISTORY = {"StaleKernels", "OverlappingMemory", "LeakingLaunches", "LeftMode"}
# Rows that show the fault of a device quickly. Other devices have the rows that score them.
ROWS = {
    "FirstGridAgain": "kernel.program.grids,memory.launch.float32",
    "EarlyReads": "memory.launch.float32,kernel.one_alu.add.float32,kernel.program.loop",
    "StaleOutput": "memory.launch,kernel.program.grids,kernel.one_alu.add.int32",
    # Some of their other launches reach so far beyond a buffer that they end the process.
    "SwappedItemIndices": "kernel.program.item,tensor.add.float32,tensor.sum.float32",
    "LostLoadGate": "memory.gate",
    "PrivateArrays": "kernel.program.extremes,kernel.program.boxes,kernel.program.arrays",
    # Tensor functions, whose scripts have other memory than kernels have.
    "OffByOneTail": "kernel.one_alu.add.int32,tensor.add.float32,tensor.sum.float32",
    "WrongGroupIndex": "kernel.size.int32,tensor.add.float32,tensor.sum.float32",
    "WrongItemIndex": "kernel.program.item,tensor.add.float32,tensor.sum.float32",
    "EarlyFrees": "tensor.add.float32,tensor.sum.float32",
    "EarlyFreesBehind": "tensor.add.float32,tensor.sum.float32",
    "EarlyReuse": "memory.order,system.jit.float32",
}
OTHERS = [name for name in ALL_FAULTY if name not in OF_HISTORY | ROWS.keys()]


def check_scripts(
    faulty: FaultyDevice, query: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the cases, one of each failing row, whose scripts tell the device from a right one."""
    names = []
    for row_id in dict.fromkeys(case.row for case in catalogue.cases(query=query)):
        failing = failing_case(catalogue.find_row(row_id), faulty.device)
        if failing is None:
            continue
        case, script = failing
        if not case.run(DeviceUnderTest(faulty.healthy)).passed:
            # lavapipe-1 of docs/found.md: what should be right there is not.
            continue
        for device, code in ((faulty.device, 1), (faulty.healthy, 0)):
            forget_kernels()
            close(faulty.device)
            changed = script.replace(faulty.device, device)
            # A case that runs as a whole may measure time, and remembers what it measured.
            is_case = "catalogue.find(" in changed
            ended = run(changed, folder)[0] if is_case else run_here(changed, monkeypatch)
            assert ended == code, (case.id, device)
        names.append(case.id)
    return names


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "query"),
    [
        *ROWS.items(),
        *[pytest.param(name, "", marks=pytest.mark.slow) for name in OTHERS],
    ],
)
def test_the_scripts_of_a_faulty_device_tell_it_from_a_right_one(
    name: str, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = ALL_FAULTY[name]
    available = Device.availability(faulty.healthy)
    if not available.works:
        pytest.skip(f"{faulty.healthy}: {available.reason}")
    assert check_scripts(faulty, query or faulty.query, tmp_path, monkeypatch)


@pytest.mark.long
def test_a_script_finds_a_backend_in_the_folder_where_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FAULTY_DEVICES["FloorDivision"].device
    module, _, name = device.partition(":")
    text = f"from {module} import {name}\n\n\nclass Mine({name}):\n    title = 'mine'\n"
    (tmp_path / "not_installed.py").write_text(text)
    folder = tmp_path / "conformance-mine"
    folder.mkdir()
    script = script_of(device, "isa.binary.idiv.int32.edge:0")
    monkeypatch.chdir(tmp_path)
    code, out = run(script.replace(device, "not_installed:Mine"), folder)
    assert code == 1
    assert "the first node that differs is IDIV int32" in out


@pytest.mark.parametrize("case_id", ["memory.view.uint8.offset:1", "kernel.offset.int32.offset:1"])
def test_rows_of_several_steps_have_the_script_alone(
    case_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/backend.md says which they are."""
    view = HostAllocator.view
    monkeypatch.setattr(
        HostAllocator, "view", lambda self, whole, _, size: view(self, whole, 0, size)
    )
    measured = catalogue.find(case_id).run(DeviceUnderTest("PYTHON"))
    assert not measured.passed
    assert measured.details is None


Broken = Callable[[str, str], dict[str, CaseResult]]


@pytest.fixture
def broken(conformed: Callable[..., Report]) -> Broken:
    """Return a function that runs a query on a dying device and returns the broken cases."""

    def broken(device: str, query: str) -> dict[str, CaseResult]:
        report = conformed(f"dying_devices:{device}", query, timeout=4.0)
        return {case.id: case for case in report.cases if case.status.is_broken}

    return broken


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("device", "status", "says"),
    [
        ("Aborting", Status.CRASH, "wrong: the launch ended its process: killed by SIGABRT"),
        ("Hanging", Status.TIMEOUT, "wrong: no end within 5 s"),
        ("Raising", Status.FAIL, "the driver says no"),
    ],
)
def test_a_death_carries_what_a_failure_carries(
    broken: Broken, device: str, status: Status, says: str, tmp_path: Path
) -> None:
    case_id = "kernel.one_alu.add.float32.size:2"
    cases = broken(device, "kernel.one_alu.add.float32")
    assert {name: case.status for name, case in cases.items()} == {case_id: status}
    details = cases[case_id].details
    assert details is not None
    assert details["ir"].startswith("SINK") or "STORE" in details["ir"]
    assert "ADD float32" in details["source"]
    assert details["inputs"][0]["dtype"] == "float32"
    script = details["script"]
    assert "tinyref_spec" not in script
    patient = "run(lambda: check(launch(), wanted))"
    assert patient in script
    impatient = script.replace(patient, "run(lambda: check(launch(), wanted), 5.0)")
    # On a busy machine other deaths take their time.
    code, out = run(impatient if status is Status.TIMEOUT else script, tmp_path)
    assert code == 1
    assert says in out
    assert run(script.replace(f"dying_devices:{device}", "PYTHON"), tmp_path) == (0, "right\n")


@pytest.mark.long
def test_the_launch_that_died_is_the_one_described(broken: Broken) -> None:
    (case,) = broken("SecondLaunch", "memory.launch.int32.again").values()
    assert case.status is Status.CRASH
    assert case.details is not None
    assert case.details["launch"] == 2
    first = samples.small_integers(dtypes.int32, 16, 2, 50)
    assert case.details["inputs"][0]["values"] == [str(number) for number in first]


@pytest.mark.long
def test_a_case_without_a_launch_has_the_script_of_its_case(tmp_path: Path) -> None:
    script = case_script("memory.copy.uint8.size:3", "PYTHON", "quick")
    assert run(script, tmp_path) == (0, "right\n")
    damaged = script.replace("DeviceUnderTest('PYTHON')", "None")
    assert damaged != script
    assert run(damaged, tmp_path, fails=True)[0] == 1


@pytest.mark.long
def test_the_script_of_a_device_that_does_not_open_opens_it(tmp_path: Path) -> None:
    assert run(open_script("PYTHON"), tmp_path)[0] == 0
    code, out = run(open_script("no_such_module:Device"), tmp_path)
    assert code == 1
    assert "no_such_module" in out


HOSTILE = "X'\"\nraise SystemExit(7)\r\x0c\x00\u2028\\"


@pytest.mark.parametrize("script", [case_script("id", HOSTILE, "quick"), open_script(HOSTILE)])
def test_a_hostile_name_is_quoted(script: str) -> None:
    module = ast.parse(script)
    assert not [node for node in module.body if isinstance(node, ast.Raise)]
    names = [node.value for node in ast.walk(module) if isinstance(node, ast.Constant)]
    assert HOSTILE in names
    assert len(script.splitlines()) < MAX_LINES
