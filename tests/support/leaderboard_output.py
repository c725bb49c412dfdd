"""Outputs of MAIA with metrics of our choice, as a run's report leaves them; no data is read and no model is run."""

from __future__ import annotations

import json
from typing import Any

from pipelines.benchmarks import benchmark
from pipelines.plan.options import SweepOptions
from pipelines.plan.run_manifest import ManifestEntry, RunManifest, save_run
from pipelines.plan.selection import all_groups
from pipelines.storage.store import Store
from tests.support.requests import changed, target_of

TARGET = target_of(
    benchmark_name="maia",
    dataset_fingerprint="aaaa0000aaaa0000",
    model="",
    fingerprint={"revision": "0123456789abcdef"},
    task_settings=tuple(all_groups(benchmark("maia"))),
    seed=42,
)


def entry(model: str, **changes: Any) -> ManifestEntry:
    """Return a model's entry; `changes` are fields of the entry or of its target."""
    entry_fields = {name: changes.pop(name) for name in ("limit", "sample_ids", "external") if name in changes}
    target = changed(TARGET, model=model, **changes)
    return ManifestEntry(benchmark="maia", model=model, data="data", target=target, **entry_fields)


def metric(model: str, value: float | None, **changes: Any) -> dict[str, Any]:
    """Return a row of `metrics.json`, by default the headline with 32 frames."""
    key = {"benchmark": "maia", "task": "aggregate", "setting": "32-frames", "subset": "", "category": ""}
    number = {"metric": "agg_acc", "value": value, "unit": "fraction", "n": 48, "n_failed": 1}
    ends = {"ci_low": None if value is None else value / 2, "ci_high": None if value is None else value}
    return {**key, "model": model, **number, **ends, **changes}


def write_output(
    out: str,
    entries: list[ManifestEntry],
    rows: list[dict[str, Any]],
    sweep: dict[str, Any] | None = None,
    models: dict[str, dict[str, Any]] | None = None,
) -> str:
    """Write `run.json` and `report/metrics.json`; return the output's address."""
    wording = [text for entry in entries for text in entry.prompts.wording.items()]
    judges = {name: {"model": f"org/{name}"} for name in filter(None, [(sweep or {}).get("judge")])}
    addition = RunManifest(
        sweep=SweepOptions(**(sweep or {})),
        models={**judges, **(models or {})},
        prompts={"maia": {**benchmark("maia").prompt_texts, **dict(wording)}},
        entries=tuple(entries),
    )
    save_run(Store(out), RunManifest(), addition)
    Store(out).put("report/metrics.json", json.dumps(rows).encode())
    return out
