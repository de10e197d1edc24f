"""Test the check that kernels stay inside their buffers, on right kernels and broken ones."""

import pytest
from kernel_cases import DEVICES

from tinyref.codegen import compile as compiling
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.dtype import dtypes, image
from tinyref.errors import VerifyError
from tinyref.uops import build
from tinyref.uops.node import substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.verify.index_bounds import BoundsOutcome, check_index_bounds
from tinyref_spec.kernels.named import copied, padded_sum
from tinyref_spec.kernels.notation import shaped

f32, index = dtypes.float32, dtypes.index
memory = build.define_global(0, f32, 24)
output = build.define_global(1, f32, 24)
a = build.counter(6, 0, AxisKind.LOOP)
b = build.counter(4, 1, AxisKind.LOOP)
n = build.variable("n", 1, 24)
flat = build.add(build.mul(a, 4), b)


def kernel(position, gate=None, lanes=1, target=output):
    """Return a kernel that reads element `position` of 24."""
    value = build.load(build.index(memory, position), gate, 0, lanes)
    return build.sink(build.store(build.index(target, build.const(index, 0)), value))


def picture(row, column, gate=None):
    """Return a kernel that reads a texel of an image of 6 rows and 4 columns."""
    address = build.texel(
        build.define_global(0, f32, 96).replace(dtype=image(f32, 6, 4)), row, column
    )
    value = build.load(address, gate, build.const(f32.vec(4), 0.0), 4)
    return build.sink(build.store(build.index(output, build.const(index, 0)), value))


def counts(root):
    return {outcome: count for outcome, count in check_index_bounds(root).items() if count}


def shifted(by):
    return build.add(flat, by)


INSIDE = [
    (kernel(flat), {BoundsOutcome.RANGES: 2}),
    (
        kernel(shifted(-2), build.at_least(flat, 2)),
        {BoundsOutcome.RANGES: 1, BoundsOutcome.GATE: 1},
    ),
    (kernel(shifted(3), build.less(flat, 21)), {BoundsOutcome.RANGES: 1, BoundsOutcome.GATE: 1}),
    (kernel(build.mul(a, 4), lanes=4), {BoundsOutcome.RANGES: 2}),
    (kernel(build.counter(n, 2, AxisKind.LOOP)), {BoundsOutcome.RANGES: 2}),
    (picture(a, b), {BoundsOutcome.RANGES: 3}),
    (
        picture(build.add(a, -1), b, build.at_least(a, 1)),
        {BoundsOutcome.RANGES: 2, BoundsOutcome.GATE: 1},
    ),
    (
        kernel(shifted(1), build.not_equal(flat, build.const(index, 23))),
        {BoundsOutcome.RANGES: 1, BoundsOutcome.VALUES: 1},
    ),
]
OUTSIDE = [
    (kernel(shifted(1)), "position 24 for RANGE 0 = 5, RANGE 1 = 3"),
    (kernel(shifted(-1)), "position -1 for RANGE 0 = 0, RANGE 1 = 0"),
    (kernel(shifted(3), build.less(flat, 22)), "position 24 for RANGE 0 = 5, RANGE 1 = 1"),
    (kernel(shifted(-2), build.at_least(flat, 1)), "position -1 for"),
    (kernel(build.add(build.mul(a, 4), 4), lanes=4), "position 24 to 27 for RANGE 0 = 5"),
    (kernel(build.add(build.counter(n, 2, AxisKind.LOOP), 1)), "position 24 for n = 24"),
    (kernel(build.const(index, 24)), "positions from 0 to 23, got position 24"),
    (picture(b, a), "positions from 0 to 3, got position 4 for RANGE 0 = 4"),
    (picture(build.add(a, -1), b), "positions from 0 to 5, got position -1 for RANGE 0 = 0"),
]


@pytest.mark.parametrize(("root", "expected"), INSIDE)
def test_right_accesses_are_proved(root, expected):
    assert counts(root) == expected


@pytest.mark.parametrize(("root", "got"), OUTSIDE)
def test_wrong_accesses_are_found_with_values(root, got):
    with pytest.raises(VerifyError, match=r"indexed\.bounds\.1") as caught:
        check_index_bounds(root)
    assert got in str(caught.value)
    assert "positions from 0 to " in str(caught.value)


def test_stores_and_scratch_memory_are_checked():
    scratch = build.define_local("scratch", f32, 4)
    value = build.const(f32, 1.0)
    fits = build.sink(build.store(build.index(scratch, b), value))
    assert counts(fits) == {BoundsOutcome.RANGES: 1}
    with pytest.raises(VerifyError, match="position 4 for RANGE 0 = 4"):
        check_index_bounds(build.sink(build.store(build.index(scratch, a), value)))


def test_what_is_not_proved_is_counted():
    # A position that is read from memory, and one of too many values, hide no error.
    read = build.cast(build.load(build.index(memory, a)), index)
    assert counts(kernel(read))[BoundsOutcome.DATA] == 1
    wide = [build.counter(4096, number, AxisKind.LOOP) for number in (2, 3)]
    product = build.mul(*wide)
    gate = build.less(build.mod(product, 4096), 1)
    huge = build.define_global(2, f32, 4095 * 4095 + 1)
    load_ = build.load(build.index(huge, build.add(product, build.mod(product, 7))), gate)
    root = build.sink(build.store(build.index(output, build.const(index, 0)), load_))
    with pytest.raises(VerifyError, match="position") as caught:
        check_index_bounds(build.sink(build.store(build.index(memory, product), load_)))
    assert "RANGE 2 = " in str(caught.value)
    assert counts(root)[BoundsOutcome.SAMPLED] == 1


KERNELS = {
    "padded sum": padded_sum(f32, 3, 5, 1, 2),
    "flip": copied(f32, shaped(15).flip((0,))),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ast", KERNELS.values(), ids=KERNELS.keys())
def test_kernels_pass_under_the_flag(ast, device, capsys):
    with Context(CHECK_BOUNDS=1):
        compile_kernel(ast, DEVICES[device])
    assert capsys.readouterr().err == ""


def broken(change):
    """Return a lowering in which `change` breaks the position of each LOAD."""

    def lower(*arguments):
        root = RIGHT(*arguments)
        wrong = {}
        for node in root.toposort():
            if node.op is Ops.LOAD:
                buffer, position = node.src[0].src
                address = build.index(buffer, change(position))
                wrong[node] = node.replace(src=(address, *node.src[1:]))
        return substitute(root, wrong)

    return lower


RIGHT = compiling.lower


@pytest.mark.parametrize("device", DEVICES)
def test_a_broken_lowering_is_found(monkeypatch, device):
    monkeypatch.setattr(compiling, "lower", broken(lambda position: build.add(position, 1)))
    compile_kernel(KERNELS["flip"], DEVICES[device])
    with Context(CHECK_BOUNDS=1), pytest.raises(VerifyError, match=r"indexed\.bounds\.1"):
        compile_kernel(KERNELS["flip"], DEVICES[device])
