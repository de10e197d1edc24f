"""What the fuzzer draws, as strategies of hypothesis: it is valid, replayed, and shrinks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinyref.device import Device
from tinyref.interpret.evaluate import view_elements
from tinyref.optimise.opt import Opt
from tinyref.optimise.plan import Plan
from tinyref.uops.ops import Dialect, Ops
from tinyref.verify import verify
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import on_fixed_machine
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.generator import generate as generate_program
from tinyref_fuzz.programs.oracle import evaluate
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_fuzz.strategies import kernels, opt_lists, programs, views
from tinyref_spec.kernel_case import KernelCase
from tinyref_spec.kernels.corpus import corpus_kernels

FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
SEARCH = settings(
    max_examples=400, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
PYTHON = Device["PYTHON"].capabilities
KERNEL = corpus_kernels()["sum-rows"].ast


@pytest.mark.long
@FEW
@given(kernels(policy="small"))
def test_a_kernel_is_valid_and_its_choices_build_it_again(case: KernelCase) -> None:
    verify(Dialect.AST, case.ast)
    again = generate(Tape(choices=case.choices), PYTHON, POLICIES["small"])
    assert (again.ast, again.opts) == (case.ast, case.opts)
    for first, second in zip(again.buffers, case.buffers, strict=True):
        np.testing.assert_array_equal(first, second)


@FEW
@given(programs(2))
def test_a_program_is_defined_and_its_choices_build_it_again(program: TensorProgram) -> None:
    assert evaluate(program)
    assert generate_program(Tape(choices=program.choices), 2) == program


@FEW
@given(opt_lists(KERNEL, "CPU", most=4))
def test_every_list_is_legal(opts: tuple[Opt, ...]) -> None:
    assert len(opts) <= 4
    plan = Plan.of(KERNEL, on_fixed_machine(Device["CPU"].capabilities))
    for opt in opts:
        plan = plan.apply(opt)
    assert plan.opts == opts


@FEW
@given(st.data())
def test_a_view_has_its_shape_and_stays_in_its_buffer(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([None, (), (2, 3), (0, 4)]))
    view = data.draw(views(shape))
    assert shape is None or view.shape == shape
    elements, valid = view_elements(view, {})
    assert elements.shape == valid.shape == view.shape
    assert not (elements[valid] < 0).any()
    assert not (elements[valid] >= view.real_size()).any()


@pytest.mark.slow
def test_a_failing_kernel_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    @SEARCH
    @given(kernels(policy="small"))
    def fails(case: KernelCase) -> None:
        assert all(node.op is not Ops.REDUCE for node in case.ast.toposort())

    with pytest.raises(AssertionError) as caught:
        fails()
    notes = "\n".join(caught.value.__notes__)
    assert "= REDUCE " in notes
    assert "= SINK void" in notes
