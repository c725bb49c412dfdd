"""What a sweep does before its stages, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from models.spec import ModelSpec
from pipelines.errors import LockedError, UsageError
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.progress import NullProgress
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
from pipelines.sweep.evaluate import open_sweep
from pipelines.sweep.record import sweep_warnings, unjudged_metrics
from pipelines.sweep.run import run_sweep, score_external

ANSWER = (
    '{"benchmark": "maia", "model": "x", "task": "vsv", "setting": "1-frame", "sample_id": "video1/Sentiment_A",'
    ' "variant": "0", "output": "A"}'
)


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    models = {"m": ModelSpec(engine="random")}
    return RunSpec(data=maia_data, out=str(tmp_path / "out"), models=models, benchmarks=("maia",))


def test_sweep_is_locked_frozen_and_leaves_no_unfinished_file(spec: RunSpec) -> None:
    unfinished = Path(spec.out, "predictions", f".vlmsweep-{0:032x}.tmp")
    unfinished.parent.mkdir(parents=True)
    unfinished.touch()
    with open_sweep(spec, [Stage.PREDICT]) as sweep:
        assert not unfinished.exists()
        assert sweep.earlier.is_new
        with pytest.raises(LockedError), open_sweep(spec):
            pass
        with pytest.raises(FrozenInstanceError):
            sweep.context.spec = spec  # type: ignore[misc]
        unfinished.touch()
    assert not unfinished.exists()


def external(spec: RunSpec) -> None:
    path = Path(spec.out).parent / "answers.jsonl"
    path.write_text(ANSWER)
    score_external(replace(spec, models={}, benchmarks=("maia", "vague")), path, progress=NullProgress())


@pytest.mark.parametrize("run", [run_sweep, external])
def test_locked_output_is_unread(
    spec: RunSpec, run: Callable[[RunSpec], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pin_revisions", "load_run"):
        monkeypatch.setattr(f"pipelines.sweep.evaluate.{name}", lambda *_: pytest.fail("the output is locked"))
    with run_lock(Store(spec.out)), pytest.raises(LockedError):
        run(spec)


def test_sweep_without_models_is_refused(spec: RunSpec) -> None:
    with pytest.raises(UsageError, match="names no model") as refusal:
        run_sweep(replace(spec, models={}))
    assert refusal.value.exit_code == 2
    assert not Path(spec.out).exists()


def recorded_spec(**fields: Any) -> RunSpec:
    return RunSpec(data="data", out="out", models={"m": ModelSpec(engine="random")}, **fields)


def test_what_will_be_missing_is_said() -> None:
    names = "its headline, aggregate accuracy (agg_acc), open answers accepted (oevqa_accuracy)"
    assert unjudged_metrics(recorded_spec(benchmarks=("maia", "mate", "unpie"))) == [
        f"maia: without --judge NAME these will not be measured: {names}",
        "unpie: without --judge NAME these will not be measured: judged right (correct_pct)",
    ]
    assert sweep_warnings(recorded_spec(benchmarks=("maia", "unpie"), tasks=("vsv",))) == [
        "unpie: it has none of these tasks and settings and is left out"
    ]
    assert sweep_warnings(recorded_spec(benchmarks=("maia", "unpie"))) == []


@pytest.mark.parametrize("fields", [{"tasks": ("vsv",)}, {"judges": (("j", ModelSpec(engine="random")),)}])
def test_nothing_is_missing_with_a_judge_or_without_open_questions(fields: dict[str, Any]) -> None:
    assert unjudged_metrics(recorded_spec(benchmarks=("maia",), **fields)) == []


def test_models_whose_weights_or_code_others_decide_are_named_kind_by_kind() -> None:
    hub = ModelSpec(engine="transformers", model="org/m", adapter="org/a", trust_remote_code=True)
    pinned = ModelSpec(engine="transformers", model="org/m", revision="0" * 40)
    sentences = sweep_warnings(RunSpec(data="d", out="o", benchmarks=("maia",), models={"hub": hub, "pinned": pinned}))
    unpinned = "is not pinned, so the hub may serve others tomorrow; give"
    assert sentences == [
        f"model hub: its revision {unpinned} `revision` a commit",
        f"model hub: the revision of its adapter {unpinned} `adapter_revision` a commit",
        "model hub: code that its publisher keeps beside the weights runs on the workers (trust_remote_code)",
    ]
