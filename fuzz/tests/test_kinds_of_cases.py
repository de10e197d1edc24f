"""Kinds of cases that survivors of mutants asked for: each is there, and a fault that it finds.

Rows have them, and the fuzzer's kernels or programs where those come to such a case: that some
work-items alone add to an accumulator, only programs written by hand ask.

Devices that have such faults, for what is asked of a device alone, are in the tests of conformance:
launches over an input that is still read, and sums of negative zeros.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from mutated import mutated

from tinyref_fuzz.campaign.cases import tape_seed
from tinyref_fuzz.campaign.programs import program_at
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import FORMS, Policy, policy_named
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import Judge, verdict_of
from tinyref_fuzz.mutants import programs
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.mutant import Mutant
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_spec.case import Profile
from tinyref_spec.catalogue import cases
from tinyref_spec.device_under_test import DeviceUnderTest

CORE = "tinyref_fuzz.judge.devices:Core"
RESHAPED = Mutant(
    name="reshaped-from-the-second-element",
    kind="symbolic",
    module="tinyref.schedule.prepare",
    old="graph.shrink(flat, ((0, lower(want)),))",
    new="graph.shrink(flat, ((1, lower(want) + 1),))",
    resembles="a reshape that fits for the bound number alone shows other elements",
    stages=("schedule",),
)
NARROWED = Mutant(
    name="narrowed-by-one-too-many",
    kind="symbolic",
    module="tinyref.schedule.variables",
    old="min(before[1], high)",
    new="min(before[1], high - 1)",
    resembles="of two bounds of a variable the upper one is taken too low",
    stages=("schedule",),
)
HIDDEN = Mutant(
    name="hidden-in-another-row",
    kind="a choice in padding",
    module="tinyref.optimise.fold_ranges",
    old=" or view.mask[axis] != (begin, end):",
    new=" or False:",
    resembles="what one view pads was taken to be padded by all of them",
    stages=("normal",),
)
ACCUMULATED = Mutant(
    name="scalars-accumulated-as-vectors",
    kind="accumulation",
    module="tinyref.interpret.translate",
    old="np.where(mask[..., None] if is_vector else mask, new, old)",
    new="np.where(mask[..., None], new, old)",
    resembles="an accumulator that some work-items change has lanes of others",
    stages=("interpret",),
)
EMPTY = Mutant(
    name="empty-reduce-has-an-axis",
    kind="a reduce of nothing",
    module="tinyref.optimise.normal_form",
    old="and 0 in reduced_sizes(node)",
    new="and -1 in reduced_sizes(node)",
    resembles="a reduce of nothing gives its size to the axes of the others",
    stages=("normal",),
)
CROWDED = Mutant(
    name="gap-begins-where-the-piece-before-does",
    kind="memory",
    module="tinyref.schedule.memory",
    old="gap_starts = np.concatenate(([0], ends[:-1]))",
    new="gap_starts = np.concatenate(([0], starts[:-1]))",
    resembles="of several results that are kept at once two share memory",
    stages=("memory plan",),
)
TWO_NUMBERS = Mutant(
    name="second-number-bounds-the-wrong-end",
    kind="symbolic",
    module="tinyref.schedule.variables",
    old="if factor == 1 else smallest(own, others)",
    new="",
    resembles="of two numbers that cut one axis the second one is bounded from below",
    stages=("schedule",),
)
REPEATED = Mutant(
    name="repeated-elements-counted-once",
    kind="a reduce of elements that are equal",
    module="tinyref.schedule.reduces",
    old="if argument.op is not Ops.MAX and not",
    new="if argument.op is Ops.MAX and not",
    resembles="a sum over an axis that was expanded is one of its elements",
    stages=("schedule",),
)
LONG = Mutant(
    name="long-maximum-padded-with-zeros",
    kind="a long reduce",
    module="tinyref.schedule.reduces",
    old="    if op is not Ops.ADD:",
    new="    if op is Ops.MUL:",
    resembles="the last part of a long maximum is padded with zeros",
    stages=("schedule",),
)
OF_TWO_VALUES = Mutant(
    name="two-values-are-refused",
    kind="symbolic",
    module="tinyref.schedule.bindings",
    old="if not _is_consistent(bound[node]):",
    new="if False:",
    resembles="a graph that binds one variable to two values is refused",
    stages=("schedule",),
)
OVERTAKEN = Mutant(
    name="iterations-that-meet-go-unseen",
    kind="memory between iterations",
    module="tinyref.interpret.shadow",
    old="(past != NOBODY) & (past != items)",
    new="(past != NOBODY) & (past == items)",
    resembles="iterations run at once although they read what others write",
    stages=("interpret",),
)
SCRATCH = Mutant(
    name="iterations-have-too-little-scratch",
    kind="memory between iterations",
    module="tinyref.interpret.machine",
    old="size = copies * self.size",
    new="size = copies + self.size",
    resembles="iterations that run at once have less of a shared array than each of them fills",
    stages=("interpret",),
)
READ_BEFORE = Mutant(
    name="readers-of-before-a-barrier-stay",
    kind="barriers",
    module="tinyref.interpret.shadow",
    old="(self.reader_epoch.take(index) != epoch)",
    new="(self.reader_epoch.take(index) == epoch)",
    resembles="who read before a barrier is taken to race with who writes after it",
    stages=("interpret",),
)
UNMASKED = Mutant(
    name="sum-in-a-branch-of-all",
    kind="accumulation",
    module="tinyref.interpret.loops",
    old="        if mask is not None:\n            for fold, start",
    new="        if False:\n            for fold, start",
    resembles="who does not take a branch adds up what its loop does",
    stages=("interpret",),
)
BROKEN_OFF = "broken-off-and-forgotten"
ROUNDED_TWICE = Mutant(
    name="large-negative-integers-round-twice",
    kind="rounding",
    module="tinyref.codegen.decompose.small_floats",
    old="less(value, -(1 << threshold))",
    new="less(value, -(2 << threshold))",
    resembles="an integer of more digits than a float32 has is rounded there, then to a half",
    stages=("decompose",),
    device=CORE,
)
CHAINED = Mutant(
    name="products-on-top-of-the-first",
    kind="tiles",
    module="tinyref.codegen.expand.vectors",
    old="    for value in values[1:]:\n        total = value.replace(",
    new="    for value in values[2:]:\n        total = value.replace(",
    resembles="of several products of tiles that are summed one is left out",
    stages=("expand",),
)
NARROW = Mutant(
    name="positions-are-int32-whatever-they-come-to",
    kind="index",
    module="tinyref.codegen.narrow",
    old="dtypes.int32.minimum <= least and most <= dtypes.int32.maximum",
    new="dtypes.int32.minimum <= least",
    resembles="a position wraps on its way, though every element is near",
    stages=("narrow",),
)
UNGUARDED = Mutant(
    name="division-by-what-may-be-zero-unguarded",
    kind="division",
    module="tinyref.codegen.decompose.division",
    old="    if not may_be_zero and not may_overflow:",
    new="    if not may_overflow:",
    resembles="a division that traps is not guarded",
    stages=("decompose",),
    device=CORE,
)
SHIFTED = Mutant(
    name="sign-by-a-shift-of-all-bits",
    kind="what is left open",
    module="tinyref.codegen.decompose.int64_emulation",
    old="bitcast(shift_right(wide, 31), WORD)",
    new="bitcast(shift_right(wide, 32), WORD)",
    resembles="a shift by all bits gives what a processor gives",
    stages=("decompose",),
    device=CORE,
)
TURNED = Mutant(
    name="masks-met-backwards-one-too-few",
    kind="views",
    module="tinyref.views.composition",
    old="split(high - run.begin, -step)[0] + 1",
    new="split(high - run.begin, -step)[0]",
    resembles="a mask that is met through steps back leaves two views where one shows the same",
    stages=("lower",),
)
LIMITED = Mutant(
    name="the-loosest-of-lower-limits",
    kind="conditions",
    module="tinyref.algebra.rules.boolean",
    old="(-limit if is_lower else limit)",
    new="(limit if is_lower else limit)",
    resembles="of two lower limits the one that does not decide was kept",
    stages=("simplify",),
    causes=("bool-join",),
)
UPPER = Mutant(
    name="every-limit-is-an-upper-one",
    kind="conditions",
    module="tinyref.algebra.rules.boolean",
    old="limit, inner is not None)",
    new="limit, False)",
    resembles="what is known of x < c was taken for what is known of x >= c",
    stages=("simplify",),
    causes=("bool-join",),
)
NEVER_ZERO = Mutant(
    name="a-bool-of-what-holds-zero",
    kind="ranges",
    module="tinyref.algebra.bounds",
    old="return (0 if holds_zero else 1)",
    new="return (1 if holds_zero else 0)",
    resembles="the range of a number as a bool, which no rule asked for",
    stages=("simplify",),
)
BY_ONE = Mutant(
    name="broken-by-one-is-kept",
    kind="symbolic",
    module="tinyref.algebra.constraints",
    old="if lowest(found.margin) < 0)",
    new="if lowest(found.margin) < -1)",
    resembles="a number that may be larger than the axis that it cuts, by one, was not looked at",
    stages=("schedule",),
)
LIBRARY = "llvm-call-of-all-lanes-but-one"
FAULTS = {mutant.name: mutant for mutant in (*MUTANTS.values(), *programs.MUTANTS)}
FAULTS |= {mutant.name: mutant for mutant in (RESHAPED, NARROWED, HIDDEN)}
FAULTS |= {mutant.name: mutant for mutant in (ACCUMULATED, EMPTY, CROWDED)}
FAULTS |= {mutant.name: mutant for mutant in (TWO_NUMBERS, REPEATED, LONG)}
FAULTS |= {mutant.name: mutant for mutant in (OF_TWO_VALUES, OVERTAKEN, SCRATCH)}
FAULTS |= {mutant.name: mutant for mutant in (READ_BEFORE, UNMASKED)}
FAULTS |= {mutant.name: mutant for mutant in (ROUNDED_TWICE, CHAINED, NARROW)}
FAULTS |= {mutant.name: mutant for mutant in (UNGUARDED, SHIFTED)}
FAULTS |= {mutant.name: mutant for mutant in (TURNED, LIMITED, UPPER, NEVER_ZERO, BY_ONE)}
# The kind, the rows that have it, and a fault.
KINDS = [
    ("a variable at its ends by several views", "kernel.symbolic.*.views", "only-last-mask"),
    ("assigned, read by a view, assigned again", "system.memory.*.assign", "write-before-read"),
    ("a constant operand", "isa.constant.int32.mod1", "remainder-floored"),
    ("a comparison at the wrap", "isa.sequence.simplified.chosen*.int32", "linear-wraps-unseen"),
    ("parts not aligned", "kernel.opt.upcast.local", "vector-of-unaligned-address"),
    ("a mask through a flip", "kernel.view.pad.int32.read", "mask-begin-excluded"),
    ("a choice in padding", "kernel.gather.int32.padded*", "numbers-ignore-mask"),
    ("a reshape by the bound number", "system.symbolic.*.reshaped", RESHAPED.name),
    ("two bounds of one variable", "system.symbolic.*.narrowed", NARROWED.name),
    ("rows of a choice padded otherwise", "kernel.gather.int32.padded*", HIDDEN.name),
    ("an accumulator of some items", "kernel.program.barriers.uniform*", ACCUMULATED.name),
    ("a reduce of nothing beside others", "kernel.opt.unroll.beside_nothing", EMPTY.name),
    ("loops around a node", "kernel.reduce.form", "accumulator-not-reset"),
    ("two numbers of one part", "system.symbolic.*.two_numbers", TWO_NUMBERS.name),
    ("a schedule that breaks off", "system.schedule.*.broken_off", BROKEN_OFF),
    ("equal elements reduced", "system.schedule.*.repeated", REPEATED.name),
    ("a long maximum", "system.schedule.*.long", LONG.name),
    ("one variable of two values", "system.schedule.*.one_number_twice", OF_TWO_VALUES.name),
    ("iterations that read others' results", "kernel.program.loop.memory*", OVERTAKEN.name),
    ("scratch memory of an iteration", "kernel.program.group.scratch", SCRATCH.name),
    ("a reader before a barrier", "kernel.program.group.passed_on*", READ_BEFORE.name),
    ("a sum in a branch", "kernel.program.barriers.sum_in_branch*", UNMASKED.name),
    ("a call of the library for each lane", "isa.vector.unary.exp2.float32", LIBRARY),
    ("an integer beside a tie", "isa.cast.int32.to_bfloat16", ROUNDED_TWICE.name),
    ("a position beyond 32 bits", "kernel.far.int32", NARROW.name),
    ("a divisor that is not guarded", "isa.binary.mod.uint8", UNGUARDED.name),
    ("a shift that is left open", "isa.cast.int32.to_int64", SHIFTED.name),
    ("products of tiles in a sum", "kernel.opt.tc.apple", CHAINED.name),
    ("a bound that is missed by one", "system.symbolic.*.narrowed.by_one", BY_ONE.name),
    ("views met through steps back", "kernel.known_view.chains", TURNED.name),
    ("the values of the form of a rule", "kernel.simplified.bool-join", LIMITED.name),
    ("the values of any expression", "kernel.simplified.expressions", UPPER.name),
    ("the range of a number as a bool", "kernel.known_range.cast", NEVER_ZERO.name),
]
FORMS_OF_KERNELS = [
    ("rows of a choice padded otherwise", "choose", HIDDEN.name),
    ("loops around a node", "looped", "accumulator-not-reset"),
    ("a call of the library for each lane", "softmax", LIBRARY),
]
# And a seed whose programs show it soon.
OF_PROGRAMS = [
    ("a reshape by the bound number", 18, RESHAPED.name),
    ("two bounds of one variable", 18, NARROWED.name),
    ("several temporaries at once", 18, CROWDED.name),
    ("a schedule that breaks off", 4, BROKEN_OFF),
    ("equal elements reduced", 1, REPEATED.name),
    ("one variable of two values", 7, OF_TWO_VALUES.name),
]
# Faults of a device that calls the library, and of one that has little but a processor's ways.
ON_OTHERS = (LIBRARY, ROUNDED_TWICE.name, UNGUARDED.name, SHIFTED.name)
DEVICE = {name: FAULTS[name].device for name in ON_OTHERS}
MOST_CASES, MOST_PROGRAMS = 100, 60


def failing(query: str, name: str = "PYTHON") -> list[str]:
    """The cases that do not pass, errors too, on a device that has kept no kernels."""
    device = DeviceUnderTest(name)
    found = cases(Profile.QUICK, query)
    assert found, f"no case is of {query}"
    failed = []
    for case in found:
        try:
            is_wrong = not case.run(device).passed
        except Exception:  # as for the runner, an error is a failure
            is_wrong = True
        failed += [case.id] if is_wrong else []
    return failed


@pytest.mark.long
@pytest.mark.parametrize(("kind", "query", "fault"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_rows_have_the_kind_and_find_its_fault(kind: str, query: str, fault: str) -> None:
    device = DEVICE.get(fault, "PYTHON")
    assert failing(query, device) == []
    with mutated(FAULTS[fault]):
        assert failing(query, device) != []
    assert failing(query, device) == []


def is_found(judge: Judge, policy: Policy, number: int) -> bool:
    """Whether case `number` of the policy shows a fault."""
    case = generate(Tape(seed=tape_seed(1, number)), judge.capabilities, policy)
    return not verdict_of(judge, case).agrees


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "form", "fault"), FORMS_OF_KERNELS, ids=[kind for kind, _, _ in FORMS_OF_KERNELS]
)
def test_kernels_of_the_fuzzer_have_the_kind_and_find_its_fault(
    kind: str, form: str, fault: str
) -> None:
    judge = Judge(DEVICE.get(fault, "PYTHON"))
    only = {each: float(each == form) for each in FORMS}
    policy = replace(policy_named("mixed"), forms=only)
    with mutated(FAULTS[fault]):
        found = next((each for each in range(MOST_CASES) if is_found(judge, policy, each)), None)
    assert found is not None
    assert not is_found(judge, policy, found)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "seed", "fault"), OF_PROGRAMS, ids=[kind for kind, _, _ in OF_PROGRAMS]
)
def test_programs_of_the_fuzzer_have_the_kind_and_find_its_fault(
    kind: str, seed: int, fault: str
) -> None:
    judge = ProgramJudge("PYTHON")

    def is_found(number: int) -> bool:
        return not judge.verdict(program_at(judge, seed, number)).agrees

    with mutated(FAULTS[fault]):
        found = next(filter(is_found, range(MOST_PROGRAMS)), None)
    assert found is not None
    assert not is_found(found)
