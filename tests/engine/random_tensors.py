"""Random tensor graphs, each with its value by numpy.

The choices come from a seeded `random.Random`. Hypothesis shrinks well, but draws graphs of a few
small nodes, and faults of fusion need many nodes.
"""

import math

import numpy as np

from tinyref.dtype import dtypes
from tinyref.lazy import graph
from tinyref.uops.ops import Ops

LARGEST = 2000
SHAPES = ((), (1,), (4,), (6,), (2, 3), (3, 2), (4, 3), (1, 5), (2, 1, 3), (2, 3, 4), (0,), (3, 0))


def plus_3(node):
    return graph.alu(Ops.ADD, node, graph.constant(3, node.dtype))


def divided(node):
    """Return 120 / (1 + x * x), which is not 0 where x is 0."""
    one_more = graph.alu(Ops.ADD, graph.alu(Ops.MUL, node, node), graph.constant(1, node.dtype))
    return graph.alu(Ops.IDIV, graph.full_like(node, 120), one_more)


def inverted(node):
    return graph.alu(Ops.XOR, node, graph.constant(-1, node.dtype))


def is_not_zero(node):
    return graph.cast(graph.alu(Ops.CMPNE, node, graph.full_like(node, 0)), node.dtype)


def through_int8(node):
    return graph.cast(graph.cast(node, dtypes.int8), node.dtype)


def numpy_divided(x):
    return np.trunc(120 / (1.0 + (x * x).astype(np.int32))).astype(np.int32)


UNARY = (
    (lambda x: graph.alu(Ops.NEG, x), np.negative),
    (plus_3, lambda x: x + np.int32(3)),
    (
        lambda x: divided(through_int8(x)),
        lambda x: numpy_divided(x.astype(np.int8).astype(np.int32)),
    ),
    (inverted, np.invert),
    (is_not_zero, lambda x: (x != 0).astype(np.int32)),
    (through_int8, lambda x: x.astype(np.int8).astype(np.int32)),
    (graph.contiguous, lambda x: x),
    (graph.detach, lambda x: x),
)
BINARY = (
    (Ops.ADD, np.add),
    (Ops.SUB, np.subtract),
    (Ops.MUL, np.multiply),
    (Ops.MAX, np.maximum),
    (Ops.XOR, np.bitwise_xor),
)
REDUCES = (
    (Ops.ADD, lambda x, axes: np.add.reduce(x, axes, dtype=x.dtype, keepdims=True)),
    (Ops.MUL, lambda x, axes: np.multiply.reduce(x, axes, dtype=x.dtype, keepdims=True)),
    (Ops.MAX, lambda x, axes: np.maximum.reduce(x, axes, keepdims=True, initial=-(2**31))),
)
KINDS = (
    "unary",
    "binary",
    "binary",
    "where",
    "reduce",
    "reduce",
    "back",
    "move",
    "move",
    "move",
    "gather",
    "number",
)
MAX_PLACES = 5


