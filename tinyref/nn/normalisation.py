"""Normalisation layers: shift and scale the input to mean 0 and variance 1 over some axes."""

from __future__ import annotations

from tinyref.algebra.symbolic import describe_shape, product
from tinyref.dtype import dtypes
from tinyref.errors import UserError, argument_error
from tinyref.nn.layers import Layer, check_input
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import count_of
from tinyref.tensor.literals import weak_number
from tinyref.tensor.reduction import count_along


def _affine(shape: tuple[int, ...], is_affine: bool) -> tuple[Tensor | None, Tensor | None]:
    """Return weights of one and biases of zero in their own memory; None for both if unused."""
    if not is_affine:
        return None, None
    weight = Tensor.ones(*shape).contiguous().requires_grad_()
    bias = Tensor.zeros(*shape).contiguous().requires_grad_()
    return weight, bias


def _check_channels(name: str, x: Tensor, channels: int) -> None:
    check_input(x, name)
    if x.ndim < 2 or x.shape[1] != channels:
        raise UserError(
            f"{name}: input {describe_shape(x.shape)}: accepted is (batch, {channels}, ...)"
        )


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is dtypes.float64 else x.float()


# Statistics are computed after this many updates. Otherwise a graph of all updates would grow, with
# all inputs in memory.
UPDATES_AT_ONCE = 16


