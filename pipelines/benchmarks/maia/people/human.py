"""MAIA's human baseline: chance levels, and files with people's answers, choices and ratings.

The paper prints no human accuracy. People's answers are scored like a model's, and compared on the rows of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    HumanBaseline,
    HumanInputs,
    HumanKind,
    HumanLevel,
    csv_rows,
    csv_text,
    human_prediction,
    unique_rows,
)
from pipelines.benchmarks.maia.categories import POOL_SIZE
from pipelines.benchmarks.maia.people.leave_one_out import LEAVE_ONE_OUT, MEASURE, answers_of, as_one_person
from pipelines.benchmarks.maia.results import AGG, OEVQA, POOLS, STATEMENTS
from pipelines.benchmarks.people.comparison import paired_metrics, people_table, shared_rows
from pipelines.benchmarks.records import Metric, Sample
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table, TableRow
from pipelines.metrics.agreement import fleiss_kappa

if TYPE_CHECKING:
    import pandas as pd

_ID: Final[Mapping[str, str]] = {"answers": "question_id", "letters": "pair_id"}
_UNPUBLISHED: Final = "no human accuracy is published"
_SETTING: Final = "32-frames"  # the input that annotators saw
_JUDGE: Final = "judge"  # its name among raters
_ANSWER_COLUMNS: Final = ("question_id", "annotator", "answer")
_LETTER_COLUMNS: Final = ("pair_id", "annotator", "letter")
_RATING_COLUMNS: Final = ("item_id", "rater", "correct")
_PROXY: Final = "leave-one-out: each of the data's eight human answers, judged by the other seven"
_LEVELS: Final[Mapping[Key, tuple[Any, ...]]] = {
    STATEMENTS: (1 / 2, "Table 5"),
    POOLS: (1 / 2**POOL_SIZE, "Table 1"),
    OEVQA: (None, "Table 2"),
    AGG: (None, "Table 3"),
    **{
        key._replace(metric=f"{key.metric}_macro"): (chance,)
        for key, chance in ((STATEMENTS, 1 / 2), (POOLS, 1 / 2**POOL_SIZE), (OEVQA, None), (AGG, None))
    },
}
"""Measure -> chance, and the paper's tables of it; `macro` is the mean of the categories."""
_PEOPLE_COLUMNS: Final[Mapping[str, Key]] = {
    "Statement accuracy": STATEMENTS,
    "Pool accuracy": POOLS,
    "Open answers": OEVQA,
    "Open answers, leave-one-out": MEASURE,
}


