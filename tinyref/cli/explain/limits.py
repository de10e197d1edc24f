"""What a device can do at most, measured: to read the rates of kernels beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinyref.algebra.evaluate import value_of
from tinyref.config import Context
from tinyref.device import Buffer, Device
from tinyref.engine.accounting import estimate
from tinyref.engine.report import watching
from tinyref.errors import TinyrefError
from tinyref.lazy.shards import Place
from tinyref.runtimes.kernel import Kernel
from tinyref.schedule import Schedule
from tinyref.uops.node import UOp

# Sizes of a product of matrices and of a vector that is read and written; of an interpreter less.
_SIDE, _ELEMENTS = 512, 1 << 24
_SMALL_SIDE, _FEW_ELEMENTS = 32, 1 << 12
_REPEATS = 3


@dataclass(frozen=True)
class Limits:
    """Operations and bytes of a second, of the fastest of a few runs of one kernel each."""

    operations: float
    nbytes: float


@dataclass
class _Rates:
    """A watcher that keeps the best rates of all kernels that it sees."""

    operations: float = 0.0
    nbytes: float = 0.0

    def scheduled(self, outputs: Sequence[tuple[UOp, Place]], planned: Schedule) -> None:
        """Nothing is kept."""

    def ran(
        self, ast: UOp, kernel: Kernel, bindings: Mapping[str, int], seconds: float | None
    ) -> None:
        if not seconds:
            return
        amount = estimate(ast)
        self.operations = max(self.operations, value_of(amount.operations, bindings) / seconds)
        self.nbytes = max(self.nbytes, value_of(amount.nbytes, bindings) / seconds)

    def copied(self, target: Buffer, source: Buffer, seconds: float) -> None:
        """Copies are no kernels."""


def measured_limits(device: str) -> Limits | None:
    """The rates of a float32 matrix product and of a vector plus one; None where nothing runs."""
    try:
        capabilities = Device[device].capabilities
        if not capabilities.ops or not capabilities.keeps_values:
            return None
        return _measure(device, capabilities.is_interpreted)
    except TinyrefError:
        return None


def _measure(device: str, is_slow: bool) -> Limits:
    from tinyref.tensor import Tensor

    side, elements = (_SMALL_SIDE, _FEW_ELEMENTS) if is_slow else (_SIDE, _ELEMENTS)
    matrix = Tensor.ones(side, side, device=device).contiguous().realize()
    vector = Tensor.ones(elements, device=device).contiguous().realize()
    rates = _Rates()
    # The page is of the program, and the flags too; what is measured is no part of it.
    with Context(DEBUG=0, PROFILE=""), watching(rates):
        for repeat in range(_REPEATS):
            (matrix @ matrix + float(repeat)).realize()
            (vector + float(repeat + 1)).realize()
    return Limits(rates.operations, rates.nbytes)
