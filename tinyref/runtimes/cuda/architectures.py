"""What NVIDIA GPUs declare, by their compute capability.

CUDA C++ Programming Guide, appendix "Compute Capabilities": limits of grids and groups, the types
and the matrix instructions of each.
"""

from __future__ import annotations

import re

from tinyref.capabilities import Capabilities
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.errors import UserError
from tinyref.renderers.cuda import CUDA_OPS, MAX_ACCESS_BYTES
from tinyref.uops.tiles import GROUPS

Capability = tuple[int, int]

# The oldest for which NVRTC 13 compiles, and that in which bfloat16 and more tiles came.
OLDEST: Capability = (7, 5)
_AMPERE: Capability = (8, 0)
# The first and last that have VIMNMX3.
LARGEST_OF_THREE: tuple[Capability, Capability] = ((9, 0), (10, 3))
# Those for which kernels are compiled where no device is.
TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# Bytes of the shared memory that arrays of fixed sizes may take in all.
SHARED_BYTES = 48 * 1024
# Bytes of a kernel's parameters, those that buffers leave to variables, and what a buffer takes.
PARAMETER_BYTES = 4096
VARIABLE_BYTES = 128
BYTES_OF_BUFFER = 8


def target_name(capability: Capability) -> str:
    """The architecture as compilers are given it: "sm_90"."""
    major, minor = capability
    return f"sm_{major}{minor}"


def capability_of(target: str) -> Capability:
    """The compute capability of "sm_90". Raises `UserError` for another text."""
    found = re.fullmatch(r"sm_(\d+)(\d)", target)
    if found is None or target not in TARGETS:
        accepted = ", ".join(TARGETS)
        raise UserError(f"compile: got architecture {target!r}: accepted are {accepted}")
    return int(found[1]), int(found[2])


def capabilities_of(
    capability: Capability, shared_bytes: int = SHARED_BYTES, is_single: bool = False
) -> Capabilities:
    """What a device of that compute capability declares.

    fp8 is emulated also where there are instructions: those saturate what is too large, or give NaN
    where an infinity is meant (PTX ISA, "cvt").
    """
    has_bfloat16 = capability >= _AMPERE
    native = {*dtypes.ints, dtypes.bool, dtypes.float16, dtypes.float32, dtypes.float64}
    if has_bfloat16:
        native.add(dtypes.bfloat16)
    return Capabilities(
        dtypes=frozenset(native),
        emulated=frozenset({*dtypes.fp8s, dtypes.bfloat16} - native),
        ops=CUDA_OPS,
        vector_lanes=(1, *VECTOR_LANES),
        has_grid=True,
        has_groups=True,
        shared_bytes=min(shared_bytes, SHARED_BYTES),
        grid_limit=(2**31 - 1, 65535, 65535),
        group_limit=(1024, 1024, 64),
        group_size_limit=1024,
        buffer_limit=(PARAMETER_BYTES - VARIABLE_BYTES) // BYTES_OF_BUFFER,
        # For vectors of 16 bytes; memory of the driver begins at multiples of 256.
        view_alignment=MAX_ACCESS_BYTES,
        matrix_tiles=GROUPS["NVIDIA_SM80"] if has_bfloat16 else GROUPS["NVIDIA_SM75"],
        is_single=is_single,
    )