class MaiaHumanBaseline(HumanBaseline):
    """Chance levels, and the three kinds of annotation files."""

    kinds: ClassVar[tuple[HumanKind, ...]] = (
        HumanKind(
            name="answers",
            columns=_ANSWER_COLUMNS,
            about="A person's own words on an open question, such as video7/Incertezza_B; judged like a model's.",
        ),
        HumanKind(
            name="letters",
            columns=_LETTER_COLUMNS,
            about=(
                "A person's choice, A or B, between two statements in the order drawn for the sweep's seed; the pair is"
                " the question and a number, such as video7/Incertezza_B/3."
            ),
        ),
        HumanKind(
            name="ratings",
            columns=_RATING_COLUMNS,
            about="A rater's 0 or 1 on an answer; the judge is a rater among others, all rate every item.",
        ),
    )

    agreement_headings: ClassVar[Mapping[str, str]] = {"vsv": "Statements"}

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return chance levels, and for open answers the leave-one-out value where it was measured."""
        levels = []
        for key, (chance, *tables) in _LEVELS.items():
            level = HumanLevel(
                task=key.task,
                metric=key.metric,
                chance=chance,
                items="unpublished",
                best_of=tuple(tables),
                drawn=(_SETTING,) if tables and key != AGG else (),
                source=_UNPUBLISHED,
            )
            proxy = results.find(MEASURE._replace(metric=key.metric.replace(OEVQA.metric, MEASURE.metric)))
            if key.task == OEVQA.task and proxy is not None and proxy.value is not None:
                level = replace(level, value=proxy.value, n=proxy.n, items="approximate", source=_PROXY)
            levels.append(level)
        return levels

    def dataset_answers(self, samples: Iterable[Sample], /) -> list[dict[str, str]]:
        """Return the eight answers of each question, which the setting `leave-one-out` judges."""
        return answers_of(samples)

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

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compute statements, pools and open answers on the rows that people answered, with the paired gap."""
        scores, people = inputs.scores, inputs.people
        metrics: list[Metric] = []
        persons = {name: as_one_person(frame) for name, frame in people.items()}
        for setting in map(str, dict.fromkeys(scores["setting"])):
            rows = scores[scores["setting"] == setting]
            pairs = shared_rows(rows, people, "correct", task="vsv")
            answers = shared_rows(rows, persons, "accepted", task="oevqa")
            metrics += paired_metrics(pairs, Key("statement_accuracy", "vsv", setting))
            metrics += paired_metrics(_pools(pairs), Key("pool_accuracy", "vsv", setting))
            metrics += paired_metrics(answers, Key("oevqa_accuracy", "oevqa", setting))
        return metrics

    def annotation_scores(self, scores: pd.DataFrame, files: Mapping[str, str], /) -> Mapping[str, float]:
        """Return the judge's verdicts on the rated answers by `setting/question`."""
        if "ratings" not in files or "accepted" not in scores:
            return {}
        rated = {row["item_id"] for _, row in csv_rows(files["ratings"], ("item_id",))}
        judged = scores[(scores["task"] == "oevqa") & (scores["status"] == "ok")].dropna(subset=["accepted"])
        keys = judged["setting"] + "/" + judged["sample_id"]
        return {
            key: float(accepted)
            for key, accepted in zip(keys, judged["accepted"], strict=True)
            if any(item.endswith(f"/{key}") for item in rated)
        }

    def display(
        self, files: Mapping[str, str], scores: Mapping[str, Mapping[str, float]], results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Build the tables of people's values, and of the judge's agreement with raters."""
        tables = people_table("maia", "MAIA", results, _PEOPLE_COLUMNS, (_SETTING, LEAVE_ONE_OUT))
        if "ratings" in files:
            verdicts = {f"{model}/{key}": value for model, by_key in scores.items() for key, value in by_key.items()}
            tables.append(_judge_table(files["ratings"], verdicts, results))
        return tables, ()


def _judge_table(ratings: str, verdicts: Mapping[str, float], results: Results) -> Table:
    """Lay out the agreement of the judge and human raters, next to the published one."""
    kappa = judge_kappa(with_judge(ratings, verdicts))
    rows = [
        TableRow(label=key.model, cells=(number.value, key.subset), origin="published")
        for key, number in results.published.items()
        if key.metric == "fleiss_kappa"
    ]
    rows.append(TableRow(label="Own ratings", cells=(kappa.value, kappa.subset), note=kappa.note, origin="human"))
    return Table(
        id="maia_judge_agreement",
        title="MAIA section 4.2: agreement of the judge and human raters",
        label_head="Raters",
        columns=("Fleiss' kappa", "Rated"),
        rows=tuple(rows),
    )


def with_judge(ratings: str, verdicts: Mapping[str, float]) -> str:
    """Add the judge as a rater where it has a verdict on every rated answer, and the file does not hold it already."""
    rows = [row for _, row in csv_rows(ratings, _RATING_COLUMNS)]
    items = list(dict.fromkeys(row["item_id"] for row in rows))
    if any(row["rater"] == _JUDGE for row in rows) or any(item not in verdicts for item in items):
        return ratings
    judge = [{"item_id": item, "rater": _JUDGE, "correct": str(int(verdicts[item]))} for item in items]
    return csv_text(_RATING_COLUMNS, [*rows, *judge])


def _pools(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the questions of which model and person both have all eight pairs: correct where every pair is."""
    if pairs.empty:
        return pairs
    groups = pairs.groupby(["annotator", "sample_id", "cluster"], as_index=False, sort=False)
    pools = groups.agg(model=("model", "min"), person=("person", "min"), size=("model", "size"))
    return pools[pools["size"] == POOL_SIZE]


HUMAN_BASELINE: Final = MaiaHumanBaseline()


def answers_as_predictions(text: str) -> list[dict[str, str]]:
    """Return human answers as rows of a predictions file, one model per annotator.

    `text` is CSV with the columns question_id, annotator, answer.

    Raises:
        ValueError: a column or a value is missing, or an annotator has two answers to a question.
    """
    return [
        human_prediction("maia", annotator, answer, task="oevqa", setting=_SETTING, sample_id=question)
        for _, question, annotator, answer in _unique_rows(text, _ANSWER_COLUMNS)
    ]


def letters_as_predictions(text: str) -> list[dict[str, str]]:
    """Return human choices between statements as rows of a predictions file, one model per annotator.

    `text` is CSV with the columns pair_id, such as `video7/Incertezza_B/3`, annotator, and letter: A or B in the order
    drawn for the sweep's seed.

    Raises:
        ValueError: a column or a value is missing or wrong, or an annotator has two letters for a pair.
    """
    predictions = []
    for line, pair, annotator, letter in _unique_rows(text, _LETTER_COLUMNS):
        question, _, index = pair.rpartition("/")
        if letter not in ("A", "B") or not question or index not in map(str, range(POOL_SIZE)):
            raise ValueError(
                f"line {line}: pair_id {pair!r}, letter {letter!r}: expected such as video7/Incertezza_B/3 and A or B"
            )
        prediction = human_prediction(
            "maia", annotator, letter, task="vsv", setting=_SETTING, sample_id=question, variant=index
        )
        predictions.append(prediction)
    return predictions


def judge_kappa(text: str) -> Metric:
    """Return Fleiss' kappa of judge and human raters over the same answers; None where all ratings are equal.

    `text` is CSV with the columns item_id, rater, correct: 0 or 1; the judge is one of the raters.

    Raises:
        ValueError: a column or value is missing or wrong, a rater has two ratings of an item, or items differ in
            raters.
    """
    counts: dict[str, list[int]] = {}
    for line, item, _, correct in _unique_rows(text, _RATING_COLUMNS):
        if correct not in ("0", "1"):
            raise ValueError(f"line {line}: correct is {correct!r}, expected 0 or 1")
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


def _unique_rows(text: str, columns: tuple[str, str, str]) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, item, person and value of each row."""
    item, person, value = columns
    for line, row in unique_rows(csv_rows(text, columns), (item,), person):
        yield line, row[item], row[person], row[value]
