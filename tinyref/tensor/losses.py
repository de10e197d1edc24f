"""Losses, normalisation, attention, and the switches of training and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Self, TypeVar, cast

from tinyref.algebra.symbolic import describe, describe_shape
from tinyref.dtype import dtypes
from tinyref.errors import UserError, UserTypeError, argument_error
from tinyref.tensor.arguments import (
    axes_of,
    axis_of,
    broadcast,
    fixed,
    integer,
    require_one_of,
    wrong_type,
)
from tinyref.tensor.contraction import Contraction, matrix_product
from tinyref.tensor.core import (
    GradientSwitch,
    Mode,
    SwitchBlock,
    as_tensor,
    broadcast_to,
    constant_like,
    no_grad_mode,
    reshape,
    training,
    training_mode,
)
from tinyref.tensor.elementwise import operand, result_dtype, scaled, widened
from tinyref.tensor.indexing import Indexing
from tinyref.tensor.literals import weak_number
from tinyref.tensor.reduction import Axes, elements_at

T = TypeVar("T", bound="Losses")


_REDUCTIONS = ("mean", "sum", "none")
# The least logarithm in binary cross-entropy, as in torch: a certain mistake costs 100.
_LEAST_LOGARITHM = -100.0


def _check_mode(mode: object, name: str) -> None:
    if not isinstance(mode, bool):
        raise UserTypeError(f"{name} {mode!r}: accepted are True and False")


class Losses(Contraction, Indexing):
    """Losses, normalisations, attention and training modes.

    float16 and bfloat16 are computed in float32 and rounded once. reduction: "mean", "sum", or
    "none" for each single loss. Scores of classes are along the axis after the batch, or the only
    axis. Classes are integers, and a class that does not exist gives NaN.
    """

    __slots__ = ()

    training: ClassVar[bool] = cast(bool, training_mode)
    """The training mode: if True, dropout drops and batch normalisation learns."""
    no_grad: ClassVar[GradientSwitch] = cast(GradientSwitch, no_grad_mode)
    """A block, a decorator or a switch without gradients."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Mode.classes.append(cls)

    @staticmethod
    def train(mode: bool = True) -> SwitchBlock:
        """Set training mode within a block or a decorated function: `with Tensor.train(): ...`.

        Examples:
            >>> with Tensor.train():
            ...     Tensor.training
            True
        """
        _check_mode(mode, "train: mode")
        return SwitchBlock(training, mode, "train")

    @staticmethod
    def test(mode: bool = True) -> GradientSwitch:
        """Record no gradients within a block or a decorated function: `with Tensor.test(): ...`.

        The training mode does not change: see `train`. Within `test(False)` gradients are recorded.

        Examples:
            >>> x = Tensor([2.0], requires_grad=True)
            >>> with Tensor.test():
            ...     y = x * x
            >>> y.requires_grad
            False
        """
        _check_mode(mode, "test: mode")
        return GradientSwitch(not mode, "test")

    def sequential(self, ll: Sequence[Callable[[Self], Self]]) -> Self:
        """Apply the functions of `ll` to this tensor, one after the other.

        Examples:
            >>> Tensor([1.0, -1.0]).sequential([Tensor.relu, Tensor.neg]).tolist()
            [-1.0, -0.0]
        """
        result = self
        if not isinstance(ll, Iterable):
            raise wrong_type("sequential: ll", ll, "is a list")
        for number, layer in enumerate(ll):
            if not callable(layer):
                raise wrong_type(f"sequential: item {number}", layer, "are functions")
            result = layer(result)
        return result

    # Normalisation

    def layernorm(self, axis: Axes = -1, eps: float = 1e-5) -> Self:
        """Normalise to mean 0 and variance 1 along `axis`: (x - mean) / sqrt(variance + eps).

        The variance divides by the number of elements. Source: Ba, Kiros and Hinton, "Layer
        Normalization", 2016.

        Examples:
            >>> Tensor([[1.0, 3.0]]).layernorm(eps=0.0).tolist()
            [[-1.0, 1.0]]
        """
        axes = axes_of(axis, self.ndim, "layernorm")
        operand(self, eps, "layernorm: eps")
        wide = widened(self, "layernorm")
        distance = wide.sub(wide.mean(axes, keepdim=True))
        variance = distance.square().mean(axes, keepdim=True)
        return distance.mul(variance.add(eps).rsqrt()).cast(result_dtype(self))

    def batchnorm(
        self,
        weight: Self | None,
        bias: Self | None,
        mean: Self,
        invstd: Self,
        axis: int | Sequence[int] = 1,
    ) -> Self:
        """Return (x - mean) * weight * invstd + bias, where invstd is 1 / sqrt(variance + eps).

        Each argument has one element for each position along `axis`. Source: Ioffe and Szegedy,
        "Batch Normalization", 2015.

        Examples:
            >>> x = Tensor([[1.0], [3.0]])
            >>> x.batchnorm(None, None, mean=Tensor([2.0]), invstd=Tensor([0.5])).tolist()
            [[-0.5], [0.5]]
        """
        axes = axes_of(axis, self.ndim, "batchnorm")
        sizes = tuple(self.shape[number] for number in axes)
        shape = tuple(size if number in axes else 1 for number, size in enumerate(self.shape))

        def reshape_statistic(tensor: Self, name: str) -> Self:
            as_tensor(self, tensor, f"batchnorm: {name}")
            if tensor.shape not in (sizes, shape):
                raise UserError(
                    f"batchnorm: {name} {describe_shape(tensor.shape)}: "
                    f"accepted is {describe_shape(sizes)}"
                )
            return reshape(tensor, shape)

        result = widened(self, "batchnorm").sub(reshape_statistic(mean, "mean"))
        if weight is not None:
            result = result.mul(reshape_statistic(weight, "weight"))
        result = result.mul(reshape_statistic(invstd, "invstd"))
        if bias is not None:
            result = result.add(reshape_statistic(bias, "bias"))
        return result.cast(result_dtype(self))

    def dropout(self, p: float = 0.5) -> Self:
        """Set each element to 0 with probability `p`, and divide the others by 1 - p.

        Outside of training it does nothing. Source: Srivastava et al., "Dropout", 2014.

        Examples:
            >>> Tensor([1.0, 2.0]).dropout(0.5).tolist()  # outside of training nothing is dropped
            [1.0, 2.0]
        """
        share = weak_number(p)
        if share is None or isinstance(share, bool) or not 0 <= share <= 1:
            raise argument_error(
                share, int | float, f"dropout: p {p!r}: accepted is a number from 0 to 1"
            )
        if not self.dtype.is_float:
            raise UserTypeError(f"dropout: got {self.dtype.name}, accepted are floats")
        training_mode.settle()
        if not self.training or p == 0:
            return self
        if p == 1:
            return broadcast_to(constant_like(self, False, dtypes.bool), self.shape).where(self, 0)
        drawn = self.rand(*self.shape, device=self.device, dtype=dtypes.float32, contiguous=False)
        # The mask is stored: the gradient needs the same mask.
        mask = drawn.ge(p).contiguous()
        return mask.where(scaled(self, 1 / (1 - p)), 0)

    # Losses

    def _check_loss(self, other: Self, reduction: str, smoothing: float, name: str) -> None:
        require_one_of(reduction, _REDUCTIONS, f"{name}: reduction")
        if not 0 <= smoothing <= 1:
            raise UserError(f"{name}: label_smoothing {smoothing}: accepted is 0 to 1")
        as_tensor(self, other, f"{name}: Y")

    def _check_pairs(self, other: Self, name: str) -> None:
        if self.shape != other.shape:
            raise UserError(
                f"{name}: shapes {describe_shape(self.shape)} and {describe_shape(other.shape)}: "
                f"they must be equal"
            )

    def binary_crossentropy(self, Y: Self, reduction: str = "mean") -> Self:  # noqa: N803
        """Return -(Y log x + (1 - Y) log(1 - x)) for probabilities x. Logarithms are at least -100.

        Examples:
            >>> round(Tensor([0.5]).binary_crossentropy(Tensor([1.0])).item(), 4)
            0.6931
        """
        self._check_loss(Y, reduction, 0, "binary_crossentropy")
        self._check_pairs(Y, "binary_crossentropy")
        x = widened(self, "binary_crossentropy")
        y = widened(Y, "binary_crossentropy")
        losses = limited_log(x).mul(y).add(limited_log(x.sub(1).neg()).mul(y.sub(1).neg()))
        return mean_or_sum(losses.neg(), reduction).cast(result_dtype(self))

    def binary_crossentropy_logits(
        self,
        Y: Self,  # noqa: N803
        reduction: str = "mean",
        pos_weight: Self | None = None,
    ) -> Self:
        """Return `binary_crossentropy` of sigmoid(x), without overflow.

        It is pos_weight * Y * softplus(-x) + (1 - Y) * softplus(x). `pos_weight` broadcasts to the
        shape of x.

        Examples:
            >>> round(Tensor([0.0]).binary_crossentropy_logits(Tensor([1.0])).item(), 4)
            0.6931
        """
        name = "binary_crossentropy_logits"
        self._check_loss(Y, reduction, 0, name)
        self._check_pairs(Y, name)
        x, y = widened(self, name), widened(Y, name)
        positive = y
        if pos_weight is not None:
            as_tensor(self, pos_weight, f"{name}: pos_weight")
            if broadcast([self.shape, pos_weight.shape], f"{name}: pos_weight") != self.shape:
                raise UserError(
                    f"{name}: pos_weight {describe_shape(pos_weight.shape)}: accepted is a shape "
                    f"that broadcasts to {describe_shape(self.shape)}"
                )
            positive = y.mul(widened(pos_weight, name))
        losses = positive.mul(x.neg().softplus()).add(y.neg().add(1).mul(x.softplus()))
        return mean_or_sum(losses, reduction).cast(result_dtype(self))

    def cross_entropy(
        self,
        Y: Self,  # noqa: N803
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Self:
        """Return -sum(Y log softmax(x)) over the classes, which are on axis 1 or the only axis.

        Y: classes in the shape of x without that axis, or probabilities in the shape of x.
        `label_smoothing` is the share of Y that is spread evenly over all classes (Szegedy et al.,
        "Rethinking the Inception Architecture", 2016).

        Examples:
            >>> round(Tensor([[0.0, 0.0]]).cross_entropy(Tensor([1])).item(), 4)
            0.6931
        """
        name = "cross_entropy"
        self._check_loss(Y, reduction, label_smoothing, name)
        axis = self._class_axis(name)
        if Y.dtype.is_int:
            labels = self._labels(Y, axis, name)
            losses = self._class_losses(labels, axis, label_smoothing, name)
        else:
            self._check_pairs(Y, name)
            classes = fixed((self.shape[axis],), name)[0]
            spread = widened(Y, name)
            if label_smoothing:
                spread = spread.mul(1 - label_smoothing).add(label_smoothing / classes)
            logarithms = widened(self, name).log_softmax(axis)
            losses = logarithms.mul(spread).sum(axis).neg()
        return mean_or_sum(losses, reduction).cast(result_dtype(self))

    def _class_axis(self, name: str) -> int:
        if not self.ndim:
            raise UserError(f"{name}: a tensor without axes has no classes")
        return 0 if self.ndim == 1 else 1

    def _labels(self, labels: Self, axis: int, name: str) -> Self:
        """Return the labels with a new axis of size 1 at the axis of the classes."""
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        if not labels.dtype.is_int:
            raise UserTypeError(f"{name}: classes of {labels.dtype.name}: accepted are integers")
        if labels.shape != shape:
            raise UserError(
                f"{name}: classes of shape {describe_shape(labels.shape)}: "
                f"accepted is {describe_shape(shape)}"
            )
        return labels.unsqueeze(axis)

    def _is_a_class(self, axis: int, labels: Self) -> Self:
        """Return True where a label is a class that exists."""
        return labels.ge(0).bitwise_and(labels.lt(fixed((self.shape[axis],), "classes")[0]))

    def _class_losses(self, labels: Self, axis: int, smoothing: float, name: str) -> Self:
        """Return -log softmax(x)[class] for each label.

        It is computed as log(sum(e ** (x - max))) - (x[class] - max), without cancellation.
        """
        wide = widened(self, name)
        largest = wide.detach().max(axis, keepdim=True)
        logarithm = wide.sub(largest).exp().sum(axis, keepdim=True).log()
        losses = logarithm.sub(elements_at(wide, axis, labels, name).sub(largest))
        if smoothing:
            even = logarithm.sub(wide.sub(largest).mean(axis, keepdim=True))
            losses = losses.mul(1 - smoothing).add(even.mul(smoothing))
        return self._is_a_class(axis, labels).where(losses, math.nan).squeeze(axis)

    def nll_loss(
        self,
        Y: Self,  # noqa: N803
        weight: Self | None = None,
        ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> Self:
        """Return -x[class] for logarithms of probabilities x, with classes as in `cross_entropy`.

        weight: a factor for each class. The mean divides by the sum of the factors. Elements of
        the class `ignore_index` give 0 and do not count.

        Examples:
            >>> Tensor([[-1.0, -2.0]]).nll_loss(Tensor([1])).item()
            2.0
        """
        name = "nll_loss"
        self._check_loss(Y, reduction, 0, name)
        axis = self._class_axis(name)
        labels = self._labels(Y, axis, name)
        wide = widened(self, name)
        factors = self._class_weights(labels, weight, axis, name).cast(wide.dtype)
        losses = elements_at(wide, axis, labels, name).neg().mul(factors)
        losses = self._is_a_class(axis, labels).where(losses, math.nan)
        counted = None
        if ignore_index is not None:
            counted = labels.ne(integer(ignore_index, f"{name}: ignore_index"))
        result = reduce_weighted(losses, factors, counted, axis, reduction)
        return result.cast(result_dtype(self))

    def _class_weights(self, labels: Self, weight: Self | None, axis: int, name: str) -> Self:
        if weight is None:
            return broadcast_to(constant_like(self, 1, result_dtype(self)), labels.shape)
        as_tensor(self, weight, f"{name}: weight")
        if weight.shape != (self.shape[axis],):
            raise UserError(
                f"{name}: weight {describe_shape(weight.shape)}: accepted is a factor for each of "
                f"{describe(self.shape[axis])} classes"
            )
        shape = [1] * axis + [-1] + [1] * (self.ndim - axis - 1)
        return elements_at(weight.reshape(tuple(shape)), axis, labels, name)

    def sparse_categorical_crossentropy(
        self,
        Y: Self,  # noqa: N803
        ignore_index: int = -1,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> Self:
        """Return `cross_entropy` for classes along the last axis, without those of `ignore_index`.

        Examples:
            >>> logits = Tensor([[0.0, 0.0]])
            >>> round(logits.sparse_categorical_crossentropy(Tensor([1])).item(), 4)
            0.6931
        """
        name = "sparse_categorical_crossentropy"
        self._check_loss(Y, reduction, label_smoothing, name)
        self._class_axis(name)
        axis = axis_of(-1, self.ndim, name)
        labels = self._labels(Y, axis, name)
        losses = self._class_losses(labels, axis, label_smoothing, name).unsqueeze(axis)
        ones = broadcast_to(constant_like(losses, 1, losses.dtype), losses.shape)
        counted = labels.ne(integer(ignore_index, f"{name}: ignore_index"))
        result = reduce_weighted(losses, ones, counted, axis, reduction)
        return result.cast(result_dtype(self))

    # Attention

    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        attn_mask: Self | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        enable_gqa: bool = False,
    ) -> Self:
        """Return softmax(x key' / sqrt(d)) value, where d is the last size of x and key.

        Shapes: x is (..., queries, d), key (..., keys, d), value (..., keys, e). Leading axes
        broadcast. attn_mask: bools, False for a hidden key, or floats to add. It broadcasts to
        (..., queries, keys). is_causal: query i sees the keys up to i. A query that sees no key
        gives zeros. dropout_p: the dropout of the weights in training. enable_gqa: several
        neighbouring query heads on axis -3 share one key and value head. Sources: Vaswani et al.,
        "Attention Is All You Need", 2017; Ainslie et al., "GQA", 2023.

        Examples:
            >>> query, key = Tensor([[[0.0, 0.0]]]), Tensor([[[1.0, 2.0], [3.0, 4.0]]])
            >>> query.scaled_dot_product_attention(key, key).tolist()  # equal weights: the mean
            [[[2.0, 3.0]]]
        """
        name = "scaled_dot_product_attention"
        self._check_attention(key, value, attn_mask, is_causal, name)
        if enable_gqa:
            # Widen first: so gradients of shared heads are summed before they are rounded.
            key = self._shared_heads(widened(key, name), name)
            value = self._shared_heads(widened(value, name), name)
        target = result_dtype(self)
        wide = widened(self, name)
        scores = matrix_product(wide, key.transpose(-2, -1), None, name)
        scores = scores.mul(1 / math.sqrt(fixed(self.shape[-1:], name)[0]))
        if is_causal:
            attn_mask = self._causal(self.shape[-2], key.shape[-2])
        if attn_mask is not None and attn_mask.dtype.is_bool:
            scores = attn_mask.where(scores, -math.inf)
        elif attn_mask is not None:
            scores = scores.add(attn_mask)
        largest = scores.detach().max(-1, keepdim=True)
        base = largest.eq(-math.inf).where(0, largest)
        powers = scores.sub(base).exp()
        total = powers.sum(-1, keepdim=True)
        weights = powers.div(total.eq(0).where(1, total)).dropout(dropout_p)
        return matrix_product(weights, value, None, name).cast(target)

    def _shared_heads(self, heads: Self, name: str) -> Self:
        """Repeat the heads on axis -3, so that there is one for each head of this tensor."""
        if min(self.ndim, heads.ndim) < 3:
            raise UserError(
                f"{name}: queries {describe_shape(self.shape)} and keys or values "
                f"{describe_shape(heads.shape)}: enable_gqa accepts at least 3 axes"
            )
        queries, shared = fixed((self.shape[-3], heads.shape[-3]), name)
        if not shared or queries % shared:
            raise UserError(
                f"{name}: {queries} heads of queries and {shared} of keys or values: enable_gqa "
                f"accepts a multiple"
            )
        return heads.repeat_interleave(queries // shared, -3)

    def _causal(self, queries: object, keys: object) -> Self:
        """Return a mask (queries, keys): True where the key is not after the query."""
        rows = self.arange(queries, device=self.device)  # type: ignore[arg-type]
        columns = self.arange(keys, device=self.device)  # type: ignore[arg-type]
        return rows.unsqueeze(1).ge(columns)

    def _check_attention(
        self, key: Self, value: Self, mask: Self | None, is_causal: bool, name: str
    ) -> None:
        for argument, tensor in (("key", key), ("value", value)):
            as_tensor(self, tensor, f"{name}: {argument}")
        if min(self.ndim, key.ndim, value.ndim) < 2 or self.shape[-1] != key.shape[-1]:
            raise UserError(
                f"{name}: queries {describe_shape(self.shape)} and keys "
                f"{describe_shape(key.shape)}: the last axes must be equal, with one in front"
            )
        if key.shape[-2] != value.shape[-2]:
            raise UserError(
                f"{name}: keys {describe_shape(key.shape)} and values "
                f"{describe_shape(value.shape)}: there must be one value for each key"
            )
        if mask is None:
            return
        as_tensor(self, mask, f"{name}: attn_mask")
        if is_causal:
            raise UserError(f"{name}: attn_mask and is_causal: accepted is one of them")
        if not (mask.dtype.is_bool or mask.dtype.is_float):
            raise UserTypeError(
                f"{name}: attn_mask of {mask.dtype.name}: accepted are bool and floats"
            )


def mean_or_sum(x: T, reduction: str) -> T:
    """Return the mean, the sum, or the losses themselves."""
    if reduction == "none":
        return x
    return x.mean() if reduction == "mean" else x.sum()


def limited_log(x: T) -> T:
    """Return the logarithm, but at least `_LEAST_LOGARITHM`."""
    tiny = x.le(math.exp(_LEAST_LOGARITHM))
    # Take the logarithm of 1 there: the gradient would be 0 times infinity.
    return tiny.where(_LEAST_LOGARITHM, tiny.where(1, x).log())


def reduce_weighted(x: T, factors: T, counted: T | None, axis: int, reduction: str) -> T:
    """Reduce the counted losses. The mean is their sum over the sum of their factors."""
    losses = x
    if counted is not None:
        losses, factors = counted.where(x, 0), counted.where(factors, 0)
    if reduction == "mean":
        return losses.sum().div(factors.sum())
    return losses.squeeze(axis) if reduction == "none" else losses.sum()
