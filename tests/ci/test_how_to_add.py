"""CONTRIBUTING says where something new is written: a sample of each, in these places alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from adding import MAX_PLACES, RUN_CASES, Insertion, Sample, copied, is_place, places, run
from samples_of_algebra import DTYPE, OP, RULE

OPT = Sample(
    "An Opt",
    {
        "tinyref/optimise/opt.py": (
            Insertion("\n\nclass Argument(", '    BLOCK = "BLOCK"\n'),
            Insertion(
                "}\n\n\nclass KernelOptError",
                "    OptOp.BLOCK: OptSpec(\n"
                '        effect="cuts `arg` positions off a global axis as an inner global axis",\n'
                "        takes=Argument.AMOUNT,\n"
                "        axis_conditions=_CUT,\n"
                "        argument_conditions=(Condition.DIVISOR, Condition.EVEN),\n"
                "        kinds=(AxisKind.GLOBAL,),\n"
                "        amounts=(2, 4),\n"
                "    ),\n",
            ),
            Insertion("    # Of what comes out", '    EVEN = "an even amount"\n'),
        ),
        "tinyref/optimise/moves.py": (
            Insertion(
                "CHECKS: dict[Condition, Check] = {",
                "def _even(plan: Plan, opt: Opt) -> str | None:\n"
                '    return f"{opt.arg} is odd" if opt.arg % 2 else None\n\n\n',
            ),
            Insertion("    Condition.MOST: _most,", "    Condition.EVEN: _even,\n"),
            Insertion(
                "    OptOp.SWAP: _swap,",
                "    OptOp.BLOCK: lambda plan, opt: _split(plan, opt, AxisKind.GLOBAL),\n",
            ),
        ),
        "spec/tinyref_spec/kernel/opts.py": (
            Insertion(
                '    _row("upcast.elementwise", "add"',
                '    _row("block.elementwise", "add", "BLOCK(0, 4)"),\n',
            ),
        ),
        "tests/optimise/test_legality.py": (
            Insertion(
                '    Line(Condition.MULTIPLE, named("row_sum")',
                '    Line(Condition.EVEN, named("add"), "BLOCK(0, 3)", "is odd", "BLOCK(0, 4)"),\n',
            ),
        ),
    },
    RUN_CASES
    + """
from tinyref.optimise.choices import candidates
from tinyref.optimise.opt import Opt, OptOp, parse_opts
from tinyref.optimise.plan import Plan
from tinyref_fuzz.generate.candidates import axes_by_op
from tinyref_fuzz.generate.optimisations import random_opts
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.clauses import clause
from tinyref_spec.kernel.opt_kernels import KERNELS
from tinyref_spec.pages import optimisations_page
from tinyref.dtype import dtypes

# Each line of the table is a row, and each passes.
assert run_cases("kernel.opt.block", "PYTHON") == 1
# As text, in a plan, and what a search tries.
(block,) = parse_opts("BLOCK(0, 4)")
assert block == Opt(OptOp.BLOCK, 0, 4) and str(block) == "BLOCK(0, 4)"
kernel = KERNELS["add"].build(dtypes.int32)
under_test = DeviceUnderTest("PYTHON")
plan = Plan.of(kernel, under_test.capabilities)
assert str(plan.apply(block)) == "global 6, global 4 after BLOCK(0, 4)"
assert [opt for opt in candidates(plan) if opt.op is OptOp.BLOCK] == parse_opts_list
# The fuzzer draws it, and reduces it.
assert list(axes_by_op(plan)[OptOp.BLOCK]) == [0]
drawn = [random_opts(kernel, under_test.capabilities, Tape(seed=s), 4).opts for s in range(40)]
assert any(opt.op is OptOp.BLOCK for opts in drawn for opt in opts)
# A refusal names the condition.
assert plan.legal(Opt(OptOp.BLOCK, 0, 3)) is None
# The specification tells of it.
assert clause("kernel.opt.block").sentence.startswith("BLOCK cuts `arg` positions off")
assert "| BLOCK | cuts `arg` positions off" in optimisations_page()
""".replace("parse_opts_list", "list(parse_opts('BLOCK(0, 2) BLOCK(0, 4)'))"),
)

DEVICE = Sample(
    "A device",
    {
        "tinyref/renderers/reversed_text.py": '''"""Programs as text, backwards."""

from tinyref.formats.json_format import program_to_text
from tinyref.uops.program import Program


class ReversedRenderer:
    """Prints a program as text whose last letter comes first."""

    def render(self, program: Program) -> str:
        return program_to_text(program)[::-1]
''',
        "tinyref/runtimes/reversed_text.py": '''"""The SAMPLE device: reads programs backwards."""

import functools

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend
from tinyref.dtype import dtypes
from tinyref.formats.json_format import program_from_text
from tinyref.renderers.reversed_text import ReversedRenderer
from tinyref.runtimes.host.memory import HostAllocator
from tinyref.runtimes.python import InterpretedKernel


class TextCompiler:
    """Keeps the text as it is."""

    key = "reversed text 1"

    def compile(self, source: str) -> bytes:
        return source.encode()


class SampleBackend(Backend):
    """A device that only knows loops."""

    title = "reads programs backwards"
    allocator = HostAllocator("SAMPLE")
    renderer = ReversedRenderer()
    compiler = TextCompiler()

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = "SAMPLE"

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, "always")

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        core = frozenset({dtypes.bool, dtypes.int32, dtypes.float32})
        ops = "ADD MUL SUB NEG IDIV MOD CMPLT CMPNE WHERE MAX AND OR XOR SHL SHR CAST BITCAST"
        ops += " RECIP SQRT LOAD STORE"
        return Capabilities(dtypes=core, ops=frozenset(ops.split()))

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return InterpretedKernel(self.name, program_from_text(binary.decode()[::-1]))
''',
        "pyproject.toml": (
            Insertion(
                'PYTHON = "tinyref.runtimes.python:PythonBackend"',
                'SAMPLE = "tinyref.runtimes.reversed_text:SampleBackend"\n',
            ),
        ),
        "ci/devices.toml": (
            Insertion(
                "",
                '\n[[device]]\nid = "sample"\ndevice = "SAMPLE"\nprofile = "quick"\n'
                'budget = 60\nneeds = "nothing"\nrequired = true\n',
            ),
        ),
    },
    RUN_CASES
    + """
