"""Run a campaign: hand out chunks of cases, store the results, examine the findings."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.folders import prepare_folder
from tinyref.runtimes.identity import settings_of
from tinyref.workers import run as harness
from tinyref.workers.machine import bounded_jobs
from tinyref.workers.run import Progress, Quiet, Reporter, clock
from tinyref.workers.service import OpeningError
from tinyref.workers.tasks import (
    ChangedError,
    Event,
    Executor,
    HarnessError,
    Job,
    Result,
    Task,
    differences,
)
from tinyref_fuzz.campaign.database import Database, StoredBucket, stored_path
from tinyref_fuzz.campaign.plan import Frontier, Triage, gaps
from tinyref_fuzz.campaign.results import DEFAULT_POLICY, CampaignCase, code_version
from tinyref_fuzz.campaign.task import (
    KERNELS,
    PROGRAMS,
    Examination,
    Setup,
    examination_task,
    judging_task,
    verdict_to_examine,
)
from tinyref_fuzz.campaign.unexamined import without_case
from tinyref_fuzz.generate.policies import policy_named
from tinyref_fuzz.judge.deaths import verdict_of_death
from tinyref_fuzz.programs.record import record_from_json as program_record_from_json
from tinyref_fuzz.programs.record import save_program
from tinyref_spec.kernel_case.document import record_from_json
from tinyref_spec.kernel_case.files import save_record, write_text

DEFAULT_SECONDS = 60.0
# A user who names kernels wants these, and not a mix in which they are rare.
HARVESTED_POLICY = "models"
DEFAULT_TIMEOUT = 30.0
# Time limit of the remaining examinations after the last case is judged.
LAST_EXAMINATIONS_SECONDS = 60.0
# The same limit, as a share of the campaign's time limit; one examination always has its time.
LAST_EXAMINATIONS_SHARE = 0.1
RATE_SECONDS = 20.0
CASES = "cases"
# Suffix of the script next to a case.
SCRIPT = ".py"
# A case that has taken this long at the end may hang: the summary names it.
SUSPICIOUS_SECONDS = 3.0
# Interval between stores of the elapsed time.
USED_SECONDS = 1.0
MAX_EXAMINATIONS = 2


@dataclass(frozen=True)
class CampaignRequest:
    """The options of a campaign.

    When a campaign is resumed, an option that is not set keeps its stored value. `jobs` and
    `cluster` belong to the machine, and are not stored.
    """

    device: str
    folder: Path
    """The folder of the database and the reproducers."""
    seed: int | None = None
    """Drawn if None."""
    policy: str | None = None
    kernels: int | None = None
    """The number of cases, kernels or programs, after which the campaign ends."""
    seconds: float | None = None
    """The seconds after which the campaign ends; a minute if both limits are None."""
    jobs: int = 0
    """The number of worker processes; 0 means one for each core."""
    cluster: str = ""
    """The address of a Dask scheduler; empty for this machine."""
    corpus: Path | None = None
    """The folder for reproducers, which campaigns may share."""
    resume: bool = False
    restart: bool = False
    """True to start again, with the same options, if the sources or the device have changed."""
    timeout: float | None = None
    """The seconds that a case may take."""
    memory: int | None = None
    """The bytes that a worker may use; a fair share of the machine if None."""
    examine_seconds: float = 10.0
    harvested: str | None = None
    """The text of a collection of kernels to draw from, instead of the shipped ones."""
    used: float = 0.0
    """The seconds that earlier runs of a resumed campaign used."""
    subject: str = KERNELS
    """Kernels or tensor programs."""
    compiled_every: int | None = None
    """One of this many programs is compiled for the device; others run evaluated kernels."""
    known: str | None = None
    """Queries of a library's functions with known faults, separated by commas."""
    began: float | None = None
    """The start of the time limit, by `time.monotonic`; None for the start of the campaign."""

    @property
    def workers(self) -> int:
        return bounded_jobs(self.jobs, self.memory)


