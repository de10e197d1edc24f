"""How the fuzzed kernels and programs of the suite are chosen, and that they can be drawn again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tinyref_fuzz.mutants.fuzzed_rows import Drawn, choose, choose_programs
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import fuzzed as kernels
from tinyref_spec.system import fuzzed as programs


def drawn(name: str, size: int, base: set[int], **lists: set[int]) -> Drawn:
    item = {"name": name, "case": {"opts": []}, "text": []}
    return Drawn(item, size, frozenset(base), tuple((k, frozenset(v)) for k, v in lists.items()))


def names(items: list[dict]) -> str:
    return " ".join(item["name"] for item in items)


def test_what_reaches_most_comes_first():
    found = choose([drawn("few", 5, {1}), drawn("many", 5, {1, 2, 3})], 2)
    assert names(found) == "many few"


def test_of_two_that_reach_the_same_the_small_one_comes_first():
    found = choose([drawn("large", 60, {1, 2}), drawn("small", 5, {1, 2})], 1)
    assert names(found) == "small"


def test_what_reaches_something_new_comes_before_what_reaches_much_once_more():
    again, new = drawn("again", 5, {1, 2, 3}), drawn("new", 5, {8, 9})
    assert names(choose([drawn("first", 5, {1, 2, 3, 4}), again, new], 3)) == "first new again"


def test_no_more_than_there_are():
    assert names(choose([drawn("one", 5, {1})], 3)) == "one"
    assert choose([], 3) == []


def test_a_kernel_keeps_the_list_that_adds_most():
    # What the kernel reaches without a list counts for none of them.
    one = drawn("one", 5, {1, 2, 3}, few={1, 2, 3, 4}, most={5, 6})
    assert choose([one], 1)[0]["case"] == {"opts": ["most"]}
    # A second one keeps the other, as what the first one's list reaches is no longer new.
    two = drawn("two", 5, {1, 2, 3}, few={1, 2, 3, 4}, most={5, 6})
    three = drawn("three", 5, {1, 2, 3}, few={4, 7}, most={5, 6})
    assert [each["case"]["opts"] for each in choose([two, three], 2)] == [["most"], ["few"]]
    assert choose([drawn("plain", 5, {1})], 1)[0]["case"] == {"opts": []}


def test_a_quarter_of_the_programs_captures():
    plain = [drawn(f"plain{n}", 5, {1, 2, n}) for n in range(10, 20)]
    captured = [drawn(f"captured{n}", 5, {1}) for n in range(10)]
    for each in captured:
        each.item["text"].append("@TinyJit")
    found = names(choose_programs([*plain, *captured], 8)).split()
    assert sum(name.startswith("captured") for name in found) == 2
    assert len(found) == 8


@pytest.mark.long
def test_what_is_drawn_is_read_and_passes(tmp_path: Path):
    draw(tmp_path)
    device = DeviceUnderTest("PYTHON")
    found = kernels.kernels(tmp_path / "kernels.json")
    assert len(found) == 3
    for each in found:
        assert kernels.run_plain(each, "id", device).passed
        assert kernels.run_chosen(each, "id", device).passed
    read = programs.programs(tmp_path / "programs.json")
    assert len(read) == 4
    for program in read:
        assert programs.run(program, "id", device).passed


@pytest.mark.slow
def test_a_seed_gives_the_same_files(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        draw(folder)
    for name in ("kernels.json", "programs.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def draw(folder: Path) -> None:
    """In a process of its own: what blocks run is recorded from the first import on."""
    words = [
        "--kernels",
        "26",
        "3",
        "--programs",
        "40",
        "4",
        "--seed",
        "5",
        "--folder",
        str(folder),
    ]
    command = [sys.executable, "-m", "tinyref_fuzz.mutants.fuzzed_rows", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
