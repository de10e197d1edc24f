"""The command line: imports everything lazily; nothing imports it."""

from __future__ import annotations


def main() -> None:
    """The console command `tinyref`."""
    import sys

    from tinyref.cli.entry import run

    sys.exit(run(sys.argv[1:]))
