"""CPU devices on which LLVM may transform float arithmetic, and may say so or not."""

from __future__ import annotations

import re
from dataclasses import replace

from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.runtimes.host.cpu import CpuBackend, LlvmCompiler
from tinyref.uops.program import Program

_ARITHMETIC = re.compile(r"= (fadd|fsub|fmul|fdiv|fneg)(?: contract)? ")


class FlaggedRenderer(LlvmRenderer):
    """LLVM IR whose float arithmetic has fast-math flags."""

    def __init__(self, flags: str) -> None:
        self.flags = flags

    def render(self, program: Program) -> str:
        return _ARITHMETIC.sub(rf"= \1 {self.flags} ", super().render(program))


class HardCompiler(LlvmCompiler):
    """Compiler with all optimisations of LLVM."""

    @property
    def key(self) -> str:
        return super().key + " hard"

    def compile(self, source: str) -> bytes:
        with Context(CPU_LEVEL=3):
            return super().compile(source)


class ContractingCpu(CpuBackend):
    """Device that fuses a product and a sum into one operation."""

    flags = "contract"
    contracts, reassociates = True, False

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._compiler = HardCompiler(self.name)
        self._renderer = FlaggedRenderer(self.flags)

    @property
    def renderer(self) -> FlaggedRenderer:  # type: ignore[override]
        return self._renderer

    @property
    def capabilities(self) -> Capabilities:
        return replace(
            super().capabilities,
            contracts_floats=self.contracts,
            reassociates_floats=self.reassociates,
        )


class SecretlyContractingCpu(ContractingCpu):
    """Device that does the same without declaring it."""

    contracts = False


class ReassociatingCpu(ContractingCpu):
    """Device that transforms sums and products as if they were exact."""

    flags = "reassoc nsz contract arcp"
    reassociates = True


class SecretlyReassociatingCpu(ReassociatingCpu):
    """Device that does the same without declaring it."""

    contracts = reassociates = False


class ReassociatingWords(ReassociatingCpu):
    """Device that does the same without integers of 64 bits."""

    @property
    def capabilities(self) -> Capabilities:
        known = super().capabilities
        wide = frozenset({dtypes.int64, dtypes.uint64})
        return replace(known, dtypes=known.dtypes - wide, emulated=known.emulated | wide)
