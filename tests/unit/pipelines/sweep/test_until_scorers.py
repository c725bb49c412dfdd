"""A run that stops early gives each text to the benchmark's own scorers once, and a killed and resumed one too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.plan.records import ModelPlan
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.predict.records import KeptReplicas
from pipelines.score import part_scorer, text_scorers
from pipelines.storage.parts import read_part
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep
from pipelines.sweep.until import loop


class Replicas(KeptReplicas):
    """Stand in for replicas that wait on GPUs from look to look."""

    def close(self) -> None:
        self.actor = None


def test_killed_run_compares_each_text_once(maia_data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, pending = list[str](), list[int]()

    class Scorer:
        def best(self, candidates: Sequence[str], _: Sequence[Sequence[str]]) -> list[float]:
            compared.extend(candidates)
            return [0.5 for _ in candidates]

    def predict(*arguments: Any, kept: KeptReplicas) -> dict[str, str]:
        plans: Mapping[str, Sequence[ModelPlan]] = arguments[2]
        pending.append(sum(plan.units.requests for plan in plans["m"]))
        if len(pending) == 2:
            raise KeyboardInterrupt
        problems = predict_alone(*arguments)
        kept.actor = kept.actor or (object() if pending[-1] else None)
        return problems

    predict_alone = loop.predict
    monkeypatch.setattr(loop, "predict", predict)
    monkeypatch.setattr(loop, "KeptReplicas", Replicas)
    for module in (loop, loop):
        monkeypatch.setattr(module, "looks", lambda clusters: [1, clusters])
    for module in (part_scorer, text_scorers):
        monkeypatch.setattr(module, "look_for", lambda scorer: scorer)
    monkeypatch.setattr(part_scorer, "build_scorer", lambda *_: Scorer())
    monkeypatch.setattr("pipelines.score.stage.MAX_PARTS_HERE", 1000)
    monkeypatch.setattr(part_scorer.ScoringSpec, "has_scorer_model", lambda _: False)
    spec = RunSpec(
        data=maia_data, out=str(tmp_path), models={"m": ModelSpec(engine="random")}, benchmarks=("maia",),
        tasks=("oevqa",), settings=("1-frame",), until="ci<=0.001",
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec)
    assert compared == [], "replicas hold the GPUs"
    run_sweep(spec, stages=(Stage.PREDICT, Stage.SCORE))
    first, killed, resumed, second = pending
    assert (resumed, killed) == (0, second)
    assert first > 0 < second
    out = Store(str(tmp_path))
    scores = [row for info in out.list("scores", "*.parquet") for row in read_part(out, info.path).to_pylist()]
    assert len(compared) == first + second == len(scores)
    assert all(dict(row["values"])["bertscore"] == 0.5 for row in scores)
    content = {info.path: out.get(info.path) for info in out.list("scores", "*.parquet")}
    run_sweep(replace(spec, until="ci<=0.002"), stages=(Stage.PREDICT, Stage.SCORE))
    assert len(compared) == first + second
    assert {path: out.get(path) for path in content} == content
