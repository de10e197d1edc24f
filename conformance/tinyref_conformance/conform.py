"""A whole run from settings to written reports, for the command line."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tinyref import reproduce
from tinyref.errors import UserError
from tinyref.folders import prepare_folder
from tinyref.workers.run import Quiet, Reporter
from tinyref.workers.tasks import ChangedError
from tinyref_conformance import expectations as known
from tinyref_conformance import expectations_file, queries, reports
from tinyref_conformance import report as report_files
from tinyref_conformance.assemble import Assembler
from tinyref_conformance.describe import find_differences
from tinyref_conformance.journal import CaseJournal
from tinyref_conformance.plan import Plan, Shard, make_plan
from tinyref_conformance.records import Outcome
from tinyref_conformance.report import Report
from tinyref_conformance.runner import Runner
from tinyref_conformance.settings import RunSettings, worker_configuration
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import Suite
from tinyref_spec.case import Profile


@dataclass(frozen=True)
class ConformRequest:
    """All options of a run.

    timings: an earlier JSON report, whose seconds weigh the shards. update: new failures go to the
    expectations file with `reason` and `link`.

    Examples:
        >>> from pathlib import Path
        >>> from tinyref_conformance.conform import ConformRequest
        >>> from tinyref_conformance.settings import RunSettings
        >>> settings = RunSettings("CPU", Path("report"))
        >>> ConformRequest(settings, query="tensor.relu.*").profile.value
        'quick'
    """

    settings: RunSettings
    profile: Profile = Profile.QUICK
    query: str = queries.EVERYTHING
    shard: Shard | None = None
    timings: Path | None = None
    expectations: Path | None = None
    update: bool = False
    reason: str = ""
    link: str = ""
    extra_binding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finished:
    """A run that ended, its report, and the paths of its files."""

    report: Report
    files: list[Path]

    @property
    def reproducer(self) -> Path | None:
        """Return the script of the first failure; None if nothing failed."""
        return next((path for path in self.files if path.name == reports.SCRIPT_NAME), None)


def conform(request: ConformRequest, reporter: Reporter | None = None) -> Finished:
    """Run the suite and write the reports.

    Raises `UserError` for an invalid request, before a case runs. Raises `KeyboardInterrupt` with
    all results on disk.
    """
    settings = request.settings
    suite = Suite(settings.catalogue)
    expectations = _expectations(request, suite)
    timings = _timings(request.timings)
    plan = make_plan(suite, request.profile, request.query, request.shard, timings)
    prepare_folder(settings.folder, "out")
    started = report_files.now()
    assembler = Assembler(
        plan,
        suite,
        settings.device,
        Outcome(),
        expectations,
        settings.second,
        settings.folder / reports.JSON_NAME,
    )
    try:
        assembler.outcome = _run(request, plan, suite, assembler, reporter or Quiet())
    except ChangedError as error:
        if not settings.restart:
            raise UserError(
                f"resume: {error}: go on with --resume --restart to begin again and "
                "rename the earlier results"
            ) from error
        again = replace(request, settings=replace(settings, resume=False))
        assembler.outcome = _run(again, plan, suite, assembler, reporter or Quiet())
    if request.update:
        assembler.expectations = _update(request, assembler, suite)
    report = assembler.report(started)
    if settings.rerun_seconds and not settings.cluster:
        find_differences(report, worker_configuration(settings, plan))
    return Finished(report, reports.write_all(report, settings.folder))


def _run(
    request: ConformRequest, plan: Plan, suite: Suite, assembler: Assembler, reporter: Reporter
) -> Outcome:
    """Return the outcome. Raises `ChangedError` if the run to resume is a different one."""
    settings = request.settings
    lock = CaseJournal.lock(settings.folder)
    try:
        journal = CaseJournal.start(
            settings.folder, _binding(request, suite, plan), settings.resume, reports.NAMES
        )
        try:
            with reporter.showing():
                return Runner(
                    plan, settings, journal, reporter, assembler.is_expected, assembler.skipped
                ).run()
        finally:
            journal.close()
    finally:
        lock.release()


def _binding(request: ConformRequest, suite: Suite, plan: Plan) -> dict[str, Any]:
    return {
        "device": request.settings.device,
        "suite": suite.name,
        "suite hash": plan.suite_hash,
        "profile": request.profile.value,
        "seed": suite.seed(),
        "query": request.query,
        "shard": None if request.shard is None else str(request.shard),
        "number of cases": plan.count,
        **({"order": "as in the query"} if request.settings.sequence else {}),
        **({"second device": request.settings.second} if request.settings.second else {}),
        **request.extra_binding,
    }


def _expectations(request: ConformRequest, suite: Suite) -> known.Expectations:
    device, path = request.settings.device, request.expectations
    if request.update:
        if path is None:
            raise UserError("--update-expectations: say which file with --expectations FILE")
        if not request.reason.strip() or not request.link.strip():
            raise UserError(
                "--update-expectations: new entries need --reason TEXT and --link ADDRESS"
            )
        expectations_file.check_link(request.link, "--link")
    if path is None or (request.update and not path.exists()):
        return with_differences(known.Expectations(device), suite)
    expectations = with_differences(expectations_file.load(path, device), suite)
    if not request.update and (unmatched := expectations.unmatched(_all_ids(suite))):
        raise UserError(
            f"expectations: {path}: no case of the suite matches {unmatched[0]!r}: accepted are an "
            "id, a prefix of ids or a glob; tinyref spec list shows them"
        )
    return expectations


def with_differences(own: known.Expectations, suite: Suite) -> known.Expectations:
    """Return the expectations together with those for a library's own definitions."""
    own_files = [expectations_file.load(path, path.stem) for path in suite.differences(own.device)]
    return replace(own, entries=(*own.entries, *(e for file in own_files for e in file.entries)))


