"""`tinyref ci`: write pipelines with a job for each device and shard, and a merge."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tinyref.cli.options import (
    device_option,
    file_option,
    flag,
    named,
    out_option,
    write_output,
)
from tinyref.errors import UserError
from tinyref.folders import file_name

if TYPE_CHECKING:
    from tinyref_conformance.device_table import DeviceRow

TABLE = Path("ci/devices.toml")
# The template of each provider.
PROVIDERS = {
    "github": "github.yml.jinja",
    "gitlab": "gitlab.yml.jinja",
    "docker": "Dockerfile.jinja",
}
# The limit of `parallel` of GitLab.
MAX_SHARDS = 200


def ci(
    provider: Annotated[
        str, named("--provider", "NAME", "github, gitlab, or docker for a Dockerfile.")
    ],
    device: Annotated[
        str, device_option("Only this device, without a table; as `tinyref conform` takes it.")
    ] = "",
    subject: Annotated[
        str,
        named("--subject", "LIBRARY", "Only this library, as `tinyref conform` takes it."),
    ] = "",
    on: Annotated[
        str, named("--on", "NAME", "With --subject: the device, by the library's name for it.")
    ] = "",
    imports: Annotated[
        list[str] | None,
        named("--import", "PACKAGE", "With --subject: a package that registers the device."),
    ] = None,
    table: Annotated[
        Path | None,
        file_option("--table", f"The table of devices, a [[device]] for each (default: {TABLE})."),
    ] = None,
    shards: Annotated[
        int, named("--shards", "N", "Number of jobs of each device, which share its cases.")
    ] = 1,
    thorough: Annotated[
        bool, flag("--thorough", "Run all of the thorough profile of each row.")
    ] = False,
    expectations: Annotated[
        Path | None,
        file_option(
            "--expectations",
            "Known failures of --device or --subject; those of a row are found by its id.",
        ),
    ] = None,
    install: Annotated[
        str,
        named("--install", "TEXT", "The arguments of pip install: your package, with tinyref."),
    ] = ".",
    python: Annotated[str, named("--python", "VERSION", "The version of Python.")] = "3.12",
    runner: Annotated[
        str, named("--runner", "NAME", "The runner of GitHub for jobs that need no card.")
    ] = "ubuntu-latest",
    out: Annotated[
        Path | None, out_option("Write to this file (default: standard output).")
    ] = None,
) -> None:
    """Write a pipeline that runs the conformance suite in CI.

    \b
    Examples:
      tinyref ci --provider github -d mine.backend:MineBackend --shards 4 \\
        -o .github/workflows/conformance.yml
      tinyref ci --provider github --subject torch --on mydevice --import torch_mydevice
      tinyref ci --provider gitlab --table ci/devices.toml -o .gitlab-ci.yml
      tinyref ci --provider docker -o Dockerfile

    Each device has a job for each shard, with caches of packages and of compiled kernels, and its
    reports as artifacts. A last job merges the shards and shows the devices side by side. A row
    with a `driver` runs on a machine whose label is its id: `self-hosted` of GitHub, a tag of
    GitLab.
    """
    settings = PipelineSettings(shards, thorough, python, install, runner)
    if sum(map(bool, (device, subject, table))) > 1:
        raise UserError("ci: --device, --subject and --table exclude each other")
    if subject:
        from tinyref.cli.conform import subject_name

        device = subject_name(subject, on, imports or [])
    elif on or imports:
        raise UserError("on, import: they go with --subject, which names the library")
    if device:
        known = "" if expectations is None else expectations.as_posix()
        jobs = [job_of_device(device, settings, known)]
    elif expectations is not None:
        raise UserError("ci: --expectations goes with --device or --subject")
    elif table is None and not TABLE.exists():
        raise UserError(
            f"ci: name your device with --device or --subject, or write a table {TABLE}"
        )
    else:
        jobs = jobs_of_table(table or TABLE, settings)
    text = pipeline(provider, jobs, settings, _command())
    if out is None:
        print(text, end="")
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"ci: cannot make {out.parent}: {error.strerror or error}") from error
    write_output(out, text, "ci")
    print(f"{out}: {len(jobs)} devices, {shards} shards each")


def _command() -> str:
    """Return this command, for readers of the file."""
    return shlex.join(["tinyref", *sys.argv[1:]])


@dataclass(frozen=True)
class PipelineSettings:
    """The settings that all jobs share.

    install: the arguments of `pip install`. runner: the runner of GitHub for jobs without a card.
    """

    shards: int = 1
    thorough: bool = False
    python: str = "3.12"
    install: str = "."
    runner: str = "ubuntu-latest"

    @property
    def pip(self) -> str:
        return shlex.join(["python", "-m", "pip", "install", *shlex.split(self.install)])


@dataclass(frozen=True)
class DeviceJob:
    """One device with its shards; `expectations` is the file of its known failures, if any."""

    row: DeviceRow
    settings: PipelineSettings
    expectations: str = ""

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def key(self) -> str:
        """Return the id, spelled as the key of a job."""
        return file_name(self.id)

    @property
    def needed(self) -> str:
        """Return the key of the job that the merge waits for."""
        return f"conform-{self.key}"

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the shards, from 1."""
        return list(range(1, self.settings.shards + 1))

    @property
    def gitlab_number(self) -> str:
        """Return the number of a shard in GitLab; without `parallel` there is no variable."""
        return "$CI_NODE_INDEX" if self.settings.shards > 1 else "1"

    @property
    def tags(self) -> list[str]:
        """Return the tags of runners that have the card; none if any machine will do."""
        return [self.id] if self.row.driver else []

    @property
    def runner(self) -> str | list[str]:
        """Return the labels of the runner of GitHub."""
        return ["self-hosted", self.id] if self.row.driver else self.settings.runner

    @property
    def install(self) -> str:
        """Return the command that installs the package and the packages of the row."""
        return shlex.join([*shlex.split(self.settings.pip), *self.row.pip])

    def conform(self, number: str, form: str) -> str:
        """Return the command of a shard; the shell or the forge fills in its number."""
        from tinyref_conformance.report import device_options

        row = self.row
        words = ["tinyref", "conform", *device_options(row.device, row.second)]
        words += row.thorough_options if self.settings.thorough else row.default_options
        if self.expectations:
            words += ["--expectations", self.expectations]
        # Not quoted: it is filled in.
        shard = f"--shard {number}/{self.settings.shards}"
        return f"{shlex.join(words)} {shard} --format {form} --out report/{self.id}-{number}"

    @property
    def merge(self) -> str:
        """Return the command that merges the reports of the shards."""
        folders = [f"report/{self.id}-{number}" for number in self.numbers]
        return shlex.join(["tinyref", "conform", "merge", *folders, "--out", f"merged/{self.id}"])


