"""The level `tensor` on devices with the types of real accelerators."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accelerators import ACCELERATORS, WORDS
from run_rows import failures

from tinyref import Tensor
from tinyref.errors import TinyrefError
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest

NAMES = [accelerator.__name__ for accelerator in ACCELERATORS]
# A float64 whose bits are read, where 64-bit integers are pairs of words.
# These read the bits of floats.
_READING_BITS = ("argsort", "fmod", "mod", "sort", "std", "std_mean", "topk", "var", "var_mean")
REFUSED = {
    "NoInt64": {
        f"tensor.{name}.float64.forward:0": "64-bit integers are pairs of uint32 on this device"
        for name in _READING_BITS
    }
}


def unexpected(name: str, cases: list[Case]) -> dict[str, str]:
    """Return the failures of a device without the refusals that are known."""
    problems = failures(DeviceUnderTest(f"accelerators:{name}"), cases)
    known = REFUSED.get(name, {})
    return {id: text for id, text in problems.items() if known.get(id, " is new") not in text}


def tensor_cases(start: int = 0, every: int = 1) -> list[Case]:
    return list(catalogue.cases(Profile.QUICK, "tensor"))[start::every]


@pytest.mark.long
@pytest.mark.parametrize("every", [100, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_rows_of_tensors_pass(number: int, every: int) -> None:
    assert unexpected(NAMES[number], tensor_cases(number % every, every)) == {}


@pytest.mark.long
def test_a_device_without_grid_and_threads_gets_no_launch_index() -> None:
    cases = list(catalogue.cases(Profile.QUICK, "memory.order.copy_out*,kernel.program.loop"))
    assert len(cases) > 3
    assert unexpected("Scalars", cases) == {}


def test_a_case_that_fails_is_seen() -> None:
    (case,) = (case for case in tensor_cases() if case.id == "tensor.sort.float64.forward:0")
    assert unexpected("NoInt64", [case]) == {}
    assert unexpected("EverythingEmulated", [case]) == {}, "float64 is not declared"
    (case,) = (case for case in tensor_cases() if case.id == "tensor.rand_like.float32.forward:0")
    required = replace(case, needs=replace(case.needs, dtypes=WORDS))
    assert "no uint64" in unexpected("WordsWithoutWide", [required])[case.id]


def test_large_positions_are_rounded_once_to_bfloat16() -> None:
    """Both sides of a tie at 2**24 + 2**16, where float32 alone would round twice."""
    start = 2**25 + 2**17 - 1
    values = Tensor.arange(start, start + 3, device="accelerators:EverythingEmulated")
    assert values.cast("bfloat16").tolist() == [2.0**25, 2.0**25, 2.0**25 + 2**18]


def test_types_that_are_absent_are_named() -> None:
    with pytest.raises(TinyrefError, match="the device has no int8: accepted are bool, int32"):
        (Tensor([1, 2], dtype="int8", device="accelerators:WordsAlone") + 1).numpy()