@dataclass
class Summary:
    """The results of a campaign."""

    device: str
    seed: int
    policy: str
    folder: Path
    cases: int = 0
    judged: int = 0
    seconds: float = 0.0
    findings: int = 0
    buckets: list[StoredBucket] = field(default_factory=list)
    unexamined: Counter[str] = field(default_factory=Counter)
    incomplete: str = ""
    """Why it did not finish; empty if it did."""
    settings: dict[str, str] = field(default_factory=dict)
    """The flags that are not at their default, and the environment of the backend."""
    subject: str = KERNELS
    unfinished: dict[int, float] = field(default_factory=dict)
    """Unfinished cases that had taken suspiciously long, and their seconds."""


def run(
    request: CampaignRequest,
    reporter: Reporter | None = None,
    started: Callable[[CampaignRequest], None] = lambda request: None,
) -> Summary:
    """Run or resume a campaign; `started` is called with the complete request.

    Raises `UserError` if it cannot start. `KeyboardInterrupt` passes through, after everything is
    stored. If the campaign cannot continue, the summary says why.
    """
    if request.policy is not None:
        policy_named(request.policy)
    if request.resume and not (request.folder / Database.NAME).exists():
        raise UserError(f"resume: there is no campaign in {request.folder}")
    prepare_folder(request.folder, "out")
    if request.corpus is not None:
        prepare_folder(request.corpus, "corpus")
    lock = Database.lock(request.folder)
    try:
        try:
            return _run(request, reporter or Quiet(), started)
        except ChangedError as error:
            if not request.restart:
                raise UserError(
                    f"resume: {error}: use --resume --restart to start again, which renames "
                    "the earlier campaign"
                ) from error
            return _run(_restarted(request), reporter or Quiet(), started)
    finally:
        lock.release()


def _run(
    request: CampaignRequest, reporter: Reporter, started: Callable[[CampaignRequest], None]
) -> Summary:
    """Raise `ChangedError` if the campaign to resume differs from the stored one."""
    request, database = _open_database(request)
    try:
        started(request)
        summary = Campaign(request, database, reporter).run()
        database.check()
        return summary
    finally:
        database.close()


def _restarted(request: CampaignRequest) -> CampaignRequest:
    """Return the request that starts again what `request` cannot resume."""
    database = Database.open(request.folder)
    try:
        stored = _stored_options(request, database.config())
    finally:
        database.close()
    return replace(request, **{**stored, "used": 0.0, "resume": False})


def _open_database(request: CampaignRequest) -> tuple[CampaignRequest, Database]:
    """Return the database to write to, and the request completed from it."""
    if not request.resume:
        request = replace(
            request,
            seed=random.SystemRandom().randrange(2**32) if request.seed is None else request.seed,
            policy=request.policy or (HARVESTED_POLICY if request.harvested else DEFAULT_POLICY),
        )
        if request.kernels is None and request.seconds is None:
            request = replace(request, seconds=DEFAULT_SECONDS)
        return request, Database.create(request.folder, _config(request))
    database = Database.open(request.folder)
    try:
        return _resume_request(request, database.config()), database
    except UserError:
        database.close()
        raise


def _config(request: CampaignRequest) -> dict[str, Any]:
    return {
        "device": request.device,
        "seed": request.seed,
        "policy": request.policy,
        "code": code_version(),
        "harvested": request.harvested or "",
        "subject": request.subject,
        "compiled_every": request.compiled_every,
        "known": request.known or "",
        **_settings(request),
    }


def _settings(request: CampaignRequest) -> dict[str, Any]:
    """Return the options that may change when the campaign is resumed."""
    corpus = request.corpus
    return {
        "kernels": request.kernels,
        "seconds": request.seconds,
        "used": request.used,
        "timeout": request.timeout,
        "memory": request.memory,
        "corpus": stored_path(corpus, request.folder) if corpus is not None else None,
    }


