"""All checks of the project: `nox` runs the default ones, `nox -s thorough` more cases."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "ci"))
import conform_row  # noqa: E402 - found by the line above
import packages  # noqa: E402
import subject_row  # noqa: E402

DEVICES = {row.id: row for row in conform_row.read()}
SUBJECTS = {library.id: library for library in subject_row.read()}
PYTHONS = ("3.11", "3.12", "3.13")
# Environments that several sessions share.
DEVICES_ENVIRONMENT, SUBJECTS_ENVIRONMENT, TESTS_ENVIRONMENT = "devices", "subjects", "tests"
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
REPORT = ROOT / "report"
CI_FILES = (
    "ci/build_commit.py",
    "ci/documentation.py",
    "ci/english.py",
    "ci/conform_row.py",
    "ci/packages.py",
    "ci/shard.py",
    "ci/size.py",
    "ci/subject_row.py",
    "ci/system_packages.py",
    "noxfile.py",
)
COVERAGE = ("--cov", "--cov-report=term:skip-covered")
# Rooms that apply rewriting rules: the compiler, and the code that runs its kernels.
COMPILER = (
    "algebra",
    "codegen",
    "engine",
    "formats",
    "interpret",
    "optimise",
    "schedule",
    "uops",
    "verify",
    "views",
)
# Files that skip tests if the compilers of NVIDIA are not installed.
COMPILED = (
    "conformance/tests/test_compile_targets.py",
    "tests/renderers/test_cuda_source.py",
    "tests/runtimes/test_cuda.py",
    "tests/runtimes/test_ptx.py",
)

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["lint", "types", "docs", "tests", "conform", "fuzz"]
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
# A missing Python is reported as skipped, and not downloaded.
nox.options.error_on_missing_interpreters = False
os.environ["UV_PYTHON_DOWNLOADS"] = "never"
os.environ |= packages.uv_variables()
# The tests start hundreds of processes, and each would compile all its imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, lint, the import layers, the size of each room, and plain English."""
    session.install("-e", ".[lint]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("lint-imports")
    session.run("python", "ci/size.py")
    session.run("python", "ci/english.py")


@nox.session
def types(session: nox.Session) -> None:
    """Check types: mypy --strict on the four packages and on the scripts of CI."""
    session.install("-e", ".[types]", "nox", "pytest", "hypothesis", "hatchling")
    session.run("mypy")
    session.run("mypy", *CI_FILES)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site in report/site; a warning is an error."""
    try:
        session.install("-e", ".[docs]")
    except CommandFailed:
        session.skip("mkdocs-material and mkdocstrings cannot be installed here")
    # Otherwise the theme advertises another program on each build.
    session.run("mkdocs", "build", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that are not slow, or pytest with the arguments after `--`."""
    _shared_pytest(session, *session.posargs or ("-m", "not slow"))


def _shared_pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    packages.share_environment(session, TESTS_ENVIRONMENT)
    _pytest(session, *arguments, **environment)


def _pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    # Editable, so that coverage and the page tests see the files of this checkout.
    packages.install_once(session, "-e", ".[test,lint,types]")
    for extras, what in (("opencl,webgpu", "OPENCL and WEBGPU"), ("docs", "the site's builder")):
        try:
            packages.install_once(session, "-e", f".[{extras}]")
        except CommandFailed:
            session.warn(f"{what} cannot be installed here: their tests are skipped")
    # 5: the shard has none of these tests, which is possible if they are few.
    codes = [0, 5] if "--shard" in arguments else [0]
    session.run("pytest", "-n", "auto", *arguments, env=environment, success_codes=codes)


@nox.session
def quick(session: nox.Session) -> None:
    """Run the quick tests, about a minute on two cores: a case of each test that is not long."""
    _shared_pytest(session, "-m", "quick", *session.posargs)


@nox.session
@nox.parametrize("device", list(DEVICES), ids=list(DEVICES))
def conform(session: nox.Session, device: str) -> None:
    """Run the conformance suite on one device of ci/devices.toml, within its budget."""
    row = DEVICES[device]
    options = session.posargs or row.default_options
    packages.share_environment(session, DEVICES_ENVIRONMENT)
    conform_row.conform(session, row, REPORT / device, options, CommandFailed)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzz for a short time with a fixed seed; never flaky, at most 120 s on two cores."""
    packages.share_environment(session, DEVICES_ENVIRONMENT)
    packages.install_once(session, ".")
    runs = [("PYTHON", "kernels", 400), ("PYTHON", "programs", 400)]
    runs += [("CPU", "kernels", 300), ("CPU", "programs", 300), ("GPU_EMU", "programs", 100)]
    for device, subject, count in runs:
        if session.posargs and subject != "kernels":
            continue
        arguments = session.posargs or [f"--{subject}", str(count), "--seed", "1", "--jobs", "2"]
        # On a slow machine a case may take long; this is not a finding.
        arguments = ["--timeout", "5m", *arguments]
        folder = REPORT / (f"fuzz-{device}" if subject == "kernels" else f"fuzz-programs-{device}")
        session.run("tinyref", "fuzz", "--device", device, "--out", str(folder), *arguments)


# The thorough lane: each part takes `--shard i/n`.


@nox.session
def thorough(session: nox.Session) -> None:
    """Repeat the default checks on more cases: `nox -s thorough -- --shard 3/30`."""
    parts = ["slow", "coverage", "random", "shuffled", "compiled", "sdist"]
    parts += [f"conform_full({device})" for device in DEVICES]
    parts += [f"subjects({library})" for library in SUBJECTS]
    parts += [f"python-{version}" for version in PYTHONS if version != THIS_PYTHON]
    for part in parts:
        session.notify(part, session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the slow tests, which are more cases of the other tests."""
    _shared_pytest(session, "-m", "slow", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Check the floor of coverage, which the quick tests reach: all of it in the first shard."""
    words = session.posargs
    shard = words[words.index("--shard") + 1] if "--shard" in words else "1/1"
    if not shard.startswith("1/"):
        session.skip(f"only the first shard runs all quick tests, not {shard}")
    _shared_pytest(session, "-m", "quick", *COVERAGE)


@nox.session
def random(session: nox.Session) -> None:
    """Test the laws with fresh examples; report/hypothesis keeps the failing ones."""
    _shared_pytest(session, "-m", "hypothesis", "--hypothesis-profile", "random", *session.posargs)


@nox.session
def shuffled(session: nox.Session) -> None:
    """Test the compiler with the rewriting rules in another order."""
    folders = [f"tests/{name}" for name in COMPILER]
    _shared_pytest(session, "-m", "not slow", *folders, *session.posargs, TINYREF_SHUFFLE_RULES="7")


@nox.session
def compiled(session: nox.Session) -> None:
    """Compile all kernels of the suite with NVRTC and ptxas, and call their bindings."""
    # Half a gigabyte that no other session installs.
    session.install("-e", ".[cuda]")
    _pytest(session, "-k", "not HIP", *COMPILED, *session.posargs)


@nox.session
def sdist(session: nox.Session) -> None:
    """Build the sdist, unpack it, and run its quick tests there."""
    session.install("build")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder)
    session.run("python", "-m", "build", "--sdist", "--outdir", str(folder))
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    session.chdir(unpacked)
    _pytest(session, "-m", "quick", *session.posargs)


@nox.session
@nox.parametrize("device", list(DEVICES), ids=list(DEVICES))
def conform_full(session: nox.Session, device: str) -> None:
    """Run a full profile on one device of ci/devices.toml, or the profile that its row names."""
    row = DEVICES[device]
    options = [*row.thorough_options, *session.posargs]
    packages.share_environment(session, DEVICES_ENVIRONMENT)
    conform_row.conform(session, row, REPORT / f"{device}-full", options, CommandFailed)


@nox.session
@nox.parametrize("library", list(SUBJECTS), ids=list(SUBJECTS))
def subjects(session: nox.Session, library: str) -> None:
    """Run the tensor rows on one library of ci/subjects.toml, if it can be installed."""
    packages.share_environment(session, SUBJECTS_ENVIRONMENT)
    report = REPORT / f"subject-{library}"
    subject_row.conform(session, SUBJECTS[library], report, session.posargs, CommandFailed)


@nox.session(name="python", python=PYTHONS)
def each_python(session: nox.Session) -> None:
    """Run the whole suite on one supported Python, if it is installed."""
    _pytest(session, *session.posargs)


@nox.session
def fuzz_nightly(session: nox.Session) -> None:
    """Fuzz for long with a random seed: `nox -s fuzz_nightly -- --device MINE --budget 8h`.

    The folder report/fuzz-nightly keeps the findings; the database of the last night stays there.
    """
    session.install(".[cluster]")
    arguments = session.posargs or ["--budget", "1h"]
    folder = REPORT / "fuzz-nightly"
    session.run("tinyref", "fuzz", "--out", str(folder), *arguments)
