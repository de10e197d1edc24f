"""Measure which field faults the quick suite and a short fuzz find.

    python ci/field_faults.py [NAME ...] [--held-out] [--jobs 2]

Each fault runs the quick suite until its first failure. If nothing fails, it gets 40 processor
seconds of kernels and 20 of programs. The result is stored in `verdicts.json` beside the faults:
the first verdict of a fault never changes, the present one is replaced. Then the page
`docs/field.md` is written.

In `verdicts.json` a person sets `leads` to true if the diagnosis of the suite leads to the cause.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tinyref_conformance.faulty.field import FIELD_FAULTS, VERDICTS_FILE, FieldFault, is_held_out
from tinyref_conformance.statuses import Status

PAGE = Path(__file__).resolve().parent.parent / "docs" / "field.md"
KERNEL_SECONDS, PROGRAM_SECONDS = 40, 20
# No campaign draws this many programs in its seconds.
MANY_PROGRAMS = 10**6


def run(words: list[str]) -> int:
    """Run a command of tinyref and return its exit code."""
    command = [sys.executable, "-m", "tinyref", *words]
    return subprocess.run(command, capture_output=True, check=False).returncode


def ask_suite(fault: FieldFault, folder: Path, jobs: int) -> dict[str, Any] | None:
    """Return the first failing case, its rung and the cause of its group; None if all pass."""
    words = ["conform", "--device", fault.device.device, "--jobs", str(jobs), "--no-rerun-failures"]
    if run([*words, "--fail-fast", "--report", str(folder / "first")]) == 0:
        return None
    first = json.loads((folder / "first" / "report.json").read_text(encoding="utf-8"))
    broken = next((case for case in first["cases"] if Status(case["status"]).is_broken), None)
    if broken is None:
        return {"by": "suite", "case": "", "rung": "", "cause": "; ".join(first["problems"])}
    level = broken["id"].split(".")[0]
    run([*words, "--query", level, "--report", str(folder / "level")])
    report = json.loads((folder / "level" / "report.json").read_text(encoding="utf-8"))
    groups = report["groups"] or first["groups"]
    cause = f"{groups[0]['cause']}; {groups[0]['advice']}" if groups else broken["message"]
    return {"by": "suite", "case": broken["id"], "rung": first["first_broken_rung"], "cause": cause}


def ask_fuzzer(fault: FieldFault, folder: Path, jobs: int) -> dict[str, Any] | None:
    """Return what was found in the seconds of the fuzzer; None if all agrees."""
    for what, seconds, more in (
        ("kernels", KERNEL_SECONDS, []),
        ("programs", PROGRAM_SECONDS, ["--programs", str(MANY_PROGRAMS)]),
    ):
        words = ["fuzz", "--device", fault.device.device, "--seed", "1", "--jobs", str(jobs)]
        words += ["--seconds", str(seconds / jobs), "--folder", str(folder / what), *more]
        start = time.monotonic()
        if run(words) == 1:
            return {"by": "fuzz", "case": what, "seconds": round(time.monotonic() - start)}
    return None


def judge(fault: FieldFault, jobs: int) -> dict[str, Any]:
    """Return the verdict on a fault: who found it, by which case, on which rung."""
    with tempfile.TemporaryDirectory(prefix="tinyref-field-") as folder:
        place = Path(folder)
        return ask_suite(fault, place, jobs) or ask_fuzzer(fault, place, jobs) or {"by": "none"}


def page(verdicts: dict[str, Any]) -> str:
    """Return the page "Faults of the field": a summary and a line for each fault."""
    faults = [fault for fault in FIELD_FAULTS.values() if fault.name in verdicts]
    stacks = len({fault.stack for fault in faults})
    lines = ["# Faults of the field", "", f"{len(faults)} faults of {stacks} stacks, each modelled"]
    lines += ["from a public report before anyone looked at the rows. The first verdict never"]
    lines += ["changes. No row was written for the faults that are held out.", ""]
    lines += ["| faults | number | first: suite, fuzz | now: suite, fuzz | diagnosis leads |"]
    lines += ["|---|---|---|---|---|"]
    for title, is_wanted in (("all", {True, False}), ("held out", {True})):
        group = [verdicts[fault.name] for fault in faults if is_held_out(fault.name) in is_wanted]
        counts = [
            f"{sum(one[when]['by'] == by for one in group)}"
            for when in ("first", "now")
            for by in ("suite", "fuzz")
        ]
        leads = sum(one.get("leads", False) for one in group)
        cells = [title, str(len(group)), ", ".join(counts[:2]), ", ".join(counts[2:]), str(leads)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| fault | stack | kind | first | now | diagnosis |", "|---|---|---|---|---|---|"]
    for fault in sorted(faults, key=lambda fault: (fault.stack, fault.name)):
        verdict = verdicts[fault.name]
        name = f"[{fault.name}]({fault.link})" + (", held out" if is_held_out(fault.name) else "")
        now = verdict["now"]
        shown = f"{now['by']}: `{now['case']}`" if "case" in now else verdict.get("needs", "none")
        leads = "yes" if verdict.get("leads") else "no"
        cells = [f"{name}: {fault.device.sentence}", fault.stack, fault.kind.value]
        cells += [verdict["first"]["by"], shown, leads]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Judge the named faults, all if none is named, and store the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--held-out", action="store_true", help="only the faults held out")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    unknown = set(options.names) - set(FIELD_FAULTS)
    if unknown:
        parser.error(f"unknown faults {', '.join(sorted(unknown))}")
    names = options.names or [
        name for name in FIELD_FAULTS if not options.held_out or is_held_out(name)
    ]
    for name in names:
        verdict = judge(FIELD_FAULTS[name], options.jobs)
        stored = json.loads(VERDICTS_FILE.read_text(encoding="utf-8"))
        stored.setdefault(name, {"first": verdict})["now"] = verdict
        text = json.dumps(dict(sorted(stored.items())), indent=1)
        VERDICTS_FILE.write_text(f"{text}\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {verdict}\n")
        sys.stdout.flush()
    verdicts = json.loads(VERDICTS_FILE.read_text(encoding="utf-8"))
    PAGE.write_text(page(verdicts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
