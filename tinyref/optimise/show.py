"""Plans for people: the axes of a kernel, each kind in its own colour where there are colours."""

from __future__ import annotations

from typing import TextIO

from tinyref.optimise.opt import opts_text
from tinyref.optimise.plan import Plan
from tinyref.uops.payload import AxisKind

# The parallel kinds are cold, the sequential ones warm, the unrolled ones bright.
STYLES: dict[AxisKind, str] = {
    AxisKind.THREAD: "magenta",
    AxisKind.GLOBAL: "blue",
    AxisKind.LOCAL: "cyan",
    AxisKind.GROUP_REDUCE: "green",
    AxisKind.REDUCE: "red",
    AxisKind.UNROLL: "bright_magenta",
    AxisKind.UPCAST: "bright_yellow",
}


def print_plan(plan: Plan, stream: TextIO, indent: str = "") -> None:
    """Writes the axes of `plan` on one line, and what was applied on another.

    In colours where `stream` is a terminal that has them and NO_COLOR is not set.
    """
    lines = [f"{indent}plan  {{axes}}"]
    if plan.opts:
        lines.append(f"{indent}opts  {opts_text(plan.opts)}")
    stream.write("\n".join(lines).replace("{axes}", _axes(plan, stream)) + "\n")


def _axes(plan: Plan, stream: TextIO) -> str:
    if not plan.axes:
        return "no axes"
    if not stream.isatty():
        return ", ".join(map(str, plan.axes))
    # Only a terminal waits for the library that knows terminals.
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True)
    text = Text(", ").join(Text(str(axis), style=STYLES[axis.kind]) for axis in plan.axes)
    with console.capture() as written:
        console.print(text, end="")
    return written.get()
