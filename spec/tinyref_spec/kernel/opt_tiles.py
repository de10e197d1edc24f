"""TC: sums of products on every matrix tile of a device, and the uses of tiles that are refused.

The data are small integers whose sums every accumulator holds, so that a lane that gets another
element than the layout says, or a product that is lost or counted twice, shows as wrong bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, OptOp, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.tiles import TILES, FragmentLayout, MatrixTile
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel.opts import keeps_value
from tinyref_spec.kernel.products import accumulator_of, expected_product
from tinyref_spec.kernels.named import matmul, multiplied
from tinyref_spec.kernels.notation import kernel_of, largest, left, load, right, shaped, total
from tinyref_spec.measure import Experiment, measure, run_exact

EXACT = Ulp(0).sentence
Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Subject:
    """A kernel with its inputs from slot 1 on, and what it must leave in slot 0.

    old: what slot 0 holds before, where the kernel does not write all of it.
    """

    kernel: UOp
    inputs: tuple[Array, ...]
    expected: Array
    old: Array | None = None
    bindings: Mapping[str, int] = field(default_factory=dict)


Form = Callable[[MatrixTile], Subject]


# --- kernels --------------------------------------------------------------------------------------


def _values(tile: MatrixTile, *shape: int, seed: int) -> Array:
    count = int(np.prod(shape))
    return small_and_extreme(tile.dtype_in, count, seed, 2).reshape(shape)


def _operands(
    tile: MatrixTile, sizes: Sequence[int], is_transposed: bool = False
) -> tuple[UOp, UOp]:
    """A and B over the axes (of a batch,) m, n, k.

    Transposed, m and k are the fast axes of their buffers.
    """
    a = load(1, tile.dtype_in, left(*sizes, is_transposed=is_transposed))
    b = load(2, tile.dtype_in, right(*sizes, is_transposed=is_transposed))
    return a, b


def _result(tile: MatrixTile, values: Array) -> Array:
    return np.ascontiguousarray(values.astype(numpy_dtype(tile.dtype_out)))


def _wide(values: Array) -> Array:
    return np.asarray(values.astype(np.float64))


def _multiplied(tile: MatrixTile, sizes: Sizes, is_transposed: bool = False) -> Subject:
    m, n, k = sizes
    a, b = _values(tile, m, k, seed=1), _values(tile, k, n, seed=2)
    value = multiplied(*_operands(tile, sizes, is_transposed), within=tile.dtype_out)
    held = (np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)) if is_transposed else (a, b)
    expected = _result(tile, _wide(a) @ _wide(b))
    return Subject(kernel_of(value, m, n, 1), held, expected)


def plain(tile: MatrixTile) -> Subject:
    """Products of loads: 2 x 3 tiles, two of them deep."""
    m, n, k = tile.dims
    return _multiplied(tile, (2 * m, 3 * n, 2 * k))


def transposed(tile: MatrixTile) -> Subject:
    """The same of operands whose fast axes are m and k."""
    m, n, k = tile.dims
    return _multiplied(tile, (2 * m, 3 * n, 2 * k), is_transposed=True)


def single(tile: MatrixTile) -> Subject:
    """One tile: no loop and no other axis is left."""
    return _multiplied(tile, tile.dims)


def padded(tile: MatrixTile) -> Subject:
    """No extent is a multiple of the tile's."""
    m, n, k = tile.dims
    return _multiplied(tile, (m + 1, 2 * n - 1, 2 * k - 1))


def batch(tile: MatrixTile) -> Subject:
    """Two matrices of each kind, and the sums are added to what a row holds."""
    m, n, k = tile.dims
    shape = (2, m, n, k)
    a, b, row = (
        _values(tile, 2, m, k, seed=1),
        _values(tile, 2, k, n, seed=2),
        _values(tile, n, seed=3),
    )
    shown = shaped(1, 1, n, 1).expand((2, m, n, 1))
    shift = build.cast(load(3, tile.dtype_in, shown), tile.dtype_out)
    products = multiplied(*_operands(tile, shape), 3, tile.dtype_out)
    expected = _result(tile, _wide(a) @ _wide(b) + _wide(row))
    return Subject(kernel_of(build.add(products, shift), 2, m, n, 1), (a, b, row), expected)


