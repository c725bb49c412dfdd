from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.lazy import open_cluster
from models.spec import ModelSpec
from pipelines.errors import StoreError
from pipelines.plan.context import SweepContext
from pipelines.plan.run_manifest import load_run
from pipelines.plan.run_spec import RunSpec, Stage
from pipelines.schemas import SCORES
from pipelines.score.stage import score_parts
from pipelines.storage.parts import read_part, to_parquet
from pipelines.storage.store import Store
from pipelines.sweep.run import run_sweep


@pytest.fixture
def spec(maia_data: str, tmp_path: Path) -> RunSpec:
    """A sweep whose predictions are there and not scored."""
    spec = RunSpec(
        data=maia_data, out=str(tmp_path), models={"m": ModelSpec(engine="random")}, benchmarks=("maia",), limit="24"
    )
    run_sweep(spec, stages=[Stage.PREDICT])
    return spec


def score(spec: RunSpec) -> list[str]:
    """Score the output without a judge; return the names of its score parts."""
    context = SweepContext.open(spec)
    with open_cluster(None) as cluster:
        score_parts(context, load_run(context.out).entries, cluster, judges=(), scorers=())
    return sorted(path.name for path in Path(spec.out).glob("scores/*/*/*.parquet"))


def predictions(spec: RunSpec) -> list[Path]:
    return sorted(Path(spec.out).glob("predictions/*/*/*.parquet"))


def test_every_part_is_scored_and_a_report_alone_leaves_the_counts(spec: RunSpec) -> None:
    names = [path.name for path in predictions(spec)]
    assert len(names) > 1
    assert score(spec) == names
    assert score(spec) == names
    run_sweep(spec, stages=[Stage.SCORE])
    status = Path(spec.out, "status.json").read_bytes()
    result = run_sweep(spec, stages=[Stage.REPORT])
    assert sum(count.ok for count in result.counts) == sum(cell["done"] for cell in json.loads(status)["cells"]) > 0
    assert Path(spec.out, "status.json").read_bytes() == status


def test_damaged_part_is_skipped_with_a_warning(spec: RunSpec, caplog: pytest.LogCaptureFixture) -> None:
    damaged, *intact = predictions(spec)
    damaged.write_bytes(damaged.read_bytes()[:-20])
    assert score(spec) == [path.name for path in intact]
    assert damaged.name in caplog.text
    assert "skipped" in caplog.text


def test_store_that_is_away_for_a_while_does_not_end_scoring(spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    put, failures = Store.put, iter([True, True])

    def fail(store: Store, path: str, content: bytes, *, hold: bool = False) -> None:
        if path.startswith("scores/") and next(failures, False):
            raise StoreError("the object store cannot be reached", is_transient=True)
        put(store, path, content, hold=hold)

    monkeypatch.setattr(Store, "put", fail)
    monkeypatch.setattr("pipelines.storage.retry.RETRY_PAUSES_S", (0.0,))
    monkeypatch.setattr("pipelines.storage.retry.TRANSIENT_PAUSES_S", (0.01,))
    assert score(spec) == [path.name for path in predictions(spec)]
    assert not next(failures, None)


def test_report_alone_says_which_answers_have_no_scores(spec: RunSpec) -> None:
    result = run_sweep(spec, stages=[Stage.REPORT])
    missing = sum(count.missing for count in result.counts)
    assert result.warnings == [
        f"m on maia: answers without scores: {missing} count as never run; `vlmsweep score` scores them"
    ]
    assert f"answers without scores: {missing} count" in Path(spec.out, "report", "report.md").read_text()
    score(spec)
    assert not run_sweep(spec, stages=[Stage.REPORT]).warnings
    path = score(spec)[0]
    out = Store(spec.out)
    older = f"scores/benchmark=maia/model=m/{path}"
    rows = read_part(out, older).to_pylist()
    out.put(older, to_parquet([{**row, "status": "error"} for row in rows[:3]] + rows[3:], SCORES))
    result = run_sweep(spec, stages=[Stage.REPORT])
    assert result.failed == 3
    note = (
        "m on maia: answers without scores: 3 count as the error rows that they replace; `vlmsweep score` scores them"
    )
    assert result.warnings == [note]
