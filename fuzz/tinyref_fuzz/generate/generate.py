"""The generator: kernel ASTs that are valid by construction, with data on which they are defined.

Every decision is a choice of a tape, and what the tape draws is swayed by the weights of a policy.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from tinyref.capabilities import Capabilities
from tinyref_fuzz.generate.equivalent import equivalents, with_laws
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.forms import BUILDERS
from tinyref_fuzz.generate.iterations import is_moderate
from tinyref_fuzz.generate.kernel import Kernel
from tinyref_fuzz.generate.mutate import mutate_case, real_kernel
from tinyref_fuzz.generate.optimisations import draw_lists
from tinyref_fuzz.generate.outputs import Outputs
from tinyref_fuzz.generate.policies import FORMS, POLICIES, Policy
from tinyref_fuzz.generate.rule_instances import with_instance
from tinyref_fuzz.generate.several import SEVERAL
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Case, Equivalent, Mode

# Most transformations of an equivalent kernel.
MAX_STEPS = 4
# On a device with images so many of 100 equivalent kernels get one, if it fits.
IMAGES = 25
# So many times as often as elsewhere a device with images gets rows of whole texels.
IMAGE_ROWS = 4.0
# Of 100 kernels without an equivalent one so many get laws of rules, and how many at most.
LAWS, MAX_LAWS = 25, 6
# And at most so many where they have as many outputs: what a law costs there is little.
MANY_LAWS = 24
# Most expressions that rules match, in one kernel.
MAX_INSTANCES = 3
# So many kernels are tried before one of at most so many positions is taken.
TRIES = 3
FEWEST = 16


def generate(tape: Tape, capabilities: Capabilities, policy: Policy = POLICIES["even"]) -> Case:
    """One case of a tape, of the types that a device with these capabilities runs.

    Its kernel is valid, and its lists of optimisations are legal for the device, whatever the
    choices of the tape are. The same tape, capabilities and policy give the same case.
    """
    policy = policy.draw_part(tape)
    often = {"texels": IMAGE_ROWS if capabilities.images else 1.0}
    form = tape.pick(FORMS, [policy.forms.get(form, 1) * often.get(form, 1) for form in FORMS])
    case = _moderate(tape, capabilities, policy, form)
    equivalent = _equivalent(tape, case, capabilities, policy, form == "texels")
    lists = draw_lists(case.ast, capabilities, tape, policy)
    case = replace(case, equivalent=equivalent, opts=lists)
    if lists and tape.chance(policy.mutated):
        case = mutate_case(case, tape, capabilities, policy)
    if case.equivalent is None and policy.equivalent and tape.chance(LAWS):
        supported = capabilities.dtypes | capabilities.emulated
        most = MANY_LAWS if form in SEVERAL else MAX_LAWS
        laws = with_laws(case.ast, tape, tape.between(1, most), supported)
        case = replace(case, equivalent=laws if laws.trail else None)
    return replace(case, choices=tuple(tape.choices))


def _moderate(tape: Tape, capabilities: Capabilities, policy: Policy, form: str) -> Case:
    """The kernel and its data alone, of which the interpreter can run several programs soon."""
    for _ in range(TRIES):
        case = draw_kernel(tape, capabilities, policy, form)
        if is_moderate(case.ast):
            return case
    # Whatever is nested, so few positions are soon done.
    return draw_kernel(tape, capabilities, replace(policy, most=FEWEST), form)


def draw_kernel(tape: Tape, capabilities: Capabilities, policy: Policy, form: str) -> Case:
    """The kernel and its data."""
    if form == "real":
        return real_kernel(tape, capabilities, policy)
    kernel = Kernel.draw(tape, policy, capabilities)
    draw = Expressions(kernel)
    if form in SEVERAL:
        ast, contents = Outputs(draw).store(SEVERAL[form](draw))
        return Case(ast, contents, bindings=MappingProxyType(kernel.bindings), mode=kernel.mode)
    value = BUILDERS[form](draw)
    if tape.chance(policy.instances):
        for _ in range(tape.between(1, MAX_INSTANCES)):
            value = with_instance(draw, value)
    for _ in range(tape.below(3)):
        value = draw.grow(value)
    ast, contents = Outputs(draw).draw_outputs(value)
    return Case(ast, contents, bindings=MappingProxyType(kernel.bindings), mode=kernel.mode)


def _equivalent(
    tape: Tape, case: Case, capabilities: Capabilities, policy: Policy, is_image: bool
) -> Equivalent | None:
    """A kernel that computes the same, now and then, where that is exact."""
    if case.mode is not Mode.EXACT or not (is_image or tape.chance(policy.equivalent)):
        return None
    steps = 0 if is_image else tape.between(1, MAX_STEPS)
    supported = capabilities.dtypes | capabilities.emulated
    images = 100 if is_image else IMAGES
    found = equivalents(case.ast, tape, steps, supported, capabilities=capabilities, images=images)
    return found if found.trail else None
