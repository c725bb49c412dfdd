"""Each of the eight human answers of an open question, judged by the other seven: a proxy of human accuracy.

The paper prints none. The setting `leave-one-out` has no requests for models: its answers are those of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from models.messages import Step, user
from pipelines.benchmarks.human import human_prediction
from pipelines.benchmarks.maia.categories import POOL_SIZE
from pipelines.benchmarks.records import Prompt, Sample, person
from pipelines.benchmarks.results import Key

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.benchmarks.metrics_kernel.definitions import Grouping, Measure

LEAVE_ONE_OUT: Final = "leave-one-out"  # the setting, and the name of the person who stands for all eight
MEASURE: Final = Key("human_leave_one_out", "oevqa", LEAVE_ONE_OUT, model=person(LEAVE_ONE_OUT))
_NOTE: Final = "each of the eight human answers, judged by the other seven"


def leave_one_out_prompts(sample: Sample) -> Iterator[Prompt]:
    """Yield one request per answer, so that plans name them; none is ever sent."""
    for index in range(POOL_SIZE):
        step = Step(turns=(user(sample.data["question"]),))
        yield Prompt(variant=str(index), version=LEAVE_ONE_OUT, steps=(step,))


def left_out(sample: Sample, variant: str) -> Sample:
    """Return the sample with the seven answers other than this one as references."""
    answers = [text for index, text in enumerate(sample.data["answers"]) if index != int(variant)]
    return replace(sample, data={**sample.data, "answers": answers})


def answers_of(samples: Iterable[Sample]) -> list[dict[str, str]]:
    """Return the answers of the data as rows of a predictions file."""
    return [
        human_prediction(
            "maia",
            LEAVE_ONE_OUT,
            output=answer,
            task="oevqa",
            setting=LEAVE_ONE_OUT,
            sample_id=sample.sample_id,
            variant=str(index),
        )
        for sample in samples
        for index, answer in enumerate(sample.data["answers"])
    ]


def as_one_person(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a person's scores with the eight answers of a question as one row: the share that was accepted."""
    rows = scores[scores["setting"] == LEAVE_ONE_OUT]
    if rows.empty or "accepted" not in rows:
        return scores
    shares = rows.groupby("sample_id", sort=False)["accepted"].agg(lambda values: values.mean(skipna=False))
    return rows.drop_duplicates("sample_id").assign(
        variant="", accepted=lambda frame: frame["sample_id"].map(shares), status="ok"
    )


def leave_one_out_measures(frame: pd.DataFrame, grouping: Grouping) -> list[Measure]:
    """Return the share of accepted answers for the whole and each category; none without such answers."""
    from pipelines.benchmarks.metrics_kernel.definitions import MetricDef  # prompts need no numpy
    from pipelines.benchmarks.metrics_kernel.rows import NO_JUDGE, ScoredRows

    if frame.empty:
        return []
    accepted = MetricDef(name=MEASURE.metric, value="accepted", missing=NO_JUDGE)
    return grouping.measures(accepted, ScoredRows.of(frame, task=MEASURE.task, setting=MEASURE.setting, note=_NOTE))