def _resume_request(request: CampaignRequest, config: Mapping[str, Any]) -> CampaignRequest:
    """Return the request of the stored campaign. Raises `UserError` if they contradict."""
    if missing := {"device", "seed", "policy", "kernels", "seconds", "code"} - set(config):
        raise UserError(f"resume: {request.folder} lacks {', '.join(sorted(missing))}")
    # With other sources the numbers mean other cases.
    options = {
        "device": request.device,
        "seed": request.seed,
        "policy": request.policy,
        "code": code_version(),
    }
    now = {key: value for key, value in options.items() if value is not None}
    changes = differences({key: config[key] for key in now}, now)
    if request.harvested is not None and request.harvested != config.get("harvested", ""):
        changes.append("harvested kernels: others")
    if request.subject == PROGRAMS != config.get("subject", KERNELS):
        changes.append(f"subject: {KERNELS} -> {PROGRAMS}")
    before = config.get("compiled_every")
    if request.compiled_every not in (None, before):
        changes.append(f"compiled every: {before or 'default'} -> {request.compiled_every}")
    if changes:
        raise ChangedError(
            f"the campaign in {request.folder} differs (then -> now): {'; '.join(changes)}"
        )
    request = replace(request, **_stored_options(request, config))
    if request.corpus is not None:
        prepare_folder(request.corpus, "corpus")
    return request


