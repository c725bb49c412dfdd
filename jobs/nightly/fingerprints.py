"""Hashes of everything that a result depends on: a pair with unchanged hashes is not run."""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from models.fingerprint import answer_fingerprint
from pipelines.benchmarks import benchmark
from pipelines.hashing import stable_id
from pipelines.ingest.dataset import Dataset
from pipelines.plan.requests import ModelTarget, captioner_keys
from pipelines.plan.run_manifest import versions
from pipelines.plan.run_spec import RunSpec

_CODE = ("models", "pipelines")
_DISPLAY_ONLY = ("pipelines/report/",)  # code that shows numbers and changes none
_SUFFIXES = (".py", ".csv", ".txt", ".json")


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Return a hash of the code that predicts and scores, and of its libraries' versions."""
    total = hashlib.sha256(json.dumps(versions(), sort_keys=True).encode())
    for package in _CODE:
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*")):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            if (
                path.is_file()
                and path.suffix in _SUFFIXES
                and not name.startswith(_DISPLAY_ONLY)
                and path.name != "published.csv"
            ):
                total.update(json.dumps([name, hashlib.sha256(path.read_bytes()).hexdigest()]).encode())
    return total.hexdigest()[:16]


def pair_fingerprint_parts(spec: RunSpec, target: ModelTarget, dataset: Dataset) -> dict[str, str]:
    """Return the hashes of one model on one benchmark, by part."""
    name = target.prompts.benchmark_name
    cut = {key: getattr(spec, key) for key in ("limit", "sample_ids", "seed")}
    return {
        "code": code_fingerprint(),
        "dataset": dataset.manifest.dataset_fingerprint[:16],
        "model": _hash({"fingerprint": dict(target.fingerprint), "generation": dict(target.generation)}),
        "prompt": _hash(
            {
                **benchmark(name).prompt_texts,
                **target.prompts.wording,
                "instead": dict(target.prompts.prompt_versions),
                **({"sets": spec.prompt_sets[name]} if name in spec.prompt_sets else {}),
            }
        ),
        "cells": _hash({"cells": [[group.task, group.setting] for group in target.prompts.task_settings], "cut": cut}),
        "captioner": ",".join(captioner_keys(spec, target.model)),
        "judge": _hash({judge: answer_fingerprint(judge_spec) for judge, judge_spec in spec.judges})
        if spec.judges
        else "",
        "scorers": _hash(
            {
                scorer.kind: [scorer.model, scorer.layer, scorer.named, *filter(None, [scorer.loaded_revision])]
                for scorer in spec.scorers_for(name)
            }
        ),
    }


def changed_parts(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts whose hashes differ."""
    return [name for name in sorted({*before, *now}) if before.get(name, "") != now.get(name, "")]


def _hash(fields: Mapping[str, object]) -> str:
    return stable_id(dict(fields))[:16]
