"""People's work on MAIA: chance levels, files with people's answers, choices and ratings, and the annotation form.

The paper prints no human accuracy; a proxy is each of the eight human answers of an open question, judged by the other
seven (`leave-one-out`). People's answers are scored like a model's, and compared on the rows of both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pandas as pd

from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.human import (
    YES_NO,
    AnnotationForm,
    AnnotationItem,
    AnnotationPart,
    HumanInputs,
    HumanKind,
    HumanLevel,
    HumanRow,
    OutputKey,
    Question,
    csv_text,
    prediction_row,
)
from pipelines.benchmarks.maia.facts import AGG, LEAVE_ONE_OUT, LEAVE_ONE_OUT_KEY, OEVQA, POOL_SIZE, POOLS, STATEMENTS
from pipelines.benchmarks.people import FileBaseline, paired_metrics
from pipelines.benchmarks.records import Metric, Row, Sample, person
from pipelines.benchmarks.results import Key, Results
from pipelines.benchmarks.tables import Table, TableRow, TableValue
from pipelines.metrics.agreement import agreement_interval, fleiss_kappa

_UNPUBLISHED: Final = "no human accuracy is published"
_SETTING: Final = "32-frames"  # the input that annotators saw
_JUDGE: Final = "judge"  # its name among raters
_PROXY: Final = "leave-one-out: each of the data's eight human answers, judged by the other seven"
_CHANCE_AND_TABLE: Final[Mapping[Key, tuple[float | None, str]]] = {
    STATEMENTS: (1 / 2, "Table 5"),
    POOLS: (1 / 2**POOL_SIZE, "Table 1"),
    OEVQA: (None, "Table 2"),
    AGG: (None, "Table 3"),
}


def _pair(row: HumanRow) -> HumanRow:
    """Split `pair_id` into question and index."""
    question, _, index = row["pair_id"].rpartition("/")
    if row["letter"] not in ("A", "B") or not question or index not in map(str, range(POOL_SIZE)):
        raise ValueError(
            f"pair_id {row['pair_id']!r}, letter {row['letter']!r}: expected such as video7/Incertezza_B/3 and A or B"
        )
    return {**row, "question": question, "index": index}


def _rated_output(row: HumanRow) -> OutputKey | None:
    """Return the output that a person rated; None for other names of items, and for the judge's ratings."""
    model, *rest = row["item_id"].rsplit("/", 3)
    if row["rater"] == _JUDGE or len(rest) != 3:
        return None
    return model, "oevqa", rest[0], "/".join(rest[1:]), ""


def judge_kappa(text: str) -> Metric:
    """Return Fleiss' kappa of judge and human raters over the same answers; None where all ratings are equal.

    `text` is a file of ratings; the judge is one of the raters.

    Raises:
        ValueError: a row is invalid, or items differ in raters.
    """
    counts: dict[str, list[int]] = {}
    for _, row in _RATINGS.rows(text):
        counts.setdefault(row["item_id"], [0, 0])[int(row["correct"])] += 1
    value = fleiss_kappa(list(counts.values()))
    ends = agreement_interval(fleiss_kappa, list(counts.values()))
    note = "" if value is not None else "all ratings are the same"
    subset = f"{len(counts)} samples"
    metric = Metric(
        task="oevqa", setting="", subset=subset, metric="fleiss_kappa", value=value, n=len(counts), unit="", note=note
    )
    return replace(metric, ci_low=ends.low, ci_high=ends.high, ci_df=ends.freedom) if ends else metric


