"""Tables of MATE that the paper does not have: readings, coordinates, shots that give answers, pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pipelines.benchmarks.layout import EACH_SETTING, Column, Rows, Shown, TableDef, View
from pipelines.benchmarks.mate.results import PAPER_SETTING, accuracy
from pipelines.benchmarks.mate.scored_rows import COORDS_ONLY, HEADS
from pipelines.benchmarks.results import Key, Results, count_of, with_interval, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableCell, TableValue

_TASKS: Final = {"img2txt": "Img2Txt", "txt2img": "Txt2Img", "img2img": "Img2Img", "txt2txt": "Txt2Txt"}
_COORDS_SECTION: Final = "Section 6.2"


def extra_tables(results: Results, best: Results, notes: Sequence[str]) -> list[Table]:
    """Lay out the tables for which there is any number of ours; `best` has each model's in its best setting."""
    coords = replace(_COORDS, notes=(*_COORDS.notes, *notes))
    tables = (_READING.lay_out(results), coords.lay_out(best), _SHOTS.lay_out(results), _POINTERS.lay_out(best))
    return with_our_rows(tables)


def printed(number: TableValue | None) -> TableCell:
    """Show a published number; what the paper does not print is empty, whatever the reason."""
    return None if number is None or (number.value is None and not number.doubtful) else without_interval(number)


def _with_setting(view: View) -> str:
    return f"{view.key.model}, {view.key.setting}"


def _value(number: TableValue | None) -> TableCell:
    return number and number.value


def _share_without_like(view: View) -> TableCell:
    keys = (Key("alone_of_its_overlap", "crossmodal", category=f"overlap={name}") for name in ("2", "1", "0"))
    parts = [number for key in keys if (number := view.find(key))]
    n = sum(part.n or 0 for part in parts)
    return sum((part.value or 0.0) * (part.n or 0) for part in parts) / n if n else None


def _at_pointer(view: View, target: str) -> TableCell:
    return view.value(Key(category=f"{view.key.category} target={target}"))


_READING: Final = TableDef(
    id="mate_reading",
    title="MATE: parsing of answers",
    columns={
        "Strict": Shown(Key("exact_match"), _value),
        "Lenient": Shown(Key("exact_match_lenient"), _value),
        "JSON read": Shown(Key("format_ok"), _value),
        "Failures as wrong": Shown(Key("exact_match_failures_wrong"), _value),
        "Failed": Shown(Key("errors"), count_of),
        "No JSON": Shown(Key("no_json_count"), count_of),
        "Cut": Shown(Key("truncated_count"), count_of),
        "Answers": Shown(Key("exact_match"), lambda number: number and number.n),
    },
    rows=[Rows(head, [Key("", task, EACH_SETTING)], label=_with_setting) for task, head in _TASKS.items()],
    style="percent1",
    notes=(
        (
            "Strict is the benchmark's own parser and the headline. Lenient accepts other quotes, spacing, case, a"
            " missing brace and other last digits of a number; no other table uses it."
        ),
        "Failed requests are not in the denominator; the fourth column counts them as wrong.",
    ),
)
_COORDS_COLUMNS: Final[Mapping[str, Key]] = {
    "Right among all alike but for coordinates": Key("pct_correct_given_noncoord_match", category=COORDS_ONLY),
    "Differs in more than coordinates": Key("pct_noncoord_mismatch", category=COORDS_ONLY),
    "Nearer than its like": Key("pct_closer_than_average", category=COORDS_ONLY),
}
_COORDS_KEYS: Final = [Key("", "crossmodal", PAPER_SETTING)]
# What is answered where only coordinates link the object.
_COORDS: Final = TableDef(
    id="mate_coords_only",
    title="MATE section 6.2: answers where only coordinates link the object",
    columns={
        **_COORDS_COLUMNS,
        "Without a like": _share_without_like,
        "In scene, no object": Shown(Key("in_scene_without_object"), count_of),
    },
    rows=[
        Rows(
            keys=_COORDS_KEYS,
            sources=["published"],
            table=_COORDS_SECTION,
            label=lambda view: f"{view.key.model}, published",
            columns=[*_COORDS_COLUMNS.values(), None, None],
            show=printed,
        ),
        Rows(keys=_COORDS_KEYS),
    ],
    show=with_interval,
    style="percent1",
    notes=(
        (
            "Nearer than its like: wrong answers that share at most two attributes with the target object and are"
            " no farther from it than the mean of all objects that share as many. Ties count, and so do objects"
            " without such a comparison; the next column has their share."
        ),
        (
            "In scene, no object: wrong answers that some object has as text and none as a typed value, such as a"
            " number in quotes; OSE counts them as in the scene, Figure 5 as no object."
        ),
    ),
)
# Accuracy with and without a solved example on the very object of the question.
_SHOTS: Final = TableDef(
    id="mate_shots",
    title="MATE: accuracy where a solved example is about the target object",
    columns={
        "It is": Key(category="shot_shows_target=true"),
        "It is not": Key(category="shot_shows_target=false"),
    },
    rows=[
        Rows(_TASKS[task], [accuracy(task, setting=EACH_SETTING)], label=_with_setting)
        for task in ("txt2img", "txt2txt")
    ],
    show=with_interval,
    style="percent1",
    notes=("Such examples show the target attribute itself; they occur where the pointer is in the text.",),
)
_BY_TARGET: Final[Mapping[str, Column]] = {head: partial(_at_pointer, target=head) for head in HEADS.values()}
_POINTERS: Final = TableDef(
    id="mate_pointers",
    title="MATE: accuracy by pointer (rows) and target attribute (columns)",
    label_head="Pointer",
    columns={**_BY_TARGET, "All": Shown(Key(), with_interval)},
    rows=[
        Rows(
            keys=[accuracy(task, setting=PAPER_SETTING) for task in _TASKS],
            label=lambda view: f"{view.key.model}, {_TASKS[view.key.task]}",
            parts={pointer: Key(category=f"pointer={pointer}") for pointer in HEADS.values()},
            by_model=True,
        )
    ],
    style="percent1",
    heat=(0.0, 1.0),
)
