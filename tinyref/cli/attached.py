"""A command whose own process runs a device: its other end is `tinyref.cli.main`.

    python -m tinyref.cli.attached

hears the arguments, runs the command on the terminal, and says its exit code. A device that ends
the process ends it without that, so it cannot pass for a command that went well.
"""

from __future__ import annotations

from tinyref.processes import Line


def main() -> None:
    """Runs the command."""
    from tinyref.cli.entry import run

    line = Line(attached=True)
    line.say({"exit": run(line.hear()["arguments"])})


if __name__ == "__main__":
    main()
