"""The labelled clauses of the specification; every row cites some of them.

A label comes from the op table (`isa.add`, `kernel.view`, `tensor.pad`), or names a rule that
several operations share (`float.round`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tinyref.algebra.op_table import OP_TABLE
from tinyref.errors import UserError
from tinyref.optimise.opt import OPTS
from tinyref.uops.ops import Ops


@dataclass(frozen=True)
class Clause:
    """One sentence that a device or the library must fulfil, and its source."""

    label: str
    sentence: str
    source: str


IEEE = "IEEE 754-2019"
OPS = "semantics, primitive ops"
LIMITS = "semantics, error limits"
HARNESS = "harness, levels"
OPTIMISER = "the kernel optimiser"

# label -> (sentence, source), in the order of the ladder.
_DEVICE: dict[str, tuple[str, str]] = {
    "memory.open": (
        "A device opens once per name; one that runs kernels declares the core dtypes and ops.",
        "architecture, devices",
    ),
    "device.capability": (
        "What a device declares works; what it does not declare is refused with a clear error.",
        "architecture, devices",
    ),
    "device.order": (
        "Launches, copies and frees of one device have the effect of running one after another, "
        "in the order of their calls.",
        "the contract of a backend",
    ),
    "device.wait": (
        "synchronize, and a launch with wait, return after all earlier work has ended; the "
        "seconds of a launch are positive and the time that it took.",
        "the contract of a backend",
    ),
    "device.together": (
        "A kernel compiled in one call with others computes what it computes compiled alone.",
        "the contract of a backend",
    ),
    "device.limit": (
        "A kernel may reach every limit that the device declares.",
        "the contract of a backend",
    ),
    "memory.allocate": ("Buffers of any size, also 0, are whole and do not overlap.", HARNESS),
    "memory.copy": ("Bytes copied to a buffer come back unchanged.", HARNESS),
    "memory.view": (
        "A view is a part of its buffer: writes through it change that part and nothing else.",
        HARNESS,
    ),
    "memory.red_zone": (
        "No copy and no kernel writes outside of the buffers that it is to write.",
        HARNESS,
    ),
    "memory.refuse": (
        "A copy of the wrong size and a view past the end raise a UserError that says both sizes.",
        "architecture, errors",
    ),
    "memory.launch": (
        "Every launch computes its whole output from its inputs, whatever memory held before.",
        HARNESS,
    ),
    "memory.bool": (
        "A bool in memory is a byte: any but 0 is true, and kernels write 0 or 1.",
        OPS,
    ),
    "memory.gate.load": (
        "A gated-off LOAD gives the alternative value and touches no memory.",
        OPS,
    ),
    "memory.gate.store": ("A gated-off STORE writes nothing.", OPS),
}
_NUMBERS: dict[str, tuple[str, str]] = {
    "int.wrap": ("Integer arithmetic wraps modulo 2**n.", OPS),
    "int.no_trap": (
        "Where the value is unspecified (a divisor of 0, MIN / -1, a shift by the width or more) "
        "an operation neither traps nor hangs, and other elements are right.",
        OPS,
    ),
    "float.round": (
        "A float operation rounds once, to nearest with ties to even, in its own dtype.",
        f"{OPS}; {IEEE} 4.3.1",
    ),
    "float.strict": (
        "In strict mode nothing is contracted or reassociated, unless the device declares that it "
        "is, and division and square root are correctly rounded.",
        "architecture, two evaluators",
    ),
    "float.subnormal": (
        "Subnormal operands and results are kept, unless the device declares that it flushes them.",
        "semantics, subnormals",
    ),
    "float.signed_zero": ("Signed zeros and infinities are kept.", "semantics, subnormals"),
    "float.nan": (
        "A NaN operand makes every ordering false and inequality true; MAX may give either side.",
        OPS,
    ),
    "float.limits": (
        "EXP2 and LOG2 are within 2 (16 bits) or 3 ULP, SIN within 2 or 4, POW within 4 or 16, of "
        "the correctly rounded value; their special cases are exact.",
        LIMITS,
    ),
    "cast.wrap": ("CAST between integers wraps modulo 2**n of the target.", OPS),
    "cast.truncate": (
        "CAST from float to integer truncates; NaN and out of range are unspecified and harmless.",
        OPS,
    ),
    "cast.float": (
        "CAST to a float rounds once to nearest even, from any width; overflow gives infinity "
        "(NaN in fp8e4m3, which has none).",
        f"{OPS}; OCP 8-bit floating point specification 1.0",
    ),
    "cast.bool": ("CAST to bool is x != 0, so a NaN is true.", OPS),
}
# Sources of the clauses of arithmetic ops, except those from semantics.md alone.
_SOURCES = {
    Ops.FDIV: f"{OPS}; {IEEE} 7",
    Ops.SQRT: f"{OPS}; {IEEE} 5.4.1",
    Ops.POW: f"{OPS}; {IEEE} 9.2.1",
    Ops.THREEFRY: "Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011",
}
_ISA: dict[str, tuple[str, str]] = {
    **{
        row.clause: (f"{op.name}: {row.sentence}", _SOURCES.get(op, OPS))
        for op, row in OP_TABLE.items()
        if row.semantics is not None
    },
    "isa.where.no_effect": ("The side that WHERE does not choose has no effect, not a trap.", OPS),
    "isa.const": ("CONST is a constant of its dtype.", OPS),
    "isa.load": ("LOAD gives the element at an address, bit for bit.", OPS),
    "isa.store": ("STORE writes an element, bit for bit.", OPS),
    "isa.reduce": ("REDUCE combines elements over axes, in any order.", OPS),
    "isa.reduce.add": ("The sum starts at 0; of n floats it errs by n*u*sum|x| at most.", LIMITS),
    "isa.reduce.mul": ("The product starts at 1.", OPS),
    "isa.reduce.max": ("The maximum starts at -inf, or at MIN.", OPS),
    "isa.wmma": ("WMMA is A*B + C on a declared tile, in the accumulator's dtype.", OPS),
}
_KERNEL: dict[str, tuple[str, str]] = {
    "kernel.sink": ("A kernel does all of its stores, of one or several outputs.", OPS),
    "kernel.global": ("A kernel takes its buffers by slot, and may read one that it writes.", OPS),
    "kernel.name": (
        "A kernel may have any name of letters, digits and _, even a reserved word.",
        "the contract of a backend",
    ),
    "kernel.view": ("A view maps the axes of a kernel to elements: strides, offset, mask.", OPS),
    "kernel.valid": ("VALID is true where the mask of a view holds.", OPS),
    "kernel.iota": (
        "IOTA gives 0, 1, 2 ... as a load of a buffer with those numbers would, without memory.",
        OPS,
    ),
    "kernel.gather": (
        "A reduce in which an index selects the only term that is not the identity gives that "
        "term, or the identity; it touches no other element.",
        OPS,
    ),
    "kernel.index": ("An address is computed exactly, for any shape.", OPS),
    "kernel.variable": ("A symbolic integer has the value that the launch gives it.", OPS),
    "kernel.range": ("A loop runs from 0 to its bound minus 1; a bound of 0 runs nothing.", OPS),
    "kernel.accumulator": (
        "An accumulator starts again each time the loops around it iterate.",
        OPS,
    ),
    "kernel.if": ("The nodes in an IF take effect only if its condition is true.", OPS),
    "kernel.special": ("Launch indices take every value of the grid and group once.", OPS),
    "kernel.image": (
        "Images are read and written by texels of four lanes, as float32, by row and column.",
        "semantics, dtypes",
    ),
    "kernel.vector": ("Vector loads, stores, arithmetic and GEP act lane by lane.", OPS),
    "kernel.local": ("Shared memory is one array per group.", OPS),
    "kernel.barrier": ("At a barrier the items of a group see all that was written before.", OPS),
    "kernel.after": ("What comes after a node sees what the node did.", OPS),
    "kernel.wmma": (
        "The threads of a matrix tile are consecutive items of a group, and hold the elements that "
        "its layout says; products and sums are in the accumulator's dtype.",
        OPS,
    ),
    "kernel.opt": (
        "An optimisation changes how a kernel runs, but never what it computes.",
        OPTIMISER,
    ),
    "kernel.regression": (
        "Kernels that revealed a bug once are compiled correctly.",
        OPTIMISER,
    ),
    "kernel.fuzzed": (
        "Random kernels, with combinations that nobody wrote by hand, are compiled correctly.",
        OPTIMISER,
    ),
    **{
        f"kernel.opt.{op.value.lower()}": (f"{op.value} {spec.effect}.", OPTIMISER)
        for op, spec in OPTS.items()
    },
    "kernel.matmul": ("Products of small integers are exact in every float dtype.", LIMITS),
    "kernel.matmul.statistics": (
        "Over 1,000 products or more, errors have no bias, and no more spread than correct "
        "rounding of the accumulator gives.",
        LIMITS,
    ),
}
_TENSOR: dict[str, tuple[str, str]] = {
    "tensor.derived": (
        "A composite function errs by no more than the error bounds of its parts, combined.",
        LIMITS,
    ),
    "tensor.gradient": (
        "A gradient is correct; equal candidates of a maximum share it evenly.",
        HARNESS,
    ),
    "tensor.special": ("Special values and empty tensors follow from a function's parts.", OPS),
    "tensor.refuse": (
        "A call with invalid arguments raises a UserError that names the argument and the value.",
        "architecture, errors",
    ),
    "tensor.buffer": ("A realised tensor owns memory on its device.", HARNESS),
    "tensor.assign": ("An assignment writes into the memory of its target.", HARNESS),
    "system.shard": (
        "On several devices a tensor computes what it computes on one, in any layout.",
        HARNESS,
    ),
    "tensor.multi": (
        "A tensor on several devices has the elements that it has on one.",
        HARNESS,
    ),
    "tensor.contiguous": ("CONTIGUOUS gives the same values in memory of their own.", HARNESS),
    "tensor.copy": ("COPY gives the same values on a device.", HARNESS),
    "tensor.detach": ("No gradient flows through DETACH.", HARNESS),
    "system.kernels": ("Each of many kernels sees what those before it wrote.", HARNESS),
    "system.transfer": ("Values arrive unchanged on every device that they are sent to.", HARNESS),
    "system.symbolic": ("A kernel with symbolic sizes serves every value of them.", HARNESS),
    "system.jit": ("A replay computes what a plain call with its arguments computes.", HARNESS),
    "system.jit.flight": (
        "A replay sees the arguments of its call and the effects of earlier calls, even if it runs "
        "late.",
        HARNESS,
    ),
    "system.jit.state": ("What a captured function assigns to advances with each replay.", HARNESS),
    "model.layer": ("A layer computes its definition from the weights that it has.", HARNESS),
    "model.optim": (
        "An optimiser moves its parameters by the steps of its paper, and nothing else.",
        "the papers that nn.optim names",
    ),
    "model.trains": ("A network trains on a device as it does in float64.", HARNESS),
    "model.learns": (
        "A network learns its task: it answers questions that it has not seen.",
        HARNESS,
    ),
    "model.generates": (
        "A network run token by token gives what it gives for a whole sequence.",
        HARNESS,
    ),
    "tensor.bind": ("A bound variable stands for its value.", HARNESS),
}


@functools.cache
def clauses() -> Mapping[str, Clause]:
    """Return every clause by label; those of the Tensor functions come from their table."""
    from tinyref_spec.tensor.rows import FUNCTIONS

    clauses_by_label = {
        label: Clause(label, sentence, source)
        for table in (_DEVICE, _NUMBERS, _ISA, _KERNEL, _TENSOR)
        for label, (sentence, source) in table.items()
    }
    for function in FUNCTIONS:
        label = f"tensor.{function.name}"
        clauses_by_label[label] = Clause(label, f"{function.name}: {function.sentence}", HARNESS)
    return MappingProxyType(clauses_by_label)


def clause(label: str) -> Clause:
    """Return the clause with this label. Raises `UserError` for an unknown one."""
    known = clauses().get(label)
    if known is None:
        raise UserError(f"clause: unknown label {label!r}")
    return known
