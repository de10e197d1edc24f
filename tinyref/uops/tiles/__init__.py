"""Matrix tiles as data: who holds which element of A, B and C, and the tiles of the vendors.

`positions` has the same as index expressions; it stands above the node, the rest below it.
"""

from tinyref.uops.tiles.declared import GROUPS, TILES
from tinyref.uops.tiles.layout import Bit, FragmentLayout, InputRounding, MatrixTile, Operand

__all__ = [
    "GROUPS",
    "TILES",
    "Bit",
    "FragmentLayout",
    "InputRounding",
    "MatrixTile",
    "Operand",
]
