"""Measure which field faults the quick suite and a short fuzz detect, and write their page.

    python ci/field_faults.py [NAME ...] [--fresh] [--jobs 2] [--page]

The suite runs until its first failure: first the level that failed before, then everything. A
fault that passes gets 40 processor seconds of fuzzed kernels and 20 of programs. The result is
stored in `verdicts.json`, next to the faults. The first verdict on a fault never changes; "now" is
replaced. Then `docs/field.md` is written; with --page nothing else is done.

A person writes two keys of `verdicts.json`. `leads` is true if the diagnosis leads to the
cause. `needs` says what it would take to detect a fault that nothing detects.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinyref_conformance.faulty.field import FIELD_FAULTS, FieldFault, is_fresh, is_held_out
from tinyref_conformance.not_probed import VERDICTS_FILE
from tinyref_conformance.statuses import Status

Verdict = dict[str, Any]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "field.md"
KERNEL_SECONDS, PROGRAM_SECONDS = 40, 20
# No campaign draws this many programs in its seconds.
MANY_PROGRAMS = 10**6


def run(words: list[str]) -> int:
    """Run a command of tinyref and return its exit code."""
    command = [sys.executable, "-m", "tinyref", *words]
    return subprocess.run(command, capture_output=True, check=False).returncode


def ask_suite(fault: FieldFault, known: str, folder: Path, jobs: int) -> Verdict | None:
    """Return the failing case, its rung and the first diagnosis; None if all cases pass.

    known: a case that failed before; empty if there is none.
    """
    verdict = ask_level(fault, known, folder / "known", jobs)
    if verdict is not None:
        return verdict
    report = folder / "all"
    if run([*conform(fault, jobs), "--fail-fast", "--out", str(report)]) == 0:
        return None
    first = read_report(report)
    # A run that stops at its first failure has too few of them for a diagnosis.
    return ask_level(fault, first["case"], folder / "level", jobs) or first


def conform(fault: FieldFault, jobs: int) -> list[str]:
    """Return the words of a run of the suite on the device of a fault."""
    device = fault.device.device
    return ["conform", "--device", device, "--jobs", str(jobs), "--no-rerun-failures"]


def ask_level(fault: FieldFault, case: str, report: Path, jobs: int) -> Verdict | None:
    """Return the verdict of the level of `case`; None if the level passes, or `case` is empty."""
    level = case.split(".")[0]
    if not level or run([*conform(fault, jobs), "--query", level, "--out", str(report)]) != 1:
        return None
    return read_report(report)


def read_report(folder: Path) -> Verdict:
    """Return the first failing case of a report, its rung and the first diagnosis."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    broken = next((case for case in report["cases"] if Status(case["status"]).is_broken), None)
    if broken is None:
        return {"by": "suite", "case": "", "rung": "", "cause": "; ".join(report["problems"])}
    groups = report["groups"]
    cause = f"{groups[0]['cause']}; {groups[0]['advice']}" if groups else broken["message"]
    rung = report["first_broken_rung"]
    return {"by": "suite", "case": broken["id"], "rung": rung, "cause": cause}


def ask_fuzzer(fault: FieldFault, folder: Path, jobs: int) -> Verdict | None:
    """Return what disagreed in the seconds of the fuzzer; None if everything agreed."""
    for what, seconds, more in (
        ("kernels", KERNEL_SECONDS, []),
        ("programs", PROGRAM_SECONDS, ["--programs", str(MANY_PROGRAMS)]),
    ):
        words = ["fuzz", "--device", fault.device.device, "--seed", "1", "--jobs", str(jobs)]
        words += ["--budget", f"{seconds / jobs:g}s", "--out", str(folder / what), *more]
        start = time.monotonic()
        if run(words) == 1:
            return {"by": "fuzz", "case": what, "seconds": round(time.monotonic() - start)}
    return None


def judge(fault: FieldFault, known: str, jobs: int) -> Verdict:
    """Return the verdict on a fault: who detects it, by which case, on which rung."""
    with tempfile.TemporaryDirectory(prefix="tinyref-field-") as name:
        folder = Path(name)
        suite = ask_suite(fault, known, folder, jobs)
        return suite or ask_fuzzer(fault, folder, jobs) or {"by": "none"}


def read_verdicts() -> dict[str, Verdict]:
    """Return what is stored for each fault, by its name."""
    verdicts: dict[str, Verdict] = json.loads(VERDICTS_FILE.read_text(encoding="utf-8"))
    return verdicts


