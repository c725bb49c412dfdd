"""MAIA's tables and figures in the paper's layout, ours beside the published ones.

Tables 1 to 5 and the radar figures 3, 6, 7 and 8 of Testa et al., Findings of EMNLP 2025, arXiv 2502.16989. Tables that
the paper does not have are in `maia_own_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pipelines.benchmarks.maia.categories import COLUMNS
from pipelines.benchmarks.maia.extra_tables import own_tables
from pipelines.benchmarks.maia.results import AGG, BLOCKS, HEADS, OEVQA, POOLS, STATEMENTS, Kind, Origin, Results
from pipelines.benchmarks.results import Results as ReportResults
from pipelines.benchmarks.results import to_frames
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

_WORDS: Final[Mapping[Kind, str]] = {
    STATEMENTS: "statement accuracy",
    POOLS: "pool accuracy",
    OEVQA: "accuracy of open answers",
    AGG: "aggregate accuracy, pool right and answer accepted",
}
_PAPER: Final[Mapping[int, Kind]] = {1: POOLS, 2: OEVQA, 3: AGG, 5: STATEMENTS}
_SIMILARITY: Final[Mapping[str, Kind]] = {
    "ROUGE": ("oevqa", "rouge"),
    "BERTScore": ("oevqa", "bertscore"),
    "BLEU": ("oevqa", "bleu"),
    "METEOR": ("oevqa", "meteor"),
    "CIDEr": ("oevqa", "cider"),
}
_AVERAGE = "Avg. is the mean over questions; in brackets its 95% interval, from resampling videos."
_HUMAN = "Human accuracy: not published."


def make_tables(results: ReportResults) -> list[Table]:
    """Tables 1 to 5, then ours."""
    book = Results.of(*to_frames(results))
    paper = {number: _by_category(book, number, kind) for number, kind in _PAPER.items()}
    paper[4] = _similarity(book)
    return [*(paper[number] for number in sorted(paper)), *own_tables(book)]


def _by_category(book: Results, number: int, kind: Kind) -> Table:
    """One of the tables with the twelve columns."""
    rows: list[TableRow] = []
    for setting, heading in {"unimodal": "", **BLOCKS}.items():
        block = [_row(book, origin, model, setting, kind) for origin, model in _who(book, kind, setting)]
        rows += [TableRow(label=heading, origin="heading"), *block] if heading and block else block
    ours = book.with_rows("ours", kind, ["unimodal", *BLOCKS])
    return Table(
        id=f"maia_table{number}",
        title=f"MAIA Table {number}: {_WORDS[kind]}",
        columns=("Avg.", *HEADS),
        rows=tuple(rows),
        better=_better(book, 1 + len(HEADS)),
        best_of="block",
        notes=(*([_AVERAGE] if ours else []), _HUMAN, *book.subset_notes()),
    )


def _better(book: Results, columns: int) -> tuple[Literal["higher"], ...]:
    """Which end is best; nothing is marked as the best where ours cannot be compared with the published."""
    return () if book.subset_notes() else tuple("higher" for _ in range(columns))


def _who(book: Results, kind: Kind, setting: str) -> Iterator[tuple[Origin, str]]:
    """The rows of a block: published models first, then ours."""
    origins: tuple[Origin, ...] = ("published", "ours")
    for origin in origins:
        for model in book.with_rows(origin, kind, [setting]):
            yield origin, model


def _row(book: Results, origin: Origin, model: str, setting: str, kind: Kind) -> TableRow:
    found = [book.find(origin, model, setting, kind, category) for category in ("", *COLUMNS)]
    reasons = dict.fromkeys(number.note for number in found if number is not None and number.value is None)
    cells: list[TableCell] = [_bare(number) for number in found]
    if (whole := found[0]) is not None and whole.low is not None:
        cells[0] = TableValue(value=whole.value, low=whole.low, high=whole.high)
    return TableRow(label=model, cells=tuple(cells), origin=origin, note="; ".join(filter(None, reasons)))


def _bare(number: TableValue | None) -> TableCell:
    """The number alone, with its note where it cannot be right."""
    if number is None or not number.doubtful:
        return None if number is None else number.value
    return TableValue(value=number.value, note=number.note, doubtful=True)


def _similarity(book: Results) -> Table:
    """Table 4. The paper does not say for which input; ours are of 32 frames."""
    rows, notes = list[TableRow](), dict[str, None]()
    places: tuple[tuple[Origin, str], ...] = (("published", ""), ("ours", "32-frames"))
    for origin, setting in places:
        for model in book.with_rows(origin, _SIMILARITY["ROUGE"], [setting]):
            found = [book.find(origin, model, setting, kind) for kind in _SIMILARITY.values()]
            notes |= dict.fromkeys(number.note for number in found if number is not None and origin == "published")
            cells = tuple(
                _bare(number)
                if number is None or number.value is not None
                else TableValue(value=None, note=number.note)
                for number in found
            )
            rows.append(TableRow(label=model, cells=cells, origin=origin))
    return Table(
        id="maia_table4",
        title="MAIA Table 4: open answers at 32 frames against the human ones",
        columns=tuple(_SIMILARITY),
        rows=tuple(rows),
        better=_better(book, len(_SIMILARITY)),
        notes=(
            *(f"Published: {note}." for note in notes if note),
            "The paper names these metrics and not their variants; CIDEr-D depends on which questions were asked.",
            *book.subset_notes(),
        ),
    )
