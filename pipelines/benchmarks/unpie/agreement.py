"""Agreement of verdicts with people's, where the user's answers have a column `human` of 0 and 1 (1 is positive).

The paper's Tables 8 and 9: accuracy and phi of five metrics' verdicts on translations; precision, recall, F1, accuracy
and Pearson's correlation of the judge's on reconstructed puns.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from pipelines.benchmarks.metrics_kernel.rows import Bools, ScoredRows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.unpie.answers import verdict
from pipelines.metrics.agreement import phi
from pipelines.metrics.intervals import FloatArray
from pipelines.metrics.meteor import meteor_by_words
from pipelines.metrics.text import rouge_l, sentence_bleu

BERTSCORE: Final = "BERTScore"
GPTEVAL: Final = "GPTEval"
VERDICT_METRICS: Final = ("BLEU", "METEOR", "Rouge-L", BERTSCORE, GPTEVAL)
"""Metrics in the order of Table 8: right is a translation closer to the wanted one; GPTEval is the judge."""
_SIMILARITIES: Final = {"BLEU": sentence_bleu, "METEOR": meteor_by_words, "Rouge-L": rouge_l}


def translation_agreement(rows: ScoredRows, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """Yield the agreement of each metric's verdicts on labelled translations, the metric's name as category."""
    labelled = rows.where(rows.ok & rows.read & _is_verdict(rows.floats("human")))
    if not len(labelled):
        return
    texts, meanings = list(labelled["answer"]), [int(meaning) for meaning in labelled["meaning"]]
    targets = [
        [str(translation[lang]) for translation in samples[name].data["translation"]]
        for name, lang in zip(labelled["sample_id"], labelled["lang"], strict=True)
    ]
    verdicts: dict[str, Any] = {BERTSCORE: labelled.floats("correct"), GPTEVAL: labelled.floats("gpteval")}
    for name, similarity in _SIMILARITIES.items():
        to_each = [similarity(texts, [[pair[index]] for pair in targets]) for index in range(2)]
        verdicts[name] = [float(verdict(*pair)) for pair in zip(*to_each, meanings, strict=True)]
    for name in VERDICT_METRICS:
        yield from agreement(labelled.named(category=name).with_columns(verdict=np.asarray(verdicts[name])), "verdict")


def agreement(rows: ScoredRows, column: str) -> Iterator[Metric]:
    """Yield the agreement of `column` with `human` over the answers with both; nothing without human labels."""
    verdicts, labels = rows.floats(column), rows.floats("human")
    rated = rows.ok & _is_verdict(verdicts) & _is_verdict(labels)
    if not rated.any():
        return
    ours, human = verdicts[rated] == 1.0, labels[rated] == 1.0
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
        yield rows.metric(f"agreement_{name}", value, len(ours), n_failed=0, unit=unit, note=note)


def _is_verdict(values: FloatArray) -> Bools:
    return np.isin(values, [0.0, 1.0])
