"""Kernels of the suite compiled for a device that is not there: which, how, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tinyref.backend import CORE_DTYPES, CORE_OPS, Capabilities, dtypes
from tinyref.cli.app import app
from tinyref.contract import Compiler, CompileTarget
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.cuda import CudaRenderer
from tinyref.runtimes.null import NullBackend
from tinyref_conformance.compile_check import BATCH, compile_suite

# A bool is a byte in memory.
TYPES = CORE_DTYPES | {dtypes.uint8}
CAPABILITIES = Capabilities(TYPES, CORE_OPS, has_grid=True, has_groups=True)


class OneByOne:
    """Refuses each source that has a word in it, and keeps all that it was given."""

    key = "one by one"

    def __init__(self, refused: str = "no source has this") -> None:
        self.refused = refused
        self.given: list[str] = []

    def compile(self, source: str) -> bytes:
        self.given.append(source)
        if self.refused in source:
            raise DeviceError("TARGET", f"line 1: {self.refused!r} is not known", source)
        return b"code"


class Together(OneByOne):
    """Takes many sources, and refuses them all for one."""

    def __init__(self, refused: str = "no source has this") -> None:
        super().__init__(refused)
        self.batches: list[int] = []

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        self.batches.append(len(sources))
        if any(self.refused in source for source in sources):
            raise DeviceError("TARGET", "one of them")
        return [b"code"] * len(sources)


class TargetBackend(NullBackend):
    """Compiles for two architectures; `b` does not know the operator of a remainder."""

    compile_targets = ("a", "b")

    @classmethod
    def compile_target(cls, name: str) -> CompileTarget:
        compiler = OneByOne(" % " if name == "b" else "no source has this")
        return CompileTarget(name, CAPABILITIES, CudaRenderer(CAPABILITIES), compiler)


# A case of each row: kernels of most types are refused before there is a text.
QUERY = "isa.binary.*.special:0"
# Maxima, products and remainders, which a target may refuse.
FEW = "isa.binary.m*.special:0"
REMAINDERS = {f"isa.binary.mod.{name}.special:0" for name in ("int32", "uint32", "uint8")}
BACKEND = f"{TargetBackend.__module__}:{TargetBackend.__qualname__}"


def target(compiler: Compiler) -> CompileTarget:
    return CompileTarget("a", CAPABILITIES, CudaRenderer(CAPABILITIES), compiler)


def test_each_text_is_compiled_once() -> None:
    compiler = OneByOne()
    report = compile_suite(target(compiler), QUERY)
    assert not report.refused
    assert report.kernels == len(compiler.given) == len(set(compiler.given)) > 20
    assert report.cases > report.kernels


def test_a_refused_kernel_names_its_case_and_the_words_of_the_compiler() -> None:
    report = compile_suite(target(OneByOne(" % ")), FEW)
    assert {refusal.case for refusal in report.refused} == REMAINDERS
    assert all(refusal.message == "line 1: ' % ' is not known" for refusal in report.refused)
    assert all(" % " in refusal.source for refusal in report.refused)
    assert "refused\n  isa.binary.mod." in report.text()


def test_a_batch_that_is_refused_is_compiled_one_by_one() -> None:
    healthy, broken = Together(), Together(" % ")
    assert not compile_suite(target(healthy), QUERY).refused
    assert max(healthy.batches) == BATCH
    assert not healthy.given
    report = compile_suite(target(broken), QUERY)
    assert {refusal.case for refusal in report.refused} == REMAINDERS
    assert 0 < len(broken.given) < report.kernels


@pytest.mark.parametrize(
    ("arch", "code", "words"),
    [("a", 0, "0 of them refused"), ("b", 1, "line 1: ' % ' is not known")],
)
def test_the_command_says_how_many(tmp_path: Path, arch: str, code: int, words: str) -> None:
    options = ["--device", BACKEND, "--arch", arch, "--query", FEW, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["conform", "compile", *options])
    assert result.exit_code == code, result.output
    assert words in result.stdout
    written = list(tmp_path.iterdir())
    assert bool(written) == bool(code)
    assert all(" % " in path.read_text() for path in written)


def test_a_backend_without_targets_is_refused() -> None:
    options = ["--device", "CPU", "--arch", "x"]
    result = CliRunner().invoke(app, ["conform", "compile", *options])
    assert isinstance(result.exception, UserError)
    assert "compiles for no device that is not there" in str(result.exception)