import sys
from tinyref import Tensor
from tinyref.device import Device
sys.path.insert(0, "ci")
import conform_row

assert "SAMPLE" in Device.names()
total = (Tensor([1, 2, 3], device="SAMPLE") + 4).sum()
assert total.device == "SAMPLE" and total.item() == 18
assert run_cases("isa.binary.add.int32", "SAMPLE") > 3
(row,) = [row for row in conform_row.read() if row.id == "sample"]
assert (row.device, row.profile, row.required) == ("SAMPLE", "quick", True)
""",
)

ROW = Sample(
    "A row",
    {
        "spec/tinyref_spec/clauses.py": (
            Insertion(
                '    "kernel.vector": (',
                '    "kernel.sample": ("The numbers of an axis and their doubles agree.", OPS),\n',
            ),
        ),
        "spec/tinyref_spec/kernel/doubles.py": '''"""Twice the numbers of an axis."""

from collections.abc import Iterator

import numpy as np

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.measure import run_exact
from tinyref_spec.kernels.notation import kernel_of, shaped


def _doubled(case_id: str, device: DeviceUnderTest) -> Measurement:
    kernel = kernel_of(build.mul(build.iota(shaped(4)), 2), 4)
    return run_exact(case_id, device, kernel, [None], [np.array([0, 2, 4, 6], np.int32)])


def rows() -> Iterator[Row]:
    """One row of one case."""
    yield make_row(
        "kernel.sample.doubles",
        "out[i] = 2 * i.",
        clauses=("kernel.sample",),
        rung=Rung.LOOP,
        op="IOTA",
        dtype=dtypes.int32,
        checks={"four": _doubled},
    )
''',
        "spec/tinyref_spec/kernel/rows.py": (
            Insertion("    features,\n", "    doubles,\n"),
            Insertion("    yield from features.rows()", "    yield from doubles.rows()\n"),
        ),
    },
    RUN_CASES
    + """
from tinyref_spec.catalogue import all_rows
from tinyref_spec.level_pages import families, page
from tinyref_spec.pages import clauses_page

assert run_cases("kernel.sample", "CPU") == 1
assert run_cases("kernel.sample.doubles.four", "PYTHON") == 1
kernels = page("kernel", families("kernel", all_rows())["kernel"])
section = kernels.partition("## `kernel.sample`")[2]
said = section.splitlines()
assert {"* what: out[i] = 2 * i.", "* clauses: `kernel.sample`"} <= set(said)
assert "* rung: loops and reduces" in said
assert "| `kernel.sample.doubles` |" in section
assert "| `kernel.sample` | The numbers of an axis and their doubles agree. |" in clauses_page()
""",
)

SAMPLES = (OP, RULE, DTYPE, OPT, DEVICE, ROW)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_a_sample_is_written_in_the_places_that_are_listed(sample: Sample) -> None:
    listed = places(sample.title)
    assert 0 < len(listed) <= MAX_PLACES
    for place in listed:
        assert any(is_place(path, place) for path in sample.places), place
    for path in sample.places:
        assert any(is_place(path, place) for place in listed), path


@pytest.mark.long
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_a_sample_works_that_is_written_in_these_places_alone(
    sample: Sample, tmp_path: Path
) -> None:
    done = run(copied(tmp_path, sample), sample.script)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("sample", "place", "says"),
    [
        (OPT, "tinyref/optimise/moves.py", "EVEN"),
        (OP, "tinyref/algebra/op_rows.py", "ABS"),
        (OP, "spec/tinyref_spec/oracles.py", "ABS"),
        (RULE, "spec/tinyref_spec/proofs/integer_laws.py", "not enough values to unpack"),
        (RULE, "tests/algebra/test_rules.py", "test_every_rule_fires_here"),
    ],
)
def test_a_sample_with_a_place_left_out_is_seen(
    sample: Sample, place: str, says: str, tmp_path: Path
) -> None:
    kept = {path: text for path, text in sample.places.items() if path != place}
    done = run(copied(tmp_path, replace(sample, places=kept)), sample.script)
    assert done.returncode == 1
    assert says in done.stderr
