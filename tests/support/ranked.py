"""Two replicas of two ranks against one process; both models carry a LoRA adapter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["models_file", "predictions", "ranks_under", "write_adapter"]

PAIR, WHOLE = "halves", "whole"


def write_adapter(checkpoint: Path, folder: Path) -> Path:
    """Write a LoRA adapter with random weights for layers split by columns and by rows."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    layers = ["q_proj", "v_proj", "o_proj", "down_proj"]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_pretrained(checkpoint)
        get_peft_model(model, LoraConfig(r=4, target_modules=layers, init_lora_weights=False)).save_pretrained(folder)
    return folder


def models_file(path: Path, checkpoint: Path, adapter: Path) -> Path:
    """Write the models: `whole` in one process, `halves` as up to two replicas of two ranks each."""
    common = {
        "engine": "transformers",
        "model": str(checkpoint),
        "adapter": str(adapter),
        "device": "cpu",
        "dtype": "float32",
        "generation": {"max_new_tokens": 3},
        "limits": {"max_pixels": 50176},
    }
    pool = {"tensor_parallel": 2, "replicas": {"min": 0, "max": 2}}
    path.write_text(json.dumps({WHOLE: common, PAIR: {**common, **pool}}))
    return path


def predictions(out: Path, model: str) -> dict[str, dict[str, Any]]:
    """Read rows by request content; raise if a request has two rows."""
    parts = sorted(out.glob(f"predictions/benchmark=maia/model={model}/*.parquet"))
    rows = pa.concat_tables([pq.ParquetFile(part).read() for part in parts]).to_pylist() if parts else []
    if len({row["request_id"] for row in rows}) != len(rows):
        raise AssertionError(f"{model}: a request stands twice")
    return {f"{row['task']} {row['setting']} {row['sample_id']} {row['variant']}": row for row in rows}


def ranks_under(root: int) -> list[int]:
    """Return the rank processes that a run's replicas have started."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                lines[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            parents[int(folder.name)] = int(re.split(r"\) . ", stat)[-1].split()[0])

    def beneath(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return [
        pid
        for pid, line in lines.items()
        if "spawn_main" in line and "EngineActor" in lines.get(parents.get(pid, 0), "") and beneath(pid)
    ]
