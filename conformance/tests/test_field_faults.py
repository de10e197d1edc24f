"""Field faults: each shows in its direct program, and has a report and a first verdict."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tinyref.device import Device
from tinyref_conformance.faulty.field import FIELD_FAULTS, FieldFault
from tinyref_conformance.not_probed import VERDICTS_FILE


@pytest.mark.parametrize("fault", FIELD_FAULTS.values(), ids=FIELD_FAULTS)
def test_a_fault_changes_a_value(fault: FieldFault) -> None:
    available = Device.availability(fault.device.healthy)
    if not available.works:
        pytest.skip(f"{fault.device.healthy}: {available.reason}")
    expected = np.array(fault.program.expected)
    np.testing.assert_array_equal(fault.program.values(fault.device.healthy), expected)
    values = fault.program.values(fault.device.device)
    assert not np.array_equal(values, expected, equal_nan=True)


def test_each_fault_has_a_report_and_a_first_verdict() -> None:
    verdicts = json.loads(VERDICTS_FILE.read_text(encoding="utf-8"))
    assert sorted(verdicts) == sorted(FIELD_FAULTS)
    for fault in FIELD_FAULTS.values():
        assert fault.link.startswith("https://")
        verdict = verdicts[fault.name]
        assert verdict["first"]["by"] in {"suite", "fuzz", "none"}
        assert verdict["now"]["by"] in {"suite", "fuzz"} or verdict["needs"]
        assert (verdict["kind"], verdict["stack"]) == (fault.kind.value, fault.stack)
