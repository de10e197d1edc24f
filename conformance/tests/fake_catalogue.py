"""A catalogue of cases that pass, fail, crash, hang, eat memory and raise; no device is needed.

Environment: FAKE_LOG is a file to which every case that runs appends its id; FAKE_SCENARIO picks
the rows (names joined by commas). FAKE_VERSION is what the device says it is.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref_spec.case import (
    Case,
    CaseNeeds,
    Failure,
    Measurement,
    Profile,
    Row,
    Rung,
    Values,
)

SEED = 7
Behaviour = Callable[[str], Measurement]


class FakeDevice:
    capabilities = Capabilities(dtypes=CORE_DTYPES, ops=CORE_OPS)
    environment = ("FAKE_CARD",)

    def versions(self) -> dict[str, str]:
        return {"fake": os.environ.get("FAKE_VERSION", "1.0")}


def open_device(name: str) -> FakeDevice:
    how = os.environ.get("FAKE_OPEN", "")
    if how == "refuse":
        raise DeviceError(name, "no such card in this machine")
    if how == "abort":
        os.abort()
    return FakeDevice()


def _log(case_id: str) -> int:
    """Count the runs of this case, including this one."""
    path = os.environ.get("FAKE_LOG")
    if not path:
        return 1
    with Path(path).open("a") as file:
        file.write(case_id + "\n")
    return Path(path).read_text().splitlines().count(case_id)


def passes(case_id: str) -> Measurement:
    return Measurement(True, compared=1, max_ulp=0.5, p99_ulp=0.25, worst_input="x = 1")


def slow(case_id: str) -> Measurement:
    time.sleep(0.03)
    return Measurement(True, compared=1)


def fails(case_id: str) -> Measurement:
    details = Failure(
        inputs=[Values("x", "float32", (1,), ["<script>alert(1)</script>"], ["0x3f800000"])],
        expected=["1.0"],
        expected_bits=["0x3f800000"],
        actual=["2.0"],
        actual_bits=["0x40000000"],
        index=0,
        source="int main() { return 1 < 2 && 3 > 2; } // </script><script>alert(2)</script>",
        ir="SINK",
        script="print('reproduced')",
    )
    text = "expected 1.0, got 2.0 <img src=x onerror=alert(3)>"
    return Measurement(False, text, compared=1, max_ulp=8388608.0, p99_ulp=1.0, details=details)


def empty(case_id: str) -> Measurement:
    return Measurement(True, compared=0)


def raising(error: Exception) -> Behaviour:
    def behave(case_id: str) -> Measurement:
        raise error

    return behave


def segfaults(case_id: str) -> Measurement:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)
    return passes(case_id)


def killed(case_id: str) -> Measurement:
    os.kill(os.getpid(), signal.SIGKILL)
    return passes(case_id)


def hangs(case_id: str) -> Measurement:
    while True:
        time.sleep(1)


def flaky(case_id: str) -> Measurement:
    return fails(case_id) if _log(f"{case_id}!") == 1 else passes(case_id)


_left: list[str] = []


def leaves_a_state(case_id: str) -> Measurement:
    _left.append(case_id)
    return passes(case_id)


def needs_no_state(case_id: str) -> Measurement:
    return fails(case_id) if _left else passes(case_id)


def prints(case_id: str) -> Measurement:
    os.write(1, b"a device that talks\n{}\n")
    return passes(case_id)


def row(
    name: str,
    *behaviours: Behaviour,
    rung: Rung = Rung.ALU,
    depends_on: tuple[str, ...] = (),
    needs: CaseNeeds | None = None,
    op: str = "ADD",
    dtype: str = "float32",
    expects_refusal: bool = False,
) -> Row:
    needs = needs or CaseNeeds()

    def run_of(case_id: str, behaviour: Behaviour) -> Callable[[Any], Measurement]:
        def run(device: Any) -> Measurement:
            _log(case_id)
            return behaviour(case_id)

        return run

    def make(profile: Profile) -> list[Case]:
        ids = [f"{name}.special:{i}" for i in range(len(behaviours))]
        return [
            Case(
                case_id,
                name,
                name.partition(".")[0],
                rung,
                op,
                dtype,
                ("fake.clause",),
                needs,
                depends_on,
                run_of(case_id, behaviour),
                expects_refusal,
            )
            for case_id, behaviour in zip(ids, behaviours, strict=True)
        ]

    level = name.partition(".")[0]
    return Row(
        name, f"The row {name}.", ("fake.clause",), rung, level, op, dtype, "exact", needs, make
    )


class NoReason(CaseNeeds):
    def unmet(self, capabilities: Capabilities) -> str | None:
        return ""


def _good() -> list[Row]:
    return [
        row("memory.copy", passes, passes, rung=Rung.MEMORY),
        row("isa.add.float32", passes, passes, passes, op="ADD"),
        row("isa.mul.int32", passes, prints, op="MUL", dtype="int32"),
    ]


def _long() -> list[Row]:
    return [row(f"isa.long{i}.int32", *[slow] * 10) for i in range(8)]


def _longest() -> list[Row]:
    return [row(f"isa.longest{i}.int32", *[slow] * 10) for i in range(200)]


def _scenarios() -> dict[str, Callable[[], list[Row]]]:
    named = (fails, empty, segfaults, killed, hangs, flaky)
    one: dict[str, Behaviour] = {
        **{behaviour.__name__: behaviour for behaviour in named},
        "raises": raising(ValueError("a bug in the case")),
        "no_memory": raising(MemoryError()),
        "compile_error": raising(DeviceError("FAKE", "syntax error near 'flaot'", "flaot x;")),
    }
    return {
        "good": _good,
        "long": _long,
        "longest": _longest,
        "state": lambda: [
            row("isa.before.int32", passes, leaves_a_state, passes),
            row("isa.after.int32", needs_no_state, fails),
        ],
        "slow_start": lambda: [row("isa.slow.int32", hangs, hangs, hangs, passes)],
        "twice": lambda: [row("isa.twice.int32", fails, fails, fails)],
        **{
            name: lambda name=name, what=what: [row(f"isa.{name}.int32", passes, what, passes)]
            for name, what in one.items()
        },
        "above": lambda: [
            row("isa.alone.int32", passes, op="SUB"),
            row("tensor.sum.float32", passes, rung=Rung.TENSOR, depends_on=("isa.fails.int32",)),
            row("model.small.float32", passes, rung=Rung.MODEL, depends_on=("tensor.sum.float32",)),
        ],
        "edge": lambda: [
            row("memory.low", fails, passes, rung=Rung.MEMORY),
            row("isa.on_plain.int32", passes, depends_on=("memory.low.special:1",)),
            row("isa.on_edge.int32", passes, depends_on=("memory.low.special:0",)),
            row(
                "tensor.above.int32",
                passes,
                rung=Rung.TENSOR,
                depends_on=("isa.on_edge.int32",),
            ),
        ],
        "skipped": lambda: [
            row("isa.add.float16", passes, needs=CaseNeeds(dtypes=frozenset({dtypes.float16})))
        ],
        "unexplained": lambda: [row("isa.odd.int8", passes, needs=NoReason())],
        "refusal": lambda: [row("isa.refusal.int8", passes, expects_refusal=True)],
        "circle": lambda: [
            row("isa.a.int32", passes, depends_on=("isa.b.int32",)),
            row("isa.b.int32", passes, depends_on=("isa.a.int32",)),
        ],
    }


def rows(profile: Profile) -> Iterator[Row]:
    scenarios = _scenarios()
    for name in os.environ.get("FAKE_SCENARIO", "good").split(","):
        yield from scenarios[name]()


def clause_sentence(label: str) -> str:
    return f"The sentence of {label}."


def suite_hash() -> str:
    return hashlib.sha256(os.environ.get("FAKE_SCENARIO", "good").encode()).hexdigest()