def store(fault: FieldFault, verdict: Verdict) -> None:
    """Replace the present verdict on a fault; it is the first one too if there is none."""
    verdicts = read_verdicts()
    stored = verdicts.setdefault(fault.name, {"first": verdict})
    stored |= {"now": verdict, "kind": fault.kind.value, "stack": fault.stack}
    text = json.dumps(dict(sorted(verdicts.items())), indent=1)
    VERDICTS_FILE.write_text(f"{text}\n", encoding="utf-8")


def page(verdicts: dict[str, Verdict]) -> str:
    """Return the page "Faults of the field": a summary and a line for each fault."""
    faults = [fault for fault in FIELD_FAULTS.values() if fault.name in verdicts]
    stacks = len({fault.stack for fault in faults})
    lines = [
        "# Faults of the field",
        "",
        f"{len(faults)} faults of {stacks} stacks. Each is modelled as a faulty device after a",
        "public report, before its writer looked at the rows. The first verdict was measured",
        "before any row was written for these faults, and never changes.",
        "",
        "Every third fault, by a hash of its name, was held out: no row was written for it until",
        "2026-11-29. On that day suite and fuzzer detected 36 of 54 (67 %). The fresh faults were",
        "modelled last, from reports that nobody had looked at, and were run once. They have no",
        "rows of their own, so they stand for faults that nobody has seen.",
        "",
        '"Suite" is the quick profile, "fuzz" 60 processor seconds of the fuzzer. A diagnosis',
        "leads if its rung, row, cause and advice name what is broken; a person judged this. If",
        "nothing detects a fault, its line says what would detect it.",
        "",
        "| faults | number | first: suite, fuzz | now: suite, fuzz | detected | diagnosis leads |",
        "|---|---|---|---|---|---|",
    ]
    groups: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("the catalogue", lambda name: not is_fresh(name)),
        ("of these, once held out", is_held_out),
        ("fresh", is_fresh),
    )
    for title, belongs in groups:
        group = [verdicts[fault.name] for fault in faults if belongs(fault.name)]
        lines.append(summary(title, group))
    lines += ["", "| fault | stack | kind | first | now | diagnosis leads |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [line(fault, verdicts[fault.name]) for fault in sorted(faults, key=_stack_and_name)]
    return "\n".join(lines) + "\n"


def summary(title: str, group: list[Verdict]) -> str:
    """Return a line of the first table: how many faults of a group are detected."""
    counts = {
        (when, by): sum(one[when]["by"] == by for one in group)
        for when in ("first", "now")
        for by in ("suite", "fuzz")
    }
    detected = counts["now", "suite"] + counts["now", "fuzz"]
    leads = sum(one.get("leads", False) for one in group)
    cells = [
        title,
        str(len(group)),
        f"{counts['first', 'suite']}, {counts['first', 'fuzz']}",
        f"{counts['now', 'suite']}, {counts['now', 'fuzz']}",
        f"{detected / max(len(group), 1):.0%}",
        str(leads),
    ]
    return f"| {' | '.join(cells)} |"


def line(fault: FieldFault, verdict: Verdict) -> str:
    """Return the line of a fault."""
    now = verdict["now"]
    is_detected = now["by"] != "none"
    detection = f"{now['by']}: `{now['case']}`" if is_detected else verdict.get("needs", "none")
    name = f"[{fault.name}]({fault.link})" + (", fresh" if is_fresh(fault.name) else "")
    name += ", once held out" if is_held_out(fault.name) else ""
    leads = "yes" if verdict.get("leads") else "no"
    cells = [f"{name}: {fault.device.sentence}", fault.stack, fault.kind.value]
    cells += [verdict["first"]["by"], detection, leads]
    return f"| {' | '.join(cells)} |"


def _stack_and_name(fault: FieldFault) -> tuple[str, str]:
    return fault.stack, fault.name


def main() -> int:
    """Judge the named faults, all if none is named, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--fresh", action="store_true", help="only the last batch")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    unknown = set(options.names) - set(FIELD_FAULTS)
    if unknown:
        parser.error(f"unknown faults {', '.join(sorted(unknown))}")
    names = options.names or [name for name in FIELD_FAULTS if not options.fresh or is_fresh(name)]
    for name in [] if options.page else names:
        stored = read_verdicts().get(name, {})
        known = stored.get("now", stored.get("first", {}))
        case = known.get("case", "") if known.get("by") == "suite" else ""
        verdict = judge(FIELD_FAULTS[name], case, options.jobs)
        store(FIELD_FAULTS[name], verdict)
        sys.stdout.write(f"{name}: {verdict}\n")
        sys.stdout.flush()
    PAGE.write_text(page(read_verdicts()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
