"""All names that a backend needs, in one import; docs/backend.md describes each of them.

A vendor's package imports this module and nothing else of tinyref. It states the version of the
contract that it was written for: a name of `__all__` is removed, or changes its meaning, only with
a new `CONTRACT`.
"""

from __future__ import annotations

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.contract import (
    CONTRACT,
    Allocator,
    Availability,
    Backend,
    BatchCompiler,
    CommandList,
    Compiler,
    Handle,
    Launch,
    Launchable,
    NamingRenderer,
    PreparableKernel,
    PreparedLaunch,
    Renderer,
)
from tinyref.dtype import AddressSpace, DType, ImageDType, Kind, PtrDType, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.renderers.llvm import LLVM_DTYPES, LLVM_OPS, LlvmFunction
from tinyref.renderers.llvm_gpu import LlvmGpuRenderer
from tinyref.renderers.payloads import (
    element_of,
    entry_name,
    is_identifier,
    parameter_position,
    payload_of,
    variable_position,
)
from tinyref.renderers.wgsl import WgslRenderer
from tinyref.runtimes.emulated.c_emulator import CUDA as CUDA_C
from tinyref.runtimes.emulated.c_emulator import OPENCL as OPENCL_C
from tinyref.runtimes.emulated.c_emulator import PLAIN as PLAIN_C
from tinyref.runtimes.emulated.c_emulator import CEmulator, Dialect
from tinyref.runtimes.emulated.driver import EmulatedDriver, EmulatedMemory
from tinyref.runtimes.emulated.gpu_emu import LLVM_VERSION, LlvmEmulator
from tinyref.runtimes.kernel import LaunchesInARow
from tinyref.runtimes.reuse import ReuseStatistics, ReusingAllocator
from tinyref.runtimes.webgpu import WebgpuAllocator, WebgpuBackend, WebgpuKernel, WebgpuMemory
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import (
    AxisKind,
    ConstArg,
    GepArg,
    LocalArg,
    MemoryVersionArg,
    RangeArg,
    SlotArg,
    SpecialArg,
    TileArg,
    VarArg,
)
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import TILES, MatrixTile

__all__ = [
    "ALU",
    "CONTRACT",
    "CORE_DTYPES",
    "CORE_OPS",
    "CUDA_C",
    "C_STYLE_OPS",
    "ELEMENTARY_OPS",
    "LLVM_DTYPES",
    "LLVM_OPS",
    "LLVM_VERSION",
    "OPENCL_C",
    "PLAIN_C",
    "TILES",
    "AddressSpace",
    "Allocator",
    "Availability",
    "AxisKind",
    "Backend",
    "BatchCompiler",
    "CEmulator",
    "CStyleRenderer",
    "Capabilities",
    "CommandList",
    "Compiler",
    "ConstArg",
    "DType",
    "DeviceError",
    "Dialect",
    "EmulatedDriver",
    "EmulatedMemory",
    "GepArg",
    "Handle",
    "ImageDType",
    "Kind",
    "Launch",
    "Launchable",
    "LaunchesInARow",
    "LlvmEmulator",
    "LlvmFunction",
    "LlvmGpuRenderer",
    "LocalArg",
    "MatrixTile",
    "MemoryVersionArg",
    "NamingRenderer",
    "Ops",
    "Parameter",
    "PreparableKernel",
    "PreparedLaunch",
    "Program",
    "PtrDType",
    "RangeArg",
    "Renderer",
    "ReuseStatistics",
    "ReusingAllocator",
    "SlotArg",
    "SpecialArg",
    "TileArg",
    "UOp",
    "UserError",
    "VarArg",
    "WebgpuAllocator",
    "WebgpuBackend",
    "WebgpuKernel",
    "WebgpuMemory",
    "WgslRenderer",
    "dtypes",
    "element_of",
    "entry_name",
    "is_identifier",
    "parameter_position",
    "payload_of",
    "variable_position",
]
