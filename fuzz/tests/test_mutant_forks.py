"""Which blocks an edit stands in, which units reach it, and mutants that are switched on late."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tinyref_fuzz.mutants.blocks import Marks, find_block, marked
from tinyref_fuzz.mutants.lanes import LANES, Failure, Lane
from tinyref_fuzz.mutants.mechanical import mutants_of
from tinyref_fuzz.mutants.mutant import Reached
from tinyref_fuzz.mutants.reach import Table, group_of, in_turns
from tinyref_fuzz.mutants.template import run_units
from tinyref_fuzz.mutants.trial import Request, cache_variable

SOURCE = '''\
def outer(a, b=1 + 2):
    """Words."""
    if a:
        b = a + 3
    else:
        b = a - 4

    def inner(c):
        return c * 5

    return inner(b)


class C:
    def method(self):
        return 6 + 7


table = {"f": lambda x: x % 8}
'''
MODULE = "tinyref.views.sample"


def block_at(text: str):
    mutants = mutants_of(MODULE, SOURCE)
    return next(
        find_block(each, SOURCE) for each in mutants if SOURCE[each.at.start :].startswith(text)
    )


def test_an_edit_stands_in_the_innermost_block():
    arm, other, method = (block_at(text) for text in ("+ 3", "- 4", "+ 7"))
    assert (arm.function, method.function) == ("outer", "C.method")
    assert len({arm.number, other.number, arm.entry, method.number}) == 4
    assert arm.entry == other.entry
    assert method.number == method.entry


def test_an_edit_of_an_inner_function_is_nested_and_one_that_works_at_import_is_in_no_block():
    assert [block_at(text).is_nested for text in ("+ 3", "* 5")] == [False, True]
    # A default value, and a lambda outside of functions.
    assert block_at("+ 2") is None
    assert block_at("% 8") is None


def test_marked_source_notes_the_blocks_that_run_and_computes_the_same():
    marks: dict[int, int] = {}
    tree = ast.parse(SOURCE)
    names = {"__tinyref_blocks__": marks}
    arm, other = block_at("+ 3"), block_at("- 4")
    exec(compile(marked(tree, MODULE), "sample", "exec"), names)
    assert marks == {}
    assert names["outer"](2) == 25
    assert names["outer"].__doc__ == "Words."
    assert arm.number in marks
    assert arm.entry in marks
    assert other.number not in marks


def test_a_file_of_marks_is_shared_and_emptied_as_it_is_read(tmp_path):
    marks, others = Marks(tmp_path / "blocks"), Marks(tmp_path / "blocks")
    others.memory[7] = 1
    others.memory[9] = 1
    assert marks.take() == [7, 9]
    assert marks.take() == []


TABLE = Table(
    "code",
    ["tests/views/a.py::slow", "tests/views/a.py::fast", "spec/b.py::x", "spec/b.py::y"],
    [2.0, 1.0, 0.5, 0.1],
    [[1, 2], [1], [1, 3], [3]],
    frozenset({5}),
    {"tests/c.py::z": "wrong"},
)


def test_a_mutant_takes_the_units_that_reach_it_and_no_other():
    entry = block_at("+ 3")

    def select(number: int) -> list[str]:
        block = type(entry)(number, "f", number, is_nested=False)
        return TABLE.select(block, "views")

    # The first of each file, that of the room before, then the second.
    assert select(1) == ["tests/views/a.py::fast", "spec/b.py::x", "tests/views/a.py::slow"]
    assert select(3) == ["spec/b.py::y", "spec/b.py::x"]
    assert select(4) == []
    # What ran before the first unit may change any; so may what works at import.
    assert sorted(select(5)) == sorted(TABLE.names)
    assert sorted(TABLE.select(None, "views")) == sorted(TABLE.names)


def test_a_table_is_read_as_it_was_written(tmp_path):
    TABLE.save(tmp_path / "new" / "table.npz")
    assert Table.load(tmp_path / "new" / "table.npz") == TABLE
    empty = Table("code")
    empty.save(tmp_path / "empty.npz")
    assert Table.load(tmp_path / "empty.npz") == empty


def test_groups_take_turns():
    assert group_of("tests/a.py::f[x::y]") == "tests/a.py"
    assert group_of("isa.add.int8:3") == "isa.add.int8"
    assert in_turns(["a:0", "a:1", "b:0", "a:2", "b:1"]) == ["a:0", "b:0", "a:1", "b:1", "a:2"]


class Letters(Lane):
    """Units of which two fail."""

    def begin(self, request):
        self.device = request.device

    def names(self):
        return ["a", "b", "c", "d"]

    def run(self, name):
        return Failure("TEST", f"{name} is wrong") if name in "bd" else None


def test_units_run_until_one_fails_and_go_on_after_one_that_is_taken_back():
    def run(**changes: object) -> dict[str, object]:
        sent: list[dict[str, object]] = []
        request = Request("", "PYTHON", 0, lane="tests", **changes)
        lane = Letters()
        run_units(lane, lane.names(), request, Reached(), sent.append)
        assert lane.device == "PYTHON"
        assert sent[-1] == {"done": True}
        return next((each for each in sent if "killed" in each), sent[-2])

    assert [run()[key] for key in ("killed", "unit")] == [1, "b"]
    # The healthy compiler fails that one too: it is left out, and those before have passed.
    assert [run(skip=("b",), start=2)[key] for key in ("killed", "unit")] == [3, "d"]
    assert run(skip=("b", "d"), start=4)["judged"] == 4


def test_a_probe_ends_before_the_units_do():
    sent: list[dict[str, object]] = []
    request = Request("", "PYTHON", 0, lane="tests", probe=-1.0)
    run_units(Letters(), ["a", "c"], request, Reached(), sent.append)
    assert {"unfinished": 0} in sent


LATE = """
import gc, os, sys
from pathlib import Path
from tinyref_fuzz.mutants.blocks import record_into
from tinyref_fuzz.mutants.mechanical import mutants_of, source_of
marks = record_into(Path({folder!r}) / "blocks")
import tinyref.views.view as module
from tinyref_fuzz.mutants.swap import can_be_late, plant_late
found = mutants_of("tinyref.views.view", source_of("tinyref.views.view"))
mutant = next(each for each in found if each.name.startswith({name!r}))
call = lambda: module.{call}
before = set(marks.take())
late = can_be_late(mutant, before)
if {runs_first}:
    call()
    late = can_be_late(mutant, before | set(marks.take()))
