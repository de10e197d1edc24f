"""Test that the declarations of a device are checked when it is opened."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import pytest

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, OP_NAMES, Capabilities, problem_of
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.runtimes.python import TextBackend
from tinyref.uops.ops import ALU
from tinyref.uops.tiles import TILES

GOOD = Capabilities(CORE_DTYPES, CORE_OPS)
TILE = TILES["nvidia_m16n8k16_float16_float32"]
ALL = frozenset(dtypes.all)


def test_the_names_of_ops_are_those_of_the_op_table() -> None:
    assert {op.name for op in ALU} | {"LOAD", "STORE"} == OP_NAMES


@pytest.mark.parametrize("name", ["CPU", "CLANG", "GPU_EMU", "PYTHON", "NPY"])
def test_in_tree_devices_declare_what_can_be(name: str) -> None:
    if Device.availability(name).works:
        assert problem_of(Device[name].capabilities) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ops": CORE_OPS | {"FMA"}}, "ops has 'FMA': accepted are ADD, AND, "),
        ({"ops": ["ADD"]}, "ops is ['ADD']: accepted is a frozenset of names"),
        ({"dtypes": frozenset({"float32"})}, "dtypes has 'float32': accepted are bool, int8, "),
        ({"dtypes": frozenset({dtypes.float32.vec(4)})}, "dtypes has dtypes.float32x4: accepted"),
        ({"emulated": frozenset({dtypes.float64})}, "emulated has float64, which no other types"),
        ({"emulated": frozenset({dtypes.int8})}, "emulated has int8 and stored_in_words has not"),
        ({"emulated": frozenset({dtypes.bfloat16})}, "emulated has bfloat16 and dtypes lacks uint"),
        ({"emulated": frozenset({dtypes.index})}, "emulated has dtypes.index: accepted are bool"),
        ({"dtypes": {dtypes.bool}}, "accepted is a frozenset of dtypes"),
        ({"dtypes": frozenset()}, "dtypes is empty and ops is not: accepted are the dtypes that"),
        ({"vector_lanes": (2, 4)}, "vector_lanes is (2, 4): accepted is a tuple of 1 and any of 2"),
        ({"vector_lanes": ()}, "vector_lanes is (): accepted"),
        ({"vector_lanes": (1, 3)}, "vector_lanes is (1, 3): accepted"),
        ({"vector_lanes": [1, 4]}, "vector_lanes is [1, 4]: accepted"),
        ({"shared_bytes": -1}, "shared_bytes is -1: accepted are integers from 0"),
        ({"shared_bytes": 1.5}, "shared_bytes is 1.5: accepted are integers from 0"),
        ({"threads": 0}, "threads is 0: accepted are integers from 1"),
        ({"group_size_limit": 0}, "group_size_limit is 0: accepted are integers from 1"),
        ({"buffer_limit": 0}, "buffer_limit is 0: accepted are integers from 1"),
        ({"view_alignment": 0}, "view_alignment is 0: accepted are integers from 1"),
        ({"view_alignment": 48}, "view_alignment is 48: accepted are powers of two"),
        ({"contracts_floats": 1}, "contracts_floats is 1: accepted are True and False"),
        ({"reassociates_floats": "no"}, "reassociates_floats is 'no': accepted are True and False"),
        ({"buffer_limit": True}, "buffer_limit is True: accepted are integers from 1"),
        ({"grid_limit": (1, 1)}, "grid_limit is (1, 1): accepted are three integers from 1"),
        ({"grid_limit": (-1, 1, 1)}, "grid_limit is (-1, 1, 1): accepted are three integers"),
        ({"group_limit": (64, 0, 1)}, "group_limit is (64, 0, 1): accepted are three integers"),
        ({"group_limit": 1024}, "group_limit is 1024: accepted are three integers"),
        ({"has_grid": "no"}, "has_grid is 'no': accepted are True and False"),
        ({"has_groups": True}, "has_groups is True and has_grid False: accepted are groups of"),
        ({"has_grid": True, "threads": 4}, "threads is 4 and has_grid True: accepted is 1"),
        ({"matrix_tiles": (TILE,)}, f"matrix_tiles has {TILE.name}, of float16, which is not"),
        ({"matrix_tiles": [TILE]}, "accepted is a tuple of MatrixTile"),
        ({"matrix_tiles": (4,)}, "matrix_tiles has 4: accepted are tiles of"),
        ({"matrix_tiles": (TILE,), "dtypes": ALL}, "of 32 work-items: accepted without has_groups"),
        (
            {
                **{"matrix_tiles": (TILE,), "dtypes": ALL, "group_size_limit": 16},
                **{"has_grid": True, "has_groups": True},
            },
            "of 32 work-items: accepted are as many as group_size_limit, 16",
        ),
    ],
)
def test_what_cannot_be_meant_is_named(changes: dict[str, Any], says: str) -> None:
    problem = problem_of(replace(GOOD, **changes))
    assert problem is not None
    assert says in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared_bytes": 4096},  # scratch of a work-item
        {"emulated": CORE_DTYPES},
        {"ops": frozenset()},
        {"threads": 8},
        {"has_grid": True, "has_groups": True, "vector_lanes": (4, 1, 2)},
    ],
)
def test_what_can_be_meant_is_accepted(changes: dict[str, Any]) -> None:
    assert problem_of(replace(GOOD, **changes)) is None


class Lying(TextBackend):
    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return replace(GOOD, ops=CORE_OPS | {"FMA"})


class Odd(TextBackend):
    capabilities = 3  # type: ignore[assignment]


class Idle(TextBackend):
    runs_kernels = False


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Lying", "capabilities.ops has 'FMA': accepted are ADD"),
        ("Odd", "capabilities: gives 3, accepted is Capabilities"),
        ("Idle", "ops is not empty and runs_kernels is False"),
    ],
)
def test_the_device_does_not_open(name: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lying_package", sys.modules[__name__])
    for _ in range(2):
        with pytest.raises(DeviceError, match=re.escape(says)):
            Device[f"lying_package:{name}"]
