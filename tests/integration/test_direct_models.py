"""A folder and an address as `--models`: run, resumed under the same names, and asked again with other weights."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from jobs.demo.checkpoint import build_checkpoint
from tests.integration.conftest import Cli
from tests.support.endpoint import ScriptedEndpoint
from tests.support.endpoint_script import always


def request_ids(out: Path, model: str) -> set[str]:
    parts = out.glob(f"predictions/benchmark=vague/model={model}/*.parquet")
    return {name for part in parts for name in pq.ParquetFile(part).read(["request_id"])["request_id"].to_pylist()}


@pytest.mark.slow
def test_folder_and_address_run_and_resume(
    inline_cli: Cli, vague_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my-checkpoint"
    build_checkpoint(folder)
    sweep = ("--benchmarks", "vague", "--tasks", "mcq", "--settings", "vlm", "--limit", "2")
    with ScriptedEndpoint(always("A")) as endpoint:
        models = f"./my-checkpoint,{endpoint.base_url}#org/served-vl"
        flags = ("--models", models, *sweep, "--data", vague_data, "--out", "out")
        inline_cli("predict", *flags)
        first = {name: request_ids(tmp_path / "out", name) for name in ("my-checkpoint", "served-vl")}
        assert [len(ids) for ids in first.values()] == [2, 2]
        inline_cli("predict", "--models", f"{folder},{endpoint.base_url}#org/served-vl", *flags[2:])
        assert {name: request_ids(tmp_path / "out", name) for name in first} == first
        assert len(endpoint.requests) == 2
        assert {request.body["model"] for request in endpoint.requests} == {"org/served-vl"}
        recorded = json.loads((tmp_path / "out" / "run.json").read_text())["models"]
        assert recorded["my-checkpoint"]["model"] == str(folder)
        assert recorded["my-checkpoint"]["engine"] == "transformers"
        assert recorded["my-checkpoint"]["architecture"] == "qwen2_5_vl"
        assert recorded["my-checkpoint"]["revision"].startswith("local-")
        assert recorded["served-vl"]["base_url"] == endpoint.base_url
        assert recorded["served-vl"]["engine"] == "openai"
        weights = load_file(folder / "model.safetensors")
        save_file(
            {name: tensor + torch.ones_like(tensor) for name, tensor in weights.items()}, folder / "model.safetensors"
        )
        inline_cli("predict", *flags)
        assert len(request_ids(tmp_path / "out", "my-checkpoint") - first["my-checkpoint"]) == 2
        assert len(endpoint.requests) == 2