def expressions(tile: MatrixTile) -> Subject:
    """Products of (a + 1) and -b, and the largest element of the row of another matrix."""
    m, n, k = tile.dims
    sizes = (m, 2 * n, 2 * k)
    a, b = _values(tile, m, 2 * k, seed=1), _values(tile, 2 * k, 2 * n, seed=2)
    x = _values(tile, m, 2 * k, seed=3)
    first, second = _operands(tile, sizes)
    negative = build.unary(Ops.NEG, second)
    products = multiplied(build.add(first, 1), negative, within=tile.dtype_out)
    most = largest(load(3, tile.dtype_in, left(*sizes)), 2)
    value = build.add(products, build.cast(most, tile.dtype_out))
    # In the type of the operands, where integers wrap.
    product = _wide(a + a.dtype.type(1)) @ _wide(-b)
    expected = _result(tile, product + _wide(x).max(1, keepdims=True))
    kernel = kernel_of(value, m, 2 * n, 1)
    return Subject(kernel, (a, b, x), expected)


def numbered(tile: MatrixTile) -> Subject:
    """Products of a plus the numbers of its columns, an IOTA, and b: a factor that is no load."""
    m, n, k = sizes = tile.dims
    a, b = _values(tile, m, k, seed=1), _values(tile, k, n, seed=2)
    first, second = _operands(tile, sizes)
    numbers = build.cast(build.iota(shaped(1, 1, k).expand(sizes)), tile.dtype_in)
    value = multiplied(build.add(first, numbers), second, within=tile.dtype_out)
    # In the type of the operands, where integers wrap.
    expected = _result(tile, _wide(a + np.arange(k).astype(a.dtype)) @ _wide(b))
    return Subject(kernel_of(value, m, n, 1), (a, b), expected)


def repeated(tile: MatrixTile) -> Subject:
    """The sum over a loop of products that are cut off below zero."""
    m, n, k = tile.dims
    shape = (3, m, n, k)
    a, b = _values(tile, 3, m, k, seed=1), _values(tile, 3, k, n, seed=2)
    cut = build.maximum(multiplied(*_operands(tile, shape), 3, tile.dtype_out), 0)
    expected = _result(tile, np.maximum(_wide(a) @ _wide(b), 0).sum(0))
    return Subject(kernel_of(total(cut, 0), 1, m, n, 1), (a, b), expected)


# --- legal uses -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Use:
    """One case: TC of `level` and `mode` on a kernel, then more optimisations.

    then: with U for the axis of the outer reduce, whose number depends on the tile.
    """

    form: Form
    level: int = 0
    mode: int = 1
    then: str = ""
    choice: int = 0

    @property
    def name(self) -> str:
        """The end of the id of the case."""
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
    Use(single),
    Use(single, 0, 3),
    Use(batch),
    Use(batch, 0, 2),
    Use(plain, 0, 2),
    Use(plain, 0, 1, "UNROLL(U, 2)"),
    Use(plain, 0, 1, "LOCAL(0, 2) LOCAL(0, 3)"),
    Use(plain, 0, 1, "PADTO(1, 4) UPCAST(1, 4)"),
    Use(plain, 0, 1, "PADTO(U, 4) UNROLL(U, 2)"),
    Use(plain, 0, 3, "UNROLL(U, 0)"),
    Use(plain, 0, 3, "UPCAST(1, 3) LOCAL(0, 2)"),
    Use(transposed, 0, 3, "PADTO(1, 4) UPCAST(1, 2) LOCAL(1, 2)"),
    Use(expressions, 1, 2),
    Use(expressions, 1, 3),
    Use(padded, 2, 2),
    Use(padded, 2, 1, "UPCAST(0, 2) UPCAST(0, 2)"),
    Use(padded, 2, 1, "", 1),
    Use(repeated, 1, 1),
    Use(numbered, 1, 1),
    Use(numbered, 1, 3),
)
# Of those a quick run has these on one tile, which is small.
SMALL = (
    Use(single, 0, 3),
    Use(plain, 0, 1, "UNROLL(U, 2)"),
    Use(numbered, 1, 1),
)


