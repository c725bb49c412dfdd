"""MAIA's open answers compared with the eight human ones: ROUGE-L, METEOR, BERTScore, BLEU, CIDEr-D.

Only answers take part: a failed request has no text to compare. The paper names the metrics and nothing else, so
closeness to its Table 4 is not to be expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from pipelines.benchmarks.maia.aggregate import NO_ROW, MetricSpec
from pipelines.benchmarks.maia.answers import COLUMNS
from pipelines.benchmarks.maia.scored_rows import Bools, Numbers, QuestionGrid, not_run
from pipelines.benchmarks.records import Metric, Sample
from pipelines.metrics.text import cider

_BLEU_NAMES: Final = {4: "bleu", 1: "bleu_1", 2: "bleu_2", 3: "bleu_3"}


def similarity_metrics(grid: QuestionGrid, setting: str, samples: Mapping[str, Sample]) -> Iterator[Metric]:
    """All similarity metrics of one cell, for the whole and each category.

    Args:
        grid: the cell's `oevqa` rows.
        setting: the cell's name.
        samples: by id, for the references.
    """
    ok = grid.ok[:, 0]
    measure = partial(
        MetricSpec,
        task="oevqa",
        setting=setting,
        column=grid.column,
        video=grid.video,
        failed=grid.failed[:, 0],
        counted=ok,
        note=not_run(grid.never_run),
    )
    for name in ("rouge", "bertscore", "meteor"):
        values = grid.floats(name)[:, 0]
        lacks = partial(_lacks, nowhere=bool(np.isnan(values[ok]).all()))
        yield from measure(metric=name, values=values, lacks=lacks).metrics()
    places = np.flatnonzero(ok)
    answers = grid.rows["answer"]
    candidates = list(answers.where(answers.notna(), "").to_numpy()[places])
    references = [list(samples[grid.ids[place]].data["answers"]) for place in places]
    yield from _bleu_metrics(grid, setting, bleu_by_group(candidates, references, grid.column[places]))
    values = np.full(len(ok), np.nan)
    if len(places) > 1:
        values[places] = cider(candidates, references)
    lacks = partial(_say, "one question alone has no document frequencies")
    cider_measure = measure(metric="cider", values=values, lacks=lacks, unit="", interval=False)
    yield from cider_measure.metrics()


def bleu_by_group(
    candidates: Sequence[str], references: Sequence[Sequence[str]], groups: Numbers
) -> dict[int | None, tuple[float, ...]]:
    """Corpus BLEU of every group and of all together, equal to `metrics.text.corpus_bleu` called on each.

    BLEU is made of counts that add up over groups, so that texts are cut and counted once, and not once for every
    order and again for the whole: 1 s in place of 7 for 2,400 answers with eight references each.

    Args:
        candidates: N texts.
        references: N lists of as many texts each.
        groups: (N,).

    Returns:
        Group, None for all -> BLEU-1 to BLEU-4 as fractions. Nothing without texts.
    """
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(tokenize="13a", force=True)
    counts: dict[int | None, Any] = {}
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group).tolist()
        streams = list(zip(*(references[place] for place in places), strict=True))
        score = scorer.corpus_score([candidates[place] for place in places], streams)
        counts[int(group)] = np.array([*score.counts, *score.totals, score.sys_len, score.ref_len])
    if counts:
        counts[None] = sum(counts.values())
    return {group: tuple(_bleu(found.tolist(), order) for order in range(1, 5)) for group, found in counts.items()}


def _bleu(counts: list[int], order: int) -> float:
    """BLEU up to n-grams of `order` from matches and n-grams of orders 1 to 4 and the two lengths."""
    from sacrebleu.metrics.bleu import BLEU

    matches, total, (length, reference_length) = counts[:order], counts[4 : 4 + order], counts[8:]
    score = BLEU.compute_bleu(
        matches, total, length, reference_length, smooth_method="exp", max_ngram_order=order
    ).score
    return min(float(score) / 100, 1.0)  # exp(log(1)) may land a rounding error above one


def _bleu_metrics(grid: QuestionGrid, setting: str, found: Mapping[int | None, tuple[float, ...]]) -> Iterator[Metric]:
    for order, name in _BLEU_NAMES.items():
        for group in (None, *map(int, np.unique(grid.column))):
            here = np.ones(len(grid.column), dtype=np.bool_) if group is None else grid.column == group
            value = found[group][order - 1] if group in found else None
            yield Metric(
                task="oevqa",
                setting=setting,
                category="" if group is None else COLUMNS[group],
                metric=name,
                value=value,
                n=int((here & grid.ok[:, 0]).sum()),
                n_failed=int((here & grid.failed[:, 0]).sum()),
                note=NO_ROW if value is None else not_run(grid.never_run),
            )


def _lacks(rows: Bools, *, nowhere: bool) -> str:
    return "no scorer gave it" if nowhere else f"answers without a score: {int(rows.sum()):,}"


def _say(text: str, _rows: Bools) -> str:
    return text
