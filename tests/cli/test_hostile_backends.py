"""Test that each command reports any fault of a backend, and ends properly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import RunTinyref

HERE = Path(__file__).parent
DEVICE = "hostile_backends:Hostile"
CASE = "isa.binary.add.int32.special:0"
# If the device does not open, `conform` exits with the code of a failure, and with a report.
COMMANDS = {
    "devices": f"devices {DEVICE} PYTHON".split(),
    "conform": f"conform --device {DEVICE} --query {CASE} --jobs 1 --timeout 2s".split(),
    "fuzz": f"fuzz --device {DEVICE} --kernels 1 --jobs 1 --timeout 2s".split(),
    "explain": ["explain", "Tensor([2, 3]) * 2", "--device", DEVICE],
    "bench": ["bench", "--query", "launch", "--repeats", "1"],
}
COMMANDS["conform"].append("--no-rerun-failures")
Ended = Callable[..., tuple[int, str]]


@pytest.fixture
def ended(run_tinyref: RunTinyref, monkeypatch: pytest.MonkeyPatch) -> Ended:
    """Return a function that runs a command on the hostile device: its exit code and output."""

    def run(name: str, member: str, how: str, query: str = CASE) -> tuple[int, str]:
        arguments = [query if word == CASE else word for word in COMMANDS[name]]
        flags = {"TINYREF_OPEN_SECONDS": "2", "TINYREF_CACHE": "0"}
        if name == "bench":
            flags["TINYREF_DEVICE"] = DEVICE
        monkeypatch.syspath_prepend(HERE)
        done = run_tinyref(*arguments, **flags, FAULT_MEMBER=member, FAULT_HOW=how)
        text = done.out + done.err
        assert not set(text) & {"\x00", "\x1b"}
        return done.code, text

    return run


OPENING = [
    ("import", "leaves", "exit code 0"),
    ("import", "exits", "SystemExit: 0"),
    ("import", "hangs", "no answer within 2 s"),
    ("import", "segfaults", "killed by SIGSEGV"),
    ("import", "raises", "TypeError: a typo in import"),
    ("availability", "leaves", "exit code 0"),
    ("availability", "wordless", "WordlessError: (its str() raises ValueError)"),
    ("availability", "None", "gives no Availability, but None"),
    ("opened", "leaves", "exit code 0"),
    ("opened", "segfaults", "killed by SIGSEGV"),
    ("opened", "hangs", "no answer within 2 s"),
    ("opened", "wordless", "WordlessError: (its str() raises ValueError)"),
    ("opened", "surrogates", r"RuntimeError: lone \udc80 and \x1b[31m red"),
    ("opened", "exits", "SystemExit: 0"),
    ("opened", "writes", "bytes to a descriptor that is not its own"),
    ("opened", "closes", "a descriptor that is not its own"),
    ("capabilities", "segfaults", "killed by SIGSEGV"),
    ("capabilities", "raises", "TypeError: a typo in capabilities"),
    ("capabilities", "list", "capabilities: gives [1], accepted is Capabilities"),
]


@pytest.mark.long
@pytest.mark.sampled(16)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("member", "how", "says"), OPENING)
def test_a_device_that_does_not_open_is_told_for_what_it_is(
    ended: Ended, tmp_path: Path, command: str, member: str, how: str, says: str
) -> None:
    code, text = ended(command, member, how)
    # `tinyref devices` breaks long lines.
    assert says in " ".join(text.split())
    assert code in (1, 2)
    assert "bug in tinyref" not in text
    reports = list(tmp_path.rglob("report.json"))
    assert bool(reports) == (command == "conform")
    if command == "devices":
        # A device that cannot be asked does not stop questions to the others.
        assert "PYTHON   works" in text


# Each member, its fault, and the words of the report.
MEMBERS = [
    ("renderer", "raises", "renderer: raises TypeError: a typo in renderer"),
    ("renderer", "None", "renderer: gives None, accepted is a Renderer"),
    ("renderer.render", "raises", "renderer.render of e_"),
    ("renderer.render", "bytes", "gives b'bytes', accepted is str"),
    ("compiler.key", "raises", "compiler.key: raises TypeError: a typo in compiler.key"),
    ("compiler.key", "number", "compiler.key: gives 7, accepted is str"),
    ("compiler.compile", "raises", "raises TypeError: a typo in compiler.compile"),
    ("compiler.compile", "text", "gives 'text', accepted is bytes"),
    ("load", "raises", "raises TypeError: a typo in load"),
    ("load", "None", "gives None, accepted is a kernel to call"),
    ("interpret", "raises", "raises TypeError: a typo in interpret"),
    ("interpret", "text", "gives 'text', accepted is a kernel to call, or None"),
    ("launch", "raises", "raises TypeError: a typo in launch"),
    ("launch", "exits", "raises SystemExit: 0"),
    ("launch", "text", "gives 'text', accepted is seconds, or None"),
    ("allocator", "None", "allocator: gives None, accepted is an Allocator"),
    ("allocator.allocate", "raises", "raises TypeError: a typo in allocator.allocate"),
    ("allocator.allocate", "None", "gives None, accepted is a handle"),
    ("allocator.copy_in", "raises", "raises TypeError: a typo in allocator.copy_in"),
    ("allocator.copy_out", "wordless", "raises WordlessError: (its str() raises ValueError)"),
]


@pytest.mark.long
@pytest.mark.sampled(13)
@pytest.mark.parametrize("command", ["explain", "conform", "fuzz"])
@pytest.mark.parametrize(("member", "how", "says"), MEMBERS)
def test_what_a_member_raises_or_gives_wrongly_is_the_vendors(
    ended: Ended, tmp_path: Path, command: str, member: str, how: str, says: str
) -> None:
    code, text = ended(command, member, how)
    assert "bug in tinyref" not in text
    if command == "fuzz" and member in ("compiler.key", "interpret"):
        # The fuzzer does not cache compiled programs, so it asks for no key.
        assert code == 0
        return
    assert code in ((1, 2) if command == "fuzz" else (1,))
    if command == "conform":
        text = next(tmp_path.rglob("report.json")).read_text()
        assert says in text.replace('\\"', '"')
    if command == "explain":
        assert says in text
        # The error names the backend, the member, and the line in the vendor's file.
        assert f"tinyref: error: {DEVICE}: " in text
        assert f": {member}" in text
        if how == "raises":
            assert "hostile_backends.py" in text


@pytest.mark.long
def test_memory_that_is_not_freed_fails_the_case(ended: Ended) -> None:
    # Copies free their memory at once; memory of kernels is kept for the next case.
    code, text = ended("conform", "allocator.free", "raises", "memory.copy.int32")
    assert code == 1
    assert "memory is not freed: hostile_backends:Hostile: allocator.free: raises Type" in text


@pytest.mark.long
def test_versions_that_are_none_are_the_vendors(ended: Ended) -> None:
    code, text = ended("devices", "versions", "number")
    assert code == 1
    assert "versions: gives 7, accepted is a dict of texts" in text


@pytest.mark.long
def test_a_kernel_that_ends_the_process_does_not_pass_for_an_explanation(ended: Ended) -> None:
    code, text = ended("explain", "launch", "segfaults")
    assert code == 1
    assert "the process that ran the device ended: killed by SIGSEGV" in text


@pytest.mark.long
def test_the_hostile_backend_is_healthy_where_it_has_no_fault(ended: Ended) -> None:
    assert ended("explain", "", "")[0] == 0


@pytest.mark.long
def test_a_path_in_the_name_of_a_vendors_device_is_tried_in_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package decides if the text after the colon is a path, and may end its process.
    (tmp_path / "evil.py").write_text("import os\nos._exit(0)\n")
    info = tmp_path / "evil-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tinyref.backends]\nEVIL = evil:Evil\n")
    words = ["conform", "--device", "EVIL:/some/file", "--query", "isa.binary.add.int8"]
    done = subprocess.run(
        [sys.executable, "-m", "tinyref", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "while opening the device: the worker left with exit code 0" in done.stdout
