"""A hub on loopback: branches are resolved before the plan, loaded by commit, and kept when they move."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.conftest import Cli
from tests.support.checkpoints import build_tiny
from tests.support.hub import COMMITS, LocalHub
from tests.support.ranked import write_adapter

FIRST, SECOND = COMMITS[:2]


def rows(out: Path) -> list[dict[str, Any]]:
    """Return request id and revision of all predictions."""
    parts = sorted(out.glob("predictions/*/model=m/*.parquet"))
    return [row for part in parts for row in pq.read_table(part, columns=["request_id", "model_revision"]).to_pylist()]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft's
def test_run_is_resumed_with_its_commit_after_the_branch_moved(cli: Cli, maia_data: str, tmp_path: Path) -> None:
    folder, scorer = build_tiny(tmp_path / "checkpoint", "qwen2_5_vl"), "bert-base-multilingual-cased"
    lora = write_adapter(folder, tmp_path / "lora")
    models, out = tmp_path / "models.yaml", tmp_path / "out"
    models.write_text("m: {engine: transformers, model: org/name, adapter: org/lora, device: cpu, dtype: float32}\n")
    flags = ["run", "--models", "m", "--models-file", str(models), "--benchmarks", "maia", "--settings", "unimodal"]
    flags += ["--data", maia_data, "--out", str(out)]
    names = ("org/name", "org/lora", scorer)
    with LocalHub({name: {"main": FIRST} for name in names}, {"org/name": folder, "org/lora": lora}) as hub:
        env = {
            "HF_HUB_OFFLINE": "0",
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "hub"),
            "HF_HUB_DISABLE_XET": "1",
        }
        cli(*flags, "--limit", "2", env=env)
        begun = rows(out)
        assert {row["model_revision"] for row in begun} == {FIRST}
        for name in names:
            hub.models[name]["main"] = SECOND
        planned = json.loads(cli(*flags, "--limit", "4", "--dry-run", "--json", env=env).stdout)
        assert [(row["requests"], row["to_do"]) for row in planned["plan"]] == [(32, 16)]
        cli(*flags, "--limit", "4", env=env)
        by_branch = [path for path in hub.requests if "main" in path.split("/")]
        # Once each, and files by commit.
        assert sorted(by_branch) == sorted(f"api/models/{name}/revision/main" for name in names)
        assert f"org/lora/resolve/{FIRST}/adapter_model.safetensors" in hub.requests
    resumed = rows(out)
    assert {row["model_revision"] for row in resumed} == {FIRST}
    assert len(resumed) == 2 * len(begun)
    assert {row["request_id"] for row in begun} < {row["request_id"] for row in resumed}
    run = json.loads((out / "run.json").read_text())
    recorded = run["models"]["m"]
    assert (recorded["revision"], recorded["requested_revision"]) == (FIRST, "main")
    assert (recorded["adapter_revision"], recorded["requested_adapter_revision"]) == (FIRST, "main")
    assert run["scorers"] == {scorer: {"model": scorer, "revision": FIRST, "requested_revision": "main"}}
