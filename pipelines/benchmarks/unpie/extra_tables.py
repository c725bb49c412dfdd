"""Tables of UNPIE that the paper does not have: with chance and people, more on translations, how answers were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.results import Key, mean_of, section, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.aggregate import ALL, KINDS
from pipelines.benchmarks.unpie.results import PAIRS, TYPES, UnpieResults

HEADLINES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "grounding": ("exact_match", ("",)),
    "disambiguation": ("accuracy", PAIRS["disambiguation"]),
    "reconstruction": ("correct_pct", PAIRS["reconstruction"]),
}
"""Task -> headline metric and subsets."""
_NOT_PUBLISHED: Final = "not published"
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
    tables = (_human_table(unpie), _strict_table(unpie), _translation_table(unpie), _reading_table(unpie))
    return with_our_rows(tables)


def _human_table(unpie: UnpieResults) -> Table:
    """Lay out every model with chance, the best published value and people, of whom nobody did these tasks."""
    rows: list[TableRow] = []
    for task, (metric, subsets) in HEADLINES.items():
        for subset in subsets:
            heading = f"{task.capitalize()}, {metric.replace('_', ' ')}" + (f", {subset}" if subset else "")
            rows += section(heading, _human_rows(unpie, Key(metric, task, subset=subset, category=ALL)))
    notes = dict.fromkeys(note for task in HEADLINES for note in unpie.subset_notes(task))
    return Table(
        id="unpie_human",
        title="UNPIE: models, chance, published and people",
        columns=("Type", "Ours", "Random", "Best published, same type", "Human", "Gap to human"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Percent; mean of Homo and Hetero, or pooled where there is one only; in brackets the 95% interval, "
                "from resampling puns. No human results exist for the three tasks, so there is no gap."
            ),
            "Random: one word of the sentence for grounding, either translation for disambiguation.",
            *notes,
        ),
    )


def _human_rows(unpie: UnpieResults, headline: Key) -> Iterator[TableRow]:
    for setting, label in TYPES.items():
        for model in unpie.models():
            key = headline.of(model, setting)
            number = _whole(unpie, key)
            if number is None:
                continue
            is_partial = unpie.has_low_coverage(model, key.task, setting) or bool(unpie.subset_notes(key.task))
            best = None if is_partial else _best_published(unpie, key)
            yield TableRow(label=model, cells=(label, number, _chance(unpie, key), best, _NOT_PUBLISHED, None))


def _whole(unpie: UnpieResults, key: Key) -> TableValue | None:
    """Return the mean of both kinds, or the pooled value where there is one kind only."""
    for category in (ALL, ""):
        number = unpie.find(key._replace(category=category))
        if number is not None:
            return replace(number, note=number.note if number.value is None else "")
    return None


def _chance(unpie: UnpieResults, key: Key) -> TableCell:
    if key.task == "disambiguation":
        return 0.5
    number = _whole(unpie, key._replace(metric="random_exact_match"))
    return None if number is None else number.value


def _best_published(unpie: UnpieResults, key: Key) -> float | None:
    """Return the highest published value; of grounding, of which no mean of both kinds is printed, it is made here."""
    values = []
    for model in unpie.models("published"):
        number = unpie.find(key.of(model), "published")
        if number is not None and not number.doubtful:
            values.append(number.value)
        elif key.task == "grounding":
            values.append(mean_of([unpie.find(key.of(model)._replace(category=k), "published") for k in KINDS]))
    return max((value for value in values if value is not None), default=None)


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
