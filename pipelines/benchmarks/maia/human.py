"""MAIA beside people: what chance reaches, and people's own answers, choices and ratings from files.

The paper prints no human accuracy. People's answers are scored like a model's (`maia_human`); here a model meets them
on the rows that both answered, row by row.
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
)
from pipelines.benchmarks.maia.scored_rows import POOL
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.metrics.stats import bootstrap_ci, paired_bootstrap_ci

if TYPE_CHECKING:
    import pandas as pd
import csv
import io
from dataclasses import replace

from pipelines.benchmarks.human import ANNOTATOR
from pipelines.benchmarks.maia.aggregate import MetricSpec
from pipelines.benchmarks.maia.answers import COLUMNS
from pipelines.benchmarks.records import Row
from pipelines.metrics.agreement import fleiss_kappa

_ID: Final[Mapping[str, str]] = {"answers": "question_id", "letters": "pair_id"}
_NOBODY: Final = "no human accuracy is published"


class MaiaPeople(HumanBaseline):
    """See the module's docstring."""

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

    def levels(self, metrics: pd.DataFrame, published: pd.DataFrame) -> list[HumanLevel]:
        """Chance only, for nobody has published what people reach."""
        del metrics, published
        return [
            _level("vsv", "statement_accuracy", 1 / 2, "Table 5"),
            _level("vsv", "pool_accuracy", 1 / 2**POOL, "Table 1"),
            _level("oevqa", "oevqa_accuracy", None, "Table 2"),
        ]

    def check(self, kind: str, text: str, samples: Mapping[str, Sample]) -> None:
        """Every row has its values, none comes twice, and every question is one of the data set's."""
        if kind == "ratings":
            judge_kappa(text)
            return
        self.predictions(kind, text)
        name = _ID[kind]
        for line, row in csv_rows(text, (name,)):
            question = row[name] if kind == "answers" else row[name].rpartition("/")[0]
            if question not in samples:
                raise ValueError(f"line {line}: the data has no question {question!r} ({name} {row[name]!r})")

    def predictions(self, kind: str, text: str) -> list[dict[str, str]]:
        """Answers and letters; ratings are none."""
        if kind == "answers":
            return answers_as_predictions(text)
        return letters_as_predictions(text) if kind == "letters" else []

    def metrics(
        self,
        scores: pd.DataFrame,
        samples: Mapping[str, Sample],
        files: Mapping[str, str],
        people: Mapping[str, pd.DataFrame],
    ) -> list[Metric]:
        """Statements, pools and open answers on the rows that people answered, with the paired gap."""
        del samples, files
        found: list[Metric] = []
        for setting in dict.fromkeys(scores["setting"]):
            own = scores[scores["setting"] == setting]
            vsv = _pairs(own, people, "vsv", "correct")
            found += _beside(vsv, "vsv", str(setting), "statement_accuracy")
            found += _beside(_pools(vsv), "vsv", str(setting), "pool_accuracy")
            found += _beside(_pairs(own, people, "oevqa", "accepted"), "oevqa", str(setting), "oevqa_accuracy")
        return found

    def display(
        self, files: Mapping[str, str], marks: Mapping[str, Mapping[str, float]], published: pd.DataFrame
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Agreement of the judge with people, beside the published one."""
        del marks
        if "ratings" not in files:
            return (), ()
        own = judge_kappa(files["ratings"])
        printed = [row for row in published.to_dict("records") if row["metric"] == "fleiss_kappa"]
        rows = [
            TableRow(label=row["model"], cells=(row["value"], row["subset"]), origin="published") for row in printed
        ]
        rows.append(TableRow(label="Own ratings", cells=(own.value, own.subset), note=own.note))
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
        drawn=("32-frames",),
        source=_NOBODY,
    )


def _pairs(own: pd.DataFrame, people: Mapping[str, pd.DataFrame], task: str, value: str) -> pd.DataFrame:
    """Rows that model and person both have a value for: who, sample_id, cluster, model, person."""
    import pandas as pd

    keys = ["sample_id", "variant"]
    joined = [pd.DataFrame(columns=["who", "sample_id", "cluster", "model", "person"])]
    mine = own[(own["task"] == task) & (own["status"] == "ok")]
    for who, frame in people.items():
        theirs = frame[(frame["task"] == task) & (frame["status"] == "ok")]
        if value not in mine or value not in theirs or mine.empty or theirs.empty:
            continue
        left = mine[[*keys, "cluster", value]].rename(columns={value: "model"})
        both = left.merge(theirs[[*keys, value]].rename(columns={value: "person"}), on=keys)
        joined.append(both.dropna(subset=["model", "person"]).assign(who=who))
    full = [frame for frame in joined if not frame.empty]
    return pd.concat(full, ignore_index=True) if full else joined[0]


def _pools(pairs: pd.DataFrame) -> pd.DataFrame:
    """Questions of which model and person both have all eight pairs: right where every pair is."""
    if pairs.empty:
        return pairs
    groups = pairs.groupby(["who", "sample_id", "cluster"], as_index=False, sort=False)
    pools = groups.agg(model=("model", "min"), person=("person", "min"), size=("model", "size"))
    return pools[pools["size"] == POOL]


def _beside(rows: pd.DataFrame, task: str, setting: str, metric: str) -> Iterator[Metric]:
    """The model's value, people's, and the gap; n is answers of people, over whom values are pooled."""
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


PEOPLE: Final = MaiaPeople()


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
    measure = MetricSpec(
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