def _opts(plan: Plan, text: str) -> Plan:
    """`plan` after the optimisations in `text`; U is its last reduce axis by then."""
    for word in text.replace(") ", ")|").split("|"):
        if word:
            reduces = plan.of_kind(AxisKind.REDUCE)
            (opt,) = parse_opts(word.replace("U,", f"{reduces[-1] if reduces else -1},"))
            plan = plan.apply(opt)
    return plan


def _number(tile: MatrixTile, capabilities: Capabilities) -> int:
    """The number of the tile among those of a device; one too many if it is not there."""
    tiles = capabilities.matrix_tiles
    return tiles.index(tile) if tile in tiles else len(tiles)


@functools.lru_cache(maxsize=4)
def _subject(form: Form, tile: MatrixTile) -> Subject:
    return form(tile)


def planned_on(tile: MatrixTile, use: Use, capabilities: Capabilities) -> Plan:
    """The plan of a use. Raises `KernelOptError` where the device refuses it."""
    opt = Opt(OptOp.TC, use.choice, _number(tile, capabilities), use.level, use.mode)
    return _opts(Plan.of(_subject(use.form, tile).kernel, capabilities).apply(opt), use.then)


def legal_use(tile: MatrixTile, use: Use, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The kernel on the tile gives exactly what it must."""
    subject = _subject(use.form, tile)
    # A tile that rounds its inputs is for those who do not ask for strict floats.
    with config.Context(STRICT_FLOAT=0 if tile.rounds_in is not None else 1):
        try:
            plan = planned_on(tile, use, device.capabilities)
        except KernelOptError as error:
            return Measurement(False, f"a legal use was refused: {error}", compared=1)
        kernel, inputs = Optimised(subject.kernel, plan.opts), [subject.old, *subject.inputs]
        return run_exact(case_id, device, kernel, inputs, [subject.expected], subject.bindings)


# --- floats ---------------------------------------------------------------------------------------


def _is_honest(tile: MatrixTile) -> bool:
    """Whether the products of the level `kernel` may be computed on the tile."""
    is_sum = tile.dtype_out is accumulator_of(tile.dtype_in)
    return tile.dtype_in.is_float and is_sum and tile.rounds_in is None


def honest(tile: MatrixTile, case_id: str, device: DeviceUnderTest) -> Measurement:
    """1,024 products of random floats: within bound, without bias, without noise."""
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


# --- refusals -------------------------------------------------------------------------------------

_F32 = dtypes.float32
SMALL_TILE = TILES["apple_m8n8k8_float32_float32"]
_NARROW = TILES["nvidia_m16n8k16_float16_float32"]
_ROUNDS = TILES["nvidia_m16n8k8_tf32_float32"]
# Every element of C is held twice.
_TWICE = MatrixTile(
    "twice_m2n2k2_float32_float32",
    (2, 2, 2),
    _F32,
    _F32,
    FragmentLayout.of("m1 k1 -", ""),
    FragmentLayout.of("n1 k1 -", ""),
    FragmentLayout.of("m1 n1 -", ""),
)
_TC = "TC(0, 0, level 0, mode 1)"


def _evaluated(
    kernel: UOp, old: Array, *inputs: Array, bindings: Mapping[str, int] | None = None
) -> Subject:
    """A kernel of float32 that must do what the evaluator of ASTs says."""
    buffers = [each.reshape(-1).astype(np.float32) for each in (old, *inputs)]
    wanted = evaluate(kernel, dict(enumerate(buffers)), bindings)[0]
    return Subject(kernel, tuple(buffers[1:]), wanted, buffers[0], bindings or {})


def _of(sizes: Sizes, kernel: Callable[[UOp, UOp], UOp]) -> Form:
    """A kernel of the two operands."""

    def form(tile: MatrixTile) -> Subject:
        m, n, k = sizes
        a, b = _values(tile, m, k, seed=1), _values(tile, k, n, seed=2)
        value = kernel(*_operands(tile, sizes))
        root = kernel_of(value, m, n, 1)
        return _evaluated(root, np.zeros(m * n), a, b)

    return form


def _maxima(a: UOp, b: UOp) -> UOp:
    return largest(build.mul(a, b), 2)


def _sums(a: UOp, b: UOp) -> UOp:
    return total(build.add(a, b), 2)


def _shifted(a: UOp, b: UOp) -> UOp:
    return multiplied(build.add(a, 1), b)


def _of_one(a: UOp, b: UOp) -> UOp:
    return multiplied(a, a)


def _two_reduces(a: UOp, b: UOp) -> UOp:
    return build.add(multiplied(a, b), largest(a, 2))


def of_sums(tile: MatrixTile) -> Subject:
    """An operand that is a sum itself."""
    shape = (8, 8, 8, 3)
    sums = total(load(1, _F32, shaped(8, 1, 8, 3).expand(shape)), 3)
    right_side = load(2, _F32, shaped(1, 8, 8, 1).expand((8, 8, 8, 1)))
    kernel = kernel_of(multiplied(sums, right_side), 8, 8, 1, 1)
    data = _values(tile, 192, seed=1), _values(tile, 64, seed=2)
    return _evaluated(kernel, np.zeros(64), *data)


def symbolic(tile: MatrixTile) -> Subject:
    """As many rows as a variable says."""
    extent = build.variable("n", 1, 16)
    kernel = matmul(extent, 8, 8, _F32, is_transposed=True)
    data = _values(tile, 128, seed=1), _values(tile, 64, seed=2)
    return _evaluated(kernel, np.full(128, 9), *data, bindings={"n": 11})


@dataclass(frozen=True)
class Refused:
    """One row: `opt` is refused with `reason` after `before`, on a device that has `tile` alone.

    change: what else that device has not.
    """

    name: str
    reason: str
    opt: str = _TC
    form: Form = plain
    before: str = ""
    tile: MatrixTile = SMALL_TILE
    change: Callable[[Capabilities], Capabilities] = lambda capabilities: capabilities
    is_strict: bool = True


_NO_SUM = "no sum of products fits the types and axes"
_NUMBERS = "accepted are levels 0 to 2 and modes 1 to 3"
_LANE = "is a lane of the matrix tile"
# After TC the axes of `plain` are two global ones, 5 local ones, reduce 2, unroll 8, upcast 2.
REFUSED: tuple[Refused, ...] = (
    Refused(
        "no_tile",
        "the device declares no matrix tile",
        change=functools.partial(replace, matrix_tiles=()),
    ),
    Refused(
        "no_groups",
        "no groups of work-items to share a tile",
        change=functools.partial(replace, has_groups=False),
    ),
    Refused("not_first", "comes before all other", before="UPCAST(0, 2)"),
    Refused("twice", "comes before all other", before=_TC),
    Refused("number", "there is no tile 1: accepted are -1 to 0", "TC(0, 1, level 0, mode 1)"),
    Refused("negative_number", "there is no tile -2", "TC(0, -2, level 0, mode 1)"),
    Refused("level", _NUMBERS, "TC(0, 0, level 3, mode 1)"),
    Refused("negative_level", _NUMBERS, "TC(0, 0, level -1, mode 1)"),
    Refused("mode", _NUMBERS, "TC(0, 0, level 0, mode 4)"),
    Refused("mode_0", _NUMBERS, "TC(0, 0, level 0, mode 0)"),
    Refused("choice", "no choice 2 of axes: accepted are 0 to 1", "TC(2, 0, level 0, mode 1)"),
    Refused("negative_choice", "no choice -1 of axes", "TC(-1, 0, level 0, mode 1)"),
    Refused(
        "types", _NO_SUM, "TC(0, 0, level 2, mode 1)", _of((16, 8, 16), multiplied), tile=_NARROW
    ),
    Refused("maximum", _NO_SUM, "TC(0, 0, level 2, mode 1)", _of((8, 8, 8), _maxima)),
    Refused("no_product", _NO_SUM, "TC(0, 0, level 2, mode 1)", _of((8, 8, 8), _sums)),
    Refused("one_operand", _NO_SUM, "TC(0, 0, level 2, mode 1)", _of((8, 8, 8), _of_one)),
    Refused("inner_reduce", _NO_SUM, "TC(0, 0, level 2, mode 1)", of_sums),
    Refused("expression", _NO_SUM, form=_of((8, 8, 8), _shifted)),
    Refused("two_reduces", _NO_SUM, form=_of((8, 8, 8), _two_reduces)),
    Refused("rows", "9 is none, and only level 2", form=_of((9, 8, 8), multiplied)),
    Refused("columns", "7 is none", "TC(0, 0, level 1, mode 1)", _of((8, 7, 8), multiplied)),
    Refused("depth", "12 is none", "TC(0, 0, level 1, mode 3)", _of((8, 8, 12), multiplied)),
    Refused(
        "too_much",
        "16 positions for 3: accepted is 4 times the work",
        "TC(0, 0, level 2, mode 1)",
        _of((3, 8, 8), multiplied),
        tile=_ROUNDS,
        is_strict=False,
    ),
    Refused("terms", "terms that are not 0", "TC(0, 0, level 2, mode 1)", _of((8, 8, 7), _shifted)),
    Refused("symbolic", "symbolic extent n", "TC(0, 0, level 2, mode 1)", symbolic),
    Refused(
        "strict", "not where floats are strict", form=_of((16, 8, 8), multiplied), tile=_ROUNDS
    ),
    Refused("repeats", "repeats elements of C", tile=_TWICE),
    Refused(
        "emulated",
        "is of float16, which the device only emulates",
        form=_of((16, 8, 16), multiplied),
        tile=_NARROW,
        change=lambda capabilities: replace(
            capabilities, dtypes=capabilities.dtypes - {dtypes.float16}
        ),
    ),
    Refused(
        "group_size",
        "a group of 32 work-items, accepted are 16",
        change=functools.partial(replace, group_size_limit=16),
    ),
    Refused(
        "memory",
        "512 bytes of shared memory, accepted are 511",
        "TC(0, 0, level 0, mode 3)",
        change=functools.partial(replace, shared_bytes=511),
    ),
    Refused(
        "memory_of_runs",
        "1024 bytes of shared memory, accepted are 1023",
        "LOCAL(0, 2)",
        before="TC(0, 0, level 0, mode 3)",
        change=functools.partial(replace, shared_bytes=1023),
    ),
    Refused(
        "memory_of_lanes",
        "768 bytes of shared memory, accepted are 767",
        "UPCAST(0, 2)",
        before="TC(0, 0, level 0, mode 3)",
        change=functools.partial(replace, shared_bytes=767),
    ),
    Refused("group", "a matrix tile is active", "GROUP(7, 2)", before=_TC),
    Refused("grouptop", "a matrix tile is active", "GROUPTOP(7, 2)", before=_TC),
    Refused("upcast_lane", _LANE, "UPCAST(2, 2)", before=_TC),
    Refused("pad_lane", _LANE, "PADTO(4, 4)", before=_TC),
    Refused("pad_depth", _LANE, "PADTO(8, 3)", before=_TC),
    Refused("upcast_twice", "axis 9 is upcast", "UPCAST(9, 2)", before=_TC),
    Refused("unroll_lane", "unrolled already", "UNROLL(8, 2)", before=_TC),
    Refused("local_lane", "axis 2 is local", "LOCAL(2, 2)", before=_TC),
    Refused("swap_lane", "axis 2 is local", "SWAP(0, 2)", before=_TC),
    Refused("nolocals", "groups are used already", "NOLOCALS(0, 0)", before=_TC),
)


def _as_if(capabilities: Capabilities, refused: Refused) -> Capabilities:
    """The device under test, if it had this tile and all that tiles need, but for the change."""
    has_all = replace(
        capabilities,
        dtypes=capabilities.dtypes | {refused.tile.dtype_in, refused.tile.dtype_out},
        has_grid=True,
        has_groups=True,
        shared_bytes=1 << 16,
        group_limit=(1024, 1024, 64),
        group_size_limit=1024,
        matrix_tiles=(refused.tile,),
    )
    return refused.change(has_all)


def refused_use(refused: Refused, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The refusal names the optimisation and the reason, and leaves the plan as it was."""
    subject = refused.form(SMALL_TILE if refused.tile is _NARROW else refused.tile)
    capabilities = _as_if(device.capabilities, refused)
    (opt,) = parse_opts(refused.opt)
    with config.Context(STRICT_FLOAT=int(refused.is_strict)):
        before = parse_opts(refused.before)
        plan = Plan.of(subject.kernel, capabilities).apply_all(before)
        axes = plan.axes
        try:
            accepted = plan.apply(opt)
        except KernelOptError as error:
            if refused.reason not in str(error) or str(opt) not in str(error):
                wrong = f"the refusal does not say {refused.reason!r}: {error}"
                return Measurement(False, wrong, compared=1)
        else:
            return Measurement(False, f"{opt} was accepted, and gave {accepted}", compared=1)
        if plan.axes != axes or plan.opts != before:
            return Measurement(False, "the refusal changed the plan", compared=1)
        return keeps_value(subject.kernel, _opts_before_refusal(plan, device), case_id, device)


def _opts_before_refusal(plan: Plan, device: DeviceUnderTest) -> tuple[Opt, ...]:
    """What was applied before the refusal, where the device under test itself can do that."""
    try:
        return Plan.of(plan.form.ast, device.capabilities).apply_all(plan.opts).opts
    except KernelOptError:
        return ()


# --- rows -----------------------------------------------------------------------------------------


def vendors() -> dict[str, list[MatrixTile]]:
    """The tiles of the tables by the first word of their names."""
    found: dict[str, list[MatrixTile]] = {}
    for tile in TILES.values():
        found.setdefault(tile.name.partition("_")[0], []).append(tile)
    return found


def _checks(tiles: list[MatrixTile]) -> list[Check]:
    found = []
    for number, tile in enumerate(tiles):
        needs = kernel_needs(tile.dtype_in, tile.dtype_out, features=(f"tile:{tile.name}",))
        for use in (*QUICK, *EVERY, *(MORE if number == 0 else ())):
            is_quick = (number == 0 and use in QUICK) or (tile is SMALL_TILE and use in SMALL)
            run = functools.partial(legal_use, tile, use)
            found.append(Check(f"{tile.name}:{use.name}", run, not is_quick, needs))
        if _is_honest(tile):
            run = functools.partial(honest, tile)
            found.append(Check(f"{tile.name}:floats", run, tile is not _NARROW, needs))
    return found


def rows() -> Iterator[Row]:
    """A row for the tiles of each vendor, and one for each refusal."""
    for vendor, tiles in vendors().items():
        yield make_row(
            f"kernel.opt.tc.{vendor}",
            f"TC computes sums of products on the tiles of {vendor}, in every mode.",
            ("kernel.opt", "kernel.opt.tc", "kernel.wmma"),
            Rung.MATMUL,
            "TC",
            tiles[0].dtype_out.name,
            EXACT,
            kernel_needs(features=("grid", "groups")),
            functools.partial(_checks, tiles),
        )
    for refused in REFUSED:
        row = make_row(
            f"kernel.opt.tc.refuse.{refused.name}",
            f"{refused.opt} is refused"
            + (f" after {refused.before}" if refused.before else "")
            + f": {refused.reason}.",
            ("kernel.opt.refuse", "kernel.opt.tc"),
            Rung.MATMUL,
            "TC",
            "float32",
            EXACT,
            kernel_needs(_F32),
            functools.partial(_refusal_checks, refused),
        )
        yield replace(row, specials=((refused.opt, f"refused: {refused.reason}"),))


def _refusal_checks(refused: Refused) -> list[Check]:
    return [Check("unchanged", functools.partial(refused_use, refused))]
