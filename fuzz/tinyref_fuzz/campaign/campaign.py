"""A campaign: gives out chunks of numbered cases, keeps what comes back, examines the findings."""

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
from tinyref.runtimes.identity import differences, settings_of
from tinyref.workers.machine import bounded_jobs
from tinyref_fuzz.campaign.database import (
    NAME,
    ChangedError,
    Database,
    StoredBucket,
    contradictions,
    lock,
    stored_path,
)
from tinyref_fuzz.campaign.guide import guidance, missing_coverage
from tinyref_fuzz.campaign.plan import Frontier, Triage, epoch_of, gaps
from tinyref_fuzz.campaign.progress import Progress, Quiet, Reporter
from tinyref_fuzz.campaign.results import DEFAULT_POLICY, Guide, code_version, known_rules
from tinyref_fuzz.campaign.task import (
    KERNELS,
    PROGRAMS,
    CampaignError,
    Done,
    Examination,
    Executor,
    Setup,
    Task,
)
from tinyref_fuzz.generate.policies import policy_named
from tinyref_fuzz.programs.record import record_from_json as program_record_from_json
from tinyref_fuzz.programs.record import save_program
from tinyref_spec.kernel_case.document import record_from_json
from tinyref_spec.kernel_case.files import save_record

DEFAULT_SECONDS = 60.0
# Whoever names kernels wants to see these, not a mix in which they are rare.
HARVESTED_POLICY = "models"
DEFAULT_TIMEOUT = 30.0
TICK_SECONDS = 0.2
# What a case under way may still take once the time is up.
LAST_CASE_SECONDS = 0.5
# What the examinations that are left may take once the last case is judged.
LAST_EXAMINATIONS_SECONDS = 60.0
# Of the seconds that were asked for, where there are some; one examination has its time anyway.
LAST_EXAMINATIONS_SHARE = 0.1
RATE_SECONDS = 20.0
CASES = "cases"
UNREACHED = "unreached.md"

# Coverage of rules and of pairs so far, to what is to sway the generator.
Guidance = Callable[[Mapping[str, int], Mapping[str, int]], Guide | None]


@dataclass(frozen=True)
class Request:
    """What is asked for.

    folder: where the database and the reproducers go. seed: drawn where it is None. kernels,
    seconds: whichever is reached first ends the campaign; a minute where neither is given. began:
    when the seconds begin, by `time.monotonic`; with the campaign where it is None. jobs: worker
    processes, one a core where it is 0. corpus: the folder for reproducers, shared perhaps.
    cluster: the address of a Dask scheduler, empty for this machine. timeout: seconds that a case
    may take. memory: bytes that a worker may hold, a fair share of its machine where it is None.
    harvested: the text of a collection of kernels to draw from, instead of those that come with the
    fuzzer. With resume, what is not given is as before, but for jobs and cluster, which are of the
    machine; used: how many of the seconds are gone then. subject: kernels or tensor programs; of
    those `kernels` is the number too. compiled_every: one program in so many is compiled for the
    device, the kernels of others evaluated; by default as the device has it. restart: where what is
    to be resumed is of other sources, or the device of another state, begin anew with what it was
    started with.
    """

    device: str
    folder: Path
    seed: int | None = None
    policy: str | None = None
    kernels: int | None = None
    seconds: float | None = None
    jobs: int = 0
    cluster: str = ""
    corpus: Path | None = None
    resume: bool = False
    restart: bool = False
    timeout: float | None = None
    memory: int | None = None
    examine_seconds: float = 10.0
    harvested: str | None = None
    used: float = 0.0
    subject: str = KERNELS
    compiled_every: int | None = None
    began: float | None = None

    @property
    def workers(self) -> int:
        return bounded_jobs(self.jobs, self.memory)


@dataclass
class Summary:
    """What a campaign came to. incomplete: why it did not do what was asked, empty if it did.

    settings: the flags that were not at their default, and the environment of the backend.
    subject: what the cases are. unfinished: the numbers of
    cases that had taken suspiciously long when the time was up, with how many seconds; none is
    among the `cases`.
    """

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
    rules: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    incomplete: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    subject: str = KERNELS
    unfinished: dict[int, float] = field(default_factory=dict)


