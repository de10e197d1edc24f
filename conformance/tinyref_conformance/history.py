"""Failures that depend on what ran before: each alone, and the shortest sequence that shows it.

After a run, each failure is run again as the only case of a fresh worker. One that passes then is
looked for in the cases that its worker had run before it: sequences of them, each in a fresh worker
with the failing case at the end, become shorter as long as it still fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tinyref.workers.machine import seconds_of_children
from tinyref.workers.processes import Cause, Death, Limits
from tinyref.workers.service import OpeningError, Service
from tinyref.workers.tasks import Executor
from tinyref_conformance.expectations import Phase
from tinyref_conformance.records import Outcome, Record
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Case
from tinyref_spec.delta_debugging import shortest_ending

# So many cases of a sequence are named in a message.
MAX_NAMED = 3


class Trials:
    """Sequences of cases, each in a worker of its own.

    executor: where they run. config: of the worker. limits: of each case. seconds: of the processor
    of this machine that all may take, so that other work makes no difference. end: no trial begins
    after it.
    """

    def __init__(
        self,
        executor: Executor,
        config: Mapping[str, Any],
        cases: Mapping[str, Case],
        limits: Limits,
        seconds: float,
        end: float,
    ) -> None:
        self.executor = executor
        self.config = config
        self.cases = cases
        self.limits = limits
        self.seconds = seconds
        self.end = end
        self._begin = seconds_of_children()
        # The cases before another one that failed after them, and not alone.
        self._known: list[Sequence[str]] = []

    @property
    def is_late(self) -> bool:
        spent = seconds_of_children() - self._begin
        return spent >= self.seconds or time.monotonic() >= self.end

    def run(self, sequence: Sequence[str]) -> Record | None:
        """What the last case of a sequence comes to; None where the worker did not come to it."""
        if self.is_late:
            return None
        cases = [(name, self.cases[name].row) for name in sequence]
        return self.executor.call(run_sequence, self.config, cases, self.limits)

    def alone(self, names: Sequence[str], jobs: int) -> Iterator[Record]:
        """What each case comes to alone, of as many as there is time for; so many at once."""
        with ThreadPoolExecutor(jobs) as threads:
            try:
                for record in threads.map(lambda name: self.run([name]), names):
                    if record is not None:
                        yield record
            finally:
                threads.shutdown(wait=True, cancel_futures=True)

    def shortest(self, before: Sequence[str], name: str) -> Sequence[str] | None:
        """The fewest of the cases before that make this one fail; None where all of them do not.

        Sequences that explained another case come first, then those that `shortest_ending` tries.
        """
        for known in self._known:
            if set(known) <= set(before) and self._fails(known, name):
                return known
        found = shortest_ending(
            before, lambda chosen: self._fails(chosen, name), lambda: self.is_late
        )
        if found is not None:
            self._known.append(found)
        return found

    def _fails(self, before: Sequence[str], name: str) -> bool:
        record = self.run([*before, name])
        return record is not None and record.status.is_broken


def run_sequence(
    config: Mapping[str, Any], cases: Sequence[tuple[str, str]], limits: Limits
) -> Record | None:
    """Run cases with their rows in a worker; return what the last one comes to, if it is reached.

    The worker is a new process of the machine that this is called on.
    """
    with Service("tinyref_conformance.worker", config) as service:
        for place, (name, row) in enumerate(cases):
            try:
                answer = service.ask({"measure": name, "row": row}, limits)
            except OpeningError:
                return None
            if place == len(cases) - 1:
                return record_of(name, answer)
            if isinstance(answer, Death):
                return None
    return None


def record_of(name: str, answer: Mapping[str, Any] | Death) -> Record:
    """What a case came to that a worker was asked to measure."""
    if not isinstance(answer, Death):
        return Record.from_json(answer["measured"])
    status = Status.TIMEOUT if answer.cause is Cause.TIMEOUT else Status.CRASH
    return Record(name, status, 2, Phase.RUN.value, answer.words)


def cases_before(outcome: Outcome, record: Record) -> list[str]:
    """The cases that the worker of a record had run before it, in order."""
    firsts = [attempts[0] for attempts in outcome.records.values()]
    mine = [each.case for each in firsts if each.worker == record.worker and each.worker]
    return mine[: mine.index(record.case)] if record.case in mine else []


def explain(trials: Trials, before: Sequence[str], record: Record) -> Record:
    """The record of a case that passed alone, with what it depends on.

    before: the cases that ran before it where it failed.
    """
    sequence = trials.shortest(before, record.case) if before else None
    details: dict[str, Any] = {}
    if sequence is not None:
        details = {"sequence": [*sequence, record.case]}
        named = ", ".join(sequence[:MAX_NAMED])
        more = f" and {len(sequence) - MAX_NAMED:,} more" if len(sequence) > MAX_NAMED else ""
        words = f"it depends on what ran before: it passes alone, and fails after {named}{more}"
    elif trials.is_late:
        words = "it passes alone; what it depends on was not looked for: there was no time left"
    elif before:
        words = f"it passes alone, and also after the {len(before):,} that ran before it"
    else:
        words = "it passes alone, and nothing is known to have run before it"
    return Record(record.case, record.status, 2, message=words, details=details or None)


def in_order_of_rows(cases: Iterable[Case]) -> list[str]:
    """The first case of each row, then the second, and so on: one of each kind before more."""
    seen: dict[str, int] = {}
    numbered = []
    for case in cases:
        seen[case.row] = seen.get(case.row, 0) + 1
        numbered.append((seen[case.row], case.id))
    return [name for _, name in sorted(numbered, key=lambda each: each[0])]
