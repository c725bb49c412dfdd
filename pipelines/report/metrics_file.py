"""Read and write `report/metrics.json`: the only place that knows a number's source as text."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from pipelines.errors import StoreError
from pipelines.json_records import MalformedError, dump_json, read_record, read_value
from pipelines.report.measured import NUMBERS, Measured, MetricSource, number_or_none
from pipelines.schemas import METRIC_KEYS
from pipelines.storage.published_files import is_as_published
from pipelines.storage.store import Store

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
