"""MAIA's human baseline: chance levels, and files with people's answers, choices and ratings.

The paper prints no human accuracy. People's answers are scored like a model's, and compared on the rows of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    SAME_ITEMS,
    HumanBaseline,
    HumanKind,
    HumanLevel,
    csv_rows,
    gap_metric,
    human_metric,
    human_prediction,
)
from pipelines.benchmarks.maia.categories import POOL_SIZE
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.metrics.agreement import fleiss_kappa
from pipelines.metrics.stats import bootstrap_ci, paired_bootstrap_ci

if TYPE_CHECKING:
    import pandas as pd

_ID: Final[Mapping[str, str]] = {"answers": "question_id", "letters": "pair_id"}
_UNPUBLISHED: Final = "no human accuracy is published"
_SETTING: Final = "32-frames"  # the input that annotators saw


class MaiaHumanBaseline(HumanBaseline):
    """Chance levels, and the three kinds of annotation files."""

    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="answers",
            columns=("question_id", "annotator", "answer"),
            about="A person's own words on an open question, such as video7/Incertezza_B; judged like a model's.",
        ),
        HumanKind(
            name="letters",
            columns=("pair_id", "annotator", "letter"),
            about=(
                "A person's choice, A or B, between two statements in the order drawn for the sweep's seed; the pair is"
                " the question and a number, such as video7/Incertezza_B/3."
            ),
        ),
        HumanKind(
            name="ratings",
            columns=("item_id", "rater", "correct"),
            about="A rater's 0 or 1 on an answer; the judge is a rater among others, all rate every item.",
        ),
    )

    def reference_values(self, _results: Results, /) -> list[HumanLevel]:
        """Return chance levels only: no human accuracy is published."""
        return [
            _level("vsv", "statement_accuracy", 1 / 2, "Table 5"),
            _level("vsv", "pool_accuracy", 1 / 2**POOL_SIZE, "Table 1"),
            _level("oevqa", "oevqa_accuracy", None, "Table 2"),
        ]

    def check(self, kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check that every row is complete and unique, and that its question is in the data set."""
        if kind == "ratings":
            judge_kappa(text)
            return
        self.predictions(kind, text)
        name = _ID[kind]
        for line, row in csv_rows(text, (name,)):
            question = row[name] if kind == "answers" else row[name].rpartition("/")[0]
            if question not in samples:
                raise ValueError(f"line {line}: the data has no question {question!r} ({name} {row[name]!r})")

    def predictions(self, kind: str, text: str, /) -> list[dict[str, str]]:
        """Return answers and letters as predictions; ratings are none."""
        if kind == "answers":
            return answers_as_predictions(text)
        return letters_as_predictions(text) if kind == "letters" else []

    def metrics(
        self,
        scores: pd.DataFrame,
        _samples: Mapping[str, Sample],
        _files: Mapping[str, str],
        people: Mapping[str, pd.DataFrame],
        /,
    ) -> list[Metric]:
        """Compute statements, pools and open answers on the rows that people answered, with the paired gap."""
        metrics: list[Metric] = []
        for setting in map(str, dict.fromkeys(scores["setting"])):
            rows = scores[scores["setting"] == setting]
            pairs = _shared_rows(rows, people, "vsv", "correct")
            answers = _shared_rows(rows, people, "oevqa", "accepted")
            metrics += _comparison(pairs, "vsv", setting, "statement_accuracy")
            metrics += _comparison(_pools(pairs), "vsv", setting, "pool_accuracy")
            metrics += _comparison(answers, "oevqa", setting, "oevqa_accuracy")
        return metrics

    def display(
        self, files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the table of the judge's agreement with people, next to the published one."""
        if "ratings" not in files:
            return (), ()
        kappa = judge_kappa(files["ratings"])
        rows = [
            TableRow(label=key.model, cells=(number.value, key.subset), origin="published")
            for key, number in results.published.items()
            if key.metric == "fleiss_kappa"
        ]
        rows.append(TableRow(label="Own ratings", cells=(kappa.value, kappa.subset), note=kappa.note))
        table = Table(
            id="maia_judge_agreement",
            title="MAIA section 4.2: agreement of the judge and human raters",
            label_head="Raters",
            columns=("Fleiss' kappa", "Rated"),
            rows=tuple(rows),
        )
        return (table,), ()


def _level(task: str, metric: str, chance: float | None, table: str) -> HumanLevel:
    return HumanLevel(
        task=task,
        metric=metric,
        chance=chance,
        items="unpublished",
        best_of=(table,),
        drawn=(_SETTING,),
        source=_UNPUBLISHED,
    )


def _shared_rows(scores: pd.DataFrame, people: Mapping[str, pd.DataFrame], task: str, value: str) -> pd.DataFrame:
    """Return the rows with a value of model and person: annotator, sample_id, cluster, model, person."""
    import pandas as pd

    keys = ["sample_id", "variant"]
    empty = pd.DataFrame(columns=["annotator", "sample_id", "cluster", "model", "person"])
    frames = []
    model_rows = scores[(scores["task"] == task) & (scores["status"] == "ok")]
    for annotator, frame in people.items():
        human_rows = frame[(frame["task"] == task) & (frame["status"] == "ok")]
        if value not in model_rows or value not in human_rows or model_rows.empty or human_rows.empty:
            continue
        left = model_rows[[*keys, "cluster", value]].rename(columns={value: "model"})
        shared = left.merge(human_rows[[*keys, value]].rename(columns={value: "person"}), on=keys)
        frames.append(shared.dropna(subset=["model", "person"]).assign(annotator=annotator))
    frames = [frame for frame in frames if not frame.empty]
    return pd.concat(frames, ignore_index=True) if frames else empty


def _pools(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the questions of which model and person both have all eight pairs: correct where every pair is."""
    if pairs.empty:
        return pairs
    groups = pairs.groupby(["annotator", "sample_id", "cluster"], as_index=False, sort=False)
    pools = groups.agg(model=("model", "min"), person=("person", "min"), size=("model", "size"))
    return pools[pools["size"] == POOL_SIZE]


def _comparison(rows: pd.DataFrame, task: str, setting: str, metric: str) -> Iterator[Metric]:
    """Yield the model's value, people's, and the gap; n counts people's answers, which are pooled."""
    if rows.empty:
        return
    model, person = (rows[name].to_numpy(dtype=np.float64) for name in ("model", "person"))
    clusters = rows["cluster"].tolist()
    names = (metric, human_metric(metric), gap_metric(metric))
    values = (model.mean(), person.mean(), model.mean() - person.mean())
    ends = (bootstrap_ci(model, clusters), bootstrap_ci(person, clusters), paired_bootstrap_ci(model, person, clusters))
    for name, value, interval in zip(names, values, ends, strict=True):
        yield Metric(
            task=task,
            setting=setting,
            subset=SAME_ITEMS,
            metric=name,
            value=float(value),
            n=len(rows),
            ci_low=interval.low if interval else None,
            ci_high=interval.high if interval else None,
        )


HUMAN_BASELINE: Final = MaiaHumanBaseline()


def answers_as_predictions(text: str) -> list[dict[str, str]]:
    """Return human answers as rows of a predictions file, one model per annotator.

    `text` is CSV with the columns question_id, annotator, answer.

    Raises:
        ValueError: a column or a value is missing, or an annotator answers a question twice.
    """
    rows = _unique_rows(text, ("question_id", "annotator", "answer"))
    return [
        human_prediction("maia", annotator, answer, task="oevqa", setting=_SETTING, sample_id=question, variant="")
        for question, annotator, answer in rows
    ]


def letters_as_predictions(text: str) -> list[dict[str, str]]:
    """Return human choices between statements as rows of a predictions file, one model per annotator.

    `text` is CSV with the columns pair_id, such as `video7/Incertezza_B/3`, annotator, and letter: A or B in the order
    drawn for the sweep's seed.

    Raises:
        ValueError: a column or a value is missing or wrong, or an annotator decides a pair twice.
    """
    predictions = []
    for pair, annotator, letter in _unique_rows(text, ("pair_id", "annotator", "letter")):
        question, _, index = pair.rpartition("/")
        if letter not in ("A", "B") or not question or index not in map(str, range(POOL_SIZE)):
            raise ValueError(f"pair_id {pair!r}, letter {letter!r}: expected such as video7/Incertezza_B/3 and A or B")
        cell = {"task": "vsv", "setting": _SETTING, "sample_id": question, "variant": index}
        predictions.append(human_prediction("maia", annotator, letter, **cell))
    return predictions


def judge_kappa(text: str) -> Metric:
    """Return Fleiss' kappa of judge and human raters over the same answers; None where all ratings are equal.

    `text` is CSV with the columns item_id, rater, correct: 0 or 1; the judge is one of the raters.

    Raises:
        ValueError: a column or value is missing or wrong, a rater rates an item twice, or items differ in raters.
    """
    counts: dict[str, list[int]] = {}
    for item, rater, correct in _unique_rows(text, ("item_id", "rater", "correct")):
        if correct not in ("0", "1"):
            raise ValueError(f"item {item!r}, rater {rater!r}: correct is {correct!r}, expected 0 or 1")
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


def _unique_rows(text: str, columns: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    values: dict[tuple[str, str], str] = {}
    for line, row in csv_rows(text, columns):
        item, person, value = (row[name] for name in columns)
        if (item, person) in values:
            raise ValueError(f"line {line}: {person!r} has {item!r} twice")
        values[item, person] = value
    return [(item, person, value) for (item, person), value in values.items()]
