"""Test bad input: exit code 2, and a one-line error with the value and what is accepted."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinyref import config
from tinyref.cli import devices
from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref.workers.processes import start_process

COMMAND = [sys.executable, "-m", "tinyref.cli"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["conform", "--device", "NOPE"], "unknown device 'NOPE': accepted are"),
        (["conform", "--device", "no.such:Device"], "its package does not import"),
        (["conform", "--device", "tinyref.device:Buffer"], "accepted is a subclass of Backend"),
        (["conform", "--device", "NPY"], "NPY holds data but runs no kernels"),
        (["conform", "--device", "DISK:/tmp/file"], "DISK:/tmp/file holds data but runs no"),
        (["conform", "--device", "DISK:"], "the path is empty: accepted is the path of a file"),
        (["conform", "--profile", "huge"], "profile: got 'huge', accepted are quick, full"),
        (["conform", "--query", "isa.nothing"], "no case of profile quick matches 'isa.nothing'"),
        (["conform", "--shard", "5/4"], "shard: got '5/4', accepted is i/n"),
        (["conform", "--memory-limit", "much"], "got 'much': accepted are sizes from 64M on"),
        (["conform", "--out", "/dev/null/x"], "out: cannot write to /dev/null/x"),
        (["conform", "--expectations", "/no/file"], "cannot read /no/file"),
        (["conform", "--update-expectations"], "say which file with --expectations"),
        (["conform", "--timings", "/no/file"], "cannot read /no/file"),
        (["conform", "diff", "/no/a", "/no/b"], "cannot read /no/a"),
        (["conform", "matrix", "/no/a"], "cannot read /no/a"),
        (["conform", "faulty", "--query", "Unicorn"], "unknown device 'Unicorn'"),
        (["spec", "show", "isa.binary.nope.int32"], "unknown id 'isa.binary.nope.int32'"),
        (["spec", "list", "-q", "zzz"], "no row matches 'zzz'"),
        (["explain", "Tensor([[1, 2], [3]])"], "ragged list"),
        (["explain", "Tensor([1, 2]) + Tensor([1, 2, 3])"], "do not broadcast"),
        (["explain", "Tensor.zeros(-3)"], "size -3 is negative"),
        (["explain", "Tensor.zeros(3, dtype='flaot')"], "unknown dtype 'flaot': accepted are"),
        (["explain", "Tensor([1])", "--device", "NOPE"], "unknown device 'NOPE'"),
        (["bench", "--query", "zzz"], "no row matches 'zzz'"),
        (["bench", "--json", "/no/folder/x.json"], "--json /no/folder/x.json cannot be written"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert says in streams.err
    assert "Traceback" not in streams.err
    # Unreadable input leaves no files behind.
    assert list(tmp_path.rglob("*.html")) == []
    if arguments[:2] == ["conform", "--device"]:
        assert streams.err.count("\n") == 1, streams.err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [["--nope"], ["nope"], ["conform", "--jobs", "-1"], ["conform", "--jobs", "x"], ["explain"]],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(arguments) == 2
    assert "Usage: tinyref" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["conform", "--device", "CPU", "--device", "PYTHON"], "--device"),
        (["fuzz", "--seed", "1", "--seed=2"], "--seed"),
        (["conform", "diff", "a", "b", "--format", "text", "--format", "json"], "--format"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], name: str
) -> None:
    """Guard against a repeated option whose last value counts silently."""
    assert run(arguments) == 2
    assert f"{name} is given 2 times: accepted is once" in capsys.readouterr().err


def test_a_switch_that_is_given_twice_is_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "rules", "--help", "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["config"], ["explain", "Tensor([1])"]])
def test_a_flag_that_means_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    # tests/base/test_config.py has the other tests of flags.
    monkeypatch.setenv("TINYREF_DEBGU", "1")
    assert run(command) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "there is no flag 'DEBGU': did you mean DEBUG?" in streams.err


def test_the_traceback_flag_shows_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYREF_TRACEBACK", "1")
    assert run(["explain", "Tensor.zeros(-3)"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.long
def test_an_internal_error_says_that_it_is_a_bug_and_saves_the_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(device: object, default: str, verbose: bool) -> None:
        raise ZeroDivisionError(f"over {default}")

    monkeypatch.setattr(devices, "_print", broken)
    monkeypatch.setattr("platformdirs.user_log_dir", lambda name: str(tmp_path / name))
    assert run(["devices"]) == 70
    error = capsys.readouterr().err
    assert "this is a bug in tinyref" in error
    assert "Traceback" not in error
    (saved,) = (tmp_path / "tinyref").iterdir()
    assert str(saved) in error
    case = json.loads(saved.read_text())
    assert case["arguments"] == ["devices"]
    assert "ZeroDivisionError" in "".join(case["traceback"])


def test_a_folder_that_is_gone_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("os.getcwd", gone)
    assert run(["config"]) == 0
    assert "TINYREF_DEVICE" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "closed", "is_shown"),
    [
        ("config", "<&- 2>&-", True),
        ("explain 'Tensor([1])'", "<&- >&-", False),
        ("explain 'Tensor([1])'", "<&- >&- 2>&-", False),
    ],
)
def test_output_to_a_closed_stream_is_discarded(command: str, closed: str, is_shown: bool) -> None:
    """Guard against an internal error, and against files that replaced a stream."""
    done = subprocess.run(
        f"{sys.executable} -m tinyref.cli {command} {closed}",
        check=False,
        shell=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert bool(done.stdout) == is_shown


def test_too_few_open_files_are_no_bug() -> None:
    # Here the process of a device cannot start; a row below has an error inside the process.
    words = " ".join([*COMMAND, "devices"])
    done = subprocess.run(
        f"ulimit -n 6; {words}", check=False, shell=True, capture_output=True, timeout=120
    )
    assert done.stderr == (
        b"tinyref: error: Too many open files: raise its limit, as by ulimit -n 1024\n"
    )
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOENT, "No usable temporary directory found in ['/x']"), "by TMPDIR"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (OSError(errno.EMFILE, "Too many open files"), "raise its limit, as by ulimit -n 1024"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "fewer --jobs"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/gone/x"), "/gone/x: No such file"),
        (PermissionError(errno.EACCES, "Permission denied", b"/x"), "/x: Permission denied"),
    ],
)
def test_refusals_of_the_system_are_no_bugs(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
    says: str,
) -> None:
    def refused() -> None:
        raise error

    # The environment is checked again if it has changed.
    config.integer("TRACEBACK")
    monkeypatch.setattr(config, "check_environment", refused)
    assert run(["devices"]) == 2
    error_output = capsys.readouterr().err
    assert error_output.startswith("tinyref: error: ")
    assert says in error_output


FULL = Path("/dev/full")
has_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is full")


@has_full
@pytest.mark.long
@pytest.mark.parametrize("command", [["config"], ["explain", "Tensor([1])", "--verbose"]])
def test_a_full_disk_behind_the_output_is_no_bug(command: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*COMMAND, *command], check=False, stdout=full, stderr=subprocess.PIPE, timeout=120
        )
    assert done.returncode == 2
    assert done.stderr == (
        b"tinyref: error: cannot write what the command prints: No space left on device\n"
    )


@has_full
@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["conform", "--device", "PYTHON", "--query", "isa.binary.add.int8.special:0"], 0),
        (["conform", "--device", "NOPE"], 2),
    ],
)
def test_a_message_that_cannot_be_written_changes_no_exit_code(
    command: list[str], code: int, tmp_path: Path
) -> None:
    """Guard against the exit code of a failure, without a report, for a conforming device."""
    with FULL.open("w") as full:
        done = subprocess.run(
            [*COMMAND, *command], check=False, stdout=-1, stderr=full, timeout=120, cwd=tmp_path
        )
    assert done.returncode == code
    assert len(list(tmp_path.rglob("report.html"))) == (1 if code == 0 else 0)


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error() -> None:
    first = subprocess.Popen(
        [*COMMAND, "spec", "list", "-q", "*"], stdout=subprocess.PIPE, stderr=-1
    )
    assert first.stdout is not None
    assert first.stdout.readline()
    first.stdout.close()
    assert first.stderr is not None
    assert first.stderr.read() == b""
    assert first.wait(20) == 141


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path: Path) -> None:
    arguments = ["conform", "--device", "PYTHON", "--out", str(tmp_path), "--jobs", "1"]
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        # If a shell starts tests in the background, their child processes ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )
    assert process.stderr is not None
    assert "cases" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    error = process.stderr.read()
    assert process.wait(20) == 130
    assert "Traceback" not in error
    assert f"tinyref conform --device PYTHON --profile quick --out {tmp_path} --resume" in error


@pytest.mark.long
def test_a_worker_leaves_when_nobody_listens() -> None:
    process, pipes = start_process("tinyref_conformance.worker")
    pipes.close()
    assert process.wait(20) == 113


def test_an_error_without_words_has_its_class(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise UserError("")

    monkeypatch.setattr(config, "check_environment", silent)
    assert run(["devices"]) == 2
    assert capsys.readouterr().err == (
        "tinyref: error: UserError without words\ntinyref: TINYREF_TRACEBACK=1 shows all of it\n"
    )
