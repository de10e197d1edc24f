"""The kernel-count table: programs, their numbers of kernels and copies, and the reasons.

The numbers are exact, for CPU, which runs kernels as loops. Devices with a grid need two kernels to
reduce rows and to compute along them. Undo a change that raises a number; a change that lowers one
updates the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import kernel_programs as p
from kernel_programs import data

from tinyref.tensor import Tensor


@dataclass(frozen=True)
class Program:
    """A program by name: the exact number of kernels and copies, the reason, its outputs."""

    name: str
    kernels: int
    why: str
    build: Callable[[], Tensor | Sequence[Tensor]]
    copies: int = 0


ELEMENTWISE = (
    Program("a + b", 1, "one loop", lambda: data(4, 5) + data(4, 5)),
    Program("where of comparisons", 1, "elementwise work fuses", lambda: p.banded(data(8, 8))),
    Program("chain of 1000", 1, "elementwise work fuses", lambda: p.deep_chain(500)),
    Program("a + a.T", 1, "views need no memory", p.transposed_sum),
    Program("slice of a slice", 1, "one copy", p.part_of_a_part),
)
CONSTANT = (
    Program("zeros + 1, reshaped", 0, "folds", lambda: (Tensor.zeros(4, 5) + 1).reshape(20)),
    Program("sum of a constant", 0, "folds", lambda: Tensor.full((4, 5), 2.0).sum()),
    Program("empty sum", 0, "the identity", lambda: data(0, 5).sum(0)),
    Program("arange", 1, "written by its own kernel", lambda: Tensor.arange(64).contiguous()),
    Program("x + arange", 1, "computed in place", lambda: data(64) + Tensor.arange(64)),
    Program("eye", 1, "a comparison of places", lambda: Tensor.eye(16).contiguous()),
    Program("causal mask", 1, "a comparison of places", p.causal_mask),
)
REDUCES = (
    Program("sum of relu", 1, "the reduce takes what it reads", lambda: data(4, 5).relu().sum()),
    Program("relu of sum", 1, "the reduce takes what follows", lambda: data(4, 5).sum(1).relu()),
    Program("sum of sums", 1, "one reduce over both axes", lambda: data(4, 5).sum(1).sum(0)),
    Program("sum of max", 2, "two kinds of reduce", lambda: data(4, 5).max(1).sum(0)),
    Program("x.sum(0), x.sum(1)", 2, "one for each result", p.sums_apart),
    Program("x.sum(0) + x.sum(1)", 1, "loops of one length", p.sums_added),
    Program("sums of other lengths", 2, "loops differ", p.sums_of_other_lengths),
    Program("max - min", 1, "both reduces in one kernel", p.spread_of_values),
    Program("var", 1, "the mean stays in the kernel", lambda: data(8, 16).var(-1)),
    Program("logsumexp", 1, "max and sum in one kernel", lambda: data(8, 16).logsumexp(-1)),
    Program("gated products", 2, "a block of registers holds one large product", p.gated_products),
    Program("sum of 65537", 2, "split in two, the last part padded", lambda: data(65537).sum()),
    Program(
        "32 dependent sums", 4, "some steps repeat, then one is stored", lambda: p.reduce_chain(32)
    ),
)
NORMALISATION = (
    Program("softmax", 1, "max, sum and quotient of each row", lambda: data(8, 16).softmax(-1)),
    Program(
        "layernorm backward", 1, "four reduces of each row, then the rest", p.layernorm_backward
    ),
    Program("batchnorm running", 2, "statistics in place, then the rest", p.batchnorm_running),
)
CONTRACTIONS = (
    Program("matmul backward", 3, "the product, one gradient each", p.matmul_backward),
    Program("matmul + bias, relu", 1, "the sum takes them", p.linear_relu),
    Program("exp before matmul", 2, "costly to repeat", lambda: data(4, 5).exp() @ data(5, 6)),
    Program("a @ b @ c", 2, "one for each", lambda: data(4, 5) @ data(5, 6) @ data(6, 7)),
    Program("conv2d + bias, relu", 1, "windows are views", p.conv_relu),
    Program(
        "conv2d backward",
        4,
        "forward, windows added, weight, bias",
        p.convolution_backward,
    ),
    Program("padded conv2d of relu", 1, "relu keeps zero", lambda: p.padded_convolution("relu")),
    Program("padded conv2d of exp", 2, "exp does not", lambda: p.padded_convolution("exp")),
    Program("padded conv2d, 36,864 reads", 2, "its padding is stored", p.much_padded),
    Program("padded conv2d, 32,256 reads", 1, "too few", lambda: p.much_padded(7)),
    Program(
        "padded conv2d of a grid", 1, "masks cost little", lambda: p.much_padded(8, "PYTHON"), 2
    ),
    Program(
        "conv block backward", 6, "two forward, gradient, two for x, weight", p.conv_block_backward
    ),
    Program(
        "max_pool2d backward",
        2,
        "most and where it is first, then the gradient",
        lambda: p.pool_backward("max_pool2d"),
    ),
    Program("lstm cell", 3, "two products, then the gates", p.lstm_cell),
    Program(
        "transformer block",
        11,
        "2 norms, 3 + 2 + 1 + 2 products, 1 for softmax",
        p.transformer_block,
    ),
)
TRAINING = (
    Program("mlp training step", 10, "as backward and the loss; updates fuse", p.mlp_training),
    Program("training step, 8 layers", 32, "four for each layer", lambda: p.deep_mlp_training(8)),
)
SELECTION = (
    Program("gather", 1, "a gated load", p.gathered),
    Program("dropout backward", 2, "the loss, the gradient", p.dropout_backward),
    Program("cat of 16", 1, "one loop over the result", lambda: Tensor.cat(*p.pieces(16))),
    Program("cat of 32", 3, "groups of 16, then those", lambda: Tensor.cat(*p.pieces(32))),
    Program("cat + 1", 1, "each element is used once", lambda: Tensor.cat(*p.pieces(2)) + 1),
    Program("conv2d of cat, 8 channels", 2, "each is used 72 times", lambda: p.joined_conv(8)),
    Program("conv2d of cat, 3 channels", 1, "each is used 27 times", lambda: p.joined_conv(3)),
)
PLACEMENT = (
    Program("x += 1", 1, "in place", lambda: p.in_place(p.add_one)),
    Program("x[1] = row", 1, "in place", lambda: p.in_place(p.write_row)),
    Program("there and back", 2, "one on each device", p.moved_and_back, copies=2),
    Program("copy of a buffer", 0, "bytes", lambda: data(4, 5).to("PYTHON"), copies=1),
    Program("copy of a part", 1, "put in order first", lambda: data(4, 5)[1:3, 2:].to("PYTHON"), 1),
    Program("symbolic attention", 4, "scores, rows, values", p.symbolic_attention),
)
METHODS = (
    Program(
        "Tensor.scaled_dot_product_attention backward",
        9,
        "3 forward, values, rows, scores, 3 products",
        p.dot_product_attention_backward,
    ),
    Program(
        "Tensor.cross_entropy backward",
        1,
        "each row, then its gradient",
        p.method_cross_entropy_backward,
    ),
    Program("Tensor.argmax", 1, "max and place in one kernel", lambda: data(8, 16).argmax(-1)),
    Program("Tensor.cumsum of 16", 1, "windows", lambda: data(8, 16).cumsum(-1)),
    Program("Tensor.cumsum of 1000", 3, "totals, their scan, all", lambda: data(1000).cumsum(0)),
    Program("Tensor.sort of 8", 2, "values; places", lambda: data(4, 8).sort()),
    Program("Tensor.topk", 2, "of the sorted", lambda: data(4, 8).topk(3)),
    Program(
        "Tensor.scatter",
        1,
        "a comparison of places",
        lambda: data(4, 5).scatter(1, p.classes(4, 3), data(4, 3)),
    ),
    Program("x[indices]", 1, "a gated load", lambda: data(50, 8)[p.classes(6)]),
    Program("x[indices] backward", 1, "the rows are read again", p.selected_rows_backward),
    Program(
        "x[indices] = 1", 2, "which places, then in place", lambda: p.in_place(p.write_at_places)
    ),
    Program(
        "conv_transpose2d",
        1,
        "windows of spread elements",
        lambda: data(2, 3, 5, 5).conv_transpose2d(data(3, 4, 3, 3)),
    ),
    Program("Adam, 3", 4, "both powers, one each", lambda: p.optimiser_step("Adam")),
    Program(
        "LAMB, 3", 10, "both powers, moments, norms, the step", lambda: p.optimiser_step("LAMB")
    ),
)
PROGRAMS = (
    *ELEMENTWISE,
    *CONSTANT,
    *REDUCES,
    *NORMALISATION,
    *CONTRACTIONS,
    *TRAINING,
    *SELECTION,
    *PLACEMENT,
    *METHODS,
)
