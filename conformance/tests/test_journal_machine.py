"""The journal against a list, in any order of writers, torn lines, readers and resumed runs."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from state_machines import run_machine

from tinyref.errors import UserError
from tinyref_conformance import journal as journal_module
from tinyref_conformance.journal import Appender, ChangedError, Journal, start
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status

BINDING = {"device": "CPU", "seed": 1}
RECORDS = st.builds(
    Record,
    case=st.sampled_from(["isa.add:1", "isa.add:2"]),
    status=st.sampled_from([Status.PASS, Status.FAIL]),
    attempt=st.integers(1, 3),
    message=st.text(max_size=5),
)


class Journals(RuleBasedStateMachine):
    """One journal, its main process and a worker. written: every whole result, in order.

    read: how many of them the main process has had.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / journal_module.NAME
        self.journal = start(self.path, BINDING, resume=False)
        self.worker = Appender(self.path)
        self.written: list[Record] = []
        self.read = 0

    def teardown(self) -> None:
        self.worker.close()
        self.journal.close()
        shutil.rmtree(self.folder)

    @rule(record=RECORDS)
    def append(self, record: Record) -> None:
        self.journal.append(record)
        self.written.append(record)

    @rule(record=RECORDS)
    def append_as_worker(self, record: Record) -> None:
        self.worker.write({"result": record.to_json()})
        self.written.append(record)

    @rule(record=RECORDS, part=st.floats(0.05, 0.95))
    def tear(self, record: Record, part: float) -> None:
        """A worker is killed in the middle of a line; another one takes its place."""
        line = f"\n{json.dumps({'result': record.to_json()})}\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, line[: int(part * (len(line) - 2))])
        os.close(descriptor)

    @rule()
    def read_new(self) -> None:
        assert self.journal.read_new() == self.written[self.read :]
        self.read = len(self.written)

    @rule()
    def resume(self) -> None:
        """All that was written is read again, from the start."""
        self.journal.close()
        self.journal = start(self.path, BINDING, resume=True)
        self.read = 0
        self.read_new()

    @rule()
    def start_beside_it(self) -> None:
        with pytest.raises(UserError, match="another run is writing"):
            Journal(self.path)

    @rule()
    def resume_as_another(self) -> None:
        self.journal.close()
        with pytest.raises(ChangedError, match="seed: 1 -> 2"):
            start(self.path, {**BINDING, "seed": 2}, resume=True)
        self.journal = start(self.path, BINDING, resume=True)
        self.read = 0

    @rule()
    def begin_anew(self) -> None:
        """The old journal is kept beside the new one, as it was."""
        before = self.path.read_bytes()
        self.journal.close()
        self.worker.close()
        self.journal = start(self.path, BINDING, resume=False)
        self.worker = Appender(self.path)
        self.written, self.read = [], 0
        assert before in [path.read_bytes() for path in self.folder.glob("journal.previous*")]


@pytest.mark.hypothesis
@pytest.mark.long
def test_a_journal_is_a_list_that_outlives_its_writers() -> None:
    run_machine(Journals, 20, 20)


def _without_newline(self: Appender, data: object) -> None:
    os.write(self._descriptor, f"{json.dumps(data)}\n".encode())


def _from_the_start(self: Journal, first: bool = False) -> list[object]:
    self._offset = 0
    return READ_LINES(self, first)


READ_LINES = Journal._new_lines


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (Appender, "write", _without_newline),
        (Journal, "_new_lines", _from_the_start),
        (journal_module, "set_aside", lambda paths: [path.unlink() for path in paths] or True),
    ],
)
def test_an_injected_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, fault: object
) -> None:
    """A torn line swallows the next; results are read twice; the old one is lost."""
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        run_machine(Journals, 60, 20, Phase.generate)
