"""Test expressions: every stage is printed, and only tensors can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinyref.cli.entry import run
from tinyref.cli.expression import evaluate
from tinyref.engine import search
from tinyref.errors import UserError
from tinyref.optimise.opt import Opt, OptOp
from tinyref.tensor import Tensor


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_every_stage_is_printed(capsys: pytest.CaptureFixture[str], device: str) -> None:
    assert run(["explain", "(Tensor([1, 2, 3]) * 2.5).sum()", "--device", device]) == 0
    text = capsys.readouterr().out
    titles = [line for line in text.splitlines() if line.startswith("== ")]
    assert [title.partition(",")[2] or title for title in titles] == [
        f"== tensor graph: float32[] on {device}",
        " 0 copies",
        " r_3: AST",
        " r_3: plan",
        " r_3: indexed kernel, after narrow",
        " r_3: program, after linearise",
        f" r_3: source for {device}",
        "== result",
    ]
    assert text.endswith("== result\n15.0\n")


def test_every_stage_of_the_compiler_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "Tensor([1.5]).exp2()", "--verbose"]) == 0
    text = capsys.readouterr().out
    for stage in ("lower", "simplify", "decompose", "accumulate", "narrow"):
        assert f"indexed kernel, after {stage}" in text
    assert "\n- %" in text
    assert "\n+ %" in text
    assert " lines as before\n" in text


def test_one_stage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "Tensor([1.5]) + 1", "--device", "PYTHON"]
    assert run([*words, "--stage", "lower", "--kernel", "e*"]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("== ")]
    assert titles == [
        "== schedule: 1 kernel, 0 copies",
        "== kernel 1, e: indexed kernel, after lower",
    ]


def test_the_plan_of_a_kernel_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["explain", "Tensor([[1, 2, 3, 4], [5, 6, 7, 8]]).sum(1)", "--device", "CPU"]
    assert run(command) == 0
    text = capsys.readouterr().out
    assert "r_2_4: plan\nplan  global 2, unroll 4\nopts  UNROLL(1, 4)\n" in text
    monkeypatch.setenv("TINYREF_NOOPT", "1")
    assert run(command) == 0
    assert "r_2_4: plan\nplan  global 2, reduce 4\n\n" in capsys.readouterr().out


def test_the_plan_that_a_search_found_is_shown_and_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opts = (Opt(OptOp.UPCAST, 0, 2),)
    monkeypatch.setattr(search, "best_opts", lambda device, ast: opts)
    monkeypatch.setenv("TINYREF_BEAM", "1")
    expression = "Tensor([[1.5, 2, 3, 4], [5, 6, 7, 8]]).sum(1)"
    assert run(["explain", expression, "--device", "PYTHON"]) == 0
    text = capsys.readouterr().out
    assert "r_2_4: plan\nplan  reduce 4, upcast 2\nopts  UPCAST(0, 2)\n" in text
    source = text.partition("source for PYTHON")[2]
    assert "LOOP" in source or "RANGE" in source


def test_a_constant_needs_no_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "Tensor.ones(2, 2) + 1"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("== result\n[[2. 2.]\n [2. 2.]]\n")


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("Tensor([1, 2, 3])[::-1]", [3, 2, 1]),
        ("Tensor([[1, 2], [3, 4]])[1, :]", [3, 4]),
        ("Tensor([[1, 2], [3, 4]])[..., None, 0]", [[1], [3]]),
        ("Tensor([1, 2]) < 2", [True, False]),
        ("-Tensor([1, 2]) + 2 ** 3", [7, 6]),
        ("Tensor([5, 7], dtype=dtypes.int8) // 2", [2, 3]),
        ("Tensor([1.0, inf]).cast('int32').cast(dtypes.bool)[:1]", [True]),
        ("Tensor([3]) @ Tensor([4])", 12),
        ("~Tensor([0]) & 3", [3]),
    ],
)
def test_expressions(text: str, gives: object) -> None:
    assert evaluate(text).tolist() == gives


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("__import__('os').system('true')", "unknown name '__import__'"),
        ("open('/etc/passwd')", "unknown name 'open'"),
        ("Tensor.__class__", "no '__class__'"),
        ("Tensor([1])._node", "no '_node'"),
        ("Tensor([1]).numpy()", "no 'numpy'"),
        ("Tensor([1]).assign(Tensor([2]))", "no 'assign'"),
        ("dtypes.__init__", "unknown dtype"),
        ("dtypes", "is no value"),
        ("dtypes.int32", "gives a dtype"),
        ("Tensor", "gives the class Tensor"),
        ("Tensor([1]).shape", "gives a tuple"),
        ("1 + 2", "gives a int"),
        ("(lambda: 1)()", "is not allowed"),
        ("[x for x in [1]]", "is not allowed"),
        ("f'{1}'", "is not allowed"),
        ("Tensor([1]) if 1 else 2", "is not allowed"),
        ("(x := 1)", "is not allowed"),
        ("Tensor(*[1])", "write the arguments out"),
        ("Tensor(**{})", "write the arguments out"),
        ("Tensor([1])([2])", "cannot be called"),
        ("Tensor(b'1234')", "there are no such tensors"),
        ("'a' * 10", "an operator needs a tensor or two numbers"),
        ("9 ** 9 ** 9", "the exponent is above 64"),
        ("1 << 99", "the exponent is above 64"),
        ("Tensor.ones(10 ** 30)", "is above 16777216"),
        ("1 / 0 + Tensor([1])", "division by zero"),
        ("not Tensor([1])", r"use .logical_not\(\) or ~"),
        ("Tensor([1]) < Tensor([2]) < 3", "compare two values"),
        ("Tensor([1]) in Tensor([1])", "compare two values"),
        ("[1, 2][0]", "only tensors have subscripts"),
        ("Tensor([1]); Tensor([2])", "cannot read"),
        ("Tensor([1]", "cannot read"),
        ("", "cannot read"),
        ("Tensor([1])\x00", "cannot read"),
        ("Tensor(" + "[" * 5000 + "]" * 5000 + ")", "too long|cannot read|nested"),
        ("-" * 3000 + "Tensor([1])", "cannot read|nested"),
        ("1" * 20000, "too long"),
    ],
)
def test_nothing_else_can_be_reached(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        evaluate(text)


@pytest.mark.parametrize("page", [[], ["--out", "page.html"]], ids=["text", "page"])
@pytest.mark.parametrize(
    "text",
    [
        "Tensor([1.0], device='DISK:victim')",
        "Tensor([1.0]).to('DISK:victim')",
        "(Tensor([1.0, 2.0]) * 2).to('DISK:victim').to('CPU')",
        "Tensor([1.0, 2.0]).shard(('DISK:victim', 'DISK:other'))",
        "Tensor.arange(3).to('DISK:other')",
    ],
)
def test_an_expression_writes_no_file(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    page: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    assert run(["explain", text, *page]) == 2
    assert "an explained expression may read files, not write" in capsys.readouterr().err
    assert victim.read_bytes() == b"precious"
    assert [path.name for path in tmp_path.iterdir()] == ["victim"]


def test_an_expression_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "Tensor([1.0])", "--", "--epochs"]) == 2
    assert "an expression takes no arguments" in capsys.readouterr().err


def test_an_expression_may_read_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_bytes(b"\x01\x02\x03\x04")
    text = "Tensor.empty(4, device='DISK:data', dtype='uint8').to('CPU') + 1"
    assert run(["explain", text]) == 0
    assert capsys.readouterr().out.endswith("== result\n[2 3 4 5]\n")
    # Later code in the same process may write again.
    Tensor([9], dtype="uint8").to(f"DISK:{tmp_path / 'data'}").realize()
    assert (tmp_path / "data").read_bytes() == b"\x09"
