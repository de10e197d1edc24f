"""The file with the description of this host: kept, read once, and never trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.machine import FIXED, Machine, MemoryLevel
from tinyref.runtimes.host import description

MEASURED = Machine("of a test", 2.5, (MemoryLevel(4096, 10.0), MemoryLevel(8192, 4.0)), 500.0)


def test_the_host_is_what_was_measured_of_it(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        assert description.host_machine() is FIXED
        path = description.keep_machine(MEASURED)
        assert path.parent == tmp_path
        assert [each.name for each in tmp_path.iterdir()] == [path.name]
        assert description.host_machine() == MEASURED
        assert Device["CPU"].capabilities.machine == MEASURED
        with Context(MACHINE=0):
            assert Device["CPU"].capabilities.machine is FIXED
    assert Device["CPU"].capabilities.machine != MEASURED


def test_another_measurement_takes_the_place_of_the_last(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        description.keep_machine(FIXED)
        assert description.host_machine() == FIXED
        description.keep_machine(MEASURED)
        assert description.host_machine() == MEASURED


@pytest.mark.table
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "Expecting value"),
        (b"\xc3(", "decode"),
        (b"[" * 100_000, "more than 65536 bytes"),
        (b"[" * 10_000, "nested too deeply"),
        (b"[]", "no object"),
        (b"{}", "schema and version are (None, None)"),
        (b'{"schema": "tinyref.machine", "version": 2}', "('tinyref.machine', 2), accepted are"),
        (b'{"schema": "tinyref.machine", "version": 1}', "a NoneType, expected is an object"),
        (b'{"schema": "tinyref.machine", "version": 1, "machine": {"levels": []}}', "missing"),
    ],
)
def test_a_file_that_holds_no_description_is_said_and_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes, words: str
) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(text)
    assert description.kept_machine(path) is FIXED
    said = capsys.readouterr().err
    assert words in said
    assert str(path) in said
    assert said.count("\n") == 1


def test_a_cut_file_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.json"
    data = {"schema": "tinyref.machine", "version": 1, "machine": MEASURED.to_json()}
    text = json.dumps(data)
    path.write_text(text)
    assert description.kept_machine(path) == MEASURED
    for length in range(0, len(text), 7):
        path.write_text(text[:length])
        assert description.kept_machine(path) is FIXED
        assert "is not read" in capsys.readouterr().err


def test_a_folder_in_its_place_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert description.kept_machine(tmp_path) is FIXED
    assert "Is a directory" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        Context(CACHE_DIR=str(tmp_path / "file")),
        pytest.raises(UserError, match="machine: cannot write"),
    ):
        description.keep_machine(MEASURED)
