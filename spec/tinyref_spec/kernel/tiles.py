"""Matrix tiles: programs that load fragments by a tile's layout, multiply, and store.

The inputs are integers whose products and sums every type holds, so results are exact. A lane that
uses another element than the layout says gives wrong bits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.build import tile_element
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import TileArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import TILES, InputRounding, MatrixTile, Operand
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs

CLAUSES = ("isa.wmma", "kernel.wmma")
_ADVICE = "look at which lane of which thread holds each element of the three matrices"
_SLOTS = {Operand.A: 1, Operand.B: 2, Operand.C: 3}
# Types that hold every sum of products of WIDE numbers; float16 lacks 2049.
_WIDE_SUMS = (dtypes.float32, dtypes.float64, dtypes.int32)
_SMALL, _WIDE = (-2, 3), (9, 16)
# Numbers of 12 bits; TF32 has 11. An odd one is half way between two values, and rounds up.
_ROUNDED = (2048, 2560)


@dataclass(frozen=True)
class TileLaunch:
    """A launch of a product: `groups` of `subgroups` each, in loops of `iterations`.

    values: the range of the integers in A, B and C, without its end.
    """

    groups: int = 1
    subgroups: int = 1
    iterations: int = 1
    values: tuple[int, int] = _SMALL


FORMS: dict[str, TileLaunch] = {
    "product": TileLaunch(),
    "runs": TileLaunch(groups=3, subgroups=2),
    "loop": TileLaunch(groups=2, iterations=4),
    "wide": TileLaunch(values=_WIDE),
    "rounded": TileLaunch(values=_ROUNDED),
}


class TileProgram:
    """The program of a tile and a form, in which every subgroup has matrices of its own.

    Slot 0 is D, slots 1 to 3 are A, B and C, each [subgroup, iteration, row, column], C without
    the iterations.
    """

    def __init__(self, tile: MatrixTile, form: TileLaunch) -> None:
        self.tile = tile
        self.form = form
        self.size = tile.threads * form.subgroups
        self.all_subgroups = form.groups * form.subgroups
        self.thread = programs.item_index(self.size)
        inside = build.idiv(self.thread, tile.threads)
        self.subgroup = build.add(
            build.mul(programs.group_index(form.groups), form.subgroups), inside
        )

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """Return the shape of the buffer of an operand."""
        iterations = () if operand is Operand.C else (self.form.iterations,)
        return (self.all_subgroups, *iterations, *self.tile.shape(operand))

    def _memory(self, operand: Operand, slot: int) -> UOp:
        size = int(np.prod(self.shape(operand)))
        return build.define_global(slot, self.tile.dtype(operand), size)

    def _addresses(self, operand: Operand, slot: int, iteration: UOp | int = 0) -> list[UOp]:
        """Return the addresses of the elements of a work-item, register by register."""
        rows, columns = self.tile.shape(operand)
        matrix = self.subgroup
        if operand is not Operand.C:
            matrix = build.add(build.mul(matrix, self.form.iterations), iteration)
        start = build.mul(matrix, rows * columns)
        addresses = []
        for register in range(self.tile.layout(operand).registers):
            row, column = tile_element(self.tile, operand, self.thread, register)
            inside = build.add(build.mul(row, columns), column)
            memory = self._memory(operand, slot)
            addresses.append(programs.at(memory, build.add(start, inside)))
        return addresses

    def _fragment(self, operand: Operand, iteration: UOp | int = 0) -> UOp:
        addresses = self._addresses(operand, _SLOTS[operand], iteration)
        loads = [build.load(address) for address in addresses]
        return build.vectorize(*loads) if len(loads) > 1 else loads[0]

    def _wmma(self, iteration: UOp | int, start: UOp) -> UOp:
        a, b = (self._fragment(operand, iteration) for operand in (Operand.A, Operand.B))
        return UOp(Ops.WMMA, start.dtype, (a, b, start), TileArg(self.tile))

    def _stores(self, result: UOp) -> list[UOp]:
        return [
            build.store(address, build.gep(result, lane) if result.dtype.lanes > 1 else result)
            for lane, address in enumerate(self._addresses(Operand.C, 0))
        ]

    def program(self) -> Program:
        """Return the program: load, multiply, store, in straight line or with a loop between."""
        start = self._fragment(Operand.C)
        launch = {"grid": (self.form.groups, 1, 1), "group": (self.size, 1, 1)}
        if self.form.iterations == 1:
            return programs.program("tile", *self._stores(self._wmma(0, start)), **launch)
        iteration = programs.loop(self.form.iterations, 0)
        total = build.accumulator("total", start)
        new = build.update(total, self._wmma(iteration, total))
        stores = self._stores(new)
        return programs.program(
            "tile", total, iteration, new, build.close(iteration), *stores, **launch
        )

    def inputs(self) -> list[Array]:
        """Return A, B and C."""
        random = np.random.default_rng(1)
        a, b, c = (random.integers(*self.form.values, self.shape(operand)) for operand in Operand)
        if self.form.values is _ROUNDED:
            # A multiple of four, as the products are, so that float32 holds every sum.
            c *= 4
        return [
            matrix.astype(numpy_dtype(self.tile.dtype(operand)))
            for operand, matrix in zip(Operand, (a, b, c), strict=True)
        ]

    def expected(self, matrices: list[Array]) -> Array:
        """Return A * B + C, exactly: every sum is an integer that float64 holds."""
        a, b, c = (matrix.astype(np.float64) for matrix in matrices)
        if self.form.values is _ROUNDED:
            a, b = a + a % 2, b + b % 2
        total = np.matmul(a, b).sum(axis=1) + c
        return np.asarray(total.reshape(-1).astype(numpy_dtype(self.tile.dtype_out)))


def multiply(
    tile: MatrixTile, form: TileLaunch, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Run the program of a tile and a form."""
    subject = TileProgram(tile, form)
    matrices = subject.inputs()
    flat: list[Array | None] = [None, *(matrix.reshape(-1) for matrix in matrices)]
    return programs.run(case_id, device, subject.program(), flat, subject.expected(matrices))