class Generator:
    """Generator of a list of (node, array) pairs from leaves that `put` makes from arrays."""

    def __init__(self, random, put):
        self.random = random
        self.values = []
        for _ in range(random.randint(1, 3)):
            shape = random.choice(SHAPES)
            start = random.randint(-5, 5)
            array = np.arange(start, start + math.prod(shape), dtype=np.int32) * 7 % 11 - 4
            array = array.reshape(shape)
            self.values.append((put(array), array))
        self.leaves = list(self.values)

    def grow(self):
        """Add one value; the newest values are the most likely inputs."""
        node, array = self.pick()
        made = getattr(self, self.random.choice(KINDS))(node, array)
        if made[1].size <= LARGEST:
            self.values.append(made)

    def pick(self):
        recent = self.values[-3:] if self.random.random() < 0.6 else self.values
        return self.random.choice(recent)

    def unary(self, node, array):
        build, function = self.random.choice(UNARY)
        return build(node), function(array)

    def binary(self, node, array):
        other, other_array = fitted(self.pick(), array.shape)
        op, function = self.random.choice(BINARY)
        return graph.alu(op, node, other), function(array, other_array)

    def where(self, node, array):
        yes, yes_array = fitted(self.pick(), array.shape)
        no, no_array = fitted(self.pick(), array.shape)
        condition = graph.alu(Ops.CMPLT, node, graph.full_like(node, 1))
        return graph.where(condition, yes, no), np.where(array < 1, yes_array, no_array)

    def reduce(self, node, array):
        if not array.ndim:
            return plus_3(node), array + np.int32(3)
        axes = sorted(self.random.sample(range(array.ndim), self.random.randint(1, array.ndim)))
        op, function = self.random.choice(REDUCES)
        return graph.reduce(op, node, axes), function(array, tuple(axes))

    def back(self, node, array):
        """Return a value minus its own reduce, as in softmax."""
        reduced, reduced_array = self.reduce(node, array)
        wide = graph.expand(reduced, array.shape)
        return graph.alu(Ops.SUB, node, wide), array - np.broadcast_to(reduced_array, array.shape)

    def gather(self, node, array):
        """Return elements along an axis at indices from another value; 0 if out of range."""
        indices, numbers = self.pick()
        count = min(numbers.size, MAX_PLACES)
        if not array.ndim or 0 in (array.size, count):
            return plus_3(node), array + np.int32(3)
        axis = self.random.randrange(array.ndim)
        size = array.shape[axis]
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        full = (*before, count, size, *after)
        indices = graph.shrink(graph.reshape(indices, (numbers.size,)), ((0, count),))
        numbers = numbers.reshape(-1)[:count]

        def along(value, number):
            ones = tuple(full[at] if at == number else 1 for at in range(len(full)))
            return graph.expand(graph.reshape(value, ones), full)

        differs = graph.alu(Ops.CMPNE, along(graph.iota(size), axis + 1), along(indices, axis))
        rows = graph.expand(graph.reshape(node, (*before, 1, size, *after)), full)
        chosen = graph.where(differs, graph.full_like(rows, 0), rows)
        taken = graph.reshape(graph.reduce(Ops.ADD, chosen, [axis + 1]), (*before, count, *after))
        inside = ((numbers >= 0) & (numbers < size)).reshape((count, *(1,) * len(after)))
        return taken, np.where(inside, np.take(array, numbers, axis, mode="clip"), 0).astype(
            np.int32
        )

    def number(self, node, array):
        """Return values minus the numbers of their elements."""
        if not array.size:
            return node, array
        numbers = graph.reshape(graph.iota(array.size), array.shape)
        counted = np.arange(array.size, dtype=np.int32).reshape(array.shape)
        return graph.alu(Ops.SUB, node, numbers), array - counted

    def move(self, node, array):
        kind = self.random.choice(("reshape", "permute", "expand", "pad", "shrink", "flip"))
        return getattr(self, kind)(node, array)

    def reshape(self, node, array):
        target = self.random.choice(factorings(array.size))
        return graph.reshape(node, target), array.reshape(target)

    def permute(self, node, array):
        order = self.random.sample(range(array.ndim), array.ndim)
        return graph.permute(node, order), array.transpose(order)

    def expand(self, node, array):
        ones = (*array.shape, 1)
        target = tuple(self.random.choice((1, 2, 3)) if size == 1 else size for size in ones)
        wide = np.broadcast_to(array.reshape(ones), target)
        return graph.expand(graph.reshape(node, ones), target), wide

    def pad(self, node, array):
        bounds = [(self.random.randint(0, 2), self.random.randint(0, 2)) for _ in array.shape]
        return graph.pad(node, bounds), np.pad(array, bounds) if array.ndim else array

    def shrink(self, node, array):
        bounds = []
        for size in array.shape:
            begin = self.random.randint(0, max(size - 1, 0))
            bounds.append((begin, self.random.randint(min(begin + 1, size), size)))
        return graph.shrink(node, bounds), array[tuple(slice(*pair) for pair in bounds)]

    def flip(self, node, array):
        axes = [axis for axis in range(array.ndim) if self.random.random() < 0.5]
        return graph.flip(node, axes), np.flip(array, axes)


def fitted(value, shape):
    """Return `value` broadcast to `shape` as far as its first elements allow, else zeros."""
    node, array = value
    if array.size == 0:
        return graph.full(shape, 0, node.dtype), np.zeros(shape, array.dtype)
    if array.ndim != len(shape):
        count = array.size
        node, array = graph.reshape(node, (count,)), array.reshape(count)
        ones = (1,) * len(shape)
        node = graph.reshape(graph.shrink(node, ((count - 1, count),)), ones)
        array = array[-1:].reshape(ones)
    keep = [(0, want if have >= want else 1) for have, want in zip(array.shape, shape, strict=True)]
    node = graph.shrink(node, keep)
    array = array[tuple(slice(*pair) for pair in keep)]
    return graph.expand(node, shape), np.broadcast_to(array, shape)


def factorings(size):
    """Return some shapes of `size` elements."""
    if size == 0:
        return [(0,), (2, 0), (0, 3, 1)]
    shapes = [(size,), (1, size), (size, 1)]
    shapes += [(size // n, n) for n in (2, 3, 4) if size % n == 0]
    shapes += [(2, size // 4, 2)] if size % 4 == 0 else []
    return shapes + ([()] if size == 1 else [])
