"""Programs of Tensor and of torch: operations, and steps of training.

Sizes are given three times: for processors, for GPUs, and small ones for checks of the results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref import Tensor
from tinyref.nn.optim import Adam

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
# A tensor, and the module, of a library that need not be there.
AnyTensor = Any
AnyModule = Any


def gelu(x: AnyTensor) -> AnyTensor:
    """Return gelu in its tanh form."""
    return x * 0.5 * ((x * 0.7978845608 * (x * x * 0.044715 + 1)).tanh() + 1)


@dataclass(frozen=True)
class Work:
    """An operation on tensors of float32, by Tensor and by torch.

    name: of the row.
    ours: takes the inputs and returns a tensor, or a list of tensors.
    torch: does the same with torch; takes the module before the inputs.
    small: the shapes of the inputs for a check of the results.
    host, gpu: the shapes on processors and on GPUs; None where it is not measured there.
    has_indices: whether the last input holds integers below the first axis of the first input.
    has_tiles: whether a GPU measures it in float16 too, for its matrix tiles.
    span: the least and the largest number of an input.
    """

    name: str
    ours: Callable[..., Tensor | list[Tensor]]
    torch: Callable[..., AnyTensor]
    small: Shapes
    host: Shapes | None = None
    gpu: Shapes | None = None
    has_indices: bool = False
    has_tiles: bool = False
    span: tuple[float, float] = (0.0, 1.0)

    def inputs(self, shapes: Shapes, dtype: str) -> list[Array]:
        """Return the inputs; the numbers are the same each time."""
        generator = np.random.default_rng(7)
        low, high = self.span
        arrays: list[Array] = [
            (generator.random(shape, np.float32) * (high - low) + low).astype(dtype)
            for shape in shapes
        ]
        if self.has_indices:
            arrays[-1] = generator.integers(0, shapes[0][0], shapes[-1]).astype(np.int32)
        return arrays


def _matmul(size: int, host: bool) -> Work:
    shapes = ((size, size), (size, size))
    return Work(
        f"op.matmul.{size}",
        lambda x, y: x @ y,
        lambda torch, x, y: x @ y,
        ((24, 40), (40, 16)),
        host=shapes if host else None,
        gpu=None if host else shapes,
        has_tiles=True,
    )


def _conv(name: str, small: Shapes, stride: int, padding: int, **sizes: Shapes) -> Work:
    return Work(
        name,
        lambda x, w: x.conv2d(w, stride=stride, padding=padding),
        lambda torch, x, w: torch.nn.functional.conv2d(x, w, stride=stride, padding=padding),
        small,
        host=sizes.get("host"),
        gpu=sizes.get("gpu"),
        has_tiles=True,
    )


def _elementary(name: str, span: tuple[float, float]) -> Work:
    return Work(
        f"op.{name}",
        lambda x: getattr(x, name)(),
        lambda torch, x: getattr(torch, name)(x),
        ((123,),),
        host=((1 << 20,),),
        gpu=((1 << 25,),),
        span=span,
    )


def _adam(weight: AnyTensor, gradient: AnyTensor, mean: AnyTensor, square: AnyTensor) -> AnyTensor:
    """Return the weight after one step of Adam (Kingma and Ba 2015, algorithm 1)."""
    mean = mean * 0.9 + gradient * 0.1
    square = square * 0.999 + gradient * gradient * 0.001
    return weight - mean * 0.01 / ((square * square).sqrt() + 1e-8)


def _attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return query.scaled_dot_product_attention(key, value)


def _torch_attention(
    torch: AnyModule, query: AnyTensor, key: AnyTensor, value: AnyTensor
) -> AnyTensor:
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


def _thrice(shape: Shape) -> Shapes:
    return (shape, shape, shape)


WORKS: Sequence[Work] = (
    _matmul(512, host=True),
    *(_matmul(size, host=False) for size in (1024, 2048, 4096, 8192)),
    Work(
        "op.matmul.batched",
        lambda x, y: x @ y,
        lambda torch, x, y: x @ y,
        ((3, 12, 20), (3, 20, 8)),
        host=((32, 128, 128), (32, 128, 128)),
        gpu=((64, 512, 512), (64, 512, 512)),
        has_tiles=True,
    ),
    Work(
        "op.matmul.thin",
        lambda x, y: x @ y,
        lambda torch, x, y: x @ y,
        ((13, 30), (30, 5)),
        host=((128, 784), (784, 10)),
        gpu=((8192, 4096), (4096, 16)),
        has_tiles=True,
    ),
    # The second and the first convolution of ResNet-50 (He et al. 2016, table 1).
    _conv(
        "op.conv.3x3",
        ((2, 3, 7, 9), (4, 3, 3, 3)),
        stride=1,
        padding=1,
        host=((4, 64, 56, 56), (64, 64, 3, 3)),
        gpu=((64, 64, 56, 56), (64, 64, 3, 3)),
    ),
    _conv(
        "op.conv.7x7",
        ((2, 3, 15, 13), (4, 3, 7, 7)),
        stride=2,
        padding=3,
        gpu=((64, 3, 224, 224), (64, 3, 7, 7)),
    ),
    Work(
        "op.conv.transposed",
        lambda x, w: x.conv_transpose2d(w, stride=2),
        lambda torch, x, w: torch.nn.functional.conv_transpose2d(x, w, stride=2),
        ((2, 3, 5, 4), (3, 4, 3, 3)),
        host=((4, 16, 28, 28), (16, 64, 3, 3)),
        gpu=((64, 64, 28, 28), (64, 64, 3, 3)),
    ),
    Work(
        "op.softmax",
        lambda x: x.softmax(-1),
        lambda torch, x: torch.softmax(x, -1),
        ((7, 33),),
        host=((1024, 1024),),
        gpu=((8192, 8192),),
    ),
    Work(
        "op.layernorm",
        lambda x: x.layernorm(),
        lambda torch, x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        ((7, 33),),
        host=((1024, 1024),),
        gpu=((8192, 4096),),
    ),
    Work(
        "op.attention",
        _attention,
        _torch_attention,
        _thrice((2, 2, 12, 8)),
        host=_thrice((4, 8, 128, 64)),
        gpu=_thrice((16, 16, 1024, 64)),
        has_tiles=True,
    ),
    *(
        Work(
            f"op.sum.{name}",
            # The axis is of this turn.
            lambda x, axis=axis: x.sum(axis),
            lambda torch, x, axis=axis: x.sum(axis),
            ((19, 34),),
            host=((2048, 2048),),
            gpu=((8192, 8192),),
        )
        for name, axis in (("rows", 1), ("columns", 0))
    ),
    Work(
        "op.gelu",
        gelu,
        lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
        ((5, 77),),
        host=((1024, 1024),),
        gpu=((8192, 8192),),
    ),
    _elementary("exp2", (-20.0, 20.0)),
    _elementary("log2", (0.001, 1000.0)),
    _elementary("sin", (-3.0, 3.0)),
    _elementary("erf", (-3.0, 3.0)),
    Work(
        "op.embedding",
        lambda table, places: table[places],
        lambda torch, table, places: torch.nn.functional.embedding(places.long(), table),
        ((50, 6), (3, 5)),
        host=((4096, 256), (16, 64)),
        gpu=((50_257, 1024), (32, 1024)),
        has_indices=True,
    ),
    Work(
        "op.adam",
        _adam,
        lambda torch, *inputs: _adam(*inputs),
        ((123,),) * 4,
        host=((1 << 20,),) * 4,
        gpu=((1 << 25,),) * 4,
    ),
    Work(
        "op.sort",
        lambda x: x.sort()[0],
        lambda torch, x: x.sort()[0],
        ((100,),),
        host=((4096,),),
        gpu=((1 << 16,),),
    ),
    Work(
        "op.cumsum",
        lambda x: x.cumsum(0),
        lambda torch, x: x.cumsum(0),
        ((100,),),
        host=((65_536,),),
        gpu=((1 << 22,),),
    ),
)


@dataclass(frozen=True)
class Layers:
    """A network for a step of Adam by cross entropy: convolutions, then linear layers.

    convolutions: (channels, width) of each, with a pool of 2x2 after it. image: its inputs.
    """

    name: str
    image: Shape
    convolutions: tuple[tuple[int, int], ...]
    linear: tuple[int, ...]
    batch: int

    @property
    def features(self) -> int:
        """Return the number of values of one image before the linear layers."""
        channels, *sizes = self.image
        for _, width in self.convolutions:
            sizes = [(size - width + 1) // 2 for size in sizes]
        return [channels, *(out for out, _ in self.convolutions)][-1] * math.prod(sizes)

    @property
    def weights(self) -> list[Shape]:
        """Return the shapes of weight and bias, layer after layer."""
        shapes: list[Shape] = []
        channels = self.image[0]
        for out, width in self.convolutions:
            shapes += [(out, channels, width, width), (out,)]
            channels = out
        wide = self.features
        for out in self.linear:
            shapes += [(out, wide), (out,)]
            wide = out
        return shapes

    def forward(self, x: AnyTensor, weights: Sequence[AnyTensor], ops: LayerOps) -> AnyTensor:
        """Return the logits of a batch, computed with the functions of a library."""
        pairs = list(zip(weights[::2], weights[1::2], strict=True))
        for weight, bias in pairs[: len(self.convolutions)]:
            x = ops.pool(ops.conv(x, weight, bias).relu())
        x = x.reshape(self.batch, self.features)
        for weight, bias in pairs[len(self.convolutions) : -1]:
            x = (x @ weight.transpose(0, 1) + bias).relu()
        weight, bias = pairs[-1]
        return x @ weight.transpose(0, 1) + bias


@dataclass(frozen=True)
class LayerOps:
    """Functions that libraries call differently."""

    conv: Callable[[AnyTensor, AnyTensor, AnyTensor], AnyTensor]
    pool: Callable[[AnyTensor], AnyTensor]


OURS = LayerOps(lambda x, w, b: x.conv2d(w, b), lambda x: x.max_pool2d())


def torch_ops(torch: AnyModule) -> LayerOps:
    """Return the functions of torch."""
    functions = torch.nn.functional
    return LayerOps(functions.conv2d, lambda x: functions.max_pool2d(x, 2))


SMALL_MODELS = (
    Layers("model.mlp", (1, 5, 5), (), (7, 3), 4),
    Layers("model.convnet", (1, 14, 14), ((3, 3), (4, 3)), (3,), 4),
)
MODELS = (
    Layers("model.mlp", (1, 28, 28), (), (128, 10), 128),
    Layers("model.convnet", (1, 28, 28), ((32, 5), (64, 3)), (10,), 32),
)


@dataclass(frozen=True)
class Batch:
    """Weights, images and labels of a step, the same for all libraries."""

    weights: list[Array]
    images: Array
    labels: Array


def batch_of(layers: Layers) -> Batch:
    """Return the batch of a step; the numbers are the same each time."""
    generator = np.random.default_rng(3)
    weights = [
        (generator.random(shape, np.float32) - 0.5) / math.sqrt(math.prod(shape[1:]))
        for shape in layers.weights
    ]
    images = generator.random((layers.batch, *layers.image), np.float32)
    labels = generator.integers(0, layers.linear[-1], layers.batch).astype(np.int32)
    return Batch([weight.astype(np.float32) for weight in weights], images, labels)


def chained(x: Tensor, kernels: int) -> Tensor:
    """Return `x` plus one for each kernel; they are computed one by one, so none are fused."""
    for _ in range(kernels):
        x = (x + 1).realize()
    return x


def step_of(layers: Layers, device: str) -> Callable[[], Tensor]:
    """Return a function that trains a network for one step of Adam and returns the loss."""
    batch = batch_of(layers)
    weights = [Tensor(values, device=device, requires_grad=True) for values in batch.weights]
    optimiser = Adam(weights)
    images = Tensor(batch.images, device=device).realize()
    labels = Tensor(batch.labels, device=device).realize()

    def step() -> Tensor:
        with Tensor.train():
            optimiser.zero_grad()
            logits = layers.forward(images, weights, OURS)
            loss: Tensor = logits.sparse_categorical_crossentropy(labels)
            loss.backward()
            optimiser.step()
        return loss.realize()

    return step


# --- clocks ---------------------------------------------------------------------------------------

Clock = Callable[[], float]
# A run shorter than this says more about the clock than about the work.
LEAST_SECONDS = 0.05


def clock_of(threads: int) -> Clock:
    """Return the clock for this many threads: for one, processor time, which other work spares."""
    return time.process_time if threads == 1 else time.perf_counter


def seconds_of_call(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return the seconds of one call, over enough calls to measure; the first is not counted."""
    run()
    count = 1
    while True:
        start = clock()
        for _ in range(count):
            run()
        taken = clock() - start
        if taken >= LEAST_SECONDS:
            return taken / count
        count = max(count + 1, int(count * min(LEAST_SECONDS / max(taken, 1e-9) * 1.2, 100)))
