"""The database of a campaign against plain dictionaries, in any order of its calls."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)
from state_machines import run_machine

from tinyref_fuzz.campaign import database as database_module
from tinyref_fuzz.campaign.database import Database
from tinyref_fuzz.campaign.results import CaseResult
from tinyref_fuzz.campaign.task import CampaignError, Done, Examination, Task
from tinyref_spec.kernel_case import Blame, Pair, Symptom, Verdict

WRONG = Verdict(Pair.DEVICE, Symptom.VALUE, "element 3 of 8 is 1 instead of 2", 0, 2)
STARTED_WITH = {"seed": 5, "device": "PYTHON"}
# Cases of one chunk.
SIZE = 4


class Campaigns(RuleBasedStateMachine):
    """One campaign. buckets: of findings, by number. kept: the examined case of each bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.database = Database.create(self.folder, STARTED_WITH)
        self.config: dict[str, object] = dict(STARTED_WITH)
        self.chunks: set[int] = set()
        self.rules: Counter[tuple[int, str]] = Counter()
        self.buckets: dict[int, str | None] = {}
        self.kept: dict[str, int] = {}

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.folder)

    @rule(
        chunk=st.integers(0, 5),
        wrong=st.sets(st.integers(0, SIZE - 1)),
        epoch=st.integers(0, 2),
        setting=st.integers(0, 9),
    )
    def add(self, chunk: int, wrong: set[int], epoch: int, setting: int) -> None:
        """A chunk that is there already is refused, and nothing of it is stored."""
        first = chunk * SIZE
        numbers = range(first, first + SIZE)
        results = [
            CaseResult(n, 0.5, 2, {"int-sum": 3}, {}, WRONG if n - first in wrong else None)
            for n in numbers
        ]
        done = Done(Task(first, first + SIZE, None), tuple(results))
        if first in self.chunks:
            with pytest.raises(CampaignError, match="cannot write"):
                self.database.add(done, epoch, {"setting": setting})
            return
        findings = self.database.add(done, epoch, {"setting": setting})
        assert {each.number for each in findings} == {first + each for each in wrong}
        self.chunks.add(first)
        self.rules[epoch, "int-sum"] += 3 * SIZE
        self.buckets.update({each.number: None for each in findings})
        self.config["setting"] = setting

    @precondition(lambda self: self.buckets)
    @rule(data=st.data(), bucket=st.sampled_from(["x", "y"]))
    def keep(self, data: st.DataObject, bucket: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.buckets)))
        examined = Examination(number, bucket, Blame("device"), "d", {"ast": []}, 8, 2)
        self.database.keep(examined, "")
        self.buckets[number] = bucket
        self.kept[bucket] = number

    @precondition(lambda self: self.buckets and self.kept)
    @rule(data=st.data())
    def assign(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.buckets)))
        bucket = data.draw(st.sampled_from(sorted(self.kept)))
        self.database.assign(number, bucket)
        self.buckets[number] = bucket

    @rule()
    def open_again(self) -> None:
        self.database.close()
        self.database = Database.open(self.folder)

    @rule()
    def open_after_a_kill(self) -> None:
        """The file of a process that never closed it."""
        self.database = Database.open(self.folder)

    @rule()
    def begin_another(self) -> None:
        """One that judged something is kept beside the new one."""
        before = len(list(self.folder.glob("campaign.previous*.sqlite")))
        self.database.close()
        self.database = Database.create(self.folder, STARTED_WITH)
        after = len(list(self.folder.glob("campaign.previous*.sqlite")))
        assert after == before + bool(self.chunks)
        self.config, self.chunks = dict(STARTED_WITH), set()
        self.rules, self.buckets, self.kept = Counter(), {}, {}

    @invariant()
    def all_is_stored(self) -> None:
        database = self.database
        assert database.config() == self.config
        assert database.chunks() == [(first, first + SIZE) for first in sorted(self.chunks)]
        cases = SIZE * len(self.chunks)
        assert database.totals() == (cases, 2 * cases, 0.5 * cases)
        for before in (1, 3):
            of_epochs = [n for (epoch, _), n in self.rules.items() if epoch < before]
            assert database.coverage("rule", before).total() == sum(of_epochs)
        findings = {each.number: each.bucket for each in database.findings()}
        assert findings == self.buckets
        members = Counter(bucket for bucket in self.buckets.values() if bucket is not None)
        found = {each.key: (each.examination.number, each.findings) for each in database.buckets()}
        assert found == {key: (self.kept[key], count) for key, count in members.items()}


@pytest.mark.hypothesis
@pytest.mark.long
def test_a_database_has_what_was_stored() -> None:
    run_machine(Campaigns, 12, 12)


def _forget_settings(connection: sqlite3.Connection, settings: object) -> None:
    pass


def _assign_to_none(self: Database, number: int, bucket: str) -> None:
    with self._writing() as connection:
        connection.execute("update findings set bucket = ? where number < ?", (bucket, number))


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (database_module, "_remember", _forget_settings),
        (Database, "assign", _assign_to_none),
        (database_module, "set_aside", lambda paths: [path.unlink() for path in paths]),
    ],
)
def test_an_injected_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, fault: object
) -> None:
    """A setting is lost; another finding gets the bucket; the earlier campaign is lost."""
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        run_machine(Campaigns, 60, 12, Phase.generate)
