"""Programs that are written by hand obey the rules of programs: a renderer may rely on them."""

from __future__ import annotations

import contextlib
from typing import NoReturn

import pytest

from tinyref.capabilities import CORE_OPS
from tinyref.uops.program import Program
from tinyref.verify import Dialect, verify
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest, Runnable


class VerifiedError(BaseException):
    """The program was verified: it need not run. No case catches it."""


class Verifying(DeviceUnderTest):
    """Verifies the first program of a case instead of running it."""

    def run(self, kernel: Runnable, *args: object, **named: object) -> NoReturn:
        assert isinstance(kernel, Program)
        verify(Dialect.PROGRAM, kernel.uops)
        raise VerifiedError


@pytest.mark.long
def test_every_program_obeys_the_rules() -> None:
    names = (
        "barriers,extremes,boxes,arrays,long,name,unused,grids,group,group_size,item,grid,loop,gate,"
        "limit,order"
    )
    cases = catalogue.cases(
        Profile.QUICK, ",".join(f"kernel.program.{name}" for name in names.split(","))
    )
    verified = 0
    for case in cases:
        with contextlib.suppress(VerifiedError):
            case.run(Verifying("PYTHON"))
            continue
        verified += 1
    assert verified > 60


@pytest.mark.long
def test_programs_use_ops_that_every_device_has() -> None:
    device = DeviceUnderTest("accelerators:CoreAlone")
    assert device.capabilities.ops == CORE_OPS
    cases = catalogue.cases(Profile.QUICK, "kernel.program,kernel.symbolic")
    required = [case for case in cases if case.needs.unmet(device.capabilities) is None]
    assert {"kernel.program.loop", "kernel.program.group", "kernel.program.vector4.float32"} <= {
        case.row for case in required
    }
    assert [case.id for case in required if not case.run(device).passed] == []