def as_sequence(request: ConformRequest, text: str) -> ConformRequest:
    """Return a request that runs cases in a fixed order, all in one worker.

    text: ids separated by commas, or a report.json that has a sequence for the case of the query.
    Raises `UserError` if it has none, or an id is named twice.
    """
    path = Path(text)
    if _is_file(path):
        ids = report_files.sequence_of(report_files.load(path), request.query)
    else:
        ids = queries.parts(text)
    if len(set(ids)) < len(ids):
        raise UserError("sequence: each case may be in it once")
    # A failure in a sequence may pass alone, which is what the sequence shows.
    settings = replace(request.settings, sequence=ids, rerun_seconds=0.0)
    return replace(request, query=",".join(ids), settings=settings)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # A list of ids is longer than any name of a file.
        return False


def _all_ids(suite: Suite) -> list[str]:
    """Return the cases of every profile, which one expectations file serves."""
    return [
        case.id for profile in Profile for row in suite.rows(profile) for case in row.cases(profile)
    ]


def _update(request: ConformRequest, assembler: Assembler, suite: Suite) -> known.Expectations:
    if assembler.outcome.open_failure:
        raise UserError("--update-expectations: the device does not open, so nothing was measured")
    before, today = assembler.expectations, datetime.date.today()
    # The library's own differences have a file of the suite.
    differences = with_differences(known.Expectations(before.device), suite)
    own = (entry for entry in before.entries if entry not in differences.entries)
    old = replace(before, entries=tuple(own))
    observed = [
        case
        for case in assembler.observed()
        if differences.final(case.case_id, case.status, case.phase, today)[0]
        is not Status.EXPECTED_FAIL
    ]
    update = known.updated_expectations(old, observed, request.reason, request.link)
    update = update.without(old.unmatched(_all_ids(suite)))
    if request.expectations is not None:
        expectations_file.write_update(update, request.expectations)
    return with_differences(update.expectations, suite)


def _timings(path: Path | None) -> dict[str, float]:
    if path is None:
        return {}
    return {case.id: case.seconds for case in report_files.load(path).cases}


def resume_command(request: ConformRequest) -> str:
    """Return the command that continues an interrupted run."""
    settings = request.settings
    parts = ["tinyref", "conform", *report_files.device_options(settings.device, settings.second)]
    parts += ["--profile", request.profile.value]
    if settings.cluster:
        parts += ["--cluster", settings.cluster]
    if settings.sequence:
        parts += ["--sequence", request.query]
    elif request.query != queries.EVERYTHING:
        parts += ["--query", request.query]
    if request.shard is not None:
        parts += ["--shard", str(request.shard)]
    if request.timings is not None:
        parts += ["--timings", str(request.timings)]
    if request.expectations is not None:
        parts += ["--expectations", str(request.expectations)]
    parts += ["--out", str(settings.folder), "--resume"]
    return reproduce.command(parts, reproduce.settings())
