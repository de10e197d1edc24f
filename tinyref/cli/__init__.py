"""The command line: imports everything lazily; nothing imports it."""

from __future__ import annotations

from collections.abc import Sequence

# These commands compute in their own process; all others have workers.
ATTACHED = ("bench", "explain")


def main() -> None:
    """Run the console command `tinyref`."""
    import gc
    import signal
    import sys
    import time

    began = time.monotonic()
    from tinyref.cli.entry import EXIT_INTERRUPTED, answered, run
    from tinyref.cli.terminal import open_closed_streams
    from tinyref.workers.machine import GARBAGE_THRESHOLD

    open_closed_streams()
    gc.set_threshold(*GARBAGE_THRESHOLD)
    arguments = sys.argv[1:]
    try:
        is_attached = arguments[:1] and arguments[0] in ATTACHED
        if is_attached:
            code = answered(lambda: _run_attached(arguments), arguments)
        else:
            code = run(arguments, began)
    except KeyboardInterrupt:
        # A second Ctrl-C, while the command was ending.
        code = EXIT_INTERRUPTED
    # Only the interpreter's own clean-up is left, which another Ctrl-C must not break.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _run_attached(arguments: Sequence[str]) -> int:
    """Run the command in a process of its own; a process that ends without a code has failed."""
    import signal
    import sys

    from tinyref.cli.entry import EXIT_FAILURES, find_backends_here
    from tinyref.workers.processes import run_attached

    find_backends_here()
    done = run_attached("tinyref.cli.attached", {"arguments": list(arguments)})
    if done.answer is not None and (done.code >= 0 or done.answer["exit"]):
        return int(done.answer["exit"])
    if done.code in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP):
        return 128 - done.code
    print(f"tinyref: error: the process that ran the device ended: {done.ending}", file=sys.stderr)
    return EXIT_FAILURES
