"""Failures that depend on earlier cases: the shortest sequence of cases that shows each one.

After a run, each failure is run again as the only case of a fresh worker. If it passes there, it
depends on a case that its worker had run before. Sequences of those cases, followed by the failing
one, run in fresh workers. They are shortened as long as the last case still fails.
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

# Number of cases of a sequence that a message names.
MAX_NAMED = 3


class Trials:
    """Runs of sequences of cases, each in a new worker.

    executor: where they run. config: of the worker. limits: of each case. seconds: processor time
    on this machine for all of them; other load does not count. end: no trial begins after it.
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
        # Sequences after which a case failed that passes alone.
        self._known: list[Sequence[str]] = []

    @property
    def is_late(self) -> bool:
        spent = seconds_of_children() - self._begin
        return spent >= self.seconds or time.monotonic() >= self.end

    def run(self, sequence: Sequence[str]) -> Record | None:
        """Return the record of the last case of a sequence; None if the worker did not reach it."""
        if self.is_late:
            return None
        cases = [(name, self.cases[name].row) for name in sequence]
        return self.executor.call(run_sequence, self.config, cases, self.limits)

    def alone(self, names: Sequence[str], jobs: int) -> Iterator[Record]:
        """Yield the record of each case run alone, `jobs` at a time, until the time is over."""
        with ThreadPoolExecutor(jobs) as threads:
            try:
                for record in threads.map(lambda name: self.run([name]), names):
                    if record is not None:
                        yield record
            finally:
                threads.shutdown(wait=True, cancel_futures=True)

    def shortest(self, before: Sequence[str], name: str) -> Sequence[str] | None:
        """Return the fewest cases of `before` after which this one fails; None if it never does.

        Sequences that explained another case come first, then those that `shortest_ending` tries.
        """
        for known in self._known:
            if set(known) <= set(before) and self._fails(known, name):
                return known
        sequence = shortest_ending(
            before, lambda chosen: self._fails(chosen, name), lambda: self.is_late
        )
        if sequence is not None:
            self._known.append(sequence)
        return sequence

    def _fails(self, before: Sequence[str], name: str) -> bool:
        record = self.run([*before, name])
        return record is not None and record.status.is_broken


def run_sequence(
    config: Mapping[str, Any], cases: Sequence[tuple[str, str]], limits: Limits
) -> Record | None:
    """Run cases with their rows in a worker; return the record of the last one, if it is reached.

    The worker is a new process on the machine that runs this function.
    """
    with Service("tinyref_conformance.worker", config) as service:
        for number, (name, row) in enumerate(cases):
            try:
                answer = service.ask({"measure": name, "row": row}, limits)
            except OpeningError:
                return None
            if number == len(cases) - 1:
                return record_of(name, answer)
            if isinstance(answer, Death):
                return None
    return None


def record_of(name: str, answer: Mapping[str, Any] | Death) -> Record:
    """Return the record of a case that a worker was asked to measure."""
    if not isinstance(answer, Death):
        return Record.from_json(answer["measured"])
    status = Status.TIMEOUT if answer.cause is Cause.TIMEOUT else Status.CRASH
    return Record(name, status, 2, Phase.RUN.value, answer.words)


def cases_before(outcome: Outcome, record: Record) -> list[str]:
    """Return the cases that the worker of a record had run before it, in order."""
    firsts = [attempts[0] for attempts in outcome.records.values()]
    mine = [first.case for first in firsts if first.worker == record.worker and first.worker]
    return mine[: mine.index(record.case)] if record.case in mine else []


def explain(trials: Trials, before: Sequence[str], record: Record) -> Record:
    """Return the record of a case that passed alone, with the cases that it depends on.

    before: the cases that ran before it when it failed.
    """
    sequence = trials.shortest(before, record.case) if before else None
    details: dict[str, Any] = {}
    if sequence is not None:
        details = {"sequence": [*sequence, record.case]}
        named = ", ".join(sequence[:MAX_NAMED])
        more = f" and {len(sequence) - MAX_NAMED:,} more" if len(sequence) > MAX_NAMED else ""
        words = f"it depends on what ran before: it passes alone, and fails after {named}{more}"
    elif trials.is_late:
        words = "it passes alone; there was no time left to find what it depends on"
    elif before:
        words = f"it passes alone, and also after the {len(before):,} that ran before it"
    else:
        words = "it passes alone, and no case is known to have run before it"
    return Record(record.case, record.status, 2, message=words, details=details or None)


def in_order_of_rows(cases: Iterable[Case]) -> list[str]:
    """Return the first case of each row, then the second of each, and so on."""
    seen: dict[str, int] = {}
    numbered = []
    for case in cases:
        seen[case.row] = seen.get(case.row, 0) + 1
        numbered.append((seen[case.row], case.id))
    return [name for _, name in sorted(numbered, key=lambda item: item[0])]
