"""What an NVIDIA architecture computes natively in PTX (ISA, "Target ISA Notes" of each op)."""

from __future__ import annotations

from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.device import Capabilities
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.renderers.ptx.registers import PTX_DTYPES
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.tiles import GROUPS, MatrixTile

# Elementary functions of PTX are approximations; decompositions are the same bits everywhere.
PTX_OPS = frozenset(op.name for op in (*(ALU - {Ops.THREEFRY, Ops.MULACC}), Ops.LOAD, Ops.STORE))
PTX_OPS -= ELEMENTARY_OPS
OLDEST_ARCHITECTURE = 75
# Conversions from and to bfloat16.
_BFLOAT16_ARCHITECTURE = 80
# Loads and stores of 16 bytes need an address that is a multiple.
VIEW_ALIGNMENT = 16
# What a kernel may declare; more is taken only at a launch.
SHARED_BYTES = 48 * 1024


def ptx_capabilities(architecture: int) -> Capabilities:
    """What a device of an architecture declares for this renderer: 75 is compute capability 7.5."""
    native = PTX_DTYPES
    if architecture < _BFLOAT16_ARCHITECTURE:
        native -= {dtypes.bfloat16}
    return Capabilities(
        dtypes=native,
        ops=PTX_OPS,
        emulated=frozenset({dtypes.bfloat16, *dtypes.fp8s}) - native,
        vector_lanes=(1, *VECTOR_LANES),
        has_grid=True,
        has_groups=True,
        shared_bytes=SHARED_BYTES,
        view_alignment=VIEW_ALIGNMENT,
        matrix_tiles=tuple(tile for tile in _tiles(architecture) if tile.dtype_in in native),
    )


def _tiles(architecture: int) -> tuple[MatrixTile, ...]:
    return GROUPS["NVIDIA_SM80" if architecture >= 80 else "NVIDIA_SM75"]
