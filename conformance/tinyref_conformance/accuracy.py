"""How far the functions of devices are off: one table of several reports, as a page.

`python -m tinyref_conformance.accuracy docs/accuracy.md CPU/report.json PYTHON/report.json ...`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tinyref.errors import UserError
from tinyref_spec.level_pages import table

Report = dict[str, Any]
HEAD = """# Accuracy

The largest error in ULP of the result's type, from the correctly rounded value, and in parentheses
that which 99 of 100 results are within. 0 is exact, - is not measured. Limits are those of the
[specification](spec/limits.md).

Made by `python -m tinyref_conformance.accuracy docs/accuracy.md REPORT.json...` of the reports of
`tinyref conform --profile full --device NAME --query 'QUERY'`; edit nothing here.
"""


def page(reports: Sequence[Report]) -> str:
    """The page of these reports. Raises `UserError` where they are of different queries."""
    certificates = [report["certificate"] for report in reports]
    queries = {certificate["query"] for certificate in certificates}
    if len(queries) != 1:
        raise UserError(f"accuracy: reports of different queries: {sorted(queries)}")
    devices = [certificate["device"] for certificate in certificates]
    if len(set(devices)) != len(devices):
        raise UserError(f"accuracy: two reports of one device: {devices}")
    lines = [HEAD.replace("QUERY", queries.pop()), "## Devices", ""]
    lines += table(
        ("device", "versions"),
        ((one["device"], _versions(one["device_versions"])) for one in certificates),
    )
    lines += ["", "## Errors", ""]
    lines += table(("row", "limit", *devices), _rows(reports))
    return "\n".join([*lines, ""])


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))


def _rows(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """A line for each row that some device is not exact in, or may be so."""
    measured = [
        {row["id"]: row for row in report["rows"] if row["max_ulp"] is not None}
        for report in reports
    ]
    rules = {name: row["error_rule"] for rows in measured for name, row in rows.items()}
    return [
        (f"`{name}`", _limit(rule), *(_error(rows.get(name)) for rows in measured))
        for name, rule in rules.items()
        if not rule.startswith("Exact") or any(_is_off(rows.get(name)) for rows in measured)
    ]


def _is_off(row: dict[str, Any] | None) -> bool:
    return row is not None and row["max_ulp"] > 0


def _limit(rule: str) -> str:
    """`Within 3 ULP of ...` as 3."""
    words = rule.split()
    return words[1] if words[:1] == ["Within"] and words[2:3] == ["ULP"] else "0"


def _error(row: dict[str, Any] | None) -> str:
    return "-" if row is None else f"{row['max_ulp']:.3g} ({row['p99_ulp']:.3g})"


def main(words: Sequence[str]) -> None:
    """Writes the page that is named first, of the reports that follow."""
    if len(words) < 2:
        sys.exit("usage: python -m tinyref_conformance.accuracy OUT.md REPORT.json...")
    reports = [json.loads(Path(name).read_text(encoding="utf-8")) for name in words[1:]]
    Path(words[0]).write_text(page(reports), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
