"""The programs of the kernel-count table, built of tensors whose memory exists.

The contents of the memory do not matter, because no program runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinyref.dtype import DType, dtypes
from tinyref.lazy import graph
from tinyref.nn import optim
from tinyref.tensor import Tensor
from tinyref.tensor.core import from_node
from tinyref.tensor.variable import Variable

DEVICE = "CPU"


def data(*shape: int, dtype: DType = dtypes.float32, device: str = DEVICE) -> Tensor:
    """Return a tensor with memory."""
    return from_node(Tensor, graph.new_buffer(device, shape, dtype), device)


def weight(*shape: int) -> Tensor:
    """Return a tensor with memory that requires a gradient."""
    return data(*shape).requires_grad_()


def backward(loss: Tensor, *leaves: Tensor) -> list[Tensor]:
    """Return the loss and the gradients of `leaves`."""
    return [loss, *gradients(loss, *leaves)]


def gradients(loss: Tensor, *leaves: Tensor) -> list[Tensor]:
    """Return the gradients of `leaves` alone."""
    return [gradient.detach() for gradient in loss.gradient(*leaves)]


# --- normalisation ------------------------------------------------------------------------------


def per_channel(x: Tensor) -> Tensor:
    return x.reshape(1, -1, 1, 1)


def batchnorm_train(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return x.layernorm((0, 2, 3)) * per_channel(scale) + per_channel(shift)


def batchnorm_running() -> list[Tensor]:
    """Return the output, and the running mean and variance updated in place."""
    x, mean, variance = data(4, 8, 6, 6), data(8), data(8)
    average = x.mean((0, 2, 3), keepdim=True)
    centred = x - average
    spread = centred.square().mean((0, 2, 3), keepdim=True)
    mean.assign(mean * 0.9 + average.reshape(8) * 0.1)
    variance.assign(variance * 0.9 + spread.reshape(8) * 0.1)
    return [centred * (spread + 1e-5).rsqrt(), mean, variance]


# --- layers -------------------------------------------------------------------------------------


def mlp(x: Tensor, *weights: Tensor) -> Tensor:
    """Return linear layers with relu between them; weights and biases alternate."""
    for number in range(0, len(weights), 2):
        x = (x.relu() if number else x).linear(weights[number], weights[number + 1])
    return x


def mlp_weights() -> list[Tensor]:
    return [weight(5, 7), weight(7), weight(7, 3), weight(3)]


def mlp_loss(weights: Sequence[Tensor]) -> Tensor:
    return mlp(data(16, 5), *weights).cross_entropy(classes(16))


def sgd_step(weights: Sequence[Tensor], slopes: Sequence[Tensor]) -> list[Tensor]:
    with Tensor.no_grad():
        for target, gradient in zip(weights, slopes, strict=True):
            target.assign(target.detach() - gradient * 0.1)
    return list(weights)


def mlp_training() -> list[Tensor]:
    weights = mlp_weights()
    loss = mlp_loss(weights)
    return [loss.detach(), *sgd_step(weights, gradients(loss, *weights))]


def conv_block(x: Tensor, w: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return batchnorm_train(x.conv2d(w, padding=1), scale, shift).relu()


def conv_block_backward() -> list[Tensor]:
    leaves = [weight(2, 3, 8, 8), weight(8, 3, 3, 3), weight(8), weight(8)]
    return gradients(conv_block(*leaves).square().sum(), *leaves)


def heads() -> list[Tensor]:
    return [weight(2, 4, 16, 8) for _ in range(3)]


def uniform(*shape: int) -> Tensor:
    """Return random numbers from 0 to 1, from counters whose bits are mixed."""
    count = math.prod(shape)
    bits = Tensor.arange(count).cast(dtypes.uint32)
    for factor, shift in ((2654435769, 16), (2246822507, 13), (3266489909, 16)):
        bits = bits * factor
        bits = bits ^ (bits >> shift)
    return ((bits >> 8).cast(dtypes.float32) * (1 / (1 << 24))).reshape(shape)


def dropout(x: Tensor) -> Tensor:
    return (uniform(*x.shape) >= 0.5).where(x, 0.0) * 2.0


def dropout_backward() -> list[Tensor]:
    x = weight(16, 16)
    return backward(dropout(x).square().sum(), x)


# --- updates in place ---------------------------------------------------------------------------


def in_place(change: Callable[[Tensor], object]) -> Tensor:
    x = data(4, 6)
    change(x)
    return x


def add_one(x: Tensor) -> None:
    x += 1


def write_row(x: Tensor) -> None:
    x[1] = data(6)


def symbolic_attention() -> Tensor:
    """Return one query over a cache that is filled to a variable length."""
    length = Variable("length", 1, 32).bind(7)
    keys, values = (data(2, 32, 8).shrink((None, (0, length), None)) for _ in range(2))
    scores = (data(2, 1, 8) * keys).sum(-1)
    return (scores.softmax(-1).unsqueeze(-1) * values).sum(1)


def lstm_cell() -> list[Tensor]:
    x, hidden, cell = data(4, 8), data(4, 16), data(4, 16)
    gates = x @ data(8, 64) + hidden @ data(16, 64) + data(64)
    inputs, forget, new, output = gates.chunk(4, dim=1)
    cell = forget.sigmoid() * cell + inputs.sigmoid() * new.tanh()
    return [output.sigmoid() * cell.tanh(), cell]


def deep_mlp_training(layers: int) -> list[Tensor]:
    weights = [weight(6, 6) if number % 2 == 0 else weight(6) for number in range(2 * layers)]
    loss = mlp(data(4, 6), *weights).square().mean()
    return [loss.detach(), *sgd_step(weights, gradients(loss, *weights))]


def causal_mask() -> Tensor:
    positions = Tensor.arange(16)
    mask = positions.reshape(16, 1) >= positions.reshape(1, 16)
    return mask.where(0.0, -math.inf).contiguous()


def banded(x: Tensor) -> Tensor:
    return (x < 0).where(x * 0.1, (x > 6).where(6.0, x))


def deep_chain(steps: int) -> Tensor:
    x = data(64)
    for step in range(steps):
        x = (x * (step + 0.5)).maximum(0.25)
    return x


def sums_apart() -> list[Tensor]:
    x = data(8, 8)
    return [x.sum(0), x.sum(1)]


def sums_added() -> Tensor:
    x = data(8, 8)
    return x.sum(0) + x.sum(1)


def gated_products() -> Tensor:
    x = data(64, 128)
    return x.matmul(data(128, 128)).silu() * x.matmul(data(128, 128))


def sums_of_other_lengths() -> Tensor:
    x = data(4, 9)
    return x.sum(0).sum() + x.sum(1)


def spread_of_values() -> Tensor:
    x = data(8, 16)
    return x.max(-1) - x.min(-1)


def reduce_chain(steps: int) -> Tensor:
    x = data(8, 8)
    for step in range(steps):
        x = (x + x.sum(1, keepdim=True)) * (step + 0.5)
    return x


def convolution(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return x.conv2d(w, bias, padding=1).relu()


def convolution_backward() -> list[Tensor]:
    leaves = [weight(2, 3, 8, 8), weight(4, 3, 3, 3), weight(4)]
    return gradients(convolution(*leaves).square().sum(), *leaves)


def pool_backward(name: str) -> list[Tensor]:
    x = weight(2, 3, 8, 8)
    return gradients(getattr(x, name)((2, 2)).square().sum(), x)


def layernorm_backward() -> list[Tensor]:
    x = weight(8, 16)
    return gradients((x.layernorm() * data(8, 16)).sum(), x)


def matmul_backward() -> list[Tensor]:
    leaves = [weight(4, 5), weight(5, 6)]
    return gradients((leaves[0] @ leaves[1]).square().sum(), *leaves)


def moved_and_back() -> Tensor:
    return (data(4, 5).to("PYTHON") * 2).to(DEVICE) + 1


def transformer_block() -> Tensor:
    x = data(2, 16, 32)
    wide = x.layernorm()
    query, key, value = (
        (wide @ data(32, 32)).reshape(2, 16, 4, 8).transpose(1, 2) for _ in range(3)
    )
    mixed = query.scaled_dot_product_attention(key, value, is_causal=True)
    mixed = mixed.transpose(1, 2).reshape(2, 16, 32)
    x = x + mixed @ data(32, 32)
    return x + (x.layernorm() @ data(32, 64)).gelu() @ data(64, 32)


def pieces(count: int) -> list[Tensor]:
    return [data(3, 4) for _ in range(count)]


def transposed_sum() -> Tensor:
    x = data(5, 5)
    return x + x.T


def linear_relu() -> Tensor:
    return data(4, 5).linear(data(5, 6), data(6)).relu()


def conv_relu() -> Tensor:
    return data(2, 3, 8, 8).conv2d(data(4, 3, 3, 3), data(4)).relu()


def joined_conv(channels: int) -> Tensor:
    joined = data(1, 2, 12, 12).cat(data(1, 3, 12, 12), dim=1)
    return joined.conv2d(data(channels, 5, 3, 3))


def padded_convolution(name: str) -> Tensor:
    return getattr(data(2, 3, 8, 8), name)().conv2d(data(4, 3, 3, 3), padding=1)


def much_padded(outputs: int = 8, device: str = "CPU") -> Tensor:
    """Return a padded convolution with 4608 reads for each of its outputs."""
    x, w = data(1, 8, 8, 8).to(device), data(outputs, 8, 3, 3).to(device)
    return x.conv2d(w, padding=1)


def gathered() -> Tensor:
    return data(4, 5).gather(1, data(4, 3, dtype=dtypes.int32))


def part_of_a_part() -> Tensor:
    return data(9, 9)[1:8, ::2][2:4].contiguous()


# --- whole programs in one method ---------------------------------------------------------------


def classes(*shape: int) -> Tensor:
    return data(*shape, dtype=dtypes.int32)


def dot_product_attention_backward() -> list[Tensor]:
    leaves = heads()
    result = Tensor.scaled_dot_product_attention(*leaves, is_causal=True)
    return gradients(result.square().sum(), *leaves)


def method_cross_entropy_backward() -> list[Tensor]:
    logits = weight(8, 10)
    return gradients(logits.cross_entropy(classes(8)), logits)


def selected_rows_backward() -> list[Tensor]:
    table = weight(50, 8)
    return gradients(table[classes(6)].square().sum(), table)


def write_at_places(x: Tensor) -> None:
    x[classes(3)] = 1.0


def optimiser_step(name: str, **options: float) -> list[Tensor]:
    """Return the second step for three parameters; the first creates the optimiser's state."""
    weights = [weight(4, 5 + number) for number in range(3)]
    optimiser = getattr(optim, name)(weights, **options)
    for target in weights:
        target.grad = data(*target.shape)
    with Tensor.train():
        for state in optimiser.schedule_step():
            state.replace(data(*state.shape, dtype=state.dtype))
        return list(optimiser.schedule_step())
