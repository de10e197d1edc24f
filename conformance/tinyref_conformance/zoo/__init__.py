"""The zoo: deliberately broken devices, which the suite must catch, each on the right rung.

Each is the PYTHON device with one fault, named by its path: `tinyref conform --device
tinyref_conformance.zoo:Tf32Rounding`. They declare what the healthy device declares, so that
nothing but their answers gives them away.
"""

from tinyref_conformance.zoo.arithmetic import (
    FloorDivision,
    FlushedSubnormals,
    LostNegativeZero,
    Tf32Rounding,
    TruncatedBfloat16,
)
from tinyref_conformance.zoo.launches import (
    EmptyLoop,
    MissingBarrier,
    ReversedVectors,
    WrongGroupIndex,
    WrongItemIndex,
)
from tinyref_conformance.zoo.memory import GatedStoreIgnored, OffByOneTail, StaleOutput
from tinyref_conformance.zoo.registry import ZOO, Animal
from tinyref_conformance.zoo.replay import StalePointers, StaleVariables
from tinyref_conformance.zoo.tiles import SwappedTileLane
from tinyref_conformance.zoo.waiting import (
    ConstantSeconds,
    EarlyCopies,
    IdleSynchronize,
    NegativeSeconds,
    NoSeconds,
)

__all__ = [
    "ZOO",
    "Animal",
    "ConstantSeconds",
    "EarlyCopies",
    "EmptyLoop",
    "FloorDivision",
    "FlushedSubnormals",
    "GatedStoreIgnored",
    "IdleSynchronize",
    "LostNegativeZero",
    "MissingBarrier",
    "NegativeSeconds",
    "NoSeconds",
    "OffByOneTail",
    "ReversedVectors",
    "StaleOutput",
    "StalePointers",
    "StaleVariables",
    "SwappedTileLane",
    "Tf32Rounding",
    "TruncatedBfloat16",
    "WrongGroupIndex",
    "WrongItemIndex",
]
