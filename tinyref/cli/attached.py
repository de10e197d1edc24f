"""The process of a command that runs a device in itself: `tinyref.cli.main` starts it.

    python -m tinyref.cli.attached

receives the arguments, runs the command on the terminal, and sends its exit code. If a device ends
the process, no exit code is sent, so the command has failed.
"""

from __future__ import annotations

from tinyref.workers.processes import Channel


def main() -> None:
    """Run the command."""
    from tinyref.cli.entry import run

    channel = Channel(attached=True)
    channel.send({"exit": run(channel.receive()["arguments"])})


if __name__ == "__main__":
    main()
