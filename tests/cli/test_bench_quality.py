"""The rows of code quality: every row has a program, and what is measured is what is said."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

from tinyref.cli.bench import quality as bench_quality
from tinyref.cli.bench.programs import data
from tinyref.cli.bench.quality import (
    PROGRAMS,
    QualityProgram,
    compare,
    launcher,
    measured_apart,
    scaling,
    verdict,
)
from tinyref.cli.bench.rows import QUALITY
from tinyref.config import Context
from tinyref.errors import UserError
from tinyref.runtimes.kernel import Kernel
from tinyref.tensor import Tensor


def small(strict: int = 1, threads: int = 1) -> QualityProgram:
    return QualityProgram(
        "small", lambda: data(8, 8) + 1, 5e9, "G", "numpy", lambda: lambda: 0, 1e9, strict, threads
    )


def test_every_row_has_a_program() -> None:
    assert (*(program.name for program in PROGRAMS), "threads.scaling") == QUALITY


def test_the_work_is_what_must_be_done() -> None:
    work = {program.name: (program.work, program.peer_work) for program in PROGRAMS}
    assert work["quality.matmul.512"] == (2 * 512**3, 2 * 512**3)
    # 64 MiB each: a row sum reads, the others read and write, as a copy does.
    mebibytes = 64 * 2**20
    assert work["quality.rowsum"] == (mebibytes + 4 * 4096, 2 * mebibytes)
    assert work["quality.softmax"] == (2 * mebibytes, 2 * mebibytes)
    assert work["quality.elementwise.threads"] == (2 * mebibytes, 2 * mebibytes)


def test_the_flags_hold_while_a_program_is_compiled_and_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def note(output: Tensor) -> tuple[object, str]:
        from tinyref import config

        seen.append((config.integer("STRICT_FLOAT"), config.integer("THREADS")))
        return launcher(output)

    monkeypatch.setattr(bench_quality, "launcher", note)
    compare(small(strict=0, threads=3), 1)
    compare(small(strict=1, threads=1), 1)
    assert seen == [(0, 3), (1, 1)]


def test_a_launcher_runs_every_kernel_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []
    plain = Kernel.__call__

    def counted(self: Kernel, *arguments: object, **named: object) -> object:
        launched.append(self.name)
        return plain(self, *arguments, **named)

    with Context(DEVICE="CPU"):
        output = data(8, 8).softmax(-1)
        run, note = launcher(output)
        monkeypatch.setattr(Kernel, "__call__", counted)
        run()
        first = len(launched)
        run()
    assert note.startswith(f"{first} kernel")
    assert note.endswith(" MB")
    assert first >= 1
    assert len(launched) == 2 * first


def test_the_note_has_the_bytes_that_the_kernels_touch() -> None:
    with Context(DEVICE="CPU", THREADS=1):
        _, note = launcher(data(500, 500) + data(500, 500))
        # Two inputs and an output of a million bytes each.
        assert note == "1 kernel, 3.0 MB"


def test_numbers_come_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([2.0, 1.0, 4.0, 0.5])
    monkeypatch.setattr(bench_quality, "fastest", lambda run: next(seconds))
    found = compare(small(), 2)
    assert (found.values, found.peer_values) == ([2.5, 1.25], [1.0, 2.0])
    assert verdict(found).endswith("; ratios 0.62 to 2.50, median 1.56")


def test_one_core_does_not_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_quality, "available_cores", lambda: 1)
    with pytest.raises(UserError, match="on one core alone"):
        scaling(1)


def test_the_peers_compute_what_they_are_called() -> None:
    run = bench_quality._numpy_matmul(4)
    product = run()
    assert isinstance(product, np.ndarray)
    x, y = (np.random.default_rng(0).random((4, 4), np.float32) for _ in range(2))
    want = [[math.fsum(x[i, k] * y[k, j] for k in range(4)) for j in range(4)] for i in range(4)]
    assert np.allclose(product, want, rtol=1e-6)


@pytest.mark.long
def test_a_process_that_fails_is_an_error() -> None:
    with pytest.raises(UserError, match=r"bench: quality\.nothing: .*not enough values"):
        measured_apart("quality.nothing", 1)


def test_the_process_prints_what_its_parent_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_quality", "small", "2"])
    monkeypatch.setattr(bench_quality, "PROGRAMS", (small(),))
    bench_quality.main()
    found = bench_quality.Comparison(**json.loads(capsys.readouterr().out))
    assert len(found.values) == len(found.peer_values) == 2
    assert (found.unit, found.peer_name) == ("G", "numpy")
