"""Test replays as command lists: the requests to a device that records launches."""

from collections.abc import Iterator

import numpy as np
import pytest
from recording_devices import RecordingBackend

from tinyref import Context, Tensor, TinyJit, Variable
from tinyref.errors import BackendError, DeviceError

DEVICE = "recording_devices:RecordingBackend"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    RecordingBackend.notes.clear()
    yield
    RecordingBackend.fails, RecordingBackend.offers = False, True


def tensor(*values: float, device: str = DEVICE) -> Tensor:
    return Tensor(np.float32(values), device=device).realize()


def two_kernels(x: Tensor) -> Tensor:
    return (x + 1).contiguous().realize() * 2


def calls(jitted, count: int) -> list[list[float]]:
    return [jitted(tensor(number, 10)).tolist() for number in range(count)]


def test_a_replay_is_one_call_of_a_list_that_is_recorded_once() -> None:
    jitted = TinyJit(two_kernels)
    assert calls(jitted, 4) == [[2, 22], [4, 22], [6, 22], [8, 22]]
    # Each call passes the first kernel another input, and the last kernel another output.
    replay = ["rebind 0 1", "rebind 1 0", "call 2"]
    assert sorted(RecordingBackend.notes[1:4]) == sorted(replay)
    assert RecordingBackend.notes[0] == "record 2"
    assert RecordingBackend.notes.count("record 2") == 1
    assert RecordingBackend.notes.count("call 2") == 2


def test_an_argument_that_is_as_before_is_not_bound_again() -> None:
    jitted = TinyJit(two_kernels)
    x = tensor(3, 4)
    for _ in range(5):
        assert jitted(x).tolist() == [8, 10]
    assert RecordingBackend.notes.count("rebind 0 1") <= 1


def test_one_kernel_is_launched_as_it_is() -> None:
    jitted = TinyJit(lambda x: x + 1)
    assert calls(jitted, 3) == [[1, 11], [2, 11], [3, 11]]
    assert RecordingBackend.notes == []


def test_the_flag_and_a_device_without_lists_launch_singly() -> None:
    with Context(JIT=2):
        assert calls(TinyJit(two_kernels), 3) == [[2, 22], [4, 22], [6, 22]]
    RecordingBackend.offers = False
    assert calls(TinyJit(two_kernels), 3) == [[2, 22], [4, 22], [6, 22]]
    assert RecordingBackend.notes == []


def test_a_copy_ends_a_list_of_its_devices_alone() -> None:
    # Two kernels before the copy, two after; kernels of the other device are in no list.

    @TinyJit
    def there_and_back(x: Tensor) -> Tensor:
        away = two_kernels(x).to("PYTHON")
        away = (away + 1).contiguous().realize() * 3
        return two_kernels(away.to(DEVICE))

    for number in range(4):
        result = there_and_back(tensor(number)).tolist()
        assert result == [(((number + 1) * 2 + 1) * 3 + 1) * 2]
    assert [note for note in RecordingBackend.notes if note[:2] == "re" and "cord" in note] == [
        "record 2",
        "record 2",
    ]


def test_variables_reach_the_launches_that_have_them_and_an_empty_launch_is_left_out() -> None:
    whole = tensor(1, 2, 3, 4)
    n = Variable("n", 0, 4)
    RecordingBackend.notes.clear()

    @TinyJit
    def forms(size):
        part = (whole[:size] * 2).contiguous().realize()
        return part.sum() + 1

    sums = [3.0, 7.0, 13.0, 1.0, 21.0]
    assert [forms(n.bind(size)).item() for size in (1, 2, 3, 0, 4)] == sums
    notes = RecordingBackend.notes
    assert notes[0] == "record 2"
    # For 0 only one kernel remains, which needs no list; then two are recorded again.
    assert notes.count("record 2") == 2
    assert "vary 0 [3]" in notes
    assert "vary 1 [3]" in notes
    assert "vary 0 [0]" not in notes


def test_a_list_that_fails_is_an_error_and_the_next_call_is_right() -> None:
    jitted = TinyJit(two_kernels)
    calls(jitted, 3)
    RecordingBackend.fails = True
    with pytest.raises(DeviceError, match="replay: launch 1 of the list: an illegal address"):
        jitted(tensor(7, 7))
    RecordingBackend.fails = False
    assert jitted(tensor(8, 9)).tolist() == [18, 20]


def test_what_is_no_list_is_the_backends_error() -> None:
    jitted = TinyJit(two_kernels)
    jitted(tensor(1, device="recording_devices:WrongBackend"))
    with pytest.raises(BackendError, match="record: gives 7, accepted is a command list to call"):
        jitted(tensor(1, device="recording_devices:WrongBackend"))
