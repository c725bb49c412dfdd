"""`finetune` on real Ray: a killed training resumes, and `run` with its adapter knows what it learnt."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Cli
from tests.support.checkpoints import build_tiny
from tests.support.toy_flute import write_toy

BASE = {
    "engine": "transformers",
    "dtype": "float32",
    "device": "cpu",
    "generation": {"max_new_tokens": 16, "num_beams": 1},
}


def flags_of(tmp_path: Path) -> list[str]:
    models = tmp_path / "base.yaml"
    models.write_text(json.dumps({"tiny": {**BASE, "model": str(build_tiny(tmp_path / "tiny"))}}))
    toy = write_toy(tmp_path / "toy", test=8)
    flags = ["finetune", "vflute", "--variant", "vf", "--model", "tiny", "--models-file", str(models)]
    flags += ["--data", str(toy), "--out", str(tmp_path / "tuned"), "--epochs", "8", "--batch-size", "8"]
    flags += ["--learning-rate", "2e-3", "--projector-learning-rate", "2e-3", "--lora-rank", "16", "--lora-alpha", "32"]
    return [*flags, "--dtype", "float32", "--no-gradient-checkpointing", "--checkpoint-every", "4"]


def kill_after_a_checkpoint(command: list[str], env: dict[str, str], checkpoints: Path) -> list[float]:
    """Kill the training with SIGKILL once it has a checkpoint; return the losses that this one holds."""
    log = checkpoints.parent.with_suffix(".log")
    with log.open("wb") as sink, subprocess.Popen(command, env=env, stdout=sink, stderr=sink) as run:
        while not list(checkpoints.glob("step-*")):
            assert run.poll() is None, log.read_text()
            time.sleep(0.1)
        run.kill()
    state = max(checkpoints.glob("step-*")).read_bytes()
    header = json.loads(state[8 : 8 + int.from_bytes(state[:8], "little")])
    losses: list[float] = json.loads(header["__metadata__"]["training"])["history"]["losses"]
    return losses


@pytest.mark.full
def test_killed_training_resumes_and_the_adapter_answers(cli: Cli, command_env: dict[str, str], tmp_path: Path) -> None:
    flags, tuned = flags_of(tmp_path), tmp_path / "tuned"
    command = [sys.executable, "-m", "jobs.cli", *flags]
    before = kill_after_a_checkpoint(command, command_env, tuned / "checkpoints")
    assert cli(*flags).stdout.startswith("tiny-vflute: 32 steps on 32 examples")
    record = json.loads((tuned / "training.json").read_text())
    assert record["losses"][: len(before)] == before
    assert len(record["losses"]) == 32
    assert record["losses"][-1] < 0.2 * record["losses"][0]
    assert sorted(path.name for path in tuned.iterdir()) == ["adapter", "models.yaml", "settings.json", "training.json"]
    assert "32 steps" in cli(*flags).stdout  # finished: nothing is trained again

    cli("ingest", "vflute", str(tmp_path / "toy"), "--data", str(tmp_path / "data"))
    run = ("run", "--models-file", str(tmp_path / "base.yaml"), "--models-file", str(tuned / "models.yaml"))
    run = (*run, "--models", "tiny,tiny-vflute", "--benchmarks", "vflute", "--settings", "zero-shot")
    cli(*run, "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"))
    metrics = json.loads((tmp_path / "out" / "report" / "metrics.json").read_text())
    f1 = {
        row["model"]: row["value"]
        for row in metrics
        if (row["metric"], row["subset"], row["category"]) == ("label_f1", "", "")
    }
    assert f1["tiny"] < 0.5
    assert f1["tiny-vflute"] == 1.0
