"""Human baselines: which human figures a benchmark has, and how files of people's own work are read.

`BenchmarkDefinition.human` declares both, for the report's joint comparison, `--human` and the page on the files.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from pipelines.benchmarks.csv_rows import CsvRows
from pipelines.benchmarks.figures import Figure
from pipelines.benchmarks.records import HUMAN_SPLIT, HUMAN_VERDICT, HUMAN_VOTES, MediaRef, Metric, Row, Sample, person
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import Table

if TYPE_CHECKING:
    import pandas as pd

YES_NO: Final = (("1", "Yes"), ("0", "No"))


@dataclass(frozen=True, slots=True)
class Question:
    """One column of a row: a choice, or without options a line of text."""

    column: str
    label: str
    options: Sequence[tuple[str, str]] = ()  # value and words of each choice
    shown_if: tuple[str, str] | None = None  # column and value of an earlier question; hidden, the value is ''


@dataclass(frozen=True, slots=True)
class AnnotationPart:
    """What becomes one row: fixed fields, questions, and texts to read."""

    fields: Mapping[str, str]
    questions: Sequence[Question]
    texts: Sequence[tuple[str, str]] = ()  # heading and text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationItem:
    """One item of a form; a person answers all of its parts."""

    item_id: str  # unique in a form
    strata: Mapping[str, str]  # what draws may be stratified by
    texts: Sequence[tuple[str, str]] = ()
    picture: MediaRef | None = None  # or a clip, of which frames are shown
    further: Sequence[MediaRef] = ()  # after the first
    parts: Sequence[AnnotationPart]

    @property
    def pictures(self) -> Sequence[MediaRef]:
        """All pictures, in order."""
        return (*((self.picture,) if self.picture else ()), *self.further)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationForm:
    """The items of a benchmark from which forms are drawn, and the kind of human file that they save."""

    kind: str
    title: str
    instructions: Sequence[str]
    items: Sequence[AnnotationItem]
    default_strata: Sequence[str]
    annotator: str = "annotator"  # column of the person's code
    preferred: str = ""  # column that is 1 for the best part of an item and else 0, where that is asked


_TIE: Final = 0.5  # share of people who say yes
POOLED: Final = person("all together")  # the people of an output as one
SAME_ITEMS: Final = "human-items"  # subset of the items that the people of a file answered


def human_metric(metric: str) -> str:
    """Return the name of the metric that holds people's value on `SAME_ITEMS`."""
    return f"{metric}_of_people"


def gap_metric(metric: str) -> str:
    """Return the name of the metric that holds model minus people on `SAME_ITEMS`."""
    return f"{metric}_minus_people"


Reduce: TypeAlias = "Callable[[pd.DataFrame, Mapping[str, Sample]], list[Metric]]"
OutputKey: TypeAlias = tuple[str, str, str, str, str]  # model, task, setting, sample and variant of an output


