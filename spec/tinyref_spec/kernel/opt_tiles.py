"""TC: sums of products on every matrix tile of a device.

The data are small integers whose sums every accumulator holds. A lane that gets another element
than the layout says, or a product that is lost or counted twice, gives wrong bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.dtype import numpy_dtype
from tinyref.optimise.opt import KernelOptError, Opt, OptOp, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.tiles import TILES, MatrixTile
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised
from tinyref_spec.kernel.opt_kernels import CheckedKernel, evaluated
from tinyref_spec.kernel.products import accumulator_of, expected_product
from tinyref_spec.kernels.named import matmul, multiplied
from tinyref_spec.kernels.notation import kernel_of, largest, left, load, right, total
from tinyref_spec.measure import Experiment, measure

Form = Callable[[MatrixTile], UOp]

# --- kernels --------------------------------------------------------------------------------------


def _operands(
    tile: MatrixTile, sizes: Sequence[int], is_transposed: bool = False
) -> tuple[UOp, UOp]:
    """Return A and B over the axes (of a batch,) m, n, k.

    If transposed, m and k are the fast axes of their buffers.
    """
    a = load(1, tile.dtype_in, left(*sizes, is_transposed=is_transposed))
    b = load(2, tile.dtype_in, right(*sizes, is_transposed=is_transposed))
    return a, b


def _products(tile: MatrixTile, *sizes: int, is_transposed: bool = False) -> UOp:
    a, b = _operands(tile, sizes, is_transposed)
    return multiplied(a, b, len(sizes) - 1, tile.dtype_out)


def plain(tile: MatrixTile) -> UOp:
    """Return products of loads: 2 x 3 tiles, two of them deep."""
    m, n, k = tile.dims
    return kernel_of(_products(tile, 2 * m, 3 * n, 2 * k), 2 * m, 3 * n, 1)


def transposed(tile: MatrixTile) -> UOp:
    """Return products of operands whose fast axes are m and k."""
    m, n, k = tile.dims
    value = _products(tile, 2 * m, 3 * n, 2 * k, is_transposed=True)
    return kernel_of(value, 2 * m, 3 * n, 1)


def padded(tile: MatrixTile) -> UOp:
    """Return products in which no extent is a multiple of the tile's."""
    m, n, k = tile.dims
    return kernel_of(_products(tile, m + 1, 2 * n - 1, 2 * k - 1), m + 1, 2 * n - 1, 1)


def expressions(tile: MatrixTile) -> UOp:
    """Return products of (a + 1) and -b, plus the largest element of a row of another matrix."""
    m, n, k = tile.dims
    sizes = (m, 2 * n, 2 * k)
    a, b = _operands(tile, sizes)
    negative = build.unary(Ops.NEG, b)
    products = multiplied(build.add(a, 1), negative, within=tile.dtype_out)
    most = build.cast(largest(load(3, tile.dtype_in, left(*sizes)), 2), tile.dtype_out)
    return kernel_of(build.add(products, most), m, 2 * n, 1)


def repeated(tile: MatrixTile) -> UOp:
    """Return the sum over a loop of products that are cut off below zero."""
    m, n, k = tile.dims
    cut = build.maximum(_products(tile, 3, m, n, k), 0)
    return kernel_of(total(cut, 0), 1, m, n, 1)


# --- uses -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Use:
    """One case: TC of `level` and `mode` on a kernel, then more optimisations.

    then: uses U for the axis of the outer reduce, whose number depends on the tile.
    """

    form: Form
    level: int = 0
    mode: int = 1
    then: str = ""
    choice: int = 0

    @property
    def name(self) -> str:
        """Return the end of the id of the case."""
        words = [self.form.__name__, f"mode_{self.mode}"]
        words += [f"choice_{self.choice}"] if self.choice else []
        more = self.then.lower().replace("(", "_").replace(", ", "_").replace(")", "")
        return ".".join([*words, *more.split()])


# A quick run has these on the first tile of every vendor.
QUICK = (
    Use(plain),
    Use(padded, 2, 3, "UPCAST(0, 2) LOCAL(0, 2)"),
)
# A full run has these too on every tile,
EVERY = (
    Use(transposed, 0, 1, "UPCAST(0, 2) UPCAST(0, 3)"),
    Use(plain, 0, 3),
    Use(padded, 2, 1),
    Use(expressions, 1, 1, "UPCAST(0, 2)"),
    Use(repeated, 1, 3),
)
# and these on the first of every vendor.
MORE = (
    Use(plain, 0, 2),
    Use(plain, 0, 1, "UNROLL(U, 2)"),
    Use(plain, 0, 1, "PADTO(U, 4) UNROLL(U, 2)"),
    Use(plain, 0, 3, "UPCAST(1, 3) LOCAL(0, 2)"),
    Use(transposed, 0, 3, "PADTO(1, 4) UPCAST(1, 2) LOCAL(1, 2)"),
    Use(expressions, 1, 3),
    Use(padded, 2, 1, "", 1),
    Use(repeated, 1, 1),
)
# The tile of 16-bit floats whose products are measured in a quick run.
_NARROW = TILES["nvidia_m16n8k16_float16_float32"]


