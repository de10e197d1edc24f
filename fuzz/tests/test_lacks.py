"""What a kernel needs that a device declares not to have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.capabilities import Capabilities
from tinyref.device import Device
from tinyref.dtype import ImageDType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_fuzz.judge.lacks import declared_lack
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.notation import kernel_of

PYTHON = Device["PYTHON"].capabilities
CPU = Device["CPU"].capabilities
CORPUS = corpus_kernels()


@pytest.mark.parametrize(
    ("name", "capabilities", "lack"),
    [
        ("sum-float16", PYTHON, ""),
        ("sum-float16", replace(PYTHON, dtypes=PYTHON.dtypes - {dtypes.float16}), "float16"),
        ("sum-float16", CPU, ""),
        ("multiply-add-int32", replace(PYTHON, buffer_limit=2), "3 buffers"),
        ("sum-rows", replace(PYTHON, grid_limit=(1, 1, 1)), "a grid of 12"),
    ],
)
def test_what_may_be_refused(name, capabilities, lack):
    assert declared_lack(CORPUS[name].ast, capabilities) == lack


def test_images_may_be_refused_where_they_are_not_declared():
    image = ImageDType(dtypes.float32, (2, 2))
    ast = UOp(Ops.SINK, dtypes.void, (UOp(Ops.DEFINE_GLOBAL, image, (), None),))
    lacking: Capabilities = replace(PYTHON, images=False)
    assert declared_lack(ast, lacking) == "images"


@pytest.mark.parametrize(
    ("view", "is_long"),
    [
        (View((30,), (74074074,), -74074074, ((1, 28),)), True),
        (View((29,), (70000000,), 0), False),
        (View((1 << 16, 1 << 16), (0, 0), 0), True),
        (View((3,), (-1,), 2**31 - 3), False),
        (View((2**31 - 1,), (-1,), 2**31 - 2), False),
        (View((4,), (1,), 2**31 - 3), True),
    ],
    ids=["hidden steps", "steps", "positions", "an offset", "a flip", "a larger offset"],
)
def test_positions_and_steps_beyond_32_bits_may_be_refused(view, is_long):
    """A step that a mask hides is computed: 29 * 74074074 is more than 2**31 - 1."""
    ast = kernel_of(build.iota(ShapeTracker((view,))), *view.shape)
    wanted = "positions beyond 32 bits" if is_long else ""
    assert declared_lack(ast, replace(PYTHON, dtypes=PYTHON.dtypes - {dtypes.int64})) == wanted
    assert declared_lack(ast, PYTHON) == ""
