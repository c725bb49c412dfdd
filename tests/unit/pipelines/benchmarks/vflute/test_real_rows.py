"""The public rows of V-FLUTE with made-up answers and scores: F1 at thresholds against scikit-learn, another way."""

from __future__ import annotations

import csv
import random

import numpy as np
import pytest
from sklearn.metrics import f1_score

from pipelines.benchmarks.records import MediaRef, Sample
from pipelines.benchmarks.vflute.facts import subset_of
from pipelines.benchmarks.vflute.source import TextRow, validate_row
from tests.support.paths import SHARED_DATA
from tests.support.requests import PlannedRequest
from tests.support.sweeps import metric_named as metric_of
from tests.support.sweeps import reduced

PUBLIC = SHARED_DATA / "vflute" / "vflute-v2-test-first400.csv"
REF = MediaRef(role="picture", kind="image", sha256="ab" * 32, extension=".png", bytes=9, width=4, height=3)
LABELS = ("contradiction", "entailment")


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    if not PUBLIC.is_file():
        pytest.skip(f"the public rows of V-FLUTE are not at {PUBLIC}")
    with PUBLIC.open(encoding="utf-8", newline="") as file:
        rows = [validate_row({**row, "image": row["path"]}, row["id"], PUBLIC.name) for row in csv.DictReader(file)]
    assert len(rows) == 400
    return [_sample(row) for row in rows if isinstance(row, TextRow)]


def _sample(row: TextRow) -> Sample:
    subset = subset_of(row.source_dataset, row.phenomenon)
    fields = {name: getattr(row, name) for name in ("phenomenon", "claim", "label", "explanation", "prompt")}
    return Sample(
        sample_id=row.id,
        subset=subset.name,
        category=subset.category,
        cluster=row.picture,
        media=(REF,),
        data={**fields, "source": row.source_dataset, "shots": []},
    )


def test_all_public_rows_are_valid(samples: list[Sample]) -> None:
    assert len({sample.sample_id for sample in samples}) == 400
    assert len({sample.subset for sample in samples}) == 6


def test_f1_at_thresholds_equals_scikit_learn(samples: list[Sample]) -> None:
    rng = random.Random(1)
    score = {sample.sample_id: rng.choice([0.0, 0.53, 0.6, rng.uniform(-0.1, 1)]) for sample in samples}
    answers_by_id = {sample.sample_id: rng.choice([*LABELS, sample.data["label"], "none"]) for sample in samples}

    def answer(sample: Sample, _: PlannedRequest) -> str:
        return f"score {score[sample.sample_id]!r}\nLABEL: {answers_by_id[sample.sample_id]}"

    def compare(candidate: str, _: str) -> float:
        return float(candidate.split()[1])

    metrics = reduced("vflute", samples, answer, settings=["zero-shot"], compare=compare)
    for subset in ("", *sorted({sample.subset for sample in samples})):
        subset_samples = [sample for sample in samples if subset in ("", sample.subset)]
        where = {"subset": subset, "category": subset_samples[0].category} if subset else {}
        gold = np.array([sample.data["label"] == "entailment" for sample in subset_samples])
        for k in (0, 53, 60):
            right = [
                answers_by_id[sample.sample_id] == sample.data["label"] and score[sample.sample_id] > k / 100
                for sample in subset_samples
            ]
            answers = np.where(right, gold, ~gold)
            expected = f1_score(gold, answers, average="macro", zero_division=0)
            value = metric_of(metrics, f"f1_at_{k}", setting="zero-shot", **where)
            assert (value.value, value.n) == (pytest.approx(expected), len(subset_samples))
    labels = [answers_by_id[sample.sample_id] == sample.data["label"] for sample in samples]
    assert metric_of(metrics, "accuracy").value == pytest.approx(np.mean(labels))
    assert metric_of(metrics, "none_rate").value == pytest.approx(
        np.mean([word == "none" for word in answers_by_id.values()])
    )
