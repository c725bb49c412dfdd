"""Tables of MAIA that the paper does not have: comparison, deltas, reading, pools, both tasks together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.results import (
    AGG,
    BLOCKS,
    HEADS,
    OEVQA,
    POOLS,
    STATEMENTS,
    Kind,
    Origin,
    Results,
    mean_of,
)
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

_COMPARED: Final[Mapping[Kind, str]] = {
    AGG: "Aggregate accuracy",
    POOLS: "Pool accuracy",
    STATEMENTS: "Statement accuracy",
    OEVQA: "Accuracy of open answers",
}
_CHANCE: Final[Mapping[Kind, float]] = {STATEMENTS: 1 / 2, POOLS: 1 / 2**8}
_NOT_PUBLISHED: Final = "not published"

_READING: Final[Mapping[Kind, str]] = {
    ("vsv", "none_rate"): "None rate",
    ("vsv", "accuracy_ts_a"): "Accuracy, true at A",
    ("vsv", "accuracy_ts_b"): "Accuracy, true at B",
    ("vsv", "elimination_count"): "By elimination",
    ("vsv", "echo_count"): "By echo",
    ("vsv", "errors"): "Failed pairs",
    ("oevqa", "judge_error_count"): "Judge errors",
    ("oevqa", "truncated_count"): "Truncated",
    ("oevqa", "errors"): "Failed answers",
    ("vsv", "contradictory_pools"): "Contradictory pools",
}
_CONTINGENCY: Final[Mapping[str, str]] = {
    "agg_both": "Both right",
    "agg_pool_only": "Pool only",
    "agg_judge_only": "Open answer only",
    "agg_neither": "Neither",
}


def own_tables(book: Results) -> list[Table]:
    """Those tables for which there is any row."""
    tables = (_comparison(book), _deltas(book), _reading(book), _pools(book), _contingency(book))
    return [table for table in tables if any(row.origin == "ours" for row in table.rows)]


def _comparison(book: Results) -> Table:
    """Every model by input, with intervals and counts, beside chance, the published and the human accuracy."""
    rows: list[TableRow] = []
    for (task, metric), words in _COMPARED.items():
        for name, more in ((metric, ""), (f"{metric}_macro", ", mean of the categories")):
            kind = (task, name)
            models = book.with_rows("ours", kind, BLOCKS)
            rows += [TableRow(label=words + more, origin="heading")] if models else []
            for model in models:
                ours = [book.find("ours", model, setting, kind) for setting in BLOCKS]
                human = book.human(kind) or _NOT_PUBLISHED
                rows.append(TableRow(label=model, cells=(*_beside(book, (task, metric)), *ours, human)))
    return Table(
        id="maia_comparison",
        title="MAIA: ours by input, with intervals, beside chance, published and human accuracy",
        columns=("Chance", "Unimodal, published", "Best published", *BLOCKS.values(), "Human"),
        rows=tuple(rows),
        styles=("fraction3", "fraction2", "fraction2", "fraction2", "fraction2", "fraction2", "fraction2"),
        notes=(
            "In brackets the 95% interval, from resampling videos; n is the number of questions or statement pairs.",
            "Best published: the highest printed average over models and inputs, misprints left out.",
            *book.subset_notes(),
        ),
    )


def _beside(book: Results, kind: Kind) -> tuple[TableCell, TableCell, TableCell]:
    """Chance, the published unimodal and the best published value."""
    unimodal = _best(book, kind, ["unimodal"])
    return _CHANCE.get(kind), unimodal, _best(book, kind, BLOCKS)


def _best(book: Results, kind: Kind, settings: Iterable[str]) -> float | None:
    found = [book.find("published", model, setting, kind) for setting in settings for model in book.models["published"]]
    return max((n.value for n in found if n is not None and n.value is not None and not n.doubtful), default=None)


def _deltas(book: Results) -> Table:
    """The differences that the paper's text tells, of averages."""
    published = {model: _published_deltas(book, model) for model in book.with_rows("published", POOLS, BLOCKS)}
    ours = {model: _our_deltas(book, model) for model in book.models["ours"]}
    ours = {model: cells for model, cells in ours.items() if any(cell is not None for cell in cells)}
    rows = [*_delta_rows("published", published), *_delta_rows("ours", ours)]
    kappa = [
        f"Fleiss' kappa of the judge and human raters, {origin}: {number.value:.2f}."
        for (origin, _, _, (_, metric), _), number in book.numbers.items()
        if metric == "fleiss_kappa" and number.value is not None
    ]
    return Table(
        id="maia_deltas",
        title="MAIA: differences between inputs and between tasks",
        columns=("32-Frames \N{MINUS SIGN} 1-Frame", *BLOCKS.values(), *BLOCKS.values()),
        groups=(("Pool", 1), ("Statement \N{MINUS SIGN} pool", 3), ("Open answer \N{MINUS SIGN} pool", 3)),
        rows=tuple(rows),
        notes=(
            "Ours with the 95% interval of the paired difference, both sides on the same draws of videos.",
            *kappa,
            *book.subset_notes(),
        ),
    )


