"""Test the numbers of cores and bytes that the files of control groups state."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tinyref.workers import machine

GIB = 1 << 30


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write files of a system that replaces this one: 16 cores and 64 GiB."""
    monkeypatch.setattr(machine, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "_processors", lambda: 16)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 64 * GIB // 4096}
    monkeypatch.setattr(machine.os, "sysconf", pages.__getitem__)

    def write(membership: str, **files: str) -> None:
        machine._core_limit.cache_clear()
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "groups" / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    yield write
    machine._core_limit.cache_clear()


V1 = "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("membership", "files", "cores", "gib"),
    [
        ("", {}, 16, 64),
        ("0::/\n", {"memory_DOT_max": "max\n", "cpu_DOT_max": "max 100000\n"}, 16, 64),
        ("0::/\n", {"memory_DOT_max": f"{4 * GIB}\n", "cpu_DOT_max": "250000 100000\n"}, 3, 4),
        ("0::/a/b\n", {"a__memory_DOT_max": f"{2 * GIB}\n", "a__b__memory_DOT_max": "max"}, 16, 2),
        ("0::/a/b\n", {"a__b__cpu_DOT_max": "10000 100000\n"}, 1, 64),
        (
            V1,
            {
                "memory__docker__abc__memory_DOT_limit_in_bytes": f"{8 * GIB}\n",
                "cpu,cpuacct__docker__abc__cpu_DOT_cfs_quota_us": "400000\n",
                "cpu,cpuacct__docker__abc__cpu_DOT_cfs_period_us": "100000\n",
            },
            4,
            8,
        ),
        (
            V1,
            {
                "memory__memory_DOT_limit_in_bytes": "9223372036854771712\n",
                "cpu__cpu_DOT_cfs_quota_us": "-1\n",
                "cpu__cpu_DOT_cfs_period_us": "100000\n",
            },
            16,
            64,
        ),
        ("rubbish\n::\n0::\n", {"memory_DOT_max": "many\n", "cpu_DOT_max": "1\n"}, 16, 64),
    ],
)
def test_the_tightest_limit_counts(system, membership, files, cores, gib):
    system(membership, **files)
    assert machine.usable_cores() == cores
    assert machine.usable_memory() == int(gib * GIB * 0.8)


@pytest.mark.parametrize(
    ("asked", "job_memory", "jobs"),
    [(0, None, 6), (3, None, 3), (100, None, 6), (100, 1 * GIB, 3), (0, 16 * GIB, 1)],
)
def test_there_are_no_more_workers_than_memory_for_them(system, asked, job_memory, jobs):
    # 80 % of 4 GiB are 6.4 times half a GiB.
    system("0::/\n", memory_DOT_max=f"{4 * GIB}\n")
    assert machine.bounded_jobs(asked, job_memory) == jobs


def test_the_kills_of_the_own_group_are_told(system):
    system("0::/\n", memory_DOT_events="low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n")
    assert machine.memory_kills() == 2
    system("7:memory:/\n", memory__memory_DOT_oom_control="under_oom 0\noom_kill 5\n")
    assert machine.memory_kills() == 5


def test_this_machine_has_cores_and_memory():
    assert machine.usable_cores() >= 1
    assert machine.usable_memory() > 64 << 20
    assert machine.memory_kills() >= 0


def test_processor_time_goes_on_while_a_process_computes():
    session = os.getsid(0)
    before = machine.processor_seconds()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    # Some systems do not report on processes.
    if before:
        assert machine.processor_seconds()[session] >= before[session] + 0.1
