"""Damage for files, the same in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest


def _damaged(data: bytes, count: int) -> Iterator[bytes]:
    """`count` damaged versions of `data`: cut, with bytes changed, repeated or taken out.

    Half of the damage is in the first kilobyte, where headers are.
    """
    generator = np.random.default_rng(len(data))
    for number in range(count):
        bytes_ = bytearray(data)
        limit = len(data) if number % 2 else min(len(data), 1024)
        place = int(generator.integers(0, limit))
        match number % 6:
            case 0 | 1:
                bytes_ = bytes_[:place]
            case 2 | 3:
                for _ in range(int(generator.integers(1, 4))):
                    bytes_[int(generator.integers(0, limit))] = int(generator.integers(0, 256))
            case 4:
                bytes_[place : place + 8] = b"\xff" * len(bytes_[place : place + 8])
            case 5:
                length = int(generator.integers(1, 64))
                bytes_[place:place] = bytes_[place : place + length]
        if bytes(bytes_) != data:
            yield bytes(bytes_)


@pytest.fixture(params=[60, pytest.param(1000, marks=pytest.mark.slow)])
def damaged(request: pytest.FixtureRequest) -> Callable[[bytes], list[bytes]]:
    """The damaged versions of some bytes: few in the quick suite, many in the whole one."""
    return lambda data: list(_damaged(data, request.param))
