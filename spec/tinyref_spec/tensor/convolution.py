"""conv2d: a reference by windows, and its gradients, in bounded values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, Refusals, Refused

Pair = tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """A cross-correlation x (n, c, h, w) with y (o, c / groups, kh, kw)."""

    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1

    def places(self, size: int, kernel: int) -> int:
        """How many windows fit along an axis."""
        return (size + 2 * self.padding - self.dilation * (kernel - 1) - 1) // self.stride + 1

    def windows(self, x: Array, kernel: Pair) -> Array:
        """(n, c, oh, ow, kh, kw): element numbers of the padded input, by looking up each one."""
        padded = np.pad(x, ((0, 0), (0, 0), *[(self.padding,) * 2] * 2))
        rows = self.places(x.shape[2], kernel[0])
        columns = self.places(x.shape[3], kernel[1])
        down = np.arange(rows)[:, None] * self.stride + np.arange(kernel[0]) * self.dilation
        across = np.arange(columns)[:, None] * self.stride + np.arange(kernel[1]) * self.dilation
        return np.asarray(padded[:, :, down[:, None, :, None], across[None, :, None, :]])

    def scatter(self, parts: Array, shape: tuple[int, ...], kernel: Pair) -> Array:
        """The transpose of `windows`: sums (n, c, oh, ow, kh, kw) back into the input's shape."""
        numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
        places = self.windows(numbers, kernel)
        total = np.zeros(numbers.size + 1)
        np.add.at(total, places.reshape(-1), np.broadcast_to(parts, places.shape).reshape(-1))
        return total[1:].reshape(shape)

    def apply(self, x: Array, y: Array) -> Array:
        """The convolution itself."""
        seen = self._grouped(self.windows(x, (y.shape[2], y.shape[3])))
        factors = y.reshape(self.groups, -1, *y.shape[1:])
        found = np.einsum("ngcijkl,gockl->ngoij", seen, factors)
        return np.asarray(found.reshape(x.shape[0], y.shape[0], *found.shape[3:]))

    def back_x(self, g: Array, x: Array, y: Array) -> Array:
        """The gradient of x."""
        factors = y.reshape(self.groups, -1, *y.shape[1:])
        grouped = g.reshape(g.shape[0], self.groups, -1, *g.shape[2:])
        parts = np.einsum("ngoij,gockl->ngcijkl", grouped, factors)
        parts = parts.reshape(x.shape[0], x.shape[1], *parts.shape[3:])
        return self.scatter(parts, x.shape, (y.shape[2], y.shape[3]))

    def back_y(self, g: Array, x: Array, y: Array) -> Array:
        """The gradient of y."""
        seen = self._grouped(self.windows(x, (y.shape[2], y.shape[3])))
        grouped = g.reshape(g.shape[0], self.groups, -1, *g.shape[2:])
        return np.asarray(np.einsum("ngoij,ngcijkl->gockl", grouped, seen).reshape(y.shape))

    def _grouped(self, windows: Array) -> Array:
        return windows.reshape(windows.shape[0], self.groups, -1, *windows.shape[2:])

    def forward(self, x: Value, y: Value) -> Value:
        """The convolution with its bound: n u sum |a b|."""
        length = int(np.prod(y.shape[1:])) + 1
        magnitude = self.apply(np.abs(x.value), np.abs(y.value))
        return Value(self.apply(x.value, y.value), length * x.unit * magnitude, x.dtype)

    def backward(self, g: Value, x: Value, y: Value) -> tuple[Value, Value]:
        """Both gradients with their bounds."""
        into_x = (y.shape[0] // self.groups) * y.shape[2] * y.shape[3] + 1
        into_y = g.shape[0] * g.shape[2] * g.shape[3] + 1
        sizes = np.abs(g.value), np.abs(x.value), np.abs(y.value)
        return (
            Value(
                self.back_x(g.value, x.value, y.value),
                into_x * x.unit * self.back_x(*sizes),
                x.dtype,
            ),
            Value(
                self.back_y(g.value, x.value, y.value),
                into_y * x.unit * self.back_y(*sizes),
                x.dtype,
            ),
        )


def _form(arguments: str, x: tuple[int, ...], y: tuple[int, ...], convolution: Convolution) -> Form:
    return Form(
        f"x.conv2d(y{arguments})",
        (Input("x", x), Input("y", y)),
        convolution.forward,
        backward=convolution.backward,
        is_wide=True,
        torch=f"F.conv2d(x, y{arguments})",
    )


CONVOLUTION = Function(
    "conv2d",
    "Cross-correlation over windows, with stride, padding, dilation and groups.",
    (
        _form("", (1, 2, 5, 5), (3, 2, 3, 3), Convolution()),
        _form(", padding=1", (2, 3, 5, 6), (2, 3, 3, 3), Convolution(padding=1)),
        _form(", stride=2, padding=1", (1, 2, 7, 6), (2, 2, 3, 3), Convolution(2, 1)),
        _form(", dilation=2", (1, 1, 8, 8), (2, 1, 3, 3), Convolution(dilation=2)),
        _form(", groups=2", (1, 4, 5, 5), (4, 2, 3, 3), Convolution(groups=2)),
        _form("", (1, 3, 4, 4), (2, 3, 1, 1), Convolution()),
    ),
    (*dtypes.floats, dtypes.int32),
)

FUNCTIONS = (CONVOLUTION,)
REFUSED: Refusals = {
    "conv2d": (
        Refused(
            "x.reshape(1, 1, 4, 6).conv2d(Tensor.zeros(1, 2, 3, 3))",
            "F.conv2d(x.reshape(1, 1, 4, 6), torch.zeros(1, 2, 3, 3))",
        ),
        Refused("x.reshape(1, 1, 4, 6).conv2d(Tensor.zeros(1, 1, 3, 3), groups=2)"),
    )
}
