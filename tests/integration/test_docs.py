"""Every command of the tutorial and the how-to pages runs as shown, and every metric of a run is explained."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.docs.markdown import explanations
from jobs.demo.main import BENCHMARKS, write_sample
from models.spec import ModelSpec
from pipelines import Folder, RunSpec, Store, benchmark, ingest_benchmark, run_sweep
from tests.integration.conftest import S3, Cli
from tests.support.docs import PAGES, blocks, commands, words, write_files
from tests.support.paths import ROOT

MARKS = {"tutorial": pytest.mark.slow}
SHELL = {*"|;&<>$`"}
"""Signs of commands that need a shell; others run in this process, but in the tutorial and after `pip`."""


@pytest.fixture
def shell_env(command_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment after `. .venv/bin/activate`; what pip installs goes to a folder of the test."""
    programs, site = tmp_path / "bin", tmp_path / "site"
    programs.mkdir()
    for name, module in (("vlmsweep", "-m jobs.cli "), ("pip", "-m pip "), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        program.chmod(0o755)
    pip = {
        "PIP_TARGET": str(site),
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return {
        **command_env,
        **pip,
        "PATH": os.pathsep.join((str(programs), command_env["PATH"])),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(site))),
    }


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.slow if page.stem == "tutorial" else pytest.mark.full)
        for page in PAGES
    ],
)
def test_commands_of_a_page_run_as_shown(
    page: Path,
    shell_env: dict[str, str],
    inline_cli: Cli,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, folder, store_env = page.read_text(encoding="utf-8"), tmp_path / "work", dict[str, str]()
    folder.mkdir()
    write_files(text, folder)
    if "s3://" in "".join(block.text for block in blocks(text) if not block.reason):
        store: S3 = request.getfixturevalue("s3")
        store.client().create_bucket(Bucket="my-bucket")
        store_env = store.env
        shell_env |= store_env
    shown = [
        command
        for block in blocks(text)
        if block.language == "console" and not block.reason
        for command in commands(block)
    ]
    if not shown:
        pytest.skip("each of its commands needs what this machine lacks; tests/unit/infra/test_docs.py parses them")
    in_process = page.stem != "tutorial" and "$ pip" not in text
    monkeypatch.chdir(folder)
    for command in shown:
        if in_process and command.line.startswith("vlmsweep ") and not SHELL & {*command.line}:
            result = inline_cli(*words(command)[1:], env=store_env)
        else:
            result = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command.line],
                cwd=folder,
                env=shell_env,
                capture_output=True,
                text=True,
                timeout=600,
            )
        assert result.returncode == 0, f"{command.line}\n{result.stdout}\n{result.stderr}"
        assert command.printed(result.stdout), f"{command.line}\nprinted\n{result.stdout}\nand not\n{command.output}"


@pytest.mark.slow
def test_every_metric_of_a_run_is_explained(tmp_path: Path) -> None:
    data, guesses = Store(str(tmp_path / "data")), ModelSpec(engine="random")
    for name in BENCHMARKS:
        ingest_benchmark(benchmark(name), Folder(str(write_sample(name, tmp_path / "samples"))), data)
    spec = RunSpec(
        data=data.uri,
        out=str(tmp_path / "out"),
        models={"random": guesses},
        judges=(("judge", guesses),),
        captioners=(("captioner", guesses),),
        benchmarks=BENCHMARKS,
        limit="4",
    )
    texts = explanations("metrics")
    unexplained = {
        (row.benchmark, row.label)
        for row in run_sweep(spec).metrics
        if not any(
            fnmatch.fnmatch(row.label, pattern) for pattern in (*texts[row.benchmark], *texts["every benchmark"])
        )
    }
    assert unexplained == set()


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SLOW = ("add_a_model",)


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=pytest.mark.full if path.stem in SLOW else []) for path in EXAMPLES],
)
def test_example_runs_on_the_sample_data(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, str(example), str(tmp_path / "out")], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert "report: " in run.stdout
    assert (tmp_path / "out" / "results" / "report" / "index.html").is_file()


def test_the_pages_columns_file_is_that_of_the_example(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "own-questions.md"
    write_files(page.read_text(encoding="utf-8"), tmp_path)
    assert (tmp_path / "columns.yaml").read_text() == (ROOT / "examples/own-questions/columns.yaml").read_text()