HumanRow: TypeAlias = dict[str, str]  # a row of a human file by column


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanKind:
    """One form of file that `--human` takes, recognised by its columns: what its rows may hold, and what they mean."""

    name: str
    columns: tuple[str, ...]  # required; others are ignored
    about: str  # what a row says, in a sentence
    item: tuple[str, ...]  # columns of what a person has one row about
    person: str = "annotator"
    optional: tuple[str, ...] = ()
    may_be_empty: tuple[str, ...] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)  # column -> values
    read: Callable[[HumanRow], HumanRow] = lambda row: row  # in our names; ValueError with what is wrong
    sample: str = ""  # column with the id of the sample that must be in the data
    sample_noun: str = "sample"
    answer: Mapping[str, str] = field(default_factory=dict)
    """Task, setting, variant and output of a person's answer, with places for columns; empty if rows are no answers."""
    label: Callable[[HumanRow], OutputKey | None] | None = None
    """The model's output that a row labels as right or wrong, None for none; None where rows are no labels."""
    label_column: str = ""  # of `1` or `0`
    check_whole: Callable[[str], object] = lambda _text: None  # ValueError for what no single row shows

    def rows(self, text: str) -> Iterator[tuple[int, HumanRow]]:
        """Yield the rows by line; ValueError for an invalid one, or a person's second one about an item."""
        return unique_rows(self._valid_rows(text), self.item, self.person)

    def _valid_rows(self, text: str) -> Iterator[tuple[int, HumanRow]]:
        for line, raw in csv_rows(text, self.columns, may_be_empty=self.may_be_empty, optional=self.optional):
            try:
                yield line, self._valid(self.read(raw))
            except ValueError as error:
                raise ValueError(f"line {line}: {error}") from error

    def _valid(self, row: HumanRow) -> HumanRow:
        for column, (*values, last) in self.values.items():
            if row[column] not in (*values, last):
                raise ValueError(f"{column} is {row[column]!r}, expected {', '.join(values)} or {last}")
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLevel:
    """A human result on one measure, and what it is compared with.

    `task`, `metric`, `subset` and `category` name our rows of `metrics.json`; a published row joins on the same names,
    with `printed_subset` where the paper's items have another name.
    """

    task: str
    metric: str
    subset: str = ""
    category: str = ""
    settings: tuple[str, ...] = ()  # settings that are comparable; empty: all
    value: float | None = None  # a fraction; None where nobody measured people, or where `human_metric` rows hold it
    n: int | None = None  # items that people answered, where that is published
    chance: float | None = None
    chance_metric: str = ""  # our metric that holds chance on the same rows, where it depends on the rows
    items: Literal["same", "approximate", "unpublished"]  # our rows: people's items, similar, or not answered
    tables: tuple[str, ...] = ()  # the paper's tables whose models are compared with people, on their items
    best_of: tuple[str, ...] = ()  # the paper's tables of which only the best model of each setting is shown
    printed_subset: str | None = None
    printed_parts: tuple[str, ...] = ()  # categories whose mean stands for a whole that the paper does not print
    drawn: tuple[str, ...] = ()  # settings in the joint figure
    source: str = ""  # where the human value is printed, and who the people were


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanInputs:
    """What one model is compared with people on: its scores, the samples, and people's files and scores."""

    scores: pd.DataFrame  # of the model, one row per request
    samples: Mapping[str, Sample]
    files: Mapping[str, str] = field(default_factory=dict)  # kind -> text
    people: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # `human:NAME` -> scores of the same form


