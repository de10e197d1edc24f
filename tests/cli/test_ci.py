"""Test pipelines of `tinyref ci`: valid by their published schemas, a job for each part."""

from __future__ import annotations

import json
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tinyref.cli.ci import PipelineSettings, job_of_device, jobs_of_table, pipeline
from tinyref.cli.entry import run
from tinyref.errors import UserError
from tinyref_conformance import device_table

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("check_jsonschema", reason="check-jsonschema, which has them, is not installed")
yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
TABLE = ROOT / "ci" / "devices.toml"
# The published schemas come with check-jsonschema, whose versions follow them.
VENDORED = resources.files("check_jsonschema").joinpath("builtin_schemas", "vendor")
SCHEMAS = {"github": "github-workflows.json", "gitlab": "gitlab-ci.json"}
ALONE = PipelineSettings()
MINE = "mine.backend:MineBackend"
ODD = """
[[device]]
id = "mine.x"
device = "MINE"
profile = "quick"
options = ["--query", "isa.*,it's"]
budget = 60
needs = "a card"
required = false
driver = ["libcard.so"]
install = { pip = ["card-driver>=2,<3"], apt = ["libcard1"] }
environment = { CARD = "yes: \\"1\\"" }
setup = ["card-load --quiet 'unit 1' # now"]
"""


def problems(provider: str, data: Any) -> list[str]:
    schema = json.loads(VENDORED.joinpath(SCHEMAS[provider]).read_text(encoding="utf-8"))
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(data)]


def written(provider: str, settings: PipelineSettings = ALONE, table: Path = TABLE) -> Any:
    text = pipeline(provider, jobs_of_table(table, settings), settings, "tinyref ci")
    document = yaml.safe_load(text)
    # YAML 1.1 reads the word as a truth value; forges read the key.
    return {("on" if key is True else key): value for key, value in document.items()}


def without_merge(jobs: dict[str, Any]) -> dict[str, Any]:
    return {name: job for name, job in jobs.items() if name.startswith("conform-")}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("provider", SCHEMAS)
def test_what_is_written_is_valid(provider: str, shards: int) -> None:
    assert problems(provider, written(provider, PipelineSettings(shards=shards))) == []


def test_github_has_a_job_for_each_device_and_shard_of_the_table() -> None:
    rows = device_table.read(TABLE)
    jobs = written("github", PipelineSettings(shards=3))["jobs"]
    conform = without_merge(jobs)
    assert list(conform) == [f"conform-{row.id}" for row in rows]
    assert all(job["strategy"]["matrix"]["shard"] == [1, 2, 3] for job in conform.values())
    assert jobs["merge"]["needs"] == list(conform)
    merges = [step["run"] for step in jobs["merge"]["steps"] if " merge " in step.get("run", "")]
    assert merges[0] == (
        "tinyref conform merge report/cpu-1 report/cpu-2 report/cpu-3 --out merged/cpu"
    )
    assert len(merges) == len(rows)
    assert jobs["merge"]["steps"][-2]["run"].endswith('>> "$GITHUB_STEP_SUMMARY"')
    optional = {name for name, job in conform.items() if job.get("continue-on-error")}
    assert optional == {f"conform-{row.id}" for row in rows if not row.required}
    assert conform["conform-python"]["env"]["TINYREF_CHECK_BOUNDS"] == "1"


def test_gitlab_has_a_job_for_each_device_and_shard_of_the_table() -> None:
    rows = device_table.read(TABLE)
    data = written("gitlab", PipelineSettings(shards=3))
    conform = without_merge(data)
    assert list(conform) == [f"conform-{row.id}" for row in rows]
    assert all(job["parallel"] == 3 for job in conform.values())
    assert "--shard $CI_NODE_INDEX/3 " in conform["conform-cpu"]["script"][-1]
    assert conform["conform-cpu"]["artifacts"]["reports"] == {"junit": "report/*/junit.xml"}
    alone = written("gitlab")
    assert "parallel" not in alone["conform-cpu"]
    assert "--shard 1/1 " in alone["conform-cpu"]["script"][-1]
    assert data["merge"]["script"][-1] == "exit $failed"


