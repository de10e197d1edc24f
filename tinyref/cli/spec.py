"""`tinyref spec`: the tables that the suite is made of, readable by a person."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tinyref_spec.case import Row

_HELP = """Read the specification: what each case asks of a device.

\b
Examples:
  tinyref spec list "isa.binary.mod.*"
  tinyref spec show isa.binary.mod.int32
  tinyref spec show isa.binary.mod.int32.special:3
  tinyref spec rules --family division
"""

spec_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=_HELP)
_SHOWN_SPECIALS = 40


@spec_app.callback(help=_HELP)
def _spec() -> None:
    return


@spec_app.command("list")
def list_rows(
    query: Annotated[
        str, typer.Argument(help="An id, a prefix or a glob, of rows or cases; commas join.")
    ] = "*",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List the rows whose id or cases match, with their number of quick and full cases."""
    from tinyref.errors import UserError
    from tinyref_conformance import queries
    from tinyref_spec import catalogue
    from tinyref_spec.case import Profile

    rows = list(catalogue.all_rows())
    cases = {row.id: [case.id for case in row.cases(Profile.FULL)] for row in rows}
    # An id of a row is a query for all of its cases.
    unmatched = queries.unmatched_parts(query, itertools.chain(cases, *cases.values()))
    found = [
        row
        for row in rows
        if any(queries.matches(query, each) for each in (row.id, *cases[row.id]))
    ]
    if unmatched:
        raise UserError(
            f"spec: no row matches {unmatched[0]!r}: accepted are an id, a prefix such as "
            "isa.binary, or a glob such as '*.int32'"
        )
    if as_json:
        print(json.dumps([_row_facts(row) for row in found], indent=1))
        return
    for row in found:
        quick, full = (len(row.cases(profile)) for profile in (Profile.QUICK, Profile.FULL))
        print(f"{row.id:44} {quick:5} quick {full:5} full  {row.sentence}")


@spec_app.command("show")
def show(
    case_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a row or of a case.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Show one row: its clauses, what a device must declare, its error rule and its cases."""
    from tinyref_spec import catalogue

    row = catalogue.find_row(case_id)
    if as_json:
        print(json.dumps(_row_facts(row), indent=1))
        return
    for name, value in _lines(row, case_id):
        print(f"{name:13} {value}")


@spec_app.command("rules")
def rules(
    family: Annotated[str, typer.Option(help="Only rules of this family, such as integer.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List every rewrite rule: equation, domain and proof."""
    from tinyref.errors import UserError
    from tinyref_spec.proofs import record

    if family and family not in record.families():
        accepted = ", ".join(record.families())
        raise UserError(f"spec rules: unknown family {family!r}: accepted are {accepted}")
    found = record.all_facts(family or None)
    proofs = record.committed_proofs()
    counts = record.counts(proofs[facts.name] for facts in found)
    if as_json:
        entries = [asdict(facts) for facts in found]
        print(json.dumps({"counts": counts, "rules": entries}, indent=1))
        return
    for facts in found:
        print(f"{facts.name:24} {facts.family}")
        print(f"    {facts.equation}")
        print(f"    domain: {facts.domain}")
        print(f"    proof: {facts.proof} ({facts.laws} laws)")
    print(", ".join(f"{name} {count}" for name, count in counts.items()))


def _row_facts(row: Row) -> dict[str, Any]:
    from tinyref_spec.case import Profile

    return {
        "id": row.id,
        "sentence": row.sentence,
        "level": row.level,
        "rung": row.rung.title,
        "op": row.op,
        "dtype": row.dtype,
        "clauses": {label: _clause(label) for label in row.clauses},
        "error_rule": row.error_rule,
        "needs": _needs(row),
        "specials": [list(pair) for pair in row.specials],
        "quick": [case.id for case in row.cases(Profile.QUICK)],
        "full": [case.id for case in row.cases(Profile.FULL)],
    }


def _lines(row: Row, case_id: str) -> list[tuple[str, str]]:
    facts = _row_facts(row)
    lines = [
        ("row", row.id),
        ("", row.sentence),
        ("rung", f"{int(row.rung)}, {row.rung.title}: {row.rung.sentence}"),
        *(("clause", f"{label}: {text}") for label, text in facts["clauses"].items()),
        ("error rule", row.error_rule),
        ("needs", facts["needs"]),
        ("cases", f"{len(facts['quick'])} in quick, {len(facts['full'])} in full"),
    ]
    for inputs, result in row.specials[:_SHOWN_SPECIALS]:
        lines.append(("special", f"{inputs} -> {result}"))
    if len(row.specials) > _SHOWN_SPECIALS:
        lines.append(("", f"... and {len(row.specials) - _SHOWN_SPECIALS} more"))
    query = case_id if case_id != row.id else f"{row.id}"
    lines.append(("run it", f"tinyref conform --query {query}"))
    return lines


def _clause(label: str) -> str:
    from tinyref_spec.clauses import clause

    return clause(label).sentence


def _needs(row: Row) -> str:
    parts = sorted(dtype.name for dtype in row.needs.dtypes)
    parts += sorted(row.needs.features)
    return ", ".join(parts) or "nothing"
