"""The forms that heuristics choose: the list of each row is that of a fixed machine."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from tinyref.capabilities import Capabilities
from tinyref.device import Device
from tinyref.machine import FIXED
from tinyref.optimise.heuristics import heuristic_plan
from tinyref.optimise.opt import opts_text
from tinyref.optimise.plan import Plan
from tinyref.runtimes.python import TextBackend
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.chosen import CHOSEN, SCRATCH_BYTES, rows
from tinyref_spec.kernel.chosen_kernels import CHOSEN_FORMS
from tinyref_spec.kernel.opts import subject_of

HOST = dataclasses.replace(
    Device["CPU"].capabilities,
    threads=2,
    vector_lanes=(1, 2, 4, 8, 16),
    shared_bytes=1 << 19,
    machine=FIXED,
)


class LittleScratch(TextBackend):
    """Loops, and less scratch memory than a panel takes."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(
            HOST, shared_bytes=4096, is_interpreted=True, dtypes=super().capabilities.dtypes
        )


CASES = tuple(case for row in rows() for case in row.cases(Profile.QUICK))


def test_every_form_has_one_row() -> None:
    assert [chosen.name for chosen in CHOSEN] == list(CHOSEN_FORMS)


@pytest.mark.table
@pytest.mark.parametrize("number", range(len(CHOSEN)), ids=[each.name for each in CHOSEN])
def test_the_list_of_a_row_is_what_heuristics_choose_on_a_host(number: int) -> None:
    chosen = CHOSEN[number]
    ast = subject_of(chosen.kernel, chosen.dtype).kernel
    plan = heuristic_plan(Plan.of(ast, HOST), as_large=True)
    assert ((opts_text(plan.opts), ", ".join(map(str, plan.axes))),) == chosen.uses


@pytest.mark.table
@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_the_host_computes_every_form(case: Case) -> None:
    device = DeviceUnderTest("CPU")
    if case.needs.unmet(device.capabilities) is None:
        assert case.run(device).passed
    else:
        assert case.id.endswith(".listed")
        assert device.capabilities.threads < 2


def test_a_device_of_little_scratch_memory_copies_less() -> None:
    name = "kernel.chosen.panel_product.float32.listed"
    listed = next(case for case in CASES if case.id == name)
    assert HOST.shared_bytes >= SCRATCH_BYTES > 4096
    assert listed.run(DeviceUnderTest(f"{__name__}:LittleScratch")).passed
