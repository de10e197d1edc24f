"""Test files of commands: whole or not written, and a full disk or a bad path is no bug."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from tinyref.cli.entry import run
from tinyref.errors import DeviceError, UserError
from tinyref.folders import prepare_folder

LONG = "a" * 300
EARLIER = "what was there before"
CI = ["ci", "--provider", "github", "--device", "mine.backend:Mine", "--out"]
BENCH = ["bench", "--query", "launch", "--repeats", "1", "--json"]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every write to a file fail."""

    def refuse(path: str, descriptor: int, data: memoryview) -> NoReturn:
        raise DeviceError(path, f"cannot be written: {os.strerror(errno.ENOSPC)}")

    monkeypatch.setattr("tinyref.runtimes.data_only._write_all", refuse)


@pytest.mark.parametrize("command", [CI, BENCH])
@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_takes_no_earlier_file(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(EARLIER)
    assert run([*command, str(file)]) == 2
    assert capsys.readouterr().err.endswith(
        f"tinyref: error: {command[0]}: {file}: cannot be written: No space left on device\n"
    )
    assert file.read_text() == EARLIER
    assert list(tmp_path.iterdir()) == [file]
    # An empty file is not left behind either.
    assert run([*command, str(tmp_path / "new")]) == 2
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipeline_goes_to_a_folder_by_no_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*CI, str(tmp_path)]) == 2
    assert f"ci: cannot write {tmp_path}: Is a directory" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run([*CI, str(tmp_path / "file" / "x")]) == 2
    assert f"ci: cannot make {tmp_path / 'file'}: " in capsys.readouterr().err


def test_what_is_no_regular_file_is_written_as_it_is() -> None:
    assert run([*CI, "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_a_package_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = []
    write_text = Path.write_text

    def fails_late(path: Path, text: str, **options: str) -> int:
        written.append(path)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_text(path, text, **options)

    words = ["new-backend", "MINE", "--out", str(tmp_path / "mine")]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fails_late)
        assert run(words) == 2
    assert "new-backend: cannot write to" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run(words) == 0


def test_a_folder_that_takes_no_byte_keeps_no_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, data: bytes) -> NoReturn:
        path.touch()
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(UserError, match=r"out: cannot write to .*: File too large"):
        prepare_folder(tmp_path, "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "conform --out",
        "conform --expectations",
        "conform --timings",
        "conform diff a.json",
        "conform matrix a.json",
        "conform merge",
        "conform verify",
        "conform faulty --out",
        "fuzz --out",
        "fuzz replay",
        "fuzz keep --note bug",
        "fuzz corpus check",
        "fuzz harvest",
        "fuzz score --out",
        "ci --provider github --table",
        "conform matrix a.json --out",
    ],
)
def test_a_path_that_is_empty_or_that_no_file_can_have_is_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), ""]) == 2
    assert "the path is empty: accepted is that of a file or a folder" in capsys.readouterr().err
    assert run([*command.split(), LONG]) == 2
    assert "the path is too long: no file can have it" in capsys.readouterr().err


def test_a_file_of_json_that_no_file_can_have_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path, says in (("", "the path is empty"), (LONG, "the path is too long")):
        assert run(["bench", f"--json={path}"]) == 2
        assert says in capsys.readouterr().err


def test_a_page_and_a_program_of_such_a_path_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["explain", "Tensor([1])", "--out", LONG]) == 2
    assert "the path is too long: no file can have it" in capsys.readouterr().err
    assert run(["explain", f"{LONG}.py", "--out", "page.html"]) == 2
    assert ".py: no such file" in capsys.readouterr().err


def test_a_program_is_not_replaced_by_its_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(EARLIER)
    link = tmp_path / "link.json"
    link.symlink_to(program)
    for out in (program, link):
        assert run(["fuzz", "harvest", str(program), "--out", str(out)]) == 2
        assert f"harvest: --out {out} is the program itself" in capsys.readouterr().err
    assert program.read_text() == EARLIER


def test_kernels_that_could_not_be_written_are_not_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "mark"
    program = tmp_path / "program.py"
    program.write_text(f"open({str(mark)!r}, 'w')")
    out = tmp_path / "no folder" / "kernels.json"
    assert run(["fuzz", "harvest", str(program), "--out", str(out)]) == 2
    assert "cannot be written: its folder must exist" in capsys.readouterr().err
    assert not mark.exists()