def _forms_of(tile: MatrixTile) -> dict[str, TileLaunch]:
    has_wide_sums = tile.dtype_out in _WIDE_SUMS
    missing = {"wide": not has_wide_sums, "rounded": tile.rounds_in is not InputRounding.TF32}
    return {name: form for name, form in FORMS.items() if not missing.get(name)}


def _checks(tile: MatrixTile) -> list[Check]:
    return [
        Check(name, functools.partial(multiply, tile, form))
        for name, form in _forms_of(tile).items()
    ]


def own_tiles(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Measure every form of every tile that the device declares and that is in no table."""
    known = frozenset(TILES.values())
    total = Measurement(False, "the device declares no tile of its own")
    for tile in device.capabilities.matrix_tiles:
        if tile in known:
            continue
        for name, form in _forms_of(tile).items():
            measured = multiply(tile, form, case_id, device)
            if not measured.passed:
                measured.message = f"{tile}, {name}: {measured.message}"
                return measured
            total = Measurement(True, compared=total.compared + measured.compared)
    return total


def _row(tile: MatrixTile) -> Row:
    return make_row(
        f"kernel.program.wmma.{tile.name}",
        f"{tile.threads} threads multiply {tile.dtype_in.name} matrices of "
        f"{' x '.join(map(str, tile.dims))} (m, n, k) on top of {tile.dtype_out.name}.",
        clauses=CLAUSES,
        rung=Rung.MATMUL,
        op="WMMA",
        dtype=tile.dtype_out,
        uses=(tile.dtype_in, tile.dtype_out),
        features=("grid", "groups", f"tile:{tile.name}"),
        checks=functools.partial(_checks, tile),
        advice=_ADVICE,
    )


def rows() -> Iterator[Row]:
    """Yield a row for each tile of the tables, and one for tiles that only the device knows."""
    for tile in TILES.values():
        yield _row(tile)
    yield make_row(
        "kernel.program.wmma.own",
        "Tiles that the device declares, and that are in no table here, multiply by their layout.",
        clauses=CLAUSES,
        rung=Rung.MATMUL,
        op="WMMA",
        dtype="float32",
        uses=(dtypes.int32,),
        features=("grid", "groups", "tile:own"),
        checks={"all": own_tiles},
        advice=_ADVICE,
    )
