"""Tables of UNPIE that the paper does not have: more on translations, how answers were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.results import Key, section, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.aggregate import ALL
from pipelines.benchmarks.unpie.results import HEADLINES, PAIRS, TYPES, UnpieResults

_COUNTS: Final[Mapping[str, str]] = {
    "errors": "Failed",
    "invalid": "Invalid",
    "truncated": "Truncated",
    "extra_text": "More lines",
    "untranslated": "Untranslated",
    "wrong_script": "Wrong script",
    "refusal": "Refusals",
    "judge_invalid": "Judge unread",
    "judged_by_rule": "Judged by rule",
}
_TRANSLATION_METRICS: Final[Mapping[str, str]] = {
    "accuracy": "Accuracy",
    "pair_accuracy": "Both right",
    "tie_rate": "Ties",
    "same_output_rate": "Same output",
    "margin": "Margin",
}


def extra_tables(unpie: UnpieResults) -> list[Table]:
    """Return the tables that have any row of ours."""
    tables = (_strict_table(unpie), _translation_table(unpie), _reading_table(unpie))
    return with_our_rows(tables)


def _whole(unpie: UnpieResults, key: Key) -> TableValue | None:
    """Return the mean of both kinds, or the pooled value where there is one kind only."""
    for category in (ALL, ""):
        number = unpie.find(key._replace(category=category))
        if number is not None:
            return replace(number, note=number.note if number.value is None else "")
    return None


def _strict_table(unpie: UnpieResults) -> Table:
    names = {"exact_match": "Normalised", "exact_match_strict": "As it came"}
    rows = []
    for setting, label in TYPES.items():
        for model in unpie.models():
            numbers = [_whole(unpie, Key(name, "grounding", setting, category=ALL, model=model)) for name in names]
            if any(numbers):
                rows.append(TableRow(label=model, cells=(label, *numbers)))
    return Table(
        id="unpie_strict",
        title="UNPIE: exact match with and without normalisation",
        columns=("Type", *names.values()),
        rows=tuple(rows),
        style="percent1",
        notes=("The paper does not specify whether case and a final full stop count.",),
    )


def _translation_table(unpie: UnpieResults) -> Table:
    rows: list[TableRow] = []
    for pair in PAIRS["disambiguation"]:
        block = []
        for setting in ("sm", "vlm"):
            keys = [Key(metric, "disambiguation", setting, pair) for metric in _TRANSLATION_METRICS]
            for model in unpie.results.models_with(keys):
                cells = (without_interval(unpie.find(key.of(model))) for key in keys)
                block.append(TableRow(label=model, cells=(TYPES[setting], *cells)))
        rows += section(pair, block)
    return Table(
        id="unpie_translations",
        title="UNPIE: translations by both pictures of a pun",
        columns=("Type", *_TRANSLATION_METRICS.values()),
        rows=tuple(rows),
        styles=("percent1", "percent1", "percent1", "percent1", "percent1", "fraction4"),
        notes=(
            (
                "Both right: both meanings of a pun, by chance about 25%. Same output: both pictures gave one text, so "
                "the picture was ignored. Margin: BERTScore to the wanted translation minus that to the other."
            ),
        ),
    )


def _reading_table(unpie: UnpieResults) -> Table:
    rows: list[TableRow] = []
    for task in HEADLINES:
        rows += section(
            task.capitalize(),
            (
                TableRow(label=model, cells=(label, *_counts(unpie, Key("coverage", task, setting, model=model))))
                for setting, label in TYPES.items()
                for model in unpie.models()
                if unpie.find(Key("coverage", task, setting, model=model)) is not None
            ),
        )
    return Table(
        id="unpie_reading",
        title="UNPIE: parsing of answers",
        columns=("Type", "Answers", "Coverage", *_COUNTS.values()),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Coverage: share of the requests with their picture, caption and text. Invalid answers are wrong; "
                "other flags change no score. Judge unread: verdicts that could not be read, which count as no."
            ),
        ),
    )


def _counts(unpie: UnpieResults, coverage: Key) -> Iterator[TableCell]:
    invalid = unpie.find(coverage._replace(metric="invalid"))
    yield invalid.n if invalid else None
    yield unpie.value(coverage)
    for metric in _COUNTS:
        yield without_interval(unpie.find(coverage._replace(metric=metric)))
