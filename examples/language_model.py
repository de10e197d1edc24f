"""A small language model, from training to generation, as it is written for tinygrad.

It was written for tinygrad 0.10.3, and `language_model.json` has the numbers from there. Here only
the imports differ, and the numbers are the same. `python examples/language_model.py` prints them.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tinyref import Context, Device, Tensor, TinyJit, Variable, dtypes, nn
from tinyref.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

VOCABULARY = 17
WIDTH = 16
HEADS = 2
CONTEXT = 12
LAYERS = 2
BATCH = 4

generator = np.random.default_rng(7)


def weights(*shape: int) -> Tensor:
    """Return weights from numpy's generator, so that each library begins with the same ones."""
    scale = 1.0 / math.sqrt(shape[-1])
    return Tensor((generator.standard_normal(shape) * scale).astype(np.float32), requires_grad=True)


def linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """Return a linear layer with weights from `weights`."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    layer.weight = weights(outputs, inputs)
    if bias:
        layer.bias = Tensor(np.zeros(outputs, dtype=np.float32), requires_grad=True)
    return layer


class Attention:
    """Causal attention of several heads, with a cache of keys and values for generation."""

    def __init__(self) -> None:
        self.project = linear(WIDTH, 3 * WIDTH, bias=False)
        self.output = linear(WIDTH, WIDTH)
        self.cache: Tensor | None = None

    def __call__(self, x: Tensor, start=0, use_cache: bool = False) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.project(x).reshape(batch, length, 3, HEADS, WIDTH // HEADS).chunk(3, dim=2)
        q, k, v = (part.squeeze(2) for part in (q, k, v))
        if use_cache:
            k, v = self.update_cache(k, v, start)
            mask = None
        else:
            ones = Tensor.full((1, 1, length, length), float("-inf"), device=x.device)
            mask = ones.triu(1)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        mixed = q.scaled_dot_product_attention(k, v, mask)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def update_cache(self, k: Tensor, v: Tensor, start) -> tuple[Tensor, Tensor]:
        """Write keys and values into the cache at `start`, and return all up to there."""
        batch, length, heads, size = k.shape
        if self.cache is None:
            self.cache = Tensor.zeros(2, batch, CONTEXT, heads, size).contiguous().realize()
        window = (None, None, (start, start + length), None, None)
        self.cache.shrink(window).assign(Tensor.stack(k, v).detach()).realize()
        seen = (None, (0, start + length), None, None)
        return self.cache[0].shrink(seen), self.cache[1].shrink(seen)


class Block:
    """Residual attention and a residual multilayer perceptron, with a norm before each."""

    def __init__(self) -> None:
        self.attention = Attention()
        self.expand = linear(WIDTH, 4 * WIDTH)
        self.contract = linear(4 * WIDTH, WIDTH)
        self.before_attention = nn.LayerNorm(WIDTH)
        self.before_perceptron = nn.RMSNorm(WIDTH)

    def __call__(self, x: Tensor, start=0, use_cache: bool = False) -> Tensor:
        x = x + self.attention(self.before_attention(x), start, use_cache)
        return x + self.contract(self.expand(self.before_perceptron(x)).gelu())


class LanguageModel:
    """Next-token logits of a sequence of tokens."""

    def __init__(self) -> None:
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.tokens.weight = weights(VOCABULARY, WIDTH)
        self.positions = weights(CONTEXT, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm = nn.LayerNorm(WIDTH)
        # In tinygrad 0.10.3, constants of one shape share memory, such as the scales of two norms.
        for parameter in get_parameters(self):
            parameter.replace(Tensor(parameter.numpy())).requires_grad_()

    def __call__(self, tokens: Tensor, start=0, use_cache: bool = False) -> Tensor:
        length = tokens.shape[1]
        positions = self.positions.shrink(((start, start + length), None))
        x = self.tokens(tokens) + positions.unsqueeze(0)
        for block in self.blocks:
            x = block(x, start, use_cache)
        return self.norm(x) @ self.tokens.weight.T

    def forget(self) -> None:
        """Drop the caches of keys and values."""
        for block in self.blocks:
            block.attention.cache = None


def batches(count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Return sequences that count upwards with a random step, modulo the vocabulary."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        first = rng.integers(0, VOCABULARY, (BATCH, 1))
        step = rng.integers(1, 4, (BATCH, 1))
        text = (first + step * np.arange(CONTEXT + 1)) % VOCABULARY
        text = text.astype(np.int32)
        pairs.append((Tensor(text[:, :-1].copy()), Tensor(text[:, 1:].copy())))
    return pairs


def loss_of(model: LanguageModel, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy of the next token."""
    return model(x).sparse_categorical_crossentropy(y)