def run(
    request: Request,
    reporter: Reporter | None = None,
    guidance: Guidance | None = guidance,
    started: Callable[[Request], None] = lambda request: None,
) -> Summary:
    """Carries out or resumes a campaign. started: called with the full request.

    Raises `UserError` for what cannot be begun; lets `KeyboardInterrupt` out, with everything
    stored. Where it cannot go on, the summary says why.
    """
    if request.policy is not None:
        policy_named(request.policy)
    if request.resume and not (request.folder / NAME).exists():
        raise UserError(f"resume: there is no campaign in {request.folder}")
    prepare_folder(request.folder, "folder")
    if request.corpus is not None:
        prepare_folder(request.corpus, "corpus")
    held = lock(request.folder)
    try:
        try:
            return _run(request, reporter or Quiet(), guidance, started)
        except ChangedError as error:
            if not request.restart:
                raise UserError(
                    f"resume: {error}: go on with --resume --restart to begin anew, which keeps "
                    "the earlier campaign beside the new one"
                ) from error
            return _run(_anew(request), reporter or Quiet(), guidance, started)
    finally:
        held.release()


def _run(
    request: Request,
    reporter: Reporter,
    guidance: Guidance | None,
    started: Callable[[Request], None],
) -> Summary:
    """Raises `ChangedError` where there is something else than what is to be resumed."""
    request, database = _open_database(request)
    try:
        started(request)
        summary = Campaign(request, database, reporter, guidance).run()
        database.check()
        _write_unreached(summary)
        return summary
    finally:
        try:
            database.restore()
        finally:
            database.close()


def _anew(request: Request) -> Request:
    """The request that starts again what `request` cannot resume."""
    database = Database.open(request.folder)
    try:
        found = _as_before(request, database.config())
    finally:
        database.close()
    return replace(request, **{**found, "used": 0.0, "resume": False})


def _write_unreached(summary: Summary) -> None:
    """A page of the rules that never fired, and of the optimisations that never met."""
    if summary.subject != KERNELS:
        return
    with contextlib.suppress(OSError):
        page = missing_coverage(summary.rules, summary.pairs).text()
        (summary.folder / UNREACHED).write_text(page, encoding="utf-8")


def _open_database(request: Request) -> tuple[Request, Database]:
    """The database to write to, and the request with what is known from it."""
    if not request.resume:
        request = replace(
            request,
            seed=random.SystemRandom().randrange(2**32) if request.seed is None else request.seed,
            policy=request.policy or (HARVESTED_POLICY if request.harvested else DEFAULT_POLICY),
        )
        if request.kernels is None and request.seconds is None:
            request = replace(request, seconds=DEFAULT_SECONDS)
        return request, Database.create(
            request.folder, _config(request), [request.folder / UNREACHED]
        )
    database = Database.open(request.folder)
    try:
        return _resume_request(request, database.config()), database
    except UserError:
        database.close()
        raise


def _config(request: Request) -> dict[str, Any]:
    return {
        "device": request.device,
        "seed": request.seed,
        "policy": request.policy,
        "code": code_version(),
        "harvested": request.harvested or "",
        "subject": request.subject,
        "compiled_every": request.compiled_every,
        **_settings(request),
    }


def _settings(request: Request) -> dict[str, Any]:
    """What may be given anew when the campaign is resumed."""
    corpus = request.corpus
    return {
        "kernels": request.kernels,
        "seconds": request.seconds,
        "used": request.used,
        "timeout": request.timeout,
        "memory": request.memory,
        "corpus": stored_path(corpus, request.folder) if corpus is not None else None,
    }


