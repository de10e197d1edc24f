"""Old files stay readable: committed files of every version, and what they must read as."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import opts_text
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import Blame, Mode, Pair, Symptom, Verdict, limits
from tinyref_spec.kernel_case.document import record_from_json
from tinyref_spec.kernel_case.files import load_record
from tinyref_spec.kernel_case.migrate import STEPS, VERSION, is_present, migrate

FILES = Path(__file__).parent / "versions"


def old(name: str) -> dict:
    return json.loads((FILES / name).read_text())


def values(name: str) -> list[float]:
    case = load_record(FILES / name).case
    found = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)[0]
    return found.astype(np.float64).tolist()


def test_there_is_a_file_and_a_step_for_each_version():
    versions = {old(path.name)["version"] for path in FILES.glob("*.json")}
    assert versions == set(range(VERSION + 1))
    assert sorted(STEPS) == list(range(VERSION))


def test_version_0_reads_as_it_was_meant():
    kept = load_record(FILES / "v0-sum-int32.json")
    assert kept.note == "element 1 of 3 is 0 instead of 6"
    assert (kept.device, kept.verdict, kept.blame) == ("CPU", None, None)
    case = kept.case
    assert case.mode is Mode.EXACT
    assert [opts_text(opts) for opts in case.opts] == ["UPCAST(0, 3) UNROLL(0, 0)"]
    assert case.choices == (3, 1, 4, 1, 5)
    assert [buffer.tolist() for buffer in case.buffers] == [
        [90, 90, 90],
        [5, -2, 3, 2147483647, 1, -7],
    ]
    assert case.equivalent is None
    # The row of zeros that is padded at the top, and the sums of the two that are there.
    assert values("v0-sum-int32.json") == [0, 6, 2147483641]


def test_version_0_has_floats_as_integers():
    case = load_record(FILES / "v0-sum-bfloat16.json").case
    assert case.opts == ()
    assert case.buffers[1].dtype == ml_dtypes.bfloat16
    assert case.buffers[1].astype(np.float64).tolist() == [5, -2, 3, 256, 1, -7]
    assert values("v0-sum-bfloat16.json") == [0, 6, 250]


def test_version_1_reads_as_it_was_meant():
    kept = load_record(FILES / "v1-edge.json")
    assert (kept.note, kept.device) == ("A NaN lost its payload.", "CPU")
    found = "element 0 of 5 is 7fc00000 instead of 7fc00001"
    assert kept.verdict == Verdict(Pair.DEVICE, Symptom.VALUE, found, -1, 2)
    assert kept.blame == Blame("device", "", "stored bits")
    case = kept.case
    assert (case.mode, dict(case.bindings)) == (Mode.EDGE, {"n": 4})
    assert case.equivalent is not None
    assert case.equivalent.labels == ("commute", "view-twice")
    assert [opts_text(opts) for opts in case.opts] == ["UPCAST(0, 0)", ""]
    words = case.buffers[1].view("u4").tolist()
    assert words == [0x7FC00001, 0x80000000, 0x3FC00000, 0x7F800000, 1]
    # NaN, 1, 2.5 and infinity; the fifth is beyond n.
    assert np.isnan(values("v1-edge.json")[0])
    assert values("v1-edge.json")[1:] == [1, 2.5, np.inf, 0]


def test_what_is_migrated_stays_as_it_is():
    data = old("v0-sum-int32.json")
    migrated = migrate(data)
    assert data == old("v0-sum-int32.json")
    assert is_present(migrated)
    assert not is_present(data)
    assert migrate(migrated) == migrated


SUM = old("v0-sum-int32.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"schema": "tinyref.case", "version": 0, "choices": [1, 2]}, "with choices alone"),
        (SUM | {"more": 1}, "case: expected only the members buffers, choices"),
        (SUM | {"kernel": "%0 = EVIL\n"}, "kernel: "),
        (SUM | {"kernel": "x" * 100_001}, "kernel: expected a text of at most 100000"),
        (SUM | {"kernel": 3}, "kernel: expected a text"),
        (SUM | {"kernel": "sequence\n"}, "kernel: "),
        (SUM | {"buffers": [1]}, "buffers[0]: expected an object"),
        (SUM | {"buffers": [{"dtype": "int8"}]}, "buffers[0]: expected a member 'values'"),
        (SUM | {"buffers": {}}, "buffers: expected a list"),
        (SUM | {"buffers": [{"dtype": "float32", "values": [0.5]}]}, "expected a small integer"),
        (SUM | {"buffers": [{"dtype": [], "values": [1]}]}, "buffers[0].dtype: expected one of"),
        (SUM | {"opts": ["UPCAST(0, 3)"]}, "opts[0]: expected a text"),
        (SUM | {"choices": None}, "choices: expected a list"),
        (SUM | {"version": 3}, "case, version: expected a version from 0 to 1"),
        (SUM | {"version": "0"}, "case, version: expected a version from 0 to 1"),
        ([], "case: expected an object"),
    ],
    ids=range(16),
)
def test_what_no_step_can_bring_over_is_refused(data, message):
    with pytest.raises(UserError) as refused:
        record_from_json(data)
    assert message in str(refused.value)


def test_the_page_has_each_member_of_a_file():
    page = (Path(__file__).parents[2] / "docs" / "fuzzing.md").read_text()
    table = page.partition("### The format of a case")[2].partition("###")[0]
    path = regressions.FOLDER / "padto-bits-of-negative-zero.json"
    for member in json.loads(path.read_text()):
        assert f"`{member}`" in table
    assert f"{limits.MAX_NODES:,} nodes" in table
    assert limits.MAX_ELEMENTS == 1 << 24