def train(model: LanguageModel, optimiser, data) -> list[float]:
    """Train with one captured step for each batch, and return the losses."""

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimiser.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimiser.step()
        return loss.realize()

    with Tensor.train():
        return [step(x, y).item() for x, y in data]


def generate(model: LanguageModel, prompt: list[int], count: int) -> list[int]:
    """Return the most likely continuation, one token at a time with the cache."""

    @TinyJit
    def next_logits(token: Tensor, start) -> Tensor:
        return model(token, start, use_cache=True)[:, -1].realize()

    text = list(prompt)
    for position in range(len(prompt) + count - 1):
        start = Variable("start", 0, CONTEXT - 1).bind(position)
        logits = next_logits(Tensor([[text[position]]], dtype=dtypes.int32), start)
        if position + 1 == len(text):
            text.append(int(logits.argmax(-1).item()))
    model.forget()
    return text


def generate_without_cache(model: LanguageModel, prompt: list[int], count: int) -> list[int]:
    """Return the continuation, computed from the whole text for each token."""
    text = list(prompt)
    for _ in range(count):
        logits = model(Tensor([text], dtype=dtypes.int32))
        text.append(int(logits[0, -1].argmax().item()))
    return text


def checkpoint(model: LanguageModel, optimiser, path: Path) -> None:
    """Pickle the model and its optimiser, which share their parameters."""
    path.write_bytes(pickle.dumps((model, optimiser)))


def resume(path: Path) -> dict[str, object]:
    """Continue from a checkpoint with the next batches."""
    saved_model, saved_optimiser = pickle.loads(path.read_bytes())
    shared = get_parameters(saved_model)[0] is saved_optimiser.params[0]
    model = LanguageModel()
    optimiser = optimiser_of(model)
    for target, saved in ((model, saved_model), (optimiser, saved_optimiser)):
        values = {name: Tensor(value.numpy()) for name, value in get_state_dict(saved).items()}
        load_state_dict(target, values, verbose=False)
    return {"shared": shared, "losses": train(model, optimiser, batches(8, seed=3))}