def _resume_request(request: Request, config: Mapping[str, Any]) -> Request:
    """The request as the stored campaign has it. Raises `UserError` where they contradict."""
    if missing := {"device", "seed", "policy", "kernels", "seconds", "code"} - set(config):
        raise UserError(f"resume: {request.folder} lacks {', '.join(sorted(missing))}")
    changes = contradictions(config, request.device, request.seed, request.policy)
    if request.harvested is not None and request.harvested != config.get("harvested", ""):
        changes.append("harvested kernels: others")
    if request.subject == PROGRAMS != config.get("subject", KERNELS):
        changes.append(f"subject: {KERNELS} -> {PROGRAMS}")
    before = config.get("compiled_every")
    if request.compiled_every not in (None, before):
        changes.append(f"compiled every: {before or 'default'} -> {request.compiled_every}")
    if changes:
        raise ChangedError(
            f"the campaign in {request.folder} is another one (then -> now): {'; '.join(changes)}"
        )
    request = replace(request, **_as_before(request, config))
    if request.corpus is not None:
        prepare_folder(request.corpus, "corpus")
    return request


def _as_before(request: Request, config: Mapping[str, Any]) -> dict[str, Any]:
    """What the request leaves open, as it is stored: older databases know nothing of some of it."""
    settings = (
        *("seed", "policy", "kernels", "seconds", "timeout", "memory", "harvested"),
        "compiled_every",
    )
    found = {key: config.get(key) for key in settings if getattr(request, key) is None}
    if request.seconds is None:
        found["used"] = config.get("used", 0.0)
    found["subject"] = config.get("subject", KERNELS)
    if request.corpus is None and config.get("corpus") is not None:
        found["corpus"] = request.folder / config["corpus"]
    return found


def executor_of(request: Request, setup: Setup) -> Executor:
    """Where the request wants its tasks done."""
    if request.cluster:
        from tinyref_fuzz.campaign.cluster import ClusterExecutor

        return ClusterExecutor(setup, request.cluster)
    from tinyref_fuzz.campaign.local import LocalExecutor

    return LocalExecutor(setup, request.workers)


