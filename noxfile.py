"""All checks of the project: `nox` runs every default session, `nox -l` lists them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "ci"))
import matrix  # noqa: E402 - found by the line above

DEVICES = matrix.read()

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "tests", "sdist", "shuffled", "conform", "fuzz"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint and the import layers of the architecture."""
    session.install(".[lint]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict on the four packages and on what CI runs."""
    session.install(".[types]", "nox", "pytest", "hypothesis")
    session.run("mypy")
    session.run("mypy", "ci/matrix.py")


def run_tests(session: nox.Session) -> None:
    """The whole suite on all cores, with the coverage floor on tinyref/ for what is not slow.

    The slow tests run the same code on more cases, and tracing would make them half as slow again.
    """
    # Editable, so that coverage and the page tests see the files of this checkout.
    session.install("-e", ".[test]")
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    covered = ("--cov", "--cov-report=term:skip-covered")
    session.run("pytest", "-n", "auto", "-m", "not slow", *covered)
    session.run("pytest", "-n", "auto", "-m", "slow")


@nox.session
def tests(session: nox.Session) -> None:
    """The whole suite on the Python that runs nox."""
    run_tests(session)


@nox.session
def quick(session: nox.Session) -> None:
    """The inner loop, about a minute on two cores: a case of each test that is not long."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", "-m", "quick", *session.posargs)


@nox.session
def sdist(session: nox.Session) -> None:
    """Builds the sdist, unpacks it, and runs its quick tests there."""
    session.install("build")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder)
    session.run("python", "-m", "build", "--sdist", "--outdir", str(folder))
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    session.chdir(unpacked)
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", "-m", "quick", *session.posargs)


@nox.session
def shuffled(session: nox.Session) -> None:
    """The tests of the compiler with the rewriting rules tried in another order."""
    session.install("-e", ".[test]")
    arguments = session.posargs or ["-n", "auto", "-m", "not slow", "tests/uops", "tests/engine"]
    session.run("pytest", *arguments, env={"TINYREF_SHUFFLE_RULES": "7"})


@nox.session(python=["3.11", "3.12", "3.13"])
def tests_each_python(session: nox.Session) -> None:
    """The whole suite on every supported Python that is installed here."""
    run_tests(session)


@nox.session
@nox.parametrize("device", [row.id for row in DEVICES], ids=[row.id for row in DEVICES])
def conform(session: nox.Session, device: str) -> None:
    """The conformance suite on one device of ci/devices.toml."""
    (row,) = (row for row in DEVICES if row.id == device)
    matrix.conform(session, row, ROOT / "report" / device, session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """A short differential fuzz with a fixed seed; never flaky, at most 120 s on two cores."""
    session.install(".")
    for device, kernels in (("PYTHON", 400), ("CPU", 300)):
        arguments = session.posargs or ["--kernels", str(kernels), "--seed", "1", "--jobs", "2"]
        # On a slow machine a case may take long: that is no finding of this lane.
        arguments = ["--timeout", "300", *arguments]
        folder = ROOT / "report" / f"fuzz-{device}"
        session.run("tinyref", "fuzz", "--device", device, "--folder", str(folder), *arguments)


@nox.session
def fuzz_nightly(session: nox.Session) -> None:
    """A long fuzz with a random seed: `nox -s fuzz_nightly -- --device MINE --seconds 28800`.

    The folder report/fuzz-nightly keeps what was found; the last night's database stays beside it.
    """
    session.install(".[cluster]")
    arguments = session.posargs or ["--seconds", "3600"]
    folder = ROOT / "report" / "fuzz-nightly"
    session.run("tinyref", "fuzz", "--folder", str(folder), *arguments)
