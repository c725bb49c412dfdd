"""Agreement of UNPIE's verdicts with people's labels."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.benchmarks.metrics_kernel.rows import ScoredRows
from pipelines.benchmarks.prompt_templates import PromptTexts
from pipelines.benchmarks.records import JudgeRequest, Sample
from pipelines.benchmarks.unpie.benchmark import BENCHMARK
from pipelines.benchmarks.unpie.metrics import translation_agreement
from tests.support.unpie_rows import cell, in_order, judged, metric_of, prediction, reduced, sample, samples, scored

FEW = samples(4)


def test_agreement_with_human_labels() -> None:
    labels = {"de/0": (1, 1), "de/1": (1, 0), "fr/0": (0, 0), "fr/1": (0, 1), "ko/0": (1, 1), "ko/1": (0, 0)}

    def say(_: Sample, variant: str) -> Mapping[str, Any]:
        ours, human = labels[variant]
        return {"output": "A pun.", "verdict": judged(bool(ours)), "given": {"human": float(human)}}

    metrics = reduced(cell(FEW, "reconstruction", "lm", say), FEW)
    expected = {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "accuracy": 2 / 3, "phi": 1 / 3, "pearson": 1 / 3}
    for name, value in expected.items():
        assert metric_of(metrics, f"agreement_{name}", "lm").value == pytest.approx(value)
    assert metric_of(metrics, "agreement_phi", "lm", subset="Ko-En").value == 1.0


def test_agreement_of_five_metrics_on_labelled_translations() -> None:
    item = sample("homographic", 0, translation=[{"de": "der Stich der Biene"}, {"de": "der Betrug der Bande"}])
    rows = pd.DataFrame(
        {
            "sample_id": item.sample_id,
            "cluster": item.sample_id,
            "status": "ok",
            "lang": "de",
            "meaning": ["0", "1", "0", "1"],
            # the last is as close to either translation: a tie is wrong
            "answer": ["der Stich der Biene", "der Betrug der Bande", "ein Betrug der Bande", "der der"],
            "human": [1.0, 1.0, 0.0, 1.0],
            "correct": [1.0, 0.0, 0.0, 1.0],
            "gpteval": [1.0, 1.0, 1.0, np.nan],
        }
    )
    metrics = translation_agreement(ScoredRows.of(rows, task="disambiguation"), {item.sample_id: item})
    values = {(m.category, m.metric): (m.value, m.n) for m in metrics}
    for name in ("BLEU", "METEOR", "Rouge-L"):  # verdicts 1 1 0 0 against 1 1 0 1
        assert values[name, "agreement_accuracy"] == (3 / 4, 4)
        assert values[name, "agreement_phi"][0] == pytest.approx(2 / math.sqrt(12))
    assert values["BERTScore", "agreement_accuracy"] == (3 / 4, 4)
    assert values["GPTEval", "agreement_accuracy"] == (pytest.approx(2 / 3), 3)
    assert values["GPTEval", "agreement_phi"] == (None, 3)
    assert list(translation_agreement(ScoredRows.of(rows.assign(human=np.nan)), {})) == []


def test_the_judge_gets_only_translations_that_a_person_labelled() -> None:
    item = sample("homographic", 0, translation=[{"de": "der Stich"}, {"de": "der Betrug"}])
    row = prediction(item, "disambiguation", "vlm", "de/1", output="[German]: ein Betrug", given={"human": 1.0})
    texts = PromptTexts(BENCHMARK.prompt_texts)
    assert BENCHMARK.judge is not None
    ask = BENCHMARK.judge.ask(row, texts)
    assert isinstance(ask, JudgeRequest)
    in_order(str(ask.step.turns[0].parts), "Reference A: der Betrug", "Reference B: der Stich", "Candidate: ein Betrug")
    assert BENCHMARK.judge.ask(replace(row, given={}), texts) is None
    assert BENCHMARK.judge.ask(replace(row, output=""), texts) is None
    assert scored(replace(row, verdict=judged(False)))["gpteval"] == 0.0
    assert "gpteval" not in scored(row)