def resumed_elsewhere(path: Path) -> dict[str, object]:
    """Return the results of continuing in another process."""
    command = [sys.executable, __file__, "--resume", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def snapshot(model: LanguageModel, data) -> list[float]:
    """Return the losses of a model and of its copy."""
    twin = copy.deepcopy(model)
    return [loss_of(one, *batch).item() for one in (model, twin) for batch in data]


def averaged(model: LanguageModel, other: LanguageModel) -> float:
    """Move the weights of `other` half way to `model`, in place; return their sum of squares."""
    sources = get_state_dict(model)
    for name, target in get_state_dict(other).items():
        target.assign((target.detach() + sources[name].detach()) / 2).realize()
    return sum((p * p).sum().item() for p in get_parameters(other))


def optimiser_of(model: LanguageModel):
    """Return AdamW for all parameters. Its moments do not share memory, as above."""
    optimiser = nn.optim.AdamW(get_parameters(model), lr=0.01)
    optimiser.m = [Tensor(np.zeros(p.shape, dtype=np.float32)) for p in optimiser.params]
    optimiser.v = [Tensor(np.zeros(p.shape, dtype=np.float32)) for p in optimiser.params]
    return optimiser


def restored(model: LanguageModel) -> LanguageModel:
    """Return a new model with the weights of `model`, saved to a file and loaded again."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "weights.safetensors")
        safe_save(get_state_dict(model), path)
        fresh = LanguageModel()
        load_state_dict(fresh, safe_load(path), verbose=False)
    return fresh


def refusals() -> list[str]:
    """Return the names of the errors that the usual Python classes catch."""
    x = Tensor.arange(6).reshape(2, 3)
    calls = {
        "reshape": (ValueError, lambda: x.reshape(4, 2)),
        "broadcast": (ValueError, lambda: x + Tensor.ones(2)),
        "expand": (ValueError, lambda: x.expand(4, 3)),
        "index": (IndexError, lambda: x[5]),
        "axis": (IndexError, lambda: x.sum(4)),
        "truth": (TypeError, lambda: bool(x)),
        "length": (TypeError, lambda: len(Tensor(1.0))),
        "attribute": (AttributeError, lambda: x.no_such_attribute),
        "weights": (LookupError, lambda: load_state_dict(nn.Linear(2, 2), {}, verbose=False)),
    }
    caught = []
    for name, (kind, call) in calls.items():
        try:
            call()
        except kind:
            caught.append(name)
    return caught


def symbolic() -> list[float]:
    """Return sums over slices whose size is a variable, replayed for each size."""

    @TinyJit
    def total(x: Tensor) -> Tensor:
        return (x * x).sum(0).realize()

    source = Tensor.arange(30).float().reshape(10, 3).contiguous().realize()
    sums = []
    for size in (2, 5, 9, 10):
        rows = Variable("rows", 1, 10).bind(size)
        part = source.shrink(((0, rows), None)).reshape(rows, 3)
        sums.extend(total(part).tolist())
        sums.append((Tensor.ones(size, 4).reshape(rows, 4).sum() * Tensor(rows)).item())
    return sums


def sharded(model: LanguageModel, data) -> dict[str, float]:
    """Return the loss and gradient norm of a batch that is split over two devices."""
    devices = tuple(f"{Device.DEFAULT}:{number}" for number in (1, 2))
    x, y = data[0]
    alone, twin = restored(model), restored(model)
    for parameter in get_parameters(twin):
        parameter.shard_(devices).realize()
    loss_of(alone, x, y).backward()
    loss = loss_of(twin, x.shard(devices, axis=0), y.shard(devices, axis=0))
    loss.backward()
    return {"loss": loss.item(), "norm": norm(twin), "norm on one device": norm(alone)}


def norm(model: LanguageModel) -> float:
    """Return the sum of squares of all gradients."""
    grads = [p.grad for p in get_parameters(model) if p.grad is not None]
    return sum((grad * grad).sum().item() for grad in grads)


def image_features() -> list[float]:
    """Return numbers after a convolution, a batch norm, a pooling and an indexed write."""
    convolution = nn.Conv2d(2, 3, 3, padding=1)
    convolution.weight = weights(3, 2, 3, 3)
    convolution.bias = Tensor([0.1, -0.2, 0.3], requires_grad=True)
    norm = nn.BatchNorm2d(3)
    image = Tensor(np.sin(np.arange(2 * 2 * 6 * 6, dtype=np.float32)).reshape(2, 2, 6, 6))
    with Tensor.train():
        y = norm(convolution(image)).relu().max_pool2d()
    y = y.detach().contiguous().realize()
    y[:, 0, 1:] = 0.5
    mean = norm.running_mean.numpy().tolist()
    return [*y.sum((0, 2, 3)).tolist(), *mean, y.max().item(), y[1, 0].std().item()]


def run() -> dict[str, object]:
    """Run all parts in order, and return their numbers."""
    model = LanguageModel()
    optimiser = optimiser_of(model)
    losses = train(model, optimiser, batches(40, seed=1))
    held_out = batches(3, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pickle"
        checkpoint(model, optimiser, path)
        resumed = resumed_elsewhere(path)
    copies = snapshot(model, held_out)
    prompt = [3, 5, 7, 9]
    with Context(BEAM=0):
        text = generate(model, prompt, 6)
    results = {
        "losses": losses,
        "resumed": resumed,
        "copies": copies,
        "text": text,
        "text without cache": generate_without_cache(model, prompt, 6),
        "averaged": averaged(model, LanguageModel()),
        "restored": loss_of(restored(model), *held_out[0]).item(),
        "refusals": refusals(),
        "symbolic": symbolic(),
        "sharded": sharded(model, held_out),
        "image": image_features(),
    }
    return {**results, "straight": train(model, optimiser, batches(8, seed=3))}


if __name__ == "__main__":
    if "--resume" in sys.argv:
        print(json.dumps(resume(Path(sys.argv[-1]))))
    else:
        print(json.dumps(run(), indent=1))