class HumanBaseline:
    """A benchmark's knowledge of people; by default none, and no files."""

    name: ClassVar[str] = ""  # of the benchmark
    kinds: ClassVar[Sequence[HumanKind]] = ()
    label_kind: ClassVar[str] = ""  # kind of file with people's labels of outputs, which the judge judges too
    pseudo_people: ClassVar[Collection[str]] = ()  # names under which the data's own answers are scored
    agreement_headings: ClassVar[Mapping[str, str]] = {}
    """Task -> its name in the table of agreement, where people's answers can be equal."""

    def annotation_form(self, _samples: Iterable[Sample], _rows: Iterable[Row], /) -> AnnotationForm | None:
        """Return what people are asked about samples and models' answers, from which forms are drawn."""
        return None

    def reference_values(self, _results: Results, /) -> list[HumanLevel]:
        """Return human figures for the joint comparison."""
        return []

    def from_json_lines(self, name: str, text: str, /) -> tuple[str, str]:
        """Return the kind and the CSV of a file in the form in which the authors distribute people's answers.

        Raises ValueError with line and reason where it cannot be read.
        """
        raise ValueError(
            f"JSON Lines with people's answers are supported for MATE only; give {name} as CSV ({len(text)} characters)"
        )

    def dataset_answers(self, _samples: Iterable[Sample], /) -> list[dict[str, str]]:
        """Return people's answers that the data hold, as rows of a predictions file in `people_settings`."""
        return []

    def kind(self, name: str) -> HumanKind:
        """Return a kind of file by its name."""
        return next(kind for kind in self.kinds if kind.name == name)

    def rows(self, files: Mapping[str, str], kind: str) -> Iterator[HumanRow]:
        """Yield the rows of a kind; nothing where there is no such file."""
        return (row for _, row in self.kind(kind).rows(files[kind])) if kind in files else iter(())

    def check(self, kind: str, text: str, samples: Mapping[str, Sample], /) -> None:
        """Check a file row by row; raise ValueError `line N: ...` with what is wrong and what is expected."""
        file = self.kind(kind)
        for line, row in file.rows(text):
            if file.sample and (name := row[file.sample]) not in samples:
                raise ValueError(f"line {line}: the data has no {file.sample_noun} {name!r}")
            if person(row[file.person]) == POOLED:
                raise ValueError(f"line {line}: {row[file.person]!r} is reserved for all annotators; use another code")
        file.check_whole(text)

    def predictions(self, kind: str, text: str, /) -> list[dict[str, str]]:
        """Return a file as rows of a predictions file, a model `human:NAME` an annotator; none without answers."""
        file = self.kind(kind)
        texts = {**file.answer, "sample_id": f"{{{file.sample}}}"}
        return [
            prediction_row(
                self.name, person(row[file.person]), **{name: text.format_map(row) for name, text in texts.items()}
            )
            for _, row in file.rows(text)
            if file.answer
        ]

    def output_labels(self, files: Mapping[str, str], /) -> dict[OutputKey, dict[str, float]]:
        """Return people's labels of models' outputs, 1 or 0 by person."""
        labels: dict[OutputKey, dict[str, float]] = {}
        for kind in self.kinds:
            for row in self.rows(files, kind.name) if kind.label else ():
                if kind.label and (key := kind.label(row)) is not None:
                    labels.setdefault(key, {})[row[kind.person]] = float(row[kind.label_column])
        return labels

    def labelled(self, files: Mapping[str, str], /) -> Collection[OutputKey]:
        """Return the models' outputs that people labelled, which the judge may judge to be compared with them."""
        return self.output_labels(files).keys()

    def labels(self, _files: Mapping[str, str], /) -> dict[str, dict[str, Mapping[Hashable, Hashable]]]:
        """Return people's labels of models' answers for the table of agreement: name, annotator, answer -> label."""
        return {}

    def with_labels(self, scores: pd.DataFrame, files: Mapping[str, str], model: str, /) -> pd.DataFrame:
        """Return the scores of one model with people's labels of its answers as the column `human`.

        Of several people the majority counts; a tie is no label. Without labels, those of the predictions remain. With
        them go the number of people and the share of their pairs that disagree.
        """
        votes = {key[1:]: [*by.values()] for key, by in self.output_labels(files).items() if key[0] == model}
        if not votes:
            return scores
        shares = {key: fmean(row_votes) for key, row_votes in votes.items()}
        majority = {key: float(share > _TIE) for key, share in shares.items() if share != _TIE}
        earlier = scores["human"] if "human" in scores else [None] * len(scores)
        human = [majority.get(key, old) for key, old in zip(output_keys(scores), earlier, strict=True)]
        counts = [float(len(votes[key])) if key in majority else None for key in output_keys(scores)]
        split = [_split(votes.get(key, ())) for key in output_keys(scores)]
        columns = {HUMAN_VERDICT: human, HUMAN_VOTES: counts, HUMAN_SPLIT: split}
        return scores.assign(**columns).astype(dict.fromkeys(columns, "float64"))

    def metrics(self, _inputs: HumanInputs, /) -> list[Metric]:
        """Compare one model's scores with people's on the items that both answered."""
        return []

    def pooled(
        self, _scores: Mapping[str, pd.DataFrame], _samples: Mapping[str, Sample], _reduce: Reduce, /
    ) -> list[Metric]:
        """Return the metrics of all people together from their scores by name, as `_reduce` takes them of one."""
        return []

    def annotation_scores(self, _scores: pd.DataFrame, _files: Mapping[str, str], /) -> Mapping[str, float]:
        """Return numbers of one model's rows that `display` needs, by a key of the benchmark's own."""
        return {}

    def display(
        self, _files: Mapping[str, str], _scores: Mapping[str, Mapping[str, float]], _results: Results, /
    ) -> tuple[Sequence[Table], Sequence[Figure]]:
        """Lay out tables and figures of the files; `_scores` maps models to their `annotation_scores`."""
        return (), ()