_ANSWERS: Final = HumanKind(
    name="answers",
    columns=("question_id", "annotator", "answer"),
    about="A person's own words on an open question, such as video7/Incertezza_B; judged like a model's.",
    item=("question_id",),
    sample="question_id",
    sample_noun="question",
    answer={"task": "oevqa", "setting": _SETTING, "output": "{answer}"},
)
_LETTERS: Final = HumanKind(
    name="letters",
    columns=("pair_id", "annotator", "letter"),
    about="A person's choice, A or B, between two statements in the order drawn for the sweep's seed; the pair is the"
    " question and a number, such as video7/Incertezza_B/3.",
    item=("pair_id",),
    read=_pair,
    sample="question",
    sample_noun="question",
    answer={"task": "vsv", "setting": _SETTING, "variant": "{index}", "output": "{letter}"},
)
_RATINGS: Final = HumanKind(
    name="ratings",
    columns=("item_id", "rater", "correct"),
    about="A rater's 0 or 1 on an answer; the judge is a rater among others, all rate every item.",
    item=("item_id",),
    person="rater",
    values={"correct": ("0", "1")},
    label=_rated_output,
    label_column="correct",
    check_whole=judge_kappa,
)


class MaiaHumanBaseline(FileBaseline):
    """Chance levels, and the three kinds of annotation files."""

    name = "maia"
    title = "MAIA"
    kinds = (_ANSWERS, _LETTERS, _RATINGS)
    pseudo_people = (LEAVE_ONE_OUT_KEY.model,)
    agreement_headings: ClassVar = {"vsv": "Statements"}
    measures: ClassVar = {STATEMENTS: "correct", OEVQA: "accepted"}
    people_columns: ClassVar = {
        "Statement accuracy": STATEMENTS,
        "Pool accuracy": POOLS,
        "Open answers": OEVQA,
        "Open answers, leave-one-out": LEAVE_ONE_OUT_KEY,
    }
    people_settings = (_SETTING, LEAVE_ONE_OUT)

    def annotation_form(self, _samples: Iterable[Sample], rows: Iterable[Row], /) -> AnnotationForm:
        """Return a form with one item per open answer; its answers are `ratings`, which the judge joins as a rater."""
        return AnnotationForm(
            kind="ratings",
            annotator="rater",
            title="MAIA: is the open answer correct?",
            instructions=("Correct is what agrees in meaning with at least one reference; the words do not matter.",),
            items=[_item(row) for row in rows if row.task == "oevqa"],
            default_strata=("category", "setting"),
        )

    def reference_values(self, results: Results, /) -> list[HumanLevel]:
        """Return chance levels, and for open answers the leave-one-out value where it was measured."""
        levels = []
        for suffix in ("", "_macro"):  # macro: the mean of the categories, which the paper does not print
            measured = results.find(LEAVE_ONE_OUT_KEY._replace(metric=LEAVE_ONE_OUT_KEY.metric + suffix))
            for key, (chance, table) in _CHANCE_AND_TABLE.items():
                proxy = measured if key == OEVQA and measured and measured.value is not None else None
                level = HumanLevel(
                    task=key.task,
                    metric=key.metric + suffix,
                    value=proxy.value if proxy else None,
                    n=proxy.n if proxy else None,
                    chance=chance,
                    items="approximate" if proxy else "unpublished",
                    best_of=() if suffix else (table,),
                    drawn=() if suffix or key == AGG else (_SETTING,),
                    source=_PROXY if proxy else _UNPUBLISHED,
                )
                levels.append(level)
        return levels

    def dataset_answers(self, samples: Iterable[Sample], /) -> list[dict[str, str]]:
        """Return the eight answers of each question, which the setting `leave-one-out` judges."""
        model, request = person(LEAVE_ONE_OUT), {"task": "oevqa", "setting": LEAVE_ONE_OUT}
        return [
            prediction_row("maia", model, **request, sample_id=sample.sample_id, variant=str(i), output=answer)
            for sample in samples
            for i, answer in enumerate(sample.data["answers"])
        ]

    def metrics(self, inputs: HumanInputs, /) -> list[Metric]:
        """Compare statements, pools and open answers; the eight answers of a question are one person's."""
        return super().metrics(
            replace(inputs, people={name: _as_one_person(frame) for name, frame in inputs.people.items()})
        )

    def compare(self, rows: pd.DataFrame, key: Key) -> list[Metric]:
        """Compare pools along with statements."""
        pools = paired_metrics(_pools(rows), POOLS.of("", key.setting)) if key.metric == STATEMENTS.metric else []
        return [*super().compare(rows, key), *pools]

    def annotation_scores(self, scores: pd.DataFrame, files: Mapping[str, str], /) -> Mapping[str, float]:
        """Return the judge's verdicts on the rated answers by `setting/question`."""
        rated = {row["item_id"] for row in self.rows(files, "ratings")}
        if not rated or "accepted" not in scores:
            return {}
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
        tables, figures = super().display(files, scores, results)
        if "ratings" not in files:
            return tables, figures
        verdicts = {f"{model}/{key}": value for model, by_key in scores.items() for key, value in by_key.items()}
        return (*tables, _judge_table(files["ratings"], verdicts, results)), figures


