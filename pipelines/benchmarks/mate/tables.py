"""MATE's tables in the paper's layout, ours beside the published ones: Tables 1 to 5, 8 and 9 (arXiv 2503.03854)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pipelines.benchmarks.mate.extra_tables import own_tables
from pipelines.benchmarks.mate.results import CLOSED, Results, What, with_interval
from pipelines.benchmarks.mate.rows import COT
from pipelines.benchmarks.mate.scored_rows import LINK_TYPES
from pipelines.benchmarks.tables import Table, TableCell, TableRow, TableValue

if TYPE_CHECKING:
    import pandas as pd

_INTERVALS: Final = "Percent. In brackets the 95% bootstrap interval over scenes; n is the number of answers."
_RANDOM: Final = "Random, this data: the closed form of a guess on our rows; a published one was drawn ten times."
_MOLMO: Final = "Molmo is 7B-D by the paper's own numbers, whatever its footnote says."
_TABLE_5: Final = (
    "The paper does not name the model. It prints Color+Size twice: by the order of its rows the first is taken for"
    " Material+Size. Its 3dc contradicts the 52.0 of its Figure 5."
)
_LINK_HEADS: Final = ("Shape", "Material", "Color", "Size")
_PRINTED_LINKS: Final[Mapping[str, str]] = {"Material+Size": "Color+Size", "Color+Size": "Color+Size (2nd row)"}
"""Our linking type -> the row as printed: by the order of columns, the first of two alike is Material+Size."""

Columns = Mapping[str, What]


def _em(task: str, category: str = "") -> What:
    return task, category, "exact_match"


_TABLE_1: Final[Columns] = {"Img2Txt": _em("img2txt"), "Txt2Img": _em("txt2img"), "Avg.": _em("crossmodal")}
_TABLE_3: Final[Columns] = {"Img2Img": _em("img2img"), "Txt2Txt": _em("txt2txt"), "Avg.": _em("unimodal")}
_TABLE_2: Final[Columns] = {
    "Shape": _em("txt2img", "Shape"),
    "Color": _em("txt2img", "Color"),
    "Name": _em("img2txt", "Name"),
    "Coords": _em("img2txt", "Coords"),
    "Rotation": _em("img2txt", "Rotation"),
    "Size": _em("img2txt", "Size"),
    "OSE": ("crossmodal", "", "ose"),
}


def mate_tables(metrics: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
    """Tables 1 to 5, 8 and 9, then ours.

    Args:
        metrics: rows of `metrics.json`, with `note` where there are notes.
        published: rows of the published CSV.
    """
    book = Results.of(metrics, published)
    return [
        _plain(book, 1, "from image to text and back, 2-shot", _TABLE_1, of_paper=(_MOLMO,)),
        _plain(
            book,
            2,
            "by target attribute, and errors out of scene, 2-shot",
            _TABLE_2,
            groups=(("Txt2Img", 2), ("Img2Txt", 4), ("Errors", 1)),
            notes=(
                "OSE: share of errors that name nothing in the scene, those without JSON among them; lower is better.",
            ),
            of_paper=("The published human OSE is a constant, not a measurement.", _MOLMO),
        ),
        _plain(book, 3, "both in one modality, 2-shot", _TABLE_3, of_paper=(_MOLMO,)),
        _cot(book),
        _links(book),
        _plain(
            book,
            8,
            "all models, 2-shot",
            {**{f"U {k}": v for k, v in _TABLE_3.items()}, **{f"C {k}": v for k, v in _TABLE_1.items()}},
            heads=(*_TABLE_3, *_TABLE_1),
            groups=(("Unimodal", 3), ("Crossmodal", 3)),
            of_paper=("Gemini's published unimodal average is a slip for 97.95.",),
        ),
        _shots(book),
        *own_tables(book),
    ]


def _plain(  # noqa: PLR0913 - a table's parts
    book: Results,
    number: int,
    words: str,
    columns: Columns,
    *,
    heads: Sequence[str] = (),
    groups: tuple[tuple[str, int], ...] = (),
    notes: tuple[str, ...] = (),
    of_paper: tuple[str, ...] = (),
) -> Table:
    """A table whose cells are one number each of one setting."""
    whats = list(columns.values())
    rows = [*_people_and_chance(book, number, whats)]
    for origin, block in _blocks(book, number).items():
        own = [
            TableRow(
                label=model,
                cells=tuple(_printed(book, f"Table {number}", model, what) for what in whats),
                origin="published",
            )
            for model in block
        ]
        rows += [TableRow(label=origin, origin="heading"), *own] if own else []
    ours = [
        TableRow(label=book.label(model), cells=tuple(with_interval(book.find(model, what)) for what in whats))
        for model in book.models
    ]
    ours = [row for row in ours if any(cell is not None for cell in row.cells)]
    rows += [TableRow(label="This sweep", origin="heading"), *ours] if ours else []
    return Table(
        id=f"mate_table{number}",
        title=f"MATE Table {number}: accuracy, {words}",
        columns=tuple(heads or columns),
        rows=tuple(rows),
        style="percent1",
        groups=groups,
        better=tuple("lower" if what[2] == "ose" else "higher" for what in whats),
        notes=(
            *([_INTERVALS, _RANDOM] if ours else []),
            *notes,
            *(of_paper if book.printed else ()),
            *book.notes(),
        ),
    )


def _people_and_chance(book: Results, number: int, whats: Sequence[What]) -> Iterator[TableRow]:
    for who in ("Human", "Random"):
        found = tuple(_printed(book, f"Table {number}", who, what, "") for what in whats)
        if any(cell is not None for cell in found):
            yield TableRow(label=f"{who}, published", cells=found, origin="reference")
    chance = tuple(book.chance(what) for what in whats)
    if any(value is not None for value in chance):
        yield TableRow(label="Random, this data", cells=chance, origin="reference")


def _blocks(book: Results, number: int) -> dict[str, list[str]]:
    models = book.printed_models(f"Table {number}")
    return {
        "Open": [model for model in models if model not in CLOSED],
        "Closed": [model for model in models if model in CLOSED],
    }


def _printed(book: Results, table: str, model: str, what: What, setting: str = "2-shot") -> TableCell:
    number = book.printed.get((table, model, setting, what))
    return number if number is not None and number.doubtful else number and number.value


def _cot(book: Results) -> Table:
    """Table 4: the mean over object counts, and ten objects, with the change against 2-shot."""
    whole, ten = _em("crossmodal"), _em("crossmodal", "10 objects")
    rows = [*_people_and_chance(book, 4, (whole, ten))]
    for origin, block in _blocks(book, 4).items():
        own = [
            TableRow(
                label=model,
                cells=tuple(_printed_change(book, model, what) for what in (whole, ten)),
                origin="published",
            )
            for model in block
        ]
        rows += [TableRow(label=origin, origin="heading"), *own] if own else []
    ours = [TableRow(label=model, cells=_cot_cells(book, model)) for model in book.models]
    ours = [row for row in ours if any(cell is not None for cell in row.cells)]
    rows += [TableRow(label="This sweep", origin="heading"), *ours] if ours else []
    return Table(
        id="mate_table4",
        title="MATE Table 4: accuracy with steps shown and asked for (2-shot-cot), and its change against 2-shot",
        columns=("All", "10 Obj."),
        rows=tuple(rows),
        style="percent1",
        better=("higher", "higher"),
        notes=(
            "In round brackets the change against 2-shot; people and chance have none.",
            "All: the unweighted mean over object counts; Table 1 has the mean over tasks, up to 0.1 apart.",
            *([_MOLMO] if book.printed else []),
            *book.notes(),
        ),
    )


def _printed_change(book: Results, model: str, what: What) -> TableCell:
    value = book.printed.get(("Table 4", model, COT, what))
    change = book.printed.get(("Table 4", model, COT, (what[0], what[1], "cot_delta")))
    return value and replace(value, delta=change.value if change else None)


def _cot_cells(book: Results, model: str) -> tuple[TableCell, TableCell]:
    parts = [book.find(model, _em("crossmodal", f"{count} objects"), COT) for count in book.counts("crossmodal", COT)]
    known = [part.value for part in parts if part is not None and part.value is not None]
    mean = math.fsum(known) / len(known) if known and len(known) == len(parts) else None
    ten = book.find(model, _em("crossmodal", "10 objects"), COT)
    cells: list[TableCell] = []
    n = sum(part.n or 0 for part in parts if part is not None)
    for number, category in ((TableValue(value=mean, n=n) if known else None, ""), (ten, "10 objects")):
        change = book.find(model, ("crossmodal", category, "cot_delta"), COT)
        cells.append(number and replace(number, delta=change.value if change else None, n_failed=None))
    return cells[0], cells[1]


def _links(book: Results) -> Table:
    """Table 5: a row a linking type, the published model and ours in columns."""
    printed = {what[1]: number for (table, _, _, what), number in book.printed.items() if table == "Table 5"}
    published = ["Qwen2.5-VL, published"] if printed else []
    rows: list[TableRow] = []
    for link in LINK_TYPES:
        names = [] if link == LINK_TYPES[0] else link.split("+")
        marks: tuple[TableCell, ...] = tuple(head in names for head in _LINK_HEADS)
        as_printed = printed.get(_PRINTED_LINKS.get(link, link))
        theirs = [as_printed and (as_printed if as_printed.doubtful else as_printed.value)] if printed else []
        ours = (with_interval(book.find(model, _em("crossmodal", link))) for model in book.models)
        rows.append(TableRow(label=str(len(names)) if names else "3dc", cells=(*marks, *theirs, *ours)))
    labels = (*published, *(book.label(model) for model in book.models))
    return Table(
        id="mate_table5",
        title="MATE Table 5: accuracy by the attributes that link the object, 2-shot, cross-modal",
        label_head="N attr.",
        columns=(*_LINK_HEADS, *labels),
        rows=tuple(rows),
        style="percent1",
        groups=(("Linking attributes", 4), ("Acc.", len(labels))) if labels else (),
        notes=(
            "Only questions with exactly one smallest combination of attributes; 3dc: none, only 3D coordinates link.",
            *([_TABLE_5] if printed else []),
            *book.notes(),
        ),
    )


def _shots(book: Results) -> Table:
    """Table 9: by number of solved examples."""
    cells = [(task, f"{shots}-shot") for task in ("img2txt", "txt2img") for shots in (0, 1, 2)]
    rows = []
    for origin, block in _blocks(book, 9).items():
        own = [
            TableRow(
                label=model,
                cells=tuple(_printed(book, "Table 9", model, _em(task), setting) for task, setting in cells),
                origin="published",
            )
            for model in block
        ]
        rows += [TableRow(label=origin, origin="heading"), *own] if own else []
    chance = tuple(book.chance(_em(task), setting) for task, setting in cells)
    if any(value is not None for value in chance):
        rows.append(TableRow(label="Random, this data", cells=chance, origin="reference"))
    ours = [
        TableRow(
            label=model,
            cells=tuple(with_interval(book.find(model, _em(task), setting)) for task, setting in cells),
        )
        for model in book.models
    ]
    ours = [row for row in ours if any(cell is not None for cell in row.cells)]
    rows += [TableRow(label="This sweep", origin="heading"), *ours] if ours else []
    return Table(
        id="mate_table9",
        title="MATE Table 9: accuracy by number of solved examples",
        columns=("0", "1", "2", "0", "1", "2"),
        rows=tuple(rows),
        style="percent1",
        groups=(("Image2Text", 3), ("Text2Image", 3)),
        better=tuple("higher" for _ in cells),
        notes=(
            "The questions themselves differ between 0, 1 and 2 examples: each file points anew.",
            *([_INTERVALS] if ours else []),
            *book.notes(),
        ),
    )
