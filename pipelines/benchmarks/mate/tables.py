"""MATE's tables in the paper's layout, ours with the published ones: Tables 1 to 5, 8 and 9 (arXiv 2503.03854)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipelines.benchmarks.mate.extra_tables import extra_tables
from pipelines.benchmarks.mate.results import CLOSED_MODELS, MateResults, accuracy
from pipelines.benchmarks.mate.rows import COT
from pipelines.benchmarks.mate.scored_rows import LINK_TYPES
from pipelines.benchmarks.results import Key, Results, filled, mean_of, section, with_interval, without_interval
from pipelines.benchmarks.tables import Origin, Table, TableCell, TableRow, TableValue

_INTERVALS: Final = "Percent. In brackets the 95% bootstrap interval over scenes; n is the number of answers."
_RANDOM: Final = "Random, this data: the closed form of a guess on our rows; a published one was drawn ten times."
_MOLMO: Final = "Molmo is 7B-D by the paper's own numbers, whatever its footnote says."
_TABLE_5: Final = (
    "The paper does not name the model. It prints Color+Size twice: by the order of its rows the first is taken for"
    " Material+Size. Its 3dc contradicts the 52.0 of its Figure 5."
)
_LINK_HEADS: Final = ("Shape", "Material", "Color", "Size")
# By the order of columns, the first of the two rows printed alike is Material+Size.
_PRINTED_LINKS: Final[Mapping[str, str]] = {"Material+Size": "Color+Size", "Color+Size": "Color+Size (2nd row)"}

Columns = Mapping[str, Key]

_TABLE_1: Final[Columns] = {
    "Img2Txt": accuracy("img2txt"),
    "Txt2Img": accuracy("txt2img"),
    "Avg.": accuracy("crossmodal"),
}
_TABLE_3: Final[Columns] = {
    "Img2Img": accuracy("img2img"),
    "Txt2Txt": accuracy("txt2txt"),
    "Avg.": accuracy("unimodal"),
}
_TABLE_2: Final[Columns] = {
    "Shape": accuracy("txt2img", "Shape"),
    "Color": accuracy("txt2img", "Color"),
    "Name": accuracy("img2txt", "Name"),
    "Coords": accuracy("img2txt", "Coords"),
    "Rotation": accuracy("img2txt", "Rotation"),
    "Size": accuracy("img2txt", "Size"),
    "OSE": Key("ose", "crossmodal"),
}


def make_tables(results: Results) -> list[Table]:
    """Lay out Tables 1 to 5, 8 and 9 of the paper, then those that the paper does not have."""
    mate = MateResults.of(results)
    return [
        _two_shot_table(mate, 1, "from image to text and back, 2-shot", _TABLE_1, paper_notes=(_MOLMO,)),
        _two_shot_table(
            mate,
            2,
            "by target attribute, and errors out of scene, 2-shot",
            _TABLE_2,
            groups=(("Txt2Img", 2), ("Img2Txt", 4), ("Errors", 1)),
            notes=(
                "OSE: share of errors that name nothing in the scene, including those without JSON; lower is better.",
            ),
            paper_notes=("The published human OSE is a constant, not a measurement.", _MOLMO),
        ),
        _two_shot_table(mate, 3, "both in one modality, 2-shot", _TABLE_3, paper_notes=(_MOLMO,)),
        _cot_table(mate),
        _link_table(mate),
        _two_shot_table(
            mate,
            8,
            "all models, 2-shot",
            {**{f"U {name}": key for name, key in _TABLE_3.items()}, **{f"C {n}": key for n, key in _TABLE_1.items()}},
            heads=(*_TABLE_3, *_TABLE_1),
            groups=(("Unimodal", 3), ("Crossmodal", 3)),
            paper_notes=("Gemini's published unimodal average is a slip for 97.95.",),
        ),
        _shots_table(mate),
        *extra_tables(mate),
    ]


def _two_shot_table(  # noqa: PLR0913 - a table's parts
    mate: MateResults,
    number: int,
    subject: str,
    columns: Columns,
    *,
    heads: Sequence[str] = (),
    groups: tuple[tuple[str, int], ...] = (),
    notes: tuple[str, ...] = (),
    paper_notes: tuple[str, ...] = (),
) -> Table:
    keys = list(columns.values())
    ours = _our_rows(mate, lambda model: tuple(with_interval(mate.find(model, key)) for key in keys), mate.label)
    return Table(
        id=f"mate_table{number}",
        title=f"MATE Table {number}: accuracy, {subject}",
        columns=tuple(heads or columns),
        rows=(
            *_people_and_chance(mate, number, keys),
            *_published_rows(mate, number, lambda model: tuple(_printed(mate, number, model, key) for key in keys)),
            *ours,
        ),
        style="percent1",
        groups=groups,
        better=tuple("lower" if key.metric == "ose" else "higher" for key in keys),
        notes=(
            *([_INTERVALS, _RANDOM] if ours else []),
            *notes,
            *(paper_notes if mate.has_published else ()),
            *mate.notes(),
        ),
    )


def _our_rows(
    mate: MateResults, cells: Callable[[str], tuple[TableCell, ...]], label: Callable[[str], str]
) -> list[TableRow]:
    return section("This sweep", filled(TableRow(label=label(model), cells=cells(model)) for model in mate.models))


def _published_rows(
    mate: MateResults, number: int, cells: Callable[[str], tuple[TableCell, ...]]
) -> Iterator[TableRow]:
    models = mate.published_models(f"Table {number}")
    for heading, is_closed in (("Open", False), ("Closed", True)):
        yield from section(
            heading,
            [
                TableRow(label=model, cells=cells(model), origin="published")
                for model in models
                if (model in CLOSED_MODELS) is is_closed
            ],
        )


def _people_and_chance(mate: MateResults, number: int, keys: Sequence[Key]) -> list[TableRow]:
    rows = [
        TableRow(
            label=f"{name}, published",
            cells=tuple(_printed(mate, number, name, key, "") for key in keys),
            origin="human" if name == "Human" else "published",
            baseline=True,
        )
        for name in ("Human", "Random")
    ]
    chance = tuple(mate.chance(key) for key in keys)
    return filled([*rows, TableRow(label="Random, this data", cells=chance, baseline=True)])


def _printed(mate: MateResults, number: int, model: str, key: Key, setting: str = "2-shot") -> TableCell:
    return without_interval(mate.printed(f"Table {number}", model, key, setting))


def _cot_table(mate: MateResults) -> Table:
    """Lay out Table 4: the mean over object counts, and ten objects, with the change against 2-shot."""
    keys = (accuracy("crossmodal"), accuracy("crossmodal", "10 objects"))
    return Table(
        id="mate_table4",
        title="MATE Table 4: accuracy with reasoning steps (2-shot-cot), and its change against 2-shot",
        columns=("All", "10 Obj."),
        rows=(
            *_people_and_chance(mate, 4, keys),
            *_published_rows(mate, 4, lambda model: tuple(_printed_change(mate, model, key) for key in keys)),
            *_our_rows(mate, lambda model: _cot_cells(mate, model), str),
        ),
        style="percent1",
        better=("higher", "higher"),
        notes=(
            "In round brackets the change against 2-shot; people and chance have none.",
            "All: the unweighted mean over object counts; Table 1 has the mean over tasks, up to 0.1 apart.",
            *([_MOLMO] if mate.has_published else []),
            *mate.notes(),
        ),
    )


def _printed_change(mate: MateResults, model: str, key: Key) -> TableCell:
    number = mate.printed("Table 4", model, key, COT)
    change = mate.printed("Table 4", model, key._replace(metric="cot_delta"), COT)
    return without_interval(number, change and replace(change, doubtful=False))


def _cot_cells(mate: MateResults, model: str) -> tuple[TableCell, TableCell]:
    counts = mate.object_counts("crossmodal", COT)
    parts = [mate.find(model, accuracy("crossmodal", f"{count} objects"), COT) for count in counts]
    n = sum(part.n or 0 for part in parts if part is not None)
    measured = any(part is not None and part.value is not None for part in parts)
    mean = TableValue(value=mean_of(parts), n=n) if measured else None
    ten = mate.find(model, accuracy("crossmodal", "10 objects"), COT)
    cells: list[TableCell] = []
    for number, category in ((mean, ""), (ten, "10 objects")):
        change = mate.find(model, Key("cot_delta", "crossmodal", category=category), COT)
        cells.append(number and replace(number, delta=change.value if change else None, n_failed=None))
    return cells[0], cells[1]


def _link_table(mate: MateResults) -> Table:
    """Lay out Table 5: one row per linking type, the published model and ours in columns."""
    printed = {key.category: number for key, number in mate.results.index("published", "Table 5").items()}
    rows: list[TableRow] = []
    for link in LINK_TYPES:
        names = [] if link == LINK_TYPES[0] else link.split("+")
        marks: tuple[TableCell, ...] = tuple(head in names for head in _LINK_HEADS)
        published = [without_interval(printed.get(_PRINTED_LINKS.get(link, link)))] if printed else []
        ours = (with_interval(mate.find(model, accuracy("crossmodal", link))) for model in mate.models)
        origin: Origin = "ours" if mate.models else "published"
        rows.append(TableRow(label=str(len(names) or "3dc"), cells=(*marks, *published, *ours), origin=origin))
    labels = (*(["Qwen2.5-VL, published"] if printed else []), *map(mate.label, mate.models))
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
            *mate.notes(),
        ),
    )


def _shots_table(mate: MateResults) -> Table:
    columns = [(accuracy(task), f"{shots}-shot") for task in ("img2txt", "txt2img") for shots in (0, 1, 2)]
    chance = tuple(mate.chance(key, setting) for key, setting in columns)
    ours = _our_rows(
        mate,
        lambda model: tuple(with_interval(mate.find(model, key, setting)) for key, setting in columns),
        mate.label,
    )
    return Table(
        id="mate_table9",
        title="MATE Table 9: accuracy by number of solved examples",
        columns=("0", "1", "2", "0", "1", "2"),
        rows=(
            *_published_rows(
                mate, 9, lambda model: tuple(_printed(mate, 9, model, key, setting) for key, setting in columns)
            ),
            *filled([TableRow(label="Random, this data", cells=chance, baseline=True)]),
            *ours,
        ),
        style="percent1",
        groups=(("Image2Text", 3), ("Text2Image", 3)),
        better=tuple("higher" for _ in columns),
        notes=(
            "The questions differ between 0, 1 and 2 examples: each file draws its own pointers.",
            *([_INTERVALS] if ours else []),
            *mate.notes(),
        ),
    )