def _judge_table(ratings: str, verdicts: Mapping[str, float], results: Results) -> Table:
    """Lay out the agreement of the judge and human raters, next to the published one."""
    kappa = judge_kappa(with_judge(ratings, verdicts))
    rows = [
        TableRow(label=key.model, cells=(number.value, key.subset), origin="published")
        for key, number in results.published.items()
        if key.metric == "fleiss_kappa"
    ]
    own = TableValue(value=kappa.value, low=kappa.ci_low, high=kappa.ci_high)
    rows.append(TableRow(label="Own ratings", cells=(own, kappa.subset), note=kappa.note, origin="human"))
    return Table(
        id="maia_judge_agreement",
        title="MAIA section 4.2: agreement of the judge and human raters",
        label_head="Raters",
        columns=("Fleiss' kappa", "Rated"),
        rows=tuple(rows),
    )


def with_judge(ratings: str, verdicts: Mapping[str, float]) -> str:
    """Add the judge as a rater where it has a verdict on every rated answer, and the file does not hold it already."""
    rows = [row for _, row in _RATINGS.rows(ratings)]
    items = list(dict.fromkeys(row["item_id"] for row in rows))
    if any(row["rater"] == _JUDGE for row in rows) or any(item not in verdicts for item in items):
        return ratings
    judge: list[dict[str, Any]] = [
        {"item_id": item, "rater": _JUDGE, "correct": str(int(verdicts[item]))} for item in items
    ]
    return csv_text(_RATINGS.columns, [*rows, *judge])


def _pools(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the questions of which model and person both have all eight pairs: correct where every pair is."""
    if pairs.empty:
        return pairs
    groups = pairs.groupby(["annotator", "sample_id", "cluster"], as_index=False, sort=False)
    pools = groups.agg(model=("model", "min"), person=("person", "min"), size=("model", "size"))
    return pools[pools["size"] == POOL_SIZE]


def _as_one_person(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a person's scores with the eight answers of a question as one row: the share that was accepted."""
    rows = scores[scores["setting"] == LEAVE_ONE_OUT]
    if rows.empty or "accepted" not in rows:
        return scores
    shares = rows.groupby("sample_id", sort=False)["accepted"].agg(lambda values: values.mean(skipna=False))
    return rows.drop_duplicates("sample_id").assign(
        variant="", accepted=lambda frame: frame["sample_id"].map(shares), status="ok"
    )


def _item(row: Row) -> AnnotationItem:
    name = f"{row.model}/{row.setting}/{row.sample.sample_id}"
    references = "\n".join(f"{number}. {text}" for number, text in enumerate(row.sample.data["answers"], start=1))
    return AnnotationItem(
        item_id=name,
        strata={"category": row.sample.category, "setting": row.setting, "model": row.model},
        texts=(("Question", str(row.sample.data["question"])), ("References", references)),
        parts=(
            AnnotationPart(
                {"item_id": name},
                (Question("correct", "Is the answer correct?", YES_NO),),
                (("Answer", row.output or ""),),
            ),
        ),
    )
