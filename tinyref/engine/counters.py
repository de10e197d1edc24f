"""What the engine has done since the last reset: kernels, operations, bytes, seconds."""

from __future__ import annotations

from tinyref.device import memory


class _GlobalCounters:
    """Totals over all devices; `mem_used` is what is allocated now, the others only grow.

    kernel_count: kernels launched. global_ops: arithmetic operations, as the kernels' ASTs count
    them. global_mem: bytes that kernels load and store at least once. time_sum_s: seconds in
    kernels that were timed (DEBUG of 2 and more).

    Examples:
        >>> from tinyref import GlobalCounters
        >>> x, before = Tensor([1, 2]).realize(), GlobalCounters.kernel_count
        >>> _ = (x + 1).realize()
        >>> GlobalCounters.kernel_count - before
        1
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Sets all totals to zero."""
        self.kernel_count = 0
        self.global_ops = 0
        self.global_mem = 0
        self.time_sum_s = 0.0

    @property
    def mem_used(self) -> int:
        """Bytes allocated now on all devices."""
        return sum(memory.now.values())

    def __repr__(self) -> str:
        return (
            f"GlobalCounters(kernel_count={self.kernel_count}, global_ops={self.global_ops}, "
            f"global_mem={self.global_mem}, time_sum_s={self.time_sum_s}, "
            f"mem_used={self.mem_used})"
        )


GlobalCounters = _GlobalCounters()