def jobs_of_table(path: Path, settings: PipelineSettings) -> list[DeviceJob]:
    """Return a job for each row of a device table, with the expectations next to the table.

    Raises `UserError` for a file that is no table.
    """
    from tinyref_conformance import device_table

    try:
        rows = device_table.read(path)
    except OSError as error:
        raise UserError(f"table: cannot read {path}: {error.strerror}") from error
    except device_table.DeviceTableError as error:
        raise UserError(f"table: {error}") from error
    jobs = []
    for row in rows:
        known = path.parent / "expectations" / f"{row.id}.toml"
        jobs.append(DeviceJob(row, settings, known.as_posix() if known.exists() else ""))
    return jobs


def job_of_device(device: str, settings: PipelineSettings, expectations: str = "") -> DeviceJob:
    """Return the job of a device that is in no table."""
    name = re.sub("-+", "-", file_name(device).lower()).strip("-")
    from tinyref_conformance.device_table import DeviceRow

    row = DeviceRow(name, device, "quick", 3600, device, required=True)
    return DeviceJob(row, settings, expectations)


def pipeline(
    provider: str, jobs: Sequence[DeviceJob], settings: PipelineSettings, command: str
) -> str:
    """Return the text of the file. Raise `UserError` for an unknown provider or too many shards."""
    if provider not in PROVIDERS:
        raise UserError(f"provider: got {provider!r}, accepted are {', '.join(PROVIDERS)}")
    if not 1 <= settings.shards <= MAX_SHARDS:
        raise UserError(f"shards: got {settings.shards}, accepted are 1 to {MAX_SHARDS}")
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("tinyref.cli.ci"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["tojson"] = json.dumps
    # A container has no card.
    hosts = [job.row for job in jobs if not job.row.driver]
    text: str = templates.get_template(PROVIDERS[provider]).render(
        jobs=jobs,
        command=command,
        python=settings.python,
        runner=settings.runner,
        install=settings.pip,
        apt=sorted({name for row in hosts for name in row.apt}),
        pip=[shlex.quote(name) for name in sorted({name for row in hosts for name in row.pip})],
    )
    return text