def _split(votes: Sequence[float]) -> float | None:
    """Return the share of pairs of people that disagree; None with fewer than two."""
    pairs = len(votes) * (len(votes) - 1) / 2
    accepted = sum(votes)
    return accepted * (len(votes) - accepted) / pairs if pairs else None


def output_keys(scores: pd.DataFrame) -> Iterator[tuple[str, str, str, str]]:
    """Yield task, setting, sample and variant of each row."""
    return zip(*(scores[name] for name in ("task", "setting", "sample_id", "variant")), strict=True)


def prediction_row(  # noqa: PLR0913 - the columns of a predictions file
    benchmark: str, model: str, *, output: str | None, task: str, setting: str, sample_id: str, variant: str = ""
) -> dict[str, Any]:
    """Return an answer as a row of a predictions file."""
    row = {"benchmark": benchmark, "model": model, "task": task, "setting": setting, "sample_id": sample_id}
    return {**row, "variant": variant, "output": output}


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; what is absent is empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def csv_rows(
    text: str, columns: Sequence[str], *, may_be_empty: Sequence[str] = (), optional: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the lines of a CSV file with a header, by number and stripped of blanks around values.

    Rows with a field that is too long are left out; `over_long_rows` names them.

    Raises:
        ValueError: a column is missing, or a value of any but those that may be empty; or the text is not CSV.
    """
    for line, raw in _all_rows(text, columns, optional):
        if isinstance(raw, ValueError):
            continue
        row = {name: (raw.get(name) or "").strip() for name in (*columns, *optional)}
        empty = [name for name in columns if not row[name] and name not in may_be_empty]
        if empty:
            raise ValueError(f"line {line}: {', '.join(empty)} must have a value")
        yield line, row


def over_long_rows(text: str, columns: Sequence[str], optional: Sequence[str] = ()) -> Iterator[str]:
    """Yield `line N: ...` of the rows with a field that is too long."""
    rows = _all_rows(text, columns, optional)
    return (f"line {line}: {raw}" for line, raw in rows if isinstance(raw, ValueError))


def _all_rows(
    text: str, columns: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
    try:
        rows = CsvRows(text, strict=False)
        absent = [name for name in columns if name not in rows.columns]
        if absent:
            raise ValueError(f"no column {', '.join(absent)}; the header must have {', '.join(columns)}")
        yield from rows.read((*columns, *optional))
    except csv.Error as error:
        raise ValueError(f"not readable as CSV: {error}") from error


def unique_rows(
    rows: Iterable[tuple[int, dict[str, Any]]], item: Sequence[str], person: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield numbered rows; raise ValueError where a person has a second row for an item.

    `item` and `person` name the columns that identify an item and a person; empty values are not printed.
    """
    first_lines: dict[tuple[str, ...], int] = {}
    for line, row in rows:
        key = (row[person], *(row[name] for name in item))
        first = first_lines.setdefault(key, line)
        if first != line:
            owner = f" of {row[person]!r}" if row[person] else ""
            name = "/".join(filter(None, key[1:]))
            raise ValueError(f"line {line}: a second row{owner} for {name!r}; the first is on line {first}, keep one")
        yield line, row
