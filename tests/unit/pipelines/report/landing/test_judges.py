from pathlib import Path

import pytest

from pipelines.plan.options import SweepOptions
from pipelines.plan.run_manifest import RunManifest
from pipelines.report.landing.judges import judgings_of
from pipelines.schemas import PREDICTIONS
from pipelines.storage.parts import part_folder, to_parquet
from pipelines.storage.store import Store
from tests.unit.pipelines.report.cases import metric

NO_JUDGE = "no judge: give one with --judge"
MODELS = {
    "strong": {"engine": "openai", "model": "gpt-4o", "revision": "2024-08-06"},
    "local": {"engine": "transformers", "model": "/home/somebody/weights"},
    "coin": {"engine": "random"},
}


@pytest.fixture
def out(tmp_path: Path) -> Store:
    """An output with two verdicts of each judge, and a question that failed."""
    out = Store(str(tmp_path))
    rows = [{"status": status} for status in ("ok", "ok", "error")]
    for name in MODELS:
        out.put(f"{part_folder('judgements', 'maia', name)}/{'a' * 24}.parquet", to_parquet(rows, PREDICTIONS))
    return out


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("strong", "MAIA: judged by strong (gpt-4o 2024-08-06, 2 verdicts): open answers accepted"),
        ("coin",
         "MAIA: judged by coin (tosses a coin, 2 verdicts), so these numbers mean nothing: open answers accepted"),
        ("local,coin",
         "MAIA: judged by local (…/weights, 2 verdicts), coin (tosses a coin, 2 verdicts): open answers accepted"),
    ],
)  # fmt: skip
def test_judges_have_version_and_verdicts_and_a_coin_is_named(out: Store, judge: str, sentence: str) -> None:
    run = RunManifest(models=MODELS, sweep=SweepOptions(judge=judge))
    numbers = [metric(), metric(metric="oevqa_accuracy"), metric(metric="oevqa_accuracy", category="Causal")]
    (judging,) = judgings_of(out, run, numbers)
    assert (str(judging), judging.is_doubtful) == (sentence, judge == "coin")


def test_judges_of_earlier_runs_are_those_with_verdicts(out: Store) -> None:
    (judging,) = judgings_of(out, RunManifest(models={**MODELS, "model": {}}), [metric(metric="agg_acc")])
    assert [judge.name for judge in judging.judges] == [*MODELS]


def test_metrics_without_a_judge_are_named_and_people_need_none(tmp_path: Path) -> None:
    out, run = Store(str(tmp_path)), RunManifest(models=MODELS)
    missing = [metric(metric=name, value=None, note=NO_JUDGE) for name in ("oevqa_accuracy", "agg_acc")]
    (judging,) = judgings_of(out, run, missing)
    text = "MAIA: no judge (--judge NAME), so not measured: open answers accepted, aggregate accuracy"
    assert (str(judging), judging.is_doubtful) == (text, True)
    assert judgings_of(out, run, [metric(metric="human_leave_one_out")]) == ()
    assert judgings_of(out, run, [metric(metric="agg_acc", value=None, note="all requests failed")]) == ()