def _stored_options(request: CampaignRequest, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored values of options that are not set; older databases lack some."""
    names = (
        "seed",
        "policy",
        "kernels",
        "seconds",
        "timeout",
        "memory",
        "harvested",
        "compiled_every",
        "known",
    )
    options = {key: config.get(key) for key in names if getattr(request, key) is None}
    if request.seconds is None:
        options["used"] = config.get("used", 0.0)
    options["subject"] = config.get("subject", KERNELS)
    if request.corpus is None and config.get("corpus") is not None:
        options["corpus"] = request.folder / config["corpus"]
    return options


def executor_of(request: CampaignRequest, setup: Setup) -> Executor:
    """Return the executor of the requested tasks."""
    job = Job(
        "tinyref_fuzz.campaign.worker",
        setup.to_json(),
        setup.item_seconds,
        request.memory,
        retires=True,
    )
    return harness.executor_for(job, request.workers, request.cluster)


class Campaign(harness.Plan):
    """One run of a campaign, with the state of its database."""

    def __init__(self, request: CampaignRequest, database: Database, reporter: Reporter) -> None:
        assert request.seed is not None, "the seed is drawn before"
        self.request = request
        self.database = database
        self.reporter = reporter
        self.seed = request.seed
        self.policy = request.policy or DEFAULT_POLICY
        self.cases = request.folder / (CASES if request.subject == KERNELS else PROGRAMS)
        self.corpus = request.corpus or self.cases
        self.setup = Setup(
            device=request.device,
            seed=self.seed,
            policy=self.policy,
            timeout=request.timeout or DEFAULT_TIMEOUT,
            examine_seconds=request.examine_seconds,
            harvested=request.harvested or "",
            subject=request.subject,
            compiled_every=request.compiled_every or 0,
            known=request.known or "",
        )
        self._triage = Triage()
        self._frontier = Frontier()
        self._examinations: deque[Task] = deque()
        self._buckets = {bucket.key: bucket for bucket in database.buckets()}
        done = database.spans()
        # The first number of the span that ends before a number.
        self._spans: dict[int, int] = {}
        for first, stop in done:
            self._frontier.add(first, stop)
            self._spans[stop] = first
        self._cases = self._cases_before = sum(stop - first for first, stop in done)
        self._examining = 0
        for finding in database.findings():
            self._triage.add(finding)
        self._ranges: Iterator[tuple[int, int]] = gaps(done, request.kernels)
        self._next = next(self._ranges, None)
        self._recent: deque[tuple[float, int]] = deque()
        self._stored_used = 0.0
        self._give_up = float("inf")

    def run(self) -> Summary:
        """Return the summary. `KeyboardInterrupt` passes through."""
        self._began = self.request.began or time.monotonic()
        self._ready = self._began
        self._executor = executor_of(self.request, self.setup)
        is_bound = False
        incomplete = ""
        try:
            with self.reporter.showing():
                self._open()
                is_bound = True
                harness.run(self, self._executor, self.database, self.reporter)
        except HarnessError as error:
            incomplete = str(error)
        finally:
            used = self._seconds_used()
            self._executor.close()
            if is_bound:
                with contextlib.suppress(HarnessError):
                    self.database.remember({"used": used})
        took = self._executor.unfinished.items()
        suspicious = {int(n): seconds for n, seconds in took if seconds >= SUSPICIOUS_SECONDS}
        return replace(self.summary(incomplete), unfinished=suspicious)

    def _open(self) -> None:
        """Open the device, and store its identity before the first case."""
        try:
            self._executor.open()
        except OpeningError as error:
            raise UserError(f"device: {self.request.device} does not open: {error}") from error
        self._ready = time.monotonic()
        self.database.bind_device(self._executor.identity)
        self.database.remember(_settings(self.request))

    def summary(self, incomplete: str = "") -> Summary:
        """Return the results in the database."""
        cases, judged, _ = self.database.totals()
        findings = self.database.findings()
        unexamined = Counter(finding.signature for finding in findings if finding.bucket is None)
        return Summary(
            device=self.request.device,
            seed=self.seed,
            policy=self.policy,
            folder=self.request.folder,
            cases=cases,
            judged=judged,
            seconds=time.monotonic() - self._began,
            findings=len(findings),
            buckets=self.database.buckets(),
            unexamined=unexamined,
            incomplete=incomplete,
            settings=settings_of(self.database.config().get("identity", {})),
            subject=self.request.subject,
        )

    # The end

    def is_late(self) -> bool:
        """Return True if the time is up; unless it was 0, at least one case is judged."""
        seconds = self.request.seconds
        if seconds is None or self._seconds_used() < seconds:
            return False
        return self._cases > self._cases_before or self.request.used >= seconds

    def is_stopped(self) -> bool:
        """Return True if the last examinations have used their time."""
        if self._is_settled:
            now = time.monotonic()
            self._give_up = min(self._give_up, now + self._last_examinations_seconds)
        return time.monotonic() > self._give_up

    @property
    def _is_over(self) -> bool:
        """Return True if no more cases will be judged."""
        return self._next is None or self.is_late()

    @property
    def _is_settled(self) -> bool:
        """Return True if only examinations remain."""
        return self._is_over and self._executor.busy <= self._examining

    @property
    def _last_examinations_seconds(self) -> float:
        """Return the time limit of the last examinations: short if the campaign has a limit."""
        if self.request.seconds is None:
            return LAST_EXAMINATIONS_SECONDS
        share = max(self.request.seconds * LAST_EXAMINATIONS_SHARE, self.request.examine_seconds)
        return min(LAST_EXAMINATIONS_SECONDS, share)

    def _seconds_used(self) -> float:
        """Return the seconds that were used by this run and the runs that it resumes."""
        # The time does not count until the cluster has started workers.
        began = self._ready if self._executor.is_awaited else self._began
        return self.request.used + time.monotonic() - began

    # The next task

    def next_task(self) -> Task | None:
        """Return the next task: findings are examined before more cases are judged."""
        self._queue_examinations()
        if self._examinations:
            self._examining += 1
            return self._examinations.popleft()
        if self._next is None or self.is_late():
            return None
        first, stop = self._next
        self._next = next(self._ranges, None)
        return judging_task(first, stop)

    def _queue_examinations(self) -> None:
        """Queue the findings before which every case is judged; at the end, all remaining ones."""
        for finding in self._triage.due(None if self._is_settled else self._frontier.number):
            if finding.bucket is None:
                task = examination_task(self.setup, finding.number, finding.verdict)
                self._examinations.append(task)

    # Results

    def take(self, event: Event) -> None:
        """Store a judged case or an examination."""
        if not isinstance(event, Result):
            return
        number = int(event.item)
        if "examination" in event.task.request:
            self._take_examination(number, event)
        elif event.death is not None:
            verdict = verdict_of_death(event.death.death)
            self._add(CampaignCase(number, event.death.seconds, verdict=verdict))
        else:
            self._add(CampaignCase.from_json(event.answer or {}))
        if (used := self._seconds_used()) - self._stored_used > USED_SECONDS:
            self._stored_used = used
            self.database.remember({"used": used})

    def _add(self, result: CampaignCase) -> None:
        first = self._spans.pop(result.number, result.number)
        self._spans[result.number + 1] = first
        finding = self.database.add(result, first)
        self._frontier.add(result.number, result.number + 1)
        self._cases += 1
        if finding is not None:
            self._triage.add(finding)

    def _take_examination(self, number: int, result: Result) -> None:
        """Store an examination; after its worker died, try again or store the finding alone."""
        self._examining -= 1
        if result.death is None:
            self._keep(Examination.from_json(result.answer))
            return
        verdict = verdict_to_examine(result.task.request)
        assert verdict is not None, "an examination has a verdict"
        attempt = result.task.request["examination"]
        if attempt < MAX_EXAMINATIONS:
            task = examination_task(self.setup, number, verdict, attempt + 1)
            self._examinations.appendleft(task)
            return
        problem = f"the case ended its process again: {result.death.death.words}"
        self._keep(without_case(number, verdict, problem))

    def _keep(self, examination: Examination) -> None:
        """Store an examined finding; a bucket shows the smallest case, then the earliest."""
        known = self._buckets.get(examination.bucket)
        if known is not None and _size(known.examination) <= _size(examination):
            self.database.assign(examination.number, examination.bucket)
            return
        file = self._save(examination)
        self.database.keep(examination, file)
        self._buckets[examination.bucket] = StoredBucket(examination.bucket, examination, file, 1)
        if known is not None and known.file not in ("", file):
            self._remove(Path(known.file))

    def _remove(self, file: Path) -> None:
        """Remove a reproducer from the campaign's folder, but not from a shared corpus."""
        own = self.cases.resolve()
        if self.request.corpus is None and file.resolve().parent == own:
            file.unlink(missing_ok=True)
            file.with_suffix(SCRIPT).unlink(missing_ok=True)

    def _save(self, examination: Examination) -> str:
        """Write the reproducer; return its file, or "" for none. Raises `HarnessError`."""
        if examination.case is None:
            return ""
        try:
            self.corpus.mkdir(parents=True, exist_ok=True)
            if self.request.subject == PROGRAMS:
                file = save_program(self.corpus, program_record_from_json(examination.case))
                if examination.script:
                    write_text(file.with_suffix(SCRIPT), examination.script)
                return str(file)
            return str(save_record(self.corpus, record_from_json(examination.case)))
        except (OSError, UserError) as error:
            raise HarnessError(f"cannot write a reproducer: {error}") from error

    # Progress

    def progress(self) -> Progress:
        """Return how far the campaign is, with the rate of the last seconds."""
        now = time.monotonic()
        self._recent.append((now, self._cases))
        while len(self._recent) > 1 and now - self._recent[0][0] > RATE_SECONDS:
            self._recent.popleft()
        earlier, before = self._recent[0]
        rate = (self._cases - before) / max(now - earlier, 1e-3)
        fraction, left = self._ahead(now - self._ready)
        buckets = len(self._buckets)
        parts = [
            f"{self._cases:,} {self.request.subject}",
            f"{rate:.1f}/s",
            f"{buckets} bucket{'' if buckets == 1 else 's'}",
        ]
        phase = "examining" if self._is_settled and self._examining else ""
        if phase:
            parts.append(phase)
        elif left is not None:
            parts.append(f"{clock(left)} left")
        return Progress(", ".join(parts), self._cases, fraction, phase)

    def _ahead(self, elapsed: float) -> tuple[float, float | None]:
        """Return the completed share, and the remaining seconds, of the limit that comes first."""
        fraction, left = 0.0, None
        if self.request.seconds:
            used = self._seconds_used()
            fraction, left = used / self.request.seconds, self.request.seconds - used
        fresh = self._cases - self._cases_before
        if self.request.kernels and fresh:
            by_kernels = elapsed / fresh * (self.request.kernels - self._cases)
            if left is None or by_kernels < left:
                fraction, left = self._cases / self.request.kernels, by_kernels
        return min(fraction, 1.0), left


def _size(examination: Examination) -> tuple[bool, int, int, int]:
    """Order examinations: with a case before without, then the smallest, then the earliest."""
    return examination.case is None, examination.nodes, examination.opts, examination.number
