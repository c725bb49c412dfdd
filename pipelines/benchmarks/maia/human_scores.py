"""People on MAIA's questions: their answers scored like a model's, their agreement with the judge, and a proxy.

The paper prints no human accuracy. Own data come as CSV files with a header; the proxy, which asks nobody, judges each
of the eight human answers of a question against the other seven.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipelines.benchmarks.base import Metric, Row, Sample
from pipelines.benchmarks.human import ANNOTATOR
from pipelines.benchmarks.maia.aggregate import Measure
from pipelines.benchmarks.maia.answers import COLUMNS
from pipelines.benchmarks.maia.scored_rows import POOL
from pipelines.metrics.agreement import fleiss_kappa


def answers_as_predictions(text: str, setting: str = "32-frames") -> list[dict[str, str]]:
    """Human answers as rows of a predictions file, a model an annotator.

    Args:
        text: CSV with columns question_id, annotator, answer.
        setting: what the annotators saw.

    Raises:
        ValueError: a column or a value is missing, or an annotator answers a question twice.
    """
    rows = _read(text, ("question_id", "annotator", "answer"))
    return [
        _prediction(who, answer, task="oevqa", setting=setting, sample_id=question, variant="")
        for question, who, answer in rows
    ]


def letters_as_predictions(text: str, setting: str = "32-frames") -> list[dict[str, str]]:
    """Human choices between statements as rows of a predictions file, a model an annotator.

    Args:
        text: CSV with columns pair_id, such as `video7/Incertezza_B/3`, annotator, letter: A or B as they were shown,
            in the order drawn for the sweep's seed.
        setting: what the annotators saw.

    Raises:
        ValueError: a column or a value is missing or wrong, or an annotator chooses in a pair twice.
    """
    found = []
    for pair, who, letter in _read(text, ("pair_id", "annotator", "letter")):
        question, _, index = pair.rpartition("/")
        if letter not in ("A", "B") or not question or index not in map(str, range(POOL)):
            raise ValueError(f"pair_id {pair!r}, letter {letter!r}: wanted such as video7/Incertezza_B/3 and A or B")
        found.append(_prediction(who, letter, task="vsv", setting=setting, sample_id=question, variant=index))
    return found


def judge_kappa(text: str) -> Metric:
    """Fleiss' kappa of the judge and human raters over the same answers.

    Args:
        text: CSV with columns item_id, rater, correct: 0 or 1; the judge is a rater among others.

    Returns:
        The metric `fleiss_kappa`; None where every rating is the same.

    Raises:
        ValueError: a column or a value is missing or wrong, a rater rates an item twice, or some items have fewer
            raters than others.
    """
    counts: dict[str, list[int]] = {}
    for item, rater, correct in _read(text, ("item_id", "rater", "correct")):
        if correct not in ("0", "1"):
            raise ValueError(f"item {item!r}, rater {rater!r}: correct is {correct!r}, wanted 0 or 1")
        counts.setdefault(item, [0, 0])[int(correct)] += 1
    value = fleiss_kappa(list(counts.values()))
    return Metric(
        task="oevqa",
        setting="",
        subset=f"{len(counts)} samples",
        metric="fleiss_kappa",
        value=value,
        n=len(counts),
        unit="",
        note="" if value is not None else "all ratings are the same",
    )


def held_out(sample: Sample) -> Iterator[Row]:
    """The eight human answers as candidates, each with the other seven as its references, ready for the judge."""
    answers = list(sample.data["answers"])
    for index, answer in enumerate(answers):
        others = replace(sample, data={**sample.data, "answers": answers[:index] + answers[index + 1 :]})
        yield Row(
            request_id=f"{sample.sample_id}/human/{index}",
            sample=others,
            model="human",
            task="oevqa",
            setting="",
            variant=str(index),
            status="ok",
            output=answer,
        )


def human_leave_one_out(accepted: Mapping[tuple[str, int], bool], samples: Sequence[Sample]) -> list[Metric]:
    """Share of human answers that the judge accepts given the others: a proxy for human accuracy, and no more.

    Args:
        accepted: (sample id, index of the answer) -> verdict, on the rows of `held_out`.
        samples: the questions.

    Returns:
        `human_leave_one_out` for the whole and each category, n being answers; None where a verdict is lacking.
    """
    verdicts = [accepted.get((sample.sample_id, index)) for sample in samples for index in range(POOL)]
    videos = np.unique([sample.cluster for sample in samples], return_inverse=True)[1]
    measure = Measure(
        task="oevqa",
        setting="",
        metric="human_leave_one_out",
        values=np.array([np.nan if verdict is None else float(verdict) for verdict in verdicts]),
        column=np.array([COLUMNS.index(sample.category) for sample in samples], dtype=np.intp).repeat(POOL),
        video=videos.repeat(POOL),
        failed=np.zeros(len(verdicts), dtype=np.bool_),
        counted=np.ones(len(verdicts), dtype=np.bool_),
        lacks=lambda rows: f"answers without a verdict: {int(rows.sum()):,}",
    )
    return list(measure.metrics())


def _prediction(who: str, output: str, **cell: str) -> dict[str, str]:
    return {"benchmark": "maia", "model": f"{ANNOTATOR}{who}", **cell, "output": output}


def _read(text: str, columns: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    """The rows of a CSV file; the first two columns together name a row."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    absent = [name for name in columns if name not in (reader.fieldnames or ())]
    if absent:
        raise ValueError(f"no column {', '.join(absent)}; the header must have {', '.join(columns)}")
    found: dict[tuple[str, str], str] = {}
    for row in reader:
        item, who, value = ((row[name] or "").strip() for name in columns)
        if not (item and who and value):
            raise ValueError(f"line {reader.line_num}: {', '.join(columns)} must all have a value")
        if (item, who) in found:
            raise ValueError(f"line {reader.line_num}: {who!r} has {item!r} twice")
        found[item, who] = value
    return [(item, who, value) for (item, who), value in found.items()]
