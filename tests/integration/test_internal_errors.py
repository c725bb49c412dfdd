"""A bug in a worker on a real local Ray: exit 70 with its traceback, and committed rows stay."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkpoints import build_tiny
from tests.support.paths import ENGINES_PATH, ROOT

PLANTED = '\n\ndef _planted(*args, **kwargs):\n    raise KeyError("planted")\n\n\n{target} = _planted\n'
TARGETS = {
    "load": ("pipelines/predict/loader.py", "Loader.load"),
    "engine": ("models/engines/random_baseline.py", "RandomEngine.generate"),
    "score": ("pipelines/benchmarks/maia/letters.py", "read_letter"),
    "text scorer": ("pipelines/score/text_scorers.py", "look_for"),
    "reduce": ("pipelines/report/reduce.py", "reduce_entry"),
    "cache": ("models/engines/transformers/packed/kv_cache.py", "PackedSequences.write"),
}
SLOW = ("engine", "score", "text scorer", "reduce", "cache")
LIMITS = {
    "pipelines/score/stage.py": "MAX_PARTS_HERE",
    "pipelines/report/reduce.py": "MAX_ROWS_HERE",
}
"""Size of what a run does without Ray."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the product that leaves even small work to Ray, and in which a bug can be planted."""
    tree = tmp_path / "tree"
    for package in ("cluster", "jobs", "models", "pipelines"):
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for path, limit in LIMITS.items():
        with (tree / path).open("a") as module:
            module.write(f"\n\n{limit} = -1\n")
    return tree


def run_sweep(
    tree: Path, env: dict[str, str], data: str, out: Path, limit: int, model: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    models = out.parent / "scripted.yaml"
    models.write_text("scripted: {engine: scripted}\n")  # a model that is answered in Ray's workers
    model = model or ("scripted", "--models-file", str(models))
    flags = ("--models", *model, "--benchmarks", "maia", "--settings", "1-frame", "--tasks", "vsv,oevqa")
    command = [sys.executable, "-m", "jobs.cli", "run", *flags, "--limit", str(limit), "--log-format", "json"]
    return subprocess.run(
        [*command, "--data", data, "--out", str(out)],
        env={**env, "PYTHONPATH": f"{tree}:{ENGINES_PATH}"},
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=300,
    )


def tiny_model(folder: Path) -> tuple[str, ...]:
    """Write a checkpoint and its entry; return the arguments of `--models`."""
    entry = {"engine": "transformers", "model": str(build_tiny(folder / "checkpoint")), "device": "cpu"}
    (folder / "models.yaml").write_text(json.dumps({"tiny": entry}))
    return "tiny", "--models-file", str(folder / "models.yaml")


@pytest.fixture(scope="module")
def first_run(command_env: dict[str, str], maia_data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run of two samples."""
    out = tmp_path_factory.mktemp("first") / "out"
    assert run_sweep(ROOT, command_env, maia_data, out, 2).returncode == 0
    return out


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "stage", [pytest.param(stage, marks=pytest.mark.full if stage in SLOW else pytest.mark.slow) for stage in TARGETS]
)
def test_bug_in_a_worker_ends_with_70_and_keeps_committed_rows(
    stage: str, tree: Path, first_run: Path, command_env: dict[str, str], maia_data: str, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(first_run, tmp_path / "out"))
    parts = {path: path.read_bytes() for path in (out / "predictions").rglob("*.parquet")}
    path, target = TARGETS[stage]
    with (tree / path).open("a") as module:
        module.write(PLANTED.format(target=target))
    model = tiny_model(tmp_path) if stage == "cache" else ()
    result = run_sweep(tree, command_env, maia_data, out, 4, model)
    assert result.returncode == 70, result.stderr
    lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]  # Ray writes others
    (line,) = [line for line in lines if line.get("exit_code")]
    assert line["exit_code"] == 70
    for text in ("Traceback (most recent call last)", "in _planted", "KeyError: 'planted'"):
        assert text in line["trace"]
    assert "ModelUnavailableError" not in result.stderr
    assert {path: path.read_bytes() for path in parts} == parts
    if stage == "engine":
        assert run_sweep(ROOT, command_env, maia_data, out, 4).returncode == 0
