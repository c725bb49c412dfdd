"""MAIA's tables in the paper's layout, ours next to the published ones: Tables 1 to 5 (arXiv 2502.16989)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.extra_tables import extra_tables
from pipelines.benchmarks.maia.results import (
    AGG,
    CATEGORY_HEADS,
    OEVQA,
    POOLS,
    SETTING_HEADS,
    STATEMENTS,
    MaiaResults,
)
from pipelines.benchmarks.results import Key, Results, Source, section, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

TITLES: Final[Mapping[Key, str]] = {
    STATEMENTS: "statement accuracy",
    POOLS: "pool accuracy",
    OEVQA: "accuracy of open answers",
    AGG: "aggregate accuracy, pool right and answer accepted",
}
_SIMILARITY: Final[Mapping[str, Key]] = {
    "ROUGE": Key("rouge", "oevqa"),
    "BERTScore": Key("bertscore", "oevqa"),
    "BLEU": Key("bleu", "oevqa"),
    "METEOR": Key("meteor", "oevqa"),
    "CIDEr": Key("cider", "oevqa"),
}
_AVERAGE = "Avg. is the mean over questions; in brackets its 95% interval, from resampling videos."
_HUMAN = "Human accuracy: not published."


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1 to 5 of the paper, then those that the paper does not have."""
    maia = MaiaResults(results)
    return [
        _category_table(maia, 1, POOLS),
        _category_table(maia, 2, OEVQA),
        _category_table(maia, 3, AGG),
        _similarity_table(maia),
        _category_table(maia, 5, STATEMENTS),
        *extra_tables(maia),
    ]


def _category_table(maia: MaiaResults, number: int, key: Key) -> Table:
    rows = [_row(maia, source, key.of(model, "unimodal")) for source, model in _models(maia, key, "unimodal")]
    for setting, heading in SETTING_HEADS.items():
        models = _models(maia, key, setting)
        rows += section(heading, (_row(maia, source, key.of(model, setting)) for source, model in models))
    has_ours = maia.models_of(key, ["unimodal", *SETTING_HEADS])
    return Table(
        id=f"maia_table{number}",
        title=f"MAIA Table {number}: {TITLES[key]}",
        columns=("Avg.", *CATEGORY_HEADS),
        rows=tuple(rows),
        better=_better(maia, 1 + len(CATEGORY_HEADS)),
        best_of="block",
        notes=(*([_AVERAGE] if has_ours else []), _HUMAN, *maia.subset_notes()),
    )


def _better(maia: MaiaResults, columns: int) -> tuple[Literal["higher"], ...]:
    return () if maia.subset_notes() else tuple("higher" for _ in range(columns))


def _models(maia: MaiaResults, key: Key, setting: str) -> Iterator[tuple[Source, str]]:
    sources: tuple[Source, ...] = ("published", "ours")
    for source in sources:
        for model in maia.models_of(key, [setting], source):
            yield source, model


def _row(maia: MaiaResults, source: Source, key: Key) -> TableRow:
    numbers = [maia.find(key._replace(category=category), source) for category in ("", *COLUMNS)]
    reasons = dict.fromkeys(number.note for number in numbers if number is not None and number.value is None)
    cells: list[TableCell] = [
        None if number is None or number.value is None else without_interval(number) for number in numbers
    ]
    if (whole := numbers[0]) is not None and whole.low is not None:
        cells[0] = TableValue(value=whole.value, low=whole.low, high=whole.high)
    return TableRow(label=key.model, cells=tuple(cells), origin=source, note="; ".join(filter(None, reasons)))


def _similarity_table(maia: MaiaResults) -> Table:
    """Lay out Table 4. The paper does not name its input; ours are of 32 frames."""
    rows, notes = list[TableRow](), dict[str, None]()
    inputs: tuple[tuple[Source, str], ...] = (("published", ""), ("ours", "32-frames"))
    for source, setting in inputs:
        for model in maia.models_of(_SIMILARITY["ROUGE"], [setting], source):
            numbers = [maia.find(key.of(model, setting), source) for key in _SIMILARITY.values()]
            if source == "published":
                notes |= dict.fromkeys(number.note for number in numbers if number is not None)
            rows.append(TableRow(label=model, cells=tuple(map(without_interval, numbers)), origin=source))
    return Table(
        id="maia_table4",
        title="MAIA Table 4: open answers at 32 frames compared with human answers",
        columns=tuple(_SIMILARITY),
        rows=tuple(rows),
        better=_better(maia, len(_SIMILARITY)),
        notes=(
            *(f"Published: {note}." for note in notes if note),
            "The paper names these metrics but not their variants; CIDEr-D depends on the set of questions.",
            *maia.subset_notes(),
        ),
    )
