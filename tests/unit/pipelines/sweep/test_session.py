"""What a sweep does before its stages, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from models.spec import ModelSpec
from pipelines.errors import LockedError, UsageError
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.progress import NullProgress
from pipelines.storage.lock import run_lock
from pipelines.storage.store import Store
from pipelines.sweep.evaluate import open_sweep
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
