"""The files and settings that `vlmsweep submit` and `ray job submit` send."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distributions, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cluster.env_encryption import encrypt_env
from jobs.cli.main import run
from jobs.submit.decrypt_env import HOOK
from jobs.submit.package import entrypoint, stage
from models.environment import ENCRYPTED_ENV, read_variables
from models.errors import MissingSecretError
from pipelines.plan.options import SweepOptions
from tests.support.paths import ROOT

SECRETS = (".env", ".env.local", "prod.env", "ray_token", "key.pem", "secrets/openai", "jobs/.env", "data/x.parquet",
           "clip.mp4", "checkpoint/model.safetensors", ".aws/credentials")  # fmt: skip


def flags(**more: Any) -> SweepOptions:
    return SweepOptions(models=("random",), benchmarks=("maia",), data="s3://b/data", out="s3://b/o p", **more)


def test_job_command_repeats_the_flags(tmp_path: Path) -> None:
    models = tmp_path / "my models.yaml"
    line = entrypoint(
        flags(models_file=(models,), sample_ids=("a'b", "c"), prompts=tmp_path, judge=None), verbose=False
    )
    assert shlex.split(line) == [
        *("sh", "submitted/start.sh", "--benchmarks", "maia", "--data", "s3://b/data", "--out", "s3://b/o p"),
        *("--sample-id", "a'b", "--sample-id", "c", "--judge-checks", "0", "--fail-on-error", "true", "--seed", "42"),
        *("--repeats", "1", "--models", "random"),
        *("--models-file", "submitted/models-0-my_models.yaml", "--prompts", "submitted/prompts"),
    ]


def test_flags_without_a_value_are_sent_only_where_they_are_set() -> None:
    assert "--batch" not in shlex.split(entrypoint(flags(), verbose=False))
    assert shlex.split(entrypoint(flags(batch=True), verbose=False))[-3:] == ["--models", "random", "--batch"]


def test_package_holds_code_tables_and_named_files_only(tmp_path: Path) -> None:
    models = tmp_path / "m.yaml"
    models.write_text("mine: {engine: random}\n")
    (tmp_path / "prompts" / "maia").mkdir(parents=True)
    (tmp_path / "prompts" / "maia" / "v1.txt").write_text("x")
    (tmp_path / "prompts" / "maia" / "note.env").write_text("KEY=1")
    sent = tmp_path / "sent"
    stage(flags(models_file=(models,), prompts=tmp_path / "prompts"), sent, code="here")
    names = {path.relative_to(sent).as_posix() for path in sent.rglob("*") if path.is_file()}
    for package in ("cluster", "jobs", "models", "pipelines"):
        code = [*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("templates/*.*")]
        assert {p.relative_to(ROOT).as_posix() for p in code} <= names
    assert {"submitted/models-0-m.yaml", "submitted/prompts/maia/v1.txt", "models/catalog/random.yaml"} <= names
    metadata = f"vlmsweep-{version('vlmsweep')}.dist-info"
    assert {name.partition("/")[0] for name in names} == {
        *("cluster", "jobs", "models", "pipelines", "submitted", metadata)
    }
    (ours,) = distributions(path=[str(sent)])
    registered = {(entry.group, entry.name, entry.value) for entry in ours.entry_points}
    assert ("vlmsweep.commands", "nightly", "jobs.nightly.command:nightly") in registered
    assert (ours.name, ours.version) == ("vlmsweep", version("vlmsweep"))
    assert not {name for name in names if name.endswith((".env", ".mp4", ".parquet", ".pyc"))}
    assert sum(path.stat().st_size for path in sent.rglob("*") if path.is_file()) < 8 << 20


def test_human_files_are_sent_and_those_in_a_store_are_named(tmp_path: Path) -> None:
    people = tmp_path / "people"
    people.mkdir()
    (people / "labels.csv").write_text("id,annotator,label\n")
    (people / "names-of-annotators.txt").write_text("private")
    human = (f"vflute={people}", f"vflute={people / 'labels.csv'}", "maia=s3://b/people")
    line = shlex.split(entrypoint(flags(human=human), verbose=False))
    assert line[-6:] == [
        *("--human", "vflute=submitted/people-0", "--human", "vflute=submitted/people-1.csv"),
        *("--human", "maia=s3://b/people"),
    ]
    stage(flags(human=human), tmp_path / "sent", code="image")
    assert sorted(p.relative_to(tmp_path / "sent").as_posix() for p in (tmp_path / "sent").rglob("*.*")) == [
        "submitted/people-0/labels.csv",
        "submitted/people-1.csv",
        "submitted/start.sh",
    ]


def test_image_with_the_code_gets_only_the_named_files(tmp_path: Path) -> None:
    models = tmp_path / "m.yaml"
    models.write_text("mine: {engine: random}\n")
    stage(flags(models_file=(models,)), tmp_path / "sent", code="image")
    names = {p.relative_to(tmp_path / "sent").as_posix() for p in (tmp_path / "sent").rglob("*") if p.is_file()}
    assert names == {"submitted/models-0-m.yaml", "submitted/start.sh"}


def test_ray_job_submit_excludes_secrets_data_and_media(tmp_path: Path) -> None:
    """The archive that Ray makes of a checkout with our `.rayignore`, by Ray's own code."""
    from ray._private.runtime_env.packaging import _zip_files

    tree, archive = tmp_path / "tree", tmp_path / "sent.zip"
    tree.mkdir()
    for package in ("cluster", "jobs", "models", "pipelines"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".rayignore", ".gitignore", "pyproject.toml"):
        shutil.copy(ROOT / name, tree / name)
    for name in SECRETS:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("secret")
    _zip_files(str(tree), [], str(archive), include_gitignore=True)
    sent = set(zipfile.ZipFile(archive).namelist())
    assert not sent & set(SECRETS)
    code = {p.relative_to(ROOT).as_posix() for package in ("cluster", "jobs", "models", "pipelines")
            for p in (ROOT / package).rglob("*.py")}  # fmt: skip
    assert code <= sent


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--models", "randon"], "'random'"),
        (["--data", "data"], "absolute"),
        (["--out", "gs://x"], "s3://"),
        (["--human", "maia=nowhere.csv"], "no such file"),
        (["--human", "main=s3://b/people"], "'maia'"),
        (["--env", "KEY=value"], "--env KEY: give the name"),
        (["--env", "NOT_SET_ANYWHERE"], "not set here"),
        (["--submission-id", "a b"], "letters"),
        (["--code", "git"], "here or image"),
        (["--address", "ray://x:10001"], "http://"),
    ],
)
def test_usage_errors_are_reported_before_anything_is_sent(
    more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["submit", "--models", "random", "--benchmarks", "maia", "--data", "s3://b/d", "--out", "s3://b/o"]
    code = run([*base, "--address", "http://127.0.0.1:1", *more])
    shown = capsys.readouterr().err
    assert message in shown
    assert code == 2
    assert "value" not in shown.replace("its value", "")


def test_unreachable_head_ends_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["submit", "--models", "random", "--benchmarks", "maia", "--data", "s3://b/d", "--out", "s3://b/o"]
    assert run([*base, "--address", "http://127.0.0.1:1"]) == 3
    assert "cannot be reached" in capsys.readouterr().err


def test_without_a_cluster_s_token_no_variable_is_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "planted")
    monkeypatch.setattr("cluster.env_encryption.cluster_token", lambda: None)
    base = ["submit", "--models", "random", "--benchmarks", "maia", "--data", "s3://b/d", "--out", "s3://b/o"]
    assert run([*base, "--address", "http://127.0.0.1:1", "--env", "MY_KEY"]) == 2
    shown = capsys.readouterr().err
    assert "--env MY_KEY: values are encrypted" in shown
    assert "RAY_AUTH_TOKEN_PATH" in shown
    assert "planted" not in shown


