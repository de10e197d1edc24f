"""Products whose operands are images, under the flag IMAGE, on a device that declares them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinyref import Context, Tensor
from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import ImageDType, dtypes, image
from tinyref.schedule import KernelItem, schedule
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg

F16, F32 = dtypes.float16, dtypes.float32
Function = Callable[..., Tensor]


def small(*shape: int, seed: int = 0) -> np.ndarray:
    """Small integers, whose sums of products are exact in every float type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def kernels(tensor: Tensor, device: str) -> list[KernelItem]:
    items = schedule([(tensor.node, device)]).items
    return [item for item in items if isinstance(item, KernelItem)]


def images(item: KernelItem) -> list[ImageDType]:
    """Return the types of the images of a kernel, by slot."""
    actual = [node for node in item.ast.toposort() if isinstance(node.arg, SlotArg)]
    actual.sort(key=lambda node: node.arg.slot if isinstance(node.arg, SlotArg) else 0)
    return [node.dtype for node in actual if isinstance(node.dtype, ImageDType)]


MATMUL: Function = lambda x, w: x @ w  # noqa: E731
CONV: Function = lambda x, w: x.conv2d(w, padding=1)  # noqa: E731
# What is computed, the shapes of its operands, their type, and the images of the last kernel.
CASES = {
    "whole texels": (MATMUL, (4, 8), (8, 6), F32, [image(F32, 4, 2), image(F32, 6, 2)]),
    "padded texels": (MATMUL, (5, 6), (6, 7), F32, [image(F32, 5, 2), image(F32, 7, 2)]),
    "half texels": (MATMUL, (8, 8), (8, 8), F16, [image(F16, 8, 2), image(F16, 8, 2)]),
    "batch": (MATMUL, (2, 5, 8), (2, 8, 3), F32, [image(F32, 10, 2), image(F32, 6, 2)]),
    "vector": (MATMUL, (12,), (12, 4), F32, [image(F32, 1, 3), image(F32, 4, 3)]),
    "linear": (
        lambda x, w: x.linear(w.T),
        (4, 8),
        (6, 8),
        F32,
        [image(F32, 4, 2), image(F32, 6, 2)],
    ),
    "conv2d": (CONV, (2, 8, 4, 4), (4, 8, 3, 3), F32, [image(F32, 72, 2), image(F32, 36, 2)]),
    "three channels": (
        CONV,
        (1, 3, 5, 5),
        (4, 3, 3, 3),
        F32,
        [image(F32, 49, 1), image(F32, 36, 1)],
    ),
    "strides": (
        lambda x, w: x.conv2d(w, stride=2, dilation=2),
        (1, 4, 7, 7),
        (2, 4, 3, 3),
        F32,
        [image(F32, 1, 49), image(F32, 18, 1)],
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_operands_have_an_image_layout(name: str) -> None:
    function, first, second, dtype, expected = CASES[name]
    arrays = [small(*first), small(*second, seed=1)]
    tensors = [Tensor(array, device="PYTHON", dtype=dtype).realize() for array in arrays]
    plain = function(*tensors).numpy()
    with Context(IMAGE=1, CHECK_BOUNDS=1):
        result = function(*tensors)
        last = kernels(result, "PYTHON")[-1]
        actual = result.numpy()
    assert images(last) == expected
    program = compile_kernel(last.ast, Device["PYTHON"].capabilities)
    loads = [node for node in program.uops if node.op is Ops.LOAD]
    texels = [load for load in loads if isinstance(load.src[0].dtype, ImageDType)]
    assert texels == loads
    assert all(load.dtype.lanes == 4 and len(load.src[0].src) == 3 for load in texels)
    assert actual.dtype == plain.dtype
    assert np.array_equal(actual, plain)


def test_a_weight_in_order_is_not_copied() -> None:
    x = Tensor(small(4, 8), device="PYTHON").realize()
    weight = Tensor(small(6, 8), device="PYTHON").realize()
    with Context(IMAGE=1):
        assert len(kernels(x @ weight.T, "PYTHON")) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [MATMUL, CONV], ids=["matmul", "conv2d"])
def test_gradients_are_those_without_images(function: Function) -> None:
    shapes = ((3, 6), (6, 5)) if function is MATMUL else ((1, 3, 4, 4), (2, 3, 3, 3))
    actual = []
    for flag in (0, 1):
        with Context(IMAGE=flag):
            pair = [
                Tensor(small(*shape, seed=position), device="PYTHON", requires_grad=True)
                for position, shape in enumerate(shapes)
            ]
            function(*pair).square().sum().backward()
            actual.append([tensor.grad.numpy() for tensor in pair if tensor.grad is not None])
    assert len(actual[0]) == 2
    for plain, by_images in zip(*actual, strict=True):
        assert np.array_equal(plain, by_images)


def test_a_device_without_images_ignores_the_flag() -> None:
    x, w = Tensor(small(4, 6), device="CPU"), Tensor(small(6, 4), device="CPU")
    expected = kernels(x @ w, "CPU")
    with Context(IMAGE=1):
        actual = kernels(x @ w, "CPU")
    assert [item.ast for item in actual] == [item.ast for item in expected]


@pytest.mark.parametrize(
    ("function", "shapes", "reason"),
    [
        (lambda x, w: (x * w).sum(1), ((3, 6), (3, 6)), "18 elements are no whole texels"),
        (lambda x, w: (x.T * w.T).sum(1), ((4, 8), (4, 8)), ""),
        (lambda x, w: x.conv2d(w, groups=2), ((1, 4, 5, 5), (2, 2, 3, 3)), "1 lanes of an image"),
    ],
)
def test_what_does_not_fit_stays_a_buffer(
    function: Function,
    shapes: tuple[tuple[int, ...], ...],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = [Tensor(small(*shape), device="PYTHON").realize() for shape in shapes]
    plain = function(*pair).numpy()
    with Context(IMAGE=1, DEBUG=3):
        (item,) = kernels(function(*pair), "PYTHON")
    report = capsys.readouterr().err
    assert bool(images(item)) is (reason == "")
    assert reason in report
    assert ("stays a buffer" in report) is bool(reason)
    with Context(IMAGE=1):
        assert np.array_equal(function(*pair).numpy(), plain)
    assert capsys.readouterr().err == ""
