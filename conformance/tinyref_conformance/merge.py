"""The reports of all shards as the report of one run, where they are of one build and device."""

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

# Members of the certificate that are the same in all shards of a run, in words.
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
    """The reports, with where each is from; a folder stands for the report.json in it.

    Raises `UserError` for one that was edited.
    """
    files = [path / reports.JSON_NAME if path.is_dir() else path for path in paths]
    return [(str(file), report_files.load_unedited(file)) for file in files]


def merge(shards: Sequence[tuple[str, Report]]) -> Report:
    """The report of the whole run. Raises `UserError` that says what keeps them from being one."""
    ordered = _in_order(shards)
    first_name, first = ordered[0]
    for name, report in ordered[1:]:
        if found := changes(first.certificate, report.certificate):
            raise UserError(f"merge: {name} is not of the run of {first_name}: {'; '.join(found)}")
    _check_cases(ordered)
    rows: list[RowResult] = []
    cases: dict[str, list[CaseResult]] = {}
    for _, report in ordered:
        # Each has opened the device: it is in the report once.
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
    """What keeps two certificates from being of one run, a line each."""
    # Sources, libraries and capabilities, beside what was said by its name already.
    return differences(_named(first), _named(other)) or differences(
        first["identity"], other["identity"]
    )


def _named(facts: Mapping[str, Any]) -> dict[str, str]:
    return {words: str(facts[name]) for name, words in SAME.items() if facts.get(name) is not None}


def _in_order(shards: Sequence[tuple[str, Report]]) -> list[tuple[str, Report]]:
    """From the first shard to the last, each of them there once."""
    if not shards:
        raise UserError("merge: name the report.json of each shard")
    numbered: dict[Shard, tuple[str, Report]] = {}
    for name, report in shards:
        shard = _shard_of(name, report)
        if shard in numbered:
            raise UserError(f"merge: shard {shard} is there twice: {numbered[shard][0]}, {name}")
        numbered[shard] = (name, report)
    counts = sorted({shard.count for shard in numbered})
    if len(counts) > 1:
        raise UserError(f"merge: shards of {counts[0]} and of {counts[1]} are not of one run")
    wanted = [Shard(number, counts[0]) for number in range(1, counts[0] + 1)]
    if missing := [str(shard) for shard in wanted if shard not in numbered]:
        raise UserError(f"merge: missing: shard {', '.join(missing)}")
    return [numbered[shard] for shard in wanted]


def _shard_of(name: str, report: Report) -> Shard:
    facts = report.certificate
    if not facts.get("identity"):
        raise UserError(f"merge: {name} does not say of what device it is: it did not open")
    if not isinstance(facts.get("shard"), str):
        raise UserError(f"merge: {name} is of no shard: it was run without --shard")
    return Shard.parse(facts["shard"])


def _check_cases(shards: Sequence[tuple[str, Report]]) -> None:
    """Shards that were weighed by other timings overlap, or leave cases out."""
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
    """That of the first; what a whole run has is the sum of its shards."""
    facts = [report.certificate for report in shards]
    sums = {
        name: round(sum(each[name] for each in facts), 3)
        for name in ("cases_planned", "seconds", "resumed_cases")
    }
    reductions = [
        reason
        for each in facts
        for reason in each["reductions"]
        if reason != shard_reduction(each["shard"])
    ]
    return {
        **facts[0],
        **sums,
        "shard": None,
        "reductions": list(dict.fromkeys(reductions)),
        "started": min(each["started"] for each in facts),
        "shards": [
            {name: each[name] for name in ("shard", "started", "seconds", HASH)} for each in facts
        ],
    }


def write(report: Report, folder: Path) -> list[Path]:
    """The files of a merged report; those of an earlier run are kept beside them."""
    prepare_folder(folder, "out")
    set_aside([folder / name for name in reports.NAMES])
    return reports.write_all(report, folder)
