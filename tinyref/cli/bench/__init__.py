"""`tinyref bench`: measure a device and tinyref around it, beside a peer where there is one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import path, write_output

if TYPE_CHECKING:
    from tinyref.cli.bench.measured import Measured


def bench(
    row: Annotated[str, typer.Option(help="Only rows that match this glob.")] = "*",
    json_file: Annotated[
        Path | None, typer.Option("--json", parser=path, help="Write the numbers to this file too.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Measure this device (default: CPU).")] = None,
    table: Annotated[
        bool, typer.Option("--table", help="The table of works beside torch and tinygrad.")
    ] = False,
    machine: Annotated[
        bool,
        typer.Option("--machine", help="Measure this host, for plans of its kernels; keep it."),
    ] = False,
    tinygrad: Annotated[
        Path | None,
        typer.Option(
            envvar="TINYGRAD_PYTHON", parser=path, help="A Python that has tinygrad 0.10.3."
        ),
    ] = None,
    before: Annotated[
        Path | None,
        typer.Option(parser=path, help="For --table, a Python that has an earlier tinyref."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each row is measured.")] = 5,
) -> None:
    """Measure a device: compiles, launches, copies, replays, operations and training beside torch.

    \b
    Examples:
      tinyref bench
      tinyref bench --row "jit.*" --json numbers.json
      tinyref bench --row "op.*"                     operations beside torch; model.*: training
      tinyref bench --table --tinygrad PYTHON        what users wait for, with goals
      tinyref bench --table --before PYTHON          its first calls beside an earlier version's
      tinyref bench --device MINE                    its compiler, launches, copies, fuzz, conform
      tinyref bench --device my_package.backend:MyBackend --row copy
      tinyref bench --machine                        this host, for plans; MACHINE=0 forgets it

    Each row shows median, least and most of its repeats. Where a row has a peer, both were
    measured in this run, and the ratio is theirs: compare ratios between machines, not times.
    """
    from tinyref.cli.bench.device_rows import matching_rows
    from tinyref.cli.bench.measured import facts, measure
    from tinyref.cli.options import check_gives_values, check_target, opening_device
    from tinyref.device import Device

    if tinygrad is not None:
        os.environ["TINYGRAD_PYTHON"] = str(tinygrad)
    if machine:
        _measure_machine(device, repeats)
        return
    if table:
        _print_table(row, device, repeats, json_file, before)
        return
    name = opening_device(device)
    check_gives_values(name)
    if json_file is not None:
        check_target(json_file, "bench: --json")
    # It may have opened in another process only.
    _ = Device[name].capabilities
    rows = matching_rows(name, row)
    print(f"{'row':40} {'median':>10} {'min':>10} {'max':>10}  unit")
    measured: list[Measured] = []
    for number, bench_row in enumerate(rows, 1):
        _show_progress(f"measuring {bench_row.name}, {number} of {len(rows)}")
        for result in measure(bench_row, repeats):
            measured.append(result)
            print(_line(result), flush=True)
    if json_file is not None:
        numbers = {"schema": "tinyref.bench", "version": 1, **facts(), "device": name}
        numbers["rows"] = [result.to_json() for result in measured]
        write_output(json_file, json.dumps(numbers, indent=1) + "\n", "bench")


def _measure_machine(device: str | None, repeats: int) -> None:
    from tinyref.cli.bench.host import machine_lines, measure_machine
    from tinyref.errors import UserError
    from tinyref.runtimes.host.description import keep_machine

    if device is not None:
        raise UserError(f"bench: --machine is of the host, and takes no --device, got {device}")
    found = measure_machine(repeats, lambda text: _show_progress(f"measuring {text}"))
    print("\n".join(machine_lines(found)))
    print(f"Kept in {keep_machine(found)}: processes that start from now on plan by it.")


def _print_table(
    row: str, device: str | None, repeats: int, json_file: Path | None, before: Path | None
) -> None:
    from tinyref.cli.bench.measured import facts
    from tinyref.cli.bench.speed import ON_HOST
    from tinyref.cli.bench.table import WorkLine, table_lines, table_text
    from tinyref.cli.options import check_target
    from tinyref.errors import UserError

    if device is not None:
        raise UserError(f"bench: --table is of the device CPU, and takes no --device, got {device}")
    if json_file is not None:
        check_target(json_file, "bench: --json")
    lines: list[WorkLine] = []
    for line in table_lines(row, repeats, None if before is None else str(before)):
        lines.append(line)
        _show_progress(f"measured {line.work}{line.variant}")
    for variant in ON_HOST:
        of_this = [line for line in lines if line.variant == variant.suffix]
        print(table_text(variant, of_this), end="\n\n")
    if json_file is not None:
        numbers = {"schema": "tinyref.bench.table", "version": 1, **facts()}
        numbers["rows"] = [line.to_json() for line in lines]
        write_output(json_file, json.dumps(numbers, indent=1) + "\n", "bench")


def _show_progress(text: str) -> None:
    """A line that the next row overwrites; only a person at a terminal wants it."""
    if sys.stderr.isatty():
        print(f"{text:60}", end="\r", file=sys.stderr)


def _line(result: Measured) -> str:
    if result.missing:
        return f"{result.name:40} missing: {result.missing}"
    numbers = (result.median, min(result.values), max(result.values))
    text = f"{result.name:40} " + " ".join(f"{_short(number):>10}" for number in numbers)
    text += f"  {result.unit}"
    if result.peer_name:
        text += f"; {result.peer_name} {_short(result.peer_median)}, ratio {result.ratio:.3g}"
    if result.goal is not None:
        text += f"; goal {result.goal:g}, {'met' if result.meets_goal else 'missed'}"
    return text + (f"; {result.note}" if result.note else "")


def _short(number: float) -> str:
    if number >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"
