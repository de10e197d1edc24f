"""The commands and their help; each command imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyref import __version__
from tinyref.cli.bench import bench
from tinyref.cli.ci import ci
from tinyref.cli.conform import conform_app
from tinyref.cli.devices import devices
from tinyref.cli.explain import explain
from tinyref.cli.fuzz import fuzz_app
from tinyref.cli.new_backend import new_backend
from tinyref.cli.options import json_option, write_json
from tinyref.cli.spec import spec_app

_HELP = """Test accelerators against a small reference tensor compiler.

\b
A first look at this machine:
  tinyref devices                              which devices work here, and what others lack
  tinyref conform -d CPU                       run the conformance suite, write an HTML report
  tinyref fuzz -d CPU                          test random kernels for a minute
  tinyref explain "Tensor([1, 2, 3]).sum()"    see every stage from tensor to source
  tinyref explain train.py                     write a page about all that a program computes

\b
Bring up a device of your own (docs/bring-up.md), from a package that passes from the start:
  tinyref new-backend MINE --language opencl
  tinyref conform -d mine.backend:MineBackend  # before it is installed
The report names the first broken rung; each failing case has the command that runs it alone:
  tinyref conform -d MINE -q isa.binary.mod.int32.special:3
  tinyref spec show isa.binary.mod.int32

\b
In all commands: -d a device, -q a part (--query), -j processes (--jobs), -o what is written
(--out), -v more output (--verbose), --json [FILE]; times are 90s, 5m or 1h.

\b
Exit codes: 0 all as expected, 1 failures, 2 wrong usage or bad input, 70 a bug in tinyref.
Flags come from the environment (TINYREF_DEBUG=2); tinyref config lists them.
"""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        from tinyref.commit import commit

        source = commit()
        print(f"tinyref {__version__}{f' ({source})' if source else ''}")
        raise typer.Exit


@app.callback(help=_HELP)
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    return


def config_command(json: Annotated[Path | None, json_option()] = None) -> None:
    """List every flag with its current value, where that comes from, and what it does.

    \b
    Examples:
      tinyref config
      TINYREF_DEBUG=2 tinyref explain "Tensor.ones(4) + 1"    set a flag for one command
      with Context(DEBUG=2): ...                              set it in a program
    """
    from tinyref import config

    entries = list(config.describe())
    if json is not None:
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
        write_json(json, listed, "config")
        return
    for flag, value, origin in entries:
        text = repr(value) if isinstance(value, str) else str(value)
        print(f"TINYREF_{flag.name:14} {text:10} {origin:12} {flag.help} ({flag.accepted})")


app.command("devices")(devices)
app.add_typer(conform_app, name="conform")
app.add_typer(fuzz_app, name="fuzz")
app.add_typer(spec_app, name="spec")
app.command("new-backend")(new_backend)
app.command("ci")(ci)
app.command("explain")(explain)
app.command("bench")(bench)
app.command("config")(config_command)
