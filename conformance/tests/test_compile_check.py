"""Kernels of the suite compiled for a device that is not there: which, how, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from compiled_targets import CAPABILITIES, OneByOne, TargetBackend, Together
from typer.testing import CliRunner

from tinyref.cli.app import app
from tinyref.contract import Compiler, CompileTarget
from tinyref.errors import DeviceError, UserError
from tinyref.renderers.cuda import CudaRenderer
from tinyref.uops.program import Program
from tinyref_conformance.compile_check import BATCH, compile_suite

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


def test_nothing_is_launched_and_the_texts_are_those_of_the_target() -> None:
    compiler = OneByOne()
    compile_suite(target(compiler), "isa.binary.add.int32", sample=2)
    assert all(source.startswith('extern "C" __global__ void') for source in compiler.given)


def test_a_sample_is_of_many_features() -> None:
    compiler = OneByOne()
    report = compile_suite(target(compiler), "isa.binary", sample=12)
    assert report.kernels == len(compiler.given) == 12
    assert any(" % " in source for source in compiler.given)
    assert any(" ^ " in source for source in compiler.given)


def test_a_refused_kernel_names_its_case_and_the_words_of_the_compiler() -> None:
    report = compile_suite(target(OneByOne(" % ")), FEW)
    assert {each.case for each in report.refused} == REMAINDERS
    assert all(each.message == "line 1: ' % ' is not known" for each in report.refused)
    assert all(" % " in each.source for each in report.refused)
    assert "refused\n  isa.binary.mod." in report.text()


class SilentAlone(OneByOne):
    """Refuses everything with an empty line."""

    def compile(self, source: str) -> bytes:
        raise DeviceError("TARGET", "\n")


class Silent(SilentAlone):
    """Refuses many with an empty message."""

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        return [DeviceError("TARGET", "")] * len(sources)


@pytest.mark.parametrize("compiles", [Silent(), SilentAlone()])
def test_what_is_refused_without_a_word_is_refused(compiles: Compiler) -> None:
    report = compile_suite(target(compiles), "isa.binary.add.int32", sample=1)
    assert [each.message for each in report.refused] == ["the compiler does not say why"]
    assert report.text().endswith(": the compiler does not say why\n")


def test_a_batch_that_is_refused_is_compiled_one_by_one() -> None:
    healthy, broken = Together(), Together(" % ")
    assert not compile_suite(target(healthy), QUERY).refused
    assert max(healthy.batches) == BATCH
    assert not healthy.given
    report = compile_suite(target(broken), QUERY)
    assert {each.case for each in report.refused} == REMAINDERS
    assert 0 < len(broken.given) < report.kernels


class NoRemainders(CudaRenderer):
    def render(self, program: Program) -> str:
        text = super().render(program)
        if " % " in text:
            raise UserError("MOD: is not printed")
        return text


def test_what_the_renderer_refuses_is_a_refusal() -> None:
    broken = replace(target(OneByOne()), renderer=NoRemainders(CAPABILITIES))
    report = compile_suite(broken, FEW)
    assert {each.message for each in report.refused} == {"is not rendered: MOD: is not printed"}


@pytest.mark.parametrize(
    ("arch", "code", "words"),
    [("a", 0, "0 of them refused"), ("b", 1, "line 1: ' % ' is not known")],
)
def test_the_command_says_how_many(tmp_path: Path, arch: str, code: int, words: str) -> None:
    options = ["--device", BACKEND, "--arch", arch, "--query", FEW, "--report", str(tmp_path)]
    found = CliRunner().invoke(app, ["conform", "compile", *options])
    assert found.exit_code == code, found.output
    assert words in found.stdout
    written = list(tmp_path.iterdir())
    assert bool(written) == bool(code)
    assert all(" % " in path.read_text() for path in written)


def test_a_backend_without_targets_is_refused() -> None:
    options = ["--device", "CPU", "--arch", "x"]
    found = CliRunner().invoke(app, ["conform", "compile", *options])
    assert isinstance(found.exception, UserError)
    assert "compiles for no device that is not there" in str(found.exception)
