"""The command line: imports everything lazily; nothing imports it."""

from __future__ import annotations


def main() -> None:
    """The console command `tinyref`."""
    import signal
    import sys

    from tinyref.cli.entry import EXIT_INTERRUPTED, run

    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Asked once more while it was leaving already.
        code = EXIT_INTERRUPTED
    # What is left is the interpreter's own clean-up, which an impatient Ctrl-C must not break.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
