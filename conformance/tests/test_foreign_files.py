"""Reports, journals and expectations that others wrote or that are damaged: one class of error."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from reports_of import failing, report_of

from tinyref.errors import UserError
from tinyref.workers.changes import ChangedError
from tinyref_conformance import report as reports
from tinyref_conformance.compare import compare
from tinyref_conformance.expectations_file import load, parse
from tinyref_conformance.journal import CaseJournal
from tinyref_conformance.matrix import Matrix
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_spec.accuracy import Accuracy

FOREIGN: tuple[Any, ...] = (
    *(None, True, -1, 10**30, 1.5, "", "\x1b[2J", "\ud800", [], {}, [None], {"a": 1}, [[[]]]),
    json.loads("[" * 60 + "]" * 60),
)
REPORT = report_of(("isa.add.int32.0", Status.PASS), failing("isa.mul.float32.0")).to_json()
RECORD = Record(
    "isa.add.int32.0", Status.FAIL, message="x", max_ulp=1.5, details={"source": "y"}
).to_json()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value within others."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any, takes_out: bool = False) -> Any:
    found = copy.deepcopy(value)
    owner = found
    for key in path[:-1]:
        owner = owner[key]
    if takes_out:
        del owner[path[-1]]
    else:
        owner[path[-1]] = new
    return found


def variants(value: Any) -> Iterator[Any]:
    """`value` with each of its members taken out, and with each replaced by foreign ones."""
    for path in places(value):
        yield changed(value, path, None, takes_out=True)
        for new in FOREIGN:
            yield changed(value, path, new)


def damaged(text: str, count: int) -> Iterator[str]:
    generator = random.Random(len(text))
    for _ in range(count):
        begin = generator.randrange(len(text))
        end = begin + generator.randrange(5)
        yield text[:begin] + chr(generator.randrange(0x180)) * generator.randrange(3) + text[end:]


@pytest.mark.long
def test_a_foreign_report_is_refused_or_can_be_compared(tmp_path: Path) -> None:
    good = reports.from_json(json.loads(json.dumps(REPORT)), "good")
    refused = 0
    count = 0
    for data in itertools.islice(variants(REPORT), 0, None, 3):
        count += 1
        try:
            found = reports.from_json(data, "report.json")
        except UserError:
            refused += 1
            continue
        compare(good, found).text()
        compare(found, good).text()
        Matrix([good, found]).text()
    assert refused > count // 4
    path = tmp_path / "report.json"
    for text in damaged(json.dumps(REPORT), 100):
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            reports.load(path)
        except UserError:
            refused += 1
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match="nested too deeply"):
        reports.load(path)


def journal_with(folder: Path, member: str, text: str) -> Path:
    """The folder of a run that has this text for the config's member, or for a result."""
    with closing(CaseJournal.create(folder, {"binding": {"suite": "a"}, "identity": {}})) as good:
        good.add(Record.from_json(RECORD))
        with good.writing() as connection:
            if member == "record":
                connection.execute("update results set record = ?", (text,))
            else:
                connection.execute("update config set value = ? where key = ?", (text, member))
    return folder


def resume(folder: Path) -> list[Record]:
    with closing(CaseJournal.start(folder, {"suite": "a"}, resume=True)) as journal:
        journal.bind_device({"version": "1"})
        return journal.records()


@pytest.mark.long
@pytest.mark.parametrize("member", ["record", "binding", "identity"])
def test_a_journal_with_foreign_values_is_refused_or_is_one(tmp_path: Path, member: str) -> None:
    texts = ["[" * 100_000, '{"result": ' * 50_000, "9" * 100_000, '{"case": NaN}', "{"]
    texts += [json.dumps(data) for data in FOREIGN]
    if member == "record":
        texts += [json.dumps(data) for data in variants(RECORD)]
    for number, text in enumerate(texts):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            records = resume(journal_with(folder, member, text))
        except UserError:
            continue
        for record in records:
            assert isinstance(record.case, str)
            assert isinstance(record.message, str)
            assert isinstance(record.attempt, int)
            assert isinstance(record.status, Status)


def test_results_come_back_as_they_were_and_the_first_of_an_attempt_counts(tmp_path: Path) -> None:
    odd = Record("b", Status.FAIL, message="\u2713 \u2028 \ud800", max_ulp=float("inf"))
    with closing(CaseJournal.start(tmp_path, {"suite": "a"}, resume=False)) as journal:
        for record in (Record("a", Status.PASS), odd, Record("a", Status.FAIL)):
            journal.add(record)
        journal.add(Record("a", Status.PASS, attempt=2))
    with closing(CaseJournal.start(tmp_path, {"suite": "a"}, resume=True)) as journal:
        found = [(each.case, each.status, each.attempt) for each in journal.records()]
        assert found == [
            ("a", Status.PASS, 1),
            ("b", Status.FAIL, 1),
            ("a", Status.PASS, 2),
        ]
        assert journal.records()[1] == odd
    with pytest.raises(ChangedError, match=r"is another one \(then -> now\): suite: a -> b"):
        CaseJournal.start(tmp_path, {"suite": "b"}, resume=True)


EXPECTATIONS = """schema = 1
device = "FAKE"
[[expected]]
query = "isa.unary.exp2.*"
phase = "accuracy"
reason = "the table of the card has 20 bits"
link = "https://example.org/1"
expires = 2026-02-01
[[skip]]
query = "isa.unary.sin"
reason = "hangs"
link = "https://example.org/2"
"""


@pytest.mark.parametrize(
    "value",
    [
        "[" * 300 + "]" * 300,
        "9" * 5000,
        "0x" + "f" * 4000,
        "1e9999",
        "nan",
        '"\\u001b[2J"',
        "{a = {b = {}}}",
        "[[]]",
        "1979-05-27T07:32:00Z",
        "true",
    ],
)
@pytest.mark.parametrize("key", ["schema", "device", "query", "phase", "expires", "new"])
def test_foreign_values_in_expectations_are_refused(key: str, value: str) -> None:
    lines = [line for line in EXPECTATIONS.splitlines() if not line.startswith(key)]
    lines.insert(0 if key in ("schema", "device") else 3, f"{key} = {value}")
    with pytest.raises(UserError, match="expectations: file"):
        parse("\n".join(lines), Path("file"), "FAKE")


def test_deep_tables_and_dotted_keys_in_expectations_are_refused() -> None:
    for text in ("[" + "a." * 1000 + "b]", "schema" + ".a" * 1900 + " = 1", "a = [\n" * 2000):
        with pytest.raises(UserError, match="expectations: file"):
            parse(text, Path("file"), "FAKE")


def test_any_damage_to_expectations_is_one_class_of_error() -> None:
    refused = 0
    for text in damaged(EXPECTATIONS, 300):
        try:
            parse(text, Path("file"), "FAKE")
        except UserError:
            refused += 1
    assert refused > 100


def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_BYTES", 1 << 16)
    with pytest.raises(UserError, match="report: /dev/zero is not JSON: more than 65536 bytes"):
        reports.load(Path("/dev/zero"))
    with pytest.raises(UserError, match="expectations: /dev/zero is not TOML: more than 4194304"):
        load(Path("/dev/zero"), "CPU")


def test_a_journal_keeps_the_result_of_a_value_that_is_very_far_off(tmp_path: Path) -> None:
    journal = CaseJournal.start(tmp_path, {}, resume=False)
    accuracy = Accuracy(by_operand={1: 2.0**80}, operand="float32", share=2.0**90)
    record = Record("tensor.add.float32.forward:0", Status.FAIL, accuracy=accuracy)
    journal.add(record)
    assert journal.records() == [record]