class Campaign:
    """One run of a campaign, on the state that its database has."""

    def __init__(
        self,
        request: Request,
        database: Database,
        reporter: Reporter,
        guidance: Guidance | None = None,
    ) -> None:
        assert request.seed is not None, "the seed is drawn before"
        self.request = request
        self.database = database
        self.reporter = reporter
        # Programs are drawn alike from first to last.
        self.guidance = guidance if request.subject == KERNELS else None
        self.seed = request.seed
        self.policy = request.policy or DEFAULT_POLICY
        self.cases = request.folder / (CASES if request.subject == KERNELS else PROGRAMS)
        self.corpus = request.corpus or self.cases
        self._triage = Triage()
        self._frontier = Frontier()
        self._examinations: deque[Task] = deque()
        self._buckets = {bucket.key: bucket for bucket in database.buckets()}
        self._rules = database.coverage("rule")
        self._guides = database.guides()
        done = database.chunks()
        self._cases = sum(stop - first for first, stop in done)
        self._cases_before = self._cases
        for first, stop in done:
            self._frontier.add(first, stop)
        self._findings = self._chunks = self._examining = 0
        for finding in database.findings():
            self._findings += 1
            self._triage.add(finding)
        self._ranges: Iterator[tuple[int, int]] = gaps(done, request.kernels)
        self._next = next(self._ranges, None)
        self._recent: deque[tuple[float, int]] = deque()
        self._is_bound = self._has_judged = False

    def run(self) -> Summary:
        """The summary; lets `KeyboardInterrupt` out."""
        setup = Setup(
            device=self.request.device,
            seed=self.seed,
            policy=self.policy,
            timeout=self.request.timeout or DEFAULT_TIMEOUT,
            memory=self.request.memory,
            examine_seconds=self.request.examine_seconds,
            harvested=self.request.harvested or "",
            subject=self.request.subject,
            compiled_every=self.request.compiled_every or 0,
        )
        self._began = self.request.began or time.monotonic()
        self._ready: float | None = None
        incomplete = ""
        executor = executor_of(self.request, setup)
        self._is_awaited = executor.is_awaited
        try:
            with self.reporter.showing():
                self._work(executor)
        except CampaignError as error:
            incomplete = str(error)
        finally:
            used = self._seconds_used()
            executor.close()
            if self._is_bound:
                with contextlib.suppress(CampaignError):
                    self.database.remember({"used": used})
        return replace(self.summary(incomplete), unfinished=executor.suspicious_cases)

    def summary(self, incomplete: str = "") -> Summary:
        """What the database has, in numbers."""
        cases, judged, _ = self.database.totals()
        findings = self.database.findings()
        unexamined = Counter(each.signature for each in findings if each.bucket is None)
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
            rules=self.database.coverage("rule"),
            pairs=self.database.coverage("pair"),
            incomplete=incomplete,
            settings=settings_of(self.database.config().get("identity", {})),
            subject=self.request.subject,
        )

    def _work(self, executor: Executor) -> None:
        """Until there is nothing left to do, or no time."""
        give_up = float("inf")
        if self.request.resume:
            # Also where nothing is left to do: what was found is not to look as of another device.
            executor.open()
            self._bind(executor)
        while True:
            if self._ready is None and executor.is_ready:
                self._ready = time.monotonic()
            self._has_judged = self._cases > self._cases_before or executor.cases_under_way > 0
            if self._is_late():
                self._drop_what_is_too_late(executor)
            self._queue_examinations()
            self._give_out(executor)
            if executor.busy == 0 and self._is_over():
                return
            if self._is_over() and not self._chunks:
                give_up = min(give_up, time.monotonic() + self._last_examinations_seconds)
            if time.monotonic() > give_up:
                return
            finished = executor.finished_tasks(TICK_SECONDS)
            self.database.check()
            self._bind(executor)
            for done in finished:
                self._take(done)
            self.reporter.update(self._progress(executor.cases_under_way))

    def _bind(self, executor: Executor) -> None:
        """Notes what the device is, once, when that is known.

        Raises `ChangedError` where the cases before are of another state of it.
        """
        identity = executor.identity
        if self._is_bound or identity is None:
            return
        known = self.database.config().get("identity")
        if known is not None and (changes := differences(known, identity)):
            raise ChangedError(
                f"the campaign in {self.request.folder} is of another state of the device "
                f"(then -> now): {'; '.join(changes)}"
            )
        self.database.remember({**_settings(self.request), "identity": dict(identity)})
        self._is_bound = True

    def _is_over(self) -> bool:
        """Whether no more cases are to be judged."""
        return self._next is None or self._is_late()

    def _queue_examinations(self) -> None:
        """Those of findings below which every case is judged; in the end, of all that are left."""
        is_settled = self._is_over() and not self._chunks
        for finding in self._triage.due(None if is_settled else self._frontier.number):
            if finding.bucket is None:
                number = finding.number
                self._examinations.append(Task(number, number + 1, finding.guide, finding.verdict))

    def _give_out(self, executor: Executor) -> None:
        """Keeps the executor busy: what was found is looked at before more is sought."""
        while executor.busy < executor.capacity:
            task = self._examinations.popleft() if self._examinations else self._next_chunk()
            if task is None:
                return
            self._chunks += not task.is_examination
            self._examining += task.is_examination
            executor.submit(task)

    def _is_late(self) -> bool:
        """Whether the time is up; one case is judged in any case, if there was time at all."""
        seconds = self.request.seconds
        if seconds is None or self._seconds_used() < seconds:
            return False
        return self._has_judged or self.request.used >= seconds

    @property
    def _last_examinations_seconds(self) -> float:
        """What the examinations that are left may take; little where time was given."""
        if self.request.seconds is None:
            return LAST_EXAMINATIONS_SECONDS
        share = max(self.request.seconds * LAST_EXAMINATIONS_SHARE, self.request.examine_seconds)
        return min(LAST_EXAMINATIONS_SECONDS, share)

    def _seconds_used(self) -> float:
        """How many of the seconds are gone, in this run and in those before that it resumes."""
        if self._is_awaited:
            return self.request.used + self._seconds_elapsed()
        return self.request.used + time.monotonic() - self._began

    def _seconds_elapsed(self) -> float:
        """How long there was somebody to work."""
        return time.monotonic() - self._ready if self._ready is not None else 0.0

    def _drop_what_is_too_late(self, executor: Executor) -> None:
        for task in executor.recall():
            if task.is_examination:
                executor.submit(task)
            else:
                self._chunks -= 1
        seconds = self.request.seconds
        if seconds is not None and self._seconds_used() >= seconds + LAST_CASE_SECONDS:
            self._chunks -= len(executor.cut())

    def _next_chunk(self) -> Task | None:
        """The next range with its guide; None for now where the guide is not known yet."""
        if self._next is None or self._is_late():
            return None
        first, stop = self._next
        epoch = epoch_of(first)
        if self.guidance is not None and epoch not in self._guides:
            # The last epoch is not known yet: so that no worker waits, the ones before must do.
            if epoch_of(self._frontier.number) < epoch - 1:
                return None
            rules = self.database.coverage("rule", epoch - 1)
            pairs = self.database.coverage("pair", epoch - 1)
            self._guides[epoch] = self.guidance(rules, pairs) if epoch >= 2 else None
            self.database.keep_guide(epoch, self._guides[epoch])
        self._next = next(self._ranges, None)
        return Task(first, stop, self._guides.get(epoch))

    # What comes back

    def _take(self, done: Done) -> None:
        if done.examination is not None:
            self._examining -= 1
            self._keep(done.examination)
            return
        task = done.task
        self._chunks -= 1
        findings = self.database.add(done, epoch_of(task.first), {"used": self._seconds_used()})
        self._frontier.add(task.first, task.stop)
        self._cases += task.stop - task.first
        self._findings += len(findings)
        for finding in findings:
            self._triage.add(finding)
        for result in done.results:
            self._rules.update(result.rules)

    def _keep(self, found: Examination) -> None:
        """Stores an examined finding; a bucket shows the smallest case, then the earliest."""
        known = self._buckets.get(found.bucket)
        if known is not None and _size(known.examination) <= _size(found):
            self.database.assign(found.number, found.bucket)
            return
        file = self._save(found)
        self.database.keep(found, file)
        self._buckets[found.bucket] = StoredBucket(found.bucket, found, file, 1)
        if known is not None and known.file not in ("", file):
            self._remove(Path(known.file))

    def _remove(self, file: Path) -> None:
        """Removes a reproducer from the folder itself; others may count on those in a corpus."""
        own = self.cases.resolve()
        if self.request.corpus is None and file.resolve().parent == own:
            file.unlink(missing_ok=True)

    def _save(self, found: Examination) -> str:
        """The file of the reproducer, empty where there is none. Raises `CampaignError`."""
        if found.case is None:
            return ""
        try:
            self.corpus.mkdir(parents=True, exist_ok=True)
            if self.request.subject == PROGRAMS:
                return str(save_program(self.corpus, program_record_from_json(found.case)))
            return str(save_record(self.corpus, record_from_json(found.case)))
        except (OSError, UserError) as error:
            raise CampaignError(f"cannot write a reproducer: {error}") from error

    def _progress(self, under_way: int = 0) -> Progress:
        """With the cases of tasks that are under way: on slow devices a task takes minutes."""
        now, cases = time.monotonic(), self._cases + under_way
        elapsed = self._seconds_elapsed()
        if self._ready is not None:
            self._recent.append((now, cases))
        while len(self._recent) > 1 and now - self._recent[0][0] > RATE_SECONDS:
            self._recent.popleft()
        earlier, before = self._recent[0] if self._recent else (now, cases)
        fraction, left = self._ahead(elapsed)
        return Progress(
            cases=cases,
            rate=(cases - before) / max(now - earlier, 1e-3),
            rules=len(self._rules),
            known_rules=known_rules(),
            findings=self._findings,
            buckets=len(self._buckets),
            fraction=fraction,
            left=left,
            state=self._state(),
            noun=self.request.subject,
        )

    def _state(self) -> str:
        if self._ready is None:
            return "opening the device"
        return "examining" if self._is_over() and not self._chunks and self._examining else ""

    def _ahead(self, elapsed: float) -> tuple[float, float | None]:
        """How much of the whole is done, and seconds to go: of the limit that comes first."""
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


def _size(found: Examination) -> tuple[bool, int, int, int]:
    """A case that is there before one that is not, then the smallest, then the earliest."""
    return found.case is None, found.nodes, found.opts, found.number