def _opts(plan: Plan, text: str) -> Plan:
    """Return `plan` after the optimisations in `text`; U is its last reduce axis by then."""
    for word in text.replace(") ", ")|").split("|"):
        if word:
            reduces = plan.of_kind(AxisKind.REDUCE)
            (opt,) = parse_opts(word.replace("U,", f"{reduces[-1] if reduces else -1},"))
            plan = plan.apply(opt)
    return plan


def _number(tile: MatrixTile, capabilities: Capabilities) -> int:
    """Return the number of the tile among those of a device; one too many if it is missing."""
    tiles = capabilities.matrix_tiles
    return tiles.index(tile) if tile in tiles else len(tiles)


@functools.lru_cache(maxsize=4)
def _subject(form: Form, tile: MatrixTile) -> CheckedKernel:
    return evaluated(form(tile), limit=2)


def tile_use(tile: MatrixTile, use: Use, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that the kernel on the tile gives exactly the expected bits."""
    subject = _subject(use.form, tile)
    opt = Opt(OptOp.TC, use.choice, _number(tile, device.capabilities), use.level, use.mode)
    # A tile that rounds its inputs is not for strict floats.
    with config.Context(STRICT_FLOAT=0 if tile.rounds_in is not None else 1):
        try:
            plan = Plan.of(subject.kernel, device.capabilities).apply(opt)
            opts = _opts(plan, use.then).opts
        except KernelOptError as error:
            return Measurement(False, f"a legal use was refused: {error}", compared=1)
        return subject.measure(opts, case_id, device)


# --- floats ---------------------------------------------------------------------------------------


def _is_honest(tile: MatrixTile) -> bool:
    """Return True if the products of the level `kernel` may be computed on the tile."""
    is_sum = tile.dtype_out is accumulator_of(tile.dtype_in)
    return tile.dtype_in.is_float and is_sum and tile.rounds_in is None


def honest(tile: MatrixTile, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Measure 1,024 products of random floats: within bound, without bias, without noise."""
    rows, inner, columns = 32, 64, 32
    generator = np.random.default_rng([rows, tile.threads])
    dtype = numpy_dtype(tile.dtype_in)
    a = generator.standard_normal((rows, inner)).astype(dtype)
    b = generator.standard_normal((inner, columns)).astype(dtype)
    expected, norm, rule = expected_product(a, b, tile.dtype_in)
    number = _number(tile, device.capabilities)
    kernel = matmul(
        rows, columns, inner, tile.dtype_in, accumulator_of(tile.dtype_in), tile.dtype_in
    )
    planned = Optimised(kernel, (Opt(OptOp.TC, 0, number),))
    inputs = [None, a.reshape(-1), b.reshape(-1)]
    return measure(device, Experiment(case_id, planned, inputs, [expected], [rule], norms=[norm]))


# --- rows -----------------------------------------------------------------------------------------


def vendors() -> dict[str, list[MatrixTile]]:
    """Return the tiles of the tables by the first word of their names."""
    vendors: dict[str, list[MatrixTile]] = {}
    for tile in TILES.values():
        vendors.setdefault(tile.name.partition("_")[0], []).append(tile)
    return vendors


def _checks(tiles: list[MatrixTile]) -> list[Check]:
    checks = []
    for number, tile in enumerate(tiles):
        needs = kernel_needs(tile.dtype_in, tile.dtype_out, features=(f"tile:{tile.name}",))
        for use in (*QUICK, *EVERY, *(MORE if number == 0 else ())):
            is_quick = number == 0 and use in QUICK
            run = functools.partial(tile_use, tile, use)
            checks.append(Check(f"{tile.name}:{use.name}", run, not is_quick, needs))
        if _is_honest(tile):
            run = functools.partial(honest, tile)
            checks.append(Check(f"{tile.name}:floats", run, tile is not _NARROW, needs))
    return checks


def rows() -> Iterator[Row]:
    """Yield a row for the tiles of each vendor."""
    for vendor, tiles in vendors().items():
        yield make_row(
            f"kernel.opt.tc.{vendor}",
            f"TC computes sums of products on the tiles of {vendor}, in every mode.",
            clauses=("kernel.opt", "kernel.opt.tc", "kernel.wmma"),
            rung=Rung.MATMUL,
            op="TC",
            dtype=tiles[0].dtype_out,
            uses=(),
            features=("grid", "groups"),
            checks=functools.partial(_checks, tiles),
        )