print(late)
if late:
    healthy = os.fork()
    if not healthy:
        print(call(), flush=True)
        os._exit(0)
    os.waitpid(healthy, 0)
    # As pytest does after it has collected.
    gc.freeze()
    reached = plant_late(mutant)
    print(call(), reached.count)
"""


def plant_in_process(folder: Path, name: str, call: str, runs_first: bool) -> list[str]:
    code = LATE.format(folder=str(folder), name=name, call=call, runs_first=runs_first)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.long
def test_a_function_that_did_not_run_is_edited_late_and_one_that_did_is_refused(tmp_path):
    name, call = "views.view/contiguous_strides/operator/2", "contiguous_strides((2, 3))"
    fresh = plant_in_process(tmp_path, name, call, runs_first=False)
    # A step of 1 + 3 instead of 1 * 3, by a line that runs for both axes.
    assert fresh == ["True", "(3, 1)", "(4, 1) 2"]
    assert plant_in_process(tmp_path, name, call, runs_first=True) == ["False"]


def test_tests_see_no_flag_that_a_lane_has_set():
    """What prints the flags that are set would say another text: a kill that is none."""
    assert {lane: cache_variable(lane) for lane in LANES} == {
        "conformance": "TINYREF_CACHE_DIR",
        "fuzz": "TINYREF_CACHE_DIR",
        "programs": "TINYREF_CACHE_DIR",
        "room-tests": "XDG_CACHE_HOME",
        "tests": "XDG_CACHE_HOME",
    }
