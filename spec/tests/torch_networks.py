"""The networks of the level `model` in torch, with the same names of parameters."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import nn


class DigitsMlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.first(x.flatten(1))))


class DigitsConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3)
        self.last = nn.Linear(16 * 9, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = F.relu(self.second(F.relu(self.first(x.unsqueeze(1)))))
        return self.last(F.max_pool2d(features, 2).flatten(1))


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + x)


class Lstm(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(inputs, hidden)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for step in x:
            state = self.cell(step, state)
        return self.last(state[0])


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.reshape(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.inward(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.outward(mixed.transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.wider = nn.Linear(width, 4 * width)
        self.narrower = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrower(F.gelu(self.wider(self.norm2(x)), approximate="tanh"))


class Transformer(nn.Module):
    def __init__(self, tokens: int, positions: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.token = nn.Embedding(tokens, width)
        self.position = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, tokens, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))
