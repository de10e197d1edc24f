"""Whole networks for the rows `net.*`: written once, computed by tinyref, tinygrad and torch.

Sources: ResNet-18 (He et al. 2016, table 1), MobileNetV2 (Sandler et al. 2018, table 2), GPT-2
(Radford et al. 2019, with six layers), a U-Net (Ronneberger et al. 2015, with group normalisation
as in diffusion models), an LSTM (Hochreiter and Schmidhuber 1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tinyref.cli.bench.works import AnyModule, AnyTensor, Array, Shape

# The first and the last width of MobileNetV2, and its blocks: expansion, width, repeats, stride.
MOBILE_WIDTHS = (32, 1280)
MOBILE_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


@dataclass
class Parameters:
    """The weights of a network, drawn when the first forward pass asks for them.

    wrap: makes a tensor of a library from an array.
    trains: whether batch normalisation uses the statistics of the batch, as in training.
    tensors: the weights in the order of the forward pass.
    """

    wrap: Callable[[Array], AnyTensor]
    trains: bool = False
    tensors: list[AnyTensor] = field(default_factory=list)
    _position: int = 0
    _generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    def restart(self) -> None:
        """Begin a forward pass: the next weight is the first one."""
        self._position = 0

    def __call__(self, *shape: int, around: float = 0.0) -> AnyTensor:
        """Return the next weight: uniform around a number; the variance is one over its inputs."""
        if self._position == len(self.tensors):
            limit = 0.5 if around else math.sqrt(3 / math.prod(shape[1:]))
            values = self._generator.uniform(around - limit, around + limit, shape)
            self.tensors.append(self.wrap(values.astype(np.float32)))
        self._position += 1
        return self.tensors[self._position - 1]


class Ops:
    """The functions that libraries spell differently, in the words of tinyref and tinygrad."""

    def conv(self, x: AnyTensor, weight: AnyTensor, stride: int, groups: int = 1) -> AnyTensor:
        """Return a convolution that keeps the size of the image, divided by `stride`."""
        return x.conv2d(weight, stride=stride, padding=weight.shape[-1] // 2, groups=groups)

    def pool(self, x: AnyTensor) -> AnyTensor:
        """Return the maximum over windows of 3x3, of every second position."""
        return x.max_pool2d((3, 3), 2, 1, 1)

    def upsample(self, x: AnyTensor) -> AnyTensor:
        """Return an image of twice the size, each pixel four times."""
        batch, channels, height, width = x.shape
        x = x.reshape(batch, channels, height, 1, width, 1)
        x = x.expand(batch, channels, height, 2, width, 2)
        return x.reshape(batch, channels, 2 * height, 2 * width)

    def normalise(self, x: AnyTensor, axes: Shape) -> AnyTensor:
        """Return `x` with mean 0 and variance 1 over `axes`."""
        centred = x - x.mean(axes, keepdim=True)
        return centred * ((centred * centred).mean(axes, keepdim=True) + 1e-5).rsqrt()

    def batch_normalise(
        self, x: AnyTensor, weight: AnyTensor, bias: AnyTensor, statistics: Sequence[AnyTensor]
    ) -> AnyTensor:
        """Return a batch normalisation by a mean and a variance, else by those of the batch."""
        weight, bias, *fixed = (t.reshape(1, -1, 1, 1) for t in (weight, bias, *statistics))
        if not fixed:
            return self.normalise(x, (0, 2, 3)) * weight + bias
        mean, variance = fixed
        return (x - mean) * ((variance + 1e-5).rsqrt() * weight) + bias

    def group_normalise(self, x: AnyTensor, groups: int) -> AnyTensor:
        """Return a group normalisation."""
        return self.normalise(x.reshape(x.shape[0], groups, -1), (2,)).reshape(x.shape)

    def layer_normalise(self, x: AnyTensor) -> AnyTensor:
        """Return a normalisation of the last axis."""
        return x.layernorm()

    def gelu(self, x: AnyTensor) -> AnyTensor:
        """Return the tanh form."""
        return x.gelu()

    def silu(self, x: AnyTensor) -> AnyTensor:
        """Return x times its logistic function."""
        return x.silu()

    def clip(self, x: AnyTensor) -> AnyTensor:
        """Return `x` between 0 and 6."""
        return x.relu6()

    def attention(self, q: AnyTensor, k: AnyTensor, v: AnyTensor, is_causal: bool) -> AnyTensor:
        """Return the attention of several heads."""
        return q.scaled_dot_product_attention(k, v, is_causal=is_causal)

    def join(self, tensors: Sequence[AnyTensor], axis: int) -> AnyTensor:
        """Return the tensors, one after the other along `axis`."""
        return tensors[0].cat(*tensors[1:], dim=axis)

    def lookup(self, table: AnyTensor, tokens: AnyTensor) -> AnyTensor:
        """Return the rows of `table` that `tokens` name."""
        return table[tokens]

    def lstm(self, x: AnyTensor, weights: Sequence[AnyTensor]) -> AnyTensor:
        """Return the hidden states of a layer, step by step; `x` has (steps, batch, width).

        weights: of the input and of the state, the gates one after the other: i, f, g, o.
        """
        of_input, of_state = weights
        size = of_state.shape[1]
        gates_of_input = x @ of_input.transpose(0, 1)
        hidden = memory = None
        states = []
        for step in range(x.shape[0]):
            gates = gates_of_input[step]
            if hidden is not None:
                gates = gates + hidden @ of_state.transpose(0, 1)
            opened = [gates[:, part * size : (part + 1) * size] for part in range(4)]
            update = opened[0].sigmoid() * opened[2].tanh()
            memory = update if memory is None else opened[1].sigmoid() * memory + update
            hidden = opened[3].sigmoid() * memory.tanh()
            states.append(hidden.reshape(1, *hidden.shape))
        return self.join(states, 0)


class TorchOps(Ops):
    """The same functions by the kernels that users of torch call."""

    def __init__(self, torch: AnyModule) -> None:
        self.torch = torch
        self.functions = torch.nn.functional

    def conv(self, x: AnyTensor, weight: AnyTensor, stride: int, groups: int = 1) -> AnyTensor:
        padding = weight.shape[-1] // 2
        return self.functions.conv2d(x, weight, stride=stride, padding=padding, groups=groups)

    def pool(self, x: AnyTensor) -> AnyTensor:
        return self.functions.max_pool2d(x, 3, 2, 1)

    def upsample(self, x: AnyTensor) -> AnyTensor:
        return self.functions.interpolate(x, scale_factor=2, mode="nearest")

    def batch_normalise(
        self, x: AnyTensor, weight: AnyTensor, bias: AnyTensor, statistics: Sequence[AnyTensor]
    ) -> AnyTensor:
        mean, variance = statistics or (None, None)
        return self.functions.batch_norm(x, mean, variance, weight, bias, training=not statistics)

    def group_normalise(self, x: AnyTensor, groups: int) -> AnyTensor:
        return self.functions.group_norm(x, groups)

    def layer_normalise(self, x: AnyTensor) -> AnyTensor:
        return self.functions.layer_norm(x, x.shape[-1:])

    def gelu(self, x: AnyTensor) -> AnyTensor:
        return self.functions.gelu(x, approximate="tanh")

    def silu(self, x: AnyTensor) -> AnyTensor:
        return self.functions.silu(x)

    def clip(self, x: AnyTensor) -> AnyTensor:
        return self.functions.relu6(x)

    def attention(self, q: AnyTensor, k: AnyTensor, v: AnyTensor, is_causal: bool) -> AnyTensor:
        return self.functions.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    def join(self, tensors: Sequence[AnyTensor], axis: int) -> AnyTensor:
        return self.torch.cat(list(tensors), axis)

    def lookup(self, table: AnyTensor, tokens: AnyTensor) -> AnyTensor:
        return self.functions.embedding(tokens.long(), table)

    def lstm(self, x: AnyTensor, weights: Sequence[AnyTensor]) -> AnyTensor:
        start = self.torch.zeros(1, x.shape[1], weights[1].shape[1])
        states = self.torch.lstm(
            x, (start, start), list(weights), False, 1, 0.0, False, False, False
        )
        return states[0]


# What a network computes: its result for the inputs, the weights and the functions of a library.
Forward = Callable[[Sequence[AnyTensor], Parameters, Ops], AnyTensor]


@dataclass(frozen=True)
class Network:
    """A network, and whether a step of training is measured.

    name: of the row.
    inputs: the shapes of the inputs.
    forward: the result; of a network that is trained, a row of logits for each example.
    tokens: the number of tokens if the first input holds those; 0 if it holds floats.
    trains: a step of gradient descent by cross entropy instead of a forward pass.
    """

    name: str
    inputs: tuple[Shape, ...]
    forward: Forward
    tokens: int = 0
    trains: bool = False

    def data(self) -> list[Array]:
        """Return the inputs, the same each time."""
        generator = np.random.default_rng(9)
        arrays: list[Array] = [generator.random(shape, np.float32) for shape in self.inputs]
        if self.tokens:
            tokens = generator.integers(0, self.tokens, self.inputs[0])
            arrays[0] = tokens.astype(np.int32)
        return arrays


# --- networks for images --------------------------------------------------------------------------


def _conv_block(
    x: AnyTensor, channels: int, width: int, weights: Parameters, ops: Ops, **kinds: int
) -> AnyTensor:
    """Return a convolution and the normalisation of its channels."""
    inputs = x.shape[1] // kinds.get("groups", 1)
    x = ops.conv(x, weights(channels, inputs, width, width), kinds.pop("stride", 1), **kinds)
    scale, shift = weights(channels, around=1), weights(channels)
    statistics = () if weights.trains else (weights(channels), weights(channels, around=1))
    return ops.batch_normalise(x, scale, shift, statistics)


def resnet(widths: Sequence[int], classes: int, depth: int = 2) -> Forward:
    """Return a residual network of `depth` blocks for each width."""

    def block(x: AnyTensor, width: int, stride: int, weights: Parameters, ops: Ops) -> AnyTensor:
        y = _conv_block(x, width, 3, weights, ops, stride=stride).relu()
        y = _conv_block(y, width, 3, weights, ops)
        if stride > 1 or x.shape[1] != width:
            x = _conv_block(x, width, 1, weights, ops, stride=stride)
        return (x + y).relu()

    def forward(inputs: Sequence[AnyTensor], weights: Parameters, ops: Ops) -> AnyTensor:
        x = _conv_block(inputs[0], widths[0], 7, weights, ops, stride=2).relu()
        x = ops.pool(x)
        for stage, width in enumerate(widths):
            for number in range(depth):
                x = block(x, width, 2 if stage and not number else 1, weights, ops)
        return x.mean((2, 3)) @ weights(classes, widths[-1]).transpose(0, 1)

    return forward


def mobilenet(
    ends: tuple[int, int], blocks: Sequence[tuple[int, int, int, int]], classes: int
) -> Forward:
    """Return a network of inverted residual blocks."""

    def block(
        x: AnyTensor, expansion: int, width: int, stride: int, weights: Parameters, ops: Ops
    ) -> AnyTensor:
        inner = x.shape[1] * expansion
        y = x
        if expansion > 1:
            y = ops.clip(_conv_block(y, inner, 1, weights, ops))
        y = ops.clip(_conv_block(y, inner, 3, weights, ops, stride=stride, groups=inner))
        y = _conv_block(y, width, 1, weights, ops)
        return x + y if stride == 1 and x.shape[1] == width else y

    def forward(inputs: Sequence[AnyTensor], weights: Parameters, ops: Ops) -> AnyTensor:
        first, last = ends
        x = ops.clip(_conv_block(inputs[0], first, 3, weights, ops, stride=2))
        for expansion, width, repeats, stride in blocks:
            for number in range(repeats):
                x = block(x, expansion, width, 1 if number else stride, weights, ops)
        x = ops.clip(_conv_block(x, last, 1, weights, ops))
        return x.mean((2, 3)) @ weights(classes, last).transpose(0, 1)

    return forward


def unet(widths: Sequence[int], is_classifier: bool = False) -> Forward:
    """Return a U-Net of two convolutions at each size, by which a diffusion model makes a step.

    is_classifier: return the means of the channels, so that it can be trained as the others are.
    """

    def block(x: AnyTensor, width: int, weights: Parameters, ops: Ops) -> AnyTensor:
        for _ in range(2):
            x = ops.conv(x, weights(width, x.shape[1], 3, 3), 1)
            x = ops.silu(ops.group_normalise(x, 4))
        return x

    def forward(inputs: Sequence[AnyTensor], weights: Parameters, ops: Ops) -> AnyTensor:
        x = inputs[0]
        skipped = []
        for width in widths[:-1]:
            x = block(x, width, weights, ops)
            skipped.append(x)
            x = ops.conv(x, weights(width, width, 3, 3), 2)
        x = block(x, widths[-1], weights, ops)
        for width, earlier in zip(widths[-2::-1], reversed(skipped), strict=True):
            x = block(ops.join((ops.upsample(x), earlier), 1), width, weights, ops)
        x = ops.conv(x, weights(inputs[0].shape[1], x.shape[1], 1, 1), 1)
        return x.mean((2, 3)) if is_classifier else x

    return forward


# --- networks for text ----------------------------------------------------------------------------


def gpt(layers: int, heads: int, width: int, vocabulary: int) -> Forward:
    """Return a transformer that gives the logits of the token after the last one.

    With two inputs the second is the cache of keys and values: (layers, 2, batch, heads, length,
    width of a head). The tokens come after those of the cache.
    """

    def split(x: AnyTensor) -> AnyTensor:
        batch, length, _ = x.shape
        return x.reshape(batch, length, heads, width // heads).transpose(1, 2)

    def attend(x: AnyTensor, cache: AnyTensor, weights: Parameters, ops: Ops) -> AnyTensor:
        joined = ops.layer_normalise(x) @ weights(3 * width, width).transpose(0, 1)
        parts = [split(joined[:, :, part * width : (part + 1) * width]) for part in range(3)]
        query, key, value = parts
        if cache is not None:
            key = ops.join((cache[0], key), 2)
            value = ops.join((cache[1], value), 2)
        y = ops.attention(query, key, value, is_causal=cache is None)
        return x + y.transpose(1, 2).reshape(x.shape) @ weights(width, width).transpose(0, 1)

    def forward(inputs: Sequence[AnyTensor], weights: Parameters, ops: Ops) -> AnyTensor:
        tokens, *caches = inputs
        start = caches[0].shape[4] if caches else 0
        table = weights(vocabulary, width)
        positions = weights(start + tokens.shape[1], width)
        x = ops.lookup(table, tokens) + positions[start:]
        for layer in range(layers):
            x = attend(x, caches[0][layer] if caches else None, weights, ops)
            y = ops.layer_normalise(x) @ weights(4 * width, width).transpose(0, 1)
            x = x + ops.gelu(y) @ weights(width, 4 * width).transpose(0, 1)
        return ops.layer_normalise(x)[:, -1] @ table.transpose(0, 1)

    return forward


def lstm(layers: int, width: int, vocabulary: int) -> Forward:
    """Return a recurrent network that gives the logits of the token after the last one."""

    def forward(inputs: Sequence[AnyTensor], weights: Parameters, ops: Ops) -> AnyTensor:
        x = ops.lookup(weights(vocabulary, width), inputs[0].transpose(0, 1))
        for _ in range(layers):
            x = ops.lstm(x, (weights(4 * width, width), weights(4 * width, width)))
        return x[-1] @ weights(vocabulary, width).transpose(0, 1)

    return forward


# --- rows -----------------------------------------------------------------------------------------

_RESNET = resnet((64, 128, 256, 512), 1000)
_MOBILENET = mobilenet(MOBILE_WIDTHS, MOBILE_BLOCKS, 1000)
_GPT = gpt(layers=6, heads=12, width=768, vocabulary=50_257)
_LSTM = lstm(layers=2, width=256, vocabulary=1000)
_UNET = (64, 128, 256)

NETWORKS: Sequence[Network] = (
    Network("net.resnet18.1", ((1, 3, 224, 224),), _RESNET),
    Network("net.resnet18.8", ((8, 3, 224, 224),), _RESNET),
    Network("net.mobilenet.1", ((1, 3, 224, 224),), _MOBILENET),
    Network("net.mobilenet.8", ((8, 3, 224, 224),), _MOBILENET),
    Network("net.gpt.prefill.1", ((1, 64),), _GPT, 50_257),
    Network("net.gpt.prefill.8", ((8, 64),), _GPT, 50_257),
    Network("net.gpt.decode.1", ((1, 1), (6, 2, 1, 12, 64, 64)), _GPT, 50_257),
    Network("net.gpt.decode.8", ((8, 1), (6, 2, 8, 12, 64, 64)), _GPT, 50_257),
    Network("net.unet", ((1, 3, 64, 64),), unet(_UNET)),
    Network("net.lstm", ((8, 32),), _LSTM, 1000),
    Network("net.resnet18.train", ((8, 3, 64, 64),), _RESNET, trains=True),
    Network("net.mobilenet.train", ((8, 3, 64, 64),), _MOBILENET, trains=True),
    Network("net.gpt.train", ((1, 64),), _GPT, 50_257, trains=True),
    Network("net.unet.train", ((1, 3, 64, 64),), unet(_UNET, True), trains=True),
    Network("net.lstm.train", ((8, 32),), _LSTM, 1000, trains=True),
)

_SMALL_GPT = gpt(layers=2, heads=2, width=8, vocabulary=11)
_SMALL_LSTM = lstm(layers=2, width=5, vocabulary=7)
_SMALL_MOBILENET = mobilenet((4, 12), ((1, 4, 1, 1), (3, 6, 2, 2)), 5)
# For checks of the results: the same networks, by the first two parts of the name.
_SMALL: Sequence[Network] = (
    Network("net.resnet18", ((2, 3, 32, 32),), resnet((4, 6), 5, depth=1), trains=True),
    Network("net.mobilenet", ((2, 3, 16, 16),), _SMALL_MOBILENET, trains=True),
    Network("net.gpt", ((2, 5),), _SMALL_GPT, 11, trains=True),
    Network("net.gpt", ((2, 1), (2, 2, 2, 2, 3, 4)), _SMALL_GPT, 11, trains=True),
    Network("net.unet", ((2, 4, 8, 8),), unet((4, 8), True), trains=True),
    Network("net.lstm", ((3, 4),), _SMALL_LSTM, 7, trains=True),
)
SMALL_NETWORKS = (*_SMALL, *(replace(network, trains=False) for network in _SMALL))
