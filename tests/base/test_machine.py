"""Test the description of a host: estimates of times, and reading of a foreign file."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.machine import FIXED, Machine, MemoryLevel, problem_of
from tinyref.runtimes.host import description

SLOW = Machine("of a test", 2.0, (MemoryLevel(100, 10.0), MemoryLevel(1000, 4.0)), 500.0)


@pytest.mark.table
@pytest.mark.parametrize(
    ("operations", "size", "nanoseconds"),
    [
        (8, 0, 4.0),
        (0, 100, 10.0),
        # One byte more comes from the next memory.
        (0, 101, 25.25),
        # And data larger than all, from the last.
        (0, 4000, 1000.0),
        (8, 100, 14.0),
    ],
)
def test_an_estimate_adds_operations_and_bytes(
    operations: int, size: int, nanoseconds: float
) -> None:
    assert SLOW.nanoseconds(operations, size) == nanoseconds


@pytest.mark.table
@pytest.mark.parametrize(
    ("rates", "size"),
    [((100.0, 90.0, 20.0), 64), ((100.0, 80.0, 79.0), 32), ((100.0, 100.0, 100.0), 1024)],
)
def test_a_small_cache_is_about_as_fast_as_the_fastest(rates: tuple[float, ...], size: int) -> None:
    levels = tuple(map(MemoryLevel, (32, 64, 1024), rates))
    assert dataclasses.replace(SLOW, levels=levels).small_cache == size


def test_the_fixed_description_is_one_that_is_accepted() -> None:
    assert problem_of(FIXED) is None
    assert (FIXED.small_cache, FIXED.origin) == (32768, "fixed")


def test_a_description_reads_back() -> None:
    assert Machine.from_json(SLOW.to_json()) == SLOW
    assert SLOW.to_json()["levels"][1] == {"size": 1000, "bytes_per_ns": 4.0}


@pytest.mark.table
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operations_per_ns": 0.0}, "operations_per_ns is 0.0: accepted are finite numbers above"),
        ({"operations_per_ns": float("nan")}, "operations_per_ns is nan"),
        ({"thread_ns": float("inf")}, "thread_ns is inf"),
        ({"thread_ns": -1.0}, "thread_ns is -1.0"),
        ({"thread_ns": "soon"}, "thread_ns is a str"),
        ({"thread_ns": True}, "thread_ns is a bool"),
        ({"levels": []}, "levels is empty"),
        ({"levels": {}}, "levels is not a list"),
        ({"levels": [7]}, "a int, expected is an object"),
        ({"levels": [{"size": 8}]}, "bytes_per_ns"),
        ({"levels": [{"size": 8, "bytes_per_ns": 0.0}]}, "bytes_per_ns of 8 bytes is 0.0"),
        ({"levels": [{"size": 0, "bytes_per_ns": 1.0}]}, "the sizes of levels are [0]"),
        ({"levels": [{"size": 8, "bytes_per_ns": 1.0}] * 2}, "the sizes of levels are [8, 8]"),
        ({"colour": "red"}, "unknown member 'colour'"),
    ],
)
def test_what_is_no_description_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Machine.from_json({**SLOW.to_json(), **changes})


def test_a_description_without_a_member_is_refused() -> None:
    data = SLOW.to_json()
    del data["thread_ns"]
    with pytest.raises(ValueError, match="thread_ns"):
        Machine.from_json(data)
    with pytest.raises(ValueError, match="a list, expected is an object"):
        Machine.from_json([])


# --- the file in the cache folder -----------------------------------------------------------------

MEASURED = Machine("of a test", 2.5, (MemoryLevel(4096, 10.0), MemoryLevel(8192, 4.0)), 500.0)


def test_the_host_is_what_was_measured_of_it(tmp_path: Path) -> None:
    with Context(CACHE_DIR=str(tmp_path)):
        assert description.host_machine() is FIXED
        path = description.store_machine(MEASURED)
        assert path.parent == tmp_path
        assert [path_in_cache.name for path_in_cache in tmp_path.iterdir()] == [path.name]
        assert description.host_machine() == MEASURED
        assert Device["CPU"].capabilities.machine == MEASURED
        with Context(MACHINE=0):
            assert Device["CPU"].capabilities.machine is FIXED
    assert Device["CPU"].capabilities.machine != MEASURED


@pytest.mark.table
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "Expecting value"),
        (b"\xc3(", "decode"),
        (b"[" * 100_000, "more than 65536 bytes"),
        (b"[" * 10_000, "nested too deeply"),
        (b"[]", "not an object"),
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
    assert description.stored_machine(path) is FIXED
    said = capsys.readouterr().err
    assert words in said
    assert str(path) in said
    assert said.count("\n") == 1


def test_a_folder_in_its_place_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert description.stored_machine(tmp_path) is FIXED
    assert "Is a directory" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        Context(CACHE_DIR=str(tmp_path / "file")),
        pytest.raises(UserError, match="machine: cannot write"),
    ):
        description.store_machine(MEASURED)
