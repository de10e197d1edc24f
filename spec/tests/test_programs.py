"""Programs that are written by hand obey the rules of programs: a renderer may rely on them."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tinyref.capabilities import CORE_OPS
from tinyref.errors import UserError, VerifyError
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref.verify import Dialect, verify
from tinyref_spec import catalogue
from tinyref_spec.bits import Array
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs


class VerifiedError(BaseException):
    """The program was looked at: it need not run. No case catches it."""


class Verifying(DeviceUnderTest):
    """Looks at the first program of a case instead of running it."""

    def run_program(self, program: Program, *arguments: object, **named: object) -> list[Array]:
        found_in(program)


def found_in(program: Program) -> NoReturn:
    verify(Dialect.PROGRAM, program.uops)
    raise VerifiedError


def verified(query: str) -> int:
    """How many programs there are; an error of a rule is let out, with the case."""
    device = Verifying("PYTHON")
    count = 0
    for case in catalogue.cases(Profile.QUICK, query):
        try:
            case.run(device)
        except VerifiedError:
            count += 1
        except VerifyError as error:
            raise AssertionError(f"{case.id}: {error}") from error
    return count


@pytest.mark.long
def test_every_program_obeys_the_rules() -> None:
    names = "barriers,extremes,boxes,arrays,long,name,unused,grids,group,item,grid,loop,gate,limit"
    query = ",".join(f"kernel.program.{name}" for name in names.split(","))
    assert verified(query) > 60


@pytest.mark.long
def test_programs_use_ops_that_every_device_has() -> None:
    device = DeviceUnderTest("accelerators:CoreAlone")
    assert device.capabilities.ops == CORE_OPS
    cases = catalogue.cases(Profile.QUICK, "kernel.program,kernel.symbolic")
    owed = [case for case in cases if case.needs.unmet(device.capabilities) is None]
    assert {"kernel.program.loop", "kernel.program.group", "kernel.program.vector4.float32"} <= {
        case.row for case in owed
    }
    assert [case.id for case in owed if not case.run(device).passed] == []


def test_a_program_with_another_op_is_told_that_nothing_is_made_of_it() -> None:
    out = build.define_global(0, programs.INT, 1)
    i = programs.loop(1, 0)
    taken = build.sub(build.const(programs.INT, 0), i)
    subject = programs.program("sub", i, build.store(programs.at(out, i), taken), build.close(i))
    expected = (
        "SUB of int32: the device has no such op, and a program written by hand gets no "
        "decompositions: accepted are ADD, "
    )
    with pytest.raises(UserError, match=expected):
        DeviceUnderTest("accelerators:CoreAlone").run_program(subject, [None])
