"""Agreement of verdicts with people's, where the user's answers have a column `human` of 0 and 1 (1 is positive).

The paper's Tables 8 and 9: accuracy and phi of five metrics' verdicts on translations; precision, recall, F1, accuracy
and Pearson's correlation of the judge's on reconstructed puns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.unpie.aggregate import MetricScope
from pipelines.benchmarks.unpie.answers import verdict
from pipelines.metrics.agreement import phi
from pipelines.metrics.meteor import meteor_by_words
from pipelines.metrics.text import rouge_l, sentence_bleu

if TYPE_CHECKING:
    import pandas as pd

BERTSCORE: Final = "BERTScore"
GPTEVAL: Final = "GPTEval"
VERDICT_METRICS: Final = ("BLEU", "METEOR", "Rouge-L", BERTSCORE, GPTEVAL)
"""Metrics in the order of Table 8: right is a translation closer to the wanted one; GPTEval is the judge."""
_SIMILARITIES: Final = {"BLEU": sentence_bleu, "METEOR": meteor_by_words, "Rouge-L": rouge_l}
AGREEMENT: Final = tuple(f"agreement_{name}" for name in ("precision", "recall", "f1", "accuracy", "phi", "pearson"))
"""Metrics in the tables' order; of two binary verdicts phi is Pearson's correlation."""


def translation_agreement(
    scope: MetricScope, answered: pd.DataFrame, samples: Mapping[str, Sample]
) -> Iterator[Metric]:
    """Yield the agreement of each metric's verdicts on labelled translations, the metric's name as category."""
    labelled = answered[answered["human"].isin([0.0, 1.0]) & answered["answer"].notna()]
    if labelled.empty:
        return
    texts, meanings = list(labelled["answer"]), [int(variant[-1]) for variant in labelled["variant"]]
    targets = [
        [str(translation[variant[:2]]) for translation in samples[name].data["translation"]]
        for name, variant in zip(labelled["sample_id"], labelled["variant"], strict=True)
    ]
    verdicts: dict[str, Any] = {BERTSCORE: labelled["correct"], GPTEVAL: labelled.get("gpteval")}
    for name, similarity in _SIMILARITIES.items():
        to_each = [similarity(texts, [[pair[index]] for pair in targets]) for index in range(2)]
        verdicts[name] = [float(verdict(*pair)) for pair in zip(*to_each, meanings, strict=True)]
    for name in VERDICT_METRICS:
        if verdicts[name] is not None:
            for metric in agreement(scope, labelled.assign(verdict=verdicts[name]), "verdict"):
                yield replace(metric, category=name)


def agreement(scope: MetricScope, answered: pd.DataFrame, column: str) -> Iterator[Metric]:
    """Yield the agreement of `column` with `human` over the answers with both; nothing without human labels."""
    rated = answered[answered["human"].isin([0.0, 1.0]) & answered[column].isin([0.0, 1.0])]
    if rated.empty:
        return
    ours, human = rated[column] == 1.0, rated["human"] == 1.0
    hits, predicted, actual = int((ours & human).sum()), int(ours.sum()), int(human.sum())
    correlation = phi(ours.tolist(), human.tolist())
    values = {
        "precision": hits / predicted if predicted else None,
        "recall": hits / actual if actual else None,
        "f1": 2 * hits / (predicted + actual) if predicted + actual else None,
        "accuracy": float((ours == human).mean()),
        "phi": correlation,
        "pearson": correlation,
    }
    for name, value in values.items():
        unit = "" if name in ("phi", "pearson") else "fraction"
        note = "" if value is not None else "undefined: one side has one verdict only"
        yield scope.metric(f"agreement_{name}", value, len(rated), unit=unit, note=note)
