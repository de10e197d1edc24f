"""The programs that are lowered to measure the compiler, and the process that times one pass.

    python -m tinyref.cli.bench.programs

prints JSON: milliseconds per kernel of each program, from tensor graph to source text. It is a
process of its own because nodes remember what is known about them: in one process only the first
pass over a program is what a user waits for.
"""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinyref.cli.bench.works import gelu
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.schedule import schedule
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref.views.shape_tracker import ShapeTracker

# A tensor of this library or of a peer, which is not there to be named.
AnyTensor = Any


def data(*shape: int) -> Tensor:
    """A tensor with memory behind it; what the memory holds does not matter here."""
    # Realised at once, so that the kernel that fills it is not among those timed.
    return Tensor.ones(*shape).contiguous().realize()


# These are written in methods that tensor libraries have in common, so that peers can run them.


def new_gelu(device: str, number: int) -> Program:
    """A kernel of 512x512 elements on `device`; by its number it is one that no cache has seen."""
    with Context(DEVICE=device):
        output = gelu(data(512, 512)) * (1.5 + number + os.getpid() / 7)
        (kernel,) = schedule([(output.node, device)]).kernels
    return compile_kernel(kernel.ast, Device[device].capabilities)


def layernorm(x: AnyTensor) -> AnyTensor:
    """Over the last axis, without scale and shift."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt()


def attention(query: AnyTensor, key: AnyTensor, value: AnyTensor, width: int) -> AnyTensor:
    """Softmax of products scaled by 1 / sqrt(width), times the values."""
    scores = query @ key.transpose(-1, -2) * (1 / math.sqrt(width))
    return scores.softmax(-1) @ value


@dataclass(frozen=True)
class BenchProgram:
    """A tensor program by name; `needs` are the methods of Tensor that it cannot do without.

    `make` gets what makes a tensor of given sizes: `data`, or the like of another library.
    """

    name: str
    make: Callable[[Callable[..., Any]], Any]
    needs: tuple[str, ...] = ()

    def build(self) -> Tensor:
        """Its result, not yet computed."""
        found: Tensor = self.make(data)
        return found

    @property
    def missing(self) -> list[str]:
        return [name for name in self.needs if not hasattr(Tensor, name)]


PROGRAMS = (
    BenchProgram("add 1024x1024", lambda data: data(1024, 1024) + data(1024, 1024)),
    BenchProgram("gelu 512x512", lambda data: gelu(data(512, 512)), ("tanh",)),
    BenchProgram("row sum 512x512", lambda data: data(512, 512).sum(1), ("sum",)),
    BenchProgram("matmul 256", lambda data: data(256, 256) @ data(256, 256), ("matmul",)),
    BenchProgram("softmax 128x256", lambda data: data(128, 256).softmax(-1), ("softmax",)),
    BenchProgram("layernorm 128x256", lambda data: layernorm(data(128, 256)), ("mean", "rsqrt")),
    BenchProgram(
        "conv 4x16x32x32 32x16x3x3 relu",
        lambda data: data(4, 16, 32, 32).conv2d(data(32, 16, 3, 3)).relu(),
        ("conv2d", "relu"),
    ),
    BenchProgram("sin 256x256", lambda data: data(256, 256).sin(), ("sin",)),
    BenchProgram(
        "maxpool 2x2 4x8x32x32", lambda data: data(4, 8, 32, 32).max_pool2d((2, 2)), ("max_pool2d",)
    ),
    BenchProgram(
        "attention 2x4x32x16",
        lambda data: attention(data(2, 4, 32, 16), data(2, 4, 32, 16), data(2, 4, 32, 16), 16),
        ("softmax", "matmul", "transpose"),
    ),
    BenchProgram(
        "batched matmul 4x32x32x32",
        lambda data: data(4, 32, 32, 32) @ data(4, 32, 32, 32),
        ("matmul",),
    ),
    BenchProgram(
        "padded sum 64x64",
        lambda data: data(64, 64).pad(((1, 2), (3, 4))).sum(0),
        ("pad", "sum"),
    ),
)
# Lowered before the clock starts, so that imports and first calls are not counted.
WARM_UP = BenchProgram("warm up", lambda data: (data(3, 5).relu() + data(3, 5)).sum(1))


def time_lowering(program: BenchProgram, device: str) -> dict[str, float]:
    """Processor milliseconds: `schedule` for all kernels, the others the mean of one kernel."""
    output = program.build()
    start = time.process_time()
    kernels = schedule([(output.node, device)]).kernels
    scheduled = time.process_time()
    backend = Device[device]
    programs = [compile_kernel(item.ast, backend.capabilities) for item in kernels]
    lowered = time.process_time()
    for found in programs:
        backend.renderer.render(found)
    rendered = time.process_time()
    count = max(len(kernels), 1)
    return {
        "kernels": len(kernels),
        "schedule": (scheduled - start) * 1e3,
        "lower": (lowered - scheduled) * 1e3 / count,
        "render": (rendered - lowered) * 1e3 / count,
    }


# --- growth ---------------------------------------------------------------------------------------

GROWTH_SIZES = (100, 300, 1_000, 3_000, 10_000)


def chain(count: int, salt: int) -> UOp:
    """A kernel AST of about `count` nodes, elementwise, each value made of the one before.

    Another `salt` makes another kernel, of which no node is known yet.
    """
    value = first = _load(1, 4096, 0)
    for step in range(count // 4):
        value = build.add(build.mul(value, step + salt + 0.5), first)
        value = build.maximum(value, step + 0.25) if step % 2 else value
    return build.sink(build.store(_view(0, 4096, 4096, 0), value))


def many_loads(count: int, salt: int) -> UOp:
    """A kernel AST of about `count` nodes that sums as many parts of a buffer as it can."""
    # All parts start at a multiple of the widest vector.
    size = 16 * (count + salt) + 64
    parts = [_load(1, 64, 16 * (step + salt), size) for step in range(max(count // 3, 2))]
    return build.sink(build.store(_view(0, 64, 64, 0), functools.reduce(build.add, parts)))


GROWTHS = {"chain": chain, "many loads": many_loads}


def _view(slot: int, length: int, size: int, start: int) -> UOp:
    memory = build.define_global(slot, dtypes.float32, size)
    shown = ShapeTracker.from_shape((size,)).shrink(((start, start + length),))
    return build.view(memory, shown)


def _load(slot: int, length: int, start: int, size: int = 4096) -> UOp:
    return build.load(_view(slot, length, size, start))


def time_growth(
    make: Callable[[int, int], UOp], count: int, salt: int, device: str
) -> tuple[int, float]:
    """The nodes of a kernel AST of about `count`, and the milliseconds from it to source text."""
    backend = Device[device]
    ast = make(count, salt)
    start = time.perf_counter()
    backend.renderer.render(compile_kernel(ast, backend.capabilities))
    return len(ast.toposort()), (time.perf_counter() - start) * 1e3


def main() -> None:
    """Times every program that can be built, once, in this fresh process."""
    device = Device.default
    time_lowering(WARM_UP, device)
    # What the imports made is looked at once in every process, whichever program it falls to.
    gc.collect()
    times = {
        program.name: time_lowering(program, device) for program in PROGRAMS if not program.missing
    }
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main()
