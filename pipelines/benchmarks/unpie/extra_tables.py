"""Tables of UNPIE that the paper does not have: beside chance and people, more of the answers, how they were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue
from pipelines.benchmarks.unpie.aggregate import ALL
from pipelines.benchmarks.unpie.results import PAIRS, TYPES, Key, Results, without_interval

HEADLINES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "grounding": ("exact_match", ("",)),
    "disambiguation": ("accuracy", PAIRS["disambiguation"]),
    "reconstruction": ("correct_pct", PAIRS["reconstruction"]),
}
"""Task -> headline and subsets."""
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
_MORE: Final[Mapping[str, str]] = {
    "accuracy": "Accuracy",
    "pair_accuracy": "Both right",
    "tie_rate": "Ties",
    "same_output_rate": "Same output",
    "margin": "Margin",
}


def own_tables(book: Results) -> list[Table]:
    """Those tables for which there is any row of ours."""
    tables = (_human(book), _strict(book), _translations(book), _reading(book))
    return [table for table in tables if any(row.origin == "ours" for row in table.rows)]


def _human(book: Results) -> Table:
    """Every model beside chance, the best published and people, of whom nobody did these tasks."""
    rows: list[TableRow] = []
    for task, (metric, subsets) in HEADLINES.items():
        for subset in subsets:
            block = list(_beside(book, task, metric, subset))
            heading = f"{task.capitalize()}, {metric.replace('_', ' ')}" + (f", {subset}" if subset else "")
            rows += [TableRow(label=heading, origin="heading"), *block] if block else []
    notes = dict.fromkeys(note for task in HEADLINES for note in book.subset_notes(task))
    return Table(
        id="unpie_human",
        title="UNPIE: models, chance, published and people",
        columns=("Type", "Ours", "Random", "Best published, same type", "Human", "Gap to human"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Percent; mean of Homo and Hetero, or pooled where there is one only; in brackets the 95% interval, "
                "from resampling puns. People were asked none of the three tasks, so there is no gap to tell."
            ),
            "Random: one word of the sentence for grounding, either translation for disambiguation.",
            *notes,
        ),
    )


def _beside(book: Results, task: str, metric: str, subset: str) -> Iterator[TableRow]:
    for setting, words in TYPES.items():
        key = Key(task, setting, metric, subset, ALL)
        for model in book.models["ours"]:
            found = _whole(book, model, key)
            if found is None:
                continue
            thin = book.thin(model, task, setting) or bool(book.subset_notes(task))
            best = None if thin else _best(book, key)
            yield TableRow(label=model, cells=(words, found, _chance(book, model, key), best, _NOT_PUBLISHED, None))


def _whole(book: Results, model: str, key: Key) -> TableValue | None:
    for category in (ALL, ""):
        found = book.find("ours", model, key._replace(category=category))
        if found is not None:
            return replace(found, note=found.note if found.value is None else "")
    return None


def _chance(book: Results, model: str, key: Key) -> TableCell:
    if key.task == "disambiguation":
        return 0.5
    found = _whole(book, model, key._replace(metric="random_exact_match"))
    return None if found is None else found.value


def _best(book: Results, key: Key) -> float | None:
    """The highest published value; grounding prints no mean of both kinds, so it is made here."""
    found = []
    for model in book.models["published"]:
        whole = book.find("published", model, key)
        if whole is not None and not whole.doubtful:
            found.append(whole.value)
        elif key.task == "grounding":
            parts = [book.value("published", model, key._replace(category=kind)) for kind in ("Homo", "Hetero")]
            known = [value for value in parts if value is not None]
            found += [sum(known) / 2] if len(known) == 2 else []
    return max((value for value in found if value is not None), default=None)


def _strict(book: Results) -> Table:
    names = {"exact_match": "Normalised", "exact_match_strict": "As it came"}
    rows = [
        TableRow(label=model, cells=(words, *(_whole(book, model, key) for key in keys)))
        for setting, words in TYPES.items()
        for keys in [[Key("grounding", setting, name, "", ALL) for name in names]]
        for model in book.models["ours"]
        if any(_whole(book, model, key) for key in keys)
    ]
    return Table(
        id="unpie_strict",
        title="UNPIE: exact match after normalisation and as it came",
        columns=("Type", *names.values()),
        rows=tuple(rows),
        style="percent1",
        notes=("The paper does not say whether case and a final stop count.",),
    )


def _translations(book: Results) -> Table:
    """More of disambiguation, for each language, both kinds together."""
    rows: list[TableRow] = []
    for pair in PAIRS["disambiguation"]:
        block = [
            TableRow(
                label=model, cells=(TYPES[setting], *(without_interval(book.find("ours", model, key)) for key in keys))
            )
            for setting in ("sm", "vlm")
            for keys in [[Key("disambiguation", setting, name, pair) for name in _MORE]]
            for model in book.with_values("ours", keys)
        ]
        rows += [TableRow(label=pair, origin="heading"), *block] if block else []
    return Table(
        id="unpie_translations",
        title="UNPIE: translations by both pictures of a pun",
        columns=("Type", *_MORE.values()),
        rows=tuple(rows),
        styles=(*["percent1"] * 5, "fraction4"),  # type: ignore[arg-type]
        notes=(
            (
                "Both right: both meanings of a pun, by chance about 25%. Same output: both pictures gave one text, so "
                "the picture was ignored. Margin: BERTScore to the wanted translation minus that to the other."
            ),
        ),
    )


def _reading(book: Results) -> Table:
    """How answers were read, and what could not be."""
    rows = []
    for task in HEADLINES:
        block = [
            TableRow(
                label=model,
                cells=(TYPES[setting], *_counts(book, model, task, setting)),
            )
            for setting in TYPES
            for model in book.models["ours"]
            if book.find("ours", model, Key(task, setting, "coverage")) is not None
        ]
        rows += [TableRow(label=task.capitalize(), origin="heading"), *block] if block else []
    return Table(
        id="unpie_reading",
        title="UNPIE: how answers were read",
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


def _counts(book: Results, model: str, task: str, setting: str) -> Sequence[TableCell]:
    invalid = book.find("ours", model, Key(task, setting, "invalid"))
    coverage = book.value("ours", model, Key(task, setting, "coverage"))
    found = [without_interval(book.find("ours", model, Key(task, setting, name))) for name in _COUNTS]
    return (invalid.n if invalid else None, coverage, *found)