class BatchNorm(Layer):
    """Normalisation of each channel (axis 1) over the batch and all other axes.

    In training, or without running statistics, it uses mean and biased variance of the batch. In
    training it also updates the running statistics: r = (1 - momentum) r + momentum s, where s has
    the unbiased variance. Otherwise it uses the running statistics. Shapes: input (batch, sz, ...).
    Source: Ioffe and Szegedy, "Batch Normalization", 2015.

    Examples:
        >>> layer = nn.BatchNorm(2)
        >>> layer(Tensor([[1.0, 2.0], [3.0, 4.0]])).shape
        (2, 2)
    """

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ) -> None:
        self.sz = count_of(sz, "BatchNorm: sz", 1)
        self.eps = eps
        self.affine = affine
        self.track_running_stats = track_running_stats
        number = weak_number(momentum)
        if number is None or isinstance(number, bool) or not 0 <= number <= 1:
            text = f"BatchNorm: momentum: got {momentum!r}, accepted are numbers from 0 to 1"
            raise argument_error(number, int | float, text)
        self.momentum = momentum
        self.weight, self.bias = _affine((self.sz,), affine)
        self.num_batches_tracked = Tensor.zeros(dtype=dtypes.int32).contiguous()
        self._updates = 0
        if track_running_stats:
            self.running_mean = Tensor.zeros(self.sz).contiguous().requires_grad_(False)
            self.running_var = Tensor.ones(self.sz).contiguous().requires_grad_(False)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and variance of each channel for normalising `x`, both of shape (sz,).

        Statistics of a batch are at least float32: in float16, the square of 256 overflows.
        """
        if self.track_running_stats and not x.training:
            return self.running_mean, self.running_var
        axes = self._reduced_axes(x)
        wide = _wide(x)
        mean = wide.mean(axes)
        shape = (1, self.sz, *(1,) * (x.ndim - 2))
        return mean, (wide - mean.reshape(shape)).square().mean(axes)

    def __call__(self, x: Tensor) -> Tensor:
        _check_channels("BatchNorm", x, self.sz)
        mean, variance = self.calc_stats(x)
        if self.track_running_stats and x.training:
            self._track(x, mean.detach(), variance.detach())
        return x.batchnorm(self.weight, self.bias, mean, (variance + self.eps).rsqrt())

    def _track(self, x: Tensor, mean: Tensor, variance: Tensor) -> None:
        unbiased = variance * self._bessel_factor(x)
        share = 1 - self.momentum
        moved_mean = self.running_mean * share + mean * self.momentum
        moved_variance = self.running_var * share + unbiased * self.momentum
        self.running_mean.assign(moved_mean.cast(self.running_mean.dtype))
        self.running_var.assign(moved_variance.cast(self.running_var.dtype))
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        self._updates += 1
        if self._updates % UPDATES_AT_ONCE == 0:
            self.num_batches_tracked.realize(self.running_mean, self.running_var)

    def _reduced_axes(self, x: Tensor) -> tuple[int, ...]:
        return tuple(axis for axis in range(x.ndim) if axis != 1)

    def _bessel_factor(self, x: Tensor) -> Tensor | float:
        """Return n / (n - 1) for n elements of a channel: this factor makes a variance unbiased."""
        axes = self._reduced_axes(x)
        count = product(x.shape[axis] for axis in axes)
        if isinstance(count, int):
            return count / max(count - 1, 1)
        elements = count_along(x, axes, dtypes.float32)
        return elements / (elements - 1).maximum(1)


BatchNorm2d = BatchNorm
BatchNorm3d = BatchNorm


class GroupNorm(Layer):
    """Normalisation of each sample over groups of channels (axis 1) and all axes after it.

    Shapes: input (batch, num_channels, ...), weight and bias (num_channels,). Source: Wu and He,
    "Group Normalization", 2018.

    Examples:
        >>> nn.GroupNorm(1, 2, eps=0.0)(Tensor([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        self.num_groups = count_of(num_groups, "GroupNorm: num_groups", 1)
        self.num_channels = count_of(num_channels, "GroupNorm: num_channels", 1)
        if self.num_channels % self.num_groups:
            raise UserError(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.eps = eps
        self.affine = affine
        self.weight, self.bias = _affine((self.num_channels,), affine)

    def __call__(self, x: Tensor) -> Tensor:
        _check_channels("GroupNorm", x, self.num_channels)
        share = self.num_channels // self.num_groups
        grouped = x.unflatten(1, (self.num_groups, share)).flatten(2)
        normal = grouped.layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None or self.bias is None:
            return normal
        shape = (1, self.num_channels, *(1,) * (x.ndim - 2))
        return normal * self.weight.reshape(shape) + self.bias.reshape(shape)


class InstanceNorm(GroupNorm):
    """Normalisation of each channel of each sample: a `GroupNorm` with groups of one channel.

    Source: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization", 2016.

    Examples:
        >>> nn.InstanceNorm(1, eps=0.0)(Tensor([[[1.0, 3.0]]])).tolist()
        [[[-1.0, 1.0]]]
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(num_features, num_features, eps, affine)
        self.num_features = self.num_channels


class LayerNorm(Layer):
    """Normalisation over the last axes, which have the sizes `normalized_shape`.

    Weight and bias have this shape. Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    Examples:
        >>> nn.LayerNorm(2, eps=0.0)(Tensor([[1.0, 3.0]])).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
    ) -> None:
        several = normalized_shape if isinstance(normalized_shape, tuple | list) else None
        sizes = (normalized_shape,) if several is None else several
        if not sizes:
            raise UserError("LayerNorm: normalized_shape: got none, accepted are one size or more")
        self.normalized_shape = tuple(
            count_of(size, "LayerNorm: normalized_shape", 1) for size in sizes
        )
        self.axis = tuple(range(-len(self.normalized_shape), 0))
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight, self.bias = _affine(self.normalized_shape, elementwise_affine)

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "LayerNorm")
        if x.shape[-len(self.normalized_shape) :] != self.normalized_shape:
            raise UserError(
                f"LayerNorm: input {describe_shape(x.shape)}: accepted is a shape that ends in "
                f"{describe_shape(self.normalized_shape)}"
            )
        normal = x.layernorm(self.axis, self.eps)
        if self.weight is None or self.bias is None:
            return normal
        return normal * self.weight + self.bias


class LayerNorm2d(LayerNorm):
    """A `LayerNorm` over the channels (axis 1) of images: (batch, channels, rows, columns).

    Examples:
        >>> nn.LayerNorm2d(3)(Tensor.zeros(1, 3, 2, 2)).shape
        (1, 3, 2, 2)
    """

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "LayerNorm2d")
        if x.ndim != 4:
            raise UserError(
                f"LayerNorm2d: input {describe_shape(x.shape)}: accepted are 4 axes: "
                "(batch, channels, rows, columns)"
            )
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Layer):
    """RMS normalisation: x / sqrt(mean(x^2) + eps) over the last axis, times a learned weight.

    The last axis has size `dim`. It is computed in at least float32, and rounded to the type of `x`
    before multiplying by the weight. Source: Zhang and Sennrich, "Root Mean Square Layer
    Normalization", 2019.

    Examples:
        >>> nn.RMSNorm(2, eps=0.0)(Tensor([[3.0, 3.0]])).tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        self.dim = count_of(dim, "RMSNorm: dim", 1)
        self.eps = eps
        self.weight = Tensor.ones(self.dim).contiguous().requires_grad_()

    def __call__(self, x: Tensor) -> Tensor:
        check_input(x, "RMSNorm")
        if not x.ndim or x.shape[-1] != self.dim:
            raise UserError(
                f"RMSNorm: input {describe_shape(x.shape)}: accepted is a last axis of {self.dim}"
            )
        wide = _wide(x)
        scale = (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (wide * scale).cast(x.dtype) * self.weight
