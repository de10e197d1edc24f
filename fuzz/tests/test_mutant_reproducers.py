"""Reproducers of mutants: cases that pass on the compiler as it is, and fail with the mutant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.mutants import reproducer
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.reproducer import FOLDER, fails, file_of
from tinyref_spec.kernel_case import Pair, Symptom

NAMES = sorted(file.stem for file in FOLDER.glob("*.json"))


def test_there_are_reproducers_of_mutants_alone():
    assert NAMES
    assert set(NAMES) <= set(MUTANTS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_reproducer_passes_without_its_mutant(name):
    assert not fails(file_of(name), MUTANTS[name].device)


@pytest.mark.long
@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", NAMES)
def test_a_reproducer_fails_with_its_mutant(name):
    code = (
        "import sys\n"
        "from tinyref_fuzz.mutants.catalogue import MUTANTS\n"
        "from tinyref_fuzz.mutants.mutant import switch_on\n"
        "from tinyref_fuzz.mutants.reproducer import fails, file_of\n"
        f"mutant = MUTANTS[{name!r}]\n"
        "reached = switch_on(mutant)\n"
        "assert fails(file_of(mutant.name), mutant.device), 'it agrees'\n"
        "assert reached.count, 'the edited code did not run'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1500:]


@pytest.mark.long
def test_what_escapes_the_judge_is_a_reproducer_as_well(monkeypatch):
    def broken(self, case, thorough=None):
        raise ValueError("not a lane")

    monkeypatch.setattr(Judge, "verdict", broken)
    found = reproducer.first_failure("PYTHON", 0, 5.0)
    assert found is not None
    assert (found[1].pair, found[1].symptom) == (Pair.PLAIN, Symptom.ERROR)
    assert found[1].detail.startswith("ValueError: not a lane")


def test_a_folder_that_cannot_be_written_is_reported_before_the_search(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(reproducer, "switch_on", lambda mutant: pytest.fail("it is searched"))
    (tmp_path / "file").touch()
    words = ["padto-max", "--folder", str(tmp_path / "file" / "reproducers")]
    assert reproducer.main(words) == 2
    assert "reproducer: cannot write to" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("name", ["reproducer", "witness"])
def test_the_command_has_its_former_name_as_well(name):
    words = [sys.executable, "-m", f"tinyref_fuzz.mutants.{name}", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.startswith("usage: python -m tinyref_fuzz.mutants.reproducer ")
