"""Tensor programs whose kernels are compiled, timed or counted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from tinyref.cli.bench.works import gelu
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.device import Device
from tinyref.schedule import schedule
from tinyref.tensor import Tensor
from tinyref.uops.node import UOp
from tinyref.uops.program import Program


def data(*shape: int) -> Tensor:
    """Return a tensor with memory of its own; the contents do not matter."""
    # Realised at once, so that the kernel that fills it is not among those timed.
    return Tensor.ones(*shape).contiguous().realize()


def new_gelu(device: str, number: int) -> Program:
    """Return a kernel of 512x512 elements for `device` that no cache has: `number` makes it new."""
    with Context(DEVICE=device):
        output = gelu(data(512, 512)) * (1.5 + number + os.getpid() / 7)
        (kernel,) = schedule([(output.node, device)]).kernels
    return compile_kernel(kernel.ast, Device[device].capabilities)


def layernorm(x: Tensor) -> Tensor:
    """Normalise the last axis, without scale and shift."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt()


def attention(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    """Return the softmax of products scaled by 1 / sqrt(width), times the values."""
    scores = query @ key.transpose(-1, -2) * (1 / math.sqrt(width))
    return scores.softmax(-1) @ value


PROGRAMS: dict[str, Callable[[], Tensor]] = {
    "add 1024x1024": lambda: data(1024, 1024) + data(1024, 1024),
    "gelu 512x512": lambda: gelu(data(512, 512)),
    "row sum 512x512": lambda: data(512, 512).sum(1),
    "matmul 256": lambda: data(256, 256) @ data(256, 256),
    "softmax 128x256": lambda: data(128, 256).softmax(-1),
    "layernorm 128x256": lambda: layernorm(data(128, 256)),
    "conv 4x16x32x32 32x16x3x3 relu": lambda: data(4, 16, 32, 32).conv2d(data(32, 16, 3, 3)).relu(),
    "sin 256x256": lambda: data(256, 256).sin(),
    "maxpool 2x2 4x8x32x32": lambda: data(4, 8, 32, 32).max_pool2d((2, 2)),
    "attention 2x4x32x16": lambda: attention(
        data(2, 4, 32, 16), data(2, 4, 32, 16), data(2, 4, 32, 16), 16
    ),
    "batched matmul 4x32x32x32": lambda: data(4, 32, 32, 32) @ data(4, 32, 32, 32),
    "padded sum 64x64": lambda: data(64, 64).pad(((1, 2), (3, 4))).sum(0),
}


def kernels_of(name: str, device: str) -> list[UOp]:
    """Return the kernel ASTs of one of `PROGRAMS`, scheduled for a device."""
    with Context(DEVICE=device):
        return [item.ast for item in schedule([(PROGRAMS[name]().node, device)]).kernels]
