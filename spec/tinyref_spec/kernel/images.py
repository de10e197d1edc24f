"""Images: kernels that read and write texels, and kernels that would need parts of texels.

Data are small integers, or literals if a store rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, ImageDType, dtypes, image, numpy_dtype
from tinyref.errors import DeviceError, TinyrefError, UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.data_kinds import small_and_extreme
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs
from tinyref_spec.kernels.notation import kernel_of, load, shaped, total
from tinyref_spec.measure import refusal, run_exact

CLAUSES = ("kernel.image",)
HEIGHT, WIDTH = 6, 4
COLUMNS = WIDTH * 4
COUNT = HEIGHT * COLUMNS
F32 = dtypes.float32
WHOLE = shaped(HEIGHT, COLUMNS)
# Texels of a line, more than many devices once allowed.
WIDE = (4097, 16_384)


@dataclass(frozen=True)
class ImageKernel:
    """A kernel, its inputs from slot 1 on, and the expected contents of slot 0."""

    kernel: UOp
    inputs: tuple[Array, ...]
    expected: Array


Form = Callable[[DType], ImageKernel]


def _view(slot: int, base: DType, window: ShapeTracker) -> UOp:
    kind = image(base, HEIGHT, WIDTH)
    return UOp(Ops.VIEW, kind, (UOp(Ops.DEFINE_GLOBAL, kind, (), SlotArg(slot)),), ViewArg(window))


def _read(slot: int, base: DType, window: ShapeTracker = WHOLE) -> UOp:
    return UOp(Ops.LOAD, F32, (_view(slot, base, window),))


def _store_kernel(base: DType, value: UOp) -> UOp:
    return build.sink(build.store(_view(0, base, WHOLE), value))


def _data(base: DType, seed: int = 1) -> Array:
    return small_and_extreme(base, COUNT, seed, 9).reshape(HEIGHT, COLUMNS)


def _wide(values: Array) -> Array:
    return np.ascontiguousarray(values.astype(np.float32))


# --- forms ----------------------------------------------------------------------------------------


def computed(base: DType) -> ImageKernel:
    """Return x * 2 + y, from two images to a third."""
    x, y = _data(base), _data(base, 2)
    value = build.add(build.mul(_read(1, base), 2.0), _read(2, base))
    expected = (_wide(x) * 2 + _wide(y)).astype(numpy_dtype(base))
    return ImageKernel(_store_kernel(base, value), (x, y), expected)


def from_buffer(base: DType) -> ImageKernel:
    """Return a copy of a float32 buffer to an image; float16 texels are rounded to even."""
    row = np.array([1.0, 1 + 2**-11, 1 + 3 * 2**-11, 70000.0], np.float32)
    rounded = np.array([1.0, 1.0, 1 + 2**-9, np.inf], np.float32)
    expected = rounded if base is dtypes.float16 else row
    kernel = _store_kernel(base, load(1, F32, (HEIGHT, COLUMNS)))
    return ImageKernel(kernel, (np.tile(row, COUNT // 4),), np.tile(expected, COUNT // 4))


def widened(base: DType) -> ImageKernel:
    """Return x * x of an image to a buffer: the product is in float32."""
    x = np.full((HEIGHT, COLUMNS), 1 + 2**-10, numpy_dtype(base))
    value = build.mul(_read(1, base), _read(1, base))
    expected = np.full((HEIGHT, COLUMNS), 1 + 2**-9 + 2**-20, np.float32)
    return ImageKernel(kernel_of(value, HEIGHT, COLUMNS), (x,), expected)


def transposed(base: DType) -> ImageKernel:
    """Return a copy of an image to a transposed buffer."""
    x = _data(base)
    value = _read(1, base, WHOLE.permute((1, 0)))
    return ImageKernel(kernel_of(value, COLUMNS, HEIGHT), (x,), _wide(x.T))


def row_sums(base: DType) -> ImageKernel:
    """Return sums along the lanes of texels."""
    x = _data(base)
    return ImageKernel(kernel_of(total(_read(1, base), 1), HEIGHT, 1), (x,), _wide(x).sum(1))


def padded(base: DType) -> ImageKernel:
    """Return loads outside of the image, behind a gate."""
    x = _data(base)
    around = ((1, 2), (4, 8))
    window = WHOLE.pad(around)
    expected = np.pad(_wide(x), around)
    return ImageKernel(kernel_of(_read(1, base, window), HEIGHT + 3, COLUMNS + 12), (x,), expected)


FORMS: tuple[Form, ...] = (computed, from_buffer, widened, transposed, row_sums, padded)
# Views of an image whose elements are not whole texels, whichever axes become lanes.
PARTS: dict[str, ShapeTracker] = {
    "narrow": WHOLE.shrink(((0, HEIGHT), (0, 6))),
    "shifted": WHOLE.shrink(((0, HEIGHT), (2, COLUMNS - 2))),
    "every_other": shaped(HEIGHT, 8, 2).shrink(((0, HEIGHT), (0, 8), (0, 1))),
    "one_lane": WHOLE.shrink(((0, HEIGHT), (0, 1))).expand((HEIGHT, COLUMNS)),
}


def _computes(form: Form, base: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    subject = form(base)
    target = subject.expected.reshape(-1)
    is_image = isinstance(subject.kernel.src[0].src[0].dtype, ImageDType)
    expected = target.astype(numpy_dtype(base if is_image else F32))
    inputs: list[Array | None] = [None, *(values.reshape(-1) for values in subject.inputs)]
    return run_exact(case_id, device, subject.kernel, inputs, [expected])


def _refusal_of_part(window: ShapeTracker, case_id: str, device: DeviceUnderTest) -> Measurement:
    kernel = kernel_of(_read(1, F32, window), *window.shape)
    data = np.zeros(COUNT, np.float32)
    try:
        device.run(kernel, [None, data])
    except TinyrefError as error:
        measured = refusal(None, error, (UserError, DeviceError))
        if measured.passed and "texels of 4" not in str(error):
            return Measurement(False, f"the refusal does not mention texels: {error}", compared=1)
        return measured
    return refusal("an access of a part of a texel was accepted", None, (UserError, DeviceError))


def texel(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy the texel in row 1 and column 2 of an image of 2 x 3."""
    kind = image(F32, 2, 3)
    memory = UOp(Ops.DEFINE_GLOBAL, kind, (), SlotArg(1))
    row, column = (build.const(dtypes.int32, index) for index in (1, 2))
    value = build.load(build.texel(memory, row, column), lanes=4)
    out = build.define_global(0, F32, 4)
    subject = programs.program("texel", build.store(programs.at(out, 0), value))
    data = np.arange(24, dtype=np.float32)
    expected = np.array([20.0, 21.0, 22.0, 23.0], np.float32)
    return programs.run(case_id, device, subject, [None, data], expected)


