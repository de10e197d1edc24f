"""The networks of the level `model`, written with `tinyref.nn` as a user would write them.

Their parameters have the same names in `torch.nn`, so that one set of weights, drawn by name,
serves both.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from tinyref import Tensor, nn
from tinyref.uops.node import UOp
from tinyref_spec.bits import Array


def weights(shapes: Mapping[str, Sequence[int]], scale: float = 0.5) -> dict[str, Array]:
    """Return normal weights for each parameter, from its name alone: matrices by their inputs.

    Those named "...weight" with one axis (norms) are near 1, running variances are 1.
    """
    weights = {}
    for name, shape in shapes.items():
        generator = np.random.default_rng(zlib.crc32(name.encode()))
        values = generator.standard_normal(shape) * scale
        if len(shape) > 1:
            values /= math.sqrt(math.prod(shape[1:]))
        elif name.endswith("weight"):
            values = 1 + 0.2 * values
        elif name.endswith("running_var"):
            values = np.ones(shape)
        elif name.endswith("running_mean"):
            values = np.zeros(shape)
        weights[name] = values.astype(np.float32)
    return weights


class DigitsMlp:
    """Two layers from 64 pixels to 10 digits."""

    def __init__(self) -> None:
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x.flatten(1)).relu())


class DigitsConv:
    """Two convolutions, pooling and one layer from 8 x 8 pixels to 10 digits."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3)
        self.last = nn.Linear(16 * 9, 10)

    def __call__(self, x: Tensor) -> Tensor:
        features = self.second(self.first(x.unsqueeze(1)).relu()).relu().max_pool2d()
        return self.last(features.flatten(1))


class ResidualBlock:
    """Two convolutions, each followed by a batch norm, plus the input."""

    def __init__(self, channels: int) -> None:
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def __call__(self, x: Tensor) -> Tensor:
        inner = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(inner)) + x).relu()


class Lstm:
    """A cell run over a sequence (steps, batch, inputs), and a layer on its last state."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        self.cell = nn.LSTMCell(inputs, hidden)
        self.last = nn.Linear(hidden, outputs)

    def __call__(self, x: Tensor) -> Tensor:
        state = None
        for inputs in x:
            state = self.cell(inputs, state)
        assert state is not None, "a sequence has a step"
        return self.last(state[0])


class Attention:
    """Attention of several heads within a sequence, each position to those before it.

    `cache` has tensors for keys and values (batch, heads, most positions, width). With it, the
    input is one position, `start`, a number or a bound variable. Its key and value join the cache.
    """

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def __call__(
        self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None, start: int | UOp = 0
    ) -> Tensor:
        batch, length, width = x.shape
        parts = self.inward(x).chunk(3, dim=-1)
        query, key, value = (
            part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts
        )
        if cache is None:
            mixed = query.scaled_dot_product_attention(key, value, is_causal=True)
        else:
            keys, values = (
                self._extend_cache(cache[0], key, start),
                self._extend_cache(cache[1], value, start),
            )
            mixed = query.scaled_dot_product_attention(keys, values)
        return self.outward(mixed.transpose(1, 2).reshape(batch, length, width))

    @staticmethod
    def _extend_cache(memory: Tensor, new: Tensor, start: int | UOp) -> Tensor:
        """Return the cache up to the new position, after writing to it."""
        memory[:, :, start : start + 1] = new
        return memory[:, :, : start + 1]


class TransformerBlock:
    """Attention and a layer of four times the width, each after a layer norm, as in GPT-2.

    Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
    """

    def __init__(self, width: int, heads: int) -> None:
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.wider = nn.Linear(width, 4 * width)
        self.narrower = nn.Linear(4 * width, width)

    def __call__(
        self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None, start: int | UOp = 0
    ) -> Tensor:
        x = x + self.attention(self.norm1(x), cache, start)
        return x + self.narrower(self.wider(self.norm2(x)).gelu())


class Transformer:
    """A network from tokens to the logits of the next token."""

    def __init__(self, tokens: int, positions: int, width: int, heads: int, layers: int) -> None:
        self.token = nn.Embedding(tokens, width)
        self.position = nn.Embedding(positions, width)
        self.blocks = [TransformerBlock(width, heads) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, tokens, bias=False)

    def __call__(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))

    def next(
        self, token: Tensor, caches: Sequence[tuple[Tensor, Tensor]], start: int | UOp
    ) -> Tensor:
        """Return logits after `token` (batch, 1) at position `start`, with a cache for blocks."""
        x = self.token(token) + self.position.weight[start : start + 1]
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache, start)
        return self.last(self.norm(x))
