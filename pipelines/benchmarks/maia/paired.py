"""MAIA's metrics over questions, of two models: pool accuracy, Agg-Acc, corpus BLEU and CIDEr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.benchmarks.maia.categories import POOL_SIZE
from pipelines.benchmarks.paired import PairedMetric
from pipelines.benchmarks.records import Sample
from pipelines.metrics.bleu import bleu_counts, bleu_of_sums
from pipelines.metrics.cider import cider

if TYPE_CHECKING:
    import pandas as pd


def paired_metrics(a: pd.DataFrame, b: pd.DataFrame, samples: Mapping[str, Sample]) -> Iterator[PairedMetric]:
    """Yield the metrics of one setting, over the questions that both models answered whole."""
    setting = str(a["setting"].iloc[0])
    pools = _pools(a, b)
    if not pools.empty:
        yield _mean(pools, "pool", task="vsv", setting=setting, metric="pool_accuracy")
    answers = _open_answers(a, b)
    judged = answers.dropna(subset=["accepted_a", "accepted_b"])
    joined = pools.join(judged.drop(columns="cluster"), how="inner")
    if not joined.empty:
        for side in "ab":
            joined[f"agg_{side}"] = joined[f"pool_{side}"] * joined[f"accepted_{side}"]
        yield _mean(joined, "agg", task="aggregate", setting=setting, metric="agg_acc")
    if not answers.empty and samples:
        yield from _corpus_metrics(answers, setting, samples)


def _mean(questions: pd.DataFrame, name: str, **fields: Any) -> PairedMetric:
    a, b = (questions[f"{name}_{side}"].to_numpy(dtype=np.float64) for side in "ab")
    return PairedMetric.mean(a, b, clusters=questions["cluster"].to_numpy(), **fields)


def _pools(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return by question whether each model has all eight pairs right; questions with fewer pairs are left out."""
    rows = a[["task", "sample_id", "cluster"]].assign(pool_a=a.get("correct"), pool_b=b.get("correct"))
    questions = rows[rows["task"] == "vsv"].groupby("sample_id")
    pools = questions.agg({"cluster": "first", "pool_a": "min", "pool_b": "min"})
    return pools[questions.size() == POOL_SIZE]


def _open_answers(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return the open answers and verdicts of both models by question."""
    sides = {"a": a, "b": b}
    columns = {f"{name}_{side}": sides[side].get(name) for name in ("answer", "accepted") for side in sides}
    rows = a[["task", "sample_id", "cluster"]].assign(**columns)
    return rows[rows["task"] == "oevqa"].drop(columns="task").set_index("sample_id").sort_index()


def _corpus_metrics(answers: pd.DataFrame, setting: str, samples: Mapping[str, Sample]) -> Iterator[PairedMetric]:
    references = [list(samples[name].data["answers"]) for name in answers.index]
    clusters = answers["cluster"].to_numpy()
    fields: dict[str, Any] = {"task": "oevqa", "setting": setting, "clusters": clusters, "corpus": True}
    texts = [[text or "" for text in answers[f"answer_{side}"]] for side in "ab"]
    a, b = (tuple(bleu_counts(side, references).astype(np.float64).T) for side in texts)
    yield PairedMetric(metric="bleu", a=a, b=b, statistic=bleu_of_sums, **fields)
    if len(answers) > 1:  # one question alone has no document frequencies
        scores = [np.asarray(cider(side, references)) for side in texts]
        yield PairedMetric.mean(*scores, metric="cider", **fields)
