"""Tables of MATE that the paper does not have: readings, coordinates, shots that give answers, pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipelines.benchmarks.mate.results import MateResults, accuracy
from pipelines.benchmarks.mate.scored_rows import COORDS_ONLY, HEADS
from pipelines.benchmarks.results import Key, count_of, filled, section, with_interval, with_our_rows, without_interval
from pipelines.benchmarks.tables import Table, TableRow

_TASKS: Final = {
    "crossmodal": "Cross-modal",
    "img2txt": "Img2Txt",
    "txt2img": "Txt2Img",
    "unimodal": "Unimodal",
    "img2img": "Img2Img",
    "txt2txt": "Txt2Txt",
}
_COORDS_SECTION: Final = "Section 6.2"


def extra_tables(mate: MateResults) -> list[Table]:
    """Lay out the tables for which there is any number of ours."""
    tables = (_reading_table(mate), _coords_table(mate), _shots_table(mate), _pointer_table(mate))
    return with_our_rows(tables)


def _reading_table(mate: MateResults) -> Table:
    """Lay out what the strict reading of answers costs, and what failures would."""
    heads = {
        "exact_match": "Strict",
        "exact_match_lenient": "Lenient",
        "format_ok": "JSON read",
        "exact_match_failures_wrong": "Failures as wrong",
    }
    counts = {"errors": "Failed", "no_json_count": "No JSON", "truncated_count": "Cut"}
    rows: list[TableRow] = []
    for task in ("img2txt", "txt2img", "img2img", "txt2txt"):
        block = []
        for model, setting in _models_by_setting(mate, task):
            numbers = [mate.find(model, Key(metric, task), setting) for metric in heads]
            sums = [count_of(mate.find(model, Key(metric, task), setting)) for metric in counts]
            answers = numbers[0].n if numbers[0] is not None else None
            values = (number and number.value for number in numbers)
            block.append(TableRow(label=f"{model}, {setting}", cells=(*values, *sums, answers)))
        rows += section(_TASKS[task], block)
    return Table(
        id="mate_reading",
        title="MATE: parsing of answers",
        columns=(*heads.values(), *counts.values(), "Answers"),
        rows=tuple(rows),
        style="percent1",
        notes=(
            (
                "Strict is the benchmark's own parser and the headline. Lenient accepts other quotes, spacing, case, a"
                " missing brace and other last digits of a number; no other table uses it."
            ),
            "Failed requests are not in the denominator; the fourth column counts them as wrong.",
        ),
    )


def _models_by_setting(mate: MateResults, task: str) -> Iterator[tuple[str, str]]:
    for key in mate.results.ours:
        if key._replace(model="", setting="") == accuracy(task):
            yield key.model, key.setting


def _coords_table(mate: MateResults) -> Table:
    """Lay out what is answered where only coordinates link the object."""
    heads = {
        "pct_correct_given_noncoord_match": "Right among all alike but for coordinates",
        "pct_noncoord_mismatch": "Differs in more than coordinates",
        "pct_closer_than_average": "Nearer than its like",
    }
    keys = [Key(metric, "crossmodal", category=COORDS_ONLY) for metric in heads]
    published = [
        TableRow(
            label=f"{model}, published",
            cells=(*(without_interval(mate.printed(_COORDS_SECTION, model, key)) for key in keys), None, None),
            origin="published",
        )
        for model in mate.published_models(_COORDS_SECTION)
    ]
    ours = [
        TableRow(
            label=mate.label(model),
            cells=(
                *(with_interval(number) for number in numbers),
                _share_without_like(mate, model),
                count_of(mate.find(model, Key("in_scene_without_object", "crossmodal"))),
            ),
        )
        for model in mate.models
        if any(numbers := [mate.find(model, key) for key in keys])
    ]
    return Table(
        id="mate_coords_only",
        title="MATE section 6.2: answers where only coordinates link the object",
        columns=(*heads.values(), "Without a like", "In scene, no object"),
        rows=(*filled(published), *ours),
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
            *mate.notes(),
        ),
    )


def _share_without_like(mate: MateResults, model: str) -> float | None:
    parts = [
        number
        for label in ("2", "1", "0")
        if (number := mate.find(model, Key("alone_of_its_overlap", "crossmodal", category=f"overlap={label}")))
    ]
    n = sum(part.n or 0 for part in parts)
    return sum((part.value or 0.0) * (part.n or 0) for part in parts) / n if n else None


def _shots_table(mate: MateResults) -> Table:
    """Lay out accuracy with and without a solved example on the very object of the question."""
    rows: list[TableRow] = []
    for task in ("txt2img", "txt2txt"):
        keys = [accuracy(task, f"shot_shows_target={shows}") for shows in ("true", "false")]
        block = [
            TableRow(
                label=f"{model}, {setting}", cells=tuple(with_interval(mate.find(model, key, setting)) for key in keys)
            )
            for model, setting in _models_by_setting(mate, task)
        ]
        rows += section(_TASKS[task], filled(block))
    return Table(
        id="mate_shots",
        title="MATE: accuracy where a solved example is about the target object",
        columns=("It is", "It is not"),
        rows=tuple(rows),
        style="percent1",
        notes=("Such examples show the target attribute itself; they occur where the pointer is in the text.",),
    )


def _pointer_table(mate: MateResults) -> Table:
    rows: list[TableRow] = []
    heads = list(HEADS.values())
    for model in mate.models:
        for task in ("img2txt", "txt2img", "img2img", "txt2txt"):
            block = []
            for pointer in heads:
                whole = mate.find(model, accuracy(task, f"pointer={pointer}"))
                if whole is None:
                    continue
                targets = [mate.find(model, accuracy(task, f"pointer={pointer} target={target}")) for target in heads]
                cells = (*(number and number.value for number in targets), with_interval(whole))
                block.append(TableRow(label=pointer, cells=cells))
            rows += section(f"{mate.label(model)}, {_TASKS[task]}", block)
    return Table(
        id="mate_pointers",
        title="MATE: accuracy by pointer (rows) and target attribute (columns)",
        label_head="Pointer",
        columns=(*heads, "All"),
        rows=tuple(rows),
        style="percent1",
        heat=(0.0, 1.0),
    )
