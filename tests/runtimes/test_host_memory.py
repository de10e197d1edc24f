"""Memory of the host devices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.host.memory import ALIGNMENT, HostAllocator, address_of


@pytest.fixture
def allocator() -> HostAllocator:
    return HostAllocator("TEST")


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, 1_000_003])
def test_pieces_have_their_size_and_are_aligned(allocator: HostAllocator, nbytes: int) -> None:
    handle = allocator.allocate(nbytes)
    assert handle.shape == (nbytes,)
    assert handle.dtype.name == "uint8"
    # numpy gives no true address for an array without elements.
    assert nbytes == 0 or address_of(handle) % ALIGNMENT == 0


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 2), (0, 9), (8, 1), (3, -1)])
def test_a_view_stays_inside(allocator: HostAllocator, offset: int, nbytes: int) -> None:
    with pytest.raises(UserError, match="are outside the memory's 8"):
        allocator.view(allocator.allocate(8), offset, nbytes)


def test_copies_stay_inside(allocator: HostAllocator) -> None:
    handle = allocator.allocate(4)
    with pytest.raises(UserError, match="5 bytes do not fit into 4"):
        allocator.copy_in(handle, memoryview(b"abcde"))
    with pytest.raises(UserError, match="asked for 5 bytes of 4"):
        allocator.copy_out(memoryview(bytearray(5)), handle)


@pytest.mark.parametrize("nbytes", [2**62, 2**63 - 1, 2**70])
def test_too_much_memory_is_an_error_that_says_how_much(
    allocator: HostAllocator, nbytes: int
) -> None:
    with pytest.raises(DeviceError, match=f"TEST: cannot allocate {nbytes} bytes"):
        allocator.allocate(nbytes)
    with pytest.raises(UserError, match="nbytes is -1, accepted is 0 and above"):
        allocator.allocate(-1)


def test_the_address_of_any_array_is_the_one_that_numpy_says() -> None:
    fixed = np.arange(4)
    fixed.flags.writeable = False
    arrays = [
        np.arange(4, dtype=np.uint8),
        np.arange(4, dtype=ml_dtypes.bfloat16),
        fixed,
        np.empty(0),
    ]
    for array in arrays:
        for part in (array, array[1:]):
            assert address_of(part) == part.ctypes.data or not part.size
