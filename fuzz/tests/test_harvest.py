"""Kernels harvested from programs: from the shipped ones, and from a user's program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tinyref.cli.entry import run
from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.campaign.cases import kernels_for
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.generate import mutate
from tinyref_fuzz.generate.corpus.collection import (
    SHIPPED,
    Harvested,
    collection_text,
    kernels_from_json,
    kernels_to_json,
    load_collection,
    load_harvested,
    work_of,
)
from tinyref_fuzz.generate.corpus.harvest import choose_kernels, harvest
from tinyref_fuzz.judge.judge import Judge
from tinyref_spec.kernel_case import CaseRecord, Mode
from tinyref_spec.kernel_case.document import record_from_json, record_to_json

PYTHON = Device["PYTHON"].capabilities
KERNELS = load_harvested()
FILE = SHIPPED / "models.json"


# --- what is shipped ----------------------------------------------------------------------------


def has_floats(ast: UOp) -> bool:
    return any(node.dtype.is_float for node in ast.toposort())


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_compiler_agrees_on_each_kernel(kernel):
    case = mutate.case_of(kernel.ast, kernel.bindings, seed=0)
    assert case.mode is (Mode.FLOAT if has_floats(kernel.ast) else Mode.EXACT)
    verdict = Judge("PYTHON").verdict(case, thorough=False)
    assert verdict.agrees, verdict
    assert record_from_json(record_to_json(CaseRecord(case))).case.ast is kernel.ast


# --- a user's program ---------------------------------------------------------------------------

PROGRAM = """
from tinyref import Tensor
print("the program runs")
for size in (5, 3, 4):
    (Tensor.ones(size, 4).contiguous().realize() * 2 + 1).sum(1).realize()
(Tensor([1, 2, 3]).contiguous().realize() * 5).realize()
Tensor.ones(1000, 1000).contiguous().realize().sum().realize()
"""


def written(tmp_path, text: str):
    path = tmp_path / "user.py"
    path.write_text(text)
    return path


@pytest.mark.long
def test_a_program_is_run_and_each_structure_harvested_once(tmp_path, capfd):
    result = harvest(written(tmp_path, PROGRAM), "PYTHON", tmp_path / "out.json")
    assert "the program runs" in capfd.readouterr().out
    assert result.failure == ""
    assert result.ran > len(result.kernels) >= 2
    # A million elements are too many, and no smaller kernel has this structure.
    assert result.large >= 1
    kernels = load_collection(tmp_path / "out.json")
    assert [kernel.name for kernel in kernels] == [kernel.name for kernel in result.kernels]
    assert all(kernel.name.startswith("user-") for kernel in kernels)
    rows = [
        work_of(kernel.ast)
        for kernel in kernels
        if any(node.op is Ops.REDUCE for node in kernel.ast.toposort())
    ]
    assert 12 in rows
    assert not {16, 20} & set(rows)


@pytest.mark.slow
def test_a_program_that_fails_leaves_what_it_computed(tmp_path, capfd):
    program = written(tmp_path, PROGRAM + "raise ValueError('no more')\n")
    result = harvest(program, "PYTHON", tmp_path / "out.json")
    assert result.failure == "ValueError: no more"
    assert result.kernels
    capfd.readouterr()


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "computed no kernel that can be judged"),
        ("import os\nos._exit(3)\n", "returned no result: the worker left with exit code 3"),
        ("1 / 0\n", "it ended with ZeroDivisionError"),
        ("this is no Python\n", "it ended with SyntaxError"),
    ],
    ids=range(4),
)
def test_a_program_without_kernels_is_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        harvest(written(tmp_path, text), "PYTHON", tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_a_missing_program_is_refused():
    with pytest.raises(UserError, match=r"none\.py: no such file"):
        harvest(FILE.parent / "none.py", "PYTHON", FILE)


# --- the file -----------------------------------------------------------------------------------

DATA = json.loads(FILE.read_text())
SMALL = DATA | {"kernels": DATA["kernels"][:3]}


def saved(path: Path, first: int, last: int) -> Path:
    path.write_text(json.dumps(DATA | {"kernels": DATA["kernels"][first:last]}))
    return path


@pytest.mark.long
def test_a_campaign_is_of_the_harvested_kernels_that_it_began_with(tmp_path, capsys):
    file, other = saved(tmp_path / "k.json", 0, 3), saved(tmp_path / "other.json", 3, 6)
    folder = tmp_path / "campaign"
    words = ["fuzz", "--device", "PYTHON", "--out", str(folder), "--jobs", "1"]
    assert run([*words, "--kernels", "4", "--harvested", str(file)]) == 0
    assert "policy models" in capsys.readouterr().out
    database = Database.open(folder)
    assert database.config()["harvested"] == collection_text(file)
    database.close()
    assert run([*words, "--kernels", "5", "--resume", "--harvested", str(other)]) == 2
    assert "harvested kernels: others: use --resume --restart" in capsys.readouterr().err
    assert run([*words, "--kernels", "5", "--resume"]) == 0
    assert "5 kernels judged" in capsys.readouterr().out


def test_kernels_that_the_device_cannot_run_are_refused(tmp_path, capsys, monkeypatch):
    file = saved(tmp_path / "k.json", 0, 3)
    monkeypatch.setattr(mutate, "MAX_ELEMENTS", 0)
    with pytest.raises(
        UserError, match="harvested: none of 3 kernels has only types of the device"
    ):
        kernels_for(Judge("PYTHON"), collection_text(file))
    assert kernels_for(Judge("PYTHON"), "") == ()
    assert run(["fuzz", "--device", "PYTHON", "--harvested", str(tmp_path / "no.json")]) == 2
    assert "no.json: no such file" in capsys.readouterr().err


def test_a_collection_comes_back():
    kernels = [
        Harvested(kernel.ast, kernel.bindings, ("mul",)) for kernel in kernels_from_json(SMALL)
    ]
    assert [kernel.ast for kernel in kernels_from_json(kernels_to_json("models", kernels))] == [
        kernel.ast for kernel in kernels
    ]
    assert len(choose_kernels(kernels + kernels)) == 3


def changed(**members) -> dict:
    return SMALL | {"kernels": [SMALL["kernels"][0] | members]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "kernels: expected an object"),
        (SMALL | {"schema": "x"}, "kernels, schema: expected 'tinyref.kernels'"),
        (SMALL | {"more": 1}, "kernels: expected only the members"),
        (SMALL | {"kernels": SMALL["kernels"] * 2}, "expected each kernel once"),
        (changed(ast=["%0 = EVIL"]), "kernels[0].ast: "),
        (changed(ast=["x" * 100_001]), "expected a text of at most 100000 characters"),
        (changed(bindings={"n": "1"}), "kernels[0].bindings.n: expected an integer"),
        (
            changed(ast=["%0 = DEFINE_GLOBAL int32*9999999999@global () Slot{slot=0}"]),
            "expected buffers of at most 16777216 bytes",
        ),
        (
            changed(ast=["%0 = DEFINE_GLOBAL int32*1@global () Slot{slot=3}"]),
            "expected the slots from 0 on",
        ),
    ],
    ids=range(9),
)
def test_bad_collections_are_refused(data, message):
    with pytest.raises(UserError) as refused:
        kernels_from_json(data)
    assert message in str(refused.value)
