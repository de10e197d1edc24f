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
from tinyref_conformance.faulty.history import (
    LeakingLaunches,
    LeftMode,
    OverlappingMemory,
    StaleKernels,
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
    EarlyEvents,
    EarlyFrees,
    EarlyReads,
    EarlyReuse,
    IdleSynchronize,
    KernelQueues,
    LateSources,
    LostReaders,
    NegativeSeconds,
    NoSeconds,
    SharedArguments,
    TwoQueues,
)

__all__ = [
    "FAULTY_DEVICES",
    "BuiltInNames",
    "ConstantSeconds",
    "ContractedProducts",
    "DroppedParameters",
    "EarlyCopies",
    "EarlyEvents",
    "EarlyFrees",
    "EarlyReads",
    "EarlyReuse",
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
    "KernelQueues",
    "LateArguments",
    "LateSources",
    "LateTransfer",
    "LeakingLaunches",
    "LeftMode",
    "LostBarriers",
    "LostEvents",
    "LostNegativeZero",
    "LostReaders",
    "LostTransferOffset",
    "MissingBarrier",
    "NegativeSeconds",
    "NeighbourTransfer",
    "NestedBarriersLost",
    "NoSeconds",
    "OffByOneTail",
    "OverlappingMemory",
    "PrivateArrays",
    "ReassociatedSums",
    "ReversedVectors",
    "RoundedTransferOffset",
    "RoundedTransferSize",
    "SharedArguments",
    "SharedArraysOverlap",
    "SingleUpdate",
    "SpilledValues",
    "StaleKernels",
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
    "TwoQueues",
    "UndersizedArrays",
    "UnorderedList",
    "WrongGroupIndex",
    "WrongItemIndex",
]
