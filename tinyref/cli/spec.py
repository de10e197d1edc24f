"""`tinyref spec`: print the tables that the suite is made of."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinyref.cli.options import json_option, query_option, write_json

if TYPE_CHECKING:
    from tinyref_spec.case import Row

_HELP = """Read the specification: what each case requires of a device.

\b
Examples:
  tinyref spec list                             the families of rows
  tinyref spec list -q "isa.binary.mod.*"       the rows of a query
  tinyref spec show isa.binary.mod.int32
  tinyref spec show isa.binary.mod.int32.special:3
  tinyref spec rules -q division
"""

spec_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=_HELP)
_SHOWN_SPECIALS = 40
# A first word with more second words is one family: the functions of Tensor.
LARGEST_FAMILY = 40
_JSON = Annotated[Path | None, json_option()]


@spec_app.callback(help=_HELP)
def _spec() -> None:
    return


@spec_app.command("list")
def list_rows(
    query: Annotated[
        str,
        query_option("List the rows of an id, a prefix or a glob of rows or cases; commas join."),
    ] = "",
    json: _JSON = None,
) -> None:
    """List the families of rows, or the rows of a query, with their quick and full cases.

    \b
    Examples:
      tinyref spec list
      tinyref spec list -q isa.binary
      tinyref spec list -q rung:gates
      tinyref spec list -q "*.float16" --json float16.json
    """
    from tinyref.errors import UserError
    from tinyref_conformance import queries
    from tinyref_spec import catalogue
    from tinyref_spec.case import Profile

    rows = list(catalogue.all_rows())
    if query:
        # The id of a row is a query for all of its cases.
        names = {
            row.id: [row.rung.query, row.id, *(case.id for case in row.cases(Profile.FULL))]
            for row in rows
        }
        unmatched = queries.unmatched_parts(query, itertools.chain(*names.values()))
        rows = [row for row in rows if any(queries.matches(query, name) for name in names[row.id])]
        if unmatched:
            raise UserError(
                f"spec: no row matches {unmatched[0]!r}: accepted are an id, a prefix such as "
                "isa.binary, a glob such as '*.int32', or a rung such as rung:gates"
            )
    if json is not None:
        write_json(json, [_row_facts(row) for row in rows], "spec")
    elif query:
        for row in rows:
            quick, full = (len(row.cases(profile)) for profile in (Profile.QUICK, Profile.FULL))
            print(f"{row.id:44} {quick:5} quick {full:5} full  {row.sentence}")
    else:
        _print_families(rows)


def _print_families(rows: list[Row]) -> None:
    """Print the families of rows, with their rows, cases and rungs.

    A family is the first two words of ids, or the first if it has many second words.
    """
    from tinyref_spec.case import Profile

    names = {tuple(row.id.split(".")[:2]) for row in rows}
    sizes = Counter(first for first, _ in names)
    families: dict[str, list[Row]] = {}
    for row in rows:
        first, second = row.id.split(".")[:2]
        family = first if sizes[first] > LARGEST_FAMILY else f"{first}.{second}"
        families.setdefault(family, []).append(row)
    print(f"{'family':28} {'rows':>6} {'quick':>7} {'full':>7}  rungs")
    for family, members in [*families.items(), ("all", rows)]:
        quick, full = (
            sum(len(row.cases(profile)) for row in members)
            for profile in (Profile.QUICK, Profile.FULL)
        )
        least, most = (choose(row.rung for row in members).title for choose in (min, max))
        rungs = least if least == most else f"{least} to {most}"
        print(f"{family:28} {len(members):6,} {quick:7,} {full:7,}  {rungs}")
    print("\nThe rows of one: tinyref spec list -q FAMILY")


@spec_app.command("show")
def show(
    case_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a row or of a case.")],
    json: _JSON = None,
) -> None:
    """Show one row: its clauses, what a device must declare, its error rule and its cases.

    \b
    Examples:
      tinyref spec show isa.binary.mod.int32
      tinyref spec show isa.binary.mod.int32.special:3
    """
    from tinyref_spec import catalogue

    row = catalogue.find_row(case_id)
    if json is not None:
        write_json(json, _row_facts(row), "spec")
        return
    for name, value in _lines(row, case_id):
        print(f"{name:13} {value}")


@spec_app.command("rules")
def rules(
    query: Annotated[
        str, query_option("Only the rules of this family, such as integer, or of this name.")
    ] = "",
    json: _JSON = None,
) -> None:
    """List the rewrite rules: equation, domain and proof.

    \b
    Examples:
      tinyref spec rules -q division
      tinyref spec rules -q "int-*"
    """
    from fnmatch import fnmatchcase

    from tinyref.errors import UserError
    from tinyref_spec.proofs import record

    facts_of_rules = [
        facts
        for facts in record.all_facts(None)
        if not query or facts.family == query or fnmatchcase(facts.name, query)
    ]
    if not facts_of_rules:
        accepted = ", ".join(record.families())
        raise UserError(
            f"spec rules: no family and no rule is called {query!r}: accepted are {accepted}, "
            "and names or globs of rules"
        )
    proofs = record.committed_proofs()
    counts = record.counts(proofs[facts.name] for facts in facts_of_rules)
    if json is not None:
        entries = [asdict(facts) for facts in facts_of_rules]
        write_json(json, {"counts": counts, "rules": entries}, "spec")
        return
    for facts in facts_of_rules:
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
