"""Test traces: events with times, in the format of trace viewers."""

import json
import os
import subprocess
import sys
import threading

import pytest

from tinyref import Tensor, TinyJit, profile
from tinyref.config import Context
from tinyref.profile import Trace, active_trace, span

PROGRAM = """
from tinyref import Tensor
x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU")
print(x.to("PYTHON").exp().sum().item(), (x @ x).sum().item())
"""


@pytest.fixture(autouse=True)
def no_traces(monkeypatch):
    """Do not write the traces of a test when the tests end."""
    monkeypatch.setattr(profile, "_traces", {})


def events(trace: Trace, kind: str) -> list[dict]:
    return [event for event in trace.to_json()["traceEvents"] if event.get("cat") == kind]


def tracks(data: dict) -> dict[int, str]:
    return {
        event["tid"]: event["args"]["name"]
        for event in data["traceEvents"]
        if event["name"] == "thread_name"
    }


def test_schedule_compile_copies_and_kernels_are_there(tmp_path):
    with Context(PROFILE=str(tmp_path / "trace.json")):
        x = Tensor([[1.0, 2.0], [3.5, 4.0]], device="CPU").contiguous().realize()
        assert (x.to("PYTHON") * 1.25).sum().item() == 13.125
        trace = active_trace()
    by_number = tracks(trace.to_json())
    tracks_by_kind = {
        kind: {by_number[event["tid"]] for event in events(trace, kind)}
        for kind in ("schedule", "compile", "copy", "kernel")
    }
    assert tracks_by_kind["schedule"] == tracks_by_kind["compile"] == {"host"}
    assert "PYTHON" in tracks_by_kind["copy"]
    assert tracks_by_kind["kernel"] == {"PYTHON"}
    (kernel,) = events(trace, "kernel")
    assert kernel["args"]["computes"] == "mul, sum"
    # Four products and four sums; four elements read, one written.
    assert (kernel["args"]["operations"], kernel["args"]["bytes"]) == (8, 20)
    assert kernel["dur"] > 0
    # The kernel was compiled before it ran.
    (compiled,) = [item for item in events(trace, "compile") if item["name"] == kernel["name"]]
    assert compiled["ts"] + compiled["dur"] <= kernel["ts"] + kernel["dur"]


def test_replays_of_captured_functions_are_there(tmp_path):
    double = TinyJit(lambda x: (x * 2).realize())
    inputs = [Tensor([float(number)], device="CPU").contiguous().realize() for number in range(5)]
    for x in inputs[:3]:
        double(x)
    with Context(PROFILE=str(tmp_path / "trace.json")):
        for x in inputs[3:]:
            double(x)
        assert len(events(active_trace(), "kernel")) == 2


def test_without_the_flag_nothing_is_kept():
    with span("schedule", "nobody looks"):
        assert active_trace() is None


def test_threads_have_tracks_of_their_own(tmp_path):
    def work() -> None:
        with Context(PROFILE=str(tmp_path / "trace.json")), span("schedule", "aside"):
            pass

    thread = threading.Thread(target=work, name="helper")
    with Context(PROFILE=str(tmp_path / "trace.json")), span("schedule", "main"):
        thread.start()
        thread.join()
        data = active_trace().to_json()
    assert set(tracks(data).values()) == {"host, helper"}
    assert set(tracks(active_json(tmp_path)).values()) == {"host, helper", "host"}


def active_json(folder) -> dict:
    with Context(PROFILE=str(folder / "trace.json")):
        return active_trace().to_json()


def test_a_span_that_fails_is_noted(tmp_path):
    with Context(PROFILE=str(tmp_path / "trace.json")):
        with pytest.raises(ZeroDivisionError), span("compile", "broken"):
            _ = 1 / 0
        assert [event["name"] for event in events(active_trace(), "compile")] == ["broken"]


@pytest.mark.long
def test_the_file_is_written_when_the_program_ends(tmp_path):
    done = run_program(tmp_path, str(tmp_path / "trace-{pid}.json"))
    assert done.stderr == ""
    (path,) = tmp_path.glob("trace-*.json")
    assert path.stem.removeprefix("trace-").isdecimal()
    data = json.loads(path.read_text())
    assert set(tracks(data).values()) == {"host", "CPU", "PYTHON"}
    for event in data["traceEvents"]:
        assert event["ph"] in ("X", "M")
        assert event["ph"] == "M" or event["dur"] >= 0


def test_a_path_that_no_file_can_have_is_said(capsys):
    Trace("trace\0.json").write()
    assert capsys.readouterr().err == (
        "tinyref: PROFILE: cannot write trace\\x00.json: embedded null byte\n"
    )


def run_program(folder, path: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "TINYREF_PROFILE": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(program)]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
