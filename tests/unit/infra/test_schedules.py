"""The nightly's configuration in every place, and the workflows."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer.main
import yaml

from jobs.cli.main import app
from models.catalog_loader import CATALOG, load_models, select_models
from pipelines.benchmarks import benchmark
from tests.support.paths import ROOT

CONFIG_MAP = list(yaml.safe_load_all((ROOT / "infra/kubernetes/store.yaml").read_text()))[2]["data"]
CONFIGS = {"infra/nightly.yaml": (ROOT / "infra/nightly.yaml").read_text(), "ConfigMap": CONFIG_MAP["nightly.yaml"]}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_nightly_configuration_is_valid(name: str) -> None:
    config = yaml.safe_load(CONFIGS[name])
    flags = {
        option[2:]
        for parameter in typer.main.get_command(app).commands["nightly"].params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert set(config) <= flags
    assert {"models", "data", "out", "history"} <= set(config)
    named = [*config["models"], *config["text-models"], config["judge"], config["captioner"]]
    assert set(select_models(named, load_models())) == {*named}
    assert not {*config["models"]} & {*config["text-models"]}
    assert [benchmark(item).name for item in config["benchmarks"]] == config["benchmarks"]


def test_nightly_runs_every_model_that_fits_a_node_and_brings_no_code() -> None:
    config, models = yaml.safe_load(CONFIGS["infra/nightly.yaml"]), load_models()
    text = yaml.safe_load((CATALOG / "text.yaml").read_text())
    on_one_gpu = select_models(["fits:80GB"], models)
    fitting = {
        name
        for name, spec in models.items()
        if name in on_one_gpu or (spec.runs_locally and 1 < spec.tensor_parallel <= 8)
        if not (spec.remote_code or spec.unsupported or spec.withdrawn or name in text)
    }
    assert {*config["models"]} == fitting | {"gpt-4o", "random"}
    assert {*config["text-models"]} == {name for name in text if "maia" in models[name].papers}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_and_have_few_rights(path: Path) -> None:
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"].get("contents") == "read"
    assert "write-all" not in text
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 600
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
            else:
                script = re.sub(r"\$\{\{.*?\}\}", "x", step["run"])
                subprocess.run(["sh", "-n"], input=script, text=True, check=True)
                assert "${{ secrets." not in step["run"]


SUBMITTED = """echo "$@" > submitted
cd "$8" && shift 9
echo Job submitted
"$@" > log 2>&1 && cat log || cat log - log << END
Job failed
Status message: Job entrypoint command failed, last available logs:
END
"""
"""Of a job that failed, Ray's command shows the log's end twice."""


def night(folder: Path, *, code: int, summary: str | None, ray: str = "") -> tuple[int, dict[str, str]]:
    """Run the workflow's own step and infra/nightly.sh with a `ray` that runs the job and a scripted `python`."""
    (step,) = [item for item in yaml.safe_load(WORKFLOWS[1].read_text())["jobs"]["nightly"]["steps"] if "id" in item]
    writes = "" if summary is None else f"printf %s {shlex.quote(summary)} > nightly.md\n"
    fakes = {
        "bin/git": f"tar -c -C {ROOT} infra/nightly.sh infra/nightly.yaml",
        "bin/python": f'echo "$@" > called\n{writes}echo a line of the log >&2\nexit {code}',
        ".venv/bin/ray": ray or SUBMITTED,
    }
    for name, text in fakes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    env = {"PATH": f"{folder}/bin:/usr/bin:/bin", "RAY_ADDRESS": "http://head:8265", "JOB": "nightly-7-1"}
    env |= {name: str(folder / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    result = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=folder, env=env, capture_output=True, text=True)
    names = ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "nightly.md", "submitted", "send/called")
    return result.returncode, {name: (folder / name).read_text() for name in names if (folder / name).exists()}


@pytest.mark.parametrize("code", [0, 1, 3])
def test_nightly_job_returns_summary_and_exit_code(tmp_path: Path, code: int) -> None:
    summary = "# Nightly 1 May: all well\n\n2 pairs run.\n"
    ended, files = night(tmp_path, code=code, summary=summary)
    assert ended == code
    assert files["GITHUB_OUTPUT"] == f"code={code}\n"
    assert files["nightly.md"] == files["GITHUB_STEP_SUMMARY"] == summary
    assert files["submitted"] == (
        "job submit --address http://head:8265 --submission-id nightly-7-1 --working-dir send -- sh infra/nightly.sh\n"
    )
    arguments = files["send/called"].split()
    assert arguments[:3] == ["-m", "jobs.cli", "nightly"]
    options = {option for p in typer.main.get_command(app).commands["nightly"].params for option in p.opts}
    assert {word for word in arguments if word.startswith("--")} <= options
    assert arguments[arguments.index("--config") + 1] == "infra/nightly.yaml"


def test_missing_night_opens_an_issue(tmp_path: Path) -> None:
    ended, files = night(tmp_path, code=0, summary=None, ray="echo the token is not accepted; exit 1")
    assert (ended, files["GITHUB_OUTPUT"], files["nightly.md"]) == (3, "code=3\n", "")
    ended, files = night(tmp_path, code=2, summary=None)
    assert (ended, files["nightly.md"]) == (2, "")


def test_nightly_workflow_uses_no_secret_but_the_token() -> None:
    text = WORKFLOWS[1].read_text()
    assert set(re.findall(r"secrets\.(\w+)", text)) == {"RAY_AUTH_TOKEN"}
    match = re.search(r"git archive HEAD (.*?) \|", text)
    assert match
    assert {"cluster", "jobs", "models", "pipelines"} <= set(match[1].split())
    assert all((ROOT / word).exists() for word in match[1].split())


def test_workflows_cover_every_change_and_every_night() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "nightly.yml"]
    assert "schedule" in yaml.safe_load(WORKFLOWS[1].read_text())[True]  # YAML reads `on` as a truth value


def test_called_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    callers = {path.name: re.findall(r"run: make ([\w-]+)", path.read_text()) for path in WORKFLOWS}
    callers["run"] = re.findall(r"^make ([\w-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert callers["run"] == ["test", "test-slow"]
    assert all(callers.values())
    for called in callers.values():
        assert set(called) <= targets
    assert {"install", "demo", "test", "test-slow", "test-all", "lint", "bench", "chaos", "lock"} <= targets


def test_makefile_calls_existing_modules() -> None:
    rooms = {"jobs", "pipelines", "models", "cluster", "tests", "infra"}
    modules = set(re.findall(r"^\t.*python -m ([a-z_.]+)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    ours = {name for name in modules if name.split(".")[0] in rooms}
    assert len(ours) > 4
    for name in ours:
        path = ROOT / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_console_scripts_name_functions() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert "vlmsweep" in scripts
    for target in scripts.values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name))
