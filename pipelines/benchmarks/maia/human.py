"""MAIA beside people: what chance reaches, and people's own answers, choices and ratings from files.

The paper prints no human accuracy. People's answers are scored like a model's (`maia_human`); here a model meets them
on the rows that both answered, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pipelines.benchmarks.base import Metric, Sample
from pipelines.benchmarks.human import SAME_ITEMS, HumanKind, HumanLevel, People, csv_rows, gap_of, of_people
from pipelines.benchmarks.maia.human_scores import answers_as_predictions, judge_kappa, letters_as_predictions
from pipelines.benchmarks.maia.scored_rows import POOL
from pipelines.benchmarks.tables import Figure, Table, TableRow
from pipelines.metrics.stats import bootstrap_ci, paired_bootstrap_ci

if TYPE_CHECKING:
    import pandas as pd

_ID: Final[Mapping[str, str]] = {"answers": "question_id", "letters": "pair_id"}
_NOBODY: Final = "no human accuracy is published"


class MaiaPeople(People):
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
    names = (metric, of_people(metric), gap_of(metric))
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
