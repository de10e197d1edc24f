"""Faulty devices: broken on purpose, which the suite must catch, each on the right rung.

Each is the PYTHON device or GPU_EMU with one fault, named by its path: `tinyref conform --device
tinyref_conformance.faulty:Tf32Rounding`. They declare what the healthy device declares, so that
nothing but their answers gives them away.
"""

from tinyref_conformance.faulty.arithmetic import (
    FloorDivision,
    FlushedSubnormals,
    LostNegativeZero,
    Tf32Rounding,
    TruncatedBfloat16,
)
from tinyref_conformance.faulty.compilers import SwappedResults
from tinyref_conformance.faulty.forms import (
    BuiltInNames,
    DroppedParameters,
    FirstGridAgain,
    NestedBarriersLost,
    SharedArraysOverlap,
    SpilledValues,
)
from tinyref_conformance.faulty.groups import (
    LostBarriers,
    PrivateArrays,
    SwappedItemIndices,
    UndersizedArrays,
)
from tinyref_conformance.faulty.launches import (
    EmptyLoop,
    MissingBarrier,
    ReversedVectors,
    WrongGroupIndex,
    WrongItemIndex,
)
from tinyref_conformance.faulty.memory import GatedStoreIgnored, OffByOneTail, StaleOutput
from tinyref_conformance.faulty.rearranged import ContractedProducts, ReassociatedSums
from tinyref_conformance.faulty.registry import FAULTY_DEVICES, FaultyDevice
from tinyref_conformance.faulty.replay import (
    HastyList,
    LateArguments,
    LostEvents,
    SingleUpdate,
    StaleListPointers,
    StaleListVariables,
    StalePointers,
    StaleVariables,
    TruncatedList,
    UnorderedList,
)
from tinyref_conformance.faulty.tiles import SwappedTileLane
from tinyref_conformance.faulty.transfers import (
    EarlyTransfer,
    HastyTransfer,
    LateTransfer,
    LostTransferOffset,
    NeighbourTransfer,
    RoundedTransferOffset,
    RoundedTransferSize,
    SwappedTransfer,
    TruncatedTransfer,
)
from tinyref_conformance.faulty.waiting import (
    ConstantSeconds,
    EarlyCopies,
    IdleSynchronize,
    NegativeSeconds,
    NoSeconds,
)

__all__ = [
    "FAULTY_DEVICES",
    "BuiltInNames",
    "ConstantSeconds",
    "ContractedProducts",
    "DroppedParameters",
    "EarlyCopies",
    "EarlyTransfer",
    "EmptyLoop",
    "FaultyDevice",
    "FirstGridAgain",
    "FloorDivision",
    "FlushedSubnormals",
    "GatedStoreIgnored",
    "HastyList",
    "HastyTransfer",
    "IdleSynchronize",
    "LateArguments",
    "LateTransfer",
    "LostBarriers",
    "LostEvents",
    "LostNegativeZero",
    "LostTransferOffset",
    "MissingBarrier",
    "NegativeSeconds",
    "NeighbourTransfer",
    "NestedBarriersLost",
    "NoSeconds",
    "OffByOneTail",
    "PrivateArrays",
    "ReassociatedSums",
    "ReversedVectors",
    "RoundedTransferOffset",
    "RoundedTransferSize",
    "SharedArraysOverlap",
    "SingleUpdate",
    "SpilledValues",
    "StaleListPointers",
    "StaleListVariables",
    "StaleOutput",
    "StalePointers",
    "StaleVariables",
    "SwappedItemIndices",
    "SwappedResults",
    "SwappedTileLane",
    "SwappedTransfer",
    "Tf32Rounding",
    "TruncatedBfloat16",
    "TruncatedList",
    "TruncatedTransfer",
    "UndersizedArrays",
    "UnorderedList",
    "WrongGroupIndex",
    "WrongItemIndex",
]