def test_named_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "k")
    assert read_variables(["MY_KEY"]) == {"MY_KEY": "k"}
    with pytest.raises(MissingSecretError, match="give the name"):
        read_variables(["A=B"])


BRIEF = "import os, sys; print(os.environ['NAME'], *sys.argv[1:])"


def python(folder: Path, name: str) -> Path:
    """Write an interpreter that prints its name and its arguments."""
    path = folder / name / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\nNAME={name} exec {sys.executable} -c "{BRIEF}" "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("agent_command", "runs"), [("{ray} -c pass --x", "rays"), ("{folder}/gone -c pass", "path"), ("", "path")]
)
def test_start_script_prefers_the_python_of_the_ray_agent(tmp_path: Path, agent_command: str, runs: str) -> None:
    rays, on_path = python(tmp_path, "rays"), python(tmp_path, "path")
    (tmp_path / "start.sh").write_text((files("jobs.submit") / "start.sh").read_text())
    agent = ["sh", "-c", "sh -c \"sh start.sh --models 'a b'; exit $?\"; exit $?", "raylet"]
    if agent_command:
        agent.append(f"--python_worker_command={agent_command.format(ray=rays, folder=tmp_path)}")
    env = {"PATH": f"{on_path.parent}:/usr/bin:/bin"}
    result = subprocess.run(agent, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert result.stdout.strip() == f"{runs} -m jobs.sweep --models a b", result.stderr


LOOK = f"from ray._common.utils import load_class; load_class({HOOK!r})(); import os; print(os.environ.get('MARK'))"


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("cluster.env_encryption.cluster_token", lambda: "t0ken")
    return encrypt_env({"MARK": "the value", "OTHER": "x"})


def looked(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    process_env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env}
    return subprocess.run([sys.executable, *arguments], env=process_env, capture_output=True, text=True, timeout=120)


def test_worker_hook_decrypts_the_variables(sealed: str) -> None:
    result = looked("-c", LOOK, **{ENCRYPTED_ENV: sealed, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t0ken"})
    assert result.stdout == "the value\n", result.stderr


def test_process_without_encrypted_variables_does_nothing() -> None:
    assert looked("-c", LOOK).stdout == "None\n"


def test_driver_with_another_token_ends_with_2_and_a_reason(sealed: str) -> None:
    env = {ENCRYPTED_ENV: sealed, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "other"}
    result = looked("-m", "jobs.cli", "list", "benchmarks", **env)
    assert result.returncode == 2
    assert "encrypted with another token" in result.stderr
    assert "Traceback" not in result.stderr
