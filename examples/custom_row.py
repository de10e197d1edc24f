"""Add rows of your own to the suite: results that your kernels must have on a device.

The first row adds bytes and saturates, as image code does. The second halves differences. The
expected values are literals. `python examples/custom_row.py` runs both rows with the runner of the
suite. The CPU must pass; a device that rounds quotients down must fail the second row. A catalogue
is any module with `rows` and `suite_hash`. A row that every device must pass belongs in the tables
of the suite; see CONTRIBUTING.md.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_conformance.conform import ConformRequest, conform
from tinyref_conformance.settings import RunSettings
from tinyref_spec.case import Measurement, Profile, Row, Rung
from tinyref_spec.checks import make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernels.notation import kernel_of, load
from tinyref_spec.measure import run_exact

X = np.array([0, 100, 200, 255, 127, 251], np.uint8)
Y = np.array([0, 100, 100, 255, 128, 4], np.uint8)


def _wide(slot: int) -> UOp:
    return build.cast(load(slot, dtypes.uint8, (6,)), dtypes.int32)


def _saturating(case_id: str, device: DeviceUnderTest) -> Measurement:
    total = build.add(_wide(1), _wide(2))
    limited = build.where(build.less(total, 255), total, 255)
    kernel = kernel_of(build.cast(limited, dtypes.uint8), 6)
    expected = np.array([0, 200, 255, 255, 255, 255], np.uint8)
    return run_exact(case_id, device, kernel, [None, X, Y], [expected])


def _halved(case_id: str, device: DeviceUnderTest) -> Measurement:
    difference = build.sub(_wide(1), _wide(2))
    kernel = kernel_of(build.idiv(difference, 2), 6)
    # Division truncates: half of -1 is 0, not -1.
    expected = np.array([0, 0, 50, 0, 0, 123], np.int32)
    return run_exact(case_id, device, kernel, [None, X, Y], [expected])


def rows(profile: Profile) -> Iterator[Row]:
    """Yield the two rows, which have the same cases in every profile."""
    for name, sentence, op, run in (
        ("saturating", "Sums of bytes stop at 255.", "ADD", _saturating),
        ("halved", "Halves of differences are truncated.", "IDIV", _halved),
    ):
        yield make_row(
            f"kernel.own.{name}",
            sentence,
            clauses=("kernel.valid",),
            rung=Rung.ALU,
            op=op,
            dtype=dtypes.uint8,
            uses=(dtypes.uint8, dtypes.int32),
            checks={"six": run},
        )


def suite_hash() -> str:
    """Return the hash of this file, which a report states."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def main() -> None:
    """Run the rows on a healthy device and on a faulty one."""
    faulty = "tinyref_conformance.faulty:FloorDivision"
    with tempfile.TemporaryDirectory() as folder:
        for number, device in enumerate(("CPU", faulty)):
            settings = RunSettings(
                device, Path(folder, str(number)), jobs=1, catalogue="custom_row"
            )
            report = conform(ConformRequest(settings)).report
            print(report.verdict)
            for case in report.cases:
                print(f"  {case.status.value} {case.id} {case.message}".rstrip())


if __name__ == "__main__":
    main()
