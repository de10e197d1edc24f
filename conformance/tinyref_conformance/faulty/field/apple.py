"""Faults of Apple's stacks: the Metal compiler and driver, MLX, Core ML."""

from __future__ import annotations

from tinyref.runtimes.emulated.gpu_emu import GpuEmuBackend
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_conformance.faulty.field.direct import launch, reversed_in_group
from tinyref_conformance.faulty.field.fault import FaultKind, FieldFault, field_device
from tinyref_conformance.faulty.programs import Change


def _without_barriers_in_small_groups(program: Program) -> Change:
    x, y, z = program.group
    is_small = x * y * z <= 32
    return lambda node: () if is_small and node.op is Ops.BARRIER else (node,)


FAULTS = (
    FieldFault(
        device=field_device(
            name="MetalOneSubgroupLosesBarriers",
            sentence="Drops the barriers of groups of at most 32 work-items, so shared memory is "
            "read before it is written.",
            base=GpuEmuBackend,
            healthy="GPU_EMU",
            program=_without_barriers_in_small_groups,
        ),
        stack="Metal compiler, Apple",
        kind=FaultKind.SYNCHRONISATION,
        link="https://github.com/KhronosGroup/MoltenVK/issues/2711",
        program=launch(*reversed_in_group(25), 24, 23, 22, take=slice(3)),
    ),
)
