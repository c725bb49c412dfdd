"""Published numbers of a benchmark: the rows of its `published.csv`, carried over from the paper as printed."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from pipelines.benchmarks.records import PublishedValue


@cache
def load_published(benchmark: str) -> tuple[PublishedValue, ...]:
    """Read the published numbers of a benchmark; empty for one without a file of them."""
    path = files(__package__).joinpath(benchmark, "published.csv")
    if not path.is_file():
        return ()
    with path.open("r", encoding="utf-8") as file:
        return tuple(_parse_row(row) for row in csv.DictReader(file))


@cache
def load_dataset_facts(benchmark: str) -> dict[str, str]:
    """Read a paper's figures about its data: key -> value as printed."""
    with files(__package__).joinpath("dataset_facts.csv").open("r", encoding="utf-8") as file:
        return {row["key"]: row["value"] for row in csv.DictReader(file) if row["benchmark"] == benchmark}


def _parse_row(row: dict[str, str]) -> PublishedValue:
    value = float(row["value"]) if row["value"] else None
    texts = {name: row[name] for name in PublishedValue.__slots__ if name != "value"}
    return PublishedValue(value=value, **texts)
