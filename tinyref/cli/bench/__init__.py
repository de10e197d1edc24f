"""`tinyref bench`: measure a device and tinyref, and compare with a peer where there is one."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from tinyref.cli.options import (
    STDOUT,
    device_option,
    flag,
    json_option,
    named,
    query_option,
    write_json,
)
from tinyref.errors import TinyrefError

if TYPE_CHECKING:
    from tinyref.cli.bench.speed import Variant


@dataclass
class Measured:
    """One line of the table. `missing` names what the row needs and this machine lacks."""

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
        """Return the median divided by the median of the peer, both of this run."""
        return self.median / self.peer_median

    def to_json(self) -> dict[str, Any]:
        if self.missing:
            return {"name": self.name, "missing": self.missing}
        members: dict[str, Any] = {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "values": self.values,
        }
        if self.peer_name:
            peer = {"name": self.peer_name, "median": self.peer_median, "values": self.peer_values}
            members |= {"peer": peer, "ratio": self.ratio}
        return members | ({"note": self.note} if self.note else {})


def _median(values: list[float]) -> float:
    # Imported late: every command imports this module.
    import statistics

    return statistics.median(values)


@dataclass(frozen=True)
class BenchRow:
    """A name, or the common prefix of several names, and the function that measures them."""

    name: str
    run: Callable[[int], Iterator[Measured]]


def measure(row: BenchRow, repeats: int) -> Iterator[Measured]:
    """Yield the lines of a row. A missing peer or feature is a line too."""
    try:
        yield from row.run(repeats)
    except TinyrefError as error:
        yield Measured(row.name, "", missing=str(error).partition("\n")[0])


def bench(
    query: Annotated[str, query_option("Only the rows that match this glob.")] = "*",
    json: Annotated[
        Path | None, json_option("Print the numbers as JSON, or also write them to FILE.")
    ] = None,
    device: Annotated[str | None, device_option("The device to measure (default: CPU).")] = None,
    table: Annotated[
        bool, flag("--table", "Print the table of works and networks, compared with torch.")
    ] = (False),
    sweep: Annotated[bool, flag("--sweep", "Measure random works, compared with torch.")] = False,
    seed: Annotated[int, named("--seed", "N", "The seed of --sweep.", min=0)] = 0,
    count: Annotated[int, named("--count", "N", "The number of works of --sweep.", min=1)] = 100,
    machine: Annotated[
        bool,
        flag("--machine", "Measure this host and keep the result, for the plans of its kernels."),
    ] = False,
    repeats: Annotated[
        int, named("--repeats", "N", "The number of measurements of each row.", min=1)
    ] = 5,
) -> None:
    """Measure a device: compiles, launches, copies, replays, operations and training.

    \b
    Examples:
      tinyref bench
      tinyref bench -q "jit.*" --json numbers.json
      tinyref bench -q "op.*"                 operations, compared with torch; model.*: training
      tinyref bench --table                   the time of common works, as tables of Markdown
      tinyref bench --table -q "net.*"        whole networks, compared with torch and tinygrad
      tinyref bench --table --sweep --seed 7  both, with their numbers in one file
      tinyref bench --sweep --seed 7          100 random works of this seed, and the slowest
      tinyref bench -d MINE                   its compiler, launches, copies, fuzz, conform
      tinyref bench -d my_package.backend:MyBackend -q copy
      tinyref bench --machine                 this host, for plans; MACHINE=0 ignores the result

    Each row shows the median, the minimum and the maximum of its repeats. A row with a peer
    measures both in this run and shows the ratio. Between machines compare ratios, not times.
    """
    from tinyref.cli.bench.device_rows import matching_rows
    from tinyref.cli.options import check_gives_values, check_target, opening_device
    from tinyref.device import Device

    if machine:
        _measure_machine(device, repeats)
        return
    name = "CPU" if table or sweep else opening_device(device)
    if table or sweep:
        _check_host_alone("--table" if table else "--sweep", device)
    else:
        check_gives_values(name)
    if json is not None and json != STDOUT:
        check_target(json, "bench: --json")
    # Standard output is for the JSON, if it goes there.
    with contextlib.redirect_stdout(sys.stderr if json == STDOUT else sys.stdout):
        if table or sweep:
            measured = _print_table(query, repeats) if table else []
            measured += _print_sweep(seed, count, repeats) if sweep else []
            numbers = _numbers("tinyref.bench.works", measured, seed=str(seed))
        else:
            # It may have opened in another process only.
            _ = Device[name].capabilities
            numbers = _print_rows(name, matching_rows(name, query), repeats)
    if json is not None:
        write_json(json, numbers, "bench")


def _print_rows(name: str, rows: Sequence[BenchRow], repeats: int) -> dict[str, Any]:
    """Measure rows, print a line for each result as it comes, and return the numbers."""
    print(f"{'row':40} {'median':>10} {'min':>10} {'max':>10}  unit")
    measured: list[Measured] = []
    for number, bench_row in enumerate(rows, 1):
        _show_progress(f"measuring {bench_row.name}, {number} of {len(rows)}")
        for result in measure(bench_row, repeats):
            measured.append(result)
            print(_line(result), flush=True)
    return _numbers("tinyref.bench", measured, device=name)


def _measure_machine(device: str | None, repeats: int) -> None:
    from tinyref.cli.bench.host import machine_lines, measure_machine
    from tinyref.errors import UserError
    from tinyref.runtimes.host.description import store_machine

    if device is not None:
        raise UserError(f"bench: --machine measures the host: leave out --device {device}")
    host = measure_machine(repeats, lambda text: _show_progress(f"measuring {text}"))
    print("\n".join(machine_lines(host)))
    print(f"Kept in {store_machine(host)}: processes that start from now on plan with it.")


class GroupText(Protocol):
    """The text of a group of rows, printed piece by piece: a run that ends early loses no row."""

    def head_text(self, variant: Variant) -> str:
        """Return the lines before the rows."""

    def row_text(self, variant: Variant, line: Measured) -> str:
        """Return the line of a row."""

    def end_text(self, variant: Variant, lines: Sequence[Measured]) -> str:
        """Return the lines after the rows."""


def _print_table(query: str, repeats: int) -> list[Measured]:
    from tinyref.cli.bench import table

    return _print_groups(table.table_rows(query), table, repeats)


def _print_sweep(seed: int, count: int, repeats: int) -> list[Measured]:
    from tinyref.cli.bench import sweep

    peak = sweep.measure_peak(repeats)
    works = sweep.draw_works(seed, count)
    print(f"seed {seed}: {len(works)} works compared with torch, processor time of one thread")
    groups = ((variant, sweep.sweep_rows(works, variant, peak)) for variant in sweep.VARIANTS)
    return _print_groups(groups, sweep, repeats)


def _check_host_alone(option: str, device: str | None) -> None:
    """Raise `UserError` if a device is named."""
    from tinyref.errors import UserError

    if device is not None:
        raise UserError(f"bench: {option} measures the device CPU: leave out --device {device}")


def _print_groups(
    groups: Iterable[tuple[Variant, Sequence[BenchRow]]], text: GroupText, repeats: int
) -> list[Measured]:
    """Measure the rows of each variant, print each when it is done, and return all of them."""
    measured: list[Measured] = []
    for variant, rows in groups:
        lines: list[Measured] = []
        print(text.head_text(variant), flush=True)
        for number, bench_row in enumerate(rows, 1):
            _show_progress(f"measuring {bench_row.name}, {number} of {len(rows)}")
            for line in measure(bench_row, repeats):
                lines.append(line)
                print(text.row_text(variant, line), flush=True)
        print(text.end_text(variant, lines), end="\n\n", flush=True)
        measured += lines
    return measured


def _numbers(schema: str, measured: Sequence[Measured], **more: str) -> dict[str, Any]:
    rows = [result.to_json() for result in measured]
    return {"schema": schema, "version": 1, **facts(), **more, "rows": rows}


def _show_progress(text: str) -> None:
    """Print a line that the next row overwrites, if a person is at the terminal."""
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
    """Return the versions and the machine, without which the numbers mean nothing."""
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
