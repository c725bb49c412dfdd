"""MAIA's tables in the paper's layout, ours next to the published ones: Tables 1 to 5 (arXiv 2502.16989)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pipelines.benchmarks.layout import BOTH, Column, Rows, Shown, TableDef, View, if_ours
from pipelines.benchmarks.maia.extra_tables import extra_tables
from pipelines.benchmarks.maia.results import (
    AGG,
    ALL_HEADS,
    CATEGORIES,
    OEVQA,
    POOLS,
    STATEMENTS,
    subset_notes,
)
from pipelines.benchmarks.results import Key, Results, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

TITLES: Final[Mapping[Key, str]] = {
    STATEMENTS: "statement accuracy",
    POOLS: "pool accuracy",
    OEVQA: "accuracy of open answers",
    AGG: "aggregate accuracy, pool right and answer accepted",
}
_SIMILARITY: Final = {"ROUGE": "rouge", "BERTScore": "bertscore", "BLEU": "bleu", "METEOR": "meteor", "CIDEr": "cider"}
_AUTHORS_SIMILARITY: Final = [
    Key(metric, "oevqa") for metric in ("rouge1", "bertscore", "bleu_shortest", "meteor_wordnet", "cider_ptb")
]
_AVERAGE = "Avg. is the mean over questions; in brackets its 95% interval over videos."
_HUMAN = "Human accuracy: not published."


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1 to 5 of the paper, then those that the paper does not have."""
    results = results.without_people()
    tables = (_category_table(1, POOLS), _category_table(2, OEVQA), _category_table(3, AGG), _TABLE_4)
    return [table.lay_out(results) for table in (*tables, _category_table(5, STATEMENTS))] + extra_tables(results)


def _measured(number: TableValue | None) -> TableCell:
    return None if number is None or number.value is None else without_interval(number)


def _average(number: TableValue | None) -> TableCell:
    if number is None or number.low is None:
        return _measured(number)
    return TableValue(value=number.value, low=number.low, high=number.high)


def _reasons(view: View) -> str:
    """Return why numbers of a row are missing: a note on the row, for most have one reason."""
    numbers = map(view.find, CATEGORIES.values())
    return "; ".join(filter(None, dict.fromkeys(n.note for n in numbers if n is not None and n.value is None)))


def _category_table(number: int, key: Key) -> TableDef:
    columns: dict[str, Column] = dict(CATEGORIES)
    columns["Avg."] = Shown(CATEGORIES["Avg."], _average)
    settings = {"": "unimodal", **{heading: setting for setting, heading in ALL_HEADS.items()}}
    return TableDef(
        id=f"maia_table{number}",
        title=f"MAIA Table {number}: {TITLES[key]}",
        columns=columns,
        rows=[Rows(heading, [key.of("", name)], sources=BOTH, note=_reasons) for heading, name in settings.items()],
        show=_measured,
        better="higher",
        best_of="block",
        notes=(if_ours(_AVERAGE), _HUMAN),
        coverage=subset_notes,
    )


def _published_notes(results: Results, _rows: Sequence[TableRow]) -> Iterable[str]:
    numbers = (number for key, number in results.published.items() if key.metric in _SIMILARITY.values())
    return (f"Published: {note}." for note in dict.fromkeys(number.note for number in numbers) if note)


# The paper does not name its input; ours are of 32 frames.
_TABLE_4: Final = TableDef(
    id="maia_table4",
    title="MAIA Table 4: open answers at 32 frames compared with human answers",
    columns={head: Key(metric, "oevqa") for head, metric in _SIMILARITY.items()},
    rows=[
        Rows(sources=["published"], table="Table 4"),
        Rows("As the authors' scripts compute them", [Key(setting="32-frames")], columns=_AUTHORS_SIMILARITY),
        Rows("Variants of our own", [Key(setting="32-frames")]),
    ],
    better="higher",
    notes=(
        _published_notes,
        "The scripts: ROUGE-1, corpus BLEU with the shortest reference's length, English METEOR with WordNet, CIDEr-D.",
        "Our own: ROUGE-L, BLEU with the closest length, METEOR with Italian stems, CIDEr-D on words.",
        "CIDEr-D depends on the set of questions.",
    ),
    coverage=subset_notes,
)
