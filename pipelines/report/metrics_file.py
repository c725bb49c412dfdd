"""Read and write `report/metrics.json`: the only place that knows a number's source as text."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

from pipelines.benchmarks import benchmark
from pipelines.benchmarks.records import Metric
from pipelines.benchmarks.results import Results
from pipelines.benchmarks.tables import TableValue
from pipelines.errors import StoreError
from pipelines.json_records import MalformedError, dump_json, read_record, read_value
from pipelines.schemas import METRIC_KEYS
from pipelines.storage.store import Store, is_as_published

NUMBERS: Final = ("value", "ci_low", "ci_high", "ci_df", "set_ci_low", "set_ci_high")


def number_or_none(value: object) -> float | None:
    """Return a finite number; None for null, NaN, infinity and anything else."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


class MetricSource(NamedTuple):
    """What a number rests on, each '' where that is what the tables show."""

    judge: str = ""  # of several: whose verdicts they are
    prompt_set: str = ""
    captioner: str = ""


TABLES: Final = MetricSource()


class MetricKey(NamedTuple):
    """What a number of a benchmark measures."""

    metric: str
    task: str
    setting: str
    subset: str = ""
    category: str = ""
    source: MetricSource = TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Metric):
    """A metric of one model; its unit is never ''."""

    benchmark: str
    model: str
    source: MetricSource = TABLES
    is_plain: bool = False
    """A difference, length or score, which is never printed as percent; unknown of what is read from a file."""

    @classmethod
    def of(cls, benchmark: str, model: str, metric: Metric, source: MetricSource = TABLES) -> Self:
        """Return a benchmark's metric of a model, with None for NaN and infinity."""
        fields: dict[str, Any] = {name: getattr(metric, name) for name in Metric.__slots__}
        fields |= {name: number_or_none(fields[name]) for name in NUMBERS}
        fields |= {"unit": metric.unit or "fraction", "is_plain": metric.unit not in ("fraction", "count")}
        return cls(**fields, benchmark=benchmark, model=model, source=source)

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key of `metrics.json`, as of a row read from there."""
        return self.label if key == "metric" else getattr(self, key)

    @property
    def key(self) -> MetricKey:
        """What it measures."""
        return MetricKey(self.metric, self.task, self.setting, self.subset, self.category, self.source)

    @property
    def label(self) -> str:
        """The metric as people read it, with the judge of several."""
        return f"{self.metric}@{self.source.judge}" if self.source.judge else self.metric

    @property
    def is_overall(self) -> bool:
        """Whether it is of all items, with the prompts and captions of the tables; by whichever judge."""
        return not (self.subset or self.category or self.source.prompt_set or self.source.captioner)

    @property
    def is_whole(self) -> bool:
        """Whether it is of all items and rests on what the tables show."""
        return self.is_overall and not self.source.judge

    @property
    def cell(self) -> TableValue:
        """The number as a cell; of a missing value its note."""
        return TableValue(
            value=self.value,
            low=self.ci_low,
            high=self.ci_high,
            n=self.n,
            n_failed=self.n_failed,
            note=self.note if self.value is None else "",
        )


def metrics_by_model(name: str, rows: Sequence[Measured], judge: str = "") -> Results:
    """Return the metrics of a benchmark by model, of one judge or those of its tables."""
    metrics: dict[str, list[Metric]] = {}
    for row in rows:
        if row.benchmark == name and row.source == MetricSource(judge):
            metrics.setdefault(row.model, []).append(row)
    return Results.of(name, metrics, () if judge else benchmark(name).published)


PATH: Final = "report/metrics.json"
_LATER: Final = ("ci_df", "set_ci_low", "set_ci_high")  # absent in files of version 0.1
_IDENTITY: Final = ("benchmark", "task", "model", "setting", "subset", "category", "metric")
_SUBSET: Final = re.compile(r"(.*?)(?:(?:^|, )prompt:(.*?))?(?:(?:^|, )captioner:(.*))?", re.DOTALL)


def metric_row(number: Measured) -> dict[str, Any]:
    """Return a number as a row of the file: keys in the contract's order, counts as integers, NaN and infinity null."""
    _, prompt_set, captioner = number.source
    sets = (f"prompt:{prompt_set}" if prompt_set else "", f"captioner:{captioner}" if captioner else "")
    return {
        **{key: getattr(number, key) for key in METRIC_KEYS},
        **{name: _number(getattr(number, name), number.unit) for name in NUMBERS},
        "subset": ", ".join(filter(None, (number.subset, *sets))),
        "metric": number.label,
    }


def read_metric(row: Mapping[str, Any]) -> Measured:
    """Read a row of the file, which may have more keys; MalformedError for anything else."""
    if missing := [key for key in METRIC_KEYS if key not in (*row, *_LATER)]:
        raise MalformedError(f"a metric without {missing[0]!r}")
    number = read_record(Measured, {key: row[key] for key in METRIC_KEYS if key in row})
    metric, _, judge = number.metric.partition("@")
    match = _SUBSET.fullmatch(number.subset)
    assert match is not None
    subset, *sets = match.groups("")
    return replace(number, metric=metric, subset=subset, source=MetricSource(judge, *sets))


def identity(number: Measured) -> tuple[str, ...]:
    """Return the names of a number in the file: benchmark, task, model, setting, subset, category, metric."""
    row = metric_row(number)
    return tuple(row[name] for name in _IDENTITY)


def metrics_json(numbers: Iterable[Measured]) -> bytes:
    """Return the file, sorted by identity; ValueError if two numbers have the same."""
    by_identity = sorted(((identity(number), number) for number in numbers), key=lambda entry: entry[0])
    for (first, _), (second, _) in pairwise(by_identity):
        if first == second:
            raise ValueError(f"two metrics are named {'/'.join(first)}")
    rows = (dump_json(metric_row(number)) for _, number in by_identity)
    lines = ",\n".join(rows)
    return f"[\n{lines}\n]\n".encode() if lines else b"[]\n"


def load_metrics(out: Store) -> list[Measured] | None:
    """Return the numbers of an output's report; None before the first one, StoreError for a damaged file."""
    try:
        content = out.get(PATH)
    except FileNotFoundError:
        return None
    try:
        rows = read_value(tuple[dict[str, Any], ...], json.loads(content), "metrics")
        metrics = [read_metric(row) for row in rows]
    except ValueError as error:
        raise _damaged(out, str(error)) from error
    if not is_as_published(out, PATH, content):
        raise _damaged(out, "it is not what the last report wrote")
    return metrics


def _damaged(out: Store, problem: str) -> StoreError:
    return StoreError(f"{out.uri}/{PATH}: damaged ({problem}); `vlmsweep report` writes it again")


def _number(value: float | None, unit: str) -> float | None:
    number = number_or_none(value)
    return int(number) if number is not None and unit == "count" and number.is_integer() else number
