"""`tinyref config`: every flag, its value now, and where that comes from."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def config_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """List every flag with its value now, where that comes from, and what it does.

    \b
    Set a flag for one command:   TINYREF_DEBUG=2 tinyref explain "Tensor.ones(4) + 1"
    In a program:                 with Context(DEBUG=2): ...
    """
    from tinyref import config

    entries = list(config.describe())
    if as_json:
        listed = [
            {
                "name": flag.name,
                "value": value,
                "default": flag.default,
                "origin": origin,
                "accepted": flag.accepted,
                "help": flag.help,
            }
            for flag, value, origin in entries
        ]
        print(json.dumps(listed, indent=1))
        return
    for flag, value, origin in entries:
        shown = repr(value) if isinstance(value, str) else str(value)
        print(f"TINYREF_{flag.name:14} {shown:10} {origin:12} {flag.help} ({flag.accepted})")
