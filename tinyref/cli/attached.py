"""A command whose own process runs a device: its other end is `tinyref.cli.main`.

    python -m tinyref.cli.attached

receives the arguments, runs the command on the terminal, and sends its exit code. A device that
ends the process ends it without that, so it cannot pass for a command that went well.
"""

from __future__ import annotations

from tinyref.workers.processes import Channel


def main() -> None:
    """Runs the command."""
    from tinyref.cli.entry import run

    channel = Channel(attached=True)
    channel.send({"exit": run(channel.receive()["arguments"])})


if __name__ == "__main__":
    main()
