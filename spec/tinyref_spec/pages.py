"""The specification as pages: Markdown made from the tables, and the text of one row or case.

`python -m tinyref_spec.pages OUT` writes the pages to a folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tinyref.optimise.opt import OPTS
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile, Row, Rung
from tinyref_spec.clauses import clause, clauses
from tinyref_spec.error_rules import LIMITS, STRICT_LIMITS
from tinyref_spec.proofs import listing, record

NOTE = "<!-- Made by `python -m tinyref_spec.pages docs/spec`; edit the tables, not this page. -->"
LEVELS = {
    "memory": "Memory: open, allocate, copy, views, gates, red zones.",
    "kernel": "Kernels: views, reduces, matrix products, programs written by hand.",
    "isa": "Primitive operations on every dtype.",
    "tensor": "Tensor functions, forward and backward.",
    "system": "Replay, symbolic sizes, many kernels, memory, transfers, many devices, images.",
    "model": "Small networks that train.",
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(head)
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _needs_text(row: Row) -> str:
    parts = sorted(dtype.name for dtype in row.needs.dtypes)
    parts += sorted(row.needs.ops)
    parts += sorted(feature for feature in row.needs.features if feature != "kernels")
    return ", ".join(parts) or "nothing"


def _counts(row: Row) -> str:
    return f"{len(row.cases(Profile.QUICK))} / {len(row.cases(Profile.FULL))}"


def index_page() -> str:
    """The first page: levels, rungs, counts."""
    rows = catalogue.all_rows()
    lines = ["# The specification", NOTE, ""]
    lines.append("Every line of these pages is a row of the tables in `tinyref_spec`; every row is")
    lines.append("checked by the cases that `tinyref conform` runs.")
    lines += ["", "## Levels", ""]
    body = []
    for level, sentence in LEVELS.items():
        mine = [row for row in rows if row.level == level]
        quick = sum(len(row.cases(Profile.QUICK)) for row in mine)
        full = sum(len(row.cases(Profile.FULL)) for row in mine)
        body.append((f"[{level}]({level}.md)", sentence, str(len(mine)), str(quick), str(full)))
    lines += _table(("level", "what", "rows", "quick cases", "full cases"), body)
    lines += ["", "## The ladder", ""]
    climbed = [
        (str(int(rung)), rung.title, rung.sentence, str(sum(row.rung is rung for row in rows)))
        for rung in Rung
    ]
    lines += _table(("rung", "name", "what holds there", "rows"), climbed)
    lines += ["", "See also the [clauses](clauses.md), the [error limits](limits.md), the"]
    lines += ["[rewrite rules](rules.md) and the [optimisations](optimisations.md).", ""]
    return "\n".join(lines)


def clauses_page() -> str:
    """Every clause with its source and the number of rows that cite it."""
    counts: dict[str, int] = {}
    for row in catalogue.all_rows():
        for label in row.clauses:
            counts[label] = counts.get(label, 0) + 1
    lines = ["# Clauses", NOTE, ""]
    lines += _table(
        ("label", "sentence", "source", "rows"),
        (
            (f"`{item.label}`", item.sentence, item.source, str(counts.get(item.label, 0)))
            for item in sorted(clauses().values(), key=lambda item: item.label)
        ),
    )
    return "\n".join([*lines, ""])


def limits_page() -> str:
    """The ULP limits of the functions that are not exact."""
    lines = ["# Error limits", NOTE, ""]
    lines.append("In ULP of the result's dtype, from the correctly rounded value. All else is 0.")
    lines.append("")
    body = []
    for op, limits in LIMITS.items():
        strict = STRICT_LIMITS.get(op, limits)
        body.append((op, *(_limit(a, b) for a, b in zip(limits, strict, strict=True))))
    lines += _table(("op", "float16, bfloat16", "float32", "float64"), body)
    lines += [
        "",
        "Sums and products of matrices: |error| <= n*u*sum|a*b|, one rounding to the output, no",
        "bias and no excess spread over 1,000 products. Composite functions: the bounds of their",
        "parts, passed on through each other (`tinyref_spec.bounded`).",
        "",
    ]
    return "\n".join(lines)


def _limit(loose: float, strict: float) -> str:
    return f"{loose:g}" if loose == strict else f"{loose:g} (strict: {strict:g})"


def level_page(level: str) -> str:
    """The rows of one level; the special cases of the primitive operations."""
    rows = [row for row in catalogue.all_rows() if row.level == level]
    lines = [f"# {LEVELS[level]}", NOTE, ""]
    lines += _table(
        ("row", "what", "clauses", "rung", "error rule", "needs", "cases quick / full"),
        (
            (
                f"`{row.id}`",
                row.sentence,
                ", ".join(f"`{label}`" for label in row.clauses),
                row.rung.title,
                row.error_rule,
                _needs_text(row),
                _counts(row),
            )
            for row in rows
        ),
    )
    special = [row for row in rows if row.specials and row.op not in ("CAST", "BITCAST")]
    if special:
        lines += ["", "## Special cases", ""]
        lines += _table(
            ("row", "special cases: operands -> result"),
            ((f"`{row.id}`", _specials_text(row)) for row in special),
        )
    return "\n".join([*lines, ""])


def _specials_text(row: Row) -> str:
    return "; ".join(f"{operands} -> {result}" for operands, result in row.specials)


def rules_page() -> str:
    """Every rewrite rule with its equation, domain and proof, and how many are proved how."""
    lines = ["# Rewrite rules", NOTE, ""]
    lines.append("Every rule stands for laws, equations for all values of their leaves and of the")
    lines.append(
        "constants that the rule takes (`tinyref_spec.proofs`). Laws on integers and bools"
    )
    lines.append(
        "are proved by z3: over bit-vectors, or over integers in the range of each type of"
    )
    lines.append(
        "32 and 64 bits, where nothing may leave it, and unbounded ones for `index`. Rules"
    )
    lines.append(
        "are fired on instances of their laws and must give what these say. Float rules are"
    )
    lines.append("computed for every float16. `tinyref spec rules` adds how often each rule fires.")
    lines += ["", "## Counts", ""]
    proofs = record.committed_proofs()
    counts = record.counts(proofs.values())
    lines += _table(("what", "rules"), ((name, str(count)) for name, count in counts.items()))
    for family in listing.families():
        lines += ["", f"## {family}", ""]
        lines += _table(
            ("rule", "equation", "domain", "proof", "laws"),
            (
                (f"`{facts.name}`", facts.equation, facts.domain, facts.proof, str(facts.laws))
                for facts in listing.all_facts(family)
            ),
        )
    return "\n".join([*lines, ""])


def optimisations_page() -> str:
    """Every optimisation of the kernel optimiser: what it does, and where it is refused."""
    lines = ["# Optimisations", NOTE, ""]
    lines.append("What `Opt(op, axis, arg)` does to a plan ([optimiser](../optimiser.md)).")
    lines.append("")
    lines += _table(
        ("op", "effect", "refused"),
        ((op.value, spec.effect, spec.refused) for op, spec in OPTS.items()),
    )
    return "\n".join([*lines, ""])


def pages() -> dict[str, str]:
    """Every page by file name."""
    found = {
        "index.md": index_page(),
        "clauses.md": clauses_page(),
        "limits.md": limits_page(),
        "rules.md": rules_page(),
        "optimisations.md": optimisations_page(),
    }
    return {**found, **{f"{level}.md": level_page(level) for level in LEVELS}}


def describe(name: str) -> str:
    """The text of `tinyref spec show ID`: a case, a row, or a clause.

    Raises `UserError` for an id that is none of them.
    """
    if name in clauses():
        return _clause_text(name)
    rows = {row.id: row for row in catalogue.all_rows()}
    if name in rows:
        return _row_text(rows[name])
    case = catalogue.find(name)
    return f"{_case_text(case)}\n{_row_text(rows[case.row])}"


def _clause_text(label: str) -> str:
    found = clause(label)
    citing = [row.id for row in catalogue.all_rows() if label in row.clauses]
    shown = ", ".join(citing[:8]) + (f" and {len(citing) - 8} more" if len(citing) > 8 else "")
    return f"{label}\n  {found.sentence}\n  source: {found.source}\n  rows: {shown}\n"


def _case_text(case: Case) -> str:
    lines = [case.id, f"  rung: {case.rung.title}: {case.rung.sentence}"]
    if case.expects_refusal:
        lines.append("  passes when it is refused with a clear error")
    if case.depends_on:
        lines.append(f"  says nothing without: {', '.join(case.depends_on)}")
    return "\n".join([*lines, ""])


def _row_text(row: Row) -> str:
    lines = [row.id, f"  {row.sentence}", f"  error rule: {row.error_rule}"]
    lines.append(f"  rung: {row.rung.title}")
    lines.append(f"  needs: {_needs_text(row)}")
    lines.append(f"  cases: {_counts(row)} (quick / full)")
    lines.append("  clauses:")
    for label in row.clauses:
        found = clause(label)
        lines.append(f"    {label}: {found.sentence} [{found.source}]")
    if row.specials:
        lines.append("  special cases:")
        lines += [f"    {operands} -> {result}" for operands, result in row.specials]
    return "\n".join([*lines, ""])


def write(folder: Path) -> list[Path]:
    """Writes every page to `folder` (made if missing), and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tinyref_spec.pages OUT")
    for page in write(Path(sys.argv[1])):
        sys.stdout.write(f"{page}\n")
