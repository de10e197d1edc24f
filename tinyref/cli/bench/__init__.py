"""`tinyref bench`: measure a device and tinyref around it, beside a peer where there is one."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinyref.cli.options import path, write_output
from tinyref.errors import TinyrefError

if TYPE_CHECKING:
    from tinyref.cli.bench.speed import Variant


@dataclass
class Measured:
    """One line of the table. `missing` says what the row needs that is not here."""

    name: str
    unit: str
    values: list[float] = field(default_factory=list)
    peer_name: str = ""
    peer_values: list[float] = field(default_factory=list)
    note: str = ""
    missing: str = ""

    @property
    def median(self) -> float:
        return _median(self.values)

    @property
    def peer_median(self) -> float:
        return _median(self.peer_values)

    @property
    def ratio(self) -> float:
        """Of the medians, this to the peer, both of this run."""
        return self.median / self.peer_median

    def to_json(self) -> dict[str, Any]:
        if self.missing:
            return {"name": self.name, "missing": self.missing}
        found: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "values": self.values,
        }
        if self.peer_name:
            peer = {"name": self.peer_name, "median": self.peer_median, "values": self.peer_values}
            found |= {"peer": peer, "ratio": self.ratio}
        return found | ({"note": self.note} if self.note else {})


def _median(values: list[float]) -> float:
    # Imported late: every command imports this module.
    import statistics

    return statistics.median(values)


@dataclass(frozen=True)
class BenchRow:
    """A name, or the common head of several, and what measures it."""

    name: str
    run: Callable[[int], Iterator[Measured]]


def measure(row: BenchRow, repeats: int) -> Iterator[Measured]:
    """The lines of a row; what the machine lacks is said, not skipped."""
    try:
        yield from row.run(repeats)
    except TinyrefError as error:
        yield Measured(row.name, "", missing=str(error).partition("\n")[0])


def bench(
    row: Annotated[str, typer.Option(help="Only rows that match this glob.")] = "*",
    json_file: Annotated[
        Path | None, typer.Option("--json", parser=path, help="Write the numbers to this file too.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Measure this device (default: CPU).")] = None,
    table: Annotated[
        bool, typer.Option("--table", help="The table of works and networks beside torch.")
    ] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Works drawn at random, beside torch.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of --sweep.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="The number of works of --sweep.")] = 100,
    machine: Annotated[
        bool,
        typer.Option("--machine", help="Measure this host, for plans of its kernels; keep it."),
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="How often each row is measured.")] = 5,
) -> None:
    """Measure a device: compiles, launches, copies, replays, operations and training beside torch.

    \b
    Examples:
      tinyref bench
      tinyref bench --row "jit.*" --json numbers.json
      tinyref bench --row "op.*"                     operations beside torch; model.*: training
      tinyref bench --table                          what users wait for, as tables of Markdown
      tinyref bench --table --row "net.*"            whole networks, beside torch and tinygrad
      tinyref bench --table --sweep --seed 7         both, with numbers in one file
      tinyref bench --sweep --seed 7                 100 works drawn by this seed, and the worst
      tinyref bench --device MINE                    its compiler, launches, copies, fuzz, conform
      tinyref bench --device my_package.backend:MyBackend --row copy
      tinyref bench --machine                        this host, for plans; MACHINE=0 forgets it

    Each row shows median, least and most of its repeats. Where a row has a peer, both were
    measured in this run, and the ratio is theirs: compare ratios between machines, not times.
    """
    from tinyref.cli.bench.device_rows import matching_rows
    from tinyref.cli.options import check_gives_values, check_target, opening_device
    from tinyref.device import Device

    if machine:
        _measure_machine(device, repeats)
        return
    if table or sweep:
        _check_host_alone("--table" if table else "--sweep", device, json_file)
        lines = _print_table(row, repeats) if table else []
        lines += _print_sweep(seed, count, repeats) if sweep else []
        if json_file is not None:
            _write_numbers(json_file, "tinyref.bench.works", lines, seed=str(seed))
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
        _write_numbers(json_file, "tinyref.bench", measured, device=name)


def _measure_machine(device: str | None, repeats: int) -> None:
    from tinyref.cli.bench.host import machine_lines, measure_machine
    from tinyref.errors import UserError
    from tinyref.runtimes.host.description import store_machine

    if device is not None:
        raise UserError(f"bench: --machine is of the host, and takes no --device, got {device}")
    found = measure_machine(repeats, lambda text: _show_progress(f"measuring {text}"))
    print("\n".join(machine_lines(found)))
    print(f"Kept in {store_machine(found)}: processes that start from now on plan by it.")


def _print_table(row: str, repeats: int) -> list[Measured]:
    from tinyref.cli.bench.table import table_rows, table_text

    return _print_groups(table_rows(row), table_text, repeats)


def _print_sweep(seed: int, count: int, repeats: int) -> list[Measured]:
    from tinyref.cli.bench import sweep

    peak = sweep.measure_peak(repeats)
    works = sweep.draw_works(seed, count)
    print(f"seed {seed}: {len(works)} works beside torch, processor time of one thread")
    groups = ((variant, sweep.sweep_rows(works, variant, peak)) for variant in sweep.VARIANTS)
    return _print_groups(groups, sweep.summary_text, repeats)


def _check_host_alone(option: str, device: str | None, json_file: Path | None) -> None:
    """Raise `UserError` if a device is named, or if the file of numbers cannot be written."""
    from tinyref.cli.options import check_target
    from tinyref.errors import UserError

    if device is not None:
        raise UserError(
            f"bench: {option} is of the device CPU, and takes no --device, got {device}"
        )
    if json_file is not None:
        check_target(json_file, "bench: --json")


def _print_groups(
    groups: Iterable[tuple[Variant, Sequence[BenchRow]]],
    text_of: Callable[[Variant, Sequence[Measured]], str],
    repeats: int,
) -> list[Measured]:
    """Measure the rows of each variant, print its text, and return all that was measured."""
    measured: list[Measured] = []
    for variant, rows in groups:
        lines: list[Measured] = []
        for number, bench_row in enumerate(rows, 1):
            _show_progress(f"measuring {bench_row.name}, {number} of {len(rows)}")
            lines += measure(bench_row, repeats)
        print(text_of(variant, lines), end="\n\n", flush=True)
        measured += lines
    return measured


def _write_numbers(file: Path, schema: str, measured: Sequence[Measured], **more: str) -> None:
    numbers = {"schema": schema, "version": 1, **facts(), **more}
    numbers["rows"] = [result.to_json() for result in measured]
    write_output(file, json.dumps(numbers, indent=1) + "\n", "bench")


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
    return text + (f"; {result.note}" if result.note else "")


def _short(number: float) -> str:
    if number >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def facts() -> dict[str, Any]:
    """Versions and the machine, without which the numbers mean nothing."""
    from tinyref import __version__
    from tinyref.runtimes.host.description import host_machine, processor_name
    from tinyref.workers.machine import usable_cores
    from tinyref_conformance.certificate import surroundings

    try:
        load = list(os.getloadavg())
    except OSError:
        load = []
    return {
        "tinyref": __version__,
        "surroundings": surroundings(),
        "cores": usable_cores(),
        "processor": processor_name(),
        "machine": host_machine().to_json(),
        "load_average": load,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
