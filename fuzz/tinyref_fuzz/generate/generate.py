"""Generate kernel ASTs that are valid by construction, with data that define their results.

Every decision is a choice of a tape. The weights of a policy bias what a tape draws.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from tinyref.capabilities import Capabilities
from tinyref_fuzz.generate.equivalent import equivalents
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.forms import BUILDERS
from tinyref_fuzz.generate.gathers import scatter
from tinyref_fuzz.generate.iterations import is_moderate
from tinyref_fuzz.generate.kernel import DrawnKernel
from tinyref_fuzz.generate.mutate import real_kernel
from tinyref_fuzz.generate.optimisations import draw_lists
from tinyref_fuzz.generate.outputs import OutputDraws
from tinyref_fuzz.generate.policies import POLICIES, Policy
from tinyref_fuzz.generate.several import SEVERAL
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Equivalent, KernelCase, Mode

# The forms of kernels.
FORMS = (*BUILDERS, *SEVERAL, "scatter", "real")
# Largest number of transformations of an equivalent kernel.
MAX_STEPS = 4
# Percentage of equivalent kernels that get an image, on a device with images.
IMAGES = 25
# Factor by which the weight of whole-texel rows grows on a device with images.
IMAGE_ROWS = 4.0
# Lists of optimisations of a kernel of many outputs: in that time, another kernel reveals more.
LISTS_OF_SEVERAL = (0, 1)
# Number of kernels to draw before the space is limited to `FEWEST` positions.
TRIES = 3
FEWEST = 16


def generate(
    tape: Tape, capabilities: Capabilities, policy: Policy = POLICIES["all"]
) -> KernelCase:
    """Return one case of a tape, of the types that a device with these capabilities runs.

    For any choices of the tape, the kernel is valid, and its lists of optimisations are legal for
    the device. The same tape, capabilities and policy give the same case.
    """
    policy = policy.draw_part(tape)
    weights = dict(policy.forms) or dict.fromkeys(FORMS, 1.0)
    if capabilities.images and "texels" in weights:
        weights["texels"] *= IMAGE_ROWS
    form = tape.pick(list(weights), list(weights.values()))
    if form in SEVERAL:
        policy = replace(policy, lists=LISTS_OF_SEVERAL)
    case = _moderate(tape, capabilities, policy, form)
    equivalent = _equivalent(tape, case, capabilities, policy, form == "texels")
    lists = draw_lists(case.ast, capabilities, tape, policy)
    return replace(case, equivalent=equivalent, opts=lists, choices=tuple(tape.choices))


def _moderate(tape: Tape, capabilities: Capabilities, policy: Policy, form: str) -> KernelCase:
    """Return the kernel and its data, small enough for the interpreter."""
    for _ in range(TRIES):
        case = draw_kernel(tape, capabilities, policy, form)
        if is_moderate(case.ast):
            return case
    return draw_kernel(tape, capabilities, replace(policy, most=FEWEST), form)


def draw_kernel(tape: Tape, capabilities: Capabilities, policy: Policy, form: str) -> KernelCase:
    """Return a kernel and its data, without lists of optimisations."""
    if form == "real":
        return real_kernel(tape, capabilities, policy)
    kernel = DrawnKernel.draw(tape, policy, capabilities)
    draw = Expressions(kernel)
    if form in SEVERAL:
        ast, contents = OutputDraws(draw).store(SEVERAL[form](draw))
    elif form == "scatter":
        # A kernel that stores anything else cannot send its terms to their outputs.
        ast, contents = OutputDraws(draw).store([scatter(draw)])
    else:
        value = BUILDERS[form](draw)
        for _ in range(tape.below(3)):
            value = draw.grow(value)
        ast, contents = OutputDraws(draw).draw_outputs(value)
    return KernelCase(ast, contents, bindings=MappingProxyType(kernel.bindings), mode=kernel.mode)


def _equivalent(
    tape: Tape, case: KernelCase, capabilities: Capabilities, policy: Policy, is_image: bool
) -> Equivalent | None:
    """Return a kernel that computes the same, for some of the exact kernels."""
    if case.mode is not Mode.EXACT or not (is_image or tape.chance(policy.equivalent)):
        return None
    steps = 0 if is_image else tape.between(1, MAX_STEPS)
    supported = capabilities.dtypes | capabilities.emulated
    images = 100 if is_image else IMAGES
    equivalent = equivalents(
        case.ast, tape, steps, supported, capabilities=capabilities, images=images
    )
    return equivalent if equivalent.trail else None
