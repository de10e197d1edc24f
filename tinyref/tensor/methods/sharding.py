"""Tensors that lie on several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tinyref.errors import UserTypeError
from tinyref.lazy.shards import canonical_devices, even_sizes
from tinyref.tensor.arguments import axis_of, fixed
from tinyref.tensor.methods.losses import Losses
from tinyref.uops.payload import ShardArg


class Sharding(Losses):
    """A tensor on several devices computes what it would on one, each device its part.

    Its device is a tuple of names. Operations on tensors with the same devices run on each device
    with what that device has; where they need elements of another, those are copied, and sums over
    the axis that was cut come together on every device. Gradients lie as their tensors do.
    """

    __slots__ = ()

    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """The same elements on several devices: cut along `axis`, or all on each without one.

        A size that the number of devices does not divide gives parts that differ by one, the
        larger ones first. Raises `UserError` for an axis that does not exist, for a size that is
        symbolic, and for devices that are unknown or named twice.

        Examples:
            >>> Tensor([1, 2, 3, 4]).shard(("CPU:0", "CPU:1"), axis=0).device
            ('CPU', 'CPU:1')
        """
        if not isinstance(devices, tuple | list):
            raise UserTypeError(
                f"shard: devices is {devices!r}, accepted is a tuple of names such as "
                f"('CPU:0', 'CPU:1')"
            )
        return self._in_layout(self._even_layout(canonical_devices(devices), axis))

    def shard_(self, devices: tuple[str, ...], axis: int | None = None) -> Self:
        """Moves this tensor itself to several devices, as `shard` does; returns it.

        Examples:
            >>> x = Tensor([1, 2, 3, 4])
            >>> x.shard_(("CPU:0", "CPU:1"), axis=0).tolist()
            [1, 2, 3, 4]
        """
        return self._move(lambda: self.shard(devices, axis))

    def _even_layout(self, devices: Sequence[str], axis: int | None) -> ShardArg:
        if axis is None:
            return ShardArg(tuple(devices))
        place = axis_of(axis, self.ndim, "shard")
        (size,) = fixed((self.shape[place],), "shard")
        return ShardArg(tuple(devices), place, even_sizes(size, len(devices)))
