"""Reports, journals and expectations that others wrote or that are damaged: one class of error."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from reports_of import failing, report_of

from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance import report as reports
from tinyref_conformance.compare import compare
from tinyref_conformance.expectations_file import load
from tinyref_conformance.journal import CaseJournal
from tinyref_conformance.matrix import Matrix
from tinyref_conformance.records import Record
from tinyref_conformance.reports import as_json
from tinyref_conformance.statuses import Status

FOREIGN: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "\x1b[2J",
    "\ud800",
    [],
    {},
    [None],
    {"a": 1},
    [[[]]],
    json.loads("[" * 60 + "]" * 60),
)
REPORT = report_of(
    ("isa.add.int32.0", Status.PASS), failing("isa.mul.float32.0"), identity={"compiler": "cc 1"}
)
RECORD = Record(
    "isa.add.int32.0", Status.FAIL, message="x", max_ulp=1.5, details={"source": "y"}
).to_json()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to each value within others."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any, takes_out: bool = False) -> Any:
    copied = copy.deepcopy(value)
    owner = copied
    for key in path[:-1]:
        owner = owner[key]
    if takes_out:
        del owner[path[-1]]
    else:
        owner[path[-1]] = new
    return copied


def variants(value: Any) -> Iterator[Any]:
    """Yield `value` without each of its members, and with each replaced by foreign ones."""
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
    good = reports.from_json(json.loads(as_json(REPORT)), "good")
    refused = 0
    count = 0
    for data in itertools.islice(variants(REPORT.to_json()), 0, None, 7):
        count += 1
        try:
            report = reports.from_json(data, "report.json")
        except UserError:
            refused += 1
            continue
        compare(good, report).page().text()
        compare(report, good).page().text()
        Matrix([good, report]).page().text()
    assert refused > count // 4
    path = tmp_path / "report.json"
    for text in damaged(as_json(REPORT), 100):
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            reports.load(path)
        except UserError:
            refused += 1
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match="nested too deeply"):
        reports.load(path)


def journal_with(folder: Path, member: str, text: str) -> Path:
    """Return the folder of a run with this text as a member of its config, or as a result."""
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
        texts += [json.dumps(data) for data in itertools.islice(variants(RECORD), 0, None, 3)]
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


def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_BYTES", 1 << 16)
    with pytest.raises(UserError, match="report: /dev/zero is not JSON: more than 65536 bytes"):
        reports.load(Path("/dev/zero"))
    with pytest.raises(UserError, match="expectations: /dev/zero is not TOML: more than 4194304"):
        load(Path("/dev/zero"), "CPU")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(as_json(REPORT), encoding="utf-8")
    return path


def data_of(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def edit_of(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value} " if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("edit", "code", "says"),
    [
        (lambda data: None, 0, "is as it was written"),
        (lambda data: data.update(note="ours"), 1, "was edited: its report_hash is"),
        (lambda data: data["certificate"].pop("report_hash"), 2, "has no report_hash"),
    ],
)
def test_the_command_says_whether_a_report_was_edited(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[Any], object],
    code: int,
    says: str,
) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    edit(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    assert run(["conform", "verify", str(file)]) == code
    assert says in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "member",
    ['"verdict": "CONFORMS"', '"cases": [{"status": "x"}]'],
)
def test_a_member_that_is_there_twice_is_noticed(
    file: Path, member: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another reader takes the first, and Python the last, which alone is hashed."""
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{{{member},{text[1:]}", encoding="utf-8")
    assert run(["conform", "verify", str(file)]) == 2
    name = member.partition(":")[0].strip('"')
    assert f"the member '{name}' is there twice" in capsys.readouterr().err


@pytest.mark.long
def test_every_member_that_is_edited_or_taken_out_is_noticed(tmp_path: Path) -> None:
    written = json.loads(as_json(REPORT))
    file = tmp_path / "report.json"
    edits = 0
    for path in places(written):
        value = written
        for key in path:
            value = value[key]
        variants = [changed(written, path, None, takes_out=True)]
        if edit_of(value) != value:
            variants.append(changed(written, path, edit_of(value)))
        for variant in variants:
            file.write_text(json.dumps(variant), encoding="utf-8")
            with pytest.raises(UserError):
                reports.load_unedited(file)
            edits += 1
    assert edits > 150


@pytest.mark.parametrize("name", ["verdict", "exit_code", "counts", "ladder"])
def test_a_new_hash_does_not_hide_what_no_case_says(file: Path, name: str) -> None:
    data = {**data_of(file), name: report_of(("isa.add.int32.0", Status.PASS)).to_json()[name]}
    data["certificate"]["report_hash"] = reports.hash_of(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(reports.EditedError, match=f"{name} does not follow from its cases"):
        reports.load_unedited(file)
