"""The DUMP flag: prints the IR after a stage, as text that parses back."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tinyref import config
from tinyref.algebra.rewrite import StageListener
from tinyref.formats.text import to_text
from tinyref.uops.node import UOp


def wants_dump(stage: str) -> bool:
    """Whether DUMP asks for `stage`: it names it as `after:STAGE`, among commas, or is `after:*`.

    Raises `UserError` for a name that no stage has.
    """
    wanted = config.text("DUMP")
    if not wanted:
        return False
    names = config.dumped_stages(wanted)
    return "*" in names or stage in names


def dumping(title: str) -> tuple[StageListener, ...]:
    """The listener that prints each stage for which DUMP asks; none without the flag."""
    if not config.text("DUMP"):
        return ()
    return (lambda stage, before, after: dump_after(stage, title, after),)


def dump_after(stage: str, title: str, value: UOp | Sequence[UOp]) -> None:
    """Prints `value` on standard error if DUMP asks for `stage`, under a comment that names it."""
    if wants_dump(stage):
        sys.stderr.write(f"# after {stage}: {title}\n{to_text(value)}")
