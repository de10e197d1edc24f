"""The table of kinds of data, and faults that escape the rows without a kind and not with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from run_rows import failed

from tinyref.dtype import DType, dtypes
from tinyref.interpret import Hooks, Interpreter
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref_spec import catalogue, data_kinds, device_under_test
from tinyref_spec.bits import Array
from tinyref_spec.data_kinds import KINDS, kinds_of, of_all_kinds
from tinyref_spec.kernel import reduces

I8, F32 = dtypes.int8, dtypes.float32

# --- the table ------------------------------------------------------------------------------------


def test_each_kind_is_what_it_says() -> None:
    arrays = {
        (kind.name, dtype): kind.array(dtype, 7)
        for kind in KINDS
        for dtype in (I8, F32)
        if kind.of(dtype)
    }
    assert arrays["wrapping", I8].tolist() == [127, 1, -128, 126, -127, 127, 64]
    assert arrays["all_largest", I8].tolist() == [127] * 7
    large = 2**17
    assert arrays["cancelling", F32].tolist()[:5] == [large, -large, 1, -large, large]
    assert np.signbit(arrays["negative_zeros", F32]).all()
    assert np.signbit(arrays["signed_zeros", F32]).tolist() == [0, 1, 1, 0, 0, 1, 0]
    assert arrays["subnormals", F32].view(np.uint32).tolist()[:3] == [1, 0x80000002, 3]
    nans = arrays["nan_payloads", F32]
    assert np.isnan(nans).tolist() == [0, 1, 0, 0, 1, 0, 0]
    assert nans.view(np.uint32).tolist()[4] == 0xFFC00002
    assert {3, 4, 5, 31, 32, 33} <= set(data_kinds._powers(I8).tolist())


@pytest.mark.parametrize("dtype", [*dtypes.floats], ids=lambda each: each.name)
def test_sums_are_exact_in_every_order(dtype: DType) -> None:
    for kind in kinds_of(dtype, "add"):
        values = kind.array(dtype, data_kinds.MAX_EXACT)
        orders = (values, values[::-1], np.sort(values), np.sort(values)[::-1])
        sums = []
        for order in orders:
            total = values[:1] * 0
            for value in order:
                with np.errstate(invalid="ignore"):
                    total = total + value
            sums.append(float(total[0]))
        assert len({str(abs(order)) for order in sums}) == 1, (kind.name, sums)


def test_kinds_are_chosen_by_type_and_op() -> None:
    names = [kind.name for kind in kinds_of(F32, "max")]
    assert names == ["negative_zeros", "all_equal", "cancelling", "subnormals", "signed_zeros"]
    assert "subnormals" not in [kind.name for kind in kinds_of(F32, "add", keeps_subnormals=False)]
    assert [kind.name for kind in kinds_of(dtypes.uint8, "mul")] == [
        "wrapping",
        "powers",
        "all_largest",
    ]
    assert of_all_kinds(dtypes.bool, 4).tolist() == [False, False, True, True]


# --- devices on which a kind shows ----------------------------------------------------------------


class FaultyBackend(TextBackend):
    """The interpreter, which loads wrong values or launches wrongly."""

    loads: Callable[[Array], Array] = staticmethod(lambda x: x)
    launch: type[InterpretedKernel] = InterpretedKernel

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"{__name__}:{type(self).__name__}"

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        program = super().load(entry, binary).program
        kernel = type(self).launch(self.name, program)
        hooks = Hooks(load=lambda access: type(self).loads(np.asarray(access.value)))
        kernel.interpreter = Interpreter(program, None, hooks)
        return kernel


class _Aligned(InterpretedKernel):
    """Takes what begins between two multiples of 16 bytes from the one before."""

    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        taken = [_aligned_down(buffer) for buffer in buffers]
        return super().__call__(taken, grid, group, variables, wait)


def _aligned_down(buffer: np.ndarray) -> np.ndarray:
    behind = buffer.ctypes.data % 16
    if not behind:
        return buffer
    whole = np.lib.stride_tricks.as_strided(buffer, (buffer.size + behind,), (1,))
    address = whole.__array_interface__
    address["data"] = (address["data"][0] - behind, False)
    array = np.asarray(_Memory(address, buffer))
    return array[: buffer.size]


@dataclasses.dataclass
class _Memory:
    __array_interface__: dict
    owner: np.ndarray


def _is_float(values: Array) -> bool:
    return values.dtype == np.float32


class Flushing(FaultyBackend):
    """Subnormals are zero, though it says that it keeps them."""

    loads = staticmethod(lambda x: np.where(np.abs(x) < 2.0**-126, x * 0, x) if _is_float(x) else x)


class WithoutNan(FaultyBackend):
    """A NaN is loaded as zero."""

    loads = staticmethod(lambda x: np.where(x != x, np.zeros((), x.dtype), x))


class ZerosPositive(FaultyBackend):
    """Zeros lose their signs."""

    loads = staticmethod(lambda x: x + np.zeros((), x.dtype) if _is_float(x) else x)


class ThroughFloat(FaultyBackend):
    """Integers come by way of float32."""

    loads = staticmethod(
        lambda x: x.astype(np.float32).astype(np.int64).astype(x.dtype) if x.dtype == "i4" else x
    )


class AlignedDown(FaultyBackend):
    """Buffers are taken to begin at multiples of 16 bytes."""

    launch = _Aligned


def shapes(op: str, dtype: str) -> str:
    """Return the cases of a row of reduces that have data of the table."""
    return f"kernel.reduce.{op}.{dtype}.*_over_*"


DEVICES = (
    (Flushing, "subnormals", shapes("add", "float32")),
    (WithoutNan, "nan_payloads", shapes("add", "float32")),
    (ZerosPositive, "negative_zeros", shapes("mul", "float32")),
    (ZerosPositive, "signed_zeros", shapes("mul", "float32")),
    (ThroughFloat, "powers", shapes("add", "int32")),
)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("device", "name", "query"), DEVICES, ids=[row[1] for row in DEVICES])
def test_a_fault_escapes_a_row_of_reduces_without_its_kind(
    device: type[FaultyBackend], name: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = reduces.kinds_of
    where = f"{__name__}:{device.__name__}"

    def only(*given: object) -> tuple[data_kinds.DataKind, ...]:
        return tuple(kind for kind in choose(*given) if kind.name == name)

    monkeypatch.setattr(reduces, "kinds_of", lambda *given: ())
    assert failed(query, where) == []
    monkeypatch.setattr(reduces, "kinds_of", only)
    assert failed(query, where)


def test_a_device_that_needs_aligned_buffers_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    where = f"{__name__}:AlignedDown"
    query = "kernel.form.int32"
    with monkeypatch.context() as patch:
        patch.setattr(device_under_test, "_unaligned_slots", lambda *given: frozenset())
        assert failed(query, where) == []
    assert failed(query, where)
    case = catalogue.find(f"{query}.two_outputs")
    details = case.run(device_under_test.DeviceUnderTest(where)).details
    assert details is not None
    assert "inputs, {}, [0, 1, 2, 3], before)" in details.script
