"""The reports of all shards merged into one, if they are of the same build and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref.folders import prepare_folder, set_aside
from tinyref.workers.tasks import differences
from tinyref_conformance import report as report_files
from tinyref_conformance import reports
from tinyref_conformance.plan import Shard, shard_reduction
from tinyref_conformance.report import HASH, OPEN_CASE, CaseResult, Report, RowResult

# Fields of the certificate that must be equal in all shards of a run, with their names.
SAME = {
    "device": "device",
    "second": "other device",
    "profile": "profile",
    "query": "query",
    "suite": "suite",
    "suite_hash": "tables of the suite",
    "seed": "seed",
    "cases_asked": "number of cases",
    "git": "commit of tinyref",
    "device_versions": "versions of the device",
    "second_versions": "versions of the other device",
    "compiler": "compiler",
    "flags": "flags",
    "environment": "environment",
    "expected_failures": "number of expectations",
}


def load_shards(paths: Sequence[Path]) -> list[tuple[str, Report]]:
    """Return the reports with their paths; for a folder, its report.json.

    Raises `UserError` for a report that was edited.
    """
    files = [path / reports.JSON_NAME if path.is_dir() else path for path in paths]
    return [(str(file), report_files.load_unedited(file)) for file in files]


def merge(shards: Sequence[tuple[str, Report]]) -> Report:
    """Return the report of the whole run. Raises `UserError` with what prevents it."""
    ordered = _in_order(shards)
    first_name, first = ordered[0]
    for name, report in ordered[1:]:
        if differing := changes(first.certificate, report.certificate):
            raise UserError(
                f"merge: {name} is of another run than {first_name}: {'; '.join(differing)}"
            )
    _check_cases(ordered)
    rows: list[RowResult] = []
    cases: dict[str, list[CaseResult]] = {}
    for _, report in ordered:
        # Each shard opened the device, but the report has that row once.
        rows += [row for row in report.rows if row.id != OPEN_CASE or not rows]
        for case in report.cases:
            if case.id != OPEN_CASE or not cases:
                cases.setdefault(case.row, []).append(case)
    rows.sort(key=lambda row: row.rung)
    problems = [
        f"shard {report.certificate['shard']}: {problem}"
        for _, report in ordered
        for problem in report.problems
    ]
    in_rows = [case for row in rows for case in cases[row.id]]
    return Report(_certificate([report for _, report in ordered]), rows, in_rows, problems)


def changes(first: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the differences that show that two certificates are of different runs."""
    # If the named fields agree, sources, libraries and capabilities may still differ.
    return differences(_named(first), _named(other)) or differences(
        first["identity"], other["identity"]
    )


def _named(facts: Mapping[str, Any]) -> dict[str, str]:
    return {words: str(facts[name]) for name, words in SAME.items() if facts.get(name) is not None}


def _in_order(shards: Sequence[tuple[str, Report]]) -> list[tuple[str, Report]]:
    """Return the shards from first to last, after checking that each is present once."""
    if not shards:
        raise UserError("merge: name the report.json of each shard")
    numbered: dict[Shard, tuple[str, Report]] = {}
    for name, report in shards:
        shard = _shard_of(name, report)
        if shard in numbered:
            raise UserError(f"merge: shard {shard} appears twice: {numbered[shard][0]}, {name}")
        numbered[shard] = (name, report)
    counts = sorted({shard.count for shard in numbered})
    if len(counts) > 1:
        raise UserError(f"merge: shards of {counts[0]} and of {counts[1]} are not of one run")
    expected = [Shard(number, counts[0]) for number in range(1, counts[0] + 1)]
    if missing := [str(shard) for shard in expected if shard not in numbered]:
        raise UserError(f"merge: missing: shard {', '.join(missing)}")
    return [numbered[shard] for shard in expected]


def _shard_of(name: str, report: Report) -> Shard:
    facts = report.certificate
    if not facts.get("identity"):
        raise UserError(f"merge: {name} does not identify its device, which did not open")
    if not isinstance(facts.get("shard"), str):
        raise UserError(f"merge: {name} is of no shard: it was run without --shard")
    return Shard.parse(facts["shard"])


def _check_cases(shards: Sequence[tuple[str, Report]]) -> None:
    """Raise `UserError` if shards overlap or leave cases out, as with different timings."""
    homes: dict[str, str] = {}
    for name, report in shards:
        for case in report.cases:
            if case.id != OPEN_CASE and (other := homes.setdefault(case.id, name)) != name:
                raise UserError(
                    f"merge: {case.id} is in {other} and in {name}: shards of one run have the "
                    "same --timings"
                )
    asked = shards[0][1].certificate["cases_asked"]
    if len(homes) != asked:
        raise UserError(
            f"merge: the shards have {len(homes):,} of the {asked:,} cases: shards of one run have "
            "the same --timings"
        )


def _certificate(shards: Sequence[Report]) -> dict[str, Any]:
    """Return the certificate of the first shard, with the sums of all shards."""
    facts = [report.certificate for report in shards]
    sums = {
        name: round(sum(shard[name] for shard in facts), 3)
        for name in ("cases_planned", "seconds", "resumed_cases")
    }
    reductions = [
        reason
        for shard in facts
        for reason in shard["reductions"]
        if reason != shard_reduction(shard["shard"])
    ]
    return {
        **facts[0],
        **sums,
        "shard": None,
        "reductions": list(dict.fromkeys(reductions)),
        "started": min(shard["started"] for shard in facts),
        "shards": [
            {name: shard[name] for name in ("shard", "started", "seconds", HASH)} for shard in facts
        ],
    }


def write(report: Report, folder: Path) -> list[Path]:
    """Write the files of a merged report; files of an earlier run are renamed."""
    prepare_folder(folder, "out")
    set_aside([folder / name for name in reports.NAMES])
    return reports.write_all(report, folder)