@pytest.mark.parametrize("provider", SCHEMAS)
def test_words_of_a_row_reach_the_shell_as_they_are(provider: str, tmp_path: Path) -> None:
    table = tmp_path / "devices.toml"
    table.write_text(ODD)
    (tmp_path / "expectations").mkdir()
    known = tmp_path / "expectations" / "mine.x.toml"
    known.write_text("")
    data = written(provider, table=table)
    assert problems(provider, data) == []
    job = (data["jobs"] if provider == "github" else data)["conform-mine-x"]
    lines = (
        [step["run"] for step in job["steps"] if "run" in step]
        if provider == "github"
        else (job["script"])
    )
    assert shlex.split(lines[1]) == ["python", "-m", "pip", "install", ".", "card-driver>=2,<3"]
    assert lines[2] == "card-load --quiet 'unit 1' # now"
    words = shlex.split(lines[3].replace("${{ matrix.shard }}", "1"))
    assert words[:8] == [
        "tinyref",
        "conform",
        "--device",
        "MINE",
        "--profile",
        "quick",
        "--query",
        "isa.*,it's",
    ]
    assert words[8:12] == ["--expectations", known.as_posix(), "--shard", "1/1"]
    variables = job["env" if provider == "github" else "variables"]
    assert variables["CARD"] == 'yes: "1"'
    # Where the card is.
    where = job["runs-on"] if provider == "github" else job["tags"]
    assert where == (["self-hosted", "mine.x"] if provider == "github" else ["mine.x"])


def test_a_device_of_ones_own_needs_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["ci", "--provider", "github", "--device", MINE, "--shards", "2"]
    file = Path(".github/workflows/conformance.yml")
    assert run([*words, "--expectations", "known.toml", "--out", str(file)]) == 0
    assert f"{file}: 1 devices, 2 shards each" in capsys.readouterr().out
    data = yaml.safe_load(file.read_text())
    assert problems("github", {("on" if key is True else key): data[key] for key in data}) == []
    (job,) = without_merge(data["jobs"]).values()
    command = job["steps"][-2]["run"]
    assert command.startswith(f"tinyref conform --device {MINE} --profile quick --expectations")
    assert run(["ci", "--provider", "gitlab"]) == 2
    assert "name your device with --device" in capsys.readouterr().err


def test_a_library_is_named_as_conform_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    library = ["--subject", "torch", "--on", "mine", "--import", "torch_mine"]
    for provider in SCHEMAS:
        words = ["ci", "--provider", provider, *library, "--expectations", "known.toml"]
        assert run(words) == 0
        data = yaml.safe_load(capsys.readouterr().out)
        assert problems(provider, {("on" if key is True else key): data[key] for key in data}) == []
        assert (
            f"tinyref conform {shlex.join(library)} --profile quick --expectations known.toml "
        ) in json.dumps(data)
    assert run(["ci", "--provider", "github", "--on", "mine"]) == 2
    assert "they go with --subject" in capsys.readouterr().err
    assert run([*words, "--device", MINE]) == 2
    assert "exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("provider", "shards", "says"),
    [
        ("jenkins", 1, "provider: got 'jenkins', accepted are github, gitlab, docker"),
        ("github", 0, "shards: got 0, accepted are 1 to 200"),
        ("gitlab", 201, "shards: got 201"),
    ],
)
def test_what_is_not_accepted_is_said(provider: str, shards: int, says: str) -> None:
    settings = PipelineSettings(shards=shards)
    with pytest.raises(UserError, match=says):
        pipeline(provider, [job_of_device(MINE, settings)], settings, "tinyref ci")


def test_what_is_no_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["ci", "--provider", "github", "--table"]
    assert run([*words, str(tmp_path / "gone.toml")]) == 2
    assert "table: cannot read" in capsys.readouterr().err
    (tmp_path / "odd.toml").write_text("[[device]]\nid = 3\n")
    assert run([*words, str(tmp_path / "odd.toml")]) == 2
    assert "tinyref: error: table: odd.toml: row 1" in capsys.readouterr().err
    (tmp_path / "deep.toml").write_text(f"device = {'[' * 5000}\n")
    assert run([*words, str(tmp_path / "deep.toml")]) == 2
    assert "table: deep.toml is not TOML: nested too deeply" in capsys.readouterr().err


def test_the_dockerfile_agrees_with_the_table() -> None:
    settings = PipelineSettings()
    text = pipeline(
        "docker", jobs_of_table(TABLE, settings), settings, "tinyref ci --provider docker"
    )
    committed = (ROOT / "ci" / "Dockerfile").read_text()
    assert committed.splitlines()[1:] == text.splitlines()[1:]
    assert "Nobody has built it yet" in committed
    for name in ("pocl-opencl-icd", "mesa-vulkan-drivers", "tcc", "g++"):
        assert f"        {name} \\\n" in committed
    assert "cuda" not in committed
