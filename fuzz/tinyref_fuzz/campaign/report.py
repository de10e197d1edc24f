"""Print the end of a campaign: a line, a table of buckets, and a reproducer for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tinyref.config import FLAGS
from tinyref.reproduce import assignments, command, reasons
from tinyref.workers.run import clock
from tinyref_fuzz.campaign.campaign import Summary
from tinyref_fuzz.campaign.database import StoredBucket
from tinyref_fuzz.campaign.task import PROGRAMS
from tinyref_fuzz.findings.one_line import clip
from tinyref_spec.subjects.name import is_subject

EXIT_CLEAN = 0
EXIT_FOUND = 1
EXIT_INCOMPLETE = 3
# Width of printed lines; the rest of longer texts is in the database.
WIDTH = 100
MAX_BUCKETS = 30


def exit_code(summary: Summary) -> int:
    """Return 1 if there are findings, else 3 if the campaign is incomplete, else 0."""
    if summary.findings:
        return EXIT_FOUND
    return EXIT_INCOMPLETE if summary.incomplete or not summary.cases else EXIT_CLEAN


def text(summary: Summary) -> str:
    """Return the whole report."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield verdict_line(summary)
    yield _numbers(summary)
    if summary.settings:
        yield f"under {assignments(summary.settings)}"
        yield from (f"not a conformance run: {reason}" for reason in _reasons(summary))
    if summary.buckets:
        yield ""
        yield from table(summary.buckets)
        for number, bucket in enumerate(summary.buckets[:MAX_BUCKETS], 1):
            yield ""
            yield from reproducer(number, bucket, summary.device, summary.settings)
        if len(summary.buckets) > MAX_BUCKETS:
            more = len(summary.buckets) - MAX_BUCKETS
            yield f"... and {more:,} more buckets in {summary.folder}"
    if summary.unexamined:
        yield ""
        yield "not examined, as they look like others, or for lack of time:"
        for name, count in summary.unexamined.most_common(MAX_BUCKETS):
            yield clip(f"{count:7,}  {name}", WIDTH)
    for case, seconds in summary.unfinished.items():
        yield ""
        yield (
            f"{summary.subject.removesuffix('s')} {case} was not waited for: it had taken "
            f"{seconds:.0f} s when the time was up, and may hang"
        )
    if summary.incomplete:
        yield ""
        yield f"INCOMPLETE: {summary.incomplete}"
    elif not summary.cases:
        yield ""
        yield "INCOMPLETE: no case was judged, so nothing is known about this device"


def _numbers(summary: Summary) -> str:
    if is_subject(summary.device):
        refused = summary.cases - summary.judged
        return f"seed {summary.seed}, {summary.judged:,} compared, {refused:,} without a result"
    if summary.subject == PROGRAMS:
        return f"seed {summary.seed}, {summary.judged:,} runs compared"
    policy = f"policy {summary.policy}"
    return f"seed {summary.seed}, {policy}, {summary.judged:,} optimised programs compared"


def _reasons(summary: Summary) -> list[str]:
    flags = {
        name.removeprefix("TINYREF_"): value
        for name, value in summary.settings.items()
        if name.startswith("TINYREF_")
    }
    return reasons({name: value for name, value in flags.items() if name in FLAGS})


def verdict_line(summary: Summary) -> str:
    """Summarise the campaign in one sentence."""
    result = "all agree"
    if summary.findings:
        buckets = len(summary.buckets)
        result = f"{_count_of(summary.findings, 'finding')} in {_count_of(buckets, 'bucket')}"
    cases = _count_of(summary.cases, summary.subject.removesuffix("s"))
    return f"{summary.device}: {cases} judged, {result}, {clock(summary.seconds)}"


def table(buckets: Sequence[StoredBucket]) -> Iterator[str]:
    """Yield one line for each bucket, with columns as wide as their contents."""
    rows = [("#", "found", "nodes", "opts", "stage", "cause")]
    for number, bucket in enumerate(buckets[:MAX_BUCKETS], 1):
        examination = bucket.examination
        has_case = examination.case is not None
        size = (str(examination.nodes), str(examination.opts)) if has_case else ("-", "-")
        rows.append(
            (
                str(number),
                f"{bucket.findings:,}",
                *size,
                examination.blame.stage,
                examination.blame.cause or "-",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        numbers = [cell.rjust(width) for cell, width in zip(row[:4], widths, strict=False)]
        yield clip("  ".join((*numbers, row[4].ljust(widths[4]), row[5])).rstrip(), WIDTH)


def reproducer(
    number: int, bucket: StoredBucket, device: str, settings: Mapping[str, str]
) -> Iterator[str]:
    """Yield the bucket, its smallest case in a few lines, and the problem of its examination."""
    examination = bucket.examination
    yield clip(f"{number}. {bucket.key}", WIDTH)
    for line in examination.lines or (f"fault   {examination.detail.partition(chr(10))[0]}",):
        yield f"   {line}"
    if examination.problem:
        yield clip(f"   note    {examination.problem.partition(chr(10))[0]}", WIDTH)
    # Never clipped, so that it can be copied.
    if bucket.file:
        words = ["tinyref", "fuzz", "replay", bucket.file]
        # The file names an installed device, but not one that must be imported.
        if ":" in device:
            words += ["--device", device]
        yield f"   replay  {command(words, settings)}"
    else:
        yield f"   case    {examination.number} of the seed"


def _count_of(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"
