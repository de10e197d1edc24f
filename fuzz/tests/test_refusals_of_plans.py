"""What every plan of a kind accepts: healthy ones refuse none of it, one that does is found."""

from __future__ import annotations

import pytest

from tinyref.device import Device
from tinyref.optimise.opt import OptOp, opts_text
from tinyref.optimise.plan import Plan
from tinyref_fuzz.generate.probes import doubtful
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.refusals import legal_opts, refused_for_nothing
from tinyref_spec.kernels.corpus import corpus_kernels

CORPUS = corpus_kernels()
HOST = "tinyref_fuzz.judge.devices:Host"


def plan_of(name: str, device: str = "PYTHON") -> Plan:
    return Plan.of(CORPUS[name].ast, Device[device].capabilities)


def test_what_a_sum_of_rows_surely_takes():
    cuts = "UPCAST(0, 2) UPCAST(0, 6) LOCAL(0, 2) LOCAL(0, 6) PADTO(0, 5)"
    reduced = "UNROLL(1, 2) UNROLL(1, 16) GROUP(1, 2) GROUP(1, 16) GROUPTOP(1, 2) GROUPTOP(1, 16)"
    found = opts_text(tuple(legal_opts(plan_of("sum-rows"))))
    assert found == f"{cuts} {reduced} PADTO(1, 3) NOLOCALS(0, 0)"
    # A host has threads, and no groups.
    ops = {opt.op for opt in legal_opts(plan_of("sum-rows", HOST))}
    assert ops == {OptOp.UPCAST, OptOp.THREAD, OptOp.PADTO, OptOp.UNROLL}


@pytest.mark.table
@pytest.mark.parametrize("name", ["sum-rows", "multiply-add-int32", "sum-float16", "maximum-int32"])
@pytest.mark.parametrize("device", ["PYTHON", HOST])
def test_healthy_plans_refuse_none_of_it(name, device):
    assert refused_for_nothing(CORPUS[name].ast, plan_of(name, device)) is None


def test_what_cuts_other_kinds_of_axes_is_doubtful():
    ops = [(opt.op, opt.axis) for opt in doubtful(plan_of("sum-rows"), Tape(seed=1))]
    assert {(OptOp.UNROLL, 0), (OptOp.GROUP, 0), (OptOp.UPCAST, 1), (OptOp.LOCAL, 1)} <= set(ops)
