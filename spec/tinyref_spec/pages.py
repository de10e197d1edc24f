"""The specification as pages: Markdown made from the tables.

`python -m tinyref_spec.pages OUT` writes the pages to a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tinyref.optimise.opt import OPTS, Condition
from tinyref_spec import catalogue
from tinyref_spec.case import Profile, Row, Rung
from tinyref_spec.clauses import clauses
from tinyref_spec.error_rules import LIMITS, STRICT_LIMITS
from tinyref_spec.level_pages import LEVELS, NOTE, families, page, table
from tinyref_spec.proofs import record


def index_page() -> str:
    """Return the first page: levels, rungs, counts."""
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
        body.append((level, sentence, str(len(mine)), str(quick), str(full), _links(level, mine)))
    lines += table(("level", "what", "rows", "quick cases", "full cases", "pages"), body)
    lines += ["", "## The ladder", ""]
    climbed = [
        (str(int(rung)), rung.title, rung.sentence, str(sum(row.rung is rung for row in rows)))
        for rung in Rung
    ]
    lines += table(("rung", "name", "what holds there", "rows"), climbed)
    lines += ["", "See also the [clauses](clauses.md), the [error limits](limits.md), the"]
    lines += ["[rewrite rules](rules.md) and the [optimisations](optimisations.md).", ""]
    return "\n".join(lines)


def _links(level: str, rows: list[Row]) -> str:
    """Return links to the pages of a level, named without the level."""
    names = families(level, rows)
    return ", ".join(f"[{name.removeprefix(f'{level}.')}]({name}.md)" for name in names)


def clauses_page() -> str:
    """Return the page of clauses with their sources and the number of rows that cite them."""
    counts: dict[str, int] = {}
    for row in catalogue.all_rows():
        for label in row.clauses:
            counts[label] = counts.get(label, 0) + 1
    lines = ["# Clauses", NOTE, ""]
    lines += table(
        ("label", "sentence", "source", "rows"),
        (
            (f"`{item.label}`", item.sentence, item.source, str(counts.get(item.label, 0)))
            for item in sorted(clauses().values(), key=lambda item: item.label)
        ),
    )
    return "\n".join([*lines, ""])


def limits_page() -> str:
    """Return the ULP limits of the functions that are not exact."""
    lines = ["# Error limits", NOTE, ""]
    lines.append("In ULP of the result's dtype, from the correctly rounded value. Others have 0.")
    lines.append("")
    body = []
    for op, limits in LIMITS.items():
        strict = STRICT_LIMITS.get(op, limits)
        body.append((op, *(_limit(a, b) for a, b in zip(limits, strict, strict=True))))
    lines += table(("op", "float16, bfloat16", "float32", "float64"), body)
    lines += [
        "",
        "Sums and products of matrices: |error| <= n*u*sum|a*b|, one rounding to the output, no",
        "bias and no excess spread over 1,000 products. Composite functions: the combined bounds",
        "of their parts (`tinyref_spec.bounded`).",
        "",
    ]
    return "\n".join(lines)


def _limit(loose: float, strict: float) -> str:
    return f"{loose:g}" if loose == strict else f"{loose:g} (strict: {strict:g})"


def rules_page() -> str:
    """Return the page of rewrite rules, with equation, domain and proof of each, and counts."""
    lines = ["# Rewrite rules", NOTE, ""]
    lines += [
        "Every rule stands for laws: equations for all values of their leaves and of the",
        "constants that the rule takes (`tinyref_spec.proofs`). The law of a rule that looks at",
        "no range and no constant is its pattern and the result of its function. z3 proves the",
        "laws on integers and bools. It uses bit-vectors, or integers in the range of each type",
        "of 32 and 64 bits, which nothing may leave, and unbounded ones for `index`. Rules are",
        "fired on instances of their written laws and must keep the value. Float rules are",
        "computed for every float16. `tinyref spec rules` adds how often each rule fires.",
        "rule fires.",
    ]
    lines += ["", "## Counts", ""]
    proofs = record.committed_proofs()
    counts = record.counts(proofs.values())
    lines += table(("what", "rules"), ((name, str(count)) for name, count in counts.items()))
    for family in record.families():
        lines += ["", f"## {family}", ""]
        lines += table(
            ("rule", "equation", "domain", "proof", "laws"),
            (
                (f"`{facts.name}`", facts.equation, facts.domain, facts.proof, str(facts.laws))
                for facts in record.all_facts(family)
            ),
        )
    return "\n".join([*lines, ""])


def optimisations_page() -> str:
    """Return the page of optimisations: what each does, and under which conditions."""
    lines = ["# Optimisations", NOTE, ""]
    lines.append("What `Opt(op, axis, arg)` does to a plan ([optimiser](../optimiser.md)).")
    lines.append("")
    lines += table(
        ("op", "effect", "accepts"),
        ((op.value, spec.effect, spec.accepts) for op, spec in OPTS.items()),
    )
    lines += ["", f"Afterwards there must be {Condition.LIMITS.value}."]
    return "\n".join([*lines, ""])


def pages() -> dict[str, str]:
    """Return every page by file name."""
    text_of_page = {
        "index.md": index_page(),
        "clauses.md": clauses_page(),
        "limits.md": limits_page(),
        "rules.md": rules_page(),
        "optimisations.md": optimisations_page(),
    }
    for level in LEVELS:
        for name, rows in families(level, catalogue.all_rows()).items():
            text_of_page[f"{name}.md"] = page(name, rows)
    return text_of_page


def write(folder: Path) -> list[Path]:
    """Write every page to `folder` (made if missing), and return their paths."""
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
    for path in write(Path(sys.argv[1])):
        sys.stdout.write(f"{path}\n")
