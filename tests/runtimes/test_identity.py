"""What a device says of itself for a later run to be compared with."""

from __future__ import annotations

from typing import Any

import pytest

from tinyref.config import Context
from tinyref.device import Device
from tinyref.runtimes.identity import identity
from tinyref.workers.tasks import differences


def test_an_identity_has_compiler_sources_versions_and_capabilities() -> None:
    actual = identity(Device["CPU"])
    assert actual["compiler"] == Device["CPU"].compiler.key
    assert len(actual["sources of the backend"]) == 24
    assert actual["capability has_groups"] == "False"
    assert "float32" in actual["capability dtypes"]
    assert {"tinyref", "python", "library numpy", "version llvm"} <= set(actual)
    assert not [name for name in actual if name.startswith("flag ")]


@pytest.mark.usefixtures("c_compiler")
def test_flags_and_the_environment_that_a_backend_declares_are_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "gcc")
    before = identity(Device["CLANG"])
    assert before["environment CC"] == "gcc"
    assert "environment CC" not in identity(Device["CPU"])
    with Context(NOOPT=1, DEBUG=1, DEVICE="PYTHON"):
        after = identity(Device["CLANG"])
    assert differences(before, after) == ["flag NOOPT: (none) -> 1"]


def test_a_backend_that_raises_still_has_an_identity() -> None:
    class Broken:
        def versions(self) -> Any:
            raise OSError("no driver")

        @property
        def compiler(self) -> Any:
            raise TypeError("no key")

        capabilities = None

    actual = identity(Broken())
    assert actual["compiler"] == "raises TypeError"
    assert actual["version (all)"] == "raises OSError"


def test_of_long_values_the_difference_is_shown() -> None:
    old, new = "a" * 200 + "b" + "c" * 200, "a" * 200 + "d" + "c" * 200
    (line,) = differences({"ops": old, "same": "1"}, {"ops": new, "same": "1"})
    assert line.startswith("ops: ...aaa")
    assert "ab" in line
    assert "ad" in line
    assert len(line) < 250