def _wide_image(width: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Copy the ends of two lines of an image of `width` texels a line, if a line may be that long.

    No capability declares how long a line may be, so a clear refusal passes too.
    """
    kind = image(F32, 2, width)
    memory = UOp(Ops.DEFINE_GLOBAL, kind, (), SlotArg(1))
    positions = [(row, column) for row in range(2) for column in (0, 4095, width - 1)]
    out = build.define_global(0, F32, 4 * len(positions))
    stores = [
        build.store(
            programs.at(out, 4 * number),
            build.load(
                build.texel(memory, *(build.const(dtypes.int32, index) for index in position)),
                lanes=4,
            ),
        )
        for number, position in enumerate(positions)
    ]
    subject = programs.program("wide", *stores)
    # Integers that float32 holds.
    data = np.arange(8 * width, dtype=np.float32)
    texels = data.reshape(2, width, 4)
    expected = np.concatenate([texels[row, column] for row, column in positions])
    try:
        return programs.run(case_id, device, subject, [None, data], expected)
    except (UserError, DeviceError) as error:
        return refusal(None, error, (UserError, DeviceError))


# --- rows -----------------------------------------------------------------------------------------


def _checks(base: DType) -> list[Check]:
    checks = [Check(form.__name__, functools.partial(_computes, form, base)) for form in FORMS]
    if base is F32:
        checks += [Check(f"wide:{width}", functools.partial(_wide_image, width)) for width in WIDE]
    return checks


def rows() -> Iterator[Row]:
    """Yield a row for each type of texels, and one for parts of texels."""
    for base in (F32, dtypes.float16):
        yield make_row(
            f"kernel.image.{base.name}",
            f"Kernels read and write images of {base.name} texels, as float32 values.",
            clauses=CLAUSES,
            rung=Rung.VECTOR,
            op="INDEX",
            dtype=base.name,
            uses=(F32,),
            features=("images",),
            checks=functools.partial(_checks, base),
        )
    yield make_row(
        "kernel.image.parts",
        "A kernel that would need parts of texels is refused, with the reason.",
        clauses=CLAUSES,
        rung=Rung.VECTOR,
        op="INDEX",
        dtype=F32,
        features=("images",),
        error_rule="A refusal.",
        checks=lambda: [
            Check(name, functools.partial(_refusal_of_part, window))
            for name, window in PARTS.items()
        ],
    )
