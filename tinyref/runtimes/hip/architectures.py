"""What GPUs of AMD declare, by the name that their compiler has for them.

Sizes of waves, of shared memory and of groups: LLVM, "User Guide for AMDGPU Backend", and ROCm,
"Accelerator and GPU hardware specifications".
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.capabilities import Capabilities
from tinyref.dtype import VECTOR_LANES, dtypes
from tinyref.errors import UserError
from tinyref.renderers.hip import HIP_OPS, HipRenderer
from tinyref.uops.tiles import AMD_CDNA3, AMD_RDNA3, AMD_RDNA4, MatrixTile

SHARED_BYTES = 64 * 2**10
GROUP_SIZE = 1024
# The work-items of each dimension of a launch are counted in 32 bits.
_MOST_GROUPS = (2**32 - 1) // GROUP_SIZE


@dataclass(frozen=True)
class Architecture:
    """name: such as "gfx942". wave: work-items that run in step, and hold a tile together."""

    name: str
    wave: int
    tiles: tuple[MatrixTile, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        native = frozenset(HipRenderer.type_names)
        return Capabilities(
            dtypes=native,
            emulated=frozenset(dtypes.fp8s) - native,
            ops=HIP_OPS,
            vector_lanes=(1, *VECTOR_LANES),
            has_grid=True,
            has_groups=True,
            shared_bytes=SHARED_BYTES,
            grid_limit=(_MOST_GROUPS, _MOST_GROUPS, _MOST_GROUPS),
            group_limit=(GROUP_SIZE, GROUP_SIZE, GROUP_SIZE),
            group_size_limit=GROUP_SIZE,
            matrix_tiles=self.tiles,
            # The processor gives any value, and LLVM may take it that nobody divides so.
            division_traps=True,
        )


# gfx90a has the tiles of gfx942 and flushes subnormal elements to zero in them, which nobody asked
# for (PyTorch, "Numerical accuracy", on MI200): it declares none.
ARCHITECTURES = {
    each.name: each
    for each in (
        Architecture("gfx90a", 64),
        Architecture("gfx942", 64, AMD_CDNA3),
        *(Architecture(name, 32, AMD_RDNA3) for name in ("gfx1100", "gfx1101", "gfx1102")),
        *(Architecture(name, 32, AMD_RDNA4) for name in ("gfx1200", "gfx1201")),
    )
}


def architecture(name: str) -> Architecture:
    """The architecture of that name; features behind a colon, as "gfx90a:xnack-", change nothing.

    Raises `UserError` for one that is not known.
    """
    found = ARCHITECTURES.get(name.partition(":")[0])
    if found is None:
        accepted = ", ".join(ARCHITECTURES)
        raise UserError(f"HIP: the architecture {name} is not known: accepted are {accepted}")
    return found