def _delta_rows(origin: Origin, found: Mapping[str, tuple[TableValue | None, ...]]) -> Iterator[TableRow]:
    for model, cells in found.items():
        yield TableRow(label=model, cells=cells, origin=origin)
    if len(found) > 1:
        means = (mean_of(column) for column in zip(*found.values(), strict=True))
        yield TableRow(label=f"Mean, {origin}", cells=tuple(means), origin=origin)


def _published_deltas(book: Results, model: str) -> tuple[TableValue | None, ...]:
    def minus(a: tuple[Kind, str], b: tuple[Kind, str]) -> TableValue | None:
        first, second = (book.find("published", model, setting, kind) for kind, setting in (a, b))
        if first is None or second is None or first.value is None or second.value is None:
            return None
        doubts = [number.note for number in (first, second) if number.doubtful]
        return TableValue(value=first.value - second.value, note="; ".join(doubts), doubtful=bool(doubts))

    return (
        minus((POOLS, "32-frames"), (POOLS, "1-frame")),
        *(minus((STATEMENTS, setting), (POOLS, setting)) for setting in BLOCKS),
        *(minus((OEVQA, setting), (POOLS, setting)) for setting in BLOCKS),
    )


def _our_deltas(book: Results, model: str) -> tuple[TableValue | None, ...]:
    asked = [
        ("32-frames", ("vsv", "pool_gain_over_1_frame")),
        *((setting, ("vsv", "statement_minus_pool")) for setting in BLOCKS),
        *((setting, ("aggregate", "oevqa_minus_pool")) for setting in BLOCKS),
    ]
    found = [book.find("ours", model, setting, kind) for setting, kind in asked]
    return tuple(None if number is None else replace(number, n=None, n_failed=None) for number in found)


def _reading(book: Results) -> Table:
    """How answers were read, and what could not be."""
    rows = list(_blocks(book, list(_READING)))
    clashes = dict.fromkeys(
        number.note
        for (origin, _, _, (_, metric), _), number in book.numbers.items()
        if origin == "ours" and metric == "contradictory_pools" and number.note
    )
    return Table(
        id="maia_reading",
        title="MAIA: how answers were read",
        columns=tuple(_READING.values()),
        rows=tuple(rows),
        style="fraction3",
        notes=(
            "None: neither letter could be read, which is wrong. True at A or B: where the true statement stood.",
            *(f"Contradictory pools, kept: {note}." for note in clashes),
        ),
    )


def _pools(book: Results) -> Table:
    """How many of a question's eight pairs were right."""
    kinds = [("vsv", f"pool_right_{right}") for right in range(9)]
    return Table(
        id="maia_pools",
        title="MAIA: questions by the number of their eight pairs that were right",
        columns=tuple(str(right) for right in range(9)),
        rows=tuple(_blocks(book, kinds)),
    )


def _blocks(book: Results, kinds: list[Kind]) -> Iterator[TableRow]:
    """Our models under the headings of their settings, a column a kind."""
    for setting, heading in {**BLOCKS, "unimodal": "Unimodal"}.items():
        shown = False
        for model in book.models["ours"]:
            found = [book.find("ours", model, setting, kind) for kind in kinds]
            if all(number is None for number in found):
                continue
            if not shown:
                yield TableRow(label=heading, origin="heading")
                shown = True
            yield TableRow(label=model, cells=tuple(_plain(number) for number in found))


def _plain(number: TableValue | None) -> TableCell:
    """The value, with its note where it is missing."""
    if number is None or number.value is not None:
        return None if number is None else number.value
    return TableValue(value=None, note=number.note)


def _contingency(book: Results) -> Table:
    """Questions by what became of them in both tasks, for the whole and each category."""
    rows: list[TableRow] = []
    for model in book.models["ours"]:
        for setting, heading in BLOCKS.items():
            if book.find("ours", model, setting, AGG) is None:
                continue
            rows.append(TableRow(label=f"{model}, {heading}", origin="heading"))
            for category, name in zip(("", *COLUMNS), ("All", *HEADS), strict=True):
                found = [book.find("ours", model, setting, ("aggregate", kind), category) for kind in _CONTINGENCY]
                if any(number is not None for number in found):
                    rows.append(TableRow(label=name, cells=tuple(_plain(number) for number in found)))
    return Table(
        id="maia_contingency",
        title="MAIA: questions by whether the pool is right and the open answer accepted",
        label_head="Category",
        columns=tuple(_CONTINGENCY.values()),
        rows=tuple(rows),
    )
